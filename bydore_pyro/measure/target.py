"""The gradients of a target, where the domains were measured, and its responses to branches.

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
from bydore_pyro.measure.branches import Branch, responses_of, samples_of
from bydore_pyro.measure.measurement import Measurement, frozen, thawed

TARGETS = "targets"
FORMAT = "bydore_pyro.target/3"


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
    each: bool = False,
    anew: bool = False,
) -> TargetMeasurement:
    """Reads the gradients of a target where a model was measured, and its responses to branches, or
    what is kept of them.

    Args:
        sketch: Of the model, at the parameters of the measurement (`set_parameters`).
        measured: Of the domains, in the order of the evidence.
        target: Its validation set is the target.
        branches: That began at this measurement; without any, no responses are read.
        each: Whether each domain of the target is read by itself too.
        anew: Whether they are read although they are kept.

    Raises:
        NonFiniteError: When a loss or a gradient is NaN or infinite.
    """
    found = _read(sketch, measured, target, branches, anew)
    samples = list(measured.samples.values())
    metric = core.Metric(samples)
    seen = [metric.of(one) for one in samples]
    respond = tuple(samples_of(branches).values()) if branches else ()

    def of(one: _TargetPart) -> TargetMeasurement:
        responses = None
        if one.responses is not None:
            responses = core.Responses(respond, one.responses)
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
    loss = sum(shares[name] * one.loss for name, one in found.items())
    responses = {n: one.responses for n, one in found.items() if one.responses is not None}
    whole = of(
        _TargetPart(
            gradients=_together({name: one.gradients for name, one in found.items()}, shares),
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
    """Returns what was read of each part of a target; keeps it."""
    text = hashlib.sha256()
    for name, part in target.targets.items():
        text.update(f"{name} {tuple(part.tokens.shape)}".encode())
        for one in (part.tokens, part.weights, part.questions, part.right):
            if one is not None:
                text.update(one.cpu().numpy().tobytes())
        text.update(part.documents.tobytes())
    for branch in branches:
        text.update(branch.sha256.encode())
    key = {"format": FORMAT, "measurement": measured.sha256}

    def read() -> dict[str, Any]:
        tokens, weights = data.together(target.targets.values())
        sketches, losses = sketch(tokens, "gradients", weights=weights)
        tree, before = {}, 0
        for name, part in target.targets.items():
            own = slice(before, before + len(part.tokens))
            before = own.stop
            gradients = part.gradients(sketches[own], losses[own])
            values = part.losses(losses[own]).float()
            proxy.check_finite("loss", values, measured.step, [name] * len(values))
            proxy.check_finite("gradient", gradients.sum(1), measured.step, [name] * len(values))
            sample = core.Sample(gradients, torch.from_numpy(part.documents))
            tree[name] = {"sample": frozen(sample), "losses": values}
            if branches:
                responses = responses_of(sketch.model, branches, part)
                proxy.check_finite("response", responses.sum(1), measured.step, [name] * len(part))
                tree[name]["responses"] = responses
        return tree

    if measured.folder is None:
        tree = read()
    else:
        place = measured.folder / TARGETS / text.hexdigest()[:32]
        writes = os.access(measured.folder, os.W_OK)  # else the next question reads again
        kept = files.Kept(place, key, replace=True, writes=writes)
        tree = read() if anew else kept.get_or(read)
        kept.put(tree)
    return {name: _part(own) for name, own in tree.items()}


def _part(own: Mapping[str, Any]) -> _TargetPart:
    gradients = thawed(*own["sample"])
    responses = None
    if "responses" in own:
        responses = core.Sample(own["responses"], gradients.documents)
    return _TargetPart(gradients, responses, float(own["losses"].mean()))
