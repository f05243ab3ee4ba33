"""How few finished runs are enough: what each regression proposes, and what it is worth.

RegMix's random mixtures and Marin's D-optimal design are trained once, each design as long as the
longest count; a count takes the first of them. All runs are read on every domain. Fresh models on
the proposals are judged by text that nothing else has read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import fresh_models, leave, markdown, run_main, searched, with_error
from decisions import JUDGED, QUESTIONS, shares_of
from regressions import Kind, fit_regression
from torch import Tensor

from bydore_pyro.ask import ask
from bydore_pyro.command_line import Checked, option
from bydore_pyro.law import Goal, best_mixture, fit_law
from bydore_pyro.methods import (
    d_optimal_design,
    elastic_proposal,
    sample_mixtures,
    simulated_optimum,
)
from bydore_pyro.proxy import Cost
from bydore_pyro.search import plain_problem
from bydore_pyro.setup import Options, QuestionConfig, begin_run
from bydore_pyro.trials import Problem, train_mixtures

ABOUT = """Fit every regression to 4, 8, 16 and 32 finished proxies, and train fresh models on what
each of them proposes. The law also knows the gradients of a search at equal weights."""
LAW, DESIGN = "law", "d_optimal"
# Of RegMix's runs: on the target's own loss, or one regression a domain.
REGRESSIONS: dict[str, tuple[Kind, bool]] = {
    "linear": ("linear", False),
    "log_linear": ("log_linear", False),
    "log_linear, by domain": ("log_linear", True),
    "gaussian_process, by domain": ("gaussian_process", True),
}


@dataclass(frozen=True, kw_only=True)
class FewRunsConfig(Checked):
    """How many runs are fitted, and how proposals are judged."""

    counts: list[int] = option([4, 8, 16, 32], "Numbers of runs that are fitted.")
    questions: list[str] = option(
        ["planted", "dense", "all"], "Targets, of those of decisions.py that domains cover."
    )
    target_seeds: int = option(3, "Number of fresh models per mixture.", least=1, most=100)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.counts or min(self.counts) < 4:
            raise ValueError(f"Expected --counts of 4 and more, found {self.counts}")
        for name in self.questions:
            if name not in QUESTIONS or QUESTIONS[name].drop:
                raise ValueError(f"Expected a covered target of decisions.py, found '{name}'")


@dataclass(frozen=True, kw_only=True)
class FewRunsOptions(Options):
    """The options of a search and of the study."""

    few_runs: FewRunsConfig


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Finished runs: weights ``(N, K)`` and losses on every domain ``(N, K)``, nats per token."""

    weights: np.ndarray
    losses: np.ndarray

    def first(self, count: int) -> Runs:
        """Returns the first so many."""
        return Runs(weights=self.weights[:count], losses=self.losses[:count])


def trained(problem: Problem, weights: np.ndarray, label: str) -> Runs:
    """Trains the runs of a design."""
    runs = train_mixtures(problem, weights, problem.steps, label)
    read = [run.read_losses(problem.names) for run in runs]
    return Runs(weights=weights, losses=np.array([[r[n] for n in problem.names] for r in read]))


def by_law(transfer: Tensor, problem: Problem, runs: Runs, target: np.ndarray) -> np.ndarray:
    """Returns what the law proposes, given what gradients say of the transfer ``(K, K)``."""
    tokens = problem.steps * problem.batch_tokens * runs.weights
    law = fit_law(torch.as_tensor(tokens), torch.as_tensor(runs.losses), transfer)
    goal = Goal(composition=torch.as_tensor(target)[None])
    return best_mixture(law.draws(400, 0), goal).weights.numpy()


def by_regression(
    kind: Kind, each: bool, problem: Problem, runs: Runs, target: np.ndarray
) -> np.ndarray:
    """Returns what a regression proposes, by RegMix's simulation."""
    some = target > 0
    shares = target[some] if each else np.ones(1)
    losses = runs.losses[:, some] if each else (runs.losses @ target)[:, None]
    model = fit_regression(kind, runs.weights, losses)
    return simulated_optimum(lambda w: model.predict(w) @ shares, problem.token_shares)


def proposals(
    transfer: Tensor, problem: Problem, designs: Mapping[str, Runs], count: int, target: np.ndarray
) -> dict[str, np.ndarray]:
    """Returns what each method proposes for a target ``(K,)`` from so many runs."""
    random, design = (designs[name].first(count) for name in ("random", DESIGN))
    tokens = problem.steps * problem.batch_tokens
    epochs = tokens / np.array([problem.corpus.size(name) for name in problem.names], float)
    found = {LAW: by_law(transfer, problem, random, target)}
    for name, (kind, each) in REGRESSIONS.items():
        found[name] = by_regression(kind, each, problem, random, target)
    losses = design.losses @ target
    found[DESIGN] = elastic_proposal(design.weights, losses, epochs, problem.seed)
    return found


def table(results: Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]) -> str:
    """Returns the losses as Markdown: means over the fresh models; differences from the law's
    mixture of the same number of runs, with standard errors."""
    text = ""
    for target, counts in results.items():
        methods = list(dict.fromkeys(name for of in counts.values() for name in of))
        rows = []
        for name in methods:
            cells = []
            for of in counts.values():
                apart = np.array(of[name]) - np.array(of[LAW])
                cells.append(f"{np.mean(of[name]):.3f} ({with_error(apart)})")
            rows.append([name, *cells])
        text += f"{target}:\n\n{markdown(['', *(f'{n} runs' for n in counts)], rows)}\n"
    return text


def few_runs(options: FewRunsOptions, resume: Path | None) -> None:
    """Trains, fits and judges; leaves a run folder, a table."""
    folder, config = begin_run(options, "few_runs", resume), options.few_runs
    if resume is None:
        folder.write_config("few_runs", options.as_dict())
    path = folder.path / "search"
    own, domains = searched(options, path, options.run.seed, ["all"])
    problem = plain_problem(own, domains, folder.path / "proxies").read_on_all()
    most = max(config.counts)
    drawn = {
        "random": sample_mixtures(problem.token_shares, most, problem.seed),
        DESIGN: d_optimal_design(len(problem.names), most, problem.seed),
    }
    designs = {name: trained(problem, weights, name) for name, weights in drawn.items()}
    answer = ask(path, QuestionConfig(validation=["all"]), path / "trials").answer
    transfer = answer.evidence[0].gram
    targets = {
        name: shares_of(name, dict.fromkeys(problem.names, 1.0)) for name in config.questions
    }
    mixtures: dict[str, dict[str, float]] = {}
    for name, shares in targets.items():
        target = np.array([shares.get(one, 0.0) for one in problem.names])
        for count in config.counts:
            found = proposals(transfer, problem, designs, count, target)
            for method, weights in found.items():
                kept = dict(zip(problem.names, np.round(weights, 6).tolist(), strict=True))
                mixtures[f"{name}/{count}/{method}"] = kept
    folder.write_json("mixtures.json", mixtures)
    fresh = fresh_models(problem, mixtures, config.target_seeds, "fresh models", JUDGED)
    results: dict[str, Any] = {name: {str(n): {} for n in config.counts} for name in targets}
    for label, of in fresh.items():
        name, number, method = label.split("/")
        results[name][number][method] = [one.target_loss(targets[name]) for one in of]
    cost = Cost()
    cost.add(json.loads((path / "metrics.json").read_text("utf-8"))["search"]["parts"])
    cost.add(problem.cost.report()["parts"])
    content = {"losses": results, "mixtures": mixtures, "steps": options.search.steps}
    leave(folder, options, content, cost, table(results))


if __name__ == "__main__":
    run_main(
        *(few_runs, "few_runs", ABOUT, FewRunsOptions),
        resumable=True,
        smoke={"counts": [4], "questions": ["docstrings"], "target_seeds": 1},
        steps=160,
        batch_sequences=16,
    )
