"""What a search found, as the files of its run folder."""

from __future__ import annotations

import dataclasses
import itertools
import math
import resource
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from bydore_pyro.analysis import jitter, plot_weights, search_guide_fit, trajectory_of
from bydore_pyro.data import Domains
from bydore_pyro.mixture import Mixture, length_file
from bydore_pyro.proxy import Cost
from bydore_pyro.runs.answers import Answer, answers_of, guide_record, length_record
from bydore_pyro.runs.options import Options
from bydore_pyro.runs.record import (
    Check,
    GuideRecord,
    Inferred,
    Learning,
    MatchingRecord,
    Metrics,
    RoundRecord,
    Spent,
    TrialRecord,
    read_as,
)
from bydore_pyro.runs.trials import TrialPlan, Trials
from bydore_pyro.search import MatchingSearch, RunLength, SearchState
from bydore_pyro.utils import RunFolder, provenance

if TYPE_CHECKING:
    import arviz

__all__ = [
    "Found",
    "learning_of",
    "matching_record",
    "peak_memory_megabytes",
    "results_of",
    "run_epochs",
    "search_metrics",
    "spent",
    "write_search",
]

# Nats per token by which a proxy's loss must lie below that of a uniform prediction, ln V. Proxies
# that had hardly moved, or had diverged, ended at ln V or above; 20 steps came 0.4 below it.
LEARNED_MARGIN = 0.1
PLACES = ("out", "cache", "tables")  # options that only say where something lies
LAST = 10  # losses of a search by linear evidence, each of a small batch, are averaged over as many


@dataclass(frozen=True)
class Found:
    """A finished search and its mixture; the posterior is None where there is none.

    Where `--target_tokens` names lengths of runs there is an answer for each, and the mixture and
    its posterior are those of the first.
    """

    state: SearchState
    answers: tuple[Answer, ...]
    trials: Trials | None = None

    @property
    def mixture(self) -> Mixture:
        """The weights."""
        return self.answers[0].mixture

    @property
    def posterior(self) -> arviz.InferenceData | None:
        """Draws of them."""
        return self.answers[0].posterior

    @property
    def lengths(self) -> list[tuple[RunLength, Answer]]:
        """The answers for runs of given lengths."""
        return [(one.run, one) for one in self.answers if one.run is not None]


def write_search(
    state: SearchState, options: Options, folder: RunFolder, plan: TrialPlan | None = None
) -> Found:
    """Makes the trials that are planned, and writes what a finished search found: mixture,
    trajectory, and the posterior's draws and picture."""
    answers, trials = answers_of(state, options, plan)
    found = Found(state, tuple(answers), trials)
    for run, one in found.lengths:
        folder.write_text(length_file(run.tokens), one.mixture.to_json() + "\n")
    folder.write_text("mixture.json", found.mixture.to_json() + "\n")
    if found.posterior is not None:
        folder.write_posterior("posterior.nc", found.posterior)
        folder.write_figure("posterior.png", plot_weights(found.mixture))
    folder.write_dataset("trajectory.nc", trajectory_of(state))
    return found


def learning_of(state: SearchState) -> Learning:
    """Returns whether the proxy has learned anything by the end of a search; nothing where no loss
    was measured.

    Gradients of a proxy that predicts no better than by chance, ``ln V`` nats per token, tell
    nothing of the text, and the weights found from them mean nothing.
    """
    last = 1 if isinstance(state, MatchingSearch) else LAST
    losses = [record.validation_loss for record in state.records[-last:]]
    if not losses or not all(map(math.isfinite, losses)):
        return Learning()
    loss, uniform = float(np.mean(losses)), math.log(state.domains.corpus.vocabulary)
    warning = "" if loss < uniform - LEARNED_MARGIN else (
        "The weights mean nothing: the proxy has not learned. Its validation loss ended at "
        f"{loss:.2f} nats per token, a uniform prediction has {uniform:.2f}, and less than "
        f"{uniform - LEARNED_MARGIN:.2f} was expected: more --steps or another --learning_rate "
        "may help"
    )  # fmt: skip
    return Learning(validation_loss=loss, uniform_loss=uniform, warning=warning)


def results_of(
    content: Mapping[str, Any], options: Any, seed: int, cost: Cost, more: Sequence[str] = ()
) -> dict[str, Any]:
    """Returns results with their origin, which every file of results carries.

    Args:
        content: The results.
        options: A dataclass whose fields are dataclasses of options.
        seed: The first of the seeds, where there are several.
        cost: What the results took.
        more: Packages that matter here, as of `bydore_pyro.utils.provenance`.

    Returns:
        The content, then `seed`, `config` (the options by part, without those that say where
        something lies), `cost` (tokens, FLOPs and seconds, in all and by part), `versions`,
        `commit`.
    """
    config = {
        part: {name: value for name, value in values.items() if name not in PLACES}
        for part, values in dataclasses.asdict(options).items()
    }
    origin = {"seed": seed, "config": config, "cost": cost.report(), **provenance(more)}
    return {**content, **origin}


def spent(cost: Cost) -> Spent:
    """Returns what a counter counted, as the record tells it."""
    return read_as(Spent, cost.report())


def search_metrics(options: Options, found: Found) -> Metrics:
    """Returns what a search cost and what it reached."""
    state = found.state
    means = np.stack([record.mean for record in state.records])
    guide = GuideRecord()
    if found.posterior is not None and isinstance(state, MatchingSearch):
        guide = guide_record(found.posterior)
    elif found.posterior is not None:
        guide = GuideRecord(**dataclasses.asdict(search_guide_fit(state)))
    lengths = [
        length_record(run, one, state, run_epochs(options, state.domains, one.mixture, run.tokens))
        for run, one in found.lengths
    ]
    return Metrics(
        seed=options.run.seed,
        mixture_sha256=found.mixture.sha256,
        steps=len(state.records),
        search=spent(state.proxy.cost),
        jitter_second_half=jitter(means[len(means) // 2 :]),
        last_weights=_by_name(state, state.records[-1].mean),
        learning=learning_of(state),
        matching=matching_record(state),
        trials=TrialRecord() if found.trials is None else found.trials.record(),
        guide_fit=guide,
        lengths=tuple(lengths),
        run_tokens=options.run_tokens,
        run_epochs=run_epochs(options, state.domains, found.mixture),
        peak_memory_megabytes=peak_memory_megabytes(),
        device=str(options.device),
        threads=torch.get_num_threads(),
        **provenance(),
    )


def matching_record(state: SearchState) -> MatchingRecord:
    """Returns what the rounds of a search found; nothing of one by linear evidence."""
    if not isinstance(state, MatchingSearch):
        return MatchingRecord()
    found, inference, check = state.matching, Inferred(), Check()
    if state.inference is not None:
        inference = Inferred(steps=state.inference.steps, settled=state.inference.settled)
    if state.check is not None:
        names = state.domains.names
        check = Check(
            slopes=_by_name(state, state.check.slopes),
            errors=_by_name(state, state.check.errors),
            failing=tuple(itertools.compress(names, state.check.failing)),
        )
    width = found.covariance.diagonal() / found.covariance_by_sequence.diagonal()
    rounds = [
        RoundRecord(
            step=one.step,
            sequences=int(one.sequences.sum()),
            validation_loss=one.validation_loss,
            unexplained=one.unexplained,
            scale=one.scale,
            weights=_by_name(state, one.weights),
            alone=_by_name(state, one.alone),
        )
        for one in state.rounds
    ]
    return MatchingRecord(
        unexplained=found.unexplained,
        scale=found.scale,
        by_document_over_by_sequence=float(width.sqrt().median()),
        rounds=tuple(rounds),
        inference=inference,
        check=check,
    )


def _by_name(state: SearchState, values: Any) -> dict[str, float]:
    return dict(zip(state.domains.names, (float(v) for v in values), strict=True))


def run_epochs(
    options: Options, domains: Domains, mixture: Mixture, tokens: float | None = None
) -> dict[str, float]:
    """Returns how many times a run on a mixture reads the text of each domain; `tokens` is the
    run's length where it is not the options' first."""
    once = domains.most_weights(1.0, tokens or options.run_tokens)
    return {name: weight / once[name] for name, weight in mixture.as_dict().items()}


def peak_memory_megabytes() -> int:
    """Returns the most memory that this process has held."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # kB, bytes on macOS
    return round(peak / (1024**2 if sys.platform == "darwin" else 1024))
