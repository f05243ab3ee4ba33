"""The law of a mixture's losses: a power law in effective tokens, on every target at once.

A run on ``w_k`` tokens of each of ``K`` domains (the run's weights times its length) has a loss on
each of ``T`` targets. A target learns from its own domain's tokens and from what the others'
tokens are worth for it::

    n_t = sum_k a_tk w_k^rho,    a_tt = 1,  a_tk = o_t S_tk >= 0      effective tokens
    L_t = E_t + S_t ((n_t / n_0)^(-g_t) - 1) / g_t                    nats per token

``E_t`` is the loss at ``n_t = n_0`` and ``S_t`` its fall there as ``log n_t`` grows. So the two are
hardly tied, as they are where a floor and a factor are fitted. ``S_tk`` is the transfer: measured,
from cross products of gradients, ``max(c_tk, 0) / c_tt``, or the same for all. ``o_t`` is the
target's openness to it. With ``rho = 1`` an amount of text is worth what it is worth at any share;
with ``rho = 0.9`` the first tokens of a domain are worth a little more than the last.

``n_t`` is concave in ``w`` and ``L_t`` is convex and falls in ``n_t``: every question for a best
mixture is a convex programme (`bydore_pyro.core.decision`).

Priors, for losses less their target's mean, in units of the median target's standard deviation::

    E ~ N(0, 3)   log S ~ N(m_S, .5)   log g ~ N(m_g, .3)   log o ~ N(m, .7)
    m_S ~ N(log .4, .7)   m_g ~ N(-1.7, .5)   m ~ N(log .2, 1)   log s ~ N(log .25, .35)
    sigma^2 ~ 4 s^2 / chi2_4,  the noise of a run's loss

References: a power law in a domain's own tokens is AutoScale's (arXiv 2407.20177) and BiMix's
(arXiv 2405.14908); effective data transferred is Hernandez et al.'s (arXiv 2102.01293).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyro
import torch
from pyro.distributions import InverseGamma, Normal
from torch import Tensor

__all__ = ["LawDraws", "LawRuns", "law_losses", "law_model"]

LEVEL_SD, SLOPE_SD, POWER_SD, OPEN_SD = 3.0, 0.5, 0.3, 0.7  # of a target about the shared means
# Shared: mean and standard deviation of the means, in the order of the docstring.
SLOPE, POWER, OPEN = (math.log(0.4), 0.7), (-1.7, 0.5), (math.log(0.2), 1.0)
NOISE, NOISE_DEGREES = (math.log(0.25), 0.35), 4.0
LEAST_TRANSFER = 0.01  # added to the measured, which may be 0
NOT_MEASURED = 0.2
REFERENCE = 1.25  # n_0, in equal shares of the longest run: what others are worth comes on top


def law_losses(level: Tensor, slope: Tensor, power: Tensor, ratio: Tensor) -> Tensor:
    """Returns ``E + S ((n / n_0)^-g - 1) / g``, in the unit of E; all broadcast.

    Args:
        level: ``E``.
        slope: ``S > 0``.
        power: ``g > 0``.
        ratio: ``n / n_0 > 0``.
    """
    return level + slope * torch.expm1(-power * ratio.log()) / power


@dataclass(frozen=True)
class LawRuns:
    """Runs in the law's own units; `of` makes and checks them.

    Attributes:
        amounts: ``(w / length)^rho / n_0`` ``(R, K)``.
        losses: ``(R, T)``, of mean 0 a target, in `unit`.
        own: 1 at a target's own domain, else 0, ``(T, K)``.
        transfer: ``S_tk^rho``, 0 at its own domain, ``(T, K)``.
        centre: What a target's losses had as mean ``(T,)``, nats per token.
        unit: Nats per token.
        length: Tokens of the longest run.
        rho: In (0, 1].
    """

    amounts: Tensor
    losses: Tensor
    own: Tensor
    transfer: Tensor
    centre: Tensor
    unit: Tensor
    length: float
    rho: float

    @classmethod
    def of(
        cls,
        tokens: Tensor,
        losses: Tensor,
        transfer: Tensor | None = None,
        own: Tensor | Sequence[int] | None = None,
        rho: float = 0.9,
    ) -> LawRuns:
        """Checks and scales runs; for the arguments and the errors see `fit_law`."""
        tokens, losses = torch.as_tensor(tokens).double(), torch.as_tensor(losses).double()
        if tokens.dim() != 2 or losses.dim() != 2 or len(tokens) != len(losses):
            shapes = f"{tuple(tokens.shape)} and {tuple(losses.shape)}"
            raise ValueError(f"Expected tokens (R, K) and losses (R, T), actual {shapes}")
        if len(tokens) < 2:
            raise ValueError(f"Expected two readings of runs or more, actual {len(tokens)}")
        if not losses.isfinite().all():
            bad = int((~losses.isfinite()).sum())
            raise ValueError(f"Expected finite losses, actual {bad} NaN or infinite")
        if not (tokens.isfinite().all() and (tokens >= 0).all() and (tokens.sum(1) > 0).all()):
            raise ValueError(
                "Expected finite tokens >= 0, some in every run, actual least "
                f"{float(tokens.min()):g}, least sum {float(tokens.sum(1).min()):g}"
            )
        deviation = losses.std(0, unbiased=False)
        if not (deviation > 1e-9 * losses.abs().amax(0)).all():
            bad = int((deviation <= 1e-9 * losses.abs().amax(0)).nonzero()[0])
            raise ValueError(
                f"Expected losses that vary over the runs, actual constant: target {bad}"
            )
        if not 0 < rho <= 1:
            raise ValueError(f"Expected rho in (0, 1], actual {rho}")
        of_own = own_domains(own, losses.shape[1], tokens.shape[1])
        length = float(tokens.sum(1).max())
        unit = deviation.median()
        return cls(
            amounts=(tokens / length) ** rho * (tokens.shape[1] / REFERENCE) ** rho,
            losses=(losses - losses.mean(0)) / unit,
            own=of_own,
            transfer=scaled_transfer(transfer, of_own) ** rho * (1 - of_own),
            centre=losses.mean(0),
            unit=unit,
            length=length,
            rho=rho,
        )

    def amounts_of(self, tokens: Tensor) -> Tensor:
        """Returns what `amounts` are of other runs' tokens, ``(..., K)``."""
        count = tokens.shape[-1]
        return (tokens.double() / self.length * count / REFERENCE) ** self.rho


def own_domains(own: Tensor | Sequence[int] | None, targets: int, domains: int) -> Tensor:
    """Returns 1 at each target's own domain, else 0, ``(T, K)``."""
    if own is None:
        own = torch.arange(targets) if targets == domains else torch.full((targets,), -1)
    own = torch.as_tensor(own)
    if own.shape != (targets,) or not ((own >= -1) & (own < domains)).all():
        raise ValueError(
            f"Expected {targets} own domains in [-1, {domains - 1}], actual {own.tolist()}"
        )
    return (own[:, None] == torch.arange(domains)).double()


def scaled_transfer(transfer: Tensor | None, own: Tensor) -> Tensor:
    """Returns ``S = max(c_tk, 0) / c_tt`` and a little; the same everywhere if not measured."""
    if transfer is None:
        return torch.full_like(own, NOT_MEASURED)
    cross = torch.as_tensor(transfer).double()
    if cross.shape != own.shape or not cross.isfinite().all():
        raise ValueError(
            f"Expected finite transfer (T, K) = {tuple(own.shape)}, actual {tuple(cross.shape)}"
        )
    # A target that is no domain is compared with the domain that is worth most for it.
    at_own = torch.where(own.sum(1) > 0, (cross * own).sum(1), cross.amax(1))
    if not (at_own > 0).all():
        bad = int((at_own <= 0).nonzero()[0])
        raise ValueError(f"Expected c_tt > 0, actual {float(at_own[bad]):g} at target {bad}")
    return cross.clamp(min=0) / at_own[:, None] + LEAST_TRANSFER


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

    means = [shared(*given) for given in (("m_S", *SLOPE), ("m_g", *POWER), ("m", *OPEN))]
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

    def __getitem__(self, chosen: Tensor | slice) -> LawDraws:
        """Returns some of the draws."""
        names = ["level", "slope", "power", "openness", "noise"]
        names += ["transfer"] if self.transfer.dim() == 3 else []
        return replace(self, **{name: getattr(self, name)[chosen] for name in names})
