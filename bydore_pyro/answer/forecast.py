"""A forecast: what runs say of the losses of any mixture, on every domain and every target.

::

    readings of runs, transfer  --fit_law-->  law of every domain's loss
    law, targets' composition, targets' own losses at the runs  -->  Forecast

A target is made of domains, in amounts ``u`` (draws of the match's posterior), so its loss is
``sum_k u_k L_k(w)`` and a level that its own loss at the end of the search shows. Amounts of text
sum to 1. Those of a task do not: its loss is in bits per byte, and its responses say by how much it
falls. A level is the loss of one run, so it is as unsure as one run's noise. What the domains do
not explain of a target, they do not explain of its loss: away from the runs the level scatters. How
far a task's loss moves as its amounts say is unsure too: its way from that of the search is
multiplied by a factor about 1, of which runs of other mixtures that were read on the task say more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import pad

from bydore_pyro import files
from bydore_pyro.errors import listed
from bydore_pyro.law import PER_TOKEN, LawDraws, law_losses, losses_of

MOST_DRAWS, FEWEST_DRAWS, PER_DOMAIN = 1000, 200, 20_000  # of the law; of K domains 20,000 / K
LEVEL = 0.94  # of the intervals
POINTS = 25  # of a curve
ALL, WORST = "all targets", "worst target"  # their mean by importance, where there are several
# How far a run lies from the law differs by domain: of its variance so much is shared. On 56 runs
# with the losses of 13 and 12 domains 0 was too narrow for targets that are made of several; with
# this their intervals held 91 to 100 % (`experiments/law.py`).
TOGETHER = 0.15
MOST_TOLD = 4  # targets in a note


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The loss that one run on a mixture will have: its mean and 94 % interval, in the text's
    unit (`Target.unit`)."""

    loss: files.Number
    low: files.Number
    high: files.Number


@dataclass(frozen=True, kw_only=True)
class Difference(Expected):
    """The loss that one run on a mixture will have less that of one run on another: its mean and
    94 % interval, in the text's unit; and the probability that it is below 0."""

    better: files.Number


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The law of a domain's loss, and the runs that it rests on.

    Attributes:
        at: Effective tokens, as multiples of the domain's in a run on equal weights, ascending.
        loss: The law's loss there, nats per token.
        low: Of the 94 % interval.
        high: Likewise.
        runs: Effective tokens of the runs, by the law's mean.
        losses: Of the runs.
    """

    at: tuple[files.Number, ...]
    loss: tuple[files.Number, ...]
    low: tuple[files.Number, ...]
    high: tuple[files.Number, ...]
    runs: tuple[files.Number, ...]
    losses: tuple[files.Number, ...]


@dataclass(frozen=True, kw_only=True)
class RunLosses:
    """Losses of R runs, or moments of runs, on K domains and others that they trained on too.

    Attributes:
        tokens: That they trained on ``(R, K + others)``; the K domains stand first.
        losses: On held-out text of the first T >= K of these ``(R, T)``, nats per token.
        transfer: Cross products of their gradients ``(T, K + others)``.
        of_targets: On the targets, of the first R' <= R runs ``(R', Q)``.
        of_checks: By how much more runs lost on the targets than the last of the first R'
            ``(R, Q)``, at its length. NaN where one was not read on a target; None where none was.
    """

    tokens: Tensor
    losses: Tensor
    transfer: Tensor
    of_targets: Tensor
    of_checks: Tensor | None = None


@dataclass(frozen=True, kw_only=True)
class Noise:
    """How far runs of one mixture lie apart: the standard deviation of a run's loss over seeds, in
    the text's unit; and how many runs measured it, 0 where it is that of the law's noise."""

    deviation: files.Number
    runs: int = 0


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The losses of any mixture of K domains, on Q targets, at the length of the runs.

    Attributes:
        names: The domains.
        importance: Of each target, by name; of sum 1. Guards have none.
        units: Of the losses of each target, by name.
        draws: S draws of the law, of all domains that the runs trained on; the K stand first.
        compositions: What the targets are made of ``(S, Q, K)``; ``(Q, K)`` where it is known.
        levels: Of the targets, above what they are made of ``(S, Q)``, in their units.
        scatter: Of the level of each target, at a mixture that shares no text with the runs
            ``(S, Q)``.
        factors: By which each target moves farther than its composition says ``(S, Q)``.
        known: What the law was fitted to.
        documents: Of each target, by name, where that is known.
        noise: Of the targets' losses over seeds, by name, where it was measured.
        worst: Whether the worst target counts, not their mean.
    """

    names: tuple[str, ...]
    importance: Mapping[str, float]
    units: Mapping[str, str]
    draws: LawDraws
    compositions: Tensor
    levels: Tensor
    scatter: Tensor
    factors: Tensor
    known: RunLosses
    documents: Mapping[str, int] = field(default_factory=dict)
    noise: Mapping[str, Noise] = field(default_factory=dict)
    worst: bool = False

    @property
    def length(self) -> float:
        """Of the runs that are forecast, in tokens."""
        return self.draws.runs.length

    @property
    def law(self) -> LawDraws:
        """The law of the K domains, for runs that train on no others."""
        return self.draws.among(len(self.names))

    def losses(self, mixtures: Tensor, times: float = 1.0) -> Tensor:
        """Returns draws of expected losses of mixtures ``(M, K)``, on targets and then domains
        ``(S, M, Q + K)``; last, where there are several targets, on all or the worst of them.

        Args:
            mixtures: Weights.
            times: Length of the runs, in that of the runs that were read.
        """
        return self._together(*self._apart(mixtures, times))

    def measured(self, mixtures: Tensor) -> Tensor:
        """Returns draws of the losses that single runs on M mixtures will have, as `losses`.

        Each run lies off the law by an amount of its own. Its draws come with both signs and, of
        two runs, both ways round: means are those of `losses`, but for the worst target's. That is
        the worst of targets with their noise, so its mean is higher. ``(4 S, M, texts)``.
        """
        targets, domains = self._apart(mixtures)
        off = self.off(len(mixtures))
        return torch.cat(
            [
                self._together(targets + one @ self.compositions.mT, domains + one)
                for one in (off, -off, off.flip(1), -off.flip(1))
            ]
        )

    def off(self, mixtures: int) -> Tensor:
        """Returns draws of how far a run on each of M mixtures lies off the law on the domains,
        ``(S, M, K)``."""
        own = self.law.noise[:, None]  # (S, 1, K)
        return off_the_law(own.expand(-1, mixtures, -1), seed=2)

    def _apart(self, mixtures: Tensor, times: float = 1.0) -> tuple[Tensor, Tensor]:
        """Returns draws of expected losses on targets ``(S, M, Q)`` and domains ``(S, M, K)``."""
        domains = losses_of(self.law, times * mixtures)
        targets = domains @ self.compositions.mT + self.levels[:, None]
        if self.moves:
            start = self.start()[:, None]
            targets = start + self.factors[:, None] * (targets - start)
        whole = pad(mixtures, (0, self.known.tokens.shape[1] - len(self.names)))
        away = away_from(whole, self.known)
        return targets + self.scatter[:, None] * away.sqrt()[:, None], domains

    @property
    def of_tasks(self) -> bool:
        """Whether all targets that count are tasks."""
        return all(
            self.units[name] != PER_TOKEN for name, share in self.importance.items() if share > 0
        )

    @property
    def moves(self) -> bool:
        """Whether some factor is not 1."""
        return bool((self.factors != 1).any())

    def start(self) -> Tensor:
        """Returns draws of the targets' losses at the run whose levels are known ``(S, Q)``."""
        read = losses_at_level(self.draws, self.known)[..., : len(self.names)]
        return (read @ self.compositions.mT)[:, 0] + self.levels

    def trained(self) -> Tensor:
        """Returns the mixtures of the runs whose levels are known, over all domains that they
        trained on; the K stand first."""
        return _trained(self.known)

    def _together(self, targets: Tensor, domains: Tensor) -> Tensor:
        """Returns losses on all texts ``(S, M, texts)``."""
        found = [targets, domains]
        if self.together is not None:
            asked = targets[..., self.shares > 0]
            both = asked.amax(-1) if self.worst else targets @ self.shares
            found.append(both[..., None])
        return torch.cat(found, -1)

    def notes(self) -> list[str]:
        """Returns in words which targets the checks know to move otherwise than their compositions
        say; nothing without any."""
        if self.known.of_checks is None or not self.moves:
            return []
        read = (~self.known.of_checks.isnan()).any(0)
        low, high = ends(self.factors)
        found = [
            f"'{name}' {mean:.2f} ({a:.2f} to {b:.2f})"
            for name, known, mean, a, b in zip(
                *(self.importance, read.tolist(), self.factors.mean(0).tolist()),
                *(low.tolist(), high.tolist()),
                strict=True,
            )
            if known and not a <= 1 <= b
        ]
        if not found:
            return []
        return [
            "By the runs of checks, losses move so many times as far as compositions say: "
            f"{listed(found, MOST_TOLD)}."
        ]

    @property
    def shares(self) -> Tensor:
        """The importance of each target ``(Q,)``."""
        return torch.tensor(list(self.importance.values())).double()

    @property
    def together(self) -> str | None:
        """The name of what several targets lose together; None where one alone counts."""
        if sum(share > 0 for share in self.importance.values()) < 2:
            return None
        return WORST if self.worst else ALL

    @property
    def of_domains(self) -> tuple[str, ...]:
        """The names of the domains' texts."""
        return tuple(f"domain {name}" for name in self.names)

    @property
    def texts(self) -> tuple[str, ...]:
        """The names of what `losses` are of."""
        together = [] if self.together is None else [self.together]
        return (*self.importance, *self.of_domains, *together)

    def expected(self, mixture: Tensor) -> dict[str, Expected]:
        """Returns the losses of one run on a mixture ``(K,)``, by text."""
        losses = self.measured(mixture[None])[:, 0]
        rows = zip(self.texts, losses.mean(0).tolist(), *ends(losses).tolist(), strict=True)
        return {text: Expected(loss=m, low=a, high=b) for text, m, a, b in rows}

    def difference(self, mixture: Tensor, other: Tensor) -> dict[str, Difference]:
        """Returns by how much the losses of two runs differ, by text.

        What the law does not know of both is paired. Each run lies off the law by itself.
        """
        both = self.measured(torch.stack([mixture, other]))
        apart = both[:, 0] - both[:, 1]
        better = (apart < 0).double().mean(0).tolist()
        rows = zip(self.texts, apart.mean(0).tolist(), *ends(apart).tolist(), better, strict=True)
        return {t: Difference(loss=m, low=a, high=b, better=p) for t, m, a, b, p in rows}

    def curves(self) -> dict[str, Curve]:
        """Returns the law of each domain's loss, over the range of the runs and twice beyond."""
        draws, known = self.draws, self.known
        length, all_domains = known.tokens.sum(1).max(), known.tokens.shape[1]
        equal = (length / all_domains).expand(1, all_domains)
        unit = draws.ratio(draws.runs.amounts_of(equal)).mean((0, 1))  # (K,)
        ratio = draws.ratio(draws.runs.amounts_of(known.tokens)).mean(0)  # (R, K)
        steps = torch.linspace(0, 1, POINTS).double()[:, None]
        low, high = ratio.amin(0) / 2, 2 * ratio.amax(0)
        grid = low * (high / low) ** steps  # (P, K)
        given = (draws.level[:, None], draws.slope[:, None], draws.power[:, None])
        losses = law_losses(*given, grid)  # (S, P, K)
        columns = (grid / unit, losses.mean(0), *ends(losses), ratio / unit, known.losses)
        return {
            name: Curve(
                **{
                    part: tuple(values[:, k].tolist())
                    for part, values in zip(Curve.__dataclass_fields__, columns, strict=True)
                }
            )
            for k, name in enumerate(self.names)
        }


def away_from(mixtures: Tensor, known: RunLosses) -> Tensor:
    """Returns how far mixtures ``(M, K + others)`` are from all runs whose level is known, total
    variation ``(M,)``."""
    return (mixtures[:, None] - _trained(known)).abs().sum(-1).amin(1) / 2


def _trained(known: RunLosses) -> Tensor:
    """Returns the mixtures of the runs whose level is known ``(R', K + others)``."""
    tokens = known.tokens[: len(known.of_targets)]
    return tokens / tokens.sum(1, keepdim=True)


def losses_at_level(draws: LawDraws, runs: RunLosses) -> Tensor:
    """Returns draws of the domains' losses at the run whose levels are known ``(S, 1, T)``."""
    last = len(runs.of_targets)
    return draws.losses(runs.tokens[last - 1 : last])


def number_of_draws(domains: int) -> int:
    """Returns how many draws of the law stand for its posterior: fewer of many domains."""
    return max(FEWEST_DRAWS, min(MOST_DRAWS, PER_DOMAIN // domains))


def off_the_law(noise: Tensor, seed: int) -> Tensor:
    """Returns draws of how far single runs lie off the law on K domains, ``(..., K)``.

    Args:
        noise: Its standard deviation on each domain ``(..., K)``, nats per token.
        seed: Of the draws.
    """
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(*noise.shape[:-1], 1 + noise.shape[-1], generator=generator).double()
    shared, single = math.sqrt(TOGETHER), math.sqrt(1 - TOGETHER)
    return noise * (shared * normal[..., :1] + single * normal[..., 1:])


def noise_variance(made: Tensor, sigma: Tensor) -> Tensor:
    """Returns the variance of one run's loss on texts, by the law's noise ``(..., Q)``.

    With ``sigma_k`` the deviation on domain ``k``, of which a part ``t`` of the variance is shared
    by all domains, and a text that is made of amounts ``u`` ::

        s^2 = t (sum_k u_k sigma_k)^2 + (1 - t) sum_k (u_k sigma_k)^2

    Args:
        made: The amounts ``(..., Q, K)``.
        sigma: Nats per token ``(..., 1, K)``.
    """
    each = made * sigma
    return TOGETHER * each.sum(-1).square() + (1 - TOGETHER) * each.square().sum(-1)


def ends(draws: Tensor) -> Tensor:
    """Returns the ends ``(2, ...)`` of the highest-density intervals of draws ``(S, ...)``."""
    ordered = draws.sort(0).values
    inside = int(LEVEL * len(ordered))
    first = (ordered[inside:] - ordered[: len(ordered) - inside]).argmin(0, keepdim=True)
    return torch.cat([ordered.gather(0, first), ordered.gather(0, first + inside)])
