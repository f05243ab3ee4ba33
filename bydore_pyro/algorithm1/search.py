"""Algorithm 1 of ByDoRe: a proxy trains on the mixture while its posterior is learned.

1. signals s_t: the proxy's losses on small fresh batches of every domain, a running average
2. (a, b) = G_Phi(s_t)
3. w_t ~ GammaDirichlet(a, b)
4. a training batch with w_t's shares
5. theta_t -> theta_{t+1}
6. D = grad L_val(theta_{t+1})
7. g around theta_t along D, on fresh batches; their losses go into s_{t+1}
8. one SVI step of Phi on  -(g . E_q[w]) + lam KL(q || p)

The paper measures the signals in an extra pass. Here they are the mean of the perturbed losses of
step 7, which cost nothing and are one step older.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bydore_pyro import core, data
from bydore_pyro.algorithm1.config import LinearConfig
from bydore_pyro.algorithm1.learner import BayesianLearner, WeightsLearner
from bydore_pyro.proxy import Proxy, check_finite, proxy_content, restore_proxy, schedule

AVERAGE_FROM = 0.5  # share of the steps after which the result averages the posterior

RUNNING = ("signals", "losses", "g", "g_spread")
SIGNAL_AVERAGE = 0.9  # decay of the running average of the signals


@dataclass(frozen=True, kw_only=True)
class StepRecord:
    """The record of one step; arrays are ``(K,)``, losses in nats per token."""

    weights: np.ndarray  # that the batch was built from
    mean: np.ndarray  # E_q[w]
    standard_deviation: np.ndarray  # of w under q
    concentration: np.ndarray  # a
    rate: np.ndarray  # b
    losses: np.ndarray  # of the domains, as measured
    train_loss: float
    validation_loss: float  # on the batch of the gradient, after the step
    g: np.ndarray  # > 0: training on the domain lowers the validation loss
    kl_weight: float  # lam, nats per token
    loss: float  # -(g . E_q[w]) + lam KL


@dataclass(kw_only=True)
class LinearSearch:
    """A search with the paper's evidence, linear in the weights, a step at a time.

    Attributes:
        domains: Where the batches come from.
        proxy: The language model that it trains.
        config: Its options.
        steps: How many it takes.
        batch_sequences: ``B``, of a training batch.
        learner: Learns the weights from losses and hypergradients.
        generator: Of batches, and of the domains that a step measures.
        losses: The last of every domain ``(K,)``; 0 before the first.
        g: The last of every domain ``(K,)``; 0 before the first.
        signals: Running average of the losses ``(K,)``, None before the first.
        g_spread: Running standard deviation over domains of g, None before the first.
        records: One a step.
    """

    domains: data.Domains
    proxy: Proxy
    config: LinearConfig
    steps: int
    batch_sequences: int
    learner: WeightsLearner
    generator: torch.Generator
    losses: Tensor
    g: Tensor
    signals: Tensor | None = None
    g_spread: float | None = None
    records: list[StepRecord] = field(default_factory=list)

    @classmethod
    def begin(
        cls,
        domains: data.Domains,
        proxy: Proxy,
        config: LinearConfig,
        *,
        steps: int,
        batch_sequences: int,
        seed: int = 0,
        learner: WeightsLearner | None = None,
    ) -> LinearSearch:
        """Returns a search before its first step; without a `learner` it learns the posterior.

        Raises:
            ValueError: When `guide_warmup` leaves no step.
        """
        if config.guide_warmup >= steps:
            raise ValueError(
                f"Expected guide_warmup in [0, steps = {steps}), actual {config.guide_warmup}"
            )
        losses, g = torch.zeros(2, domains.num_domains)
        return cls(
            domains=domains,
            proxy=proxy,
            config=config,
            steps=steps,
            batch_sequences=batch_sequences,
            learner=learner or BayesianLearner(domains.num_domains, config, steps, seed),
            generator=torch.Generator().manual_seed(seed),
            losses=losses,
            g=g,
        )

    @property
    def window(self) -> list[StepRecord]:
        """The steps whose posteriors are averaged into the result."""
        return self.records[int(len(self.records) * AVERAGE_FROM) :]

    def content(self) -> dict[str, Any]:
        """Returns the steps so far and the state that the next one depends on, for a checkpoint."""
        names = [one.name for one in fields(StepRecord)]
        return {
            **proxy_content(self.proxy, self.domains),
            "generator": self.generator.get_state(),
            "learner": self.learner.state(),
            **{name: getattr(self, name) for name in RUNNING},
            "records": {n: np.array([getattr(one, n) for one in self.records]) for n in names},
        }

    def restore(self, content: Mapping[str, Any]) -> None:
        """Goes on from the `content` of a search of the same options."""
        restore_proxy(self.proxy, self.domains, content)
        self.generator.set_state(content["generator"])
        self.learner.restore(content["learner"])
        for name in RUNNING:
            setattr(self, name, content[name])
        columns = content["records"]
        self.records = [
            StepRecord(**{n: c[i] if c.ndim > 1 else c[i].item() for n, c in columns.items()})
            for i in range(len(columns["loss"]))
        ]

    def step(self) -> StepRecord:
        """Takes one iteration of Algorithm 1; appends its record.

        Raises:
            NonFiniteError: When a loss, a gradient or the posterior is NaN or infinite; it names
                the step and the domain.
        """
        config, domains, proxy = self.config, self.domains, self.proxy
        step = len(self.records)
        if self.signals is None:
            # The state has torch's default dtype, the evidence the proxy's.
            self.losses = self.signals = self.losses_of(domains.names).to(self.g.dtype)
            check_finite("signal", self.signals, step, domains.names)
        signals = self.signals
        with proxy.cost.part("guide"):
            drawn = self.learner.draw(signals)
        check_finite("posterior's shape", drawn.concentration, step, domains.names)
        check_finite("posterior's rate", drawn.rate, step, domains.names)

        counts, factors = schedule(
            config.strategy, drawn.weights, self.batch_sequences, self.generator
        )
        eta, theta = proxy.eta, {name: p.clone() for name, p in proxy.parameters.items()}
        train_loss = self._train(counts, factors)

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

    def _train(self, counts: Tensor, factors: Tensor) -> float:
        """Trains one step; returns the batch's mean loss before it, nats per token.

        Args:
            counts: Sequences by domain ``(K,)``.
            factors: Of each domain's losses ``(K,)``, in the step but not in what is returned.
        """
        names = self.domains.names
        batch = self.domains.train_batch(dict(zip(names, counts.tolist(), strict=True)))
        weighting = None if bool((factors == 1).all()) else factors.repeat_interleave(counts)
        losses = self.proxy.step(batch, weighting).cpu()  # (B,)
        owners = np.repeat(np.array(names), counts.numpy())
        check_finite("training loss", losses, len(self.records), owners)
        return losses.mean().item()

    def losses_of(self, names: Sequence[str]) -> Tensor:
        """Returns the losses ``(m,)`` of domains on fresh small batches, nats per token."""
        batch = self.domains.signal_batch(self.config.signal_sequences, names)
        with self.proxy.cost.part("signals"), torch.no_grad():
            return self._mean_losses(batch, "signals", None).cpu().float()

    def evidence(
        self, names: Sequence[str], theta: core.Parameters, eta: float
    ) -> tuple[Tensor, Tensor, float]:
        """Measures around the parameters before a step, along the gradient after it.

        Args:
            names: The m domains.
            theta: The parameters before the step.
            eta: The step's size.

        Returns:
            The losses ``(m,)`` around theta; g ``(m,)``, positive where training on the domain
            lowers the validation loss; the validation loss; all in nats per token.
        """
        proxy, config = self.proxy, self.config
        with proxy.cost.part("validation"):
            held_out, of_tokens = self.domains.validation_batch(config.validation_batch)
            validation_loss, direction = proxy.gradient(held_out, "validation", weights=of_tokens)
        with proxy.cost.part("hypergradient"):
            batch = self.domains.signal_batch(config.signal_sequences, names)

            def losses(perturbed: core.Parameters) -> Tensor:
                return self._mean_losses(batch, "hypergradient", perturbed)

            found = core.finite_difference(losses, theta, direction, eta)
        own, g = torch.stack(found).cpu().float()  # read at once
        return own, g, validation_loss

    def _mean_losses(self, batch: Tensor, part: str, theta: core.Parameters | None) -> Tensor:
        losses = self.proxy.losses(batch, part, theta, full_precision=True)  # (m n,)
        return losses.view(-1, self.config.signal_sequences).mean(1)  # (m,)


def _measure(
    state: LinearSearch, signals: Tensor, theta: core.Parameters, eta: float
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
    losses, g, validation_loss = state.evidence(labels, theta, eta)
    check_finite("validation loss", torch.tensor([validation_loss]), step, ["validation"])
    check_finite("signal", losses, step, labels)
    check_finite("hypergradient", g, step, labels)

    losses, g = losses.to(state.g.dtype), g.to(state.g.dtype)
    estimate = state.g.clone()
    estimate[chosen] += count / len(chosen) * (g - state.g[chosen])
    state.g = state.g.index_put((chosen,), g)
    state.losses = state.losses.index_put((chosen,), losses)
    smoothed = torch.lerp(losses, signals[chosen], SIGNAL_AVERAGE)
    state.signals = signals.index_put((chosen,), smoothed)
    return estimate, validation_loss


def _update(state: LinearSearch, signals: Tensor, g: Tensor) -> tuple[float, float]:
    """Updates the learner; returns the KL term's weight and the loss, nats per token."""
    spread = max(state.g.std().item(), torch.finfo(state.g.dtype).tiny)
    previous = spread if state.g_spread is None else state.g_spread
    state.g_spread = spread = 0.95 * previous + 0.05 * spread
    lam = state.config.kl_weight * spread
    learn = len(state.records) >= state.config.guide_warmup
    # In units of g's spread, so that the clipping of Adam does not depend on eta.
    return lam, state.learner.update(signals, g / spread, lam / spread, learn=learn) * spread
