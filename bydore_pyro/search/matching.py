"""A search by gradient matching: a few rounds of training, measuring and inference.

1. train the proxy on the weights, uniform ones at first
2. at fixed theta: sketches of the gradients of fresh sequences of every domain, and of the
   validation set (`bydore_pyro.proxy.gradients`)
3. add the round's evidence to the evidence of earlier rounds (`bydore_pyro.core.matching`)
4. infer the posterior of the weights (`bydore_pyro.core.inference`), and train on with its mean
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bydore_pyro.core import (
    Matching,
    MeasuredRound,
    Metric,
    PriorNetworkConfig,
    Sample,
    covariance_of,
    match,
    measured_round,
)
from bydore_pyro.data import Domains
from bydore_pyro.proxy import GradientSketch, Proxy, schedule
from bydore_pyro.search.config import SearchConfig
from bydore_pyro.search.learner import Weights
from bydore_pyro.search.matching_learners import MatchingLearner, matching_learner
from bydore_pyro.search.measurement import Measurement
from bydore_pyro.search.residual_check import ResidualCheck, check_residual
from bydore_pyro.search.state import SearchState, StepRecord, check_finite

__all__ = ["MatchingSearch", "RoundRecord"]


@dataclass(frozen=True, kw_only=True)
class RoundRecord:
    """What a round found, with the evidence of the rounds before; arrays are ``(K,)``.

    Attributes:
        step: Steps of the proxy before it.
        sequences: That were measured of each domain.
        losses: Of the domains, nats per token.
        validation_loss: Nats per token.
        alone: The most likely weights by this round's evidence alone.
        weights: The most likely weights by all evidence so far.
        scale: ``s`` there.
        unexplained: Share of the target's gradient that no mixture explains.
        inference_loss: What inference minimised, nats (not per token): the negative ELBO, for a
            point the negative evidence.
        inference_steps: Of SVI.
        settled: Whether the loss settled before these ran out.
    """

    step: int
    sequences: np.ndarray
    losses: np.ndarray
    validation_loss: float
    alone: np.ndarray
    weights: np.ndarray
    scale: float
    unexplained: float
    inference_loss: float
    inference_steps: int
    settled: bool


@dataclass(kw_only=True)
class MatchingSearch(SearchState):
    """A search whose evidence is the match of gradients.

    Attributes:
        learner: Learns the weights from the evidence.
        sketch: Reduces gradients.
        seed: Of the sketches.
        measured: The rounds' inner products.
        rounds: What each found.
        belief: The posterior's mean and spread, and what the proxy trains on.
        signals: The domains' losses of the last round ``(K,)``, nats per token.
        check: The independent check at the end, None before it and where none is asked for.
        keep: Is given each round's number and what it measured.
    """

    learner: MatchingLearner
    sketch: GradientSketch
    belief: Weights
    measured: list[MeasuredRound] = field(default_factory=list)
    rounds: list[RoundRecord] = field(default_factory=list)
    signals: Tensor | None = None
    check: ResidualCheck | None = None
    keep: Callable[[int, Measurement], None] | None = None

    @classmethod
    def begin(
        cls,
        domains: Domains,
        proxy: Proxy,
        config: SearchConfig,
        network: PriorNetworkConfig | None,
        seed: int,
    ) -> MatchingSearch:
        """Returns a search before its first step.

        Raises:
            ValueError: When the domains keep no sequences for measuring.
        """
        count = len(domains.measurable())
        uniform = torch.full((count,), 1 / count, dtype=torch.float64)
        spread = (uniform * (1 - uniform) / (count + 1)).sqrt()  # of Dirichlet(1), the prior
        one = torch.ones_like(uniform)
        return cls(
            domains=domains,
            config=config,
            proxy=proxy,
            generator=torch.Generator().manual_seed(seed),
            learner=matching_learner(config, count, network, seed),
            sketch=GradientSketch(proxy, config.sketch_size, seed),
            belief=Weights(uniform, uniform, spread, one, one),
        )

    @property
    def is_done(self) -> bool:
        """Whether the last round has been measured."""
        return len(self.records) >= self.config.trained_steps

    @property
    def average_start(self) -> int:
        """The last step: the result is the last round's posterior."""
        return max(0, len(self.records) - 1)

    @property
    def matching(self) -> Matching:
        """The evidence of the rounds so far.

        Raises:
            ValueError: Before the first.
        """
        return match(self.measured)

    def running(self) -> dict[str, Any]:
        """Returns what the next step depends on, beside proxy, data and records."""
        return {
            "learner": self.learner.state(),
            "belief": asdict(self.belief),
            "measured": [vars(one) for one in self.measured],
            "rounds": [vars(one) for one in self.rounds],
            "signals": self.signals,
            "check": None if self.check is None else vars(self.check),
        }

    def restore(self, running: Mapping[str, Any]) -> None:
        """Goes on from what `running` returned."""
        self.learner.restore(running["learner"])
        self.belief = Weights(**running["belief"])
        self.measured = [MeasuredRound(**one) for one in running["measured"]]
        self.rounds = [RoundRecord(**one) for one in running["rounds"]]
        self.signals = running["signals"]
        self.check = None if running["check"] is None else ResidualCheck(**running["check"])

    def step(self) -> StepRecord:
        """Trains a step; where a round is due, measures, infers, and at the end checks."""
        config, weights = self.config, self.belief.mean
        counts, factors = schedule(config.strategy, weights, config.batch_sequences, self.generator)
        train_loss = self.train(counts, factors)
        number = len(self.records) + 1
        if number in config.measured_steps:
            self._round(number)
        last = self.rounds[-1] if self.rounds else None
        nothing = np.full(len(weights), np.nan, np.float32)
        belief = self.belief
        record = StepRecord(
            weights=weights.float().numpy(),
            mean=belief.mean.float().numpy(),
            standard_deviation=belief.standard_deviation.float().numpy(),
            concentration=belief.concentration.float().numpy(),
            rate=belief.rate.float().numpy(),
            losses=nothing if last is None else last.losses,
            train_loss=train_loss,
            validation_loss=float("nan") if last is None else last.validation_loss,
            g=nothing,
            kl_weight=float("nan"),
            loss=float("nan"),
        )
        self.records.append(record)
        return record

    def _round(self, step: int) -> None:
        """Measures at the present parameters, adds the evidence and infers."""
        domains, cost = self.domains, self.proxy.cost
        counts = self._allocation()
        with cost.part("gradients"):
            samples, losses = [], []
            for name, count in zip(domains.names, counts.tolist(), strict=True):
                sample, loss = self._sample(*domains.measure_batch(name, count), step, name)
                samples.append(sample)
                losses.append(loss)
            held_out, validation_loss = self._sample(
                domains.validation, domains.validation_documents, step, "validation"
            )
        self.signals = torch.tensor(losses)
        if self.keep is not None:
            measurement = Measurement(
                step=step,
                parameters=self.proxy.parameters,
                samples=tuple(samples),
                losses=self.signals,
            )
            self.keep(len(self.measured) + 1, measurement)
        with cost.part("matching"):
            metric = Metric(samples)
            samples, held_out = [metric.of(sample) for sample in samples], metric.of(held_out)
            self.measured.append(measured_round(samples, held_out))
            found, alone = self.matching, match(self.measured[-1:])
        with cost.part("guide"):
            last = step == self.config.measured_steps[-1]
            settled = self.learner.learn(self.signals, found, last=last)
        self.belief = settled.weights
        self.rounds.append(
            RoundRecord(
                step=step,
                sequences=counts,
                losses=self.signals.numpy(),
                validation_loss=validation_loss,
                alone=alone.weights.numpy(),
                weights=found.weights.numpy(),
                scale=found.scale,
                unexplained=found.unexplained,
                inference_loss=settled.loss,
                inference_steps=settled.steps,
                settled=settled.settled,
            )
        )
        if last and self.config.check_sequences:
            with cost.part("check"):
                self.check = self._checked(samples, held_out, metric, found)

    def _sample(
        self, batch: Tensor, documents: np.ndarray, step: int, name: str
    ) -> tuple[Sample, float]:
        """Sketches the gradients of sequences; returns them and the sequences' mean loss."""
        sketches, losses = self.sketch(batch, "gradients")
        check_finite("signal", losses, step, [name] * len(losses))
        check_finite("gradient", sketches.sum(1), step, [name] * len(losses))
        return Sample(sketches, torch.from_numpy(documents)), float(losses.mean())

    def _allocation(self) -> np.ndarray:
        """Returns how many sequences of each domain the next round measures ``(K,)``.

        Equally many in the first. Then half of them are shared out by the weights: the error of a
        domain's mean gradient enters the evidence times the domain's weight.
        """
        count, each = (
            self.domains.num_domains,
            self.config.sequences_of_round(self.domains.num_domains),
        )
        if not self.rounds:
            wanted = np.full(count, each)
        else:
            shares = 0.5 / count + 0.5 * self.belief.mean.numpy()
            wanted = np.maximum(2, np.round(shares * count * each)).astype(int)
        return np.minimum(wanted, self.domains.measurable())

    def _checked(
        self, samples: list[Sample], held_out: Sample, metric: Metric, found: Matching
    ) -> ResidualCheck:
        """Checks the mixture found along the last round's residual, at the last parameters."""
        means = torch.stack([sample.gradients.mean(0) for sample in samples])
        optimum = found.optimum.to(means.dtype)
        residual = held_out.gradients.mean(0) - optimum @ means  # W^(1/2) r, (S,)
        last = self.measured[-1]
        return check_residual(
            self.domains,
            self.sketch,
            metric(residual),
            found.weights,
            covariance_of(self.measured[-1:], found.optimum),
            1 / float(last.gram.diagonal().clamp(min=0).sum()),
            self.config.check_sequences,
        )
