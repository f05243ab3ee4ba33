"""Methods whose weights move while one proxy trains on even batches: DoReMi and FastMix.

References:
    Xie et al., DoReMi, arXiv 2305.10429, Algorithm 1. FastMix, arXiv 2606.14971.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from bydore_pyro.baselines.fit import Details, Fit
from bydore_pyro.baselines.problem import Problem, by_name
from bydore_pyro.baselines.proxy_runs import PlannedRun, load_model, train_runs
from bydore_pyro.data import Domains
from bydore_pyro.proxy import Parallel, Proxy, systematic_counts
from bydore_pyro.utils import NonFiniteError, option, require_fields

__all__ = ["FastMixConfig", "GroupWeights", "domain_scores", "fastmix_gradient", "fit_doremi",
           "fit_fastmix", "unembedding"]  # fmt: skip

# DoReMi's authors' step size, and share c of the uniform mixture.
ETA, SMOOTHING = 1.0, 1e-3
# In training steps of three forward passes: the reference's own; the proxy's, and the reference's
# forward pass on its batch.
DOREMI_COST = 1 + (1 + 1 / 3)
EVERY = 20  # steps of FastMix's proxy between two updates of the weights
FIRST_LOGIT = 1.0

Factors = Tensor | Callable[[Tensor], Tensor]


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


@dataclass
class GroupWeights:
    """DoReMi's weights alpha and scores ``(K,)`` between two steps."""

    weights: Tensor
    scores: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.scores = torch.zeros_like(self.weights)

    def factors(self, reference: Tensor, domain: Tensor, losses: Tensor) -> Tensor:
        """Updates the weights by a batch's token losses ``(B, T)``.

        alpha <- alpha exp(eta score),   alpha <- (1 - c) alpha / sum alpha + c / K

        Returns:
            The factors ``(B,)`` that make a mean over sequences the alpha-weighted token mean
            ``sum_i alpha_{d(i)} loss_i / sum_i alpha_{d(i)}``.
        """
        self.scores = domain_scores((losses - reference).cpu().double(), domain, self.scores)
        raised = torch.softmax(self.weights.log() + ETA * self.scores, 0)
        self.weights = (1 - SMOOTHING) * raised + SMOOTHING / len(raised)
        own = self.weights[domain]
        return (own * len(own) / own.sum()).float()


def fit_doremi(problem: Problem) -> Fit:
    """Trains a reference on the natural mixture, then a proxy by group DRO; averages its weights.

    The target plays no part.

    Raises:
        DataError: When the budget does not reach.
        NonFiniteError: When a loss is NaN or infinite.
    """
    steps = problem.steps_for("doremi", DOREMI_COST, (1 - DOREMI_COST) * problem.evaluation_steps())
    base = by_name(problem.names, problem.token_shares)
    planned = PlannedRun(weights=base, steps=steps, seed=problem.seed, keep_model=True)
    (finished,) = train_runs(problem, [planned], "doremi: reference")
    proxy = _proxy(problem)
    reference = load_model(problem, finished, planned.seed, proxy.parallel)
    group = GroupWeights(torch.full((len(problem.names),), 1 / len(problem.names)).double())

    def factors(step: int, batch: Tensor, domain: Tensor) -> Factors:
        with problem.cost.part("reference"), torch.no_grad():
            before = reference.token_losses(batch, "reference")
        return partial(group.factors, before, domain)

    domains = problem.domains(problem.seed)
    path = _train(problem, proxy, domains, steps, "doremi", factors, lambda: group.weights)
    return Fit(mixture=problem.mixture(path.mean(0)), trajectory=path, details=Details(steps=steps))


@dataclass(frozen=True, kw_only=True)
class FastMixConfig:
    """FastMix's setting."""

    fastmix_rate: float = option(
        0.1,
        "AdamW's step size for FastMix's logits. With its authors' 1e-4 the weights of a short run "
        "stay nearly uniform.",
        above=0,
    )

    def __post_init__(self) -> None:
        require_fields(self)


def fastmix_gradient(weights: Tensor, products: Tensor, eta: float) -> Tensor:
    """Returns the gradient of the validation loss with respect to the logits ``(K,)``.

        d loss / d p_k = - eta < g_val, g_k >,      d loss / d a = (diag(p) - p p') d loss / d p

    Args:
        weights: ``p = softmax(a) (K,)``.
        products: ``< g_val, g_k > (K,)``, of gradients of the losses.
        eta: The proxy's step size.
    """
    of_weights = -eta * products
    return weights * (of_weights - (weights * of_weights).sum())


def unembedding(model: nn.Module) -> str:
    """Returns the name of the parameter that makes logits of the last layer: the output embedding
    of a model of transformers, of another model its last matrix."""
    matrices = {name: p for name, p in model.named_parameters() if p.dim() == 2}
    found = getattr(model, "get_output_embeddings", lambda: None)()
    own = [name for name, p in matrices.items() if found is not None and p is found.weight]
    return own[0] if own else list(matrices)[-1]


def fit_fastmix(problem: Problem, config: FastMixConfig) -> Fit:
    """Trains one proxy on domains drawn evenly, their losses weighted; moves the weights' logits.

    At every 20th step the gradients of the validation set and of each domain's sequences in the
    batch, with respect to the unembedding alone, take a step of AdamW (betas 0.9 and 0.95, no
    decay). A domain without a sequence in the batch counts 0. The result is the last softmax.

    Raises:
        DataError: When the budget does not reach.
        NonFiniteError: When a loss is NaN or infinite.
    """
    update = 2 * 2 / 3  # two passes over the batch and as many held-out sequences
    each = 1 + update / EVERY
    steps = problem.steps_for("fastmix", each, update - each * problem.evaluation_steps())
    proxy, domains, count = _proxy(problem), problem.domains(problem.seed), len(problem.names)
    head = unembedding(proxy.model)
    logits = torch.full((count,), FIRST_LOGIT, dtype=torch.float64, requires_grad=True)
    adam = torch.optim.AdamW([logits], lr=config.fastmix_rate, betas=(0.9, 0.95), weight_decay=0.0)

    def gradient(batch: Tensor, part: str) -> Tensor:
        return proxy.gradient(batch, part, only=head)[1][head].flatten().cpu().double()

    def factors(step: int, batch: Tensor, domain: Tensor) -> Factors:
        weights = torch.softmax(logits.detach(), 0)
        if step % EVERY == 0:
            with problem.cost.part("hypergradient"):
                held_out = domains.validation_batch(problem.batch_sequences)
                target = gradient(held_out, "validation")
                products = torch.zeros(count, dtype=torch.float64)
                for k in domain.unique().tolist():
                    products[k] = target @ gradient(batch[domain == k], "hypergradient")
                logits.grad = fastmix_gradient(weights, products, proxy.eta)
                adam.step()
        return (count * weights).float()[domain]

    path = _train(problem, proxy, domains, steps, "fastmix", factors,
                  lambda: torch.softmax(logits.detach(), 0))  # fmt: skip
    return Fit(mixture=problem.mixture(path[-1]), trajectory=path, details=Details(steps=steps))


def _proxy(problem: Problem) -> Proxy:
    parallel = Parallel(cpu=problem.device.type == "cpu")
    return Proxy(problem.build(problem.seed), problem.proxy, problem.cost, parallel=parallel)


def _train(
    problem: Problem,
    proxy: Proxy,
    domains: Domains,
    steps: int,
    method: str,
    factors: Callable[[int, Tensor, Tensor], Factors],
    weights: Callable[[], Tensor],
) -> np.ndarray:
    """Trains the proxy on even batches, and returns the weights after each step ``(steps, K)``.

    A method's factors are those of a step's number, its batch ``(B, T)`` and the domains of the
    sequences ``(B,)``; `weights` gives its weights ``(K,)`` after that.
    """
    from tqdm import tqdm

    generator, count = torch.Generator().manual_seed(problem.seed), len(problem.names)
    uniform = torch.full((count,), 1 / count, dtype=torch.float64)
    path = []
    for step in tqdm(range(steps), desc=method, unit="step", mininterval=0.5):
        counts = systematic_counts(uniform, problem.batch_sequences, generator)
        batch = domains.train_batch(dict(zip(problem.names, counts.tolist(), strict=True)))
        domain = torch.arange(count).repeat_interleave(counts)
        losses, after = proxy.step(batch, factors(step, batch, domain)), weights()
        if not bool(torch.isfinite(losses).all() and torch.isfinite(after).all()):
            raise NonFiniteError(
                f"Step {step} of {method}: the training loss is NaN or infinite; a smaller "
                "--learning_rate may help"
            )
        path.append(after.numpy().copy())
    return np.stack(path)
