"""DoReMi: group DRO against a reference, on even batches.

References:
    Xie et al., DoReMi, arXiv 2305.10429, Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from bydore_pyro import mixture, trials
from bydore_pyro.methods.fit import Details, Fit
from bydore_pyro.methods.online import Factors, proxy_of, train_on_even

# DoReMi's authors' step size, and share c of the uniform mixture.
ETA, SMOOTHING = 1.0, 1e-3
# In training steps of three forward passes: the reference's own; the proxy's, and the reference's
# forward pass on its batch.
DOREMI_COST = 1 + (1 + 1 / 3)


def domain_scores(excess: Tensor, domain: Tensor, last: Tensor) -> Tensor:
    """Returns every domain's score: the mean over its tokens of the excess loss, clipped at 0.

        score_k = mean over tokens x of domain k of  max(loss_proxy(x) - loss_reference(x), 0)

    Args:
        excess: Proxy's minus reference's loss of every token ``(B, T)``, nats.
        domain: Index of each sequence's domain ``(B,)``.
        last: The scores before ``(K,)``; a domain that is absent from the batch keeps its own.
    """
    clipped = excess.clamp(min=0).mean(1)  # (B,): all sequences have as many tokens
    counts = torch.zeros_like(last).index_add_(0, domain, torch.ones_like(clipped))
    sums = torch.zeros_like(last).index_add_(0, domain, clipped)
    return torch.where(counts > 0, sums / counts.clamp(min=1), last)


def raised_weights(weights: Tensor, scores: Tensor) -> Tensor:
    """Returns weights ``(K,)`` after an update by their scores ``(K,)``; they sum to 1.

    alpha <- alpha exp(eta score),   alpha <- (1 - c) alpha / sum alpha + c / K
    """
    raised = torch.softmax(weights.log() + ETA * scores, 0)
    return (1 - SMOOTHING) * raised + SMOOTHING / len(raised)


@dataclass
class GroupWeights:
    """DoReMi's weights alpha and scores ``(K,)`` between two steps."""

    weights: Tensor
    scores: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.scores = torch.zeros_like(self.weights)

    def factors(self, reference: Tensor, domain: Tensor, losses: Tensor) -> Tensor:
        """Updates the weights by a batch's token losses ``(B, T)``.

        Returns:
            The factors ``(B,)`` that make a mean over sequences the alpha-weighted token mean
            ``sum_i alpha_{d(i)} loss_i / sum_i alpha_{d(i)}``.
        """
        self.scores = domain_scores((losses - reference).cpu().double(), domain, self.scores)
        self.weights = raised_weights(self.weights, self.scores)
        own = self.weights[domain]
        return (own * len(own) / own.sum()).float()


def fit_doremi(problem: trials.Problem) -> Fit:
    """Trains a reference on the natural mixture, then a proxy by group DRO; averages its weights.

    The target plays no part.

    Raises:
        DataError: When the budget does not reach.
        NonFiniteError: When a loss is NaN or infinite.
    """
    steps = problem.steps_for("doremi", DOREMI_COST, (1 - DOREMI_COST) * problem.evaluation_steps())
    base = mixture.by_name(problem.names, problem.token_shares)
    planned = trials.PlannedRun(weights=base, steps=steps, seed=problem.seed, keep_model=True)
    (finished,) = trials.train_runs(problem, [planned], "doremi: reference")
    proxy = proxy_of(problem)
    reference = trials.load_model(problem, finished, planned.seed, proxy.parallel)
    group = GroupWeights(torch.full((len(problem.names),), 1 / len(problem.names)).double())

    def factors(step: int, batch: Tensor, domain: Tensor) -> Factors:
        with problem.cost.part("reference"), torch.no_grad():
            before = reference.token_losses(batch, "reference")
        return partial(group.factors, before, domain)

    domains = problem.domains(problem.seed)
    path = train_on_even(problem, proxy, domains, steps, "doremi", factors, lambda: group.weights)
    return Fit(mixture=problem.mixture(path.mean(0)), trajectory=path, details=Details(steps=steps))
