"""An independent check of a mixture, on text that is set aside before anything is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import compress

import torch
from torch import Tensor

from bydore_pyro import core, data, files, mixture, proxy

FAR = 3.0  # standard errors, for the largest of K


@dataclass(frozen=True, kw_only=True)
class ResidualCheck:
    """An independent check of a mixture: the hypergradient along the residual of its match.

    At the best mixture ``u`` no domain can improve the match: along the residual ``r = m - sum_k
    u_k m_k`` the hypergradient ``<m_k, r>`` is 0 for domains that have weight and at most 0 for the
    others.

    Attributes:
        slopes: ``<m_k, r>`` by domain, in the unit of the evidence's ``c``: positive where more of
            the domain would match the target better.
        errors: Their standard errors: of the fresh sequences and of the search's own evidence.
        failing: The domains whose slopes contradict the weights.
        sequences: Of each domain that nothing else had read. A domain without them has no slope.
    """

    slopes: Mapping[str, files.Number] = field(default_factory=dict)
    errors: Mapping[str, files.Number] = field(default_factory=dict)
    failing: tuple[str, ...] = ()
    sequences: Mapping[str, files.Number] = field(default_factory=dict)


def contradicts(slopes: Tensor, errors: Tensor, weights: Tensor) -> Tensor:
    """Returns whether each slope contradicts the weights ``(K,)``, by more than 3 errors.

    A domain with a weight of 0.01 or more must have a slope of 0; one without, one not above 0.
    """
    z = slopes / errors.clamp(min=1e-300)
    return torch.where(weights >= 0.01, z.abs() > FAR, z > FAR)


def check_residual(
    domains: data.Domains,
    sketch: proxy.GradientSketch,
    residual: Tensor,
    weights: Tensor,
    covariance: Tensor,
    unit: float,
) -> ResidualCheck:
    """Measures the hypergradient of every domain along a residual, by finite differences of losses.

    Args:
        domains: Their sequences that are left to the check are read.
        sketch: That the residual was measured with, at the same parameters of the proxy.
        residual: ``W (m - sum_k u_k m_k)``, ``(S,)``.
        weights: Of the mixture ``(K,)``.
        covariance: Of the moments ``c - A u`` in the search's own evidence ``(K, K)``.
        unit: What the slopes are multiplied by to be in the evidence's unit.
    """
    model, theta = sketch.model, sketch.model.parameters
    direction = sketch.unfolded(residual)
    names = [name for name in domains.names if domains.checked[name]]
    slopes, variances = [], []
    for name in names:
        batch, documents = domains.check_batch(name)

        def losses(perturbed: core.Parameters, batch: Tensor = batch) -> Tensor:
            return model.losses(batch, "check", perturbed, full_precision=True)  # (n,)

        _, slope = core.finite_difference(losses, theta, direction, 1.0)  # (n,)
        slope = unit * slope.cpu().double()
        variance, _ = core.scatter_of_means([slope[:, None]], [torch.from_numpy(documents)])
        slopes.append(slope.mean())
        variances.append(variance[0, 0])
    if not names:
        return ResidualCheck(sequences=domains.checked)
    places = [domains.names.index(name) for name in names]
    found = torch.stack(slopes)
    of_search = covariance.diagonal().clamp(min=0)[places]
    errors = (torch.stack(variances) + of_search).sqrt()
    return ResidualCheck(
        slopes=mixture.by_name(names, found),
        errors=mixture.by_name(names, errors),
        failing=tuple(compress(names, contradicts(found, errors, weights[places]))),
        sequences=domains.checked,
    )
