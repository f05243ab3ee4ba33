"""The options that say what is asked of a mixture: of `bydore search`, `bydore ask`, `bydore fit`.

`bydore_pyro.setup.question` makes a question of them and of the domains.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from bydore_pyro import law
from bydore_pyro.command_line import Checked, TokenCount, option, warn_idle
from bydore_pyro.mixture import as_entries
from bydore_pyro.setup.places import NATURAL, absolute, mixture_anywhere
from bydore_pyro.targets import DATA_DIR, HUB, Entry, entries_of

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
        "What the model is to be good at, as NAME or NAME=SHARE; shares say how much each counts. "
        "A domain: its held-out text. A file of rows (.jsonl, .parquet): questions with answers, "
        "chats, requests or samples of an evaluation, of which the answers alone are scored, in "
        "bits per byte; or plain text, also .txt. task:NAME: a task or a group of lm-eval. Options "
        "of one target stand behind commas: FILE,prompt_column=q,answer_column=a=.3, "
        "task:NAME,shots=5, FILE,score=choice. A .yaml file lists targets. 'all': every domain "
        "that is trained on, equally. Default: docstrings with --data environment; of bydore ask, "
        "the run's own.",
    )
    guard: list[str] = option(
        [],
        "Guardrails: what may not get worse than under --baseline by more than --tolerance, and "
        "does not count otherwise. Named as --validation, without shares.",
    )
    prompt_column: str | None = option(
        None,
        "Column of the question, in files of --validation and --guard that do not name their own.",
    )
    answer_column: str | None = option(
        None,
        "Column of the answer, in files of --validation and --guard that do not name their own.",
    )
    data_dir: str | None = option(None, DATA_DIR)
    hub: bool = option(False, HUB)
    drop_copies: bool = option(
        False,
        "Leave out what --validation shares with the training text: documents of the target if it "
        "is text, training documents if it is a task.",
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
        "one, that of all its text; or --domain_tokens), 'uniform', or a run's folder, a file of "
        "weights of any kind, a published mixture.",
    )
    tolerance: float = option(
        law.Goal.tolerance,
        "With none_worse or --guard: by how much a loss may be higher than under the baseline, in "
        "nats per token, of answers in bits per byte.",
        above=0,
    )
    probability: float = option(
        law.Goal.probability,
        "With none_worse or --guard: probability that all that is protected stays within the "
        "tolerance.",
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
    domain_tokens: list[str] = option(
        [],
        "Tokens that there are of each domain in your whole corpus, if --data is not all of it: a "
        "file, such as 'web: 1.3T', or NAME=TOKENS. Epochs, --max_epochs and 'natural' count "
        "these. They are kept with the run.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        shares_of(self.at_least)
        shares_of(self.at_most)
        if self.validation:
            self.targets()
        self.guards()

    def targets(self) -> tuple[Entry, ...]:
        """Returns the targets, their shares of sum 1; none for 'all', which stands for every domain
        that is trained on (`domains_of`).

        Raises:
            DataError: When a list of targets cannot be read.
            ValueError: When an entry says what cannot be, a target stands twice, or there is none.
        """
        if not self.validation:
            raise ValueError(
                "Expected --validation NAME, the domain whose held-out text is the target, found "
                "none"
            )
        if self.validation == [ALL]:
            return ()
        found = self._entries(self.validation)
        if ALL in found and found[ALL].file is found[ALL].task is None:
            raise ValueError(
                f"Expected '{ALL}' alone and without a share, or the names of targets, found "
                f"'{' '.join(self.validation)}'"
            )
        total = sum(target.share for target in found.values())
        return tuple(
            dataclasses.replace(target, share=target.share / total) for target in found.values()
        )

    def guards(self) -> tuple[Entry, ...]:
        """Returns the guards; their shares mean nothing.

        Raises:
            DataError: When a list of guards cannot be read.
            ValueError: When an entry says what cannot be, a guard stands twice, has a share or is a
                target, or the worst target is asked for.
        """
        if not self.guard:
            return ()
        if self.objective == "worst":
            raise ValueError("Expected --objective mean or none_worse with --guard, found worst")
        found = self._entries(self.guard)
        if shared := [name for name, one in found.items() if one.share != 1]:
            raise ValueError(f"Expected --guard without shares, found one of '{shared[0]}'")
        if ALL in found and found[ALL].file is found[ALL].task is None:
            raise ValueError(f"Expected names of guards, found '{ALL}': --objective none_worse")
        if both := [name for name in found if name in self._entries(self.validation)]:
            raise ValueError(
                f"Expected guards that are no targets of --validation, found '{both[0]}' as both"
            )
        return tuple(found.values())

    def texts(self) -> tuple[Entry, ...]:
        """Returns what is read: the targets, and then the guards."""
        return (*self.targets(), *self.guards())

    def _entries(self, named: Sequence[str]) -> dict[str, Entry]:
        """Targets or guards by name; files that name no column have the options'."""
        own = {
            name: value
            for name in ("prompt_column", "answer_column")
            if (value := getattr(self, name)) is not None
        }
        found: dict[str, Entry] = {}
        for one in (one for entry in named for one in entries_of(entry)):
            if one.name in found:
                raise ValueError(
                    f"Expected every target once, found '{one.name}' twice (name= gives one "
                    "another)"
                )
            bare = one.file is not None and not one.columns.named
            found[one.name] = dataclasses.replace(one, **own) if bare else one
        return found

    def anywhere(self) -> Self:
        """Returns options whose files and folders are found from any working directory."""
        return dataclasses.replace(
            self,
            validation=[text for entry in self.validation for text in _anywhere(entry)],
            guard=[text for entry in self.guard for text in _anywhere(entry)],
            data_dir=self.data_dir and absolute(self.data_dir),
            baseline=mixture_anywhere(self.baseline),
            domain_tokens=as_entries(self.domain_tokens),
        )

    def warn_of_idle(self) -> None:
        """Warns of options that this objective does not ask for."""
        if self.objective != "none_worse" and not self.guard:
            warn_idle(self, ("tolerance", "probability"), f"objective {self.objective}")


def _anywhere(entry: str) -> list[str]:
    return [ALL] if entry == ALL else [str(one.anywhere()) for one in entries_of(entry)]


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
    models: list[str] = option(
        [],
        "Folders of two or more models that you already have, as Hugging Face saves them, of the "
        "run's tokenizer: a base, then others that went on from it on known text, or further "
        "checkpoints of its run. By how much the losses of the domains and the targets fall from "
        "the base to each other model says more of what the targets are made of.",
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
        if len(self.models) == 1:
            raise ValueError(
                "Expected two or more folders for --models, the base first, found one: "
                f"{self.models[0]}"
            )
        folders = [os.path.realpath(place) for place in self.models]
        if twice := [p for n, p in enumerate(self.models) if folders[n] in folders[:n]]:
            raise ValueError(f"Expected every folder once for --models, found again: {twice[0]}")

    def anywhere(self) -> Self:
        """Returns options whose files and folders are found from any working directory."""
        return dataclasses.replace(
            self,
            add=[absolute(place) for place in self.add],
            models=[absolute(place) for place in self.models],
            mixture=self.mixture and mixture_anywhere(self.mixture),
            against=self.against and mixture_anywhere(self.against),
            data=self.data and absolute(self.data),
        )
