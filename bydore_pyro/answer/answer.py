"""An answer: a pure function of evidence, runs and a question. No file, no model, no clock.

::

    rounds of evidence --match--> Matching --draw_posterior--> Posterior    what targets are made of
    readings of runs, posteriors of targets --forecast_of--> Forecast       what mixtures will lose
    Matching, Posterior, Question, TriedSteps, Forecast --answer_of--> Answer

A target that the domains cover, or a task whose responses were measured, gets the mixture whose
forecast is best. Of other targets, what they are made of says too little of their loss: trial runs
choose among that mixture and the match's steps; without them the match's whole step is taken.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from bydore_pyro import core
from bydore_pyro.answer.best import Best, best_of
from bydore_pyro.answer.draws import mixture_of_draws, mixture_within, raised, sums_of_draws
from bydore_pyro.answer.forecast import Forecast
from bydore_pyro.answer.outlook import Outlook, outlook_of
from bydore_pyro.answer.question import Question, TargetRun
from bydore_pyro.answer.steps import LAW, SEED, TriedSteps
from bydore_pyro.errors import DataError
from bydore_pyro.mixture import Mixture, Sums

if TYPE_CHECKING:
    import arviz
    import xarray

# Draws of the result that are pushed to a shorter step. Of many domains fewer, because each costs
# an optimum (13 domains: 0.001 s, 128: 0.02 s, 512: 0.4 s; in effective shares ten times that).
MOST_DRAWS, MANY, DRAWS_OF_MANY = 1000, 128, 200
# Share of a target's gradient that the domains may leave unexplained if its composition is to say
# what its loss will be. Covered targets left .04 to .23, withheld ones .54 to .81.
COVERED = 0.4
# Share from which on the weights are little more than a guess. Of responses to branches that a
# composition is not fitted to, it is also where the composition says nothing of losses: 22 tasks
# left .20 to .55, but for two of .75 and one of .99; plants left .00 to .11.
HARDLY = 0.7
PRIOR_DRAWS = 1000
# Of what an answer holds by domain, for ArviZ.
DIMENSIONS = {
    **dict.fromkeys(("w", "composition", "beta", "linear"), ("domain",)),
    "precision": ("domain", "other_domain"),
}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Weights to train on, with what they rest on.

    Attributes:
        mixture: The weights, with intervals, within the caps of the question.
        names: The domains that `sites` are of.
        sites: Draws by site, ``(4, D, ...)``: ``w`` to train on; ``s`` the scale (by linear
            evidence ``beta``); unless ``w`` is the match's, its `length` and the `composition`.
        sums: Intervals of sums of the weights.
        matching: The evidence; None by linear evidence.
        posterior: Of the composition; None by linear evidence.
        tried: Trial runs, None where there were none.
        forecast: What mixtures will lose; None where too few runs were read.
        outlook: The same of these weights beside others.
    """

    mixture: Mixture
    names: tuple[str, ...]
    sites: Mapping[str, Tensor]
    sums: Sums = field(default_factory=Sums)
    matching: core.Matching | None = None
    posterior: core.Posterior | None = None
    tried: TriedSteps | None = None
    forecast: Forecast | None = None
    outlook: Outlook | None = None

    @property
    def draws(self) -> Tensor:
        """Draws of the weights ``(D, K)``."""
        return self.sites["w"].flatten(0, 1)

    @property
    def evidence(self) -> tuple[core.Matching, core.Posterior]:
        """The evidence and its posterior.

        Raises:
            ValueError: When it comes from linear evidence.
        """
        if self.matching is None or self.posterior is None:
            raise ValueError("Expected an answer by gradient matching, actual one without evidence")
        return self.matching, self.posterior

    def to_inference_data(self) -> arviz.InferenceData | xarray.DataTree:
        """Returns the answer as ArviZ reads it, with the domains as coordinates.

        `posterior` holds the draws by site. Of exact draws a chain is a group of short ones, one
        behind the other. All of a group begin at one place, so `arviz.rhat` shows whether the
        groups have forgotten it. Other draws, and ``w`` of the law, are independent. Its attributes
        say whether the draws are the posterior's (`settled`, `nested_rhat`), and how well a guide
        stands in for it (`khat`, `effective_draws`, `width`).

        Of an answer by matching, `prior` holds draws of the composition and the scale, and
        `constant_data` the evidence, `linear` and `precision`.

        Raises:
            DataError: When ArviZ is not installed.
        """
        groups: dict[str, Mapping[str, Tensor]] = {"posterior": self.sites}
        attributes: dict[str, float] = {}
        if self.matching is not None and self.posterior is not None:
            composition = "composition" if "composition" in self.sites else "w"
            weights, scale = core.draw_prior(self.matching, PRIOR_DRAWS)
            groups["prior"] = {composition: weights[None], "s": scale[None]}
            evidence = {"linear": self.matching.linear, "precision": self.matching.precision}
            groups["constant_data"] = evidence
            convergence, fit = self.posterior.convergence, self.posterior.fit
            rhat = math.nan if convergence.rhat is None else convergence.rhat
            attributes = {"settled": int(convergence.settled), "nested_rhat": rhat}
            if fit is not None:
                attributes |= {"khat": fit.khat, "effective_draws": fit.effective_draws}
                attributes |= {} if fit.width is None else {"width": fit.width}
        return core.as_inference_data(
            groups,
            coords={"domain": self.names, "other_domain": self.names},
            dims=DIMENSIONS,
            attributes=attributes,
        )


def answer_of(
    found: core.Matching,
    drawn: core.Posterior,
    question: Question,
    tried: TriedSteps | None = None,
    forecast: Forecast | None = None,
) -> Answer:
    """Returns the weights to train on.

    Each draw is of one of the ways to come to weights: of the step whose length is drawn, by the
    trials' probabilities, or of the mixture that is best under a draw of the forecast.

    Args:
        found: The evidence of the rounds.
        drawn: Its posterior.
        question: What the weights are for.
        tried: Trial runs.
        forecast: What mixtures will lose.

    Raises:
        DataError: When the caps of the question leave no mixture, or it asks for another objective
            than the mean and nothing is forecast.
        ValueError: When no mixture meets its bounds under the forecast.
    """
    ways = {1.0: 1.0}
    if tried is not None:
        ways = {one.length: one.probability for one in tried.tried}
    elif by_law(found, question, forecast):
        ways = {LAW: 1.0}
    decided = "law" if ways.keys() == {LAW} else "match" if tried is None else "trials"
    best = None if forecast is None else best_of(forecast, question)
    sites, centre = _for_run(found, drawn, question, ways, best if LAW in ways else None)
    draws = sites["w"].flatten(0, 1)
    mixture = mixture_of_draws(draws, centre, question)
    sums = sums_of_draws(draws, centre, question)
    run = question.run
    notes = [*question.notes]
    notes += [run.note()] if run is not None and run.repeats(centre) else []
    notes += [] if tried is None else [tried.note()]
    notes += [] if drawn.convergence.settled else [_not_settled(drawn)]
    notes += [] if forecast is None else forecast.notes()
    if found.unexplained >= HARDLY:
        notes.insert(
            0,
            "The domains explain hardly anything of the target: "
            f"{100 * found.unexplained:.0f} % of it is left. The weights are little more "
            "than a guess; text like the target's is missing.",
        )
        mixture, sums = dataclasses.replace(mixture, hdi=None, standard_deviation=None), Sums()
    mixture = dataclasses.replace(mixture, notes=(*mixture.notes, *notes))
    mixture = mixture_within(mixture, question, free=decided != "law")
    outlook = None
    if forecast is not None:
        weights = torch.tensor(mixture.weights).double()
        outlook = outlook_of(forecast, question, weights, best, decided)
    return Answer(
        mixture=mixture.unpooled(question.pools),
        names=question.names,
        sites=sites,
        sums=sums,
        matching=found,
        posterior=drawn,
        tried=tried,
        forecast=forecast,
        outlook=outlook,
    )


def by_law(found: core.Matching, question: Question, forecast: Forecast | None) -> bool:
    """Whether a forecast decides without trial runs: the domains cover the target or are the
    targets themselves, or something else is asked than the mean. It decides for tasks whose
    responses were measured, too: trials have nothing better to choose from
    (`docs/results.md`, "Decisions on tasks").

    Raises:
        DataError: When something else is asked and nothing is forecast.
    """
    objective = question.goal.objective
    asking = "--guard" if question.guards else f"the objective {objective}"
    if forecast is None:
        if objective != "mean":
            raise DataError(
                "Expected losses that were read twice or more, on the text of all domains, for "
                f"{asking}, found none"
            )
        return False
    known = not forecast.scatter.any() or (found.left_out is not None and forecast.of_tasks)
    return known or found.unexplained <= covered_up_to(found) or objective != "mean"


def covered_up_to(found: core.Matching) -> float:
    """Returns the share in [0, 1] of a target that may stay unexplained, if its composition is to
    say what its loss will be: by its responses, where they were measured, or its gradient."""
    return COVERED if found.left_out is None else HARDLY


def candidate(
    found: core.Matching, drawn: core.Posterior, length: float, run: TargetRun | None = None
) -> Tensor:
    """Returns the weights ``(K,)`` of a step of one length, a share of the match's in (0, 1]."""
    centre = core.central_weights(drawn.weights)[None], drawn.scale.median()[None]
    return core.run_mixture(found, *centre, length, None if run is None else run.effective)[0]


def _not_settled(drawn: core.Posterior) -> str:
    """Returns in words what is not known of what the target is made of, and what is."""
    sign = "SVI has not settled"
    if drawn.convergence.rhat is not None:
        sign = f"nested R-hat {drawn.convergence.rhat:.3f}"
    elif drawn.fit is not None:
        sign = f"PSIS k-hat {drawn.fit.khat:.2f}"
    return (
        f"The target's small shares are not settled ({sign}): intervals of weights hold too "
        "little. Sums of branches are nearer the truth, and so are the losses that are forecast."
    )


def _for_run(
    found: core.Matching,
    drawn: core.Posterior,
    question: Question,
    ways: Mapping[float, float],
    best: Best | None,
) -> tuple[dict[str, Tensor], Tensor]:
    """Returns draws by site, and their centre ``(K,)``: the mean of the ways' centres, by their
    probabilities. The loss is convex in the weights, so it does no worse than a choice among them
    by chance."""
    run = question.run
    composition, scale = (
        values.unflatten(0, (core.GROUPS, -1)) for values in (drawn.weights, drawn.scale)
    )
    if run is not None and best is None and not run.repeats(drawn.weights):
        run = None
    match_alone = ways.keys() == {1.0} and not found.residual.any()
    if run is None and match_alone and question.goal.at_least is None:
        return {"w": composition, "s": scale}, core.central_weights(drawn.weights)
    most = MOST_DRAWS if composition.shape[-1] <= MANY else DRAWS_OF_MANY
    composition, scale = (values[:, : most // core.GROUPS] for values in (composition, scale))
    weights, scales = composition.flatten(0, 1).clone(), scale.flatten()
    lengths, chances = np.array([*ways]), np.array([*ways.values()])
    rng = np.random.default_rng(SEED)
    chosen = rng.choice(len(lengths), size=len(weights), p=chances)
    effective = None if run is None else run.effective
    centre = torch.zeros(weights.shape[1]).double()
    for place, length in enumerate(lengths.tolist()):
        own = torch.from_numpy(chosen == place)
        if not own.any():
            continue
        if length == LAW and best is not None:
            some = rng.integers(len(best.draws), size=int(own.sum()))
            weights[own] = best.draws[some]
            own_centre = best.decision.weights
        else:
            pushed = core.run_mixture(found, weights[own], scales[own], length, effective)
            weights[own] = raised(pushed, question.bounds[0])
            own_centre = core.central_weights(weights[own])
        centre += own.double().mean() * own_centre
    sites = {
        "w": weights.view_as(composition),
        "s": scale,
        "composition": composition,
        "length": torch.from_numpy(lengths[chosen]).view_as(scale),
    }
    return sites, centre
