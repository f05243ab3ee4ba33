"""A search by linear evidence, Algorithm 1, in its run folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from bydore_pyro import algorithm1, data, files, mixture, setup, terminal
from bydore_pyro.law import PER_TOKEN

LAST = 10  # losses of small batches that are averaged


def search_by_linear_evidence(
    options: setup.Options,
    domains: data.Domains,
    folder: files.RunFolder,
    name: str,
    learner: Callable[[int], algorithm1.WeightsLearner] | None = None,
) -> setup.Found:
    """Runs Algorithm 1 as `bydore_pyro.search.matching` runs a search.

    The steps until it breaks off are written. A `learner` in place of the posterior is made for K
    domains.

    Raises:
        ValueError: When `guide_warmup` leaves no step; and see `search`.
    """
    seed, config, question = options.run.seed, options.search, setup.question_of(options, domains)
    state = algorithm1.LinearSearch.begin(
        domains,
        setup.proxy_of(options, domains),  # nothing is written without
        options.linear,
        steps=config.steps,
        batch_sequences=config.batch_sequences,
        seed=seed,
        learner=None if learner is None else learner(domains.num_domains),
    )
    setup.write_inputs(folder, options, domains.corpus, name)
    setup.tell_cautions(options, domains)
    cost = state.proxy.cost
    drive = setup.Drive(
        folder=folder,
        options=options,
        domains=domains,
        parallel=state.proxy.parallel,
        total=config.steps,
        content=state.content,
    )
    with setup.broken_off(drive, cost):
        if (content := drive.restored()) is not None:
            state.restore(content)
            drive.done = len(state.records)
        try:
            drive.take(_steps(state), lambda done: "")
        finally:
            if state.records and folder.writes:
                folder.write_dataset("trajectory.nc", algorithm1.trajectory_of(state))
        terminal.tell("the last step is done; next: the posterior, the answer")
        with cost.part("guide"):
            answer = algorithm1.averaged_answer(state, question)
        means = np.stack([one.mean for one in state.records])
        losses = tuple(one.validation_loss for one in state.records)
        fit = None
        if isinstance(state.learner, algorithm1.BayesianLearner):
            fit = algorithm1.search_guide_fit(state, state.learner)
        tasks = any(text.unit != PER_TOKEN for text in domains.targets.values())
        read = [one.train_loss if tasks else one.validation_loss for one in state.records]
        last = float(np.mean(read[-LAST:]))  # nats per token
        metrics = setup.common_metrics(
            *(options, domains, answer, cost),
            steps=len(means),
            jitter_second_half=mixture.jitter(means[len(means) // 2 :]),
            learning=setup.learning_of(last, domains.corpus.vocabulary),
            fit=fit,
        )
        found = setup.Found(answer, metrics, state.proxy, means, losses)
        setup.leave_explorer(folder, options, domains, question, answer)
        setup.leave_answer(folder, answer, metrics)
        if isinstance(state.learner, algorithm1.BayesianLearner) and folder.writes:
            folder.write_tensors("guide.safetensors", state.learner.guide.state_dict())
    return found


def _steps(state: algorithm1.LinearSearch) -> Iterator[str]:
    names = state.domains.names
    while len(state.records) < state.steps:
        record = state.step()
        leading = sorted(zip(-record.mean, names, strict=True))[:3]
        shown = ", ".join(f"{name} {-weight:.2f}" for weight, name in leading)
        yield f"validation {record.validation_loss:.3f}, {shown}"
