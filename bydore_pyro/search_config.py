"""The options of a search."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from bydore_pyro.config_checks import require_finite, warn_idle
from bydore_pyro.scheduling import STRATEGIES, Strategy

__all__ = ["Learner", "SearchConfig"]

Learner = Literal["bayesian", "point", "exponentiated"]


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """How the posterior over the weights is learned. The defaults were measured; see
    `experiments/README.md`."""

    steps: int = field(default=400, metadata={"help": "Steps of the search."})
    batch_sequences: int = field(default=32, metadata={"help": "Sequences in a training batch."})
    signal_sequences: int = field(
        default=1, metadata={"help": "Sequences of every domain in the signals' batch."}
    )
    signal_domains: int = field(
        default=32,
        metadata={
            "help": "Most domains that are measured in a step; of more, a random subset is, and g "
            "stays unbiased."
        },
    )
    update_every: int = field(
        default=1, metadata={"help": "Steps of the proxy between two measurements and updates."}
    )
    strategy: Strategy = field(
        default="intra_sampling",
        metadata={
            "help": "How the weights become a batch: they share out its sequences or choose its "
            "one domain (sampling), or they weigh the losses of uniform ones (weighting)."
        },
    )
    learner: Learner = field(
        default="bayesian",
        metadata={
            "help": "What is learned: the posterior; for comparison a point on the simplex, by the "
            "same network or by DoReMi's multiplicative update."
        },
    )
    hypergradient: Literal["finite_difference", "forward_mode"] = field(
        default="finite_difference",
        metadata={"help": "g by two perturbed passes, or exactly, by a Jacobian-vector product."},
    )
    validation_batch: int = field(
        default=12, metadata={"help": "Sequences in the batch of the validation gradient."}
    )
    guide_warmup: int = field(
        default=30,
        metadata={
            "help": "Steps of the proxy under the initial posterior before the guide is updated."
        },
    )
    guide_learning_rate: float = field(
        default=0.1,
        metadata={"help": "First step size gamma of the domains' biases in the guide (Adam)."},
    )
    network_learning_rate: float = field(
        default=3e-4, metadata={"help": "The same for the rest of the prior network."}
    )
    guide_learning_rate_decay: float = field(
        default=0.3,
        metadata={"help": "Share of both step sizes that is left at the last step, in (0, 1]."},
    )
    kl_scale: Literal["relative", "absolute"] = field(
        default="relative",
        metadata={
            "help": "'relative': kl_weight is a multiple of the running spread of g over the "
            "domains. 'absolute': it is the paper's lambda, in nats per token."
        },
    )
    kl_weight: float = field(default=0.001, metadata={"help": "Weight of the KL term."})
    kl: Literal["exact", "bound"] = field(
        default="exact",
        metadata={"help": "KL of the guide: exact up to sampling, or its upper bound."},
    )
    moment: Literal["exact", "ratio"] = field(
        default="exact", metadata={"help": "E_q[w] by the exact integral or the paper's ratio."}
    )
    epsilon_rule: Literal["paper", "darts", "auto"] = field(
        default="darts",
        metadata={
            "help": "Finite difference's step: 0.01 / |theta|, 0.01 / |D|, or where truncation and "
            "round-off balance, found anew every 50 measurements."
        },
    )
    signal_average: float = field(
        default=0.9, metadata={"help": "Decay of the running average of the signals, in [0, 1)."}
    )
    average_from: float = field(
        default=0.5,
        metadata={"help": "The result averages the posterior from this share of the steps on."},
    )
    tolerance: float = field(
        default=0.0,
        metadata={
            "help": "Stop when the averaged weights of two successive windows differ by less than "
            "this total variation; 0 runs all steps."
        },
    )
    tolerance_window: int = field(
        default=100, metadata={"help": "Steps of the windows that the tolerance compares."}
    )

    def __post_init__(self) -> None:
        require_finite(self)
        for name in (
            "steps",
            "batch_sequences",
            "signal_sequences",
            "validation_batch",
            "tolerance_window",
            "signal_domains",
            "update_every",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"Expected {name} >= 1, actual {getattr(self, name)}")
        for name in ("guide_learning_rate", "network_learning_rate", "kl_weight"):
            if not 0 < getattr(self, name) <= 1e6:
                raise ValueError(f"Expected {name} in (0, 1e6], actual {getattr(self, name)}")
        if not 0 <= self.guide_warmup < self.steps:
            raise ValueError(
                f"Expected guide_warmup in [0, steps = {self.steps}), actual {self.guide_warmup}"
            )
        if not 0 < self.guide_learning_rate_decay <= 1:
            raise ValueError(
                "Expected guide_learning_rate_decay in (0, 1], actual "
                f"{self.guide_learning_rate_decay}"
            )
        for name in ("signal_average", "average_from"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"Expected {name} in [0, 1), actual {getattr(self, name)}")
        if not self.tolerance >= 0:
            raise ValueError(f"Expected tolerance >= 0, actual {self.tolerance}")
        for name, choices in (
            ("kl_scale", ("relative", "absolute")),
            ("kl", ("exact", "bound")),
            ("moment", ("exact", "ratio")),
            ("epsilon_rule", ("paper", "darts", "auto")),
            ("strategy", STRATEGIES),
            ("learner", get_args(Learner)),
            ("hypergradient", ("finite_difference", "forward_mode")),
        ):
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"Expected {name} one of {choices}, actual {getattr(self, name)!r}"
                )
        if self.learner != "bayesian":
            warn_idle(self, ("kl", "kl_weight", "kl_scale", "moment"), f"learner {self.learner}")
        if self.hypergradient == "forward_mode":
            warn_idle(self, ("epsilon_rule",), "hypergradient forward_mode")
        if self.tolerance == 0:
            warn_idle(self, ("tolerance_window",), "tolerance 0")
