"""What a search found, as labelled data: the posterior for ArviZ, the trajectory, the mixture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from bydore_pyro.arviz_import import import_arviz
from bydore_pyro.distribution import GammaDirichlet
from bydore_pyro.errors import DataError
from bydore_pyro.mixture import Mixture
from bydore_pyro.search import SearchState, StepRecord, averaged_window

if TYPE_CHECKING:
    import arviz
    import xarray

__all__ = ["HDI_PROBABILITY", "jitter", "mixture_of", "posterior_of", "trajectory_of"]

HDI_PROBABILITY = 0.94
BY_DOMAIN = (
    "weights",
    "mean",
    "standard_deviation",
    "concentration",
    "rate",
    "signals",
    "g",
)
BY_STEP = ("train_loss", "validation_loss", "kl_weight", "loss")
UNITS = {
    "signals": "nats per token",
    "g": "nats per token",
    **dict.fromkeys(BY_STEP, "nats per token"),
}


def posterior_of(
    state: SearchState, *, chains: int = 4, draws: int = 1000, seed: int = 0
) -> arviz.InferenceData:
    """Draws from the averaged posterior, ``q(w) = mean over steps t of q_t(w)``.

    The average is a mixture: each draw takes one step of the averaged window and samples that
    step's guide. Its mean is the mean of the steps' ``E_q[w]``, the result of the search; its
    spread holds both the guides' own and their wandering over the window. Draws are independent,
    so chains serve ArviZ's conventions only.

    Args:
        state: A search after at least one step.
        chains: Number of chains.
        draws: Draws of a chain.
        seed: Of the draws.

    Returns:
        A group `posterior` with ``w`` and ``beta``, dimensions (chain, draw, domain).

    Raises:
        DataError: When the search has no step.
    """
    arviz = import_arviz()
    window = _window(state)
    rng = np.random.default_rng(seed)
    steps = rng.integers(len(window), size=chains * draws)
    concentration = torch.from_numpy(np.stack([window[t].concentration for t in steps]))
    rate = torch.from_numpy(np.stack([window[t].rate for t in steps]))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        log_w, log_beta = GammaDirichlet(concentration, rate).rsample_log()
    shape = (chains, draws, len(state.domains.names))
    return arviz.from_dict(
        posterior={
            "w": log_w.exp().numpy().reshape(shape),
            "beta": log_beta.exp().numpy().reshape(shape),
        },
        coords={"domain": list(state.domains.names)},
        dims={"w": ["domain"], "beta": ["domain"]},
        attrs={"inference_library": "bydore_pyro"},
    )


def mixture_of(
    state: SearchState, posterior: arviz.InferenceData, *, tokenizer: str, data_sha256: str
) -> Mixture:
    """Returns the learned mixture: exact means of the averaged posterior, its spread and HDI."""
    arviz = import_arviz()
    mean = np.stack([record.mean for record in _window(state)]).astype(float).mean(0)
    samples = posterior["posterior"]["w"]
    hdi = arviz.hdi(posterior, var_names=["w"], hdi_prob=HDI_PROBABILITY)["w"].values
    deviation = samples.std(("chain", "draw")).values
    return Mixture(
        names=state.domains.names,
        weights=tuple((mean / mean.sum()).tolist()),
        standard_deviation=tuple(deviation.tolist()),
        hdi=tuple((low, high) for low, high in hdi.tolist()),
        hdi_probability=HDI_PROBABILITY,
        tokenizer=tokenizer,
        data_sha256=data_sha256,
    )


def trajectory_of(state: SearchState) -> xarray.Dataset:
    """Returns every step's record, dimensions (step, domain); losses and g in nats per token."""
    import xarray

    records = state.records
    columns: dict[str, tuple[Sequence[str], np.ndarray, dict]] = {}
    for name in BY_DOMAIN:
        values = [getattr(record, name) for record in records]
        array = np.stack(values) if values else np.empty((0, len(state.domains.names)))
        columns[name] = (("step", "domain"), array, {"units": UNITS.get(name, "1")})
    for name in BY_STEP:
        array = np.array([getattr(record, name) for record in records], dtype=float)
        columns[name] = (("step",), array, {"units": UNITS[name]})
    return xarray.Dataset(
        columns,
        coords={"step": np.arange(len(records)), "domain": list(state.domains.names)},
    )


def jitter(means: np.ndarray) -> float:
    """Mean over steps of ``sum_k |w_{t+1,k} - w_{t,k}|`` for weights ``(steps, K)``; 0 for one."""
    if len(means) < 2:
        return 0.0
    return float(np.abs(np.diff(means, axis=0)).sum(1).mean())


def _window(state: SearchState) -> list[StepRecord]:
    window = state.records[averaged_window(state)]
    if not window:
        raise DataError("Expected a search of at least one step, found none")
    return window
