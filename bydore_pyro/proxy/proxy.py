"""A proxy: a small language model in training. No Pyro here."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from bydore_pyro.proxy.config import ProxyConfig
from bydore_pyro.proxy.measured_model import Cost, MeasuredModel
from bydore_pyro.proxy.parallel import Parallel


class Proxy(MeasuredModel):
    """A causal language model with AdamW.

    Args:
        model: See `MeasuredModel`.
        config: Of the optimiser.
        cost: See `MeasuredModel`.
        decay_steps: Steps over which the step size falls linearly to zero; it does not when None.
        parallel: See `MeasuredModel`.
    """

    def __init__(
        self,
        model: nn.Module,
        config: ProxyConfig,
        cost: Cost | None = None,
        decay_steps: int | None = None,
        parallel: Parallel | None = None,
    ) -> None:
        super().__init__(model, cost, parallel, config.precision, liger=config.liger)
        self.decay_steps = decay_steps
        self.config = config
        self.steps = 0
        groups = [
            {
                "params": [p for p in model.parameters() if p.dim() >= 2],
                "weight_decay": config.weight_decay,
            },
            {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=config.learning_rate, betas=(0.9, 0.95))

    def copied(self) -> Proxy:
        """Returns a copy with the state of the optimiser, in memory of its own, counting anew."""
        own = Proxy(copy.deepcopy(self.model), self.config, None, self.decay_steps, self.parallel)
        own.optimizer.load_state_dict(copy.deepcopy(self.optimizer.state_dict()))
        own.steps = self.steps
        return own

    @property
    def eta(self) -> float:
        """The step size of the next step, >= 0."""
        warmup = self.config.warmup_steps
        ramp = min(1.0, (self.steps + 1) / (warmup + 1))
        if self.decay_steps is not None:
            ramp *= max(0.0, 1 - self.steps / self.decay_steps)
        return self.config.learning_rate * ramp

    def step(
        self, batch: Tensor, factors: Tensor | Callable[[Tensor], Tensor] | None = None
    ) -> Tensor:
        """Takes a step on the mean of factors times losses; returns the losses before it ``(B,)``.

        With a step size of 0 it only measures the losses.

        Args:
            batch: Token ids ``(B, T)``.
            factors: Of each sequence ``(B,)``, or a function of the batch's token losses
                ``(B, T - 1)`` that returns them; 1 when None.
        """
        if self.config.learning_rate == 0:
            with torch.no_grad():
                return self.losses(batch, "train")
        with self.cost.part("train"):
            for group in self.optimizer.param_groups:
                group["lr"] = self.eta
            own = self.own_losses(batch, "train")
            if callable(factors):
                factors = factors(self.parallel.gather(own.detach(), len(batch)))
            own = own.mean(1)
            self.optimizer.zero_grad(set_to_none=True)
            self._mean(own, torch.ones(len(batch)) if factors is None else factors).backward()
            trained = [p for p in self.model.parameters() if p.grad is not None]
            gradients = self.parallel.sum(p.grad for p in trained if p.grad is not None)
            for parameter, gradient in zip(trained, gradients, strict=True):
                parameter.grad = gradient
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.max_gradient_norm)
            self.optimizer.step()
            self.steps += 1
        return self.parallel.gather(own.detach(), len(batch))
