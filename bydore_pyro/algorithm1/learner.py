"""How Algorithm 1 learns the weights: as a posterior, by Pyro's SVI."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import pyro
import torch
from pyro import poutine
from pyro.infer import SVI
from torch import Tensor

from bydore_pyro import core
from bydore_pyro.algorithm1.config import LinearConfig

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


class WeightsLearner(Protocol):
    """Learns weights from losses and hypergradients, as a posterior or as a point."""

    def draw(self, signals: Tensor) -> Weights:
        """Returns its belief."""

    def update(self, signals: Tensor, g: Tensor, kl_weight: float, *, learn: bool) -> float:
        """Takes one step, for g in units of its running spread; returns the loss before it,
        minimised, in the same units. Without `learn` nothing changes but what a step draws."""

    def state(self) -> dict[str, Any]:
        """Returns everything that the next step depends on."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes on from a `state`."""


class BayesianLearner:
    """The Gamma-Dirichlet posterior: a guide with a prior network, learned by SVI.

    It lives on the CPU: it is K numbers. It has random numbers and a Pyro parameter store of its
    own, so two searches of one process share nothing.

    Args:
        num_domains: K.
        config: Step sizes.
        steps: Of the search.
        seed: Of its first weights and its draws.
    """

    def __init__(self, num_domains: int, config: LinearConfig, steps: int, seed: int) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.guide = core.MixtureGuide(core.PriorNetwork(num_domains))
            self._rng_state = torch.get_rng_state()
        # The KL sums over domains: with many, few draws are as exact, and cost as much as many do
        # with few.
        draws = max(1, min(MOST_DRAWS, DRAWS_TIMES_DOMAINS // num_domains))
        elbo = core.HypergradientELBO(num_samples=draws)
        optimizer = _optimizer(config, config.guide_decay(steps))
        self._svi = SVI(
            _in_units_of_g(core.mixture_model), _in_units_of_g(self.guide), optimizer, elbo
        )
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
            q = core.GammaDirichlet(a, b)
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


def _in_units_of_g(program: Callable[..., Any]) -> Callable[..., Any]:
    """Scales the log densities of a model or a guide by ``lam``: the loss has the unit of g."""

    def scaled(signals: Tensor, g: Tensor, kl_weight: float) -> Any:
        with poutine.scale(scale=kl_weight):
            return program(signals, g, kl_weight)

    return scaled


def _optimizer(config: LinearConfig, decay: float) -> pyro.optim.PyroOptim:
    """Adam whose step size decays geometrically; the domains' biases take larger steps."""

    def arguments(parameter: str) -> dict[str, Any]:
        own = parameter.endswith("domain_bias")
        rate = config.guide_learning_rate if own else NETWORK_LEARNING_RATE
        return {"lr": rate, "lrd": decay, "betas": (0.9, 0.99)}

    return pyro.optim.ClippedAdam(arguments)
