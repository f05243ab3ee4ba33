"""Whether what a text is made of, by its losses in small runs, still holds in large ones."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import leave, markdown, rank_of, rounded, run_main
from regmix_pile import mixtures_of, read_tables
from scipy.optimize import nnls

from bydore_pyro.command_line import Checked, option
from bydore_pyro.errors import DataError
from bydore_pyro.files import RunFolder
from bydore_pyro.proxy import Cost

ABOUT = """Take each text of a table of measured runs as a target that is no domain: of the runs,
those that hardly train on it. Fit its composition, the amounts u >= 0 of the other texts' losses
that add up to its own, to runs of the small model. How well do these amounts, with the other texts'
losses in runs of another model, rank its losses there? Beside it the amounts that the other model's
own runs give, and a linear regression on the weights of the small model's runs. The tables are
those of RegMix's repository (https://github.com/sail-sg/regmix, folder data)."""

FOLDS = 5  # of the other model's own runs: each fold is ranked by the others' amounts
WAYS = ("composition", "its own composition", "linear in the weights")


@dataclass(frozen=True, kw_only=True)
class CompositionAtScaleConfig(Checked):
    """What is fitted, and where the results go."""

    runs: str = option(MISSING, "Folder with RegMix's tables, as of regmix_pile.")
    most: float = option(
        0.01, "Runs count whose weight of the target's own domain is at most this.", least=0
    )
    seed: int = option(0, "Of the folds.", least=0, below=2**31)
    out: str | None = option(None, "Folder of the run. Default: runs/composition_at_scale-<time>.")


@dataclass(frozen=True, kw_only=True)
class CompositionAtScaleOptions:
    """All options."""

    run: CompositionAtScaleConfig


def amounts(others: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Returns the amounts ``(J,)``, 0 and more, of other texts' losses ``(N, J)`` that explain a
    text's own ``(N,)`` best, beside a level."""
    found: np.ndarray = nnls(others - others.mean(0), own - own.mean())[0]
    return found


def crossed(others: np.ndarray, own: np.ndarray, seed: int) -> np.ndarray:
    """Returns what amounts that are fitted to the other folds predict of each run ``(N,)``."""
    folds, found = np.random.default_rng(seed).permutation(len(own)) % FOLDS, np.zeros(len(own))
    for fold in range(FOLDS):
        rest = folds != fold
        apart = others[~rest] - others[rest].mean(0)
        found[~rest] = own[rest].mean() + apart @ amounts(others[rest], own[rest])
    return found


def linear(weights: np.ndarray, losses: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Returns what least squares on weights ``(N, K)`` predict of other mixtures ``(M, K)``."""
    slopes = np.linalg.lstsq(weights - weights.mean(0), losses - losses.mean(), rcond=None)[0]
    return (others - weights.mean(0)) @ slopes


def _with_few(weights: np.ndarray, most: float, of: str, target: str) -> np.ndarray:
    """Returns which runs train on at most so much of a target's own domain ``(N,)``."""
    some: np.ndarray = weights <= most
    if some.sum() < 2 * FOLDS:
        raise DataError(
            f"Expected {2 * FOLDS} {of} runs with at most {most:g} of {target}, found {some.sum()}"
        )
    return some


def composition_at_scale(options: CompositionAtScaleOptions) -> None:
    """Fits, ranks, and writes the results."""
    run, cost = options.run, Cost()
    path = Path(run.out or f"runs/composition_at_scale-{time.strftime('%Y%m%d-%H%M%S')}")
    train, tests = read_tables(Path(run.runs))
    folder = RunFolder(path)
    found: dict[str, dict[str, dict[str, float]]] = {scale: {} for scale in tests}
    with cost.part("correlations"):
        for target in train.targets:
            texts = [name for name in train.targets if name != target]
            place = train.domains.index(target)
            few = _with_few(train.weights[:, place], run.most, "training", target)
            read = np.stack([train.losses_of(name) for name in texts], 1)[few]
            own = train.losses_of(target)[few]
            made = amounts(read, own)
            for scale, test in tests.items():
                weights = mixtures_of(test, train)
                some = _with_few(weights[:, place], run.most, scale, target)
                there = np.stack([test.losses_of(name) for name in texts], 1)[some]
                measured = test.losses_of(target)[some]
                at_scale = amounts(there, measured)
                said = (
                    there @ made,
                    crossed(there, measured, run.seed),
                    linear(train.weights[few], own, weights[some]),
                )
                shares = [one / max(one.sum(), 1e-12) for one in (made, at_scale)]
                found[scale][target] = {
                    "runs": int(some.sum()),
                    **{way: rank_of(one, measured) for way, one in zip(WAYS, said, strict=True)},
                    "slope": _slope(said[0], measured),
                    "total variation": float(np.abs(shares[0] - shares[1]).sum() / 2),
                }
    content = rounded({"targets": found, "domains": list(train.domains)}, 5)
    folder.write_json("config.json", {"name": "composition_at_scale", "run": vars(run)})
    leave(folder, options, content, cost, table_of(content["targets"]), seed=run.seed)


def _slope(said: np.ndarray, measured: np.ndarray) -> float:
    """Returns the least-squares slope of what was measured on what was said, 0 if
    all are said to be alike."""
    apart = said - said.mean()
    return float(apart @ measured / max(float(apart @ apart), 1e-12))


def table_of(found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """Returns the results as tables, one for each scale, with medians last."""
    texts = []
    for scale, rows in found.items():
        names = [*next(iter(rows.values()))]
        lines = [[target, *_line(row.values())] for target, row in rows.items()]
        lines.append(["median", *_line([np.median([r[n] for r in rows.values()]) for n in names])])
        texts.append(f"Runs of scale {scale}:\n\n{markdown(['target', *names], lines)}")
    return "\n".join(texts)


def _line(values: Iterable[Any]) -> list[str]:
    return [
        f"{value:g}" if value > 1.5 and value == int(value) else f"{value:.3f}" for value in values
    ]


if __name__ == "__main__":
    run_main(composition_at_scale, "composition_at_scale", ABOUT, CompositionAtScaleOptions)
