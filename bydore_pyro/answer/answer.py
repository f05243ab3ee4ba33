"""What a search answers for a run: text that is read again, and trial runs of a step's length.

Which length of the step is best is not in the gradients; see `bydore_pyro.core.point`. A proxy is
trained on the mixture for each length, and its loss on the target is evidence of the length.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from bydore_pyro.analysis import mixture_of, mixture_of_draws, posterior_of
from bydore_pyro.core import Matching, central_weights, run_mixture
from bydore_pyro.data import Domains
from bydore_pyro.measure import Problem, train_mixtures
from bydore_pyro.mixture import PROXY_CONSTANT, Mixture, effective_shares
from bydore_pyro.proxy import Cost
from bydore_pyro.runs.domains import consumed_tokens, language_model, largest_weights
from bydore_pyro.runs.options import Options
from bydore_pyro.runs.record import Trial, TrialRecord
from bydore_pyro.search import MatchingSearch, SearchState
from bydore_pyro.utils import DataError, tell

if TYPE_CHECKING:
    import arviz

__all__ = [
    "Answer",
    "RunLength",
    "TrialPlan",
    "Trials",
    "answer_of",
    "composition_of",
    "for_run",
    "mixture_for_run",
    "next_length",
    "plain_problem",
    "run_of",
    "trial_plan",
]

FIRST = (1.0, 0.5, 0.25)  # lengths of a step, as shares of the match's
NOISE = 0.02  # nats: the standard deviation of a fresh proxy's loss, measured
CHOICES, SEED = 100_000, 0  # draws of the best length
DIGITS = 9  # of weights that are tried: processes that share the proxies must agree on them
# Draws of the result that are pushed to a shorter step. Of many domains fewer, because each costs
# an optimum (13 domains: 0.001 s, 128: 0.02 s, 512: 0.4 s; in effective shares ten times that).
MOST_DRAWS, MANY, DRAWS_OF_MANY = 1000, 128, 200


@dataclass(frozen=True, kw_only=True)
class RunLength:
    """A run for which weights are wanted, in which text may run out and be read again.

    Attributes:
        tokens: Of the run.
        repetition_constant: ``R`` of `bydore_pyro.mixture.effective_shares`.
        rates: How often a run of one domain alone would read its text ``(K,)``.
        before: What was read of each domain before, as shares of the run's tokens ``(K,)``.
    """

    tokens: float
    repetition_constant: float
    rates: Tensor
    before: Tensor

    def effective(self, weights: Tensor) -> Tensor:
        """Returns what weights ``(..., K)`` amount to in fresh text."""
        given = self.rates, self.repetition_constant
        return effective_shares(self.before + weights, *given) - effective_shares(
            self.before, *given
        )

    def repeats(self, weights: Tensor) -> bool:
        """Whether a run on weights ``(..., K)`` reads any text twice, or again."""
        again = (self.before + weights) * self.rates > 1
        return bool((again & (weights > 0)).any())

    def note(self) -> str:
        """Returns what the weights are for, in words."""
        told = (
            f"The weights are for a run of {self.tokens:,.0f} tokens, in which text that is read "
            f"again teaches less, by a repetition constant of {self.repetition_constant:g}"
        )
        if self.repetition_constant == PROXY_CONSTANT:
            told += ", a small proxy's; for a model of billions of parameters it is about 15"
        return f"{told}."


def run_of(options: Options, domains: Domains) -> RunLength | None:
    """Returns the run of these domains that `--target_tokens` asks for, None where it does not."""
    tokens = options.run.target_tokens
    if tokens is None:
        return None
    once = domains.most_weights(1.0, tokens)
    rates = torch.tensor([1 / once[name] for name in domains.names], dtype=torch.float64)
    read = [count / tokens for count in consumed_tokens(options, domains).values()]
    return RunLength(
        tokens=tokens,
        repetition_constant=options.run.repetition_constant,
        rates=rates,
        before=torch.tensor(read, dtype=torch.float64),
    )


@dataclass(frozen=True)
class Answer:
    """A finished search and its mixture; the posterior is None where there is none, and so are the
    trials."""

    state: SearchState
    mixture: Mixture
    posterior: arviz.InferenceData | None
    trials: Trials | None = None


def answer_of(state: SearchState, options: Options, plan: TrialPlan | None) -> Answer:
    """Returns what a search finds, with the trials that are planned.

    Raises:
        Interrupted, NonFiniteError: See `TrialPlan.tried`.
    """
    cost, posterior, trials = state.proxy.cost, None, None
    if isinstance(state, MatchingSearch) or state.config.learner == "bayesian":
        with cost.part("guide"):
            posterior = posterior_of(state)
    if posterior is not None and isinstance(state, MatchingSearch):
        found, run = state.matching, run_of(options, state.domains)
        if plan is not None:
            trials = plan.tried(found, posterior, run, cost)
        with cost.part("guide"):
            posterior = for_run(posterior, found, run, trials)
        mixture = mixture_for_run(posterior, options, state.domains, trials)
        return Answer(state, mixture, posterior, trials)
    corpus = state.domains.corpus
    mixture = mixture_of(
        state, posterior, tokenizer=corpus.tokenizer_sha256, data_sha256=corpus.sha256
    )
    most = largest_weights(options, state.domains)
    mixture = mixture if most is None else mixture.capped(most)
    return Answer(state, mixture.unpooled(state.domains.pools), posterior)


def mixture_for_run(
    posterior: arviz.InferenceData, options: Options, domains: Domains, trials: Trials | None
) -> Mixture:
    """Returns the mixture of draws that are for the options' run, within its caps, with notes."""
    corpus, run = domains.corpus, run_of(options, domains)
    mixture = mixture_of_draws(
        posterior,
        tokenizer=corpus.tokenizer_sha256,
        data_sha256=corpus.sha256,
        pools=domains.pools,
    )
    weights = torch.tensor(mixture.weights, dtype=torch.float64)
    notes = [run.note()] if run is not None and run.repeats(weights) else []
    notes += [] if trials is None else [trials.note()]
    mixture = dataclasses.replace(mixture, notes=(*mixture.notes, *notes))
    most = largest_weights(options, domains)
    mixture = mixture if most is None else mixture.capped(most)
    return mixture.unpooled(domains.pools)


def plain_problem(options: Options, domains: Domains, runs: Path) -> Problem:
    """Returns the problem that the options of a search pose, without a limit to what it costs;
    finished proxies lie in a folder."""
    corpus = domains.corpus
    return Problem(
        corpus=corpus,
        names=domains.names,
        target=domains.validation_shares,
        build=lambda seed: language_model(options, corpus.vocabulary, seed),
        proxy=options.proxy,
        steps=options.search.steps,
        batch_sequences=options.search.batch_sequences,
        sequence_length=options.run.sequence_length,
        validation_sequences=options.run.validation_sequences,
        seed=options.run.seed,
        budget=math.inf,
        runs=runs,
        most=largest_weights(options, domains),
        run_tokens=options.run_tokens if options.run.target_tokens else None,
        cluster=options.run.cluster,
    )


def trial_plan(options: Options, domains: Domains, runs: Path) -> TrialPlan | None:
    """Returns the trials that the options of a search ask for, None where there are none, or where
    they would leave too little text of a domain, which is told: proxies read text as often as a run
    of `--target_tokens` will."""
    search = options.search
    if not search.has_trials:
        return None
    problem = plain_problem(options, domains, runs)
    try:
        problem.text_for(search.trial_steps)
    except DataError as error:
        tell(f"no trial runs: {error}")
        return None
    return TrialPlan(problem, search.trials, search.trial_steps)


@dataclass(frozen=True)
class TrialPlan:
    """What trials there are to be.

    Attributes:
        problem: Text, proxy, target and caps; finished proxies lie in its folder.
        count: How many.
        steps: Of each.
    """

    problem: Problem
    count: int
    steps: int

    def tried(
        self,
        matching: Matching,
        posterior: arviz.InferenceData,
        run: RunLength | None,
        cost: Cost,
    ) -> Trials:
        """Trains the proxies for draws of the evidence's posterior, and charges a counter.

        Raises:
            Interrupted: When a signal asked for the end; those that are finished are kept.
            NonFiniteError: When a loss is NaN or infinite.
        """
        problem = dataclasses.replace(self.problem, cost=Cost())
        weights, scale = composition_of(posterior)
        centre = central_weights(weights)[None], scale.median()[None]
        effective = None if run is None else run.effective
        lengths: list[float] = []
        mixtures: list[Mixture] = []
        losses: list[float] = []
        while len(lengths) < self.count:
            new = list(FIRST[: self.count]) if not lengths else [next_length(lengths, losses)]
            for length in new:
                found = run_mixture(matching, *centre, length, effective)[0]
                mixture = problem.mixture(found.numpy().round(DIGITS))
                mixtures.append(mixture if problem.most is None else mixture.capped(problem.most))
            rows = np.array([mixture.weights for mixture in mixtures[len(lengths) :]])
            done = train_mixtures(problem, rows, self.steps, "trials")
            losses += [one.target_loss(problem.target) for one in done]
            lengths += new
        cost.add(problem.cost.report()["parts"], "trial_")
        return Trials(self.steps, tuple(lengths), tuple(mixtures), tuple(losses))


@dataclass(frozen=True)
class Trials:
    """What trials found: lengths of the step, a mixture for each, and its loss.

    Attributes:
        steps: Of each proxy.
        lengths: Shares of the match's step, in (0, 1].
        mixtures: That were trained on.
        losses: On the target, nats per token.
    """

    steps: int
    lengths: tuple[float, ...]
    mixtures: tuple[Mixture, ...]
    losses: tuple[float, ...]

    @cached_property
    def probabilities(self) -> tuple[float, ...]:
        """The probability in [0, 1] that each length is the best, summing to 1.

        Lengths that lead to the same mixture are one choice; the first of them stands for all.
        """
        noise = np.random.default_rng(SEED).standard_normal((CHOICES, len(self.losses)))
        weights = [mixture.weights for mixture in self.mixtures]
        noise = noise[:, [weights.index(own) for own in weights]]
        best = (np.array(self.losses) + NOISE * noise).argmin(1)
        return tuple((np.bincount(best, minlength=len(self.losses)) / CHOICES).tolist())

    def note(self) -> str:
        """Returns what the trials found, in words."""
        rows = zip(self.lengths, self.losses, self.probabilities, strict=True)
        told = ", ".join(f"{rho:g}: {loss:.3f} ({p:.0%})" for rho, loss, p in rows)
        return (
            f"Trial runs of {self.steps} steps weighed the lengths of the step. Their losses on "
            "the target, in nats per token, by the length as a share of the match's, and the "
            f"probability that it is the best: {told}."
        )

    def record(self) -> TrialRecord:
        """Returns what `metrics.json` tells of them."""
        rows = zip(self.lengths, self.losses, self.probabilities, self.mixtures, strict=True)
        tried = [
            Trial(length=rho, loss=loss, probability=p, weights=mixture.as_dict())
            for rho, loss, p, mixture in rows
        ]
        return TrialRecord(steps=self.steps, tried=tuple(tried))


def composition_of(posterior: arviz.InferenceData) -> tuple[Tensor, Tensor]:
    """Returns the weights ``(D, K)`` and the scale ``(D,)`` of all draws of a search."""
    drawn = posterior["posterior"]
    w, s = (drawn[name].values for name in ("w", "s"))
    return torch.from_numpy(w.reshape(-1, w.shape[-1]).copy()), torch.from_numpy(s.ravel().copy())


def for_run(
    posterior: arviz.InferenceData,
    matching: Matching,
    run: RunLength | None,
    trials: Trials | None,
) -> arviz.InferenceData:
    """Returns draws of the mixture to train on, out of draws of what the target is made of.

    Each is of a step whose length is drawn too, by the trials' probabilities; a whole step without
    trials. Where none has to be changed they are the same; otherwise they are a thousand at most,
    beside the `length` of each and the `composition` that it came from.
    """
    if run is not None and not run.repeats(composition_of(posterior)[0]):
        run = None
    if run is None and trials is None and not matching.residual.any():
        return posterior
    sizes = posterior["posterior"].sizes
    most = MOST_DRAWS if sizes["domain"] <= MANY else DRAWS_OF_MANY
    posterior = posterior.sel(draw=slice(0, most // sizes["chain"] - 1))
    weights, scale = composition_of(posterior)
    lengths, chances = np.ones(1), np.ones(1)
    if trials is not None:
        lengths, chances = np.array(trials.lengths), np.array(trials.probabilities)
    chosen = np.random.default_rng(SEED).choice(len(lengths), size=len(weights), p=chances)
    effective = None if run is None else run.effective
    for place, length in enumerate(lengths.tolist()):
        own = torch.from_numpy(chosen == place)
        if own.any():
            weights[own] = run_mixture(matching, weights[own], scale[own], length, effective)
    found = posterior.copy()
    found["posterior"]["composition"] = found["posterior"]["w"]
    shape = found["posterior"]["w"].shape
    found["posterior"]["w"] = found["posterior"]["w"].copy(data=weights.numpy().reshape(shape))
    found["posterior"]["length"] = (("chain", "draw"), lengths[chosen].reshape(shape[:2]))
    return found


def next_length(lengths: list[float], losses: list[float]) -> float:
    """Returns the next length to try, a share of the match's in (0, 1]: between the best and the
    better one beside it, or half of the smallest where that is the best."""
    order = sorted(range(len(lengths)), key=lambda place: lengths[place])
    at = min(range(len(order)), key=lambda place: losses[order[place]])
    if at == 0:
        return lengths[order[0]] / 2
    beside = [place for place in (at - 1, at + 1) if place < len(order)]
    better = min(beside, key=lambda place: losses[order[place]])
    return math.sqrt(lengths[order[at]] * lengths[order[better]])
