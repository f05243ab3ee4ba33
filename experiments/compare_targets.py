"""What the mixtures of a comparison are to be good for: the targets by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from common import require_judged

from bydore_pyro.command_line import TokenCount
from bydore_pyro.data import TokenStore, cut_store, with_validation_file
from bydore_pyro.errors import DataError
from bydore_pyro.setup import Options, load_domains

T = TypeVar("T", bound=Options)
WITHHELD = "withheld:"  # before a domain's name: that domain is the target, and not trained on
QUESTIONS = Path(__file__).parent / "files" / "questions.jsonl"


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a mixture is to be good for.

    Attributes:
        validation: Shares of held-out text by domain; all domains equally when empty.
        domains: To train on; all when None.
        withheld: Whether the validation's own domains are not trained on.
        scarce: Sequences of training text that the target's domains are cut to, None for all.
        file: A file of rows, whose text is the target; `validation` names it.
    """

    validation: Mapping[str, float]
    domains: tuple[str, ...] | None = None
    withheld: bool = False
    scarce: int | None = None
    file: Path | None = None

    @property
    def has_own(self) -> bool:
        """Whether the domains to train on hold text of the target's own kind."""
        return bool(self.validation) and not self.withheld and self.file is None


TARGETS: dict[str, Target] = {
    "case1": Target(validation={"docstrings": 1.0}),
    "case2": Target(validation={"docstrings": 1.0}, domains=("python", "licences")),
    "planted": Target(validation={"docstrings": 0.5, "c_headers": 0.3, "stubs": 0.2}),
    "dense": Target(validation={"python": 0.3, "text": 0.25, "json": 0.25, "c_source": 0.2}),
    "all": Target(validation={}),
    "scarce": Target(validation={"readmes": 1.0, "json": 1.0, "licences": 1.0}, scarce=150),
    "several": Target(validation={"docstrings": 1.0, "readmes": 1.0, "json": 1.0}, withheld=True),
    "questions": Target(validation={"questions": 1.0}, file=QUESTIONS),
}


def target_named(name: str) -> Target:
    """Returns one of `TARGETS`, or a domain of the data that is withheld: ``withheld:NAME``.

    Raises:
        ValueError: When there is none of that name.
    """
    domain = name.removeprefix(WITHHELD)
    if domain and domain != name:
        return Target(validation={domain: 1.0}, withheld=True)
    if name not in TARGETS:
        raise ValueError(f"Expected one of {', '.join(TARGETS)}, {WITHHELD}DOMAIN, found '{name}'")
    return TARGETS[name]


def require_different(names: Sequence[str]) -> None:
    """Refuses a list of an option that is empty, or in which a name stands twice."""
    if len(set(names)) < len(names) or not names:
        raise ValueError(f"Expected different names, found {' '.join(names) or 'none'}")


def require_targets(names: Sequence[str]) -> None:
    """Refuses a list of targets that is empty, or has an unknown one or one twice."""
    for name in names:
        target_named(name)
    require_different(names)


def text_of_targets(options: Options, names: Sequence[str]) -> TokenStore:
    """Checks what can be checked before anything long starts, and loads the text of all targets.

    Raises:
        DataError: When the data lacks the domain of a target, or see `load_domains`.
    """
    targets = [target_named(name) for name in names]
    needed = [n for target in targets if target.file is None for n in target.validation]
    validation = needed[:1] or [str(target.file or "all") for target in targets]
    question = replace(options.question, validation=validation)
    corpus = load_domains(replace(options, question=question)).corpus
    for name in needed:
        if name not in corpus.names:
            raise DataError(
                f"Expected a domain of the data ({', '.join(corpus.names)}), found '{name}'"
            )
    for target in targets:
        require_judged(*posed(options, corpus, target))
    return corpus


def posed(options: T, corpus: TokenStore, target: Target) -> tuple[T, TokenStore]:
    """Returns the options and the text on which a target is to be reached; a file's is parted.

    Where text is scarce, methods are told how long the fresh models' run is.
    """
    tokens = options.question.target_tokens
    if target.scarce is not None:
        tokens = TokenCount(options.search.steps * options.batch_tokens)
        most = target.scarce * options.run.sequence_length
        corpus = cut_store(corpus, dict.fromkeys(target.validation, most))
    if target.file is not None:
        if not set(target.validation) <= set(corpus.names):
            corpus = with_validation_file(corpus, target.file)
        corpus = corpus.with_judged(target.validation)
    validation = [f"{domain}={share}" for domain, share in target.validation.items()]
    domains = list(target.domains) if target.domains else options.run.domains
    if target.withheld:
        known = domains or [n for n, tokens in corpus.train.items() if len(tokens)]
        domains = [n for n in known if n not in target.validation]
    question = replace(options.question, validation=validation or ["all"], target_tokens=tokens)
    run = replace(options.run, domains=domains)
    return replace(options, run=run, question=question), corpus
