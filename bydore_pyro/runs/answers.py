"""The answers of a search: for fresh text, or for runs of the lengths of `--target_tokens`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from bydore_pyro.analysis import mixture_of, posterior_of
from bydore_pyro.mixture import PROXY_CONSTANT, Mixture
from bydore_pyro.runs.inputs import largest_weights
from bydore_pyro.runs.options import Options
from bydore_pyro.runs.record import GuideRecord, LengthRecord
from bydore_pyro.runs.trials import TrialPlan, Trials, for_run
from bydore_pyro.search import MatchingSearch, RunLength, SearchState, run_of_length

if TYPE_CHECKING:
    import arviz

__all__ = ["Answer", "answers_of", "guide_record", "length_record"]


@dataclass(frozen=True)
class Answer:
    """A mixture and its posterior, None where there is none; for a run of one length, or for fresh
    text, where `run` is None."""

    run: RunLength | None
    mixture: Mixture
    posterior: arviz.InferenceData | None


def answers_of(
    state: SearchState, options: Options, plan: TrialPlan | None
) -> tuple[list[Answer], Trials | None]:
    """Returns what a search finds for every length that is asked for, in their order, and its
    trials. These are made for the first; the length of the step that they find is for all.

    Raises:
        Interrupted, NonFiniteError: See `TrialPlan.tried`.
    """
    runs: list[RunLength | None] = [None]
    if isinstance(state, MatchingSearch) and options.run.target_tokens:
        constant = options.run.repetition_constant
        runs = [run_of_length(state.domains, n, constant) for n in options.run.target_tokens]
    trials, posterior = None, None
    if isinstance(state, MatchingSearch) or state.config.learner == "bayesian":
        with state.proxy.cost.part("guide"):
            posterior = posterior_of(state)
        if plan is not None and isinstance(state, MatchingSearch):
            trials = plan.tried(state.matching, posterior, runs[0], state.proxy.cost)
    return [_answer(state, options, posterior, run, trials) for run in runs], trials


def _answer(
    state: SearchState,
    options: Options,
    posterior: arviz.InferenceData | None,
    run: RunLength | None,
    trials: Trials | None,
) -> Answer:
    corpus = state.domains.corpus
    if posterior is not None and isinstance(state, MatchingSearch):
        with state.proxy.cost.part("guide"):
            posterior = for_run(posterior, state.matching, run, trials)
    mixture = mixture_of(
        state, posterior, tokenizer=corpus.tokenizer_sha256, data_sha256=corpus.sha256
    )
    weights = torch.tensor(mixture.weights, dtype=torch.float64)
    notes = [_note(run)] if run is not None and run.repeats(weights) else []
    notes += [] if trials is None else [trials.note()]
    mixture = dataclasses.replace(mixture, notes=(*mixture.notes, *notes))
    most = largest_weights(options, state.domains, None if run is None else run.tokens)
    return Answer(run, mixture if most is None else mixture.capped(most), posterior)


def _note(run: RunLength) -> str:
    told = (
        f"The weights are for a run of {run.tokens:,.0f} tokens, in which text that is read again "
        f"teaches less, by a repetition constant of {run.repetition_constant:g}"
    )
    if run.repetition_constant == PROXY_CONSTANT:
        told += ", a small proxy's; for a model of billions of parameters it is about 15"
    return f"{told}."


def length_record(
    run: RunLength, found: Answer, state: SearchState, epochs: dict[str, float]
) -> LengthRecord:
    """Returns the weights for a run of one length, and how often it reads each domain."""
    mixture = found.mixture
    free = torch.tensor(mixture.free_weights or mixture.weights, dtype=torch.float64)
    unexplained = None
    if isinstance(state, MatchingSearch):
        matching = state.matching
        unexplained = matching.unexplained_by(matching.scale * run.effective(free))
    low, high = zip(*mixture.hdi, strict=True) if mixture.hdi is not None else ((), ())
    return LengthRecord(
        tokens=run.tokens,
        weights=mixture.as_dict(),
        low=dict(zip(mixture.names, low, strict=False)),
        high=dict(zip(mixture.names, high, strict=False)),
        epochs=epochs,
        unexplained=unexplained,
        guide_fit=GuideRecord() if found.posterior is None else guide_record(found.posterior),
    )


def guide_record(posterior: arviz.InferenceData) -> GuideRecord:
    """Returns what the draws of a search by matching tell of their guide."""
    noted = posterior["posterior"].attrs
    return GuideRecord(
        khat=float(noted["khat"]),
        effective_draws=float(noted["effective_draws"]),
        draws=int(noted["weighed_draws"]),
        corrected=bool(noted["corrected"]),
    )
