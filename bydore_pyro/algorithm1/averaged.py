"""The result of a search by linear evidence: the average of its posteriors over the later steps."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import torch

from bydore_pyro import answer, core
from bydore_pyro.algorithm1.learner import BayesianLearner
from bydore_pyro.algorithm1.search import LinearSearch
from bydore_pyro.law import PER_TOKEN
from bydore_pyro.mixture import Mixture, Sums

if TYPE_CHECKING:
    import xarray

DRAWS, SEED = 1000, 0  # of a chain
BY_DOMAIN = ("weights", "mean", "standard_deviation", "concentration", "rate", "losses", "g")
BY_STEP = ("train_loss", "validation_loss", "kl_weight", "loss")
UNITS = dict.fromkeys(("losses", "g", *BY_STEP), PER_TOKEN)


def averaged_answer(state: LinearSearch, question: answer.Question) -> answer.Answer:
    """Returns the exact mean of the averaged posterior, ``q(w) = mean over steps t of q_t(w)``.

    The average is a mixture: each draw takes one step of the averaged window and samples that
    step's guide. Its spread holds both the guides' own and their wandering over the window. Draws
    are independent, so chains serve ArviZ's conventions only. Of a learner of points there is
    neither a draw nor an interval.

    Raises:
        DataError: When the caps of the question leave no mixture.
    """
    mean = torch.from_numpy(np.stack([one.mean for one in state.window]).astype(float).mean(0))
    names, sites, sums = state.domains.names, {}, Sums()
    if isinstance(state.learner, BayesianLearner):
        sites = _draws(state)
        draws = sites["w"].flatten(0, 1).double()
        mixture = answer.mixture_of_draws(draws, mean, question)
        sums = answer.sums_of_draws(draws, mean, question)
    else:
        mixture = Mixture(
            names=names,
            weights=tuple((mean / mean.sum()).tolist()),
            tokenizer=question.tokenizer,
            data_sha256=question.data_sha256,
        )
    mixture = dataclasses.replace(mixture, notes=question.notes)
    mixture = answer.mixture_within(mixture, question, free=True)
    mixture = mixture.unpooled(question.pools)
    return answer.Answer(mixture=mixture, names=names, sites=sites, sums=sums)


def _draws(state: LinearSearch) -> dict[str, torch.Tensor]:
    """Returns draws of the weights and the concentrations, ``(4, D, K)``."""
    steps = np.random.default_rng(SEED).integers(len(state.window), size=core.GROUPS * DRAWS)
    concentration = torch.from_numpy(np.stack([state.window[t].concentration for t in steps]))
    rate = torch.from_numpy(np.stack([state.window[t].rate for t in steps]))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        log_w, log_beta = core.GammaDirichlet(concentration, rate).rsample_log()
    shape = (core.GROUPS, DRAWS)
    return {"w": log_w.exp().unflatten(0, shape), "beta": log_beta.exp().unflatten(0, shape)}


def trajectory_of(state: LinearSearch) -> xarray.Dataset:
    """Returns every step's record, dimensions (step, domain); losses and g in nats per token."""
    import xarray

    records = state.records
    columns: dict[str, tuple[tuple[str, ...], np.ndarray, dict[str, str]]] = {}
    for name in BY_DOMAIN:
        values = [getattr(record, name) for record in records]
        columns[name] = (("step", "domain"), np.stack(values), {"units": UNITS.get(name, "1")})
    for name in BY_STEP:
        array = np.array([getattr(record, name) for record in records], dtype=float)
        columns[name] = (("step",), array, {"units": UNITS[name]})
    return xarray.Dataset(
        columns, coords={"step": np.arange(len(records)), "domain": list(state.domains.names)}
    )


def search_guide_fit(state: LinearSearch, learner: BayesianLearner) -> core.GuideFit:
    """Compares the guide of a search's learner, at its end, with its model.

    The model's ``g`` and ``lam`` are the means over the averaged window. In the search ``g``
    answers to the weights, which the frozen model cannot know.
    """
    window = state.window
    g = torch.from_numpy(np.stack([record.g for record in window]).mean(0))
    kl_weight = float(np.mean([record.kl_weight for record in window]))
    arguments = (state.signals, g, kl_weight)
    with learner.isolated():
        return core.guide_fit(core.mixture_model, learner.guide, *arguments)
