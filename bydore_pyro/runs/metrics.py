"""What `metrics.json` and results tell: what was found, what it cost, where it comes from."""

from __future__ import annotations

import dataclasses
import itertools
import math
import resource
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from bydore_pyro.analysis import jitter, search_guide_fit
from bydore_pyro.data import Domains
from bydore_pyro.mixture import Mixture
from bydore_pyro.proxy import Cost
from bydore_pyro.runs.answers import Answer
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
)
from bydore_pyro.search import MatchingSearch, SearchState
from bydore_pyro.utils import provenance

__all__ = [
    "learning_of",
    "matching_record",
    "peak_memory_megabytes",
    "results_of",
    "run_epochs",
    "search_metrics",
    "spent",
]

# Nats per token by which a proxy's loss must lie below that of a uniform prediction, ln V. Proxies
# that had hardly moved, or had diverged, ended at ln V or above; 20 steps came 0.4 below it.
LEARNED_MARGIN = 0.1
PLACES = ("out", "cache", "tables")  # options that only say where something lies
LAST = 10  # losses of a search by linear evidence, each of a small batch, are averaged over as many


def learning_of(state: SearchState, checkpoint: str | None = None) -> Learning:
    """Returns whether the proxy, or the checkpoint that was measured, has learned anything by the
    end of a search; nothing where no loss was measured.

    Gradients of a proxy that predicts no better than by chance, ``ln V`` nats per token, tell
    nothing of the text, and the weights found from them mean nothing.
    """
    last = 1 if isinstance(state, MatchingSearch) else LAST
    losses = [record.validation_loss for record in state.records[-last:]]
    if not losses or not all(map(math.isfinite, losses)):
        return Learning()
    loss, uniform = float(np.mean(losses)), math.log(state.domains.corpus.vocabulary)
    whose, advice = "the proxy", "more --steps or another --learning_rate may help"
    if checkpoint is not None:
        whose, advice = "the model", "measure a later checkpoint"
    warning = "" if loss < uniform - LEARNED_MARGIN else (
        f"The weights mean nothing: {whose} has not learned. Its validation loss ended at "
        f"{loss:.2f} nats per token, a uniform prediction has {uniform:.2f}, and less than "
        f"{uniform - LEARNED_MARGIN:.2f} was expected: {advice}"
    )  # fmt: skip
    return Learning(validation_loss=loss, uniform_loss=uniform, warning=warning)


def results_of(
    content: Mapping[str, Any], options: Any, seed: int, cost: Cost, more: Sequence[str] = ()
) -> dict[str, Any]:
    """Returns results with their origin, which every file of results carries: `seed` (the first),
    `config` (the options by part, without those that say where something lies), `cost` (tokens,
    FLOPs and seconds, in all and by part), `versions` (of more packages too), `commit`."""
    config = {
        part: {name: value for name, value in values.items() if name not in PLACES}
        for part, values in dataclasses.asdict(options).items()
    }
    origin = {"seed": seed, "config": config, "cost": cost.report(), **provenance(more)}
    return {**content, **origin}


def spent(cost: Cost) -> Spent:
    """Returns what a counter counted, as the record tells it."""
    report = cost.report()
    parts = {name: Spent(**part) for name, part in report["parts"].items()}
    return Spent(**{**report, "parts": parts})


def search_metrics(options: Options, found: Answer) -> Metrics:
    """Returns what a search cost and what it reached."""
    state = found.state
    means = np.stack([record.mean for record in state.records])
    return Metrics(
        seed=options.run.seed,
        mixture_sha256=found.mixture.sha256,
        steps=len(state.records),
        search=spent(state.proxy.cost),
        jitter_second_half=jitter(means[len(means) // 2 :]),
        last_weights=_by_name(state, state.records[-1].mean),
        learning=learning_of(state, options.run.checkpoint),
        matching=matching_record(state),
        trials=TrialRecord() if found.trials is None else found.trials.record(),
        guide_fit=_guide_record(found),
        run_tokens=options.run_tokens,
        run_epochs=run_epochs(options, state.domains, found.mixture),
        peak_memory_megabytes=peak_memory_megabytes(),
        device=str(options.device),
        threads=torch.get_num_threads(),
        **provenance(),
    )


def _guide_record(found: Answer) -> GuideRecord:
    """Returns how the draws of the guide fare; nothing of a point."""
    if found.posterior is None:
        return GuideRecord()
    if not isinstance(found.state, MatchingSearch):
        return GuideRecord(**dataclasses.asdict(search_guide_fit(found.state)))
    noted = found.posterior["posterior"].attrs
    return GuideRecord(
        khat=float(noted["khat"]),
        effective_draws=float(noted["effective_draws"]),
        draws=int(noted["weighed_draws"]),
        corrected=bool(noted["corrected"]),
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


def run_epochs(options: Options, domains: Domains, mixture: Mixture) -> dict[str, float]:
    """Returns how many times a run on a mixture reads the text of each domain."""
    once = domains.most_weights(1.0, options.run_tokens)
    for pool, shares in domains.pools.items():
        once |= {name: share * once[pool] for name, share in shares.items()}
    return {name: weight / once[name] for name, weight in mixture.as_dict().items()}


def peak_memory_megabytes() -> int:
    """Returns the most memory that this process has held."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # kB, bytes on macOS
    return round(peak / (1024**2 if sys.platform == "darwin" else 1024))
