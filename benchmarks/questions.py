"""The law of losses and questions to it, with 13, 100 and 1,000 domains: seconds, memory, truth.

The domains are those of `domains.py`. No proxy is trained: sequences are drawn from the domains'
word frequencies, and their gradients are those of a model of single words, sketched. The target is
made of eight domains by known shares. Losses on every domain follow a law that is known, whose
transfer is that of the frequencies themselves, not of the sequences that were drawn; one run on
equal weights is read at a quarter, a half and its end. So what an answer and a forecast are worth
can be told exactly.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from domains import PLANTED, WORDS, Language, in_branches, names_of
from torch import Tensor

from bydore_pyro.answer import (
    Answer,
    Forecast,
    Question,
    RunLosses,
    Target,
    answer_of,
    forecast_of,
    interval_of_draws,
)
from bydore_pyro.core import (
    Matching,
    Metric,
    RoundEvidence,
    Sample,
    central_weights,
    draw_posterior,
    match,
    round_evidence,
)
from bydore_pyro.files import provenance
from bydore_pyro.law import Goal, LawDraws, best_mixture, losses_of
from bydore_pyro.law.law_runs import LawRuns
from bydore_pyro.mixture import total_variation
from bydore_pyro.terminal import one_thread

SEQUENCE, SKETCH, ROUNDS, TARGET = 128, 1024, 3, 256  # words, numbers, and sequences
READ_AT = (0.25, 0.5, 1.0)
NOISE = 0.02  # of a run's loss, nats per token
FRESH = 20  # mixtures whose losses are forecast


class Plant:
    """Domains, a target made of eight of them, and the law that their losses follow."""

    def __init__(self, count: int, sequences: int, seed: int) -> None:
        self.names, self.random = tuple(names_of(count)), torch.Generator().manual_seed(seed)
        language, rng = Language(seed), np.random.default_rng(seed)
        own = np.stack([language.frequencies(name) for name in self.names])
        self.frequencies = torch.from_numpy(own)
        chosen = rng.choice(count, len(PLANTED), replace=False)
        self.shares = torch.zeros(count).double()
        self.shares[chosen] = torch.tensor(PLANTED).double()
        sketch = torch.randn(WORDS, SKETCH, generator=self.random) / SKETCH**0.5
        learned = (self.frequencies.mean(0) + 1 / WORDS) / 2  # a model that is half trained
        self.words = sketch - learned.float() @ sketch  # gradients of one word
        rounds = [self.round(sequences) for _ in range(ROUNDS)]
        self.found: Matching = match([evidence for evidence, _ in rounds])
        true = rounds[0][1](self.frequencies.float() @ self.words)  # the gradients without noise
        self.law = self.true_law((true @ true.T).double())

    def sequences(self, domain: int, count: int) -> Tensor:
        """Returns sketched gradients of a domain's sequences ``(count, SKETCH)``."""
        drawn = count * SEQUENCE
        places = torch.multinomial(self.frequencies[domain], drawn, True, generator=self.random)
        return self.words[places].view(count, SEQUENCE, -1).mean(1)

    def round(self, each: int) -> tuple[RoundEvidence, Metric]:
        """Returns what a round of a search would measure, and its metric."""
        alone = torch.arange(each)  # every sequence is a document
        samples = [Sample(self.sequences(k, each), alone) for k in range(len(self.names))]
        of = torch.multinomial(self.shares, TARGET, True, generator=self.random)
        rows = torch.cat([self.sequences(int(k), 1) for k in of])
        metric = Metric(samples)
        target = metric.of(Sample(rows, torch.arange(TARGET)))
        return round_evidence([metric.of(one) for one in samples], target), metric

    def true_law(self, cross: Tensor) -> LawDraws:
        """Returns one draw: the law itself, of runs whose longest is of length 1."""
        count = len(self.names)
        tokens = torch.tensor(READ_AT).double()[:, None].expand(-1, count) / count
        self.tokens = tokens
        any_losses = torch.rand(tokens.shape, generator=self.random).double()
        runs = LawRuns.of(tokens, any_losses, cross)

        def drawn(mean: float, deviation: float) -> Tensor:
            return mean + deviation * torch.randn(1, count, generator=self.random).double()

        return LawDraws(
            runs=runs,
            level=drawn(4.0, 0.5),
            slope=drawn(np.log(0.35), 0.35).exp(),
            power=drawn(np.log(0.18), 0.2).exp(),
            openness=(runs.rho * drawn(np.log(0.2), 0.5)).exp(),
            transfer=runs.transfer,
            noise=torch.full((1, count), NOISE).double(),
        )

    def measured(self, losses: Tensor) -> Tensor:
        return losses + NOISE * torch.randn(losses.shape, generator=self.random).double()

    def on_target(self, mixtures: Tensor) -> Tensor:
        """Returns the target's expected loss ``(M,)``."""
        return losses_of(self.law, mixtures)[0] @ self.shares

    def runs(self) -> RunLosses:
        losses = self.measured(self.law.losses(self.tokens)[0])
        return RunLosses(
            tokens=self.tokens,
            losses=losses,
            transfer=self.found.gram,
            of_targets=(losses @ self.shares)[:, None],
        )


@contextmanager
def timed(name: str, took: dict[str, float]) -> Iterator[None]:
    """Notes the seconds of a block, of one thread."""
    with one_thread():
        start = time.process_time()
        yield
        took[name] = time.process_time() - start


def measure(count: int, given: argparse.Namespace) -> None:
    """Answers questions with so many domains, and prints what they took and how good they are."""
    took: dict[str, float] = {}
    plant = Plant(count, given.sequences, given.seed)
    found, names, runs = plant.found, plant.names, plant.runs()
    with timed("posterior of weights", took):
        drawn = draw_posterior(found, seed=given.seed)
    uniform = torch.full((count,), 1 / count).double()

    def forecast(targets: dict[str, Tensor], of_targets: Tensor, left: float) -> Forecast:
        known = replace(runs, of_targets=of_targets)
        of = {
            name: Target(importance=1 / len(targets), compositions=draws, unexplained=left)
            for name, draws in targets.items()
        }
        return forecast_of(names, known, of, given.seed)

    def answer(of: Forecast, **asked: Any) -> Answer:
        goal, references = Goal(**asked), {"natural": uniform}
        question = Question(
            names=names, tokenizer="", data_sha256="", goal=goal, references=references
        )
        return answer_of(found, drawn, question, None, of)

    with timed("law of a target", took):
        of_one = forecast({"target": drawn.weights}, runs.of_targets, found.unexplained)
    every = dict(zip(names, torch.eye(count).double()[:, None], strict=True))
    with timed("law of all", took):
        of_all = forecast(every, runs.losses, 0.0)
    with timed("forecast of a mixture", took):
        of_one.expected(uniform)
    floor = torch.zeros(count).double()
    floor[[0, count // 2]] = 0.05
    none_worse: dict[str, Any] = {"objective": "none_worse", "baseline": uniform}
    questions: dict[str, Callable[[], Answer]] = {
        "target": lambda: answer(of_one),
        "at_least": lambda: answer(of_one, at_least=floor),
        "none_worse": lambda: answer(of_one, **none_worse),
        "all": lambda: answer(of_all),
        "all, worst": lambda: answer(of_all, objective="worst"),
        "all, none_worse": lambda: answer(of_all, **none_worse),
    }
    answers = {}
    for name in given.questions or questions:
        with timed(name, took):
            answers[name] = questions[name]()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(
        f"{count} domains, seconds: {', '.join(f'{n} {s:.2f}' for n, s in took.items())}; "
        f"at most {peak:.2f} GB",
        flush=True,
    )
    print(
        f"  posterior of weights: {'' if drawn.convergence.settled else 'not '}settled, {drawn.fit}"
    )
    tell_truth(plant, drawn.weights, of_one, answers)


def tell_truth(
    plant: Plant, drawn: Tensor, forecast: Forecast, answers: Mapping[str, Answer]
) -> None:
    """Prints how far weights, answers and forecasts are from what was planted."""
    centre, uniform = central_weights(drawn), torch.full_like(plant.shares, 1 / len(plant.shares))
    match_of = dict(zip(plant.names, centre.tolist(), strict=True))
    shares = dict(zip(plant.names, plant.shares.tolist(), strict=True))
    ends = torch.from_numpy(interval_of_draws(drawn.numpy()))
    inside = ((ends[:, 0] <= plant.shares) & (plant.shares <= ends[:, 1]))[plant.shares > 0]
    apart = total_variation(match_of, shares)
    of_branches = total_variation(in_branches(match_of), in_branches(shares))
    print(
        f"  weights: total variation {apart:.3f}, of the ten branches {of_branches:.3f}; "
        f"intervals hold {int(inside.sum())} of {len(inside)} planted shares"
    )
    best = best_mixture(plant.law, Goal(composition=plant.shares[None])).weights
    mixtures = {"match": centre, "planted": plant.shares, "best": best}
    if "target" in answers:
        mixtures["law"] = torch.tensor(answers["target"].mixture.weights).double()
    for name, weights in mixtures.items():
        true = plant.on_target(torch.stack([weights, uniform]))
        told = forecast.difference(weights, uniform)["target"]
        print(
            f"  {name}, less uniform: {true[0] - true[1]:+.3f}, predicted {told.loss:+.3f} "
            f"({told.low:+.3f} to {told.high:+.3f})"
        )
    concentration = torch.full_like(plant.shares, 10 / len(plant.shares))
    fresh = torch._sample_dirichlet(concentration.expand(FRESH, -1), generator=plant.random)
    runs = plant.measured(losses_of(plant.law, fresh)[0])  # (M, K)
    held = []
    for weights, losses in zip(fresh, runs, strict=True):
        told_of = forecast.expected(weights)
        true_of = {f"domain {n}": x for n, x in zip(plant.names, losses.tolist(), strict=True)}
        held.append([told_of[n].low <= x <= told_of[n].high for n, x in true_of.items()])
    print(f"  94 % intervals hold {np.mean(held):.1%} of the domains' losses on {FRESH} mixtures")


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--domains", type=int, nargs="+", default=[13, 100, 1000])
    parser.add_argument("--sequences", type=int, default=16, help="of a domain and round")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--questions", nargs="+", help="some of them; default: all")
    given = parser.parse_args()
    interval_of_draws(np.eye(3))  # imports
    for count in given.domains:
        measure(count, given)
    print(provenance())


if __name__ == "__main__":
    main()
