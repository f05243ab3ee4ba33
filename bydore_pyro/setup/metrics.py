"""What `metrics.json` and results hold: what was found, what it cost, where it comes from."""

from __future__ import annotations

import dataclasses
import math
import resource
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from bydore_pyro import answer, core, data, files, measure, proxy
from bydore_pyro.mixture import Mixture, by_name
from bydore_pyro.setup.options import Options
from bydore_pyro.setup.record import (
    Learning,
    MatchingRecord,
    Metrics,
    RoundRecord,
)
from bydore_pyro.setup.targets import Targets, composition

# Nats per token by which a proxy's loss must lie below that of a uniform prediction, ln V. Proxies
# that had hardly moved, or had diverged, ended at ln V or above; 20 steps came 0.4 below it.
LEARNED_MARGIN = 0.1
PLACES = ("out", "cache", "tables")  # options that only say where something lies


def learning_of(loss: float | None, vocabulary: int, *, checkpoint: bool = False) -> Learning:
    """Returns whether a proxy, or a checkpoint that was measured, has learned anything.

    Gradients of a proxy that predicts no better than by chance, ``ln V`` nats per token, say
    nothing of the text, and the weights found from them mean nothing.

    Args:
        loss: Of held-out text at the end, nats per token; None where there is none.
        vocabulary: ``V``.
        checkpoint: Whether it was trained elsewhere.
    """
    uniform = math.log(vocabulary)
    whose, advice = "the proxy", "more --steps or another --learning_rate may help"
    if checkpoint:
        whose, advice = "the model", "measure a later checkpoint"
    warning = (
        ""
        if loss is None or loss < uniform - LEARNED_MARGIN
        else (
            f"The weights mean nothing: {whose} has not learned. Its validation loss ended at "
            f"{loss:.2f} nats per token, a uniform prediction has {uniform:.2f}, and less than "
            f"{uniform - LEARNED_MARGIN:.2f} was expected: {advice}"
        )
    )
    return Learning(validation_loss=loss, warning=warning)


def results_of(
    content: Mapping[str, Any], options: Any, seed: int, cost: proxy.Cost, more: Sequence[str] = ()
) -> dict[str, Any]:
    """Returns results with their origin, which every file of results carries: `seed` (the first),
    `config` (the options by part, without places), `cost` (tokens, FLOPs and seconds, in all and by
    part), `versions` (of more packages too), `commit`."""
    config = {
        part: {name: value for name, value in values.items() if name not in PLACES}
        for part, values in dataclasses.asdict(options).items()
    }
    origin = {"seed": seed, "config": config, "cost": cost.report(), **files.provenance(more)}
    return {**content, **origin}


def common_metrics(
    options: Options,
    domains: data.Domains,
    found: answer.Answer,
    cost: proxy.Cost,
    targets: Targets | None = None,
    check: measure.ResidualCheck | None = None,
    fit: core.GuideFit | None = None,
    **more: Any,
) -> Metrics:
    """Returns the record of a search or an answer, with further fields; what is known of `targets`
    and of a check by matching alone, of a guide's fit by a search."""
    if targets is not None:
        names, rounds = domains.names, targets.rounds
        more["matching"] = MatchingRecord(
            unexplained=targets.found.unexplained,
            responses=targets.found.left_out is not None,
            scale=targets.found.scale,
            rounds=tuple(_round_record(names, rounds[: n + 1]) for n in range(len(rounds))),
            draws=targets.drawn.convergence,
            check=check or measure.ResidualCheck(),
        )
        more["targets"] = targets.records()
    return Metrics(
        seed=options.run.seed,
        mixture_sha256=found.mixture.sha256,
        search=cost.spent(),
        trials=found.tried,
        outlook=found.outlook or answer.Outlook(),
        sums=found.sums,
        guide_fit=fit,
        run_tokens=options.run_tokens,
        run_epochs=run_epochs(options, domains, found.mixture),
        peak_memory_megabytes=peak_memory_megabytes(),
        device=str(options.device),
        threads=torch.get_num_threads(),
        **files.provenance(),
        **more,
    )


def _round_record(names: Sequence[str], rounds: Sequence[measure.TargetMeasurement]) -> RoundRecord:
    """Returns what the last of some rounds found, alone and with those before it."""
    last = rounds[-1]
    found, alone = composition(rounds), composition([last])
    return RoundRecord(
        step=last.step,
        sequences=last.sequences,
        validation_loss=last.loss,
        unexplained=found.unexplained,
        scale=found.scale,
        weights=by_name(names, found.weights),
        alone=by_name(names, alone.weights),
    )


def run_epochs(options: Options, domains: data.Domains, mixture: Mixture) -> dict[str, float]:
    """Returns how many times a run on a mixture reads the text of each domain."""
    once = domains.most_weights(1.0, options.run_tokens)
    for pool, shares in domains.pools.items():
        once |= {name: share * once[pool] for name, share in shares.items()}
    return {name: weight / once[name] for name, weight in mixture.as_dict().items()}


def peak_memory_megabytes() -> int:
    """Returns the most memory that this process has held."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # kB, bytes on macOS
    return round(peak / (1024**2 if sys.platform == "darwin" else 1024))
