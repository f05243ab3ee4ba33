"""The answers of a search: for fresh text, or for runs of the lengths of `--target_tokens`."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bydore_pyro.analysis import mixture_of, posterior_of
from bydore_pyro.mixture import PROXY_CONSTANT, Mixture
from bydore_pyro.runs.inputs import largest_weights
from bydore_pyro.runs.options import Options
from bydore_pyro.runs.trials import TrialPlan, Trials
from bydore_pyro.search import MatchingSearch, RunWeights, SearchState, weights_for_run
from bydore_pyro.utils import tell

if TYPE_CHECKING:
    import arviz

__all__ = ["Answer", "answers_of", "fit_of", "length_metrics"]


@dataclass(frozen=True)
class Answer:
    """A mixture and its posterior, None where there is none; for a run of one length, or for fresh
    text, where `run` is None."""

    run: RunWeights | None
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
    runs: list[RunWeights | None] = []
    cost = state.proxy.cost
    if isinstance(state, MatchingSearch):
        for tokens in options.run.target_tokens or ():
            tell(f"weights for a run of {tokens:,.0f} tokens")
            with cost.part("guide"):
                runs.append(weights_for_run(state, tokens, options.run.repetition_constant))
    runs = runs or [None]
    trials: Trials | None = None
    posteriors: list[Any] = [None for _ in runs]
    if state.config.learner == "bayesian":
        with cost.part("guide"):
            posteriors = [posterior_of(state, run) for run in runs]
        if plan is not None and isinstance(state, MatchingSearch):
            trials = plan.tried(state, posteriors[0], runs[0])
            posteriors = [
                trials.posterior(state, drawn, run)
                for drawn, run in zip(posteriors, runs, strict=True)
            ]
    answers = [
        Answer(run, _mixture(state, options, run, drawn, trials), drawn)
        for run, drawn in zip(runs, posteriors, strict=True)
    ]
    return answers, trials


def _mixture(
    state: SearchState,
    options: Options,
    run: RunWeights | None,
    posterior: arviz.InferenceData | None,
    trials: Trials | None,
) -> Mixture:
    corpus = state.domains.corpus
    mixture = mixture_of(
        *(state, posterior, run), tokenizer=corpus.tokenizer_sha256, data_sha256=corpus.sha256
    )
    notes = [_note(run)] if run is not None and run.repeats else []
    notes += [] if trials is None else [trials.note()]
    mixture = dataclasses.replace(mixture, notes=(*mixture.notes, *notes))
    most = largest_weights(options, state.domains, None if run is None else run.tokens)
    return mixture if most is None else mixture.capped(most)


def _note(run: RunWeights) -> str:
    told = (
        f"The weights are for a run of {run.tokens:,.0f} tokens, in which text that is read again "
        f"teaches less, by a repetition constant of {run.repetition_constant:g}"
    )
    if run.repetition_constant == PROXY_CONSTANT:
        told += ", a small proxy's; for a model of billions of parameters it is about 15"
    return f"{told}."


def length_metrics(run: RunWeights, found: Answer, epochs: dict[str, float]) -> dict[str, Any]:
    """Returns the weights for a run of one length as plain values for `metrics.json`.

    Args:
        run: What was found for it.
        found: The weights.
        epochs: How often the run reads each domain.
    """
    mixture = found.mixture
    ends = {}
    if mixture.hdi is not None:
        low, high = zip(*mixture.hdi, strict=True)
        for side, values in (("low", low), ("high", high)):
            ends[side] = dict(zip(mixture.names, values, strict=True))
    return {
        "tokens": run.tokens,
        "repetition_constant": run.repetition_constant,
        "repeats": run.repeats,
        "weights": mixture.as_dict(),
        **ends,
        "epochs": epochs,
        "unexplained": run.unexplained,
        "settled": run.settled,
        **({} if found.posterior is None else {"guide_fit": fit_of(found.posterior)}),
    }


def fit_of(posterior: arviz.InferenceData) -> dict[str, Any]:
    """Returns what the draws of a search by matching tell of their guide, as plain values."""
    noted = posterior["posterior"].attrs
    weighed = float(noted["khat"])
    return {
        "khat": weighed if math.isfinite(weighed) else "infinite",
        "effective_draws": float(noted["effective_draws"]),
        "draws": int(noted["weighed_draws"]),
        "corrected": bool(noted["corrected"]),
    }
