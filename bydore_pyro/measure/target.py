"""The gradients of a target, at the parameters of each measurement of the domains.

They are kept beside the measurement, in ``targets``, by the target's text: the next question about
this text reads no model. Damaged ones, or those of another measurement, are read again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from bydore_pyro import core, data, files, proxy
from bydore_pyro.measure.measurement import Measurement, frozen, sample_of, thawed

TARGETS = "targets"
FORMAT = "bydore_pyro.target/2"


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
    evidence: core.RoundEvidence
    loss: float
    sample: core.Sample
    metric: core.Metric
    parts: Mapping[str, TargetMeasurement] = field(default_factory=dict)

    def restricted(self, places: Sequence[int]) -> TargetMeasurement:
        """Returns the same with the evidence of some of the domains, in the given order."""
        whole, kept = self.evidence, [*places, -1]
        evidence = dataclasses.replace(
            whole,
            products=tuple(whole.products[k][:, kept] for k in places),
            held_out=whole.held_out[:, list(places)],
            documents=tuple(whole.documents[k] for k in places),
        )
        parts = {name: part.restricted(places) for name, part in self.parts.items()}
        return dataclasses.replace(self, evidence=evidence, parts=parts)

    def residual(self, found: core.Matching, measured: Measurement) -> Tensor:
        """Returns ``W (m - sum_k u_k m_k)``, what the optimum leaves of the target, ``(S,)``."""
        means = torch.stack([sample.gradients.mean(0) for sample in measured.samples.values()])
        left = self.sample.gradients.mean(0) - found.optimum.to(means.dtype) @ means
        return self.metric(self.metric(left))


def read_target(
    sketch: proxy.GradientSketch,
    measured: Measurement,
    target: data.Domains,
    *,
    each: bool = False,
    anew: bool = False,
) -> TargetMeasurement:
    """Reads the gradients of a target where a model was measured, or what is kept of them.

    Args:
        sketch: Of the model, at the parameters of the measurement (`set_parameters`).
        measured: Of the domains, in the order of the evidence.
        target: Its validation set is the target.
        each: Whether each domain of the target is read by itself too.
        anew: Whether they are read although they are kept.

    Raises:
        NonFiniteError: See `sample_of`.
    """
    sample, losses = _sample(sketch, measured, target, anew)
    samples = list(measured.samples.values())
    metric = core.Metric(samples)
    seen = [metric.of(one) for one in samples]

    def read(rows: slice) -> TargetMeasurement:
        own = core.Sample(sample.gradients[rows], sample.documents[rows])
        return TargetMeasurement(
            step=measured.step,
            sequences=sum(len(one.documents) for one in samples),
            evidence=core.round_evidence(seen, metric.of(own)),
            loss=float(losses[rows].mean()),
            sample=own,
            metric=metric,
        )

    whole, parts = read(slice(None)), target.validation_rows
    if not each or len(parts) == 1:
        return whole
    return dataclasses.replace(whole, parts={part: read(rows) for part, rows in parts.items()})


def _sample(
    sketch: proxy.GradientSketch, measured: Measurement, target: data.Domains, anew: bool
) -> tuple[core.Sample, Tensor]:
    """Returns a target's gradients, as float16 keeps them, and losses ``(n,)``; keeps them."""
    rows, documents = target.validation, target.validation_documents
    text = hashlib.sha256(f"{tuple(rows.shape)}".encode())
    for part in (rows.cpu().numpy(), documents):
        text.update(part.tobytes())
    key = {"format": FORMAT, "measurement": measured.sha256}

    def read() -> dict[str, Any]:
        found, losses = sample_of(sketch, rows, documents, measured.step, "validation")
        return {"sample": frozen(found), "losses": losses}

    if measured.folder is None:
        tree = read()
    else:
        place = measured.folder / TARGETS / text.hexdigest()[:32]
        writes = os.access(measured.folder, os.W_OK)  # else the next question reads again
        kept = files.Kept(place, key, replace=True, writes=writes)
        tree = read() if anew else kept.get_or(read)
        kept.put(tree)
    return thawed(*tree["sample"]), tree["losses"]
