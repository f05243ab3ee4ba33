"""Points on the simplex in place of a posterior, for the ablation of Algorithm 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from pyro.optim.clipped_adam import ClippedAdam
from torch import Tensor

from bydore_pyro.algorithm1 import NETWORK_LEARNING_RATE, LinearConfig, Weights
from bydore_pyro.core import PriorNetwork
from bydore_pyro.methods import raised_weights


class PointLearner:
    """``w = a / sum_j a_j`` with ``a = G_Phi(s)``: the same network, optimiser and step sizes.

    The loss is ``-g . w``: without a distribution there is nothing for a KL term to weigh.

    Args:
        num_domains: K.
        config: Step sizes.
        steps: Of the search.
        seed: Of its first weights.

    References:
        Yuan et al., Bayesian Domain Reweighting, Fig. 4a.
    """

    def __init__(self, num_domains: int, config: LinearConfig, steps: int, seed: int) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = PriorNetwork(num_domains)
        own = [p for n, p in self.network.named_parameters() if n == "domain_bias"]
        rest = [p for n, p in self.network.named_parameters() if n != "domain_bias"]
        groups = [
            {"params": own, "lr": config.guide_learning_rate},
            {"params": rest, "lr": NETWORK_LEARNING_RATE},
        ]
        self._optimizer = ClippedAdam(groups, betas=(0.9, 0.99), lrd=config.guide_decay(steps))

    def weights(self, signals: Tensor) -> Tensor:
        """Returns the weights ``(K,)``: the shares of the network's positive outputs."""
        shape, _ = self.network(signals)
        return shape / shape.sum()

    def draw(self, signals: Tensor) -> Weights:
        """Returns the weights; their spread is 0."""
        with torch.no_grad():
            return _point(self.weights(signals))

    def update(self, signals: Tensor, g: Tensor, kl_weight: float, *, learn: bool) -> float:
        """Takes one step of Adam; returns ``-g . w``, minimised, in units of g's running spread."""
        loss = -(g * self.weights(signals)).sum()
        if learn:
            self._optimizer.zero_grad()
            loss.backward()
            self._optimizer.step()
        return loss.item()

    def state(self) -> dict[str, Any]:
        """Returns the network and its optimiser."""
        return {
            "network": dict(self.network.state_dict()),
            "optimizer": self._optimizer.state_dict(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes on from a `state`."""
        self.network.load_state_dict(state["network"])
        self._optimizer.load_state_dict(state["optimizer"])


class ExponentiatedLearner:
    """DoReMi's update with g as the score (`bydore_pyro.methods.raised_weights`).

    Args:
        num_domains: K.
    """

    def __init__(self, num_domains: int) -> None:
        self._weights = torch.full((num_domains,), 1 / num_domains)

    def draw(self, signals: Tensor) -> Weights:
        """Returns the weights; their spread is 0."""
        return _point(self._weights)

    def update(self, signals: Tensor, g: Tensor, kl_weight: float, *, learn: bool) -> float:
        """Takes one step; returns ``-g . w``, minimised, in units of g's running spread."""
        loss = -(g * self._weights).sum().item()
        if learn:
            self._weights = raised_weights(self._weights, g)
        return loss

    def state(self) -> dict[str, Any]:
        """Returns the weights."""
        return {"weights": self._weights}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes on from a `state`."""
        self._weights = state["weights"]


def _point(weights: Tensor) -> Weights:
    nothing = torch.zeros_like(weights)
    return Weights(weights, weights, nothing, nothing, nothing)
