"""Trial runs: proxies trained on the mixtures of steps of several lengths."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from bydore_pyro import core, data, measure, proxy, setup, terminal, trials
from bydore_pyro.answer import (
    FIRST,
    LAW,
    Answer,
    Question,
    TriedSteps,
    answer_of,
    best_of,
    by_law,
    candidate,
    mixture_within,
    raised,
    tried_steps,
)
from bydore_pyro.errors import DataError
from bydore_pyro.mixture import Mixture, by_name

DIGITS = 9  # of weights that are tried: processes that share the proxies must agree on them


def plain_problem(options: setup.Options, domains: data.Domains, runs: Path) -> trials.Problem:
    """Returns the problem that the options of a search pose, without bounds and without a limit of
    cost; its finished proxies lie in the folder `runs`."""
    corpus = domains.corpus
    return trials.Problem(
        corpus=corpus,
        names=domains.names,
        target=domains.validation_shares,
        build=lambda seed: setup.language_model(options, corpus.vocabulary, seed),
        proxy=options.proxy,
        steps=options.search.steps,
        batch_sequences=options.search.batch_sequences,
        sequence_length=options.run.sequence_length,
        validation_sequences=options.run.validation_sequences,
        seed=options.run.seed,
        budget=math.inf,
        runs=runs,
        run_tokens=options.question.target_tokens,
        cluster=options.run.cluster,
    )


def trial_plan(options: setup.Options, domains: data.Domains, runs: Path) -> TrialPlan | None:
    """Returns the trials that the options of a search ask for, None without any. If they would
    leave too little text of a domain (they read text as often as the run of `--target_tokens`
    will), it prints so and returns None."""
    search = options.search
    if options.run.evidence == "linear" or not search.trials:
        return None
    problem = plain_problem(options, domains, runs).read_on_all()
    try:
        problem.text_for(search.trial_steps)
    except DataError as error:
        terminal.tell(f"no trial runs: {error}")
        return None
    return TrialPlan(problem, search.trials, search.trial_steps)


@dataclass(frozen=True)
class TrialPlan:
    """The trials that are to be run, at a constant rate, as the search's own run.

    Attributes:
        problem: Text, proxy and target; finished proxies lie in its folder.
        count: How many, at most; three where the law has no mixture.
        steps: Of each.
    """

    problem: trials.Problem
    count: int
    steps: int

    def tried(
        self,
        found: core.Matching,
        drawn: core.Posterior,
        question: Question,
        cost: proxy.Cost,
        by_law: Tensor | None = None,
    ) -> tuple[TriedSteps, list[measure.Reading]]:
        """Trains the proxies, and charges a counter.

        Args:
            found: The evidence.
            drawn: Its posterior.
            question: What the weights are for.
            cost: The counter.
            by_law: The mixture ``(K,)`` that the law of losses finds best; tried first.

        Returns:
            What was tried, and what each proxy lost on every domain.

        Raises:
            Interrupted: On Ctrl-C or SIGTERM; finished trials are kept.
            NonFiniteError: When a loss is NaN or infinite.
        """
        problem = dataclasses.replace(self.problem, cost=proxy.Cost())
        lengths = (FIRST if by_law is None else (LAW, *FIRST))[: self.count]
        mixtures: list[Mixture] = []
        for length in lengths:
            if length == LAW and by_law is not None:
                weights = by_law
            else:
                weights = candidate(found, drawn, length, question.run)
                weights = raised(weights[None], question.bounds[0])[0]
            mixture = problem.mixture(weights.numpy().round(DIGITS))
            mixtures.append(mixture_within(mixture, question, free=False))
        rows = np.array([mixture.weights for mixture in mixtures])
        done = trials.train_mixtures(problem, rows, self.steps, "trials", decay=False)
        readings = []
        for number, (row, one) in enumerate(zip(rows, done, strict=True), 1):
            kept = one.read_losses(problem.names)
            tokens = by_name(problem.names, self.steps * problem.batch_tokens * row)
            readings.append(measure.Reading(of=f"trial {number}", tokens=tokens, losses=kept))
        cost.add(problem.cost.report()["parts"], "trial_")
        losses = tuple(one.target_loss(problem.target) for one in done)
        weights_of_trials = [mixture.as_dict() for mixture in mixtures]
        return tried_steps(self.steps, lengths, weights_of_trials, losses), readings


def answered(
    question: Question,
    targets: setup.Targets,
    readings: Sequence[measure.Reading],
    plan: TrialPlan | None,
    cost: proxy.Cost,
    tried: TriedSteps | None = None,
    *,
    seed: int,
) -> tuple[Answer, list[measure.Reading]]:
    """Answers a question; by trial runs too, where they pay.

    They do not where the domains cover the targets: then the law's mixture is the answer. What new
    trials lose on every domain joins the readings, and the law is fitted again.

    Args:
        question: What is asked.
        targets: As the run has read them.
        readings: Of the search and of trials that were made before.
        plan: New trials; None without any.
        cost: The counter.
        tried: Trials on these targets that were made before. A plan of more replaces them.
        seed: Of the law's draws.

    Returns:
        The answer, and all readings.

    Raises:
        DataError: See `answer_of`.
    """
    readings = list(readings)
    found, drawn = targets.found, targets.drawn
    with cost.part("law"):
        forecast = targets.forecast(readings, seed)
    if (tried is None and plan is None) or by_law(found, question, forecast):
        tried = None
    elif plan is not None and (tried is None or plan.count > len(tried.tried)):
        with cost.part("law"):
            law = None if forecast is None else best_of(forecast, question).decision.weights
        terminal.tell(f"next: {plan.count} trial runs of {plan.steps} steps each")
        tried, read = plan.tried(found, drawn, question, cost, law)
        if readings:  # else no run tells the targets' losses
            readings += read
            with cost.part("law"):
                forecast = targets.forecast(readings, seed)
    with cost.part("law"):
        return answer_of(found, drawn, question, tried, forecast), readings
