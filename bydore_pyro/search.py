"""Algorithm 1 of ByDoRe: a proxy trains on the mixture while its posterior is learned.

1. signals s_t: the proxy's losses on small fresh batches of every domain
2. (a, b) = G_Phi(s_t)
3. w_t ~ GammaDirichlet(a, b)
4. a training batch with w_t's shares
5. theta_t -> theta_{t+1}
6. D = grad L_val(theta_{t+1})
7. g by finite differences around theta_t along D
8. one SVI step of Phi on  -(g . E_q[w]) + lam KL(q || p)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyro
import torch
from pyro.infer import SVI
from torch import Tensor

from bydore_pyro.distribution import GammaDirichlet
from bydore_pyro.domains import Domains
from bydore_pyro.elbo import HypergradientELBO
from bydore_pyro.errors import NonFiniteError
from bydore_pyro.guide import MixtureGuide, mixture_model
from bydore_pyro.hypergradient import Parameters, finite_difference, step_size
from bydore_pyro.prior_net import PriorNetwork, PriorNetworkConfig
from bydore_pyro.proxy import Proxy
from bydore_pyro.scheduling import systematic_counts
from bydore_pyro.search_config import SearchConfig

__all__ = [
    "SearchState",
    "StepRecord",
    "averaged_window",
    "init_search",
    "run_search",
    "search_step",
]


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
    proxy: Proxy
    config: SearchConfig
    guide: MixtureGuide
    svi: SVI
    param_store: dict
    generator: torch.Generator
    rng_state: Tensor
    signals: Tensor | None = None  # running average (K,)
    g_spread: float | None = None  # running standard deviation over domains of g
    records: list[StepRecord] = field(default_factory=list)

    @contextmanager
    def isolated(self) -> Iterator[None]:
        """Gives the block this search's own random numbers and Pyro parameter store.

        `SVI.step` does not work with `pyro.settings.set(module_local_params=True)`, so a scope of
        the parameter store keeps two searches of one process apart.
        """
        with (
            torch.random.fork_rng(devices=[]),
            pyro.get_param_store().scope(self.param_store) as store,
        ):
            torch.set_rng_state(self.rng_state)
            yield
            self.rng_state = torch.get_rng_state()
            self.param_store = store


def init_search(
    domains: Domains,
    proxy: Proxy,
    config: SearchConfig,
    network: PriorNetworkConfig | None = None,
    *,
    seed: int = 0,
) -> SearchState:
    """Returns a search before its first step. The guide lives on the CPU: it is K numbers."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        guide = MixtureGuide(PriorNetwork(domains.num_domains, network))
        rng_state = torch.get_rng_state()
    svi = SVI(
        mixture_model,
        guide,
        _guide_optimizer(config),
        HypergradientELBO(config.moment, config.kl),
    )
    with pyro.get_param_store().scope() as param_store:
        pass
    generator = torch.Generator().manual_seed(seed)
    return SearchState(domains, proxy, config, guide, svi, param_store, generator, rng_state)


def _guide_optimizer(config: SearchConfig) -> pyro.optim.PyroOptim:
    """Adam whose step size decays geometrically; the domains' biases take larger steps."""
    decay = config.guide_learning_rate_decay ** (1 / (config.steps - config.guide_warmup))

    def arguments(parameter: str) -> dict[str, Any]:
        own = parameter.endswith("domain_bias")
        rate = config.guide_learning_rate if own else config.network_learning_rate
        return {"lr": rate, "lrd": decay, "betas": (0.9, 0.99)}

    return pyro.optim.ClippedAdam(arguments)


def run_search(state: SearchState) -> Iterator[StepRecord]:
    """Yields a record a step until the weights have converged or the steps are used up.

    Raises:
        NonFiniteError: See `search_step`; `state.records` holds every step before it.
    """
    while len(state.records) < state.config.steps and not _converged(state):
        yield search_step(state)


def search_step(state: SearchState) -> StepRecord:
    """One iteration of Algorithm 1; appends its record to the state.

    Raises:
        NonFiniteError: When a loss, a signal, ``g`` or the posterior is NaN or infinite; it names
            the step and the domain.
    """
    config, domains, proxy = state.config, state.domains, state.proxy
    step = len(state.records)
    signal_batch = domains.signal_batch(config.signal_sequences)

    def domain_losses(part: str, theta: Parameters | None = None) -> Tensor:
        with torch.no_grad():
            losses = proxy.losses(signal_batch, part, theta)
        return losses.view(domains.num_domains, -1).mean(1).cpu()  # (K,), the model's precision

    with state.isolated():
        with proxy.cost.part("signals"):
            signals = domain_losses("signals").float()
        _check("signal", signals, step, domains.names)
        if state.signals is None:
            state.signals = signals
        state.signals = torch.lerp(signals, state.signals, config.signal_average)

        with proxy.cost.part("guide"), torch.no_grad():
            a, b = state.guide.network(state.signals)
            _check("posterior's shape", a, step, domains.names)
            _check("posterior's rate", b, step, domains.names)
            q = GammaDirichlet(a, b)
            weights, mean, deviation = q.sample(), q.mean, q.stddev

        counts = systematic_counts(weights, config.batch_sequences, state.generator)
        shares = dict(zip(domains.names, counts.tolist(), strict=True))
        eta, theta = proxy.eta, {name: p.clone() for name, p in proxy.parameters.items()}
        train_losses = proxy.step(domains.train_batch(shares)).cpu()  # (B,)
        of_sequence = np.repeat(np.array(domains.names), counts.numpy())
        _check("training loss", train_losses, step, of_sequence)

        with proxy.cost.part("validation"):
            batch = domains.validation_batch(config.validation_batch)
            validation_loss, direction = proxy.gradient(batch, "validation")
        _check("validation loss", torch.tensor([validation_loss]), step, ["validation"])

        with proxy.cost.part("hypergradient"):
            g = finite_difference(
                lambda perturbed: domain_losses("hypergradient", perturbed),
                theta,
                direction,
                eta,
                step_size(theta, direction, config.epsilon_rule),
            ).float()
        _check("hypergradient", g, step, domains.names)

        with proxy.cost.part("guide"):
            spread = _update_spread(state, g)
            lam = config.kl_weight * (spread if config.kl_scale == "relative" else 1.0)
            update = state.svi.step if step >= config.guide_warmup else state.svi.evaluate_loss
            # In units of g's spread, so that the clipping of Adam does not depend on eta.
            loss = update(state.signals, g / spread, lam / spread) * spread

    record = StepRecord(
        weights=weights.numpy(),
        mean=mean.numpy(),
        standard_deviation=deviation.numpy(),
        concentration=a.numpy(),
        rate=b.numpy(),
        signals=signals.numpy(),
        g=g.numpy(),
        train_loss=train_losses.mean().item(),
        validation_loss=validation_loss,
        kl_weight=lam,
        loss=loss,
    )
    state.records.append(record)
    return record


def averaged_window(state: SearchState) -> slice:
    """Returns the steps whose posteriors are averaged into the result."""
    return slice(int(len(state.records) * state.config.average_from), None)


def _update_spread(state: SearchState, g: Tensor) -> float:
    """Returns the running standard deviation over domains of g, nats per token."""
    spread = max(g.std().item(), torch.finfo(g.dtype).tiny)
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
