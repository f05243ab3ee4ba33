"""The options of Algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass

from bydore_pyro import proxy
from bydore_pyro.command_line import Checked, option

GUIDE_DECAY = 0.3  # final step sizes of the guide, as a share of the initial ones


@dataclass(frozen=True, kw_only=True)
class LinearConfig(Checked):
    """How Algorithm 1 measures and learns."""

    signal_sequences: int = option(
        1, "Linear: sequences of each domain in the batch that measures the signals and g.", least=1
    )
    signal_domains: int = option(
        32,
        "Linear: maximum number of domains that a step measures. If there are more, each step "
        "measures a random subset; g stays unbiased.",
        least=1,
    )
    strategy: proxy.Strategy = option(
        "intra_sampling",
        "Linear: how weights are turned into batches. Sampling: they allocate a batch's sequences "
        "(intra) or choose the one domain of a batch (inter). Weighting: they multiply the "
        "losses of uniform batches.",
    )
    validation_batch: int = option(
        12, "Linear: sequences in the batch of the validation gradient.", least=1
    )
    guide_warmup: int = option(
        30,
        "Linear: steps of the proxy under the initial posterior, before the first update of the"
        " guide.",
        least=0,
    )
    guide_learning_rate: float = option(
        0.1,
        "Linear: initial step size of the domains' biases in the guide (Adam).",
        above=0,
        most=1e6,
    )
    kl_weight: float = option(
        0.001,
        "Linear: weight of the KL term, a multiple of the running spread of g over the domains.",
        above=0,
        most=1e6,
    )

    def guide_decay(self, steps: int) -> float:
        """Returns the factor of the guide's step sizes at each update, > 0, in a search of `steps`
        steps, more than `guide_warmup`."""
        return float(GUIDE_DECAY ** (1 / (steps - self.guide_warmup)))
