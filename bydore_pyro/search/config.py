"""The options of a search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bydore_pyro.proxy import Strategy
from bydore_pyro.utils import option, require_fields, warn_idle

__all__ = ["Learner", "SearchConfig"]

MOST_SEQUENCES, FEWEST_SEQUENCES = 8192, 16  # measured in a round: in all, of a domain
# Without those that --smoke sets for either.
OF_MATCHING = ("train_share", "sketch_size", "trial_share")
OF_LINEAR = ("signal_sequences", "signal_domains", "guide_learning_rate", "kl_weight", "learner")
# Final step sizes of the guide, as a share of the initial ones; the share of the steps after which
# the result starts to average the posterior.
GUIDE_DECAY, AVERAGE_FROM = 0.3, 0.5
Learner = Literal["bayesian", "point", "exponentiated"]


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """How the posterior over the weights is learned. The defaults were measured; see
    `docs/results.md`.

    Raises:
        ValueError: When an option is out of its range, `check_sequences` is 1, a round has no
            step, or `guide_warmup` leaves no step.
    """

    evidence: Literal["matching", "linear"] = option(
        "matching",
        "Evidence from which the weights are learned. 'matching' trains the proxy on equal "
        "weights, measures the gradients of all domains in a few rounds and finds the mixture "
        "whose gradient matches that of the validation set. 'linear' is the paper's Algorithm 1: "
        "one hypergradient per step. Options whose help begins with 'Matching' or 'Linear' apply "
        "only to that evidence.",
    )
    steps: int = option(
        400,
        "Steps of the search, or of a training of the proxy. In a search by matching the proxy "
        "trains for a share of them.",
        least=1,
    )
    rounds: int = option(
        3, "Matching: number of rounds in which gradients are measured, evenly spaced.", least=1
    )
    train_share: float = option(
        0.42,
        "Matching: share of --steps after which the last round comes, in (0, 1].",
        above=0,
        most=1,
    )
    round_sequences: int = option(
        128,
        "Matching: number of sequences of each domain that a round measures. It is reduced, but "
        "not below 16, if all domains together would have more than 8,192.",
        least=2,
    )
    sketch_size: int = option(
        4096, "Matching: number of values to which a sequence's gradient is reduced.", least=1
    )
    inference_steps: int | None = option(
        None,
        "Matching: maximum number of steps of inference (SVI), which stops earlier if its loss "
        "has settled. Default: the limit of InferenceConfig.",
        least=1,
    )
    check_sequences: int = option(
        32,
        "Matching: number of new sequences of each domain on which the result is checked, at most "
        "as many as a round measures; 0 turns the check off.",
        least=0,
    )
    trials: int = option(
        3,
        "Matching: number of trial runs after the search. Each trains a fresh proxy on the mixture "
        "for a step of another length; their losses on the target weigh the lengths. 0 trains none "
        "and takes the whole step.",
        least=0,
        most=100,
    )
    trial_share: float = option(
        0.6, "Matching: length of a trial run, as a share of --steps, in (0, 1].", above=0, most=1
    )
    batch_sequences: int = option(32, "Sequences in a training batch.", least=1)
    signal_sequences: int = option(
        1, "Linear: sequences of each domain in the batch that measures the signals and g.", least=1
    )
    signal_domains: int = option(
        32,
        "Linear: maximum number of domains that a step measures. If there are more, each step "
        "measures a random subset; g stays unbiased.",
        least=1,
    )
    strategy: Strategy = option(
        "intra_sampling",
        "How weights are turned into batches. Sampling: they allocate a batch's sequences "
        "(intra) or choose the one domain of a batch (inter). Weighting: they multiply the "
        "losses of uniform batches.",
    )
    learner: Learner = option(
        "bayesian",
        "Linear: what is learned, the posterior ('bayesian') or, for comparison, a point on the "
        "simplex, by the same network ('point') or by DoReMi's multiplicative update "
        "('exponentiated').",
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

    def __post_init__(self) -> None:
        require_fields(self)
        if self.check_sequences == 1:
            raise ValueError("Expected check_sequences 0 or >= 2, actual 1")
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
            warn_idle(self, ("kl_weight",), f"learner {self.learner}")

    @property
    def trained_steps(self) -> int:
        """Steps of the proxy in the whole search, at most."""
        if self.evidence == "linear":
            return self.steps
        return max(1, round(self.train_share * self.steps))

    @property
    def has_trials(self) -> bool:
        """Whether trial runs follow the search."""
        return self.trials > 0 and self.evidence == "matching"

    @property
    def trial_steps(self) -> int:
        """Steps of a trial run."""
        return max(1, round(self.trial_share * self.steps))

    @property
    def guide_decay(self) -> float:
        """Factor of the guide's step sizes, an update, > 0."""
        return GUIDE_DECAY ** (1 / (self.steps - self.guide_warmup))

    @property
    def measured_steps(self) -> tuple[int, ...]:
        """The steps after which a search by matching measures; the last is its last."""
        return tuple(
            round(self.trained_steps * number / self.rounds) for number in range(1, self.rounds + 1)
        )

    def sequences_of_round(self, num_domains: int) -> int:
        """Returns how many sequences a round measures of each domain."""
        few = max(FEWEST_SEQUENCES, MOST_SEQUENCES // num_domains)
        return min(self.round_sequences, few)

    def sequences_of_check(self, num_domains: int) -> int:
        """Returns how many fresh sequences of each domain the result is checked on."""
        return min(self.check_sequences, self.sequences_of_round(num_domains))

    def measured_sequences(self, num_domains: int) -> int:
        """Returns how many sequences of each domain a search measures, and checks at its end; 0 by
        linear evidence."""
        if self.evidence == "linear":
            return 0
        return self.rounds * self.sequences_of_round(num_domains) + self.sequences_of_check(
            num_domains
        )
