"""The options that say what is asked of a mixture: of `bydore search`, `bydore ask`, `bydore fit`.

`bydore_pyro.setup.question` makes a question of them and of the domains.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bydore_pyro.command_line import Checked, Tokens, option, warn_idle
from bydore_pyro.data import name_of_validation_file, target_and_share
from bydore_pyro.errors import DataError
from bydore_pyro.law import Goal, Objective
from bydore_pyro.setup.places import NATURAL, mixture_anywhere, targets_anywhere

ALL = "all"  # in place of a target's name: every domain that is trained on


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
    objective: Objective = option(
        Goal.objective,
        "What the mixture makes small: 'mean', the targets' mean loss by their shares; 'worst', "
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
        Goal.tolerance,
        "With none_worse: nats per token by which a target may be worse than under the baseline.",
        above=0,
    )
    probability: float = option(
        Goal.probability,
        "With none_worse: probability that no target at all is worse by more.",
        above=0,
        below=1,
    )
    at_least: list[str] = option([], "Smallest weights, as NAME=SHARE.")
    at_most: list[str] = option([], "Largest weights, as NAME=SHARE.")
    target_tokens: Tokens | None = option(
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

    def targets(self) -> dict[str, float]:
        """Returns how much each target counts, by name; a file counts as a domain of its name.

        'all' names none: who names no target asks for every domain (`domains_of`).

        Raises:
            ValueError: When a share is no number, a target stands twice, or there is none.
        """
        if not self.validation:
            raise ValueError(
                "Expected --validation NAME, the domain whose held-out text is the target, found "
                "none"
            )
        if self.validation == [ALL]:
            return {}
        targets: dict[str, float] = {}
        for entry in self.validation:
            named, share = target_and_share(entry)
            name = name_of_validation_file(named) or named
            try:
                value = 1.0 if share is None else float(share)
                if not math.isfinite(value):
                    raise ValueError
            except ValueError:
                raise ValueError(f"Expected --validation NAME=SHARE, found '{entry}'") from None
            if name in targets:
                raise ValueError(f"Expected every validation domain once, found '{name}' twice")
            targets[name] = value
        return targets

    def files(self) -> dict[str, Path]:
        """Returns the files among the targets, by the names of their domains.

        Raises:
            DataError: When a file is of a kind that is not read, or not there.
        """
        files: dict[str, Path] = {}
        for entry in self.validation:
            named, _ = target_and_share(entry)
            name = name_of_validation_file(named)
            if name is not None:
                files[name] = Path(named)
            elif "." in named and Path(named).is_file():
                raise DataError(
                    "Expected a file of rows (.jsonl, .json, .csv, .tsv, .parquet) or of text "
                    f"(.txt) for --validation, found {named}"
                )
        for path in files.values():
            if not path.exists():
                raise DataError(f"Expected a file for --validation, found none: {path}")
        return files

    def anywhere(self) -> Self:
        """Returns options whose files and folders are found from any working directory."""
        return dataclasses.replace(
            self,
            validation=targets_anywhere(self.validation),
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
