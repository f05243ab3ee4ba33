"""The options that say what is asked of a mixture: of `bydore search`, `bydore ask`, `bydore fit`.

`bydore_pyro.setup.question` makes a question of them and of the domains.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from bydore_pyro import data, law
from bydore_pyro.command_line import Checked, TokenCount, option, warn_idle
from bydore_pyro.setup.places import NATURAL, absolute, mixture_anywhere

ALL = "all"  # in place of a target's name: every domain that is trained on


class Target(NamedTuple):
    """A target: the domain whose held-out text it is.

    Attributes:
        name: Of the domain; of a file, its own up to the first dot.
        share: How much it counts; those of all targets sum to 1.
        file: That holds the text, as it was named; None where the target is a domain of the data.
    """

    name: str
    share: float
    file: str | None = None

    @classmethod
    def of(cls, entry: str) -> Target:
        """Reads NAME, NAME=SHARE, or a file in place of the name, which may hold "=" itself.

        Raises:
            ValueError: When the share is no number above 0.
        """
        named, share = entry, "1"
        if "=" in entry and not data.name_of_validation_file(entry):
            named, _, share = entry.rpartition("=")
        name = data.name_of_validation_file(named)
        try:
            value = float(share)
        except ValueError:
            value = math.nan
        if not 0 < value < math.inf:
            raise ValueError(f"Expected --validation NAME=SHARE, found '{entry}'")
        return cls(name or named, value, named if name else None)

    def anywhere(self, entry: str) -> str:
        """Returns the entry that it was read from, with its file's absolute path."""
        if self.file is None:
            return entry
        return absolute(self.file) + entry.removeprefix(self.file)


@dataclass(frozen=True, kw_only=True)
class QuestionConfig(Checked):
    """What is asked of a mixture.

    Raises:
        ValueError: When an option is out of its range, a share is no number, or a target or a bound
            stands twice.
    """

    validation: list[str] = option(
        [],
        "Targets: domains whose held-out text is the validation set, as NAME or NAME=SHARE. A file "
        "of rows (.jsonl, .parquet; --text_column names the column) or of text (.txt) can be given "
        "instead of a domain; its text is never trained on. Shares say how much each counts. "
        "'all': every domain that is trained on, equally. Default: docstrings with --data "
        "environment; of bydore ask, the run's own.",
    )
    drop_copies: bool = option(
        False, "Leave out documents of --validation that also occur in the training text."
    )
    objective: law.Objective = option(
        law.Goal.objective,
        "What the mixture minimises: 'mean', the targets' mean loss by their shares; 'worst', "
        "the loss of the worst target; 'none_worse', the mean, with no target worse than under "
        "--baseline.",
    )
    baseline: str = option(
        NATURAL,
        "Mixture that the answer is compared with: 'natural' (the domains' own sizes; of a sampled "
        "one, that of all its text), 'uniform', "
        "or a run's folder, a file of weights, a published mixture.",
    )
    tolerance: float = option(
        law.Goal.tolerance,
        "With none_worse: nats per token by which a target may be worse than under the baseline.",
        above=0,
    )
    probability: float = option(
        law.Goal.probability,
        "With none_worse: probability that all targets stay within the tolerance.",
        above=0,
        below=1,
    )
    at_least: list[str] = option([], "Smallest weights, as NAME=SHARE.")
    at_most: list[str] = option([], "Largest weights, as NAME=SHARE.")
    target_tokens: TokenCount | None = option(
        None,
        "Length in tokens, such as 4e6 or 0.4B, of the run for which the weights are meant. If it "
        "is given, a search by matching accounts for the lower value of repeated text. Default: "
        "the length of the search.",
        above=0,
    )
    max_epochs: float | None = option(
        None,
        "Maximum number of times that the text of a domain may be read in a run of "
        "--target_tokens; weights are capped accordingly. Default: no limit.",
        above=0,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        shares_of(self.at_least)
        shares_of(self.at_most)
        if self.validation:
            self.targets()

    def targets(self) -> tuple[Target, ...]:
        """Returns the targets, their shares of sum 1; none for 'all', which stands for every domain
        that is trained on (`domains_of`).

        Raises:
            ValueError: When a share is no number above 0, a target stands twice, or there is none.
        """
        if not self.validation:
            raise ValueError(
                "Expected --validation NAME, the domain whose held-out text is the target, found "
                "none"
            )
        if self.validation == [ALL]:
            return ()
        found: dict[str, Target] = {}
        for target in map(Target.of, self.validation):
            if target.name in found:
                raise ValueError(
                    f"Expected every validation domain once, found '{target.name}' twice"
                )
            found[target.name] = target
        total = sum(target.share for target in found.values())
        return tuple(target._replace(share=target.share / total) for target in found.values())

    def anywhere(self) -> Self:
        """Returns options whose files and folders are found from any working directory."""
        return dataclasses.replace(
            self,
            validation=[Target.of(entry).anywhere(entry) for entry in self.validation],
            baseline=mixture_anywhere(self.baseline),
        )

    def warn_of_idle(self) -> None:
        """Warns of options that this objective does not ask for."""
        if self.objective != "none_worse":
            warn_idle(self, ("tolerance", "probability"), f"objective {self.objective}")


def shares_of(entries: Sequence[str]) -> dict[str, float]:
    """Returns NAME=SHARE entries by name.

    Raises:
        ValueError: When one is something else, or a name stands twice.
    """
    found: dict[str, float] = {}
    for entry in entries:
        name, _, share = entry.rpartition("=")
        try:
            value = float(share)
        except ValueError:
            value = math.nan
        if not name or not 0 <= value <= 1 or name in found:
            raise ValueError(f"Expected each domain once as NAME=SHARE in [0, 1], found '{entry}'")
        found[name] = value
    return found


@dataclass(frozen=True, kw_only=True)
class AskConfig(Checked):
    """How a search is asked.

    Raises:
        ValueError: When an option is out of its range, or `against` stands without `mixture`.
    """

    text_column: str | None = option(
        None, "Column of the text in files of --validation. Default: the run's own."
    )
    drop: list[str] = option([], "Domains of the run that are not to be trained on.")
    add: list[str] = option(
        [],
        "Token stores (bydore prepare --tokenizer, the run's) whose domains are to be trained on "
        "too. A domain of the same name replaces the run's.",
    )
    mixture: str | None = option(
        None,
        "Mixture whose losses are forecast: a run's folder, a file of weights, or a published "
        "mixture.",
    )
    against: str | None = option(
        None, "With --mixture: the mixture to compare its losses with. Default: the answer."
    )
    trials: int = option(
        0,
        "Trial runs, as for bydore search. For the targets of the run those that it made count "
        "anyway.",
        least=0,
        most=4,
    )
    validation_sequences: int | None = option(
        None,
        "Maximum number of sequences of the targets that are measured. Default: the run's own.",
        least=16,
    )
    data: str | None = option(
        None,
        "Where the run's text lies now. Domains whose text has changed are measured anew. "
        "Default: the original place.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.against is not None and self.mixture is None:
            raise ValueError("Expected --mixture with --against, found none")

    def anywhere(self) -> Self:
        """Returns options whose files and folders are found from any working directory."""
        return dataclasses.replace(
            self,
            add=[absolute(place) for place in self.add],
            mixture=self.mixture and mixture_anywhere(self.mixture),
            against=self.against and mixture_anywhere(self.against),
            data=self.data and absolute(self.data),
        )
