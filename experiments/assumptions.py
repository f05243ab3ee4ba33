"""Do small runs tell what large ones find? Rank invariance and power laws, on two scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import drawn_by, markdown, run_main
from scipy.optimize import least_squares
from scipy.stats import spearmanr
from tqdm import tqdm

from bydore_pyro.data import TokenStore
from bydore_pyro.proxy import Cost, Proxy, train_on_mixture
from bydore_pyro.runs import (
    Options,
    begin_run,
    domains_of,
    language_model,
    load_domains,
    results_of,
)
from bydore_pyro.utils import option, require_fields, tell

ABOUT = """Train the proxy on every domain alone and on random mixtures for --steps steps, and
record the validation loss. Methods that fit small runs make two assumptions: the order of the
mixtures at a tenth of the tokens is the order at all of them (rank invariance), and a power law
fitted to the first tenth predicts the rest (the paper's Figs. 1 and 5). The script reports how well
both hold on this text: rank correlations, reversed pairs, extrapolation errors, curves that rise
again."""

TENTH = 10  # the large scale is so many times the small one
POINTS = 8  # measurements on each scale


@dataclass(frozen=True, kw_only=True)
class AssumptionsConfig:
    """Which mixtures are trained on, beside every domain alone."""

    mixtures: int = option(
        8, "Number of random mixtures, drawn from a flat Dirichlet.", least=0, most=10_000
    )

    def __post_init__(self) -> None:
        require_fields(self)


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
    if resume is None:
        folder.write_config("assumptions", options.as_dict(), tell)
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
        known = folder.once(f"curves/{number}.json", compute)
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
    results = results_of(results, options, options.run.seed, cost)
    folder.write_json("results.json", results)
    folder.write_text("table.md", results_table(results))
    print(results_table(results))
    print(f"In {folder.path}: results.json, table.md.")
    print(drawn_by("assumption_violations", folder))


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
            with proxy.cost.part("evaluate"):
                losses.append(proxy.evaluate(domains.validation, "evaluate"))
    return {"losses": losses, "cost": proxy.cost.report()["parts"]}


def power_law(tokens: np.ndarray, scale: float, exponent: float, floor: float) -> np.ndarray:
    """Returns ``floor + scale (tokens / 1e5)^-exponent``, nats per token."""
    return floor + scale * (tokens / 1e5) ** -exponent


def fit_power_law(tokens: np.ndarray, losses: np.ndarray) -> list[float] | None:
    """Returns scale, exponent and floor by least squares, None where no fit is found."""
    start = (float(np.ptp(losses)) + 0.1, 0.5, float(losses.min()) / 2)
    found = least_squares(
        lambda law: power_law(tokens, *law) - losses,
        start,
        bounds=([0, 0, 0], [1e3, 10, 1e3]),
        max_nfev=20_000,
    )
    return found.x.tolist() if found.success else None


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
    laws, foretold, errors, rises = {}, {}, {}, {}
    for label, values in curves.items():
        losses = np.array(values)
        law = fit_power_law(tokens[:small], losses[:small])
        predicted = None if law is None else power_law(tokens, *law).tolist()
        laws[label], foretold[label] = law, predicted
        errors[label] = None if predicted is None else float(predicted[-1] - losses[-1])
        rises[label] = float(losses[-1] - losses.min())

    def ranks(labels: Sequence[str]) -> dict[str, Any]:
        early = np.array([curves[label][small - 1] for label in labels])
        late = np.array([curves[label][-1] for label in labels])
        reversed_pairs = sum(
            (early[i] - early[j]) * (late[i] - late[j]) < 0
            for i in range(len(labels))
            for j in range(i)
        )
        pairs = len(labels) * (len(labels) - 1) // 2
        spearman = float(spearmanr(early, late).statistic) if len(labels) > 2 else None
        return {
            "spearman": spearman,
            "reversed_pairs": int(reversed_pairs),
            "pairs": pairs,
            "best_early": labels[int(early.argmin())],
            "best_late": labels[int(late.argmin())],
        }

    groups = {"domains alone": list(names), "mixtures": [c for c in curves if c not in names]}
    groups["all"] = list(curves)
    return {
        "small_scale_measurements": small,
        "power_laws": laws,
        "foretold_by_the_laws": foretold,
        "extrapolation_error": errors,
        "rise_from_the_least": rises,
        "ranks": {name: ranks(labels) for name, labels in groups.items() if len(labels) > 1},
    }


def results_table(results: Mapping[str, Any]) -> str:
    """Returns the findings as Markdown."""
    small = results["small_scale_measurements"]
    rows = []
    for label, losses in results["losses"].items():
        error = results["extrapolation_error"][label]
        rows.append(
            [
                label,
                f"{losses[small - 1]:.3f}",
                f"{losses[-1]:.3f}",
                "no fit" if error is None else f"{error:+.3f}",
                f"{results['rise_from_the_least'][label]:.3f}",
            ]
        )
    header = ["trained on", f"loss at {results['tokens'][small - 1]:,} tokens",
              f"at {results['tokens'][-1]:,}", "power law's error there",
              "rise from its least"]  # fmt: skip
    lines = [
        f"- {name}: Spearman {'-' if r['spearman'] is None else format(r['spearman'], '.3f')}, "
        f"{r['reversed_pairs']} of {r['pairs']} pairs reversed; best early {r['best_early']}, "
        f"best late {r['best_late']}\n"
        for name, r in results["ranks"].items()
    ]
    return f"{markdown(header, rows)}\nRanks at a tenth of the tokens against all:\n\n" + "".join(
        lines
    )


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
