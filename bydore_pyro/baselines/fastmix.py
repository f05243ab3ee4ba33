"""FastMix: one proxy, whose unembedding's gradients move the logits of the weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from bydore_pyro.baselines.problem import Fit, Problem
from bydore_pyro.proxy import Parallel, Proxy, systematic_counts
from bydore_pyro.utils import NonFiniteError, option, require_fields

__all__ = ["FastMixConfig", "fastmix_gradient", "fit_fastmix", "unembedding"]

FIRST_LOGIT = 1.0


@dataclass(frozen=True, kw_only=True)
class FastMixConfig:
    """FastMix's settings; the defaults are its authors'."""

    fastmix_every: int = option(
        20, "Steps of FastMix's proxy between two updates of the weights.", least=1
    )
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

    References:
        FastMix, arXiv 2606.14971.
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

    At every `fastmix_every`-th step the gradients of the validation set and of each domain's
    sequences in the batch, with respect to the unembedding alone, take a step of AdamW (betas 0.9
    and 0.95, no decay). A domain without a sequence in the batch counts 0. The result is the last
    softmax.

    Raises:
        DataError: When the budget does not reach.
        NonFiniteError: When a loss is NaN or infinite.
    """
    from tqdm import tqdm

    update = 2 * 2 / 3  # two passes over the batch and as many held-out sequences
    each = 1 + update / config.fastmix_every
    steps = problem.steps_for("fastmix", each, update - each * problem.evaluation_steps())
    parallel = Parallel(cpu=problem.device.type == "cpu")
    model = problem.build(problem.seed)
    proxy = Proxy(model, problem.proxy, problem.cost, parallel=parallel)
    domains, size = problem.domains(problem.seed), problem.batch_sequences
    generator = torch.Generator().manual_seed(problem.seed)
    count, head = len(problem.names), unembedding(model)
    logits = torch.full((count,), FIRST_LOGIT, dtype=torch.float64, requires_grad=True)
    adam = torch.optim.AdamW([logits], lr=config.fastmix_rate, betas=(0.9, 0.95), weight_decay=0.0)
    uniform = torch.full((count,), 1 / count, dtype=torch.float64)

    def gradient(batch: Tensor, part: str) -> Tensor:
        return proxy.gradient(batch, part, only=head)[1][head].flatten().cpu().double()

    trajectory = []
    for step in tqdm(range(steps), desc="fastmix", unit="step", mininterval=0.5):
        counts = systematic_counts(uniform, size, generator)
        batch = domains.train_batch(dict(zip(problem.names, counts.tolist(), strict=True)))
        weights = torch.softmax(logits.detach(), 0)
        if step % config.fastmix_every == 0:
            with problem.cost.part("hypergradient"):
                target = gradient(domains.validation_batch(size), "validation")
                products = torch.zeros(count, dtype=torch.float64)
                for k, rows in enumerate(batch.split(counts.tolist())):
                    if len(rows):
                        products[k] = target @ gradient(rows, "hypergradient")
                logits.grad = fastmix_gradient(weights, products, proxy.eta)
                adam.step()
        losses = proxy.step(batch, (count * weights).float().repeat_interleave(counts))
        if not bool(torch.isfinite(losses).all() and torch.isfinite(logits).all()):
            raise NonFiniteError(
                f"Step {step} of fastmix: the training loss is NaN or infinite; a smaller "
                "--learning_rate may help"
            )
        trajectory.append(torch.softmax(logits.detach(), 0).numpy())
    path = np.stack(trajectory)
    return Fit(
        mixture=problem.mixture(path[-1]),
        trajectory=path,
        details={"steps": steps, "updates": -(-steps // config.fastmix_every)},
    )
