"""The law of a mixture's losses: a power law in effective tokens, on every target at once.

A run on ``w_k`` tokens of each of ``K`` domains (the run's weights times its length) has a loss on
each of ``T`` targets. A target learns from its own domain's tokens and from what the others'
tokens are worth for it::

    n_t = sum_k (a_tk w_k)^rho,    a_tt = 1,  a_tk = o_t S_tk >= 0    effective tokens
    L_t = E_t + S_t ((n_t / n_0)^(-g_t) - 1) / g_t                    nats per token

``E_t`` is the loss at ``n_t = n_0`` and ``S_t`` its fall there as ``log n_t`` grows. So the two are
hardly tied, as they are where a floor and a factor are fitted. ``S_tk`` is the transfer: measured,
from cross products of gradients, ``max(c_tk, 0) / c_tt``, or the same for all. ``o_t`` is the
target's openness to it. With ``rho = 1`` an amount of text is worth what it is worth at any share;
with ``rho = 0.9`` the first tokens of a domain are worth a little more than the last.

``n_t`` is concave in ``w`` and ``L_t`` is convex and falls in ``n_t``: every question for a best
mixture is a convex programme (`bydore_pyro.law.decision`).

Priors, for losses less their target's mean, in units of the median target's standard deviation::

    E ~ N(0, 3)   log S ~ N(m_S, .5)   log g ~ N(m_g, .3)   log o ~ N(m, .7)
    m_S ~ N(log .4, .7)   m_g ~ N(-1.7, .5)   m ~ N(log l, 1)   log s ~ N(log .25, .35)
    sigma^2 ~ 4 s^2 / chi2_4,  the noise of a run's loss

``l`` is the mean ``S_tk`` of other domains (`LawRuns.likeness`): the more alike the gradients are,
the more open a target is, too. On two corpora it is 0.17 and 0.40; 32 and 24 runs find 0.2 and 0.4.

References: a power law in a domain's own tokens is AutoScale's (arXiv 2407.20177) and BiMix's
(arXiv 2405.14908); effective data transferred is Hernandez et al.'s (arXiv 2102.01293).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pyro
import torch
from pyro.distributions import InverseGamma, Normal
from torch import Tensor

from bydore_pyro.law.law_runs import LawRuns

__all__ = ["LawDraws", "law_losses", "law_model"]

LEVEL_SD, SLOPE_SD, POWER_SD, OPEN_SD = 3.0, 0.5, 0.3, 0.7  # of a target about the shared means
# Shared: mean and standard deviation of the means; of ``m`` the deviation alone.
SLOPE, POWER, OPENED = (math.log(0.4), 0.7), (-1.7, 0.5), 1.0
NOISE, NOISE_DEGREES = (math.log(0.25), 0.35), 4.0


def law_losses(level: Tensor, slope: Tensor, power: Tensor, ratio: Tensor) -> Tensor:
    """Returns ``E + S ((n / n_0)^-g - 1) / g``, in the unit of E; all broadcast.

    Args:
        level: ``E``.
        slope: ``S > 0``.
        power: ``g > 0``.
        ratio: ``n / n_0 > 0``.
    """
    return level + slope * torch.expm1(-power * ratio.log()) / power


def law_model(runs: LawRuns) -> None:
    """The Pyro model in its smallest form: four numbers a target, and four that all share.

    It runs under NUTS (minutes at 13 domains), to which `fit_law` (a fraction of a second) is held.

    Args:
        runs: Scaled by `LawRuns.of`.
    """

    def shared(name: str, mean: float, deviation: float) -> Tensor:
        return pyro.sample(name, Normal(torch.tensor(mean).double(), deviation))

    def offset(name: str, deviation: float) -> Tensor:  # not centred: no funnel
        zero = runs.losses.new_zeros(())
        return deviation * pyro.sample(name, Normal(zero, 1.0))

    opened = (math.log(runs.likeness), OPENED)
    means = [shared(*given) for given in (("m_S", *SLOPE), ("m_g", *POWER), ("m", *opened))]
    scale = shared("m_s", *NOISE).exp()
    with pyro.plate("targets", runs.losses.shape[1]):
        level = offset("level", LEVEL_SD)
        slope = (means[0] + offset("slope", SLOPE_SD)).exp()
        power = (means[1] + offset("power", POWER_SD)).exp()
        openness = (means[2] + offset("openness", OPEN_SD)).exp()
        half = torch.tensor(NOISE_DEGREES / 2).double()
        variance = pyro.sample("variance", InverseGamma(half, half * scale.square()))
    ratio = runs.amounts @ runs.own.T + openness**runs.rho * (runs.amounts @ runs.transfer.T)
    predicted = pyro.deterministic("predicted", law_losses(level, slope, power, ratio))
    with pyro.plate("of_each", runs.losses.shape[1]), pyro.plate("runs", len(runs.losses)):
        pyro.sample("losses", Normal(predicted, variance.sqrt()), obs=runs.losses)


@dataclass(frozen=True)
class LawDraws:
    """S draws of the law.

    Attributes:
        runs: Whose law it is: units, own domains.
        level: ``E`` ``(S, T)``, nats per token.
        slope: ``S`` ``(S, T)``, nats per token.
        power: ``g`` ``(S, T)``.
        openness: ``o^rho`` ``(S, T)``.
        transfer: ``S_tk^rho``, 0 at a target's own domain: ``(T, K)``, or ``(S, T, K)``.
        noise: Standard deviation of a run's loss about the law ``(S, T)``, nats per token.
    """

    runs: LawRuns
    level: Tensor
    slope: Tensor
    power: Tensor
    openness: Tensor
    transfer: Tensor
    noise: Tensor

    def ratio(self, amounts: Tensor) -> Tensor:
        """Returns ``n / n_0`` ``(S, M, T)`` of amounts ``(M, K)``."""
        others = amounts @ self.transfer.mT  # (M, T) or (S, M, T)
        return amounts @ self.runs.own.T + self.openness[:, None] * others

    def losses(self, tokens: Tensor) -> Tensor:
        """Returns expected losses ``(S, M, T)``, nats per token, of runs' tokens ``(M, K)``."""
        ratio = self.ratio(self.runs.amounts_of(tokens))
        given = (self.level[:, None], self.slope[:, None], self.power[:, None])
        return law_losses(*given, ratio)

    def worth(self) -> Tensor:
        """Returns ``a`` ``(S, T, K)``: what a token is worth in tokens of a target's own domain."""
        power = 1 / self.runs.rho
        return self.runs.own + (self.openness[..., None] * self.transfer) ** power

    def among(self, domains: int) -> LawDraws:
        """Returns the law of the first K domains, for runs that train on no others.

        What the known runs have learned from the others' tokens stays in it.
        """
        first, runs = slice(domains), self.runs
        of_runs = {name: getattr(runs, name)[first, first] for name in ("own", "transfer")}
        of_runs |= {name: getattr(runs, name)[:, first] for name in ("amounts", "losses")}
        names = ("level", "slope", "power", "openness", "noise")
        return replace(
            self,
            runs=replace(runs, centre=runs.centre[first], **of_runs),
            transfer=self.transfer[..., first, first],
            **{name: getattr(self, name)[:, first] for name in names},
        )

    def __getitem__(self, chosen: Tensor | slice) -> LawDraws:
        """Returns some of the draws."""
        names = ["level", "slope", "power", "openness", "noise"]
        names += ["transfer"] if self.transfer.dim() == 3 else []
        return replace(self, **{name: getattr(self, name)[chosen] for name in names})
