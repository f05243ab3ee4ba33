"""A search by gradient matching: measure, read the target, draw, try, answer."""

from __future__ import annotations

import dataclasses
import shutil
import statistics
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bydore_pyro import core, data, files, measure, setup, terminal
from bydore_pyro.errors import listed
from bydore_pyro.law import PER_TOKEN
from bydore_pyro.proxy import GradientSketch, Proxy, proxy_content, restore_proxy
from bydore_pyro.search.algorithm1 import search_by_linear_evidence
from bydore_pyro.search.trials import TrialPlan, answered, trial_plan

TRIALS = "trials"


def search(
    options: setup.Options,
    domains: data.Domains,
    folder: files.RunFolder,
    name: str,
    plan: TrialPlan | None = None,
    *,
    keep: bool = True,
) -> setup.Found:
    """Runs the search behind a progress bar, with checkpoints, and writes what it found.

    Where it breaks off, no mixture is written, and the run can be continued. Where the question has
    no answer, the weights are those for the mean. The trials after it
    are those of the plan; without one, those that the options ask for. With `keep` the folder keeps
    what was measured, for `bydore ask`.

    Raises:
        DataError: When the tokens change while they are read.
        Interrupted: On Ctrl-C or SIGTERM; a checkpoint of the last step was saved.
        NonFiniteError: When a loss or a gradient is NaN or infinite.
        OSError: When the disk is full; the last checkpoint stays.
        RunFolderError: When the run that is continued has other options than it was begun with, or
            the folder is deleted, moved or replaced meanwhile.
    """
    if options.run.evidence == "linear":
        return search_by_linear_evidence(options, domains, folder, name)
    seed, question = options.run.seed, setup.question_of(options, domains)
    proxy = setup.proxy_of(options, domains)  # nothing is written without
    sketch = GradientSketch(proxy, options.search.sketch_size, seed)
    setup.write_inputs(folder, options, domains.corpus, name)
    setup.tell_cautions(options, domains)
    if plan is None:
        plan = trial_plan(options, domains, folder.path / TRIALS)
    cost = proxy.cost
    drive = setup.Drive(
        folder=folder,
        options=options,
        domains=domains,
        parallel=proxy.parallel,
        total=0 if options.run.checkpoint else options.search.steps,
        content=lambda: proxy_content(proxy, domains),
    )
    with setup.broken_off(drive, cost):
        measured = _measured(options, domains, sketch, proxy, drive)
        branches = _branches(options, domains, proxy, folder, measured[-1])
        terminal.tell("measured; next: the target, the posterior (it may take minutes), the answer")
        # Anew, where a search goes on too: all processes read, and what it costs is the same.
        targets = setup.targets_of(
            sketch, measured, domains, seed, branches, anew=True, with_guide=True
        )
        if not targets.drawn.convergence.settled:
            terminal.tell(
                "warning: the draws of the posterior have not settled: intervals are rough"
            )
        check, last, match = None, targets.rounds[-1], targets.gradients
        if options.search.check_sequences:
            # On fresh text, at the parameters of the last measurement, which the model still has.
            with cost.part("check"):
                check = measure.check_residual(
                    domains,
                    sketch,
                    last.residual(match, measured[-1]),
                    match.weights,
                    core.covariance_of([last.evidence], match.optimum),
                    1 / float(last.evidence.gram.diagonal().clamp(min=0).sum()),
                )
        known = setup.search_readings(options, measured)
        given = targets, known, plan, cost
        try:
            answer, readings = answered(question, *given, seed=seed)
        except ValueError as error:  # what was measured is not lost for it
            if question.goal.objective == "mean":
                raise
            guards = " and keep no --guard" if question.guards else ""
            line = (
                f"{error}. The weights are for --objective mean{guards}; bydore ask takes another"
            )
            terminal.tell(f"warning: {line}")
            mean = dataclasses.replace(question.goal, objective="mean", baseline=None)
            notes = (f"{line}.", *question.notes)
            question = dataclasses.replace(question, goal=mean, notes=notes)
            answer, readings = answered(question, *given, seed=seed)
        losses = tuple(one.loss for one in targets.rounds)
        loaded = options.run.checkpoint is not None
        metrics = setup.common_metrics(
            *(options, domains, answer, cost, targets, check, targets.drawn.fit),
            steps=measured[-1].step,
            learning=setup.learning_of(
                _nats_per_token(targets, measured[-1]), domains.corpus.vocabulary, checkpoint=loaded
            ),
            measured=tuple(one.sha256 for one in measured) if keep else (),
            branches=tuple(one.sha256 for one in branches) if keep else (),
        )
        if folder.writes:
            folder.write_text(measure.READINGS, measure.readings_text(readings))
        setup.leave_explorer(folder, options, domains, question, answer)
        setup.leave_answer(folder, answer, metrics)
    if not keep and folder.writes:
        for kind in (measure.MEASURED, measure.BRANCH):
            for path in folder.path.glob(f"{kind}-*"):
                shutil.rmtree(path)
    weights = np.array([list(one.weights.values()) for one in metrics.matching.rounds])
    return setup.Found(answer, metrics, proxy, weights, losses)


def _branches(
    options: setup.Options,
    domains: data.Domains,
    proxy: Proxy,
    folder: files.RunFolder,
    last: measure.Measurement,
) -> list[measure.Branch]:
    """Trains the branches of the last measurement; none where the options ask for none, of two
    domains, or where the proxy does not train."""
    config, count = options.search, domains.num_domains
    if not config.number_of_branches(count) or not proxy.config.learning_rate:
        return []
    batch, steps = config.batch_sequences, config.steps_of_branch
    least = dict(zip(domains.names, domains.trained() / (batch * steps), strict=True))
    if again := [f"{name} {1 / share:.1f} times" for name, share in least.items() if share < 1]:
        terminal.tell(f"a branch reads the text of small domains again: {listed(again, 5)}")
    return measure.measure_branches(
        domains,
        proxy,
        last,
        most=config.branches,
        steps=steps,
        batch_sequences=batch,
        sequences=config.sequences_of_branches(count),
        seed=options.run.seed,
        cluster=options.run.cluster,
        folder=folder.path,
        belongs=setup.branches_belong_of(options, domains),
    )


def _nats_per_token(targets: setup.Targets, last: measure.Measurement) -> float | None:
    """Returns the loss of the targets where the proxy was measured last; where some are tasks, that
    of the domains; None where no domain has held-out text either."""
    if all(text.unit == PER_TOKEN for text in targets.texts.values()):
        return targets.rounds[-1].loss
    return statistics.fmean(last.held_out.values()) if last.held_out else None


def _measured(
    options: setup.Options,
    domains: data.Domains,
    sketch: GradientSketch,
    proxy: Proxy,
    drive: setup.Drive,
) -> list[measure.Measurement]:
    """Trains the proxy and measures on the way; or measures a checkpoint, once."""
    config, folder, belongs = options.search, drive.folder, setup.belongs_of(options, domains)
    each, cluster = config.sequences_of_round(domains.num_domains), options.run.cluster
    found: list[measure.Measurement] = []

    def keep(measured: measure.Measurement) -> None:
        if folder.writes:
            measured = measure.keep_measurement(folder.path, len(found) + 1, measured, belongs)
        found.append(measured)

    if options.run.checkpoint is not None:
        with proxy.cost.part("gradients"):
            keep(measure.measure(sketch, domains, each, 0, cluster=cluster))
        return found
    content = drive.restored()
    if content is not None:
        done = content["proxy"]["steps"]
        kept = [one for one in measure.read_measurements(folder.path, belongs) if one.step <= done]
        if len(kept) == sum(step <= done for step in config.measured_steps):
            restore_proxy(proxy, domains, content)
            drive.done, found = done, kept
        else:  # a search below another run leaves none
            terminal.tell("the measurements are gone: beginning anew")

    def steps() -> Iterator[str]:
        seed = options.run.seed
        for step in measure.measured_training(
            domains, proxy, sketch, config, seed=seed, cluster=cluster
        ):
            if step.measured is not None:
                keep(step.measured)
            yield f"training loss {step.loss:.3f}"

    def round_is_next(done: int) -> str:
        if done + 1 not in config.measured_steps:
            return ""
        number = config.measured_steps.index(done + 1) + 1
        return (
            f"round {number} of {config.rounds}: measuring the gradients of "
            f"{domains.num_domains} domains"
        )

    drive.take(steps(), round_is_next)
    return found


def search_in(
    options: setup.Options,
    corpus: data.TokenStore,
    path: Path,
    name: str,
    plan: TrialPlan | None = None,
) -> setup.Found:
    """Runs a search in a folder below another run's, or goes on with the search that is there."""
    parallel = setup.processes(options)
    folder = files.RunFolder(path, resume=(path / "config.json").exists(), writes=parallel.is_main)
    parallel.wait()  # nobody writes before everybody has seen what is there
    domains = setup.domains_of(options, corpus, options.run.seed, search=True)
    found = search(options, domains, folder, name, plan, keep=False)
    parallel.wait()  # until everybody can read it
    return found
