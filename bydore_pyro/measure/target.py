"""The gradients of a target, where the domains were measured, and its responses to branches and to
models that one already has.

Gradients and responses to branches are kept beside the measurement, in ``targets``, by the target's
text: the next question about this text does not read them again. Damaged ones, or those of another
measurement, are read again.
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
from bydore_pyro.measure.branches import Branch, responses_of, samples_of
from bydore_pyro.measure.measurement import Measurement, frozen, thawed
from bydore_pyro.measure.models import ModelResponses, beside

TARGETS = "targets"
FORMAT = "bydore_pyro.target/4"


@dataclass(frozen=True)
class TargetMeasurement:
    """What one measurement of the domains says of one target.

    Attributes:
        step: Of the measurement.
        sequences: Of the domains, in all.
        evidence: Their inner products.
        loss: Of the target, in its unit; of several targets, their mean by shares.
        sample: The target's gradients.
        metric: In which gradients are compared.
        responses: Of the domains and the target, where branches began at this measurement.
        parts: The same of each domain of the target, by name, where they were asked for and are
            several.
    """

    step: int
    sequences: int
    evidence: core.RoundEvidence
    loss: float
    sample: core.Sample
    metric: core.Metric
    responses: core.Responses | None = None
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
        responses = None if self.responses is None else self.responses.restricted(places)
        return dataclasses.replace(self, evidence=evidence, responses=responses, parts=parts)

    def residual(self, found: core.Matching, measured: Measurement) -> Tensor:
        """Returns ``W (m - sum_k u_k m_k)``, what the optimum leaves of the target, ``(S,)``."""
        means = torch.stack([sample.gradients.mean(0) for sample in measured.samples.values()])
        left = self.sample.gradients.mean(0) - found.optimum.to(means.dtype) @ means
        return self.metric(self.metric(left))


def read_target(
    sketch: proxy.GradientSketch,
    measured: Measurement,
    target: data.Domains,
    branches: Sequence[Branch] = (),
    *,
    models: ModelResponses | None = None,
    each: bool = False,
    anew: bool = False,
) -> TargetMeasurement:
    """Reads the gradients of a target where a model was measured, and its responses to branches, or
    what is kept of them.

    Args:
        sketch: Of the model, at the parameters of the measurement (`set_parameters`).
        measured: Of the domains, in the order of the evidence.
        target: Its validation set is the target.
        branches: That began at this measurement; without any, no responses to them are read.
        models: How the same sequences of the domains, in the same order, and the target's documents
            respond to models that one has; they stand behind those to branches.
        each: Whether each domain of the target is read by itself too.
        anew: Whether they are read although they are kept.

    Raises:
        NonFiniteError: When a loss or a gradient is NaN or infinite.
    """
    found = _read(sketch, measured, target, branches, anew)
    samples = list(measured.samples.values())
    metric = core.Metric(samples)
    seen = [metric.of(one) for one in samples]
    respond = samples_of(branches) if branches else {}
    if models is not None:
        respond = {name: beside(respond.get(name), own) for name, own in models.domains.items()}
        found = {
            name: dataclasses.replace(one, responses=beside(one.responses, models.targets[name]))
            for name, one in found.items()
        }

    def of(one: _TargetPart) -> TargetMeasurement:
        responses = None
        if one.responses is not None:
            count = 0 if models is None else models.count
            responses = core.Responses(tuple(respond.values()), one.responses, count)
        return TargetMeasurement(
            step=measured.step,
            sequences=sum(len(one.documents) for one in samples),
            evidence=core.round_evidence(seen, metric.of(one.gradients)),
            loss=one.loss,
            sample=one.gradients,
            metric=metric,
            responses=responses,
        )

    shares = target.validation_shares
    counted = {name: one for name, one in found.items() if shares[name]}  # without guards
    loss = sum(shares[name] * one.loss for name, one in counted.items())
    responses = {n: one.responses for n, one in counted.items() if one.responses is not None}
    whole = of(
        _TargetPart(
            gradients=_together({name: one.gradients for name, one in counted.items()}, shares),
            responses=_together(responses, shares) if responses else None,
            loss=loss,
        )
    )
    if not each or len(found) == 1:
        return whole
    parts = {name: of(one) for name, one in found.items()}
    return dataclasses.replace(whole, parts=parts)


@dataclass(frozen=True)
class _TargetPart:
    """What was read of a part of a target, as float16 keeps its gradients."""

    gradients: core.Sample
    responses: core.Sample | None
    loss: float


def _together(samples: Mapping[str, core.Sample], shares: Mapping[str, float]) -> core.Sample:
    """Returns the sample of several targets, whose mean gradient is theirs by their shares."""
    total, before = sum(len(one.documents) for one in samples.values()), 0
    gradients, documents = [], []
    for name, one in samples.items():
        # Of plain text, whose sequences are as many as its share says, about 1.
        gradients.append(one.gradients * (shares[name] * total / len(one.documents)))
        documents.append(one.documents + before)
        before += int(one.documents.max()) + 1
    return core.Sample(torch.cat(gradients), torch.cat(documents))


def _read(
    sketch: proxy.GradientSketch,
    measured: Measurement,
    target: data.Domains,
    branches: Sequence[Branch],
    anew: bool,
) -> dict[str, _TargetPart]:
    """Returns what was read of each part of a target; keeps each by its text."""
    key = {"format": FORMAT, "measurement": measured.sha256}
    places: dict[str, files.Kept] = {}
    found: dict[str, Mapping[str, Any]] = {}
    if measured.folder is not None:
        writes = os.access(measured.folder, os.W_OK)  # else the next question reads again
        for name, part in target.targets.items():
            folder = measured.folder / TARGETS / _hash(part, branches)
            places[name] = files.Kept(folder, key, replace=True, writes=writes)
            if not anew and (tree := places[name].get()) is not None:
                found[name] = tree
    missing = {name: part for name, part in target.targets.items() if name not in found}
    if missing:
        tokens, weights = data.together(missing.values())
        sketches, losses = sketch(tokens, "gradients", weights=weights)
        before = 0
        for name, part in missing.items():
            own = slice(before, before + len(part.tokens))
            before = own.stop
            gradients = part.gradients(sketches[own], losses[own])
            values = part.losses(losses[own]).float()
            proxy.check_finite("loss", values, measured.step, [name] * len(values))
            proxy.check_finite("gradient", gradients.sum(1), measured.step, [name] * len(values))
            sample = core.Sample(gradients, torch.from_numpy(part.documents))
            tree = {"sample": frozen(sample), "losses": values}
            if branches:
                responses = responses_of(sketch.model, branches, part)
                proxy.check_finite("response", responses.sum(1), measured.step, [name] * len(part))
                tree["responses"] = responses
            if name in places:
                places[name].put(tree)
            found[name] = tree
    return {name: _part(found[name]) for name in target.targets}


def _hash(text: data.Sequences, branches: Sequence[Branch]) -> str:
    """Returns the name under which a text's readings are kept."""
    read = text.sha256 + "".join(branch.sha256 for branch in branches)
    return hashlib.sha256(read.encode()).hexdigest()[:32]


def _part(own: Mapping[str, Any]) -> _TargetPart:
    gradients = thawed(*own["sample"])
    responses = None
    if "responses" in own:
        responses = core.Sample(own["responses"], gradients.documents)
    return _TargetPart(gradients, responses, float(own["losses"].mean()))
