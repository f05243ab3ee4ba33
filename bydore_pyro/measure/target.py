"""The gradients of a target, at the parameters of each measurement of the domains."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from bydore_pyro.core import Matching, Metric, RoundEvidence, Sample, round_evidence
from bydore_pyro.data import Domains
from bydore_pyro.measure.measurement import Measurement, sample_of
from bydore_pyro.proxy import GradientSketch, ShardedSketch

__all__ = ["TargetMeasurement", "read_target"]


@dataclass(frozen=True)
class TargetMeasurement:
    """What one measurement of the domains says of one target.

    Attributes:
        step: Of the measurement.
        sequences: Of the domains, in all.
        evidence: Their inner products.
        loss: Of the target, nats per token.
        sample: The target's gradients.
        metric: In which gradients are compared.
        parts: The same of each domain of the target, by name, where they were asked for and are
            several.
    """

    step: int
    sequences: int
    evidence: RoundEvidence
    loss: float
    sample: Sample
    metric: Metric
    parts: Mapping[str, TargetMeasurement] = field(default_factory=dict)

    def restricted(self, places: Sequence[int]) -> TargetMeasurement:
        """Returns the same with the evidence of some of the domains, in the given order."""
        whole = self.evidence
        evidence = dataclasses.replace(
            whole,
            products=tuple(whole.products[k][:, [*places, -1]] for k in places),
            held_out=whole.held_out[:, list(places)],
            documents=tuple(whole.documents[k] for k in places),
        )
        return dataclasses.replace(
            self,
            evidence=evidence,
            parts={name: part.restricted(places) for name, part in self.parts.items()},
        )

    def residual(self, found: Matching, measured: Measurement) -> Tensor:
        """Returns ``W (m - sum_k u_k m_k)``, what the optimum leaves of the target, ``(S,)``."""
        means = torch.stack([sample.gradients.mean(0) for sample in measured.samples.values()])
        left = self.sample.gradients.mean(0) - found.optimum.to(means.dtype) @ means
        return self.metric(self.metric(left))


def read_target(
    sketch: GradientSketch | ShardedSketch,
    measured: Measurement,
    target: Domains,
    *,
    name: str = "validation",
    metric: Metric | None = None,
    each: bool = False,
) -> TargetMeasurement:
    """Reads the gradients of a target where a model was measured.

    Args:
        sketch: Of the model, at the parameters of the measurement (`set_parameters`).
        measured: Of the domains, in the order of the evidence.
        target: Its validation set is the target.
        name: Of the target, for errors.
        metric: That of the measurement, if it is known.
        each: Whether each domain of the target is read by itself too.

    Raises:
        NonFiniteError: See `sample_of`.
    """
    sample, losses = sample_of(
        sketch, target.validation, target.validation_documents, measured.step, name
    )
    samples = list(measured.samples.values())
    metric = metric or Metric(samples)
    seen = [metric.of(one) for one in samples]

    def read(rows: slice) -> TargetMeasurement:
        own = Sample(sample.gradients[rows], sample.documents[rows])
        return TargetMeasurement(
            step=measured.step,
            sequences=sum(len(one.documents) for one in samples),
            evidence=round_evidence(seen, metric.of(own)),
            loss=float(losses[rows].mean()),
            sample=own,
            metric=metric,
        )

    whole, parts = read(slice(None)), target.validation_rows
    if not each or len(parts) == 1:
        return whole
    return dataclasses.replace(whole, parts={part: read(rows) for part, rows in parts.items()})
