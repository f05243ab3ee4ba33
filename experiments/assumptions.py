"""Do small runs tell what large ones find? Rank invariance and power laws, on two scales."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import judged_loss, leave, markdown, require_judged, run_main
from scipy.optimize import least_squares
from scipy.stats import spearmanr
from tqdm import tqdm

from bydore_pyro.command_line import Checked, option
from bydore_pyro.data import TokenStore
from bydore_pyro.proxy import Cost, Proxy, train_on_mixture
from bydore_pyro.setup import Options, begin_run, domains_of, language_model, load_domains

ABOUT = """Train the proxy on every domain alone and on random mixtures for --steps steps, and
record the loss on judged text. Methods that fit small runs make two assumptions: the order of the
mixtures at a tenth of the tokens is the order at all of them (rank invariance), and a power law
fitted to the first tenth predicts the rest (the paper's Figs. 1 and 5). The script reports how well
both hold on this text: rank correlations, reversed pairs, extrapolation errors, curves that rise
again."""

TENTH = 10  # the large scale is so many times the small one
POINTS = 8  # measurements on each scale


@dataclass(frozen=True, kw_only=True)
class AssumptionsConfig(Checked):
    """Which mixtures are trained on, beside every domain alone."""

    mixtures: int = option(
        8, "Number of random mixtures, drawn from a flat Dirichlet.", least=0, most=10_000
    )


@dataclass(frozen=True, kw_only=True)
class AssumptionsOptions(Options):
    """The options of a run and of its mixtures."""

    assumptions: AssumptionsConfig

    def __post_init__(self) -> None:
        if self.search.steps < 2 * TENTH:
            raise ValueError(f"Expected steps >= {2 * TENTH}, actual {self.search.steps}")


def assumptions(options: AssumptionsOptions, resume: Path | None) -> None:
    """Trains a model on each mixture; leaves the curves, and what they say."""
    folder = begin_run(options, "assumptions", resume)
    domains = load_domains(options)
    require_judged(options, domains.corpus)
    if resume is None:
        folder.write_config("assumptions", options.as_dict())
    names, count = domains.names, domains.num_domains
    rng = np.random.default_rng([options.run.seed, 5])
    mixtures = {name: {name: 1.0} for name in names}
    for number in range(options.assumptions.mixtures):
        drawn = rng.dirichlet(np.ones(count))
        mixtures[f"mixture {number + 1}"] = dict(zip(names, drawn.tolist(), strict=True))
    steps = measured_steps(options.search.steps)
    curves, cost = {}, Cost()
    for number, (label, weights) in enumerate(mixtures.items()):
        compute = partial(curve, options, domains.corpus, label, weights, steps)
        known = folder.kept(f"curves/{number}").get_or(compute)
        curves[label] = known["losses"]
        cost.add(known["cost"])
    tokens = [step * options.batch_tokens for step in steps]
    results = {
        "tokens": tokens,
        "validation": domains.validation_shares,
        "domains": list(names),
        "mixtures": mixtures,
        "losses": curves,
        **findings(np.array(tokens, float), curves, list(names)),
    }
    leave(folder, options, results, cost, results_table(results), "assumption_violations")


def measured_steps(steps: int) -> list[int]:
    """Returns the steps at which losses are measured: log-spaced, up to a tenth and up to all."""
    small = steps // TENTH
    early = np.geomspace(max(1, small / TENTH), small, POINTS)
    late = np.geomspace(small, steps, POINTS)
    return sorted({round(float(step)) for step in (*early, *late)})


def curve(
    options: Options,
    corpus: TokenStore,
    label: str,
    weights: Mapping[str, float],
    steps: Sequence[int],
) -> dict[str, Any]:
    """Trains one model with a constant step size; returns its losses at `steps`, and its cost."""
    domains = domains_of(options, corpus, options.run.seed)
    model = language_model(options, corpus.vocabulary, options.run.seed)
    proxy = Proxy(model, options.proxy)
    training = train_on_mixture(
        domains, proxy, weights, steps[-1], options.search.batch_sequences, seed=options.run.seed
    )
    losses = []
    bar = tqdm(training, total=steps[-1], desc=label, unit="step", mininterval=0.5)
    for done, _ in enumerate(bar, start=1):
        if done in steps:
            losses.append(judged_loss(proxy, domains, options.run.validation_sequences))
    return {"losses": losses, "cost": proxy.cost.report()["parts"]}


def power_law(tokens: np.ndarray, scale: float, exponent: float, floor: float) -> np.ndarray:
    """Returns ``floor + scale (tokens / 1e5)^-exponent``, nats per token."""
    return floor + scale * (tokens / 1e5) ** -exponent


def fit_power_law(tokens: np.ndarray, losses: np.ndarray) -> np.ndarray | None:
    """Returns scale, exponent and floor by least squares, None where no fit is found."""
    found = least_squares(
        lambda law: power_law(tokens, *law) - losses,
        (float(np.ptp(losses)) + 0.1, 0.5, float(losses.min()) / 2),
        bounds=([0, 0, 0], [1e3, 10, 1e3]),
        max_nfev=20_000,
    )
    return found.x if found.success else None


def findings(
    tokens: np.ndarray, curves: Mapping[str, Sequence[float]], names: Sequence[str]
) -> dict[str, Any]:
    """Returns how far ranks and power laws carry over from a tenth of the tokens to all.

    Args:
        tokens: Of every measurement, rising.
        curves: Losses at each, by label, nats per token.
        names: The labels that are domains alone; the others are mixtures.
    """
    small = int(np.searchsorted(tokens, tokens[-1] / TENTH * 1.001))  # measurements up to a tenth
    predicted, errors, rises = {}, {}, {}
    for label, values in curves.items():
        losses = np.array(values)
        law = fit_power_law(tokens[:small], losses[:small])
        told = None if law is None else power_law(tokens, *law).tolist()
        predicted[label], errors[label] = told, None if told is None else told[-1] - values[-1]
        rises[label] = float(losses[-1] - losses.min())
    groups = {"domains alone": list(names), "mixtures": [c for c in curves if c not in names]}
    ranks = {}
    for group, labels in groups.items():
        if len(labels) > 1:
            both = np.array([[curves[label][i] for i in (small - 1, -1)] for label in labels])
            pairs = list(itertools.combinations(both, 2))
            ranks[group] = {
                "spearman": float(spearmanr(both).statistic) if len(labels) > 2 else None,
                "reversed_pairs": sum(bool(np.prod(one - other) < 0) for one, other in pairs),
                "pairs": len(pairs),
            }
    return {
        "small_scale_measurements": small,
        "foretold_by_the_laws": predicted,
        "extrapolation_error": errors,
        "rise_from_the_least": rises,
        "ranks": ranks,
    }


def results_table(results: Mapping[str, Any]) -> str:
    """Returns the findings as Markdown."""
    small = results["small_scale_measurements"]
    rows = []
    for label, losses in results["losses"].items():
        error, rise = results["extrapolation_error"][label], results["rise_from_the_least"][label]
        told = "no fit" if error is None else f"{error:+.3f}"
        rows.append([label, f"{losses[small - 1]:.3f}", f"{losses[-1]:.3f}", told, f"{rise:.3f}"])
    header = [
        "trained on",
        f"loss at {results['tokens'][small - 1]:,} tokens",
        f"at {results['tokens'][-1]:,}",
        "power law's error there",
        "rise from its least",
    ]
    text = f"{markdown(header, rows)}\nRanks at a tenth of the tokens against all:\n\n"
    for name, found in results["ranks"].items():
        spearman = "-" if found["spearman"] is None else f"{found['spearman']:.3f}"
        pairs = f"{found['reversed_pairs']} of {found['pairs']} pairs reversed"
        text += f"- {name}: Spearman {spearman}, {pairs}\n"
    return text


if __name__ == "__main__":
    run_main(
        assumptions,
        "assumptions",
        ABOUT,
        AssumptionsOptions,
        resumable=True,
        batch_sequences=16,
        validation_sequences=64,
    )
