"""Do the intervals hold the truth? Simulation-based calibration of a search by matching."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from calibration_targets import (
    COUNTINGS,
    DESIGNS,
    KINDS,
    REGIMES,
    SIDES,
    Pools,
    Target,
    split,
    targets_of,
)
from common import leave, markdown, rounded, run_main
from scipy.stats import binom
from torch import Tensor
from tqdm import tqdm

from bydore_pyro.answer import interval_of_draws
from bydore_pyro.command_line import Checked, option
from bydore_pyro.core import CONCENTRATIONS, Matching, central_weights, exact_draws
from bydore_pyro.data import Domains
from bydore_pyro.measure import sampled
from bydore_pyro.proxy import Cost, GradientSketch, Proxy, train_on_mixture
from bydore_pyro.setup import (
    Options,
    begin_run,
    language_model,
    load_domains,
)
from bydore_pyro.terminal import tell

ABOUT = """Make many validation sets of known shares, infer the weights of each from the evidence
that gradient matching would have, and count how often the intervals contain the shares. The shares
are drawn from Dirichlet(1), or are sparse as in plants.py. The text comes from the
measured documents (but other sequences), or from other documents. It is taken in proportion to the
shares, or by whole documents. One proxy is trained on equal weights, and the gradients of all text
are sketched once at each of its checkpoints; the targets are drawn from these. The posteriors are
sampled exactly. Beside them stand the posteriors under the flat prior."""

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.94)
SHOWN = (0.5, 0.8, 0.94)
CHAINS, DRAWS = 40, 25  # of a posterior, and of each chain
FLAT = (1.0,)  # Dirichlet(1)
POINTS = np.arange(1, 50) / 50  # at which shares of ranks are told
SIMULATIONS = 2000  # of uniform ranks, for the bands
SMOKE = {
    "domain_megabytes": 0.2,
    "validation_fraction": 0.5,
    "targets": 4,
    "splits": 2,
    "same_documents": 16,
    "other_documents": 16,
}


@dataclass(frozen=True, kw_only=True)
class CalibrationConfig(Checked):
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


@dataclass(frozen=True, kw_only=True)
class CalibrationOptions(Options):
    """The options of a search and of its calibration."""

    calibration: CalibrationConfig


def calibration(options: CalibrationOptions) -> None:
    """Sketches, makes targets, draws from their posteriors, counts."""
    folder = begin_run(options, "calibration", None)
    domains, config, cost = load_domains(options), options.calibration, Cost()
    folder.write_config("calibration", options.as_dict())
    names, each = domains.names, options.search.sequences_of_round(domains.num_domains)
    checkpoints = pools_of(options, domains, each, cost)
    targets: list[Target] = []
    for number in tqdm(range(config.splits), desc="targets", unit="split", mininterval=0.5):
        rounds = split(checkpoints, each, config.same_documents, options.run.seed + number)
        numbers = range(number, config.targets, config.splits)
        targets += targets_of(rounds, names, numbers, options.run.validation_sequences)
    lower, upper = bands(config.targets)
    found = {
        "domains": names,
        "targets": config.targets,
        "levels": LEVELS,
        "bands": {"points": POINTS, "lower": lower, "upper": upper},
        "cells": cells_of(targets),
    }
    results = rounded(found, 5)
    leave(folder, options, results, cost, results_table(results), "interval_coverage")


def pools_of(options: CalibrationOptions, domains: Domains, each: int, cost: Cost) -> list[Pools]:
    """Trains a proxy on equal weights and sketches all text at every step that is measured."""
    seed, search, config = options.run.seed, options.search, options.calibration
    corpus, most = domains.corpus, search.rounds * each + config.same_documents
    domains = Domains(
        corpus,
        domains.validation_shares,
        names=domains.names,
        sequence_length=options.run.sequence_length,
        validation_sequences=options.run.validation_sequences,
        measured=most,
        seed=seed,
        device=options.device,
    )
    text: dict[str, dict[str, tuple[Tensor, np.ndarray]]] = {side: {} for side in SIDES}
    for name, available in zip(domains.names, domains.measurable().tolist(), strict=True):
        text["measured"][name] = domains.measure_batch(name, min(most, available))
        held_out = Domains(
            corpus,
            {name: 1.0},
            names=domains.names,
            sequence_length=options.run.sequence_length,
            validation_sequences=config.other_documents,
            minimal_validation=1,
            seed=seed,
            device=options.device,
        )
        text["held_out"][name] = held_out.targets[name].tokens, held_out.targets[name].documents
    proxy = Proxy(language_model(options, corpus.vocabulary, seed), options.proxy, cost=cost)
    sketch = GradientSketch(proxy, search.sketch_size, seed)
    sides = [(name, *rows) for of_side in text.values() for name, rows in of_side.items()]
    training = train_on_mixture(
        domains,
        proxy,
        dict.fromkeys(domains.names, 1 / domains.num_domains),
        max(search.measured_steps),
        search.batch_sequences,
        seed=seed,
    )
    checkpoints: list[Pools] = []
    for step, _ in enumerate(tqdm(training, desc="training", unit="step", mininterval=0.5), 1):
        if step in search.measured_steps:
            tell(f"sketching at step {step}")
            with cost.part("gradients"):
                found = iter(sampled(sketch, sides, step, options.run.cluster))
                checkpoints.append(
                    {
                        side: {name: next(found) for name in of_side}
                        for side, of_side in text.items()
                    }
                )
    return checkpoints


def cells_of(targets: Sequence[Target]) -> list[dict[str, Any]]:
    """Returns what is counted, of every way to make targets and to count witnesses.

    Ranks are of the truth among the draws, as the mass of the central interval that just holds it.
    A share that made up no sequence is ranked as it was drawn.
    """
    cells = []
    ways = list(itertools.product(DESIGNS, KINDS, REGIMES, COUNTINGS))
    for design, kind, regime, counting in tqdm(ways, desc="posteriors", mininterval=0.5):
        chosen = [t for t in targets if (t.design, t.kind, t.regime) == (design, kind, regime)]
        if not chosen or (design == DESIGNS[1] and counting == COUNTINGS[2]):
            continue
        found = [t.matchings[counting] for t in chosen]
        weights = posteriors_of(found, CONCENTRATIONS)
        truth, drawn = (
            torch.from_numpy(np.stack([getattr(t, name) for t in chosen]))
            for name in ("truth", "shares")
        )
        below = (weights < torch.where(truth > 0, truth, drawn)[:, None]).double().mean(1)
        central = (2 * below - 1).abs().numpy()
        cell = {"design": design, "kind": kind, "regime": regime, "counting": counting}
        cell |= {"targets": len(chosen), **held(weights, truth)}
        cell["central_ranks"] = [shares_below(own) for own in central.T]
        cell["central_ranks_within_bands"] = sum(is_uniform(own) for own in central.T)
        if counting == COUNTINGS[0]:
            cell["flat_prior"] = held(posteriors_of(found, FLAT), truth)
        cells.append(cell)
    return cells


def posteriors_of(found: Sequence[Matching], concentrations: tuple[float, ...]) -> Tensor:
    """Returns draws of the weights of posteriors ``(N, D, K)``."""
    linear, precision = (
        torch.stack([getattr(one, name) for one in found]) for name in ("linear", "precision")
    )
    return exact_draws(
        linear, precision, concentrations=concentrations, draws=DRAWS, chains=CHAINS
    ).weights


def held(weights: Tensor, truth: Tensor) -> dict[str, Any]:
    """Returns how often intervals of draws ``(N, D, K)`` hold the truth ``(N, K)``, with the error
    of that over targets; the width of the widest; the total variation of the centres."""
    coverage = {}
    for level in LEVELS:
        ends = [interval_of_draws(one, level) for one in weights.numpy()]
        low, high = torch.from_numpy(np.stack(ends)).unbind(-1)  # (N, K)
        inside = ((low <= truth) & (truth <= high)).double()
        error = inside.mean(1).std(correction=0) / len(truth) ** 0.5
        coverage[str(level)] = {"published": inside.mean(), "error": error}
    centres = torch.stack([central_weights(own) for own in weights])
    apart = (centres - truth).abs().sum(1).mean() / 2
    return {"coverage": coverage, "width": (high - low).mean(), "total_variation": apart}


@functools.lru_cache
def bands(count: int, probability: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Returns lower and upper ends of where the share of `count` uniform ranks below `POINTS` lies.

    The whole of it lies inside with this probability: pointwise binomial intervals, as wide as
    simulations ask for.

    References:
        Säilynoja, Bürkner, Vehtari (2022), Graphical test for discrete uniformity, arXiv
        2103.10522.
    """
    rng = np.random.default_rng(20261122)
    drawn = rng.random((SIMULATIONS, count))
    below = np.stack([count * shares_below(row) for row in drawn]).round()
    tails = np.minimum(binom.cdf(below, count, POINTS), binom.sf(below - 1, count, POINTS))
    tail = float(np.quantile(tails.min(1), 1 - probability))
    return binom.ppf(tail, count, POINTS) / count, binom.isf(tail, count, POINTS) / count


def shares_below(values: np.ndarray) -> np.ndarray:
    """Returns the share of values ``(N,)`` up to each of `POINTS`."""
    return np.searchsorted(np.sort(values), POINTS, side="right") / len(values)


def is_uniform(values: np.ndarray, probability: float = 0.95) -> bool:
    """Whether ranks ``(N,)`` lie within their bands."""
    lower, upper = bands(len(values), probability)
    share = shares_below(values)
    return bool(((lower <= share) & (share <= upper)).all())


def results_table(results: Mapping[str, Any]) -> str:
    """Returns the coverage of posteriors and of those under the flat prior."""
    header = [
        "shares",
        "text",
        "taken",
        "witnesses",
        *(f"{level:.0%}" for level in SHOWN),
        "width",
        "TV",
        "domains within bands",
    ]
    rows = []
    for cell in results["cells"]:
        for counted, counting in ((cell, cell["counting"]), (cell.get("flat_prior"), "flat prior")):
            if counted is not None:
                at = [counted["coverage"][str(level)] for level in SHOWN]
                row = [cell[name] for name in ("kind", "regime", "design")] + [counting]
                row += [f"{one['published']:.1%} ± {one['error']:.1%}" for one in at]
                row += [f"{counted[name]:.3f}" for name in ("width", "total_variation")]
                within = counted.get("central_ranks_within_bands")
                rows.append(
                    [*row, "" if within is None else f"{within} of {len(results['domains'])}"]
                )
    return markdown(header, rows)


if __name__ == "__main__":
    run_main(calibration, "calibration", ABOUT, CalibrationOptions, smoke=SMOKE)
