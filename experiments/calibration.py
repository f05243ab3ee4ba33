"""Do the intervals hold the truth? Simulation-based calibration of a search by matching."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from calibration_pools import SKETCHING, pools_of
from calibration_posterior import (
    bands,
    intervals,
    is_uniform,
    joint_ranks,
    ranks,
    shares_below,
)
from calibration_tables import results_table
from calibration_targets import COUNTINGS, DESIGNS, KINDS, REGIMES, Target, split, targets_of
from common import drawn_by, run_main
from torch import Tensor
from tqdm import tqdm

from bydore_pyro.core import (
    CONCENTRATIONS,
    Matching,
    central_weights,
    exact_draws,
    guide_draws,
)
from bydore_pyro.data import Domains
from bydore_pyro.proxy import Cost
from bydore_pyro.runs import Options, begin_run, load_domains, results_of
from bydore_pyro.search import MatchingPosterior
from bydore_pyro.utils import RunFolder, option, require_fields, tell

ABOUT = """Make many validation sets of known shares, infer the weights of each from the evidence
that gradient matching would have, and count how often the intervals contain the shares. The shares
are drawn from Dirichlet(1), or are sparse as in plants.py. The text comes from the
measured documents (but other sequences), or from other documents. It is taken in proportion to the
shares, or by whole documents. One proxy is trained on equal weights, and the gradients of all text
are sketched once at each of its checkpoints; the targets are drawn from these. The posteriors are
sampled exactly, and for a few targets also from where a guide is, as in a search. Beside them stand
the posteriors under the flat prior."""

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.94)
CHAINS, DRAWS = 40, 25  # of a posterior, and of each chain
FLAT = (1.0,)  # Dirichlet(1)
SMOKE = {
    "domain_megabytes": 0.2,
    "validation_fraction": 0.5,
    "targets": 4,
    "splits": 2,
    "same_documents": 16,
    "other_documents": 16,
    "by_guide": 1,
}


@dataclass(frozen=True, kw_only=True)
class CalibrationConfig:
    """How many targets, of what."""

    targets: int = option(300, "Number of targets of each kind.", least=2, most=10_000)
    splits: int = option(
        6,
        "Number of random selections of the measured sequences, which the targets share.",
        least=1,
        most=10_000,
    )
    same_documents: int = option(
        192,
        "Sequences of each domain from which targets of the same documents are drawn.",
        least=2,
        most=10_000,
    )
    other_documents: int = option(
        200,
        "Held-out sequences of each domain from which targets of other documents are drawn.",
        least=2,
        most=10_000,
    )
    by_guide: int = option(
        8,
        "Number of targets whose posterior is also found by a guide, as in a search.",
        least=0,
        most=10_000,
    )

    def __post_init__(self) -> None:
        require_fields(self)


@dataclass(frozen=True, kw_only=True)
class CalibrationOptions(Options):
    """The options of a search and of its calibration."""

    calibration: CalibrationConfig


def calibration(options: CalibrationOptions, resume: Path | None) -> None:
    """Sketches, makes targets, draws from their posteriors, counts."""
    folder = begin_run(options, "calibration", resume)
    domains = load_domains(options)
    if resume is None:
        folder.write_config("calibration", options.as_dict(), tell)
    targets, documents = all_targets(options, domains, folder)
    counted = folder.once("cells.json", lambda: {"cells": plain(cells_of(targets))})
    count = options.calibration.targets
    results = {
        "domains": list(domains.names),
        "documents": documents,
        "targets": count,
        "levels": LEVELS,
        "bands": dict(zip(("points", "lower", "upper"), bands(count), strict=True)),
        **counted,
        "guide": by_guide(options, targets, options.calibration.by_guide),
    }
    results, cost = plain(results), Cost()
    cost.add(json.loads((folder.path / SKETCHING).read_text(encoding="utf-8")))
    folder.write_json("results.json", results_of(results, options, options.run.seed, cost))
    table = results_table(results)
    folder.write_text("table.md", table)
    print(table)
    print(f"In {folder.path}: results.json, table.md.")
    print(drawn_by("interval_coverage", folder))


def all_targets(
    options: CalibrationOptions, domains: Domains, folder: RunFolder
) -> tuple[list[Target], dict[str, dict[str, int]]]:
    """Returns the targets, and the number of documents by side and domain."""
    config, search, names = options.calibration, options.search, domains.names
    each = search.sequences_of_round(len(names))
    counts = {
        "measured": search.rounds * each + config.same_documents,
        "held_out": config.other_documents,
    }
    checkpoints = pools_of(options, domains.corpus, counts, folder)
    targets: list[Target] = []
    for number in tqdm(range(config.splits), desc="targets", unit="split", mininterval=0.5):
        rounds = split(checkpoints, each, config.same_documents, options.run.seed + number)
        numbers = range(number, config.targets, config.splits)
        targets += targets_of(rounds, names, numbers, options.run.validation_sequences)
    documents = {
        side: {name: len(own.unique()) for name, own in of_side.items()}
        for side, of_side in checkpoints[0].documents.items()
    }
    return targets, documents


def cells_of(targets: Sequence[Target]) -> list[dict[str, Any]]:
    """Returns what `cell_of` counts, of every way to make targets and to count witnesses."""
    cells = []
    ways = list(itertools.product(DESIGNS, KINDS, REGIMES, COUNTINGS))
    for design, kind, regime, counting in tqdm(ways, desc="posteriors", mininterval=0.5):
        chosen = [t for t in targets if (t.design, t.kind, t.regime) == (design, kind, regime)]
        if chosen and (design == DESIGNS[0] or counting != COUNTINGS[2]):
            named = {"design": design, "kind": kind, "regime": regime, "counting": counting}
            cells.append({**named, **cell_of(chosen, counting)})
    return cells


def cell_of(targets: Sequence[Target], counting: str) -> dict[str, Any]:
    """Returns coverage, ranks and widths of the targets' posteriors.

    Coverage is a mean over all weights of all targets, its error that over targets. Ranks are told
    of targets from a flat prior alone. A share that made up no sequence is ranked as it was drawn.
    """
    weights, scale = posteriors_of([t.matchings[counting] for t in targets])
    truth = torch.from_numpy(np.stack([t.truth for t in targets]))
    drawn = torch.from_numpy(np.stack([t.shares for t in targets]))
    coverage = {str(level): covered(weights, truth, level) for level in LEVELS}
    low, high = intervals(weights, LEVELS[-1])
    rank = ranks(weights, torch.where(truth > 0, truth, drawn)).numpy()
    joint = joint_ranks(weights, torch.where(truth > 0, truth, drawn)).numpy()
    central = np.abs(2 * rank - 1)
    points = bands(len(targets))[0]
    by_document = counting == COUNTINGS[0]
    return {
        **({"flat_prior": flat_prior(targets)} if by_document else {}),
        "targets": len(targets),
        "sequences": float(np.mean([t.counts.sum() for t in targets])),
        "coverage": coverage,
        "width": (high - low).mean(),
        "total_variation": (centres(weights) - truth).abs().sum(1).mean() / 2,
        "scale": scale.mean(),
        "moments": float(np.mean([t.moments[counting] for t in targets])),
        "ranks_within_bands": int(sum(is_uniform(own) for own in rank.T)),
        "central_ranks_within_bands": int(sum(is_uniform(own) for own in central.T)),
        "joint_ranks_within_bands": is_uniform(joint),
        "ranks": np.stack([shares_below(own, points) for own in rank.T]),
        "central_ranks": np.stack([shares_below(own, points) for own in central.T]),
        "joint_ranks": shares_below(joint, points),
    }


def posteriors_of(
    found: Sequence[Matching], concentrations: tuple[float, ...] = CONCENTRATIONS
) -> tuple[Tensor, Tensor]:
    """Returns draws of the weights ``(N, D, K)`` and scales ``(N, D)`` of posteriors."""
    optimum, linear, precision = (
        torch.stack([getattr(one, name) for one in found])
        for name in ("optimum", "linear", "precision")
    )
    generator = torch.Generator().manual_seed(0)
    count, size = optimum.shape
    noise = torch._sample_dirichlet(torch.ones(count, CHAINS, size).double(), generator)
    start = 0.9 * optimum[:, None] + 0.1 * noise + 1e-9
    drawn = exact_draws(linear, precision, start, concentrations=concentrations, draws=DRAWS)
    return drawn.weights, drawn.scale


def centres(weights: Tensor) -> Tensor:
    """Returns the weights that stand for draws ``(N, D, K)``, ``(N, K)``."""
    return torch.stack([central_weights(own) for own in weights])


def flat_prior(targets: Sequence[Target]) -> dict[str, Any]:
    """Returns coverage and width under ``Dirichlet(1)``, as `cell_of`.

    The weights whose total variation is told are the most likely ones.
    """
    found = [t.matchings[COUNTINGS[0]] for t in targets]
    weights, _ = posteriors_of(found, FLAT)
    truth = torch.from_numpy(np.stack([t.truth for t in targets]))
    likely = torch.stack([one.weights for one in found])
    low, high = intervals(weights, LEVELS[-1])
    return {
        "coverage": {str(level): covered(weights, truth, level) for level in LEVELS},
        "width": (high - low).mean(),
        "total_variation": (likely - truth).abs().sum(1).mean() / 2,
    }


def covered(weights: Tensor, truth: Tensor, level: float) -> dict[str, float]:
    """Returns how often intervals of draws ``(N, D, K)`` hold the truth ``(N, K)``."""
    low, high = intervals(weights, level)
    inside = ((low <= truth) & (truth <= high)).double()
    asked = truth > 0
    return {
        "published": inside.mean().item(),
        "error": (inside.mean(1).std(correction=0) / len(truth) ** 0.5).item(),
        "of_shares_above_0": inside[asked].mean().item(),
        "of_shares_of_0": inside[~asked].mean().item() if not asked.all() else float("nan"),
    }


def by_guide(options: Options, targets: Sequence[Target], count: int) -> dict[str, Any]:
    """Finds the posteriors of some targets from where a guide is, as a search does.

    Differences of means are in standard deviations of the exact posterior; the guide's network is
    told the same loss of every domain.
    """
    chosen = [t for t in targets if t.design == DESIGNS[0]]
    chosen = [chosen[round(i)] for i in np.linspace(0, len(chosen) - 1, count)]
    rows = []
    for target in tqdm(chosen, desc="by the guide", unit="target", mininterval=0.5):
        found = target.matchings[COUNTINGS[0]]
        size = len(target.shares)
        learner = MatchingPosterior(size, options.network, options.run.seed)
        signals = torch.ones(size, dtype=torch.float64)
        learner.learn(signals, found)
        start = guide_draws(learner.guide, signals, 4 * CHAINS, options.run.seed)
        drawn = exact_draws(found.linear[None], found.precision[None], start[None], draws=DRAWS)
        guides, exact = drawn.weights, posteriors_of([found])[0]
        truth = torch.from_numpy(target.truth)[None]
        rows.append(
            {
                "kind": target.kind,
                "regime": target.regime,
                "corrected": drawn.settled,
                "means": ((guides.mean(1) - exact.mean(1)) / exact.std(1)).abs().mean(),
                "deviations": (guides.std(1) / exact.std(1)).mean(),
                "covered": covered(guides, truth, LEVELS[-1])["published"],
                "covered_exactly": covered(exact, truth, LEVELS[-1])["published"],
            }
        )
    return {"targets": rows}


def plain(value: Any) -> Any:
    """Returns results as JSON knows them, with five digits."""
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (np.ndarray, Tensor)):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.5g}") if value == value else None
    return value


if __name__ == "__main__":
    run_main(calibration, "calibration", ABOUT, CalibrationOptions, smoke=SMOKE, resumable=True)
