"""What a page needs to forecast mixtures by itself: a question, an answer, a forecast's numbers.

The page repeats `Forecast.expected` and `Forecast.difference` on these numbers: the law of the
domains' losses, what the targets are made of, and draws of all that no run has shown, which are
made here. They are float32; of many domains some draws are left out, evenly (`MOST_NUMBERS`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from bydore_pyro import files
from bydore_pyro.answer.forecast import Forecast
from bydore_pyro.answer.question import Question
from bydore_pyro.mixture import by_name

# Of a page: four bytes each, a third more as text, so that it can be sent by mail.
MOST_NUMBERS = 4_500_000


@dataclass(frozen=True, kw_only=True)
class ForecastRecord:
    """A forecast without its numbers.

    Attributes:
        importance: Of each target, by name; of sum 1.
        units: Of the losses of each target, by name.
        worst: Whether the worst target counts, not their mean.
        together: The name of what is asked to be small: of all targets, or of the one that is no
            guard.
        length: Of the runs that are forecast, in tokens.
        reference: ``n_0`` of the law, in tokens.
        rho: Of the law.
        trained: Mixtures of the runs whose levels are known, over all domains that they trained
            on; the K stand first.
        draws: How many of the forecast's draws there are.
        left_out: How many of them are not among the numbers.
    """

    importance: Mapping[str, files.Number]
    units: Mapping[str, str]
    worst: bool = False
    together: str
    length: files.Number
    reference: files.Number
    rho: files.Number
    trained: tuple[tuple[files.Number, ...], ...]
    draws: int
    left_out: int = 0


@dataclass(frozen=True, kw_only=True)
class Explorer:
    """A mixture to start from, others beside it, bounds, sizes of text, and a law if there is one.

    Attributes:
        weights: Of the answer, by domain; these K domains in this order.
        references: Mixtures that others are compared with, by name and domain.
        baseline: The reference that was asked for.
        at_least: The smallest weights, of those domains that have one.
        at_most: The largest weights, likewise.
        sizes: Tokens of the domains' text; of those where they are known.
        tokens: Length of the run that the answer is for; None if it is not known.
        pools: What names stand for several domains, with their shares.
        reason: Why there is no law; "" if there is one.
        law: The forecast of the law; None without one.
    """

    weights: Mapping[str, files.Number]
    references: Mapping[str, Mapping[str, files.Number]] = field(default_factory=dict)
    baseline: str = ""
    at_least: Mapping[str, files.Number] = field(default_factory=dict)
    at_most: Mapping[str, files.Number] = field(default_factory=dict)
    sizes: Mapping[str, files.Number] = field(default_factory=dict)
    tokens: files.Number | None = None
    pools: Mapping[str, Mapping[str, files.Number]] = field(default_factory=dict)
    reason: str = ""
    law: ForecastRecord | None = None


def explorer_of(
    question: Question,
    weights: Tensor,
    forecast: Forecast | None,
    *,
    sizes: Mapping[str, float] | None = None,
    tokens: float | None = None,
    reason: str = "",
) -> tuple[Explorer, dict[str, Tensor]]:
    """Returns what a page needs, and the numbers of its law, none without one.

    The numbers are float32, of S draws and Q targets::

        level, slope, power, openness    (S, K)
        transfer        (S, K, K), or (K, K)
        compositions    (S, Q, K), or (Q, K)
        levels          (S, Q)
        factor          (S, Q), of a loss's way from `start`
        start           (S, Q)
        scattered       (S, Q), times the root of the distance from the nearest run
        off             (S, Q), of one run from the law
        off_both        (S, 2, Q), of each of two
        seen            (2, K), the least and the largest effective tokens of the runs

    Args:
        question: Names the domains, bounds and references.
        weights: Of the answer ``(K,)``.
        forecast: None where there is none.
        sizes: Tokens of the domains' text, as far as they are known.
        tokens: Length of the run that the answer is for.
        reason: Why there is no forecast.
    """
    names = question.names
    law, numbers = None, dict[str, Tensor]()
    if forecast is not None:
        worst = question.goal.objective == "worst"
        law, numbers = _numbers_of(replace(forecast, worst=worst))
    page = Explorer(
        weights=by_name(names, weights),
        references={name: by_name(names, one) for name, one in question.references.items()},
        baseline=question.baseline,
        at_least={name: share for name, share in question.least.items() if share > 0},
        at_most={name: share for name, share in (question.most or {}).items() if share < 1},
        sizes=sizes or {},
        tokens=tokens,
        pools=question.pools,
        reason="" if law else reason,
        law=law,
    )
    return page, numbers


def _numbers_of(forecast: Forecast) -> tuple[ForecastRecord, dict[str, Tensor]]:
    """Returns a forecast's law and its numbers."""
    law, made = forecast.law, forecast.compositions
    one, two = (forecast.off(mixtures) @ made.mT for mixtures in (1, 2))  # (S, 1, Q), (S, 2, Q)
    by_draw = {
        "level": law.level,
        "slope": law.slope,
        "power": law.power,
        "openness": law.openness,
        "levels": forecast.levels,
        "factor": forecast.factors,
        "start": forecast.start(),
        "scattered": forecast.scatter,
        "off": one[:, 0],
        "off_both": two,
    }
    runs = forecast.draws.runs.amounts_of(forecast.known.tokens)
    seen = forecast.draws.ratio(runs).mean(0)[:, : len(forecast.names)]  # (R, K)
    shared = {"seen": torch.stack([seen.amin(0), seen.amax(0)])}
    for name, values in (("transfer", law.transfer), ("compositions", made)):
        (by_draw if values.dim() == 3 else shared)[name] = values
    draws = len(law.level)
    each = sum(values[0].numel() for values in by_draw.values())
    room = MOST_NUMBERS - sum(values.numel() for values in shared.values())
    kept = min(draws, max(1, room // each))
    some = torch.linspace(0, draws - 1, kept).round().long()
    numbers = {name: values[some] for name, values in by_draw.items()} | shared
    return (
        ForecastRecord(
            importance=forecast.importance,
            units=forecast.units,
            worst=forecast.worst,
            together=forecast.together or next(n for n, s in forecast.importance.items() if s),
            length=forecast.length,
            reference=law.runs.reference,
            rho=law.runs.rho,
            trained=tuple(map(tuple, forecast.trained().tolist())),
            draws=draws,
            left_out=draws - kept,
        ),
        {name: values.float().contiguous() for name, values in numbers.items()},
    )
