"""Algorithm 1 of ByDoRe: a proxy trains on the mixture while its posterior is learned.

1. signals s_t: the proxy's losses on small fresh batches of every domain, a running average
2. (a, b) = G_Phi(s_t)
3. w_t ~ GammaDirichlet(a, b)
4. a training batch with w_t's shares
5. theta_t -> theta_{t+1}
6. D = grad L_val(theta_{t+1})
7. g around theta_t along D, on fresh batches; their losses go into s_{t+1}
8. one SVI step of Phi on  -(g . E_q[w]) + lam KL(q || p)

The paper measures the signals in an extra pass. Here they are the perturbed losses of step 7, which
cost nothing and are one step older.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bydore_pyro.core import Parameters, PriorNetworkConfig
from bydore_pyro.data import Domains
from bydore_pyro.proxy import Proxy, schedule
from bydore_pyro.search.config import SearchConfig
from bydore_pyro.search.learner import BayesianLearner, WeightsLearner
from bydore_pyro.search.linear_evidence import Measure
from bydore_pyro.search.point_learners import ExponentiatedLearner, PointLearner
from bydore_pyro.search.state import SearchState, StepRecord, check_finite
from bydore_pyro.utils import NonFiniteError

__all__ = ["LinearSearch"]

RUNNING = ("signals", "losses", "g", "g_spread")


@dataclass(kw_only=True)
class LinearSearch(SearchState):
    """A search with the paper's evidence, linear in the weights, a step at a time.

    Attributes:
        measure: Measures losses and hypergradients.
        learner: Learns the weights from them.
        losses: The last of every domain ``(K,)``; 0 before the first.
        g: The last of every domain ``(K,)``; 0 before the first.
        signals: Running average of the losses ``(K,)``, None before the first.
        g_spread: Running standard deviation over domains of g, None before the first.
    """

    measure: Measure
    learner: WeightsLearner
    losses: Tensor
    g: Tensor
    signals: Tensor | None = None
    g_spread: float | None = None

    @classmethod
    def begin(
        cls,
        domains: Domains,
        proxy: Proxy,
        config: SearchConfig,
        network: PriorNetworkConfig | None,
        seed: int,
    ) -> LinearSearch:
        """Returns a search before its first step."""
        learner: WeightsLearner
        if config.learner == "bayesian":
            learner = BayesianLearner(domains.num_domains, config, network, seed)
        elif config.learner == "point":
            learner = PointLearner(domains.num_domains, config, network, seed)
        else:
            learner = ExponentiatedLearner(domains.num_domains)
        losses, g = torch.zeros(2, domains.num_domains)
        return cls(
            domains=domains,
            config=config,
            proxy=proxy,
            generator=torch.Generator().manual_seed(seed),  # of the measured domains too
            measure=Measure(domains, proxy, config),
            learner=learner,
            losses=losses,
            g=g,
        )

    @property
    def is_done(self) -> bool:
        """Whether the steps are used up or the weights have converged."""
        return len(self.records) >= self.config.steps or _converged(self)

    @property
    def average_start(self) -> int:
        """The first step of those whose posteriors are averaged into the result."""
        return int(len(self.records) * self.config.average_from)

    def running(self) -> dict[str, Any]:
        """Returns what the next step depends on, beside proxy, data and records."""
        return {
            "learner": self.learner.state(),
            "measure": self.measure.state(),
            **{name: getattr(self, name) for name in RUNNING},
        }

    def restore(self, running: Mapping[str, Any]) -> None:
        """Goes on from what `running` returned."""
        self.learner.restore(running["learner"])
        self.measure.restore(running["measure"])
        for name in RUNNING:
            setattr(self, name, running[name])

    def step(self) -> StepRecord:
        """One iteration of Algorithm 1; appends its record."""
        config, domains, proxy = self.config, self.domains, self.proxy
        step = len(self.records)
        if self.signals is None:
            # The state has torch's default dtype, the evidence the proxy's.
            self.losses = self.signals = self.measure.losses(domains.names).to(self.g.dtype)
            check_finite("signal", self.signals, step, domains.names)
        signals = self.signals
        with proxy.cost.part("guide"):
            drawn = self.learner.draw(signals)
        check_finite("posterior's shape", drawn.concentration, step, domains.names)
        check_finite("posterior's rate", drawn.rate, step, domains.names)

        counts, factors = schedule(
            config.strategy, drawn.weights, config.batch_sequences, self.generator
        )
        eta, theta = proxy.eta, {name: p.clone() for name, p in proxy.parameters.items()}
        _check_parameters(self, theta)
        train_loss = self.train(counts, factors)

        if self.records and (step - config.guide_warmup) % config.update_every:
            last = self.records[-1]  # neither measured nor updated
            validation_loss, lam, loss = last.validation_loss, last.kl_weight, last.loss
        else:
            g, validation_loss = _measure(self, signals, theta, eta)
            with proxy.cost.part("guide"):
                lam, loss = _update(self, signals, g)
        record = StepRecord(
            weights=drawn.weights.numpy(),
            mean=drawn.mean.numpy(),
            standard_deviation=drawn.standard_deviation.numpy(),
            concentration=drawn.concentration.numpy(),
            rate=drawn.rate.numpy(),
            losses=self.losses.numpy(),
            g=self.g.numpy(),
            train_loss=train_loss,
            validation_loss=validation_loss,
            kl_weight=lam,
            loss=loss,
        )
        self.records.append(record)
        return record


def _check_parameters(state: LinearSearch, theta: Parameters) -> None:
    """Refuses NaN and infinity in the proxy, by the domain that shows them where one does."""
    if torch.stack([torch.isfinite(p).all() for p in theta.values()]).all():  # read once
        return
    step, names = len(state.records), state.domains.names
    check_finite("signal", state.measure.losses(names), step, names)
    raise NonFiniteError(
        f"Step {step}: a parameter of the proxy is NaN or infinite; a smaller --learning_rate may "
        "help"
    )


def _measure(
    state: LinearSearch, signals: Tensor, theta: Parameters, eta: float
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
    check_finite("validation loss", torch.tensor([evidence.validation_loss]), step, ["validation"])
    check_finite("signal", evidence.losses, step, labels)
    check_finite("hypergradient", evidence.g, step, labels)

    losses, g = evidence.losses.to(state.g.dtype), evidence.g.to(state.g.dtype)
    estimate = state.g.clone()
    estimate[chosen] += count / len(chosen) * (g - state.g[chosen])
    state.g = state.g.index_put((chosen,), g)
    state.losses = state.losses.index_put((chosen,), losses)
    smoothed = torch.lerp(losses, signals[chosen], state.config.signal_average)
    state.signals = signals.index_put((chosen,), smoothed)
    return estimate, evidence.validation_loss


def _update(state: LinearSearch, signals: Tensor, g: Tensor) -> tuple[float, float]:
    """Updates the learner; returns the KL term's weight and the loss, nats per token."""
    config, step = state.config, len(state.records)
    spread = _update_spread(state)
    lam = config.kl_weight * (spread if config.kl_scale == "relative" else 1.0)
    learn = step >= config.guide_warmup
    # In units of g's spread, so that the clipping of Adam does not depend on eta.
    return lam, state.learner.update(signals, g / spread, lam / spread, learn=learn) * spread


def _update_spread(state: LinearSearch) -> float:
    """Returns the running standard deviation over domains of g, nats per token."""
    spread = max(state.g.std().item(), torch.finfo(state.g.dtype).tiny)
    previous = spread if state.g_spread is None else state.g_spread
    state.g_spread = 0.95 * previous + 0.05 * spread
    return state.g_spread


def _converged(state: LinearSearch) -> bool:
    window, tolerance = state.config.tolerance_window, state.config.tolerance
    if tolerance == 0 or len(state.records) < 2 * window:
        return False
    means = np.stack([record.mean for record in state.records[-2 * window :]])
    variation = 0.5 * np.abs(means[window:].mean(0) - means[:window].mean(0)).sum()
    return bool(variation < tolerance)
