"""How a search by linear evidence learns the weights: as a posterior by Pyro's SVI, or, for the
ablation, as a point on the simplex.

Every learner has four methods. `draw(signals)` returns its belief. `update(signals, g, kl_weight,
learn=...)` takes one step, for `g` in units of its running spread, and returns the loss before it,
minimised, in the same units; with `learn` false nothing changes but what a step would have drawn.
`state()` returns everything that the next step depends on, `restore(state)` goes on from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyro
import torch
from pyro.infer import SVI
from pyro.optim.clipped_adam import ClippedAdam
from torch import Tensor

from bydore_pyro.core import (
    GammaDirichlet,
    HypergradientELBO,
    MixtureGuide,
    PriorNetwork,
    mixture_model,
)
from bydore_pyro.search.config import SearchConfig

__all__ = [
    "BayesianLearner",
    "ExponentiatedLearner",
    "PointLearner",
    "Weights",
    "WeightsLearner",
    "learner_of",
]

MOST_DRAWS, DRAWS_TIMES_DOMAINS = 16, 512  # of the KL
NETWORK_LEARNING_RATE = 3e-4  # initial step size of the network but for the domains' biases


@dataclass(frozen=True)
class Weights:
    """A learner's belief at one step, and what it trains on; each ``(K,)``."""

    weights: Tensor  # what the batch is made of
    mean: Tensor  # E_q[w]
    standard_deviation: Tensor
    concentration: Tensor  # a
    rate: Tensor  # b


class BayesianLearner:
    """The Gamma-Dirichlet posterior: a guide with a prior network, learned by SVI.

    It lives on the CPU: it is K numbers. It has random numbers and a Pyro parameter store of its
    own, so two searches of one process share nothing.

    Args:
        num_domains: K.
        config: Step sizes.
        seed: Of its first weights and its draws.
    """

    def __init__(self, num_domains: int, config: SearchConfig, seed: int) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.guide = MixtureGuide(PriorNetwork(num_domains))
            self._rng_state = torch.get_rng_state()
        # The KL sums over domains: with many, few draws are as exact, and cost as much as many do
        # with few.
        draws = max(1, min(MOST_DRAWS, DRAWS_TIMES_DOMAINS // num_domains))
        elbo = HypergradientELBO(num_samples=draws)
        self._svi = SVI(mixture_model, self.guide, _optimizer(config), elbo)
        with pyro.get_param_store().scope() as self._param_store:
            pass

    @contextmanager
    def isolated(self) -> Iterator[None]:
        """Gives the block this learner's random numbers and Pyro parameter store.

        `SVI.step` does not work with `pyro.settings.set(module_local_params=True)`.
        """
        with (
            torch.random.fork_rng(devices=[]),
            pyro.get_param_store().scope(self._param_store) as store,
        ):
            torch.set_rng_state(self._rng_state)
            yield
            self._rng_state = torch.get_rng_state()
            self._param_store = store

    def draw(self, signals: Tensor) -> Weights:
        """Returns the posterior under the signals and a draw from it."""
        with self.isolated(), torch.no_grad():
            a, b = self.guide.network(signals)
            if not (torch.isfinite(a).all() and torch.isfinite(b).all()):
                nothing = torch.full_like(a, torch.nan)
                return Weights(nothing, nothing, nothing, a, b)
            q = GammaDirichlet(a, b)
            return Weights(q.sample(), q.mean, q.stddev, a, b)

    def update(self, signals: Tensor, g: Tensor, kl_weight: float, *, learn: bool) -> float:
        """Takes one step; returns ``-g . E[w] + lam KL``, minimised, in units of g's spread."""
        with self.isolated():
            step = self._svi.step if learn else self._svi.evaluate_loss
            return step(signals, g, kl_weight)

    def state(self) -> dict[str, Any]:
        """Returns the network, its optimiser and the random state."""
        optimizer = self._svi.optim
        with self.isolated():
            optimizers = {**optimizer._state_waiting_to_be_consumed, **optimizer.get_state()}
        return {
            "network": dict(self.guide.network.state_dict()),
            "optimizers": optimizers,
            "random": self._rng_state,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes on from a `state`."""
        self.guide.network.load_state_dict(state["network"])
        self._svi.optim.set_state(state["optimizers"])
        self._rng_state = state["random"]


def _optimizer(config: SearchConfig) -> pyro.optim.PyroOptim:
    """Adam whose step size decays geometrically; the domains' biases take larger steps."""
    decay = config.guide_decay

    def arguments(parameter: str) -> dict[str, Any]:
        own = parameter.endswith("domain_bias")
        rate = config.guide_learning_rate if own else NETWORK_LEARNING_RATE
        return {"lr": rate, "lrd": decay, "betas": (0.9, 0.99)}

    return pyro.optim.ClippedAdam(arguments)


class PointLearner:
    """``w = a / sum_j a_j`` with ``a = G_Phi(s)``: the same network, optimiser and step sizes.

    The loss is ``-g . w``: without a distribution there is nothing for a KL term to weigh.

    Args:
        num_domains: K.
        config: Step sizes.
        seed: Of its first weights.

    References:
        Yuan et al., Bayesian Domain Reweighting, Fig. 4a.
    """

    def __init__(self, num_domains: int, config: SearchConfig, seed: int) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = PriorNetwork(num_domains)
        own = [p for n, p in self.network.named_parameters() if n == "domain_bias"]
        rest = [p for n, p in self.network.named_parameters() if n != "domain_bias"]
        groups = [
            {"params": own, "lr": config.guide_learning_rate},
            {"params": rest, "lr": NETWORK_LEARNING_RATE},
        ]
        self._optimizer = ClippedAdam(groups, betas=(0.9, 0.99), lrd=config.guide_decay)

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
    """DoReMi's update with g as the score: multiplicative, then smoothed towards uniform::

        alpha <- alpha exp(eta g),   alpha <- (1 - c) alpha / sum alpha + c / K

    Args:
        num_domains: K.
        eta: Step size; DoReMi's is 1, for scores of excess loss.
        smoothing: c, in [0, 1).

    References:
        Xie et al., DoReMi, arXiv 2305.10429, Algorithm 1.
    """

    def __init__(self, num_domains: int, eta: float = 1.0, smoothing: float = 1e-3) -> None:
        self.eta, self.smoothing = eta, smoothing
        self._weights = torch.full((num_domains,), 1 / num_domains)

    def draw(self, signals: Tensor) -> Weights:
        """Returns the weights; their spread is 0."""
        return _point(self._weights)

    def update(self, signals: Tensor, g: Tensor, kl_weight: float, *, learn: bool) -> float:
        """Takes one step; returns ``-g . w``, minimised, in units of g's running spread."""
        loss = -(g * self._weights).sum().item()
        if learn:
            raised = torch.softmax(self._weights.log() + self.eta * g, 0)
            self._weights = (1 - self.smoothing) * raised + self.smoothing / len(raised)
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


WeightsLearner = BayesianLearner | PointLearner | ExponentiatedLearner


def learner_of(config: SearchConfig, num_domains: int, seed: int) -> WeightsLearner:
    """Returns the learner that the options name, before its first step."""
    if config.learner == "exponentiated":
        return ExponentiatedLearner(num_domains)
    kind = BayesianLearner if config.learner == "bayesian" else PointLearner
    return kind(num_domains, config, seed)
