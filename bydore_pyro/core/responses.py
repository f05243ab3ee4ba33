"""Composition by response: what a target is made of, seen in how it responds to training.

A *branch* k is b more steps of a model on one domain alone, or on a group of domains. A text i
responds to it by the fall of its loss, in the text's own unit::

    r_ik = L_i(theta) - L_i(theta_k),    k = 1, ..., M

A target that is made of shares ``w`` of the domains responds as they do, ``r_t = s sum_j w_j r_j``.
The scale ``s`` is free: a task counts its loss in bits per byte. For b = 1 and plain SGD
``r_ik = eta <g_i, g_k>``, the paper's finite-difference hypergradient, and these are the equations
of `bydore_pyro.core.matching` in other coordinates. With more steps they hold what training does to
the features of a model, too. So responses stand in the place of gradients in a `Sample`.

Each branch counts in units of its size, the norm of the domains' responses to it: else the branch
that moves all texts most would decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from bydore_pyro.core.matching import (
    Matching,
    Metric,
    RoundEvidence,
    Sample,
    match,
    round_evidence,
)

__all__ = ["FEWEST_BRANCHES", "Responses", "composition_of", "left_out"]

LEAST_IMPORTANCE = 1e-6  # of gradients that explain nothing of a target
FEWEST_BRANCHES = 3  # of which one can be left out


@dataclass(frozen=True)
class Responses:
    """The responses of K domains and of a target to M branches.

    Attributes:
        domains: Of sequences of each domain ``(n_k, M)``, nats per token, with their documents.
        target: Of the target's documents ``(n, M)``, in its unit.
    """

    domains: tuple[Sample, ...]
    target: Sample

    @cached_property
    def _scaled(self) -> tuple[list[Sample], Sample]:
        """The same, each branch in units of its size; a branch that moved no domain counts 0."""
        size = torch.stack([one.gradients.double().mean(0) for one in self.domains]).norm(dim=0)
        factor = torch.where(size > 0, 1 / size, 0.0)

        def scaled(one: Sample) -> Sample:
            return Sample(one.gradients.double() * factor, one.documents)

        return [scaled(one) for one in self.domains], scaled(self.target)

    @cached_property
    def evidence(self) -> RoundEvidence:
        """Their inner products, in the metric of how the sequences of a domain differ."""
        domains, target = self._scaled
        metric = Metric(domains)
        return round_evidence([metric.of(one) for one in domains], metric.of(target))

    @cached_property
    def unexplained(self) -> float:
        """Share in [0, 1] of the target's response, see `left_out`."""
        domains, target = self._scaled
        return left_out(domains, target)

    def restricted(self, places: Sequence[int]) -> Responses:
        """Returns the same with some of the domains, in the given order."""
        return replace(self, domains=tuple(self.domains[k] for k in places))


def left_out(domains: Sequence[Sample], target: Sample) -> float:
    """Returns the share of a target's response that compositions do not predict, in [0, 1].

    Each branch is left out in turn; the composition is fitted to the others alone, by non-negative
    least squares. With ``v_k`` the variance of the target's mean response, over its documents ::

        sum_k max(0, (r_tk - sum_j u_j^(-k) r_jk)^2 - v_k)  /  sum_k (r_tk^2 - v_k)

    It is 1 where the response does not rise above its noise, and of fewer than three branches.

    Args:
        domains: Responses ``(n_k, M)``, each branch in its unit.
        target: Likewise ``(n, M)``.
    """
    from scipy.optimize import nnls

    rows = torch.stack([one.gradients.double().mean(0) for one in domains]).numpy()  # (K, M)
    values = target.gradients.double()
    mean, branches = values.mean(0).numpy(), values.shape[1]
    variance = (values.var(0, correction=1) / len(values)).numpy() if len(values) > 1 else 0 * mean
    size = float((mean**2 - variance).sum())
    if branches < FEWEST_BRANCHES or not size > 0:
        return 1.0
    left = 0.0
    for k in range(branches):
        others = [j for j in range(branches) if j != k]
        made = nnls(rows[:, others].T, mean[others])[0]
        left += max(0.0, float((mean[k] - made @ rows[:, k]) ** 2 - variance[k]))
    return min(1.0, left / size)


def composition_of(gradients: Sequence[RoundEvidence], responses: Responses | None) -> Matching:
    """Returns the evidence of gradients and responses together.

    Gradients are sharp where domains cover a target, and blind where they do not; responses see in
    both cases. So each round of gradients counts by the square of what all of them explain.

    Args:
        gradients: The rounds of gradients, at least one.
        responses: None where no branches were measured: then gradients alone count.

    Raises:
        ValueError: As `match`.
    """
    found = match(gradients)
    if responses is None or not responses.evidence.gram.diagonal().sum() > 0:
        return found
    explained = max(LEAST_IMPORTANCE, (1 - found.unexplained) ** 2)
    rounds = [*gradients, responses.evidence]
    both = match(rounds, [explained] * len(gradients) + [1.0])
    return replace(both, left_out=responses.unexplained)
