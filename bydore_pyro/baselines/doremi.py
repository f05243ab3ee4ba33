"""DoReMi: weights that minimise the worst excess loss over a reference model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from bydore_pyro.baselines.problem import Fit, Problem, by_name
from bydore_pyro.baselines.proxy_runs import PlannedRun, load_model, train_runs
from bydore_pyro.proxy import Parallel, Proxy, systematic_counts
from bydore_pyro.utils import NonFiniteError, option, require_fields

__all__ = [
    "DoReMiConfig",
    "GroupWeights",
    "domain_scores",
    "doremi_factors",
    "fit_doremi",
]

# In training steps of three forward passes: the reference's own; the proxy's, and the reference's
# forward pass on its batch.
COST = 1 + (1 + 1 / 3)


@dataclass(frozen=True, kw_only=True)
class DoReMiConfig:
    """DoReMi's settings; the defaults are its authors'."""

    doremi_eta: float = option(1.0, "Step size of DoReMi's weights.", above=0)
    doremi_smoothing: float = option(
        1e-3, "Share c of the uniform mixture in DoReMi's weights.", least=0, below=1
    )

    def __post_init__(self) -> None:
        require_fields(self)


def domain_scores(excess: Tensor, domain: Tensor, last: Tensor) -> Tensor:
    """Returns every domain's score: the mean over its tokens of the excess loss, clipped at 0.

        score_k = mean over tokens x of domain k of  max(loss_proxy(x) - loss_reference(x), 0)

    Args:
        excess: Proxy's minus reference's loss of every token ``(B, T)``, nats.
        domain: Index of each sequence's domain ``(B,)``.
        last: The scores before ``(K,)``; a domain that is absent from the batch keeps its own.

    References:
        Xie et al., DoReMi, arXiv 2305.10429, Algorithm 1; the clipping is by token.
    """
    clipped = excess.clamp(min=0).mean(1)  # (B,): all sequences have as many tokens
    counts = torch.zeros_like(last).index_add_(0, domain, torch.ones_like(clipped))
    sums = torch.zeros_like(last).index_add_(0, domain, clipped)
    return torch.where(counts > 0, sums / counts.clamp(min=1), last)


def doremi_factors(weights: Tensor, domain: Tensor) -> Tensor:
    """Returns the factors ``(B,)`` that make a mean over sequences the alpha-weighted token mean.

        sum_i alpha_{d(i)} loss_i / sum_i alpha_{d(i)}

    Args:
        weights: alpha ``(K,)``.
        domain: Index of each sequence's domain ``(B,)``.
    """
    own = weights[domain]
    return own * len(own) / own.sum()


@dataclass
class GroupWeights:
    """DoReMi's weights alpha and scores ``(K,)`` between two steps."""

    weights: Tensor
    scores: Tensor
    config: DoReMiConfig

    def factors(self, reference: Tensor, domain: Tensor, losses: Tensor) -> Tensor:
        """Updates the weights by a batch's token losses ``(B, T)`` and returns its factors.

        alpha <- alpha exp(eta score),   alpha <- (1 - c) alpha / sum alpha + c / K
        """
        excess = (losses - reference).cpu().double()
        self.scores = domain_scores(excess, domain, self.scores)
        raised = torch.softmax(self.weights.log() + self.config.doremi_eta * self.scores, 0)
        even = self.config.doremi_smoothing
        self.weights = (1 - even) * raised + even / len(raised)
        return doremi_factors(self.weights, domain).float()


def fit_doremi(problem: Problem, config: DoReMiConfig) -> Fit:
    """Trains a reference on the natural mixture, then a proxy by group DRO; averages its weights.

    The target plays no part.

    Raises:
        DataError: When the budget does not reach.
        NonFiniteError: When a loss is NaN or infinite.
    """
    steps = problem.steps_for("doremi", COST, -(COST - 1) * problem.evaluation_steps())
    base = by_name(problem.names, problem.token_shares)
    planned = PlannedRun(weights=base, steps=steps, seed=problem.seed, keep_model=True)
    (finished,) = train_runs(problem, [planned], "doremi: reference")
    parallel = Parallel(cpu=problem.device.type == "cpu")
    reference = load_model(problem, finished, planned.seed, parallel)
    model = problem.build(problem.seed)
    proxy = Proxy(model, problem.proxy, problem.cost, parallel=parallel)
    domains = problem.domains(problem.seed)
    generator = torch.Generator().manual_seed(problem.seed)
    count = len(problem.names)
    uniform = torch.full((count,), 1 / count, dtype=torch.float64)
    group = GroupWeights(uniform, torch.zeros_like(uniform), config)
    trajectory = []
    for step in tqdm(range(steps), desc="doremi: proxy", unit="step", mininterval=0.5):
        counts = systematic_counts(uniform, problem.batch_sequences, generator)
        domain = torch.arange(count).repeat_interleave(counts)
        batch = domains.train_batch(dict(zip(problem.names, counts.tolist(), strict=True)))
        with problem.cost.part("reference"), torch.no_grad():
            before = reference.token_losses(batch, "reference")
        losses = proxy.step(batch, partial(group.factors, before, domain))
        if not bool(torch.isfinite(losses).all() and torch.isfinite(group.weights).all()):
            raise NonFiniteError(
                f"Step {step} of doremi: the training loss is NaN or infinite; a smaller "
                "--learning_rate may help"
            )
        trajectory.append(group.weights.numpy())
    path = np.stack(trajectory)
    return Fit(
        mixture=problem.mixture(path.mean(0)),
        trajectory=path,
        details={
            "steps": steps,
            "last_weights": by_name(problem.names, path[-1]),
            "reference_losses": dict(finished.losses),
        },
    )
