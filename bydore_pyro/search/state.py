"""What searches of both kinds share: their state, and the record of a step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bydore_pyro.data import Domains
from bydore_pyro.proxy import Proxy
from bydore_pyro.search.config import SearchConfig
from bydore_pyro.utils import NonFiniteError

__all__ = ["SearchState", "StepRecord", "check_finite"]


@dataclass(frozen=True, kw_only=True)
class StepRecord:
    """What one step saw and did; arrays are ``(K,)``, losses in nats per token.

    In a search by gradient matching `mean` holds the most likely weights by the evidence so far,
    `losses` and `validation_loss` are the last round's, and what has no value is NaN.
    """

    weights: np.ndarray  # that the batch was built from
    mean: np.ndarray  # E_q[w]
    standard_deviation: np.ndarray  # of w under q
    concentration: np.ndarray  # a
    rate: np.ndarray  # b
    losses: np.ndarray  # of the domains, as measured
    train_loss: float
    validation_loss: float  # on the batch of the gradient, after the step
    g: np.ndarray  # > 0: training on the domain lowers the validation loss
    kl_weight: float  # lam, nats per token
    loss: float  # -(g . E_q[w]) + lam KL


@dataclass(kw_only=True)
class SearchState(ABC):
    """What every search is made of, whatever its evidence.

    Attributes:
        domains: Where the batches come from.
        config: Its options.
        proxy: The language model that it trains.
        generator: Of batches.
        records: One a step.
    """

    domains: Domains
    config: SearchConfig
    proxy: Proxy
    generator: torch.Generator
    records: list[StepRecord] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        """Whether there is no step left."""
        return len(self.records) >= self.config.trained_steps

    @abstractmethod
    def step(self) -> StepRecord:
        """Takes one step of the proxy, with what is measured and learned after it; appends its
        record.

        Raises:
            NonFiniteError: When a loss, a gradient or the posterior is NaN or infinite; it names
                the step and the domain.
        """

    @property
    @abstractmethod
    def average_start(self) -> int:
        """The first step of those whose posterior is the result."""

    @abstractmethod
    def running(self) -> dict[str, Any]:
        """Returns what the next step depends on, beside proxy, data, random numbers and records."""

    @abstractmethod
    def restore(self, running: Mapping[str, Any]) -> None:
        """Goes on from what `running` returned in another search of the same options."""

    def train(self, counts: Tensor, factors: Tensor) -> float:
        """Trains one step; returns the batch's mean loss before it, nats per token.

        Args:
            counts: Sequences by domain ``(K,)``.
            factors: Of each domain's losses ``(K,)``, in the step but not in what is returned.

        Raises:
            NonFiniteError: When a loss is NaN or infinite.
        """
        names = self.domains.names
        batch = self.domains.train_batch(dict(zip(names, counts.tolist(), strict=True)))
        weighting = None if bool((factors == 1).all()) else factors.repeat_interleave(counts)
        losses = self.proxy.step(batch, weighting).cpu()  # (B,)
        owners = np.repeat(np.array(names), counts.numpy())
        check_finite("training loss", losses, len(self.records), owners)
        return losses.mean().item()


def check_finite(what: str, values: Tensor, step: int, names: Any) -> None:
    """Refuses NaN and infinity.

    Args:
        what: The values are.
        values: ``(n,)``.
        step: Of the search.
        names: The domain of each.

    Raises:
        NonFiniteError: Names the step, the first such domain and the value.
    """
    bad = ~torch.isfinite(values)
    if bad.any():
        index = int(bad.nonzero()[0])
        option = "guide_learning_rate" if what.startswith("posterior") else "learning_rate"
        raise NonFiniteError(
            f"Step {step}: the {what} of domain '{names[index]}' is {values[index].item()}; "
            f"a smaller --{option} may help"
        )
