"""ByDoRe beside the other methods: a search within a budget, with its trial runs."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np

from bydore_pyro.baselines import Fit, Problem
from bydore_pyro.runs.answers import TrialPlan
from bydore_pyro.runs.metrics import learning_of, matching_record
from bydore_pyro.runs.options import Options
from bydore_pyro.runs.record import MethodDetails, TrialRecord
from bydore_pyro.runs.run import search_in

__all__ = ["bydore_steps", "fit_bydore"]

SEARCH_SHARE = 0.55  # of the budget is for the search where trials are paid from it too


def bydore_steps(problem: Problem, options: Options) -> int:
    """Returns how many steps of the search the budget allows, at least 2.

    Raises:
        DataError: When it does not reach for one.
    """
    search = options.search
    if search.evidence == "matching":
        return _matching_steps(problem, options, SEARCH_SHARE if search.has_trials else 1.0)
    measured = search.signal_sequences * min(len(problem.names), search.signal_domains)
    update = search.validation_batch + 2 / 3 * measured  # a finite difference: two forward passes
    step = 1 + update / search.batch_sequences  # in training steps
    return max(2, problem.steps_for("bydore", step, -step * problem.evaluation_steps()))


def _matching_steps(problem: Problem, options: Options, part: float) -> int:
    """The options' steps, or as many as this part of the budget allows beside the measurements."""
    search, domains = options.search, len(problem.names)
    sequences = domains * search.sequences_of_round(domains) + options.run.validation_sequences
    checked = 2 / 3 * domains * search.check_sequences  # two forward passes
    measured = (search.rounds * sequences + checked) / search.batch_sequences
    share = search.train_share
    other = measured - share * problem.evaluation_steps()  # no proxy of a search is evaluated
    most = problem.steps_for("bydore", share / part, other / part)
    return max(search.rounds, math.ceil(search.rounds / share), min(search.steps, most))


def fit_bydore(problem: Problem, options: Options, folder: Path) -> Fit:
    """Searches the posterior within the budget, with the trials that the options ask for.

    The run stays in `folder` and is continued.

    Raises:
        DataError: When the budget does not reach, or see `Problem.text_for`.
        NonFiniteError: See `bydore_pyro.search.state.SearchState.step`.
    """
    plan = None
    if options.search.has_trials:
        runs = options.search.trials / (1 - SEARCH_SHARE)
        plan = TrialPlan(
            problem, options.search.trials, min(problem.steps, problem.steps_for("bydore", runs))
        )
        problem.text_for(plan.steps)  # refused before the search, not after it
    steps = bydore_steps(problem, options)
    warmup = min(options.search.guide_warmup, steps - 1)
    search = dataclasses.replace(options.search, steps=steps, guide_warmup=warmup)
    run = dataclasses.replace(options.run, out=str(folder), tokens=None)
    varied = dataclasses.replace(options, search=search, run=run)
    found = search_in(varied, problem.corpus, folder, "bydore", plan)
    problem.cost.add(found.state.proxy.cost.report()["parts"])
    means = np.stack([record.mean for record in found.state.records])
    details = MethodDetails(
        steps=steps,
        learning=learning_of(found.state),
        matching=matching_record(found.state),
        trials=TrialRecord() if found.trials is None else found.trials.record(),
    )
    draws = None
    if found.posterior is not None:
        draws = found.posterior["posterior"]["w"].values.reshape(-1, len(problem.names))
    return Fit(mixture=found.mixture, trajectory=means, details=details, draws=draws)
