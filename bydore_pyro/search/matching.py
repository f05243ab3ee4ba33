"""A search by gradient matching: measure in a few rounds, then infer.

1. train the proxy on equal weights
2. in a few rounds, at fixed theta: sketches of the gradients of fresh sequences of every domain,
   and of the validation set, and their evidence (`bydore_pyro.search.rounds`)
3. infer the posterior of the weights from all rounds' evidence (`bydore_pyro.core.inference`)
4. check the mixture on sequences that the search has not seen
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
    Matching,
    MeasuredRound,
    Metric,
    Parameters,
    Sample,
    covariance_of,
    finite_difference,
    match,
    scatter_of_means,
)
from bydore_pyro.data import Domains
from bydore_pyro.proxy import GradientSketch, Proxy, schedule
from bydore_pyro.search.config import SearchConfig
from bydore_pyro.search.rounds import (
    MatchingPosterior,
    Measurement,
    evidence_of,
    measure,
    sample_of,
)
from bydore_pyro.search.state import SearchState, StepRecord

__all__ = ["MatchingSearch", "ResidualCheck", "Round", "check_residual"]

FAR = 3.0  # standard errors, for the largest of K


@dataclass(frozen=True, kw_only=True)
class Round:
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


@dataclass(frozen=True)
class ResidualCheck:
    """An independent check of a mixture: the hypergradient along what it leaves unmatched.

    At the best mixture ``u`` no domain can improve the match: along the residual ``r = m - sum_k
    u_k m_k`` the hypergradient ``<m_k, r>`` is 0 for domains that have weight and at most 0 for the
    others.

    Attributes:
        slopes: ``<m_k, r>`` ``(K,)``, in the unit of the evidence's ``c``: positive where more of
            the domain would match the target better.
        errors: Their standard errors: of the fresh sequences and of the search's own evidence.
        weights: That were checked.
    """

    slopes: Tensor
    errors: Tensor
    weights: Tensor

    @property
    def failing(self) -> Tensor:
        """Whether each slope contradicts the weights ``(K,)``, by more than 3 errors.

        A domain with a weight of 0.01 or more must have a slope of 0; one without, one not above 0.
        """
        z = self.slopes / self.errors.clamp(min=1e-300)
        return torch.where(self.weights >= 0.01, z.abs() > FAR, z > FAR)


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
        cluster: Where gradients are measured, see `bydore_pyro.utils.pieces`.
    """

    learner: MatchingPosterior
    sketch: GradientSketch
    measured: list[MeasuredRound] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    inference: Inference | None = None
    signals: Tensor | None = None
    check: ResidualCheck | None = None
    keep: Callable[[int, Measurement], None] | None = None
    cluster: str | None = None

    @classmethod
    def begin(
        cls,
        domains: Domains,
        proxy: Proxy,
        config: SearchConfig,
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
            learner=MatchingPosterior(count, seed, config.inference_steps),
            sketch=GradientSketch(proxy, config.sketch_size, seed),
        )

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
        self.rounds = [Round(**one) for one in running["rounds"]]
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
        with cost.part("gradients"):
            each = self.config.sequences_of_round(domains.num_domains)
            measurement = measure(self.sketch, domains, each, step, cluster=self.cluster)
            target, validation_loss = sample_of(
                self.sketch, domains.validation, domains.validation_documents, step, "validation"
            )
        samples, self.signals = measurement.samples, measurement.losses
        if self.keep is not None:
            self.keep(len(self.measured) + 1, measurement)
        with cost.part("matching"):
            metric = Metric(samples)
            self.measured.append(evidence_of(samples, target, metric))
            found, alone = self.matching, match(self.measured[-1:])
        self.rounds.append(
            Round(
                step=step,
                sequences=np.array([len(sample.documents) for sample in samples]),
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
                self.check = self._checked(measurement, target, metric, found)

    def _checked(
        self, measurement: Measurement, target: Sample, metric: Metric, found: Matching
    ) -> ResidualCheck:
        """Checks the mixture found along the last round's residual, at the last parameters."""
        means = torch.stack([sample.gradients.mean(0) for sample in measurement.samples])
        left = target.gradients.mean(0) - found.optimum.to(means.dtype) @ means  # r, (S,)
        return check_residual(
            self.domains,
            self.sketch,
            metric(metric(left)),
            found.weights,
            covariance_of(self.measured[-1:], found.optimum),
            1 / float(self.measured[-1].gram.diagonal().clamp(min=0).sum()),
            self.config.sequences_of_check(self.domains.num_domains),
        )


def check_residual(
    domains: Domains,
    sketch: GradientSketch,
    residual: Tensor,
    weights: Tensor,
    covariance: Tensor,
    unit: float,
    count: int,
) -> ResidualCheck:
    """Measures the hypergradient of every domain along a residual, by finite differences of losses.

    Args:
        domains: Where fresh sequences come from.
        sketch: That the residual was measured with, at the same parameters of the proxy.
        residual: ``W (m - sum_k u_k m_k)``, ``(S,)``.
        weights: Of the mixture ``(K,)``.
        covariance: Of the moments ``c - A u`` in the search's own evidence ``(K, K)``.
        unit: What the slopes are multiplied by to be in the evidence's unit.
        count: Sequences of each domain.
    """
    model, theta = sketch.model, sketch.model.parameters
    direction = sketch.unfolded(residual)
    slopes, variances = [], []
    for name in domains.names:
        batch, documents = domains.measure_batch(name, count)

        def losses(perturbed: Parameters, batch: Tensor = batch) -> Tensor:
            return model.losses(batch, "check", perturbed, full_precision=True)  # (n,)

        _, slope = finite_difference(losses, theta, direction, 1.0)  # (n,)
        slope = unit * slope.cpu().double()
        variance, _ = scatter_of_means([slope[:, None]], [torch.from_numpy(documents)])
        slopes.append(slope.mean())
        variances.append(variance[0, 0])
    own = covariance.diagonal().clamp(min=0)
    return ResidualCheck(torch.stack(slopes), (torch.stack(variances) + own).sqrt(), weights)
