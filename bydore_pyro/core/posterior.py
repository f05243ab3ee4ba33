"""The posterior of the evidence of rounds: its draws, and a guide that stands in for it.

Of at most 128 domains the draws are exact (`bydore_pyro.core.exact_draws`); a guide is fitted to
them if it is asked for. Of more domains a guide is learned by SVI, and its draws are corrected by
importance weights as far as these are reliable.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from pyro.infer import Predictive
from torch import Tensor

from bydore_pyro import files, terminal
from bydore_pyro.core.guide import MixtureGuide
from bydore_pyro.core.importance import GuideFit, corrected_draws, guide_fit
from bydore_pyro.core.inference import InferenceConfig, fit_to_draws, infer
from bydore_pyro.core.isolation import isolated
from bydore_pyro.core.matching import Matching
from bydore_pyro.core.metropolis import CHAINS, MOST_EXACT, exact_draws
from bydore_pyro.core.model import SCALE, WEIGHTS, mixture_model
from bydore_pyro.core.network import FreeConcentrations

__all__ = ["DRAWS", "Convergence", "Posterior", "draw_posterior", "draw_prior"]

DRAWS = 4000  # of a posterior
WEIGHED = 4000  # draws of a guide whose k-hat is found


@dataclass(frozen=True, kw_only=True)
class Convergence:
    """Whether draws are the posterior's; the plain part of a `Posterior`, which records keep.

    Attributes:
        settled: Whether they are: the chains agree, or SVI has settled and importance weights have
            corrected the draws of its guide.
        rhat: Nested R-hat of the chains, >= 1; None where no chain was run.
    """

    settled: bool = False
    rhat: files.Number | None = None


@dataclass(frozen=True)
class Posterior:
    """Draws of the weights and the scale; of exact draws, chain after chain.

    Attributes:
        weights: ``(D, K)``, float64, each draw on the simplex.
        scale: ``s (D,)``, > 0.
        convergence: Whether these are the posterior's.
        guide: A `MixtureGuide` with `FreeConcentrations`, where one was fitted.
        fit: How well the guide's own draws stand in for the posterior's.
    """

    weights: Tensor
    scale: Tensor
    convergence: Convergence
    guide: MixtureGuide | None = None
    fit: GuideFit | None = None


@terminal.one_thread()
def draw_posterior(found: Matching, *, with_guide: bool = False, seed: int = 0) -> Posterior:
    """Draws 4,000 times from the posterior of the evidence of rounds.

    Args:
        found: The evidence.
        with_guide: Whether to fit a guide where the draws need none.
        seed: Of all draws.
    """
    prior, size = found.concentrations, len(found.linear)
    guide = MixtureGuide(FreeConcentrations(size).double(), scale=True)
    signals = torch.zeros_like(found.linear)  # the guide ignores them
    arguments = (signals, found.linear, 1.0, found.precision, prior)
    if size > MOST_EXACT:
        evidence = (guide, signals, found.linear, found.precision)
        inference = infer(*evidence, concentrations=prior, config=InferenceConfig(seed=seed))
        drawn = corrected_draws(mixture_model, guide, *arguments, num_draws=DRAWS, seed=seed)
        return Posterior(
            weights=drawn.sites[WEIGHTS],
            scale=drawn.sites[SCALE],
            convergence=Convergence(settled=inference.settled and drawn.corrected),
            guide=guide,
            fit=drawn.fit,
        )
    exact = exact_draws(
        found.linear[None],
        found.precision[None],
        concentrations=prior,
        draws=-(-DRAWS // CHAINS),
        chains=CHAINS,
        seed=seed,
    )
    weights, scale = exact.weights[0], exact.scale[0]
    convergence = Convergence(settled=exact.settled, rhat=exact.rhat)
    if not with_guide:
        return Posterior(weights, scale, convergence)
    fit_to_draws(guide, weights, scale, seed=seed)
    fit = guide_fit(mixture_model, guide, *arguments, num_samples=WEIGHED, seed=seed)
    return Posterior(weights, scale, convergence, guide, fit)


def draw_prior(found: Matching, draws: int, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Returns draws of the prior of `draw_posterior`: weights ``(D, K)`` and the scale ``(D,)``.

    Args:
        found: The evidence, whose kind decides the prior.
        draws: How many.
        seed: Of the draws. The caller's random numbers are left alone.
    """
    with torch.no_grad(), isolated(seed):
        drawn = Predictive(mixture_model, num_samples=draws, parallel=True)(
            None, found.linear, 1.0, found.precision, found.concentrations
        )
    return drawn[WEIGHTS], drawn[SCALE]
