"""What a search by gradient matching trains and measures."""

from __future__ import annotations

from dataclasses import dataclass

from bydore_pyro import core
from bydore_pyro.command_line import Checked, option

MAX_SEQUENCES, MIN_SEQUENCES = 8192, 16  # measured in a round: in all, of a domain
# Read in every branch, likewise, and the most of a domain.
MAX_READ, MIN_READ, MOST_READ = 2048, 4, 48
MOST_OF_STEPS = 1 / 8  # steps of a branch, as a share of the search's


@dataclass(frozen=True, kw_only=True)
class MatchingConfig(Checked):
    """How long a proxy trains, when its gradients are measured, and how many trial runs follow.

    Raises:
        ValueError: When an option is out of its range, `branches` is 1 or 2, or `check_sequences`
            is 1.
    """

    steps: int = option(400, "Steps of the search, or of a training of the proxy.", least=1)
    rounds: int = option(
        3,
        "Matching: number of rounds, in which gradients and losses are measured. The last round is "
        "after --steps, each other after half the steps of the next.",
        least=1,
        most=20,
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
    check_sequences: int = option(
        32,
        "Matching: number of sequences of each domain that are set aside to check the result. They "
        "are at most as many as a round measures, and at most a twelfth of the domain. 0 turns the "
        "check off.",
        least=0,
    )
    branches: int = option(
        24,
        "Matching: largest number of branches. After the last round each domain gets a branch: the "
        "proxy trains on it alone for some steps more. How a target responds to the branches says "
        "what it is made of, also where its gradients do not. Of more domains, those whose "
        "gradients are alike share a branch. Two domains have none. 0 turns branches off.",
        least=0,
    )
    branch_steps: int = option(
        20, "Matching: steps of a branch; an eighth of --steps at most.", least=1
    )
    trials: int = option(
        4,
        "Matching: number of trial runs, if the domains do not cover a target text. New proxies "
        "train on the mixture that minimises the law of losses, on the match, and on steps of half "
        "and a quarter of its length. Their losses on the target decide. With 0, the match is the "
        "answer. For tasks whose responses were measured, the law decides.",
        least=0,
        most=4,
    )
    trial_share: float = option(
        0.3, "Matching: length of a trial run, as a share of --steps, in (0, 1].", above=0, most=1
    )
    batch_sequences: int = option(32, "Sequences in a training batch.", least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.branches in (1, 2):
            raise ValueError(f"Expected branches 0 or >= 3, actual {self.branches}")
        if self.check_sequences == 1:
            raise ValueError("Expected check_sequences 0 or >= 2, actual 1")

    @property
    def trial_steps(self) -> int:
        """Steps of a trial run."""
        return max(1, round(self.trial_share * self.steps))

    @property
    def measured_steps(self) -> tuple[int, ...]:
        """The steps after which a search by matching measures: all, half of them, and so on."""
        halvings = range(self.rounds - 1, -1, -1)
        return tuple(max(1, round(self.steps / 2**halving)) for halving in halvings)

    def sequences_of_round(self, num_domains: int) -> int:
        """Returns how many sequences a round measures of each domain."""
        few = max(MIN_SEQUENCES, MAX_SEQUENCES // num_domains)
        return min(self.round_sequences, few)

    def sequences_of_check(self, num_domains: int) -> int:
        """Returns how many sequences of each domain the result is checked on, if it has them."""
        return min(self.check_sequences, self.sequences_of_round(num_domains))

    @property
    def steps_of_branch(self) -> int:
        """Steps of a branch."""
        return max(1, min(self.branch_steps, round(self.steps * MOST_OF_STEPS)))

    def number_of_branches(self, num_domains: int) -> int:
        """Returns how many branches a search measures; of fewer than three none can be left out,
        to see what the others say of it."""
        count = min(self.branches, num_domains)
        return count if count >= core.FEWEST_BRANCHES else 0

    def sequences_of_branches(self, num_domains: int) -> int:
        """Returns how many sequences of each domain are read in every branch."""
        return self.sequences_read(num_domains) if self.number_of_branches(num_domains) else 0

    def sequences_read(self, num_domains: int) -> int:
        """Returns how many sequences of each domain are read, to see how it responds."""
        most = min(MOST_READ, self.sequences_of_round(num_domains))
        return min(most, max(MIN_READ, MAX_READ // num_domains))

    def measured_sequences(self, num_domains: int) -> int:
        """Returns how many sequences of each domain are kept for a search: those that it measures,
        those that it reads in branches, and those that it is checked on."""
        return (
            self.rounds * self.sequences_of_round(num_domains)
            + self.sequences_of_branches(num_domains)
            + self.sequences_of_check(num_domains)
        )
