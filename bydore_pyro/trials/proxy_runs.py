"""Sweeps of small proxies on fixed weights: finished ones are remembered and shared."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from torch import Tensor

from bydore_pyro import files, measure, mixture, pieces
from bydore_pyro.errors import DataError, NonFiniteError
from bydore_pyro.proxy import (
    Cost,
    MeasuredModel,
    Parallel,
    Proxy,
    kept_when_stopped,
    train_on_mixture,
)
from bydore_pyro.trials.problem import Problem

FORMAT = "bydore_pyro.proxy_run/6"
LONGEST_WARMUP = 5  # a run warms up over at most one in so many steps


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """A proxy to be trained on fixed weights.

    Args:
        weights: Shares by domain, summing to 1.
        steps: Training steps.
        seed: Of model and batches.
        keep_model: Whether its parameters are kept.
        decay: Whether the step size falls linearly to zero; else it stays, as in a search.
        text: Most training tokens that it reads of a domain, again and again, by domain; documents
            are drawn by the seed. All text when None.
    """

    weights: Mapping[str, float]
    steps: int
    seed: int
    keep_model: bool = False
    decay: bool = True
    text: Mapping[str, int] | None = None


@dataclass(frozen=True, kw_only=True)
class FinishedRun:
    """A trained proxy.

    Args:
        folder: Where it is remembered.
        losses: On held-out text by domain, nats per token, and on tasks, each in its unit.
        cost: What it cost, by part: tokens, FLOPs, seconds.
    """

    folder: Path
    losses: Mapping[str, float]
    cost: Mapping[str, Mapping[str, float]]

    def target_loss(self, target: Mapping[str, float]) -> float:
        """Returns the loss on a target, given as shares of sum 1: the mean of the losses, nats per
        token or in the units of tasks."""
        return sum(share * self.losses[name] for name, share in target.items())

    def read_losses(self, names: Iterable[str]) -> dict[str, float]:
        """Returns the losses of domains on the text on which `measure.read_losses` reads them, nats
        per token, as far as the proxy was evaluated on it."""
        tokens = self.token_losses()
        return {n: float(tokens[n][: measure.READ].mean()) for n in names if n in tokens}

    def token_losses(self) -> dict[str, np.ndarray]:
        """Returns the losses of held-out tokens ``(sequences, T - 1)`` by domain, nats."""
        tokens = files.read_tree(self.folder)[1]["tokens"]
        return {name: losses.numpy() for name, losses in tokens.items()}


def train_runs(problem: Problem, planned: Sequence[PlannedRun], label: str) -> list[FinishedRun]:
    """Trains the proxies that are not finished yet, and charges each different one once.

    All start from the initial weights of their seed; the step size rises over at most a fifth of
    their steps and falls linearly to zero, or stays. One that is asked to stop is kept, and gone on
    with when it is planned again. A remembered proxy that is damaged, or is not the planned one, is
    set aside and trained again. Each is a piece for the problem's cluster. The processes of
    `torchrun` split the batches of each (see `bydore_pyro.proxy.parallel`).

    Raises:
        Interrupted: On Ctrl-C or SIGTERM.
        NonFiniteError: When a loss is NaN or infinite; those finished before are kept.
    """
    on_gpu = problem.device.type != "cpu"
    parallel = Parallel(cpu=not on_gpu)
    plans = {_kept(problem, run).folder: run for run in planned}
    # The first process looks, for all: another command may write to the same folder.
    missing = []
    if parallel.is_main:
        missing = [p.name for p, run in plans.items() if _kept(problem, run).get() is None]
    names = parallel.agree(" ".join(missing)).split()
    own = [run for place, run in plans.items() if place.name in names]
    alone = dataclasses.replace(problem, cost=Cost(), runs=problem.runs.absolute())
    trained = pieces.run_pieces(
        partial(_train, alone),
        own,
        problem.cluster,
        label=label,
        sizes=[run.steps for run in own],
        unit="step",
        gpus=int(on_gpu),
    )
    for _ in trained:
        pass
    parallel.wait()
    found = {}
    for place, run in plans.items():
        content = _kept(problem, run).get()
        if content is None:
            raise DataError(
                f"Expected a trained proxy in {place}, found none: the machines of a cluster must "
                "share it"
            )
        found[place] = FinishedRun(folder=place, losses=content["losses"], cost=content["cost"])
        problem.cost.add(content["cost"])
    return [found[_kept(problem, run).folder] for run in planned]


def train_mixtures(
    problem: Problem, mixtures: np.ndarray, steps: int, label: str, *, decay: bool = True
) -> list[FinishedRun]:
    """Trains a proxy on each mixture ``(N, K)``, so many steps each, as `train_runs` does."""
    text = problem.text_for(steps)
    rows = [mixture.by_name(problem.names, row) for row in mixtures]
    weights = [{name: weight for name, weight in row.items() if weight > 0} for row in rows]
    planned = [
        PlannedRun(weights=one, steps=steps, seed=problem.seed, decay=decay, text=text)
        for one in weights
    ]
    return train_runs(problem, planned, label)


def load_model(
    problem: Problem, run: FinishedRun, seed: int, parallel: Parallel | None = None
) -> Proxy:
    """Loads the proxy of a finished run that was planned with this seed and `keep_model`.

    The processes of `parallel` share its batches; this one alone when None.
    """
    proxy = Proxy(problem.build(seed), problem.proxy, problem.cost, parallel=parallel)
    proxy.model.load_state_dict(files.read_tree(run.folder)[1]["model"])
    return proxy


def _kept(problem: Problem, run: PlannedRun) -> files.Kept:
    """Where a finished run is remembered: the folder's name is the hash of all that it depends on,
    so that one with another key is damaged."""
    proxy = dataclasses.asdict(problem.proxy)
    del proxy["liger"]  # how it is computed, not what
    own = {**dataclasses.asdict(run), "weights": list(run.weights.items())}
    if run.text is not None:
        own["text"] = sorted(run.text.items())
    identity = {
        "format": FORMAT,
        "corpus": problem.corpus.sha256,
        "model": problem.model_config,
        "proxy": proxy,
        "batch": [problem.batch_sequences, problem.sequence_length],
        "held_out": [problem.side, problem.seed, *problem.evaluated.items()],
        "run": own,
    }
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    return files.Kept(problem.runs / digest[:24], identity, replace=True)


def _train(problem: Problem, run: PlannedRun, advance: Callable[[int], object]) -> None:
    """Trains and evaluates one proxy, and leaves its folder whole or not at all."""
    kept, parallel = _kept(problem, run), Parallel(cpu=problem.device.type == "cpu")
    model = problem.build(run.seed)
    warmup = min(problem.proxy.warmup_steps, run.steps // LONGEST_WARMUP)
    config = dataclasses.replace(problem.proxy, warmup_steps=warmup)
    proxy = Proxy(model, config, decay_steps=run.steps if run.decay else None, parallel=parallel)
    domains = problem.domains(run.seed, run.text)
    unfinished = problem.runs / f"unfinished-{kept.folder.name}"
    with kept_when_stopped(unfinished, {"run": kept.folder.name}, proxy, domains) as check:
        advance(proxy.steps)
        training = train_on_mixture(
            domains, proxy, run.weights, run.steps, problem.batch_sequences, seed=run.seed
        )
        for _ in training:
            advance(1)
            check()
        judged = proxy.counting_anew()  # what is kept of a proxy that is stopped here was not read
        losses, means = _read_by(judged, problem, check)
        for name, mean in means.items():
            if not math.isfinite(mean):
                raise NonFiniteError(
                    f"The loss of a proxy on held-out text of '{name}' is {mean}; a smaller "
                    "--learning_rate may help"
                )
        if not parallel.is_main:
            return
        content = {
            "losses": means,
            "cost": {**proxy.cost.report()["parts"], **judged.cost.report()["parts"]},
            "tokens": losses,
            "model": dict(model.state_dict()) if run.keep_model else {},
        }
        kept.put(content)


def _read_by(
    model: MeasuredModel, problem: Problem, check: Callable[[], None]
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Returns a model's losses of held-out tokens ``(sequences, T - 1)`` by domain and task, nats,
    and the means that they make; calls `check` after each."""
    losses, means = {}, {}
    with model.cost.part("evaluate"):
        for name in problem.evaluated:
            text = problem.evaluated_on(name)
            found = model.evaluate_tokens(text.tokens.to(problem.device), "evaluate").cpu()
            losses[name] = found
            means[name] = text.losses(text.of_sequences(found)).mean().item()
            check()
    return losses, means
