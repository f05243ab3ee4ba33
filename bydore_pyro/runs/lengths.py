"""What a search by gradient matching finds for runs of the lengths that `--target_tokens` names."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bydore_pyro.analysis import mixture_of, posterior_of
from bydore_pyro.mixture import PROXY_CONSTANT, Mixture
from bydore_pyro.runs.inputs import largest_weights
from bydore_pyro.runs.options import Options
from bydore_pyro.search import MatchingSearch, RunWeights, weights_for_run
from bydore_pyro.utils import tell

if TYPE_CHECKING:
    import arviz

__all__ = ["LengthFound", "fit_of", "length_metrics", "lengths_found"]


@dataclass(frozen=True)
class LengthFound:
    """The weights for a run of one length; the posterior is None where there is none."""

    run: RunWeights
    mixture: Mixture
    posterior: arviz.InferenceData | None


def lengths_found(state: MatchingSearch, options: Options) -> list[LengthFound]:
    """Returns what a search finds for every length that is asked for, in their order."""
    found, corpus = [], state.domains.corpus
    for tokens in options.run.target_tokens or ():
        tell(f"weights for a run of {tokens:,.0f} tokens")
        with state.proxy.cost.part("guide"):
            run = weights_for_run(state, tokens, options.run.repetition_constant)
            posterior = posterior_of(state, run) if state.config.learner == "bayesian" else None
        mixture = mixture_of(
            *(state, posterior, run),
            tokenizer=corpus.tokenizer_sha256,
            data_sha256=corpus.sha256,
        )
        if run.repeats:
            mixture = dataclasses.replace(mixture, notes=(*mixture.notes, _note(run)))
        most = largest_weights(options, state.domains, tokens)
        if most is not None:
            mixture = mixture.capped(most)
        found.append(LengthFound(run, mixture, posterior))
    return found


def _note(run: RunWeights) -> str:
    told = (
        f"The weights are for a run of {run.tokens:,.0f} tokens, in which text that is read again "
        f"teaches less, by a repetition constant of {run.repetition_constant:g}"
    )
    if run.repetition_constant == PROXY_CONSTANT:
        told += ", a small proxy's; for a model of billions of parameters it is about 15"
    return f"{told}."


def length_metrics(found: LengthFound, epochs: dict[str, float]) -> dict[str, Any]:
    """Returns the weights for a run of one length as plain values for `metrics.json`.

    Args:
        found: The weights.
        epochs: How often the run reads each domain.
    """
    run, mixture = found.run, found.mixture
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
