"""Algorithm 1 of ByDoRe: a proxy trains on the mixture while its posterior is learned.

1. signals s_t: the proxy's losses on small fresh batches of every domain, a running average
2. (a, b) = G_Phi(s_t)
3. w_t ~ GammaDirichlet(a, b)
4. a training batch with w_t's shares
5. theta_t -> theta_{t+1}
6. D = grad L_val(theta_{t+1})
7. g around theta_t along D, on fresh batches; their losses go into s_{t+1}
8. one SVI step of Phi on  -(g . E_q[w]) + lam KL(q || p)

The paper measures the signals by a pass of their own; here the perturbed losses of step 7 serve,
for nothing, and are one step older.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bydore_pyro.domains import Domains
from bydore_pyro.errors import NonFiniteError
from bydore_pyro.evidence import Measure
from bydore_pyro.hypergradient import Parameters
from bydore_pyro.learner import BayesianLearner, WeightsLearner
from bydore_pyro.point_learners import ExponentiatedLearner, PointLearner
from bydore_pyro.prior_net import PriorNetworkConfig
from bydore_pyro.proxy import Proxy
from bydore_pyro.scheduling import schedule
from bydore_pyro.search_config import SearchConfig

__all__ = [
    "SearchState",
    "StepRecord",
    "averaged_window",
    "init_search",
    "run_search",
    "search_step",
]

TRIM_EVERY = 20  # steps


@dataclass(frozen=True, kw_only=True)
class StepRecord:
    """What one step saw and did; arrays are ``(K,)``, losses in nats per token."""

    weights: np.ndarray  # the sample w_t that the batch was built from
    mean: np.ndarray  # E_q[w]
    standard_deviation: np.ndarray  # of w under q
    concentration: np.ndarray  # a
    rate: np.ndarray  # b
    signals: np.ndarray  # before averaging
    g: np.ndarray  # > 0: training on the domain lowers the validation loss
    train_loss: float
    validation_loss: float  # on the batch of the gradient, after the step
    kl_weight: float  # lam, nats per token
    loss: float  # -(g . E_q[w]) + lam KL


@dataclass
class SearchState:
    """A search between two steps."""

    domains: Domains
    config: SearchConfig
    measure: Measure
    learner: WeightsLearner
    generator: torch.Generator  # of batches, and of the domains that are measured
    losses: Tensor  # the last of every domain (K,); 0 before the first
    g: Tensor  # the last of every domain (K,); 0 before the first
    signals: Tensor | None = None  # running average of the losses (K,), None before the first
    g_spread: float | None = None  # running standard deviation over domains of g
    records: list[StepRecord] = field(default_factory=list)

    @property
    def proxy(self) -> Proxy:
        """The language model that the search trains."""
        return self.measure.proxy


def init_search(
    domains: Domains,
    proxy: Proxy,
    config: SearchConfig,
    network: PriorNetworkConfig | None = None,
    *,
    seed: int = 0,
) -> SearchState:
    """Returns a search before its first step."""
    learner: WeightsLearner
    if config.learner == "bayesian":
        learner = BayesianLearner(domains.num_domains, config, network, seed)
    elif config.learner == "point":
        learner = PointLearner(domains.num_domains, config, network, seed)
    else:
        learner = ExponentiatedLearner(domains.num_domains)
    generator = torch.Generator().manual_seed(seed)
    measure = Measure(domains, proxy, config)
    losses, g = torch.zeros(2, domains.num_domains)
    return SearchState(domains, config, measure, learner, generator, losses, g)


def run_search(state: SearchState) -> Iterator[StepRecord]:
    """Yields a record a step until the weights have converged or the steps are used up.

    Raises:
        NonFiniteError: See `search_step`; `state.records` holds every step before it.
    """
    while len(state.records) < state.config.steps and not _converged(state):
        yield search_step(state)
        if len(state.records) % TRIM_EVERY == 0:
            _return_freed_memory()


def _return_freed_memory() -> None:
    """Gives the system what has been freed, where the C library is glibc.

    From about step 80 on a search's memory grew by 8 MB a step, to 1.6 GB instead of 0.8 after 200
    steps, all of it free: no tensor is kept. Which allocations scatter it has not been found out;
    with the KL's bound, without the density's arrays, it grows as fast.
    """
    with suppress(OSError, AttributeError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def search_step(state: SearchState) -> StepRecord:
    """One iteration of Algorithm 1; appends its record to the state.

    Raises:
        NonFiniteError: When a loss, a signal, ``g`` or the posterior is NaN or infinite; it names
            the step and the domain.
    """
    config, domains, proxy = state.config, state.domains, state.proxy
    step = len(state.records)
    if state.signals is None:
        state.losses = state.signals = state.measure.losses(domains.names)
        _check("signal", state.signals, step, domains.names)
    signals = state.signals
    with proxy.cost.part("guide"):
        drawn = state.learner.draw(signals)
    _check("posterior's shape", drawn.concentration, step, domains.names)
    _check("posterior's rate", drawn.rate, step, domains.names)

    counts, factors = schedule(
        config.strategy, drawn.weights, config.batch_sequences, state.generator
    )
    eta, theta = proxy.eta, {name: p.clone() for name, p in proxy.parameters.items()}
    _check_parameters(state, theta)
    train_loss = _train(state, counts, factors)

    if state.records and (step - config.guide_warmup) % config.update_every:
        last = state.records[-1]  # neither measured nor updated
        validation_loss, lam, loss = last.validation_loss, last.kl_weight, last.loss
    else:
        g, validation_loss = _measure(state, signals, theta, eta)
        with proxy.cost.part("guide"):
            lam, loss = _update(state, signals, g)
    record = StepRecord(
        weights=drawn.weights.numpy(),
        mean=drawn.mean.numpy(),
        standard_deviation=drawn.standard_deviation.numpy(),
        concentration=drawn.concentration.numpy(),
        rate=drawn.rate.numpy(),
        signals=state.losses.numpy(),
        g=state.g.numpy(),
        train_loss=train_loss,
        validation_loss=validation_loss,
        kl_weight=lam,
        loss=loss,
    )
    state.records.append(record)
    return record


def _check_parameters(state: SearchState, theta: Parameters) -> None:
    """Refuses NaN and infinity in the proxy, by the domain that shows them where one does."""
    if torch.stack([torch.isfinite(p).all() for p in theta.values()]).all():  # read once
        return
    step, names = len(state.records), state.domains.names
    _check("signal", state.measure.losses(names), step, names)
    raise NonFiniteError(
        f"Step {step}: a parameter of the proxy is NaN or infinite; a smaller --learning_rate may "
        "help"
    )


def _train(state: SearchState, counts: Tensor, factors: Tensor) -> float:
    """Takes a step on a batch of so many sequences of each domain; returns its mean loss."""
    names, step = state.domains.names, len(state.records)
    batch = state.domains.train_batch(dict(zip(names, counts.tolist(), strict=True)))
    weighting = None if bool((factors == 1).all()) else factors.repeat_interleave(counts)
    losses = state.proxy.step(batch, weighting).cpu()  # (B,)
    _check("training loss", losses, step, np.repeat(np.array(names), counts.numpy()))
    return losses.mean().item()


def _measure(
    state: SearchState, signals: Tensor, theta: Parameters, eta: float
) -> tuple[Tensor, float]:
    """Measures losses and g and notes them; returns an estimate of g ``(K,)`` for the update, and
    the validation loss.

    Where only m of K domains are measured, drawn at random, the estimate is the last g of every
    domain, plus K / m times the change for those that were measured: it is unbiased, and its noise
    falls with the changes (SAGA; Defazio et al., arXiv 1407.0202).
    """
    names, step = state.domains.names, len(state.records)
    most, count = state.config.signal_domains, len(names)
    chosen = torch.arange(count)
    if most < count:
        chosen = torch.randperm(count, generator=state.generator)[:most].sort().values
    labels = [names[k] for k in chosen.tolist()]
    evidence = state.measure(labels, theta, eta)
    _check("validation loss", torch.tensor([evidence.validation_loss]), step, ["validation"])
    _check("signal", evidence.losses, step, labels)
    _check("hypergradient", evidence.g, step, labels)

    estimate = state.g.clone()
    estimate[chosen] += count / len(chosen) * (evidence.g - state.g[chosen])
    state.g = state.g.index_put((chosen,), evidence.g)
    state.losses = state.losses.index_put((chosen,), evidence.losses)
    smoothed = torch.lerp(evidence.losses, signals[chosen], state.config.signal_average)
    state.signals = signals.index_put((chosen,), smoothed)
    return estimate, evidence.validation_loss


def _update(state: SearchState, signals: Tensor, g: Tensor) -> tuple[float, float]:
    """Updates the learner; returns the KL term's weight and the loss, nats per token."""
    config, step = state.config, len(state.records)
    spread = _update_spread(state)
    lam = config.kl_weight * (spread if config.kl_scale == "relative" else 1.0)
    learn = step >= config.guide_warmup
    # In units of g's spread, so that the clipping of Adam does not depend on eta.
    return lam, state.learner.update(signals, g / spread, lam / spread, learn=learn) * spread


def averaged_window(state: SearchState) -> slice:
    """Returns the steps whose posteriors are averaged into the result."""
    return slice(int(len(state.records) * state.config.average_from), None)


def _update_spread(state: SearchState) -> float:
    """Returns the running standard deviation over domains of g, nats per token."""
    spread = max(state.g.std().item(), torch.finfo(state.g.dtype).tiny)
    previous = spread if state.g_spread is None else state.g_spread
    state.g_spread = 0.95 * previous + 0.05 * spread
    return state.g_spread


def _converged(state: SearchState) -> bool:
    window, tolerance = state.config.tolerance_window, state.config.tolerance
    if tolerance == 0 or len(state.records) < 2 * window:
        return False
    means = np.stack([record.mean for record in state.records[-2 * window :]])
    variation = 0.5 * np.abs(means[window:].mean(0) - means[:window].mean(0)).sum()
    return bool(variation < tolerance)


def _check(what: str, values: Tensor, step: int, names: Any) -> None:
    bad = ~torch.isfinite(values)
    if bad.any():
        index = int(bad.nonzero()[0])
        option = "guide_learning_rate" if what.startswith("posterior") else "learning_rate"
        raise NonFiniteError(
            f"Step {step}: the {what} of domain '{names[index]}' is {values[index].item()}; "
            f"a smaller --{option} may help"
        )
