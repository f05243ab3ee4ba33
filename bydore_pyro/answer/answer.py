"""An answer: a pure function of evidence, trial runs and a question. No file, no model, no clock.

::

    rounds of evidence --match--> Matching --draw_posterior--> Posterior
    Matching, Posterior, Question, TriedSteps --answer_of--> Answer
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from bydore_pyro.answer.draws import centre_of, mixture_of_draws
from bydore_pyro.answer.question import Question, RunLength
from bydore_pyro.answer.steps import SEED, TriedSteps
from bydore_pyro.core import GROUPS, Matching, Posterior, central_weights, run_mixture
from bydore_pyro.mixture import Mixture

if TYPE_CHECKING:
    import arviz

__all__ = ["CHAINS", "Answer", "answer_of", "candidate", "inference_data"]

CHAINS = GROUPS  # that draws are written as: a group of exact chains is one of ArviZ's
# Draws of the result that are pushed to a shorter step. Of many domains fewer, because each costs
# an optimum (13 domains: 0.001 s, 128: 0.02 s, 512: 0.4 s; in effective shares ten times that).
MOST_DRAWS, MANY, DRAWS_OF_MANY = 1000, 128, 200


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Weights to train on, with what they rest on.

    Attributes:
        mixture: The weights, with intervals, within the caps of the question.
        names: The domains that `sites` are of.
        sites: Draws by site, ``(4, D, ...)``: ``w`` to train on, ``s`` the scale; where steps are
            shorter or text is read again, their `length` and the `composition` that they come from.
        matching: The evidence; None by linear evidence.
        posterior: Of the composition; None by linear evidence.
        tried: Trial runs, None where there were none.
    """

    mixture: Mixture
    names: tuple[str, ...]
    sites: Mapping[str, Tensor]
    matching: Matching | None = None
    posterior: Posterior | None = None
    tried: TriedSteps | None = None

    @property
    def draws(self) -> Tensor:
        """Draws of the weights ``(D, K)``."""
        return self.sites["w"].flatten(0, 1)

    @property
    def evidence(self) -> tuple[Matching, Posterior]:
        """The evidence and its posterior.

        Raises:
            ValueError: When it comes from linear evidence.
        """
        if self.matching is None or self.posterior is None:
            raise ValueError("Expected an answer by gradient matching, actual one without evidence")
        return self.matching, self.posterior


def answer_of(
    found: Matching, drawn: Posterior, question: Question, tried: TriedSteps | None = None
) -> Answer:
    """Returns the weights to train on, out of draws of what the target is made of.

    Each draw is of a step whose length is drawn too, by the trials' probabilities; of a whole step
    without trials. Where none has to be changed they are the same; otherwise they are a thousand at
    most.

    Args:
        found: The evidence of the rounds.
        drawn: Its posterior.
        question: What the weights are for.
        tried: Trial runs.

    Raises:
        DataError: When the caps of the question leave no mixture.
    """
    sites, lengths = _for_run(found, drawn, question.run, tried)
    draws = sites["w"].flatten(0, 1)
    centre = centre_of(draws, lengths)
    mixture = mixture_of_draws(draws, centre, question)
    run = question.run
    notes = [run.note()] if run is not None and run.repeats(centre) else []
    notes += [] if tried is None else [tried.note()]
    mixture = dataclasses.replace(mixture, notes=(*mixture.notes, *notes))
    mixture = mixture if question.most is None else mixture.capped(question.most)
    return Answer(
        mixture=mixture.unpooled(question.pools),
        names=question.names,
        sites=sites,
        matching=found,
        posterior=drawn,
        tried=tried,
    )


def candidate(
    found: Matching, drawn: Posterior, length: float, run: RunLength | None = None
) -> Tensor:
    """Returns the weights ``(K,)`` of a step of one length, a share of the match's in (0, 1]."""
    centre = central_weights(drawn.weights)[None], drawn.scale.median()[None]
    return run_mixture(found, *centre, length, None if run is None else run.effective)[0]


def inference_data(answer: Answer) -> arviz.InferenceData:
    """Returns an answer's draws for ArviZ, a group `posterior` (chain, draw, domain).

    Of exact draws a chain is a group of a hundred short ones, one behind the other. All of a group
    begin at one place, so `arviz.rhat` shows whether the groups have forgotten it. Other draws are
    independent. Attributes say whether the draws are the posterior's (`settled`, `nested_rhat`),
    and the k-hat of the guide.
    """
    import arviz

    by_domain = {"w": ["domain"], "composition": ["domain"], "beta": ["domain"]}
    data = arviz.from_dict(
        {name: values.numpy() for name, values in answer.sites.items()},
        dims={name: dims for name, dims in by_domain.items() if name in answer.sites},
        coords={"domain": list(answer.names)},
    )
    if (drawn := answer.posterior) is not None:
        data["posterior"].attrs.update(settled=int(drawn.settled), nested_rhat=drawn.rhat)
        if drawn.fit is not None:
            data["posterior"].attrs.update(khat=drawn.fit.khat)
    return data


def _for_run(
    found: Matching, drawn: Posterior, run: RunLength | None, tried: TriedSteps | None
) -> tuple[dict[str, Tensor], Tensor | None]:
    """Returns draws by site, and the length of the step of each where these differ."""
    composition, scale = (
        values.unflatten(0, (CHAINS, -1)) for values in (drawn.weights, drawn.scale)
    )
    if run is not None and not run.repeats(drawn.weights):
        run = None
    if run is None and tried is None and not found.residual.any():
        return {"w": composition, "s": scale}, None
    most = MOST_DRAWS if composition.shape[-1] <= MANY else DRAWS_OF_MANY
    composition, scale = (values[:, : most // CHAINS] for values in (composition, scale))
    weights, scales = composition.flatten(0, 1).clone(), scale.flatten()
    lengths, chances = np.ones(1), np.ones(1)
    if tried is not None:
        lengths, chances = np.array(tried.lengths), np.array(tried.probabilities)
    chosen = np.random.default_rng(SEED).choice(len(lengths), size=len(weights), p=chances)
    effective = None if run is None else run.effective
    for place, length in enumerate(lengths.tolist()):
        own = torch.from_numpy(chosen == place)
        if own.any():
            weights[own] = run_mixture(found, weights[own], scales[own], length, effective)
    of_each = torch.from_numpy(lengths[chosen])
    sites = {
        "w": weights.view_as(composition),
        "s": scale,
        "composition": composition,
        "length": of_each.view_as(scale),
    }
    return sites, of_each
