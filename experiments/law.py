"""The law of losses on finished runs: how well it predicts the runs that it was not fitted to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from common import leave, markdown, rank_of, run_main, table_run
from regressions import fit_regression, intervals_of
from tqdm import tqdm

from bydore_pyro.answer import RunLosses, Target, forecast_of
from bydore_pyro.command_line import Checked, option
from bydore_pyro.errors import DataError
from bydore_pyro.law import fit_law
from bydore_pyro.proxy import Cost

ABOUT = """Fit the law of losses to few of the finished runs in a folder, the first run among them,
which is also read on its way, and predict the losses of all others. Reported are ranks, errors and
how many losses lie in their 94 % intervals, beside a Gaussian process on the weights and the law of
a target's own share alone. --runs holds NAME-runs.csv (run, steps, weight/DOMAIN, loss/DOMAIN) and
NAME-cross.csv (row: held-out text of a domain; column: a domain; cross products of gradients)."""

LAW = "law"
# By name, what is given to the law: rho, whether pairs are free, and whether transfer is measured.
LAWS: dict[str, dict[str, Any]] = {
    "own share only": {"rho": 1.0, "free": False, "transfer": "none"},
    "nothing measured": {"transfer": "unknown"},
    "smallest form, rho = 1": {"rho": 1.0, "free": False},
    LAW: {},
}
TARGETS, SPARSE = 20, 0.4  # of which a forecast is made: their number, their Dirichlet
PROCESS = "Gaussian process"
EARLIEST = 0.25  # of the length, at which a run's own curve is read
REGRESSED = ("botorch", "scipy")


@dataclass(frozen=True, kw_only=True)
class LawConfig(Checked):
    """Which runs are fitted, and where the results go."""

    runs: str = option(MISSING, "Folder with NAME-runs.csv and NAME-cross.csv of each corpus.")
    fitted: int = option(
        16, "Largest number of runs that are fitted; 1, 2, 4 and so on up to it.", least=1
    )
    draws: int = option(5, "Random choices of these runs.", least=1, most=1000)
    seed: int = option(0, "Seed of the choices.", least=0, below=2**31)
    out: str | None = option(None, "Folder of the run. Default: runs/law-<time>.")
    smoke: bool = option(False, "Run for seconds, only to check that all parts work.")


@dataclass(frozen=True, kw_only=True)
class LawOptions:
    """All options."""

    run: LawConfig


class FinishedRuns(NamedTuple):
    """Of R runs and readings: tokens, losses ``(R, K)``, and which are runs to their end."""

    domains: tuple[str, ...]
    tokens: np.ndarray
    losses: np.ndarray
    cross: np.ndarray
    whole: np.ndarray


def read_folder(folder: Path) -> dict[str, FinishedRuns]:
    """Returns the runs of each corpus; tokens in units of the longest run."""
    found = {}
    for path in sorted(folder.glob("*-runs.csv")):
        lines = [line.split(",") for line in path.read_text(encoding="utf-8").splitlines()]
        table = dict(zip(lines[0], zip(*lines[1:], strict=True), strict=True))
        domains = tuple(n.removeprefix("weight/") for n in table if n.startswith("weight/"))
        weights, losses = (
            np.array([table[f"{kind}/{name}"] for name in domains], float).T
            for kind in ("weight", "loss")
        )
        weights /= weights.sum(1, keepdims=True)
        steps = np.array(table["steps"], float)
        length = steps / steps.max()
        kept = length >= EARLIEST
        cross_file = path.with_name(path.name.replace("-runs.csv", "-cross.csv"))
        rows = [line.split(",") for line in cross_file.read_text(encoding="utf-8").splitlines()]
        if tuple(rows[0][1:]) != domains:
            raise DataError(f"Expected the domains {', '.join(domains)} in {cross_file}")
        found[path.name.removesuffix("-runs.csv")] = FinishedRuns(
            domains=domains,
            tokens=(weights * length[:, None])[kept],
            losses=losses[kept],
            cross=np.array([row[1:] for row in rows[1:]], float),
            whole=length[kept] == 1,
        )
    if not found:
        raise DataError(f"Expected NAME-runs.csv in {folder}, found none")
    return found


Predicted = tuple[np.ndarray, np.ndarray, np.ndarray]  # mean, low and high, (M, T)


def by_law(
    runs: FinishedRuns,
    used: Sequence[int],
    new: np.ndarray,
    transfer: str = "measured",
    **form: Any,
) -> Predicted:
    """Fits the law to some of the runs and to the first run's curve."""
    rows = [*used, *np.flatnonzero(~runs.whole)]
    known = {"measured": runs.cross, "none": np.eye(len(runs.cross)), "unknown": None}[transfer]
    cross = None if known is None else torch.as_tensor(known)
    given = (torch.as_tensor(runs.tokens[rows]), torch.as_tensor(runs.losses[rows]))
    found = fit_law(*given, cross, **form).predict(torch.as_tensor(new))
    return found.mean.numpy(), found.low.numpy(), found.high.numpy()


def by_process(runs: FinishedRuns, used: Sequence[int], new: np.ndarray) -> Predicted:
    """Fits a Gaussian process to each target; runs on their way are none of its runs."""
    model = fit_regression("gaussian_process", runs.tokens[used], runs.losses[used])
    low, high = np.moveaxis(intervals_of(model, new), -1, 0)
    return model.predict(new), low, high


def scores_of(predicted: Predicted, measured: np.ndarray, sparse: np.ndarray) -> dict[str, float]:
    """Returns how well losses ``(M, T)`` were predicted; of sparse mixtures ``(M,)`` apart."""
    mean, low, high = predicted
    held = 100.0 * ((low < measured) & (measured < high))
    of_mean, best = measured.mean(1), int(mean.mean(1).argmin())
    ranks = [rank_of(p, m) for p, m in zip(mean.T, measured.T, strict=True)]
    found = {
        "spearman_of_a_domain": np.mean(ranks),
        "rmse": np.sqrt(np.square(mean - measured).mean()),
        "spearman_of_the_mean": rank_of(mean.mean(1), of_mean),
        "regret": of_mean[best] - of_mean.min(),
        "held": held.mean(),
        "width": (high - low).mean(),
    }
    for name, some in (("sparse", sparse), ("spread", ~sparse)):
        if some.any():
            found[f"held_{name}"] = held[some].mean()
    return {name: float(value) for name, value in found.items()}


def forecast_scores(
    runs: FinishedRuns, used: Sequence[int], others: np.ndarray, seed: int
) -> dict[str, float]:
    """Returns how often 94 % intervals of a forecast hold the losses of other runs on targets that
    are made of several domains, and their differences from the run on equal weights, per cent."""
    # The whole run on equal weights last: it shows the targets' levels.
    rows = [*used[1:], *np.flatnonzero(~runs.whole), used[0]]
    made = np.random.default_rng(seed).dirichlet([SPARSE] * len(runs.domains), TARGETS)
    targets = {
        f"target {place}": Target(importance=1 / TARGETS, compositions=torch.as_tensor(row)[None])
        for place, row in enumerate(made)
    }
    known = RunLosses(
        tokens=torch.as_tensor(runs.tokens[rows]),
        losses=torch.as_tensor(runs.losses[rows]),
        transfer=torch.as_tensor(runs.cross),
        of_targets=torch.as_tensor(runs.losses[rows] @ made.T),
    )
    found = forecast_of(runs.domains, known, targets)
    equal = torch.as_tensor(runs.tokens[used[0]])
    held: dict[str, list[bool]] = {"held_targets": [], "held_differences": []}
    for run in others:
        mixture = torch.as_tensor(runs.tokens[run])
        one, apart = found.expected(mixture), found.difference(mixture, equal)
        for name, row in zip(targets, made, strict=True):
            loss, base = row @ runs.losses[run], row @ runs.losses[used[0]]
            held["held_targets"].append(one[name].low < loss < one[name].high)
            held["held_differences"].append(apart[name].low < loss - base < apart[name].high)
    return {kind: 100 * float(np.mean(inside)) for kind, inside in held.items()}


def scores(runs: FinishedRuns, count: int, draws: int, seed: int) -> dict[str, dict[str, float]]:
    """Returns every method's scores, means over the draws, fitted to `count` runs."""
    rng = np.random.default_rng([seed, count])
    whole = np.flatnonzero(runs.whole)
    entropy = -(runs.tokens * np.log(np.maximum(runs.tokens, 1e-12))).sum(1)
    few = np.exp(entropy) < len(runs.domains) / 2  # of the domains count
    methods: dict[str, Callable[..., Predicted]] = {} if count < 2 else {PROCESS: by_process}
    methods |= dict.fromkeys(LAWS, by_law)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in methods}
    for _ in range(draws if count > 1 else 1):
        used = [whole[0], *rng.choice(whole[1:], count - 1, replace=False)]
        others = np.setdiff1d(whole, used)
        for name, method in methods.items():
            predicted = method(runs, used, runs.tokens[others], **LAWS.get(name, {}))
            one = scores_of(predicted, runs.losses[others], few[others])
            if name == LAW:
                one |= forecast_scores(runs, used, others, seed)
            found[name].append(one)
    return {
        name: {
            key: float(np.mean([row[key] for row in rows if key in row]))
            for key in {key: None for row in rows for key in row}
        }
        for name, rows in found.items()
    }


def results_table(results: Mapping[str, Mapping[str, Mapping[str, Mapping[str, float]]]]) -> str:
    """Returns the scores of every corpus as Markdown."""
    header = [
        "runs",
        "",
        "Spearman of a domain",
        "rmse, nats",
        "Spearman of the mean",
        "regret, nats",
        "held, % (sparse, spread)",
        "width, nats",
        "held, % (targets, differences)",
    ]
    text = ""
    for corpus, counts in results.items():
        rows = []
        for count, methods in counts.items():
            for name, s in methods.items():
                apart = [f"{s[k]:.0f}" for k in ("held_sparse", "held_spread") if k in s]
                held = f"{s['held']:.0f} ({', '.join(apart)})"
                values = (f"{s['spearman_of_a_domain']:.3f}", f"{s['rmse']:.3f}")
                more = (f"{s['spearman_of_the_mean']:.2f}", f"{s['regret']:.3f}", held)
                made = [f"{s[k]:.0f}" for k in ("held_targets", "held_differences") if k in s]
                rows.append([count, name, *values, *more, f"{s['width']:.2f}", ", ".join(made)])
        text += f"{corpus}:\n\n{markdown(header, rows)}\n"
    return text


def law(options: LawOptions) -> None:
    """Fits, predicts, and writes the results."""
    run, cost = options.run, Cost()
    corpora = read_folder(Path(run.runs))
    most = min(int(runs.whole.sum()) for runs in corpora.values()) - 3
    if run.fitted > most:
        raise ValueError(f"Expected at most {most} fitted runs, actual {run.fitted}")
    counts = [2**i for i in range(run.fitted.bit_length())]
    folder = table_run("law", run)
    found: dict[str, dict[str, dict[str, dict[str, float]]]] = {name: {} for name in corpora}
    draws = 1 if run.smoke else run.draws
    pieces = [(name, count) for name in corpora for count in counts]
    with cost.part("fit"):
        for name, count in tqdm(pieces, desc="fit", unit="number of runs", mininterval=0.5):
            found[name][str(count)] = scores(corpora[name], count, draws, run.seed)
    content = {"corpora": found}
    leave(folder, options, content, cost, results_table(found), packages=REGRESSED)


if __name__ == "__main__":
    run_main(law, "law", ABOUT, LawOptions)
