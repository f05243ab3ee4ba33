"""ByDoRe beside the other methods: a search within a budget, alone or with trial runs after it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bydore_pyro.baselines import Fit, Problem, train_mixtures, with_intervals
from bydore_pyro.core import shorter_step, shorter_step_draws
from bydore_pyro.runs.options import Options
from bydore_pyro.runs.results import Found, reached
from bydore_pyro.runs.run import search_in
from bydore_pyro.search import MatchingSearch

__all__ = ["bydore_steps", "fit_bydore", "fit_bydore_trials"]

LENGTHS = (1.0, 0.5, 0.25)  # of a step that is tried, as shares of the match's
SEARCH_SHARE = 0.55  # of the budget is for the search where trials are paid from it too
DIGITS = 9  # of weights that are tried: processes that share the proxies must agree on them
# Draws of the result, multiples of 4 for as many chains; of many domains fewer, because each costs
# an optimum (13 domains: 0.001 s, 128: 0.02 s, 512: 0.4 s; in effective shares ten times that).
MANY, DRAWS, DRAWS_OF_MANY = 128, 1000, 200


def bydore_steps(problem: Problem, options: Options) -> int:
    """Returns how many steps of the search the budget allows, at least 2.

    Raises:
        DataError: When it does not reach for one.
    """
    search = options.search
    if search.evidence == "matching":
        return _matching_steps(problem, options, "bydore")
    measured = search.signal_sequences * min(len(problem.names), search.signal_domains)
    # A Jacobian-vector product costs about three forward passes; a finite difference takes two.
    passes = 3 if search.hypergradient == "forward_mode" else 2
    update = (search.validation_batch + passes * measured / 3) / search.batch_sequences
    step = 1 + update / search.update_every  # in training steps
    return max(2, problem.steps_for("bydore", step, -step * problem.evaluation_steps()))


def _matching_steps(problem: Problem, options: Options, name: str, part: float = 1.0) -> int:
    """The options' steps, or as many as this part of the budget allows beside the measurements."""
    search, domains = options.search, len(problem.names)
    sequences = domains * search.sequences_of_round(domains) + options.run.validation_sequences
    checked = 2 / 3 * domains * search.check_sequences  # two forward passes
    measured = (search.rounds * sequences + checked) / search.batch_sequences
    share = search.train_share
    other = measured - share * problem.evaluation_steps()  # no proxy of a search is evaluated
    most = problem.steps_for(name, share / part, other / part)
    return max(search.rounds, math.ceil(search.rounds / share), min(search.steps, most))


def fit_bydore(problem: Problem, options: Options, folder: Path) -> Fit:
    """Searches the posterior, within the budget; the run stays in `folder` and is continued.

    Raises:
        DataError: When the budget does not reach.
        NonFiniteError: See `bydore_pyro.search.search.search_step`.
    """
    return _searched(problem, options, folder, bydore_steps(problem, options))[0]


def _searched(problem: Problem, options: Options, folder: Path, steps: int) -> tuple[Fit, Found]:
    """Runs a search of so many steps in a folder, or goes on with it, and charges the problem."""
    warmup = min(options.search.guide_warmup, steps - 1)
    search = dataclasses.replace(options.search, steps=steps, guide_warmup=warmup)
    run = dataclasses.replace(options.run, out=str(folder), tokens=None)
    varied = dataclasses.replace(options, search=search, run=run)
    found = search_in(varied, problem.corpus, folder, "bydore")
    problem.cost.add(found.state.proxy.cost.report()["parts"])
    means = np.stack([record.mean for record in found.state.records])
    details = {"steps": steps, **reached(found.state)}
    return Fit(mixture=found.mixture, trajectory=means, details=details), found


def fit_bydore_trials(problem: Problem, options: Options, folder: Path) -> Fit:
    """Searches by matching, and tries steps of three lengths: a proxy is trained on each mixture.

    Which length is best is not in the gradients; see `bydore_pyro.core.shorter_step`. The mixture
    whose proxy has the lowest loss on the target is returned, with draws that take its length as
    known.

    Raises:
        DataError: When the budget does not reach, or see `Problem.text_for`.
        NonFiniteError: When a loss is NaN or infinite.
        ValueError: When the evidence is linear.
    """
    if options.search.evidence != "matching":
        raise ValueError("Expected --evidence matching with bydore_trials, found linear")
    search_steps = _matching_steps(problem, options, "bydore_trials", SEARCH_SHARE)
    runs = len(LENGTHS) / (1 - SEARCH_SHARE)
    steps = min(problem.steps, problem.steps_for("bydore_trials", runs))
    problem.text_for(steps)  # refused before the search, not after it
    searched, found = _searched(problem, options, folder, search_steps)
    assert isinstance(found.state, MatchingSearch)  # as `init_search` makes of that evidence
    rounds, matching = found.state.measured, found.state.matching
    effective = found.lengths[0].run.effective if found.lengths else None
    free = [
        problem.mixture(shorter_step(matching, length, effective).numpy().round(DIGITS))
        for length in LENGTHS
    ]
    most = problem.most
    mixtures = free if most is None else [mixture.capped(most) for mixture in free]
    rows = np.array([mixture.weights for mixture in mixtures])
    trials = train_mixtures(problem, rows, steps, "bydore: trials")
    losses = [trial.target_loss(problem.target) for trial in trials]
    tried = [
        {"length": length, "weights": mixture.as_dict(), "loss": loss}
        for length, mixture, loss in zip(LENGTHS, mixtures, losses, strict=True)
    ]
    best = int(np.argmin(losses))
    draws = None
    if matching.scale > 0:  # otherwise nothing is known, and the weights are uniform
        count = DRAWS if len(problem.names) <= MANY else DRAWS_OF_MANY
        evidence = (matching, rounds, LENGTHS[best], effective)
        draws = shorter_step_draws(*evidence, draws=count, seed=problem.seed).numpy()
    mixture = with_intervals(free[best], draws)
    if most is not None:
        mixture = mixture.capped(most)
    notes = (*searched.mixture.notes, _note(steps, losses))
    mixture = dataclasses.replace(mixture, notes=notes)
    details = {**searched.details, "trial_steps": steps, "trials": tried}
    return dataclasses.replace(searched, mixture=mixture, details=details, draws=draws)


def _note(steps: int, losses: Sequence[float]) -> str:
    """Returns what the trials found, in words."""
    told = ", ".join(f"{rho:g}: {loss:.3f}" for rho, loss in zip(LENGTHS, losses, strict=True))
    return (
        f"The weights were chosen by trial runs of {steps} steps. Their losses on the target, in "
        f"nats per token, by the step's length as a share of the match's: {told}."
    )
