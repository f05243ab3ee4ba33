"""How a search by gradient matching learns the weights: as a posterior, or as a point."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from bydore_pyro.core import (
    GammaDirichlet,
    InferenceConfig,
    Matching,
    MixtureGuide,
    PriorNetwork,
    PriorNetworkConfig,
    has_settled,
    infer,
    infer_at_last,
)
from bydore_pyro.search.config import SearchConfig
from bydore_pyro.search.learner import Weights

__all__ = ["MatchingLearner", "MatchingPosterior", "Settled", "matching_learner"]

POINT_STEPS = 500  # of the ablation's learners, a round


@dataclass(frozen=True)
class Settled:
    """What learning at one evidence came to.

    Attributes:
        weights: The belief, and what is trained on next, ``(K,)`` each.
        loss: Negative ELBO, nats; for a point the negative evidence.
        steps: That were taken.
        settled: Whether the loss settled before they ran out.
    """

    weights: Weights
    loss: float
    steps: int
    settled: bool


class MatchingLearner(Protocol):
    """Learns weights from the evidence of the rounds so far."""

    def learn(self, signals: Tensor, matching: Matching, *, last: bool) -> Settled:
        """Learns until settled.

        Args:
            signals: The domains' losses ``(K,)``, nats per token.
            matching: The evidence.
            last: Whether this is the result. If not, it is what the proxy trains on next, for which
                the mean is enough.
        """
        ...

    def state(self) -> dict[str, Any]:
        """Returns everything that the next call depends on."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Sets a learner to a `state` of another of the same configuration."""
        ...


def matching_learner(
    config: SearchConfig, num_domains: int, network: PriorNetworkConfig | None, seed: int
) -> MatchingLearner:
    """Returns the learner that `config` names."""
    if config.learner == "bayesian":
        return MatchingPosterior(num_domains, network, seed, config.inference_steps)
    if config.learner == "point":
        return MatchingPoint(num_domains, network, seed)
    return MatchingExponentiated(num_domains)


class MatchingPosterior:
    """The Gamma-Dirichlet posterior with a free scale: `MixtureGuide`, fitted by `infer`.

    Args:
        num_domains: K.
        network: The prior network.
        seed: Of its first weights, and of the draws.
        steps: Of SVI at one evidence, at most; those of `InferenceConfig` when None.
    """

    def __init__(
        self,
        num_domains: int,
        network: PriorNetworkConfig | None,
        seed: int,
        steps: int | None = None,
    ) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            prior = PriorNetwork(num_domains, network, link="exp").double()
        self.guide = MixtureGuide(prior, scale=True)
        config = InferenceConfig(seed=seed)
        self.config = config if steps is None else dataclasses.replace(config, steps=steps)

    def learn(self, signals: Tensor, matching: Matching, *, last: bool) -> Settled:
        """Fits the guide, from where it is or from a Dirichlet's fit; at last to exact draws."""
        signals = signals.double()
        evidence = (signals, matching.linear, matching.precision)
        prior = matching.concentrations
        if last:
            done = infer_at_last(self.guide, *evidence, concentrations=prior, config=self.config)
        else:
            config = dataclasses.replace(self.config, decays=0)
            done = infer(self.guide, *evidence, concentrations=prior, config=config)
        with torch.no_grad():
            q: GammaDirichlet = self.guide.posterior(signals)
            mean = q.mean
            weights = Weights(mean / mean.sum(), mean, q.stddev, q.concentration, q.rate)
        return Settled(weights, done.loss, done.steps, done.settled)

    def state(self) -> dict[str, Any]:
        """Returns the guide's parameters."""
        return {"guide": dict(self.guide.state_dict())}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes on from a `state`."""
        self.guide.load_state_dict(state["guide"])


def _profiled(weights: Tensor, matching: Matching) -> Tensor:
    """The evidence at weights ``(K,)`` and their best scale ``h.w / w'Lambda w``, nats."""
    first = (matching.linear * weights).sum().clamp(min=0)
    return first.square() / (2 * (weights @ matching.precision @ weights))


def _point(weights: Tensor, losses: list[float]) -> Settled:
    """A point has no spread; whether it has settled is judged as for the posterior."""
    nothing, config = torch.zeros_like(weights), InferenceConfig()
    belief = Weights(weights, weights, nothing, nothing, nothing)
    settled = has_settled(losses, config.window, config.tolerance)
    return Settled(belief, losses[-1], len(losses), settled)


class MatchingPoint:
    """The ablation: ``w = a / sum_j a_j`` by the same network, at the most likely point."""

    def __init__(self, num_domains: int, network: PriorNetworkConfig | None, seed: int) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = PriorNetwork(num_domains, network, link="exp").double()

    def learn(self, signals: Tensor, matching: Matching, *, last: bool) -> Settled:
        """Takes steps of Adam on the negative evidence, their sizes falling to nothing."""
        own = [p for n, p in self.network.named_parameters() if n == "domain_bias"]
        rest = [p for n, p in self.network.named_parameters() if n != "domain_bias"]
        adam = torch.optim.Adam([{"params": own, "lr": 0.1}, {"params": rest, "lr": 3e-3}])
        fall = torch.optim.lr_scheduler.LinearLR(adam, 1.0, 0.01, POINT_STEPS)
        losses = []
        for _ in range(POINT_STEPS):
            loss = -_profiled(self._weights(signals), matching)
            adam.zero_grad()
            loss.backward()
            adam.step()
            fall.step()
            losses.append(loss.item())
        return _point(self._weights(signals).detach(), losses)

    def _weights(self, signals: Tensor) -> Tensor:
        shape, rate = self.network(signals.double())
        return (shape / rate) / (shape / rate).sum()

    def state(self) -> dict[str, Any]:
        """Returns the network's parameters."""
        return {"network": dict(self.network.state_dict())}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes on from a `state`."""
        self.network.load_state_dict(state["network"])


class MatchingExponentiated:
    """The ablation without a network: exponentiated gradient ascent, from uniform weights."""

    def __init__(self, num_domains: int) -> None:
        self.num_domains = num_domains

    def learn(self, signals: Tensor, matching: Matching, *, last: bool) -> Settled:
        """Takes multiplicative steps that fall as ``1 / sqrt(t)``."""
        weights = torch.full((self.num_domains,), 1 / self.num_domains, dtype=torch.float64)
        losses = []
        for step in range(1, POINT_STEPS + 1):
            at = weights.clone().requires_grad_()
            loss = -_profiled(at, matching)
            (slope,) = torch.autograd.grad(loss, at)
            size = 1 / (slope.abs().max().clamp(min=1e-300) * step**0.5)
            weights = torch.softmax(weights.clamp(min=1e-300).log() - size * slope, 0)
            losses.append(loss.item())
        return _point(weights, losses)

    def state(self) -> dict[str, Any]:
        """Returns nothing: every round begins anew."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Has nothing to go on from."""
