"""The posterior of a search by gradient matching: a guide, fitted to the evidence of all rounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from bydore_pyro.core import (
    Inference,
    InferenceConfig,
    Matching,
    MixtureGuide,
    PriorNetwork,
    PriorNetworkConfig,
    infer_and_refine,
)

__all__ = ["MatchingPosterior"]


class MatchingPosterior:
    """The Gamma-Dirichlet posterior with a free scale: `MixtureGuide`, fitted by `infer`.

    Args:
        num_domains: K.
        network: The prior network.
        seed: Of its first weights, and of the draws.
        steps: Of SVI, at most; those of `InferenceConfig` when None.
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

    def learn(self, signals: Tensor, matching: Matching) -> Inference:
        """Fits the guide by SVI, then to exact draws.

        Args:
            signals: The domains' losses ``(K,)``, nats per token.
            matching: The evidence.
        """
        return infer_and_refine(
            self.guide,
            *(signals.double(), matching.linear, matching.precision),
            concentrations=matching.concentrations,
            config=self.config,
        )

    def state(self) -> dict[str, Any]:
        """Returns the guide's parameters."""
        return {"guide": dict(self.guide.state_dict())}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Sets the guide to a `state` of another of the same configuration."""
        self.guide.load_state_dict(state["guide"])
