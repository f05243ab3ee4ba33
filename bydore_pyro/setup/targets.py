"""Targets as a run has read them: what they are made of, and the forecast of mixtures' losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bydore_pyro import answer, core, data, measure, proxy
from bydore_pyro.law import PER_TOKEN
from bydore_pyro.mixture import by_name
from bydore_pyro.setup.options import Options
from bydore_pyro.setup.record import TargetRecord
from bydore_pyro.targets import Told

TOLD = "told"  # in a store's index: what is told of each task
FEWEST = 2  # readings that a law is fitted to


@dataclass(frozen=True)
class Targets:
    """The targets of a run, together and each by itself.

    Attributes:
        names: The domains.
        rounds: Of all of them together.
        gradients: The evidence of the rounds.
        found: The same with the responses to branches, where there are any.
        drawn: Its posterior.
        compositions: Draws of what each is made of ``(D, K)``, by name.
        scales: Draws of what a nat of the domains is worth in the unit of each ``(D,)``, by name.
        importance: Of each, of sum 1.
        losses: Of each, where the search was read ``(R, Q)``, in its unit; None where the targets
            are the domains, whose losses all runs are read on.
        unexplained: Share of each that no mixture explains (`Matching.unexplained`).
        texts: Of each, by name.
        told: Of those that are tasks, the fields of `Told`, by name.
        measured: The domains, and behind them others that the runs trained on too.
        transfer: Cross products of all these domains' gradients.
    """

    names: tuple[str, ...]
    rounds: Sequence[measure.TargetMeasurement]
    gradients: core.Matching
    found: core.Matching
    drawn: core.Posterior
    compositions: Mapping[str, Tensor]
    scales: Mapping[str, Tensor]
    importance: Mapping[str, float]
    losses: Tensor | None
    unexplained: Sequence[float]
    texts: Mapping[str, data.Sequences]
    told: Mapping[str, Mapping[str, Any]]
    measured: Sequence[str]
    transfer: Tensor

    def forecast(self, readings: Sequence[measure.Reading], seed: int) -> answer.Forecast | None:
        """Fits the law to readings of the domains, the search's first; None where `forecasts` finds
        them too few: of a checkpoint, or of a domain without held-out text.

        What the runs have read of domains that are not to be trained on counts too.
        """
        if not forecasts(self.names, readings):
            return None
        trained = [n for n in self.measured if all(n in one.tokens for one in readings)]
        read = [n for n in trained if forecasts([n], readings)]
        trained = [*read, *(name for name in trained if name not in read)]
        places = [self.measured.index(name) for name in trained]
        of_targets = self.losses
        if of_targets is None:
            of_targets = torch.tensor([[r.losses[n] for n in self.importance] for r in readings])
        runs = answer.RunLosses(
            tokens=torch.tensor([[one.tokens[n] for n in trained] for one in readings]).double(),
            losses=torch.tensor([[one.losses[n] for n in read] for one in readings]).double(),
            transfer=self.transfer[places[: len(read)]][:, places],
            of_targets=of_targets.double(),
        )
        given = zip(self.importance.items(), self.unexplained, strict=True)
        targets = {
            name: answer.Target(
                importance=share,
                compositions=self.scales[name][:, None] * self.compositions[name],
                unexplained=unexplained,
                unit=self.texts[name].unit,
                per_nat=self.texts[name].per_nat,
            )
            for (name, share), unexplained in given
        }
        return answer.forecast_of(self.names, runs, targets, seed)

    def records(self) -> dict[str, TargetRecord]:
        """Returns what each target is made of; nothing where every domain is a target."""
        if self.losses is None:
            return {}
        found = {}
        rows = zip(
            self.compositions.items(), self.unexplained, self.losses[-1].tolist(), strict=True
        )
        for (name, draws), unexplained, loss in rows:
            low, high = answer.interval_of_draws(draws.numpy()).T
            text, told = self.texts[name], self.told.get(name)
            found[name] = TargetRecord(
                importance=self.importance[name],
                composition=by_name(self.names, draws.mean(0)),
                low=by_name(self.names, low),
                high=by_name(self.names, high),
                unexplained=unexplained,
                loss=loss,
                unit=text.unit,
                nats_per_token=None if text.questions is not None else loss / text.per_nat,
                task=None if told is None else Told(**told),
            )
        return found


def targets_are_domains(domains: data.Domains) -> bool:
    """Whether the targets are all domains that are trained on, and nothing else.

    Then each is made of itself alone and its loss is the domain's: nothing is to be inferred.
    """
    return domains.validation_shares.keys() == {*domains.names}


def targets_of(
    sketch: proxy.GradientSketch,
    measured: Sequence[measure.Measurement],
    domains: data.Domains,
    seed: int,
    branches: Sequence[measure.Branch] = (),
    *,
    order: Sequence[str] | None = None,
    anew: bool = False,
    with_guide: bool = False,
) -> Targets:
    """Reads the targets at the parameters of each measurement, and draws from the posterior of what
    they are made of, together and each by itself.

    The model keeps the parameters of the last measurement.

    Args:
        sketch: Of the model's gradients.
        measured: Of the domains.
        domains: Of the question.
        seed: Of the draws.
        branches: Of the last measurement.
        order: Names of the measured domains, where some of them are not to be trained on.
        anew: See `read_target`.
        with_guide: See `draw_posterior`.
    """
    from tqdm import tqdm

    alike, cost = targets_are_domains(domains), sketch.model.cost
    order = list(order or domains.names)
    others = [name for name in order if name not in domains.names]
    places = [order.index(name) for name in (*domains.names, *others)]
    whole = []
    for one in tqdm(measured, unit="round", desc="targets", delay=measure.DELAY, leave=None):
        begun = branches if one is measured[-1] else ()
        measure.set_parameters(sketch.model, one)
        with cost.part("gradients"):
            read = measure.read_target(sketch, one, domains, begun, each=not alike, anew=anew)
        whole.append(read.restricted(places))
    rounds = [one.restricted(range(domains.num_domains)) for one in whole]
    names, losses = tuple(domains.validation_shares), None
    with cost.part("guide"):
        gradients = core.match([one.evidence for one in rounds])
        found = composition(rounds)
        transfer = core.match([one.evidence for one in whole]).gram if others else gradients.gram
        drawn = core.draw_posterior(found, with_guide=with_guide, seed=seed)
        posteriors, unexplained = {names[0]: (found, drawn)}, [found.unexplained]
        if alike:
            own = torch.eye(len(names)).double()
            compositions = {name: own[domains.names.index(name)][None] for name in names}
            scales = {name: torch.ones(1).double() for name in names}
            unexplained = [0.0] * len(names)
        else:
            parts = [one.parts or {names[0]: one} for one in rounds]
            losses = torch.tensor([[of[name].loss for name in names] for of in parts]).double()
            if len(names) > 1:
                alone = {name: composition([of[name] for of in parts]) for name in names}
                posteriors = {
                    name: (one, core.draw_posterior(one, seed=seed)) for name, one in alone.items()
                }
                unexplained = [one.unexplained for one in alone.values()]
            compositions = {name: one.weights for name, (_, one) in posteriors.items()}
            scales = {n: _scale(domains.targets[n], *one) for n, one in posteriors.items()}
    return Targets(
        names=domains.names,
        rounds=rounds,
        gradients=gradients,
        found=found,
        drawn=drawn,
        compositions=compositions,
        scales=scales,
        importance=domains.validation_shares,
        losses=losses,
        unexplained=unexplained,
        texts=domains.targets,
        told=domains.corpus.index.get(TOLD, {}),
        measured=(*domains.names, *others),
        transfer=transfer,
    )


def _scale(text: data.Sequences, found: core.Matching, drawn: core.Posterior) -> Tensor:
    """Returns draws of what a nat of the domains is worth in a text's unit ``(D,)``.

    Of plain text it is a nat. Of a task its responses say so; without any it is what the loss falls
    by where that of every token of its answers falls by a nat.
    """
    if text.unit != PER_TOKEN and found.left_out is not None:
        return drawn.scale
    return torch.full_like(drawn.scale, text.per_nat)


def composition(rounds: Sequence[measure.TargetMeasurement]) -> core.Matching:
    """Returns what rounds say together: their gradients, and the responses of the last round, if
    branches began there."""
    return core.composition_of([one.evidence for one in rounds], rounds[-1].responses)


def search_readings(
    options: Options, measured: Sequence[measure.Measurement]
) -> list[measure.Reading]:
    """Returns the readings of a search on its way: runs on equal weights."""
    readings = []
    for one in measured:
        each = one.step * options.batch_tokens / len(one.samples)
        tokens = dict.fromkeys(one.samples, each)
        of = f"the search after {one.step} steps"
        readings.append(measure.Reading(of=of, tokens=tokens, losses=one.held_out))
    return readings


def forecasts(names: Sequence[str], readings: Sequence[measure.Reading]) -> bool:
    """Whether a law can be fitted to readings: two or more, on the text of all these domains, by
    runs that trained on all of it, with losses that moved."""
    known = all(set(names) <= one.tokens.keys() & one.losses.keys() for one in readings)
    if len(readings) < FEWEST or not known:
        return False
    return all(len({one.losses[name] for one in readings}) > 1 for name in names)
