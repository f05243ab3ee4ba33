"""A proxy trains on equal weights; at some of its steps all domains are measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from bydore_pyro import data
from bydore_pyro.measure.config import MatchingConfig
from bydore_pyro.measure.measurement import Measurement, measure
from bydore_pyro.measure.readings import read_losses
from bydore_pyro.proxy import GradientSketch, Proxy, train_on_mixture


@dataclass(frozen=True)
class MeasuredStep:
    """One step of the proxy.

    Attributes:
        loss: Of its batch, before it, nats per token.
        measured: What was measured after it, None where nothing was.
    """

    loss: float
    measured: Measurement | None


def measured_training(
    domains: data.Domains,
    proxy: Proxy,
    sketch: GradientSketch,
    config: MatchingConfig,
    *,
    seed: int = 0,
    cluster: str | None = None,
) -> Iterator[MeasuredStep]:
    """Trains a proxy on equal weights; measures and reads the domains after steps of the options.

    The step size is constant after the warm-up, so that the run up to any step is itself a shorter
    run.

    Args:
        domains: Where batches come from, with sequences that are kept for measuring.
        proxy: Before any of its steps; it takes those that are left.
        sketch: Of its gradients.
        config: Steps and rounds.
        seed: Of the batches' counts.
        cluster: See `measure`.

    Raises:
        NonFiniteError: When a loss or a gradient is NaN or infinite.
        ValueError: When the domains keep no sequences for measuring.
    """
    domains.measurable()
    equal = dict.fromkeys(domains.names, 1 / domains.num_domains)
    each = config.sequences_of_round(domains.num_domains)
    training = train_on_mixture(
        domains, proxy, equal, config.steps, config.batch_sequences, seed=seed
    )
    for number, loss in enumerate(training, proxy.steps + 1):
        measured = None
        if number in config.measured_steps:
            with proxy.cost.part("gradients"):
                measured = measure(sketch, domains, each, number, cluster=cluster)
            kept = {name: value.clone() for name, value in measured.parameters.items()}
            losses = read_losses(proxy, domains)
            measured = dataclasses.replace(measured, parameters=kept, held_out=losses)
        yield MeasuredStep(loss, measured)
