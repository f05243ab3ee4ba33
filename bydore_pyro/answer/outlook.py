"""An outlook: the losses to expect of an answer beside other mixtures', and what bounds cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from bydore_pyro import files
from bydore_pyro.answer.best import Best, decided_on, few
from bydore_pyro.answer.forecast import Curve, Difference, Expected, Forecast, Noise, ends
from bydore_pyro.answer.noise import Needed, needed, noise_of
from bydore_pyro.answer.question import Question, TargetRun
from bydore_pyro.answer.saved import Saved, compute_saved
from bydore_pyro.law import (
    PER_TOKEN,
    best_mixture,
    freedom,
    frontier,
    loss_differences,
    losses_of,
    objectives,
)

ANSWER = "answer"  # or, where another mixture is judged, that one
MOST_CURVES, MANY = 24, 64  # domains: of more there are no curves, no freedom of weights
MORE_TEXT = 0.1
TOUCHES = 1e-9  # how near weights are to a bound on which they lie
# For prices, which are expectations; those of `none_worse` take seconds.
FEW_DRAWS, OF_A_CHANCE = 200, 100
BINDS, MOST_BOUNDS = 5e-5, 8  # nats per token for 0.01 of weight; the dearest are priced
FRONTIER = {2: 11, 3: 6}  # points on an edge, by targets
RISE = 0.01  # nats per token, by which `freedom` lets the loss rise


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A bound of a weight that holds the answer back, and what it costs, in the targets' unit.

    Attributes:
        domain: Whose weight it bounds; "" of all bounds together.
        side: "at least" or "at most".
        weight: The bound.
        costs: Of the best mixture the objective with it less that without it; the interval is that
            of draws of the law, not of single runs.
        of_more: By how much the objective rises for 0.01 more of a lower bound, or falls for 0.01
            more of an upper one; never by more than that one costs.
    """

    domain: str
    side: str = ""
    weight: files.Number | None = None
    costs: Expected
    of_more: files.Number | None = None


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What losses runs of the measured length are expected to have.

    Attributes:
        tokens: Length of the runs that were read and are forecast.
        asked: Length of the run that the answer is for.
        objective: See `bydore_pyro.law.Goal`.
        decided: What chose the weights: "law"; "trials" or "match" where the domains do not cover
            the target, so that the law hardly knows its loss; "" where they are given.
        importance: Of the targets, of sum 1.
        units: Of the losses of the targets, by name. Those of domains are nats per token.
        expected: Of the answer and of the references, by text; texts are the targets, every domain
            as ``domain NAME``, and the targets together.
        differences: Of the answer less each reference, by text.
        noise: Standard deviation of one run's loss over seeds, by target.
        baseline: The reference that matters most; "" where none does.
        needed: What would decide the targets that are not decided beside the baseline, by target.
        saved: How many times as long each reference trains for the same expected loss, by target.
        freedom: The least and the largest weight of each domain, the others in proportion, with
            which the objective rises by 0.01 at most, in the targets' unit.
        bounds: What those cost that hold the answer back, the eight dearest first; of several, all
            of them together last.
        frontier: Of two or three targets: the losses, at the length of the runs that were read, of
            mixtures that are best for some importances of them, target by target, as a column each.
        curves: Of at most 24 domains: the law and the runs.
        worth_of_text: Where a run reads text again: the fall of the objective, in the targets'
            unit, with a tenth more text of each domain.
        tolerance: That `none_worse` allows, in the targets' unit.
        none_worse: Probability that no guarded target is worse than under the baseline by more than
            the tolerance; None with another objective.
        guards: The same of each guard, by name: targets of no importance that may not get worse.
        probability: That `none_worse` asks for.
    """

    tokens: files.Number = 0.0
    asked: files.Number = 0.0
    objective: str = "mean"
    decided: str = ""
    importance: Mapping[str, files.Number] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    expected: Mapping[str, Mapping[str, Expected]] = field(default_factory=dict)
    differences: Mapping[str, Mapping[str, Difference]] = field(default_factory=dict)
    noise: Mapping[str, Noise] = field(default_factory=dict)
    baseline: str = ""
    needed: Mapping[str, Needed] = field(default_factory=dict)
    saved: Mapping[str, Mapping[str, Saved]] = field(default_factory=dict)
    freedom: Mapping[str, tuple[files.Number, files.Number]] = field(default_factory=dict)
    bounds: tuple[Bound, ...] = ()
    frontier: Mapping[str, tuple[files.Number, ...]] = field(default_factory=dict)
    curves: Mapping[str, Curve] = field(default_factory=dict)
    worth_of_text: Mapping[str, files.Number] = field(default_factory=dict)
    tolerance: files.Number | None = None
    none_worse: files.Number | None = None
    guards: Mapping[str, files.Number] = field(default_factory=dict)
    probability: files.Number | None = None

    @property
    def together(self) -> str:
        """The text whose loss is asked to be small: the target, or what several lose together."""
        several = sum(share > 0 for share in self.importance.values()) > 1
        texts = [*next(iter(self.expected.values()), {})]
        return texts[-1 if several else 0] if texts else ""

    def unit(self, text: str) -> str:
        """Returns what losses on a text are counted in; of the targets together all units."""
        if text.startswith("domain ") and text not in self.units:
            return PER_TOKEN
        own = [self.units[text]] if text in self.units else [*self.units.values()]
        return " and ".join(dict.fromkeys(own)) or PER_TOKEN


def outlook_of(
    forecast: Forecast,
    question: Question,
    weights: Tensor,
    best: Best | None = None,
    decided: str = "",
) -> Outlook:
    """Returns the outlook of weights ``(K,)``.

    Args:
        forecast: What mixtures will lose.
        question: What was asked.
        weights: Of the answer, or of a given mixture.
        best: The best mixture under the forecast, whose bounds have prices; None of a given
            mixture, which has none.
        decided: See `Outlook`.
    """
    names, asked, run = question.names, question.goal, question.run
    forecast = replace(forecast, worst=asked.objective == "worst")
    mixtures, noise = {ANSWER: weights, **question.references}, noise_of(forecast)
    base = question.references.get(question.baseline)
    found = Outlook(
        tokens=forecast.length,
        asked=forecast.length if run is None else run.tokens,
        objective=asked.objective,
        decided=decided,
        importance=forecast.importance,
        units=forecast.units,
        expected={name: forecast.expected(one) for name, one in mixtures.items()},
        differences={
            name: forecast.difference(weights, one) for name, one in question.references.items()
        },
        noise=noise,
        baseline=question.baseline,
        needed={} if base is None else needed(forecast, weights, base, noise),
        saved=compute_saved(forecast, weights, question.references),
    )
    if len(names) <= MOST_CURVES:
        found = replace(found, curves=forecast.curves())
    if best is None:
        return found
    decision = best.decision
    free = {}
    law, goal = few(best.law, best.goal, FEW_DRAWS)
    if len(names) <= MANY:
        rows = freedom(law, goal, weights, RISE).tolist()
        least, most = (bound.tolist() for bound in question.bounds)
        rows_of = zip(names, rows, least, most, strict=True)
        free = {name: (max(low, a), min(high, b)) for name, (low, high), a, b in rows_of}
    kept = asked.objective == "none_worse"
    line = {}
    asked_for = forecast.shares > 0
    if int(asked_for.sum()) in FRONTIER:
        given = few(forecast.law, replace(best.goal, effective=None), FEW_DRAWS)
        mixtures_on_it, _ = frontier(*given, FRONTIER[int(asked_for.sum())])
        losses = losses_of(forecast.law, mixtures_on_it, best.goal.composition).mean(0)
        columns = (losses + forecast.levels.mean(0))[:, asked_for].T.tolist()
        names_of_it = [name for name, share in forecast.importance.items() if share > 0]
        line = dict(zip(names_of_it, map(tuple, columns), strict=True))
    worth = {}
    if run is not None and run.repeats(weights):
        worth = dict(zip(names, _worth_of_text(best, run, weights), strict=True))
    return replace(
        found,
        worth_of_text=worth,
        frontier=line,
        freedom=free,
        none_worse=decision.probability if kept else None,
        guards=_guards(best, forecast, weights) if kept and question.guards else {},
        tolerance=asked.tolerance if kept else None,
        probability=asked.probability if kept else None,
        bounds=_bounds(best, question, None if decided in ("", "law") else weights),
    )


def _guards(best: Best, forecast: Forecast, weights: Tensor) -> dict[str, float]:
    """Returns the probability that each target of no importance is not worse than under the
    baseline by more than the tolerance, at the length of the run that is asked for."""
    goal = best.goal
    base = goal.baseline_of(len(weights))
    apart = loss_differences(best.law, weights, base, goal.composition, goal.effective)  # (S, Q)
    held = (apart <= goal.tolerance).double().mean(0).tolist()
    rows = zip(forecast.importance.items(), held, strict=True)
    return {name: probability for (name, share), probability in rows if not share}


def _bounds(best: Best, question: Question, chosen: Tensor | None) -> tuple[Bound, ...]:
    """Returns what bounds cost the mixture that is best by the law: it is found again without them.

    Without a bound it is no worse, because what the bound allows is still allowed.

    Args:
        best: With the bounds.
        question: Names them.
        chosen: The weights, where something else than the law chose them; bounds on which they lie
            are priced too.
    """
    decision, (at_least, at_most) = best.decision, question.bounds
    found: list[tuple[float, int, float, str]] = []
    for side, bounds, prices in (
        ("at least", at_least, decision.price_at_least),
        ("at most", at_most, decision.price_at_most),
    ):
        asked = bounds > 0 if side == "at least" else bounds < 1
        holds = RISE * prices > BINDS
        if chosen is not None:
            holds |= (chosen - bounds).abs() < TOUCHES
        rows = zip((RISE * prices).tolist(), range(len(bounds)), bounds.tolist(), strict=True)
        found += [(*row, side) for row in rows if asked[row[1]] and holds[row[1]]]
    if not found:
        return ()
    (law, goal), with_all = decided_on(best.law, best.goal), decision.weights
    if goal.objective == "none_worse":
        some, of_some = few(law, goal, OF_A_CHANCE)
        with suppress(ValueError):  # of few draws too few may be served, by chance
            with_all = best_mixture(some, of_some).weights
            law, goal = some, of_some

    def costs(gone: Sequence[tuple[float, int, float, str]]) -> Expected:
        least, most = at_least.clone(), at_most.clone()
        for _, place, _, side in gone:
            (least if side == "at least" else most)[place] = 0.0 if side == "at least" else 1.0
        other = best_mixture(law, replace(goal, at_least=least, at_most=most)).weights
        aim = objectives(law, goal, torch.stack([with_all, other]))  # (S, 2)
        rise = aim[:, 0] - aim[:, 1]
        if float(rise.mean()) <= 0:  # the two are the same, as far as they were solved
            return Expected(loss=0.0, low=0.0, high=0.0)
        low, high = ends(rise).tolist()
        return Expected(loss=float(rise.mean()), low=low, high=high)

    priced = []
    for row in sorted(found, reverse=True)[:MOST_BOUNDS]:
        price, k, weight, side = row
        cost = costs([row])
        if side == "at most":  # by convexity no more than all of it; near 0 prices are steep
            price = min(price, cost.loss)
        one = Bound(domain=question.names[k], side=side, weight=weight, costs=cost)
        priced.append(replace(one, of_more=price))
    if len(found) > 1:
        priced.append(Bound(domain="", costs=costs(found)))
    return tuple(priced)


def _worth_of_text(best: Best, run: TargetRun, weights: Tensor) -> list[float]:
    """Returns by how much the objective falls with a tenth more text of each domain ``(K,)``, the
    weights unchanged; where they are the best, to move them too changes it only in second order.
    """
    richer = replace(run, rates=run.rates / (1 + MORE_TEXT))
    now, more = run.effective(weights), richer.effective(weights)  # each domain by itself
    shares = torch.cat([now[None], now + (more - now).diag_embed()])  # (1 + K, K)
    aim = objectives(best.law, replace(best.goal, effective=None), shares).mean(0)
    return (aim[0] - aim[1:]).tolist()
