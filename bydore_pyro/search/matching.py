"""A search by gradient matching: measure in a few rounds, then infer.

1. train the proxy on equal weights
2. in a few rounds, at fixed theta: sketches of the gradients of fresh sequences of every domain,
   and of the validation set (`bydore_pyro.proxy.gradients`)
3. add up the rounds' evidence (`bydore_pyro.core.matching`)
4. infer the posterior of the weights (`bydore_pyro.core.inference`)

The proxy knows nothing of the target, so what was measured of the domains serves any other target.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bydore_pyro.core import (
    Inference,
    InferenceConfig,
    Matching,
    MeasuredRound,
    Metric,
    MixtureGuide,
    PriorNetwork,
    PriorNetworkConfig,
    Sample,
    covariance_of,
    infer_and_refine,
    match,
    measured_round,
)
from bydore_pyro.data import Domains
from bydore_pyro.proxy import GradientSketch, Proxy, schedule
from bydore_pyro.search.config import SearchConfig
from bydore_pyro.search.measurement import Measurement, sample_of
from bydore_pyro.search.residual_check import ResidualCheck, check_residual
from bydore_pyro.search.search import SearchState, StepRecord

__all__ = ["MatchingPosterior", "MatchingSearch", "RoundRecord"]


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
    """

    step: int
    sequences: np.ndarray
    losses: np.ndarray
    validation_loss: float
    alone: np.ndarray
    weights: np.ndarray
    scale: float
    unexplained: float


class MatchingPosterior:
    """The Gamma-Dirichlet posterior with a free scale: `MixtureGuide`, fitted by `infer`.

    Args:
        num_domains: K.
        network: The prior network.
        seed: Of its first weights, and of the draws.
        steps: Of SVI, at most; those of `InferenceConfig` when None.
    """

    def __init__(
        self,
        num_domains: int,
        network: PriorNetworkConfig | None,
        seed: int,
        steps: int | None = None,
    ) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            prior = PriorNetwork(num_domains, network, link="exp").double()
        self.guide = MixtureGuide(prior, scale=True)
        config = InferenceConfig(seed=seed)
        self.config = config if steps is None else dataclasses.replace(config, steps=steps)

    def learn(self, signals: Tensor, matching: Matching) -> Inference:
        """Fits the guide by SVI, then to exact draws.

        Args:
            signals: The domains' losses ``(K,)``, nats per token.
            matching: The evidence.
        """
        return infer_and_refine(
            self.guide,
            *(signals.double(), matching.linear, matching.precision),
            concentrations=matching.concentrations,
            config=self.config,
        )


@dataclass(kw_only=True)
class MatchingSearch(SearchState):
    """A search whose evidence is the match of gradients.

    Attributes:
        learner: Infers the posterior from the evidence.
        sketch: Reduces gradients.
        measured: The rounds' inner products.
        rounds: What each found.
        inference: How the inference ended; None before.
        signals: The domains' losses of the last round ``(K,)``, nats per token.
        check: The independent check at the end, None before it and where none is asked for.
        keep: Is given each round's number and what it measured.
    """

    learner: MatchingPosterior
    sketch: GradientSketch
    measured: list[MeasuredRound] = field(default_factory=list)
    rounds: list[RoundRecord] = field(default_factory=list)
    inference: Inference | None = None
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
        return cls(
            domains=domains,
            config=config,
            proxy=proxy,
            generator=torch.Generator().manual_seed(seed),
            learner=MatchingPosterior(count, network, seed, config.inference_steps),
            sketch=GradientSketch(proxy, config.sketch_size, seed),
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
            "guide": dict(self.learner.guide.state_dict()),
            "measured": [vars(one) for one in self.measured],
            "rounds": [vars(one) for one in self.rounds],
            "inference": None if self.inference is None else vars(self.inference),
            "signals": self.signals,
            "check": None if self.check is None else vars(self.check),
        }

    def restore(self, running: Mapping[str, Any]) -> None:
        """Goes on from what `running` returned."""
        self.learner.guide.load_state_dict(running["guide"])
        self.measured = [MeasuredRound(**one) for one in running["measured"]]
        self.rounds = [RoundRecord(**one) for one in running["rounds"]]
        inference, check = running["inference"], running["check"]
        if inference is not None:
            self.inference = Inference(**{**inference, "losses": ()})
        self.signals = running["signals"]
        self.check = None if check is None else ResidualCheck(**check)

    def step(self) -> StepRecord:
        """Trains a step on equal weights; where a round is due, measures; at the end infers."""
        config, size = self.config, self.domains.num_domains
        equal = torch.full((size,), 1 / size, dtype=torch.float64)
        counts, factors = schedule(config.strategy, equal, config.batch_sequences, self.generator)
        train_loss = self.train(counts, factors)
        number = len(self.records) + 1
        if number in config.measured_steps:
            self._round(number)
        last = self.rounds[-1] if self.rounds else None
        nothing, none = np.full(size, np.nan, np.float32), float("nan")
        uniform = equal.float().numpy()
        record = StepRecord(
            weights=uniform,
            mean=uniform if last is None else last.weights.astype(np.float32),
            standard_deviation=nothing,
            concentration=nothing,
            rate=nothing,
            losses=nothing if last is None else last.losses,
            train_loss=train_loss,
            validation_loss=none if last is None else last.validation_loss,
            g=nothing,
            kl_weight=none,
            loss=none,
        )
        self.records.append(record)
        return record

    def _round(self, step: int) -> None:
        """Measures at the present parameters and adds the evidence; in the last round infers."""
        domains, cost = self.domains, self.proxy.cost
        each = self.config.sequences_of_round(domains.num_domains)
        counts = np.minimum(each, domains.measurable())
        with cost.part("gradients"):
            samples, losses = [], []
            for name, count in zip(domains.names, counts.tolist(), strict=True):
                batch, documents = domains.measure_batch(name, count)
                sample, loss = sample_of(self.sketch, batch, documents, step, name)
                samples.append(sample)
                losses.append(loss)
            held_out, validation_loss = sample_of(
                self.sketch, domains.validation, domains.validation_documents, step, "validation"
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
            )
        )
        if step != self.config.measured_steps[-1]:
            return
        with cost.part("guide"):
            inference = self.learner.learn(self.signals, found)
            self.inference = dataclasses.replace(inference, losses=())  # a checkpoint holds it
        if self.config.check_sequences:
            with cost.part("check"):
                self.check = self._checked(samples, held_out, metric, found)

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
