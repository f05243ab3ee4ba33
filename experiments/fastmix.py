"""FastMix: weights that follow the gradient of the validation loss, on even batches.

References:
    FastMix, arXiv 2606.14971.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bydore_pyro.command_line import Checked, option
from bydore_pyro.methods import Details, Factors, Fit, proxy_of, train_on_even
from bydore_pyro.trials import Problem

__all__ = ["FastMixConfig", "fastmix_gradient", "fit_fastmix", "unembedding"]

EVERY = 20  # steps of the proxy between two updates of the weights
FIRST_LOGIT = 1.0


@dataclass(frozen=True, kw_only=True)
class FastMixConfig(Checked):
    """FastMix's setting."""

    fastmix_rate: float = option(
        0.1,
        "AdamW's step size for FastMix's logits. With its authors' 1e-4 the weights of a short run "
        "stay nearly uniform.",
        above=0,
    )


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
    of a model of transformers, the last matrix of another model."""
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
    proxy, domains, count = proxy_of(problem), problem.domains(problem.seed), len(problem.names)
    head = unembedding(proxy.model)
    logits = torch.full((count,), FIRST_LOGIT, dtype=torch.float64, requires_grad=True)
    adam = torch.optim.AdamW([logits], lr=config.fastmix_rate, betas=(0.9, 0.95), weight_decay=0.0)

    def gradient(batch: Tensor, part: str, weights: Tensor | None = None) -> Tensor:
        found = proxy.gradient(batch, part, only=head, weights=weights)[1]
        return found[head].flatten().cpu().double()

    def factors(step: int, batch: Tensor, domain: Tensor) -> Factors:
        weights = torch.softmax(logits.detach(), 0)
        if step % EVERY == 0:
            with problem.cost.part("hypergradient"):
                held_out, of_tokens = domains.validation_batch(problem.batch_sequences)
                target = gradient(held_out, "validation", of_tokens)
                products = torch.zeros(count, dtype=torch.float64)
                for k in domain.unique().tolist():
                    products[k] = target @ gradient(batch[domain == k], "hypergradient")
                logits.grad = fastmix_gradient(weights, products, proxy.eta)
                adam.step()
        return (count * weights).float()[domain]

    path = train_on_even(
        problem,
        proxy,
        domains,
        steps,
        "fastmix",
        factors,
        lambda: torch.softmax(logits.detach(), 0),
    )
    return Fit(mixture=problem.mixture(path[-1]), trajectory=path, details=Details(steps=steps))
