"""A fresh model trained on fixed weights; what a signal broke off is kept in a file."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from bydore_pyro.data import Domains
from bydore_pyro.proxy.proxy import Proxy
from bydore_pyro.proxy.scheduling import systematic_counts
from bydore_pyro.utils import (
    Interrupted,
    NonFiniteError,
    appearing_folder,
    deferred,
    read_tree,
    write_tree,
)

__all__ = ["kept_on_signal", "proxy_content", "restore_proxy", "train_on_mixture"]


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
            (`kept_on_signal`), which takes the steps that are left.
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


def proxy_content(proxy: Proxy, domains: Domains) -> dict[str, Any]:
    """Returns what a proxy's next step depends on, and what it cost; for `write_tree`."""
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


def restore_proxy(proxy: Proxy, domains: Domains, content: Mapping[str, Any]) -> None:
    """Sets a proxy that has taken no step to what `proxy_content` gave."""
    proxy.model.load_state_dict(content["proxy"]["model"])
    proxy.optimizer.load_state_dict(content["proxy"]["optimizer"])
    proxy.steps = content["proxy"]["steps"]
    for part, values in content["cost"].items():
        getattr(proxy.cost, part).update(values)
    domains.restore(content["domains"])


@contextmanager
def kept_on_signal(
    place: Path, belongs: Mapping[str, Any], proxy: Proxy, domains: Domains
) -> Iterator[Callable[[], None]]:
    """Keeps a proxy in training when a signal asks for the end, and goes on with a kept one.

    Args:
        place: The folder where it is kept until it is finished.
        belongs: What it is trained on and how, plain values; another's is not gone on with.
        proxy: Before its first step; where one was kept it has taken its steps on entry.
        domains: Where its batches come from.

    Yields:
        A function to call behind every step.

    Raises:
        Interrupted: By that function, when the proxy has been kept.
    """
    try:
        header, content = read_tree(place)
        if header == {**belongs}:
            restore_proxy(proxy, domains, content)
    except ValueError:
        pass  # there is none, or it is damaged: beginning anew costs one proxy

    def check() -> None:
        if number := asked():
            shutil.rmtree(place, ignore_errors=True)
            with appearing_folder(place) as aside:
                write_tree(aside, proxy_content(proxy, domains), belongs)
            raise Interrupted(number)

    with deferred() as asked:
        yield check
    shutil.rmtree(place, ignore_errors=True)
