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

Models that one already has are branches too: from a base to others that went on from it. Several
may be of one run and say the same. So models that the domains respond to alike count as one branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

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
LEAST_SEEN = 0.1  # of a target, by responses
FEWEST_BRANCHES = 3  # of which one can be left out
ALIKE = 0.95  # cosine of the domains' responses to two models, from which on they count as one


@dataclass(frozen=True)
class Responses:
    """The responses of K domains and of a target to M branches.

    Attributes:
        domains: Of sequences of each domain ``(n_k, M)``, nats per token, with their documents.
        target: Of the target's documents ``(n, M)``, in its unit.
        models: How many of the branches, the last ones, are models that one had.
    """

    domains: tuple[Sample, ...]
    target: Sample
    models: int = 0

    @cached_property
    def groups(self) -> Tensor:
        """Which branches count as one ``(M,)``, by number: models that the domains respond to
        alike, each with each. Every other branch is by itself."""
        count = self.target.gradients.shape[1]
        groups, first = torch.arange(count), count - self.models
        if self.models > 1:
            from scipy.cluster.hierarchy import fcluster, linkage
            from scipy.spatial.distance import squareform

            units = torch.nn.functional.normalize(self._means[:, first:], dim=0)
            apart = (1 - units.T @ units).fill_diagonal_(0).clamp(min=0).numpy()
            tree = linkage(squareform(apart, checks=False), "complete")
            groups[first:] = first + torch.from_numpy(fcluster(tree, 1 - ALIKE, "distance"))
        return groups

    @property
    def _means(self) -> Tensor:
        return torch.stack([one.gradients.double().mean(0) for one in self.domains])  # (K, M)

    @cached_property
    def _scaled(self) -> tuple[list[Sample], Sample]:
        """The same, each branch in units of its size; a branch that moved no domain counts 0. Of a
        group, whose branches count as one, these are divided by the root of their number."""
        size = self._means.norm(dim=0)
        factor = torch.where(size > 0, 1 / size, 0.0)
        if self.models:
            members = (self.groups[:, None] == self.groups).sum(1)
            factor = factor / members.sqrt()

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
        return left_out(domains, target, self.groups)

    @property
    def count(self) -> int:
        """As how many branches they count."""
        return len(self.groups.unique())

    @property
    def are_few(self) -> bool:
        """Whether they cannot show what is unexplained: fewer count than can be left out or, of
        models alone, than half of the domains."""
        alone = self.models == len(self.groups)
        return self.count < max(FEWEST_BRANCHES, len(self.domains) / 2 if alone else 0)

    def restricted(self, places: Sequence[int]) -> Responses:
        """Returns the same with some of the domains, in the given order."""
        return replace(self, domains=tuple(self.domains[k] for k in places))


def left_out(domains: Sequence[Sample], target: Sample, groups: Tensor | None = None) -> float:
    """Returns the share of a target's response that compositions do not predict, in [0, 1].

    Each branch is left out in turn, with all of its group; the composition is fitted to the others
    alone, by non-negative least squares. With ``v_k`` the variance of the target's mean response,
    over its documents ::

        sum_k max(0, (r_tk - sum_j u_j^(-k) r_jk)^2 - v_k)  /  sum_k (r_tk^2 - v_k)

    It is 1 where the response does not rise above its noise, and of fewer than three branches.

    Args:
        domains: Responses ``(n_k, M)``, each branch in its unit.
        target: Likewise ``(n, M)``.
        groups: The number of each branch's group ``(M,)``; each is by itself when None.
    """
    from scipy.optimize import nnls

    rows = torch.stack([one.gradients.double().mean(0) for one in domains]).numpy()  # (K, M)
    values = target.gradients.double()
    mean = values.mean(0).numpy()
    number = (torch.arange(len(mean)) if groups is None else groups).numpy()
    variance = (values.var(0, correction=1) / len(values)).numpy() if len(values) > 1 else 0 * mean
    size = float((mean**2 - variance).sum())
    if len({*number.tolist()}) < FEWEST_BRANCHES or not size > 0:
        return 1.0
    left = 0.0
    for one in sorted({*number.tolist()}):
        own, others = number == one, number != one
        made = nnls(rows[:, others].T, mean[others])[0]
        errors = (mean[own] - made @ rows[:, own]) ** 2 - variance[own]
        left += float(errors.clip(min=0).sum())
    return min(1.0, left / size)


def composition_of(gradients: Sequence[RoundEvidence], responses: Responses | None) -> Matching:
    """Returns the evidence of gradients and responses together.

    Gradients are sharp where domains cover a target, and blind where they do not; responses see in
    both cases. So each kind counts by the square of what it explains, in that of what the better
    one explains; of responses a tenth counts as explained, because a branch left out says roughly
    what they know. But M branches are no more than M equations. Of more domains, K, gradients count
    by ``1 - M / K`` at least. Where branches are few (`Responses.are_few`), gradients say what is
    unexplained, and responses count in full.

    Args:
        gradients: The rounds of gradients, at least one.
        responses: None where no branches were measured: then gradients alone count.

    Raises:
        ValueError: As `match`.
    """
    found = match(gradients)
    if responses is None or not responses.evidence.gram.diagonal().sum() > 0:
        return found
    missing = 1 - responses.count / len(responses.domains)
    seen = 1.0 if responses.are_few else max(LEAST_SEEN, 1 - responses.unexplained)
    best = max(1 - found.unexplained, seen)
    counts = max(LEAST_IMPORTANCE, ((1 - found.unexplained) / best) ** 2, missing)
    rounds = [*gradients, responses.evidence]
    both = match(rounds, [counts] * len(gradients) + [(seen / best) ** 2])
    if responses.are_few:
        return replace(both, of_gradients=found.unexplained)
    return replace(both, left_out=responses.unexplained)
