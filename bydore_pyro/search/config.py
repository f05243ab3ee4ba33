"""The options of a search."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from bydore_pyro.proxy import Strategy
from bydore_pyro.utils import require_fields, warn_idle

__all__ = ["Learner", "SearchConfig"]

MOST_SEQUENCES, FEWEST_SEQUENCES = 8192, 16  # measured in a round: in all, of a domain
OF_MATCHING = ("train_share", "sketch_size")  # without those that --smoke sets for either
OF_LINEAR = (
    *("signal_sequences", "signal_domains", "update_every", "hypergradient"),
    *("guide_learning_rate", "network_learning_rate", "guide_learning_rate_decay"),
    *("kl_scale", "kl_weight", "kl", "moment", "epsilon_rule", "signal_average", "average_from"),
    *("tolerance", "tolerance_window"),
)
Learner = Literal["bayesian", "point", "exponentiated"]


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """How the posterior over the weights is learned. The defaults were measured; see
    `docs/results.md`."""

    evidence: Literal["matching", "linear"] = field(
        default="matching",
        metadata={
            "help": "What the weights are learned from. 'matching' measures the gradients of all "
            "domains in a few rounds and finds the mixture whose gradient matches that of the "
            "validation set. 'linear' is the paper's Algorithm 1: one hypergradient per step. "
            "Options whose help begins with 'Matching' or 'Linear' apply only to that evidence."
        },
    )
    steps: int = field(
        default=400,
        metadata={
            "help": "Steps of the search. With matching, the proxy trains for --train_share of "
            "them."
        },
    )
    rounds: int = field(
        default=3, metadata={"help": "Matching: how often the search measures, evenly spaced."}
    )
    train_share: float = field(
        default=0.42,
        metadata={"help": "Matching: the last round comes after this share of --steps; (0, 1]."},
    )
    round_sequences: int = field(
        default=128,
        metadata={
            "help": "Matching: sequences of each domain that a round measures, on average. Fewer "
            "if all domains together would have more than 8,192, but at least 16. From the second "
            "round on, half of them are shared out by the weights."
        },
    )
    sketch_size: int = field(
        default=4096,
        metadata={"help": "Matching: how many numbers a sequence's gradient is reduced to."},
    )
    inference_steps: int | None = field(
        default=None,
        metadata={
            "help": "Matching: most steps of inference (SVI) in a round, which stops earlier when "
            "its loss has settled. InferenceConfig's limit if not given."
        },
    )
    check_sequences: int = field(
        default=32,
        metadata={
            "help": "Matching: fresh sequences of each domain on which the result is checked; 0 "
            "checks nothing."
        },
    )
    batch_sequences: int = field(default=32, metadata={"help": "Sequences in a training batch."})
    signal_sequences: int = field(
        default=1, metadata={"help": "Linear: sequences of every domain in the signals' batch."}
    )
    signal_domains: int = field(
        default=32,
        metadata={
            "help": "Linear: most domains that a step measures. If there are more, each step "
            "measures a random subset; g stays unbiased."
        },
    )
    update_every: int = field(
        default=1,
        metadata={"help": "Linear: steps of the proxy between two measurements and updates."},
    )
    strategy: Strategy = field(
        default="intra_sampling",
        metadata={
            "help": "How the weights become a batch. Sampling: they share out its sequences "
            "(intra) or choose its one domain (inter). Weighting: they weigh the losses of uniform "
            "batches."
        },
    )
    learner: Learner = field(
        default="bayesian",
        metadata={
            "help": "What is learned: the posterior ('bayesian'), or for comparison a point on the "
            "simplex, by the same network ('point') or by DoReMi's multiplicative update "
            "('exponentiated')."
        },
    )
    hypergradient: Literal["finite_difference", "forward_mode"] = field(
        default="finite_difference",
        metadata={
            "help": "Linear: compute g by two perturbed passes, or exactly by a Jacobian-vector "
            "product."
        },
    )
    validation_batch: int = field(
        default=12, metadata={"help": "Linear: sequences in the batch of the validation gradient."}
    )
    guide_warmup: int = field(
        default=30,
        metadata={
            "help": "Linear: steps of the proxy under the initial posterior before the "
            "guide is updated."
        },
    )
    guide_learning_rate: float = field(
        default=0.1,
        metadata={
            "help": "Linear: first step size gamma of the domains' biases in the guide (Adam)."
        },
    )
    network_learning_rate: float = field(
        default=3e-4, metadata={"help": "Linear: first step size of the rest of the prior network."}
    )
    guide_learning_rate_decay: float = field(
        default=0.3,
        metadata={
            "help": "Linear: share of both step sizes that is left at the last step, in (0, 1]."
        },
    )
    kl_scale: Literal["relative", "absolute"] = field(
        default="relative",
        metadata={
            "help": "Linear: 'relative': kl_weight is a multiple of the running spread of g over "
            "the domains. 'absolute': kl_weight is the paper's lambda, in nats per token."
        },
    )
    kl_weight: float = field(default=0.001, metadata={"help": "Linear: weight of the KL term."})
    kl: Literal["exact", "bound"] = field(
        default="exact",
        metadata={"help": "Linear: the guide's KL, exact up to sampling, or its upper bound."},
    )
    moment: Literal["exact", "ratio"] = field(
        default="exact",
        metadata={"help": "Linear: E_q[w] by the exact integral or the paper's ratio."},
    )
    epsilon_rule: Literal["paper", "darts", "auto"] = field(
        default="darts",
        metadata={
            "help": "Linear: finite difference's step: 0.01 / |theta|, 0.01 / |D|, or where "
            "truncation and round-off balance, found anew every 50 measurements."
        },
    )
    signal_average: float = field(
        default=0.9,
        metadata={"help": "Linear: decay of the running average of the signals, in [0, 1)."},
    )
    average_from: float = field(
        default=0.5,
        metadata={
            "help": "Linear: the result averages the posterior from this share of the steps on."
        },
    )
    tolerance: float = field(
        default=0.0,
        metadata={
            "help": "Linear: stop when the averaged weights of two successive windows differ by "
            "less than this total variation; 0 runs all steps."
        },
    )
    tolerance_window: int = field(
        default=100, metadata={"help": "Linear: steps of the windows that the tolerance compares."}
    )

    def __post_init__(self) -> None:
        require_fields(self)
        self._check_ranges()
        if self.evidence == "matching":
            if self.trained_steps < self.rounds:
                raise ValueError(
                    f"Expected at least one step per round, actual {self.trained_steps} steps "
                    f"(train_share of steps) for {self.rounds} rounds"
                )
            warn_idle(self, OF_LINEAR, "evidence matching")
            return
        if self.guide_warmup >= self.steps:
            raise ValueError(
                f"Expected guide_warmup in [0, steps = {self.steps}), actual {self.guide_warmup}"
            )
        warn_idle(self, OF_MATCHING, "evidence linear")
        if self.learner != "bayesian":
            warn_idle(self, ("kl", "kl_weight", "kl_scale", "moment"), f"learner {self.learner}")
        if self.hypergradient == "forward_mode":
            warn_idle(self, ("epsilon_rule",), "hypergradient forward_mode")
        if self.tolerance == 0:
            warn_idle(self, ("tolerance_window",), "tolerance 0")

    def _check_ranges(self) -> None:
        for least, names in (
            (0, ("guide_warmup", "check_sequences", "tolerance")),
            (1, ("steps", "batch_sequences", "signal_sequences", "validation_batch")),
            (1, ("tolerance_window", "signal_domains", "update_every", "rounds", "sketch_size")),
            (1, ("inference_steps",)),
            (2, ("round_sequences",)),
        ):
            for name in names:
                value = getattr(self, name)
                if value is not None and not value >= least:
                    raise ValueError(f"Expected {name} >= {least}, actual {value}")
        if self.check_sequences == 1:
            raise ValueError("Expected check_sequences 0 or >= 2, actual 1")
        for name in ("guide_learning_rate", "network_learning_rate", "kl_weight"):
            if not 0 < getattr(self, name) <= 1e6:
                raise ValueError(f"Expected {name} in (0, 1e6], actual {getattr(self, name)}")
        for name in ("guide_learning_rate_decay", "train_share"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"Expected {name} in (0, 1], actual {getattr(self, name)}")
        for name in ("signal_average", "average_from"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"Expected {name} in [0, 1), actual {getattr(self, name)}")

    @property
    def trained_steps(self) -> int:
        """Steps of the proxy in the whole search, at most."""
        if self.evidence == "linear":
            return self.steps
        return max(1, round(self.train_share * self.steps))

    @property
    def guide_decay(self) -> float:
        """Factor of the guide's step sizes, an update; `guide_learning_rate_decay` in all."""
        updates = (self.steps - self.guide_warmup) / self.update_every
        return self.guide_learning_rate_decay ** (1 / updates)

    @property
    def measured_steps(self) -> tuple[int, ...]:
        """The steps after which a search by matching measures; the last is its last."""
        return tuple(
            round(self.trained_steps * number / self.rounds) for number in range(1, self.rounds + 1)
        )

    def sequences_of_round(self, num_domains: int) -> int:
        """Returns how many sequences a round measures of each domain, on average."""
        few = max(FEWEST_SEQUENCES, MOST_SEQUENCES // num_domains)
        return min(self.round_sequences, few)

    def measured_sequences(self, num_domains: int) -> int:
        """Returns how many sequences of each domain a search may measure; 0 by linear evidence.

        A later round gives a domain at most half of all its sequences beside its equal share of the
        other half; the check at the end takes fresh ones.
        """
        if self.evidence == "linear":
            return 0
        each = self.sequences_of_round(num_domains)
        largest = math.ceil(each * (num_domains + 1) / 2)
        return each + (self.rounds - 1) * largest + self.check_sequences
