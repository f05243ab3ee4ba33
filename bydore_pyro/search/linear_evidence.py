"""What the language model says about the weights: the domains' losses, and g.

One measurement gives both. With central differences the losses are the mean of the perturbed
losses. A Jacobian-vector product returns them beside the derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bydore_pyro.core import Parameters, balanced_step, finite_difference, forward_mode, step_size
from bydore_pyro.data import Domains
from bydore_pyro.proxy import Proxy
from bydore_pyro.search.config import SearchConfig

__all__ = ["Evidence", "Measure"]

CALIBRATION = 50  # measurements between two calibrations of the automatic step


@dataclass(frozen=True)
class Evidence:
    """What one measurement found; tensors are ``(m,)`` for the domains that were measured."""

    losses: Tensor  # nats per token, around theta
    g: Tensor  # nats per token, > 0 where training on the domain lowers the validation loss
    validation_loss: float  # nats per token


class Measure:
    """Measures losses and hypergradients of domains.

    Args:
        domains: Where the batches come from.
        proxy: The language model.
        config: Sizes of the batches, and the hypergradient's kind.

    Attributes:
        epsilon: The automatic rule's step as a multiple of the paper's, None before the first.
        error: Its own estimate of the relative error of g.
        count: Measurements so far.
    """

    def __init__(self, domains: Domains, proxy: Proxy, config: SearchConfig) -> None:
        self.domains, self.proxy, self.config = domains, proxy, config
        self.epsilon: float | None = None
        self.error: float | None = None
        self.count = 0

    def losses(self, names: Sequence[str]) -> Tensor:
        """Returns the losses ``(m,)`` of domains on fresh small batches, nats per token."""
        batch = self.domains.signal_batch(self.config.signal_sequences, names)
        with self.proxy.cost.part("signals"), torch.no_grad():
            return self._of_domains(batch, "signals", None).cpu().float()

    def __call__(self, names: Sequence[str], theta: Parameters, eta: float) -> Evidence:
        """Measures around the parameters before a step, along the gradient after it.

        Args:
            names: The domains.
            theta: The parameters before the step.
            eta: The step's size.
        """
        proxy, config = self.proxy, self.config
        with proxy.cost.part("validation"):
            held_out = self.domains.validation_batch(config.validation_batch)
            validation_loss, direction = proxy.gradient(held_out, "validation")
        with proxy.cost.part("hypergradient"):
            batch = self.domains.signal_batch(config.signal_sequences, names)

            def losses(perturbed: Parameters) -> Tensor:
                return self._of_domains(batch, "hypergradient", perturbed, passes)

            passes = 3 if config.hypergradient == "forward_mode" else 1
            if config.hypergradient == "forward_mode":
                found, g = forward_mode(losses, theta, direction, eta)
            else:
                epsilon = self._epsilon(losses, theta, direction, eta)
                found, g = finite_difference(losses, theta, direction, eta, epsilon)
        self.count += 1
        found, g = torch.stack((found, g)).cpu().float()  # read at once
        return Evidence(found, g, validation_loss)

    def state(self) -> dict[str, Any]:
        """Returns what the next measurement depends on."""
        return {"epsilon": self.epsilon, "error": self.error, "count": self.count}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes on from a `state`."""
        self.epsilon, self.error, self.count = state["epsilon"], state["error"], state["count"]

    def _of_domains(
        self, batch: Tensor, part: str, theta: Parameters | None, passes: int = 1
    ) -> Tensor:
        losses = self.proxy.losses(batch, part, theta, full_precision=True, passes=passes)  # (m n,)
        return losses.view(-1, self.config.signal_sequences).mean(1)  # (m,)

    def _epsilon(
        self,
        losses: Callable[[Parameters], Tensor],
        theta: Parameters,
        direction: Parameters,
        eta: float,
    ) -> float:
        rule = self.config.epsilon_rule
        if rule == "darts":
            with suppress(ValueError):  # no direction, or none that is finite
                return step_size(theta, direction, rule)
            rule = "paper"  # g is 0 then, or NaN, whatever the step
        if rule != "auto":
            return step_size(theta, direction, rule)
        paper = step_size(theta, direction, "paper")
        if self.epsilon is None or self.count % CALIBRATION == 0:
            epsilon, self.error = balanced_step(losses, theta, direction, eta, paper)
            self.epsilon = epsilon / paper
        return self.epsilon * paper
