"""Questions to a search that has been made: another target, other domains, a given mixture.

The rounds of the search have measured the domains. A target needs nothing but its own gradients at
the proxies of the rounds, and so does a domain that was added or whose text has changed.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_type_hints

import numpy as np
import torch
from torch import Tensor

from bydore_pyro.core import best_for_mean, best_for_worst, central_weights, given_away
from bydore_pyro.data import Domains
from bydore_pyro.runs.inputs import belongs_of, domains_of, load_domains
from bydore_pyro.runs.options import Options
from bydore_pyro.runs.question import Question, TargetAnswer
from bydore_pyro.search import read_measurements
from bydore_pyro.utils import DataError, Tokens, option, options_of, require_fields

__all__ = ["AskConfig", "Asked", "ask", "compromise", "shortfall"]


@dataclass(frozen=True, kw_only=True)
class AskConfig:
    """What is asked of a search.

    Raises:
        ValueError: When an option is out of its range, a target stands twice, or options exclude
            each other.
    """

    validation: list[str] = option(
        [],
        "Target, as for bydore search: domains of the data as NAME or NAME=SHARE, or files of "
        "rows. Default: the run's own.",
    )
    each: bool = option(
        False, "Take each of --validation for a target of its own, and find a compromise."
    )
    objective: Literal["mean", "worst"] = option(
        "mean", "With --each: nearest to the targets in the mean, or to the worst of them."
    )
    drop: list[str] = option([], "Domains of the run that are not to be trained on.")
    add: list[str] = option(
        [],
        "Token stores (bydore prepare --tokenizer, the run's) whose domains are to be trained on "
        "too. A domain of the same name replaces the run's.",
    )
    merge: list[str] = option(
        [], "Domains that are to share one weight, each in proportion to its text, as A+B."
    )
    mixture: str | None = option(
        None,
        "Mixture to judge: a run's folder, a file of weights, or a published mixture.",
    )
    target_tokens: Tokens | None = option(
        None, "Length in tokens of the run that the weights are for, as for bydore search.", above=0
    )
    max_epochs: float | None = option(
        None, "With --target_tokens: most readings of a domain's text, as for bydore search.",
        above=0,
    )  # fmt: skip
    trials: int = option(
        0, "Trial runs, as for bydore search, of the answer for one target.", least=0, most=100
    )
    validation_sequences: int | None = option(
        None,
        "Maximum number of sequences of a target that are measured. Default: 256, with --each 128.",
        least=16,
    )
    data: str | None = option(
        None,
        "Where the run's text lies now. Domains whose text has changed are measured anew. "
        "Default: where it lay.",
    )

    def __post_init__(self) -> None:
        require_fields(self)
        if len(set(self.validation)) < len(self.validation):
            raise ValueError(f"Expected different targets, found {' '.join(self.validation)}")
        if self.max_epochs is not None and self.target_tokens is None:
            raise ValueError("Expected --target_tokens with --max_epochs, found none")
        for name in ("mixture", "trials"):
            if self.merge and getattr(self, name):
                raise ValueError(f"Expected --merge or --{name}, found both")
        if self.each and self.trials:
            raise ValueError("Expected --each or --trials, found both: trials are for one target")


@dataclass(frozen=True)
class Asked:
    """The answers of a question.

    Attributes:
        options: Those of the search, with the question's domains and validation set.
        domains: The text.
        targets: One answer each.
        anew: The domains that were measured for this question.
        members: Share of each group's weight that a domain has ``(G, K)``.
    """

    options: Options
    domains: Domains
    targets: tuple[TargetAnswer, ...]
    anew: tuple[str, ...]
    members: Tensor


def ask(run: Path, config: AskConfig, out: Path) -> Asked:
    """Answers a question from what a search has measured.

    Args:
        run: The search's folder.
        config: The question.
        out: A folder for finished trial runs.

    Raises:
        DataError: When the folder is no search's that kept its measurements, or see
            `load_domains`.
    """
    options = _options_of_run(run, config)
    whole = load_domains(options, config.add)
    kept = read_measurements(run, belongs_of(options, whole))
    names = _remaining(whole.names, config.drop)
    entries = options.run.validation
    targets = [[entry] for entry in entries] if config.each else [list(entries)]
    run_options = dataclasses.replace(options.run, domains=names)
    chosen = dataclasses.replace(options, run=run_options)
    asked = {
        ", ".join(entry.partition("=")[0] for entry in target): domains_of(
            dataclasses.replace(chosen, run=dataclasses.replace(run_options, validation=target)),
            *(whole.corpus, options.run.seed),
            measured=options.search.measured_sequences(len(names)),
        )
        for target in targets
    }
    question = Question(chosen, config.merge, asked, out)
    evidence = question.evidence(kept)
    answers = [question.answer(name, found) for name, found in evidence.items()]
    domains = next(iter(asked.values()))
    return Asked(chosen, domains, tuple(answers), tuple(question.anew(kept[0])), question.members)


def _options_of_run(run: Path, config: AskConfig) -> Options:
    """Returns the options of a search, with the question's target."""
    try:
        parts = json.loads((run / "config.json").read_text(encoding="utf-8"))
        options = options_of({part: parts[part] for part in get_type_hints(Options)}, Options)
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise DataError(f"Expected a search's folder, found {run}: {error}") from None
    own = dataclasses.replace(
        options.run,
        validation=list(config.validation or options.run.validation),
        target_tokens=None if config.target_tokens is None else [config.target_tokens],
        max_epochs=config.max_epochs,
        validation_sequences=config.validation_sequences or (128 if config.each else 256),
        data=config.data or options.run.data,
        log="none",
    )
    search = dataclasses.replace(options.search, trials=config.trials)
    return dataclasses.replace(options, run=own, search=search)


def _remaining(names: Sequence[str], dropped: Sequence[str]) -> list[str]:
    for name in dropped:
        if name not in names:
            raise DataError(f"Expected a domain of the run ({', '.join(names)}), found '{name}'")
    left = [name for name in names if name not in dropped]
    if len(left) < 2:
        raise DataError(f"Expected at least two domains after --drop, found {len(left)}")
    return left


def compromise(asked: Asked, objective: str) -> Tensor:
    """Returns one mixture of groups ``(G,)`` for several targets: for their mean, or the worst."""
    shares = [one.composition / one.composition.sum(1, keepdim=True) for one in asked.targets]
    u = torch.stack([central_weights(draws) for draws in shares])
    found = best_for_mean if objective == "mean" else best_for_worst
    return found(asked.targets[0].matching.gram, u)


def shortfall(target: TargetAnswer, weights: Tensor) -> np.ndarray:
    """Returns which share in [0, 1] a mixture leaves of what the best one explains of a target.

    Args:
        target: The answer.
        weights: Of the mixture, of groups ``(G,)``.

    Returns:
        The median, and the ends of a 94 % interval, ``(3,)``, of draws of the posterior.
    """
    lost = given_away(target.matching.gram, target.composition, weights.double())
    return np.quantile(lost.numpy(), [0.5, 0.03, 0.97])
