"""The verification phase in small: a fresh model trained on fixed weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch

from bydore_pyro.data import Domains
from bydore_pyro.proxy.proxy import Proxy
from bydore_pyro.proxy.scheduling import systematic_counts
from bydore_pyro.utils import NonFiniteError

__all__ = ["train_on_mixture"]


def train_on_mixture(
    domains: Domains,
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
        proxy: A language model before its first step, or one that was kept behind a later step
            (`bydore_pyro.proxy.unfinished`), which takes the steps that are left.
        weights: Shares by domain, summing to 1; a domain of the validation set is allowed even
            where it is not one of the domains to train on.
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
        if loss != loss or loss == float("inf"):
            raise NonFiniteError(
                f"Step {step} on fixed weights: the training loss is {loss}; "
                "a smaller --learning_rate may help"
            )
        yield loss
