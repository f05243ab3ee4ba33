"""How weights become training batches, and a fresh model trained on fixed weights.

A training that is asked to stop is kept in a folder, and gone on with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bydore_pyro import data, files, terminal
from bydore_pyro.errors import NonFiniteError
from bydore_pyro.proxy.config import Strategy
from bydore_pyro.proxy.proxy import Proxy


def schedule(
    strategy: Strategy, weights: Tensor, batch_size: int, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Draws a batch's sequences by domain, and the factors that their losses get.

    A batch's loss is the mean over its sequences of factor times loss; under every strategy its
    expectation is ``sum_k w_k ell_k``.

    ==================  =======================================  ==================
    strategy            sequences                                factor of domain k
    ==================  =======================================  ==================
    `intra_sampling`    systematic sampling by the weights       1
    `inter_sampling`    all of one domain, drawn by the weights  1
    `intra_weighting`   systematic sampling, uniform             ``K w_k``
    `inter_weighting`   all of one domain, drawn uniformly       ``K w_k``
    ==================  =======================================  ==================

    Returns:
        Counts ``(K,)``, int64, that add up to ``B``, and factors ``(K,)``; both on the CPU.

    Raises:
        ValueError: When the batch is empty.

    References:
        Yuan et al., Bayesian Domain Reweighting, appendix F, (i) to (iv). The factor K of (iv)
        holds for (iii) too, whose sum over domains is not a mean.
    """
    weights = weights.detach().double().cpu()
    uniform = torch.full_like(weights, 1 / len(weights))
    sampling = strategy.endswith("sampling")
    shares = weights / weights.sum() if sampling else uniform
    if strategy.startswith("intra"):
        counts = systematic_counts(shares, batch_size, generator)
    else:
        counts = batch_size * systematic_counts(shares, 1, generator)
    factors = torch.ones_like(weights) if sampling else len(weights) * weights
    return counts, factors.float()


def systematic_counts(
    weights: Tensor, batch_size: int, generator: torch.Generator | None = None
) -> Tensor:
    """Draws how many sequences of a batch ``(B,)`` come from each domain: int64 ``(K,)``.

    Systematic sampling: one uniform offset ``u`` places the points ``u, u + 1, ..., u + B - 1`` on
    the cumulated weights times ``B``: the counts add up to ``B``, ``E[n_k] = w_k B``, and each is
    the floor or the ceiling of ``w_k B``. (The paper's ``floor(w_k B)`` is biased and does not.)

    Raises:
        ValueError: When the batch is empty.

    References:
        Yuan et al., Bayesian Domain Reweighting, appendix F, (i).
    """
    if batch_size < 1:
        raise ValueError(f"Expected batch_size >= 1, actual {batch_size}")
    edges = weights.detach().double().cpu().cumsum(0) * batch_size
    edges = edges * (batch_size / edges[-1])  # the last edge is B exactly, whatever the rounding
    offset = torch.rand((), generator=generator, dtype=torch.float64)
    # Points below an edge e: those u + i < e, that is ceil(e - u) of them.
    below = (edges - offset).ceil().clamp(0, batch_size).long()
    below[-1] = batch_size
    return torch.diff(below, prepend=below.new_zeros(1))


def train_on_mixture(
    domains: data.Domains,
    proxy: Proxy,
    weights: Mapping[str, float],
    steps: int,
    batch_sequences: int,
    *,
    seed: int = 0,
) -> Iterator[float]:
    """Trains `proxy` on fixed weights, and yields each step's training loss, nats per token.

    Args:
        domains: Where the batches come from.
        proxy: Before its first step, or kept behind a later one (`kept_when_stopped`): it takes the
            steps that are left.
        weights: Shares by domain, summing to 1; a domain of the validation set is allowed too.
        steps: Training steps.
        batch_sequences: ``B``, sequences in a batch.
        seed: Of the counts' rounding.

    Raises:
        NonFiniteError: When the loss is NaN or infinite.
    """
    generator = torch.Generator().manual_seed(seed)
    shares = torch.tensor(list(weights.values()), dtype=torch.float64)
    begun = proxy.steps
    for step in range(steps):
        counts = systematic_counts(shares, batch_sequences, generator).tolist()
        if step < begun:
            continue
        losses = proxy.step(domains.train_batch(dict(zip(weights, counts, strict=True))))
        loss = losses.mean().item()
        if not math.isfinite(loss):
            raise NonFiniteError(
                f"Step {step} on fixed weights: the training loss is {loss}; "
                "a smaller --learning_rate may help"
            )
        yield loss


def proxy_content(proxy: Proxy, domains: data.Domains) -> dict[str, Any]:
    """Returns the state that a proxy's next step depends on, and its cost; for `Kept`."""
    cost = proxy.cost
    return {
        "proxy": {
            "model": dict(proxy.model.state_dict()),
            "optimizer": proxy.optimizer.state_dict(),
            "steps": proxy.steps,
        },
        "cost": {part: dict(getattr(cost, part)) for part in ("tokens", "flops", "seconds")},
        "domains": domains.state(),
    }


def restore_proxy(proxy: Proxy, domains: data.Domains, content: Mapping[str, Any]) -> None:
    """Restores a proxy that has taken no step to what `proxy_content` gave."""
    proxy.model.load_state_dict(content["proxy"]["model"])
    proxy.optimizer.load_state_dict(content["proxy"]["optimizer"])
    proxy.steps = content["proxy"]["steps"]
    for part, values in content["cost"].items():
        getattr(proxy.cost, part).update(values)
    domains.restore(content["domains"])


@contextmanager
def kept_when_stopped(
    place: Path, belongs: Mapping[str, Any], proxy: Proxy, domains: data.Domains
) -> Iterator[Callable[[], None]]:
    """Keeps a proxy in training on a request to stop, and goes on with a kept one.

    Args:
        place: The folder where it is kept until it is finished.
        belongs: What it is trained on and how, plain values; another's is not gone on with.
        proxy: Before its first step; where one was kept it has taken its steps on entry.
        domains: Where its batches come from.

    Yields:
        A function to call where the proxy can be kept: behind every step, and after the last one at
        any time. It raises `Interrupted` when a request to stop has arrived.

    Raises:
        Interrupted: When the block raised it; the proxy is kept.
    """
    kept = files.Kept(place, belongs, replace=True, writes=proxy.parallel.is_main)
    content = kept.get()
    if content is not None:
        restore_proxy(proxy, domains, content)

    with terminal.deferred():
        try:
            yield lambda: terminal.stop_if_asked(proxy.parallel.largest)
        except terminal.Interrupted:
            kept.remove()
            kept.put(proxy_content(proxy, domains))
            proxy.parallel.wait()
            raise
        kept.remove()
