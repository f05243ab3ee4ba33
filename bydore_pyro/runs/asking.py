"""Questions to a finished search: another target, other domains, a given mixture.

The rounds of the search have measured the domains. A target needs nothing but its own gradients at
the proxies of the rounds, and so does a domain that was added or whose text has changed.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_type_hints

from bydore_pyro.answer import Answer, answer_of
from bydore_pyro.core import Metric, draw_posterior, match
from bydore_pyro.data import Domains, selected
from bydore_pyro.measure import (
    Measurement,
    TargetMeasurement,
    measure,
    read_measurements,
    read_target,
    set_parameters,
)
from bydore_pyro.mixture import require_finished
from bydore_pyro.proxy import Cost, GradientSketch, Proxy
from bydore_pyro.runs.domains import (
    belongs_of,
    domains_of,
    hashes_of,
    language_model,
    load_domains,
    tell_of_few_documents,
)
from bydore_pyro.runs.options import Options
from bydore_pyro.runs.run import question_of
from bydore_pyro.runs.trials import trial_plan
from bydore_pyro.utils import Checked, DataError, Tokens, option, options_of

__all__ = ["AskConfig", "Asked", "ask"]


@dataclass(frozen=True, kw_only=True)
class AskConfig(Checked):
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
    drop_copies: bool = option(
        False, "Leave out documents of --validation that stand in the training text too."
    )
    each: bool = option(
        False, "Take each of --validation for a target of its own, and find a compromise."
    )
    drop: list[str] = option([], "Domains of the run that are not to be trained on.")
    add: list[str] = option(
        [],
        "Token stores (bydore prepare --tokenizer, the run's) whose domains are to be trained on "
        "too. A domain of the same name replaces the run's.",
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
        super().__post_init__()
        if len(set(self.validation)) < len(self.validation):
            raise ValueError(f"Expected different targets, found {' '.join(self.validation)}")
        if self.max_epochs is not None and self.target_tokens is None:
            raise ValueError("Expected --target_tokens with --max_epochs, found none")
        if self.each and self.trials:
            raise ValueError("Expected --each or --trials, found both: trials are for one target")


@dataclass(frozen=True)
class Asked:
    """The answers of a question.

    Attributes:
        domains: The text.
        targets: One answer each, by name.
        anew: The domains that were measured for this question.
    """

    domains: Domains
    targets: Mapping[str, Answer]
    anew: tuple[str, ...]


def ask(run: Path, config: AskConfig, out: Path) -> Asked:
    """Answers a question from what a search has measured.

    Args:
        run: The search's folder.
        config: The question.
        out: A folder for finished trial runs.

    Raises:
        DataError: When the folder is no search's that kept its measurements, or see
            `load_domains`.
        RunFolderError: When the search has not ended.
    """
    options = _options_of_run(run, config)
    require_finished(run)
    if not (run / "measured-1").is_dir():
        raise DataError(
            f"Expected a finished search by matching with its measured-1, found none in {run}"
        )
    whole = load_domains(options, config.add)
    kept = read_measurements(run, belongs_of(options, whole))
    names = _remaining(whole.names, config.drop)
    entries = options.run.validation
    targets = [[entry] for entry in entries] if config.each else [list(entries)]
    run_options = dataclasses.replace(options.run, domains=names)
    options = dataclasses.replace(options, run=run_options)
    asked = {
        ", ".join(entry.partition("=")[0] for entry in target): domains_of(
            dataclasses.replace(options, run=dataclasses.replace(run_options, validation=target)),
            *(whole.corpus, options.run.seed),
            measured=options.measured_sequences(len(names)),
        )
        for target in targets
    }
    for target in asked.values():
        tell_of_few_documents(target)
    domains = next(iter(asked.values()))
    texts = hashes_of(domains)
    anew = tuple(name for name, text in texts.items() if kept[0].hashes.get(name) != text)
    rounds = _rounds(options, asked, kept, anew)
    answers = {n: _answer(options, asked[n], rounds[n], out) for n in asked}
    return Asked(domains, answers, anew)


def _options_of_run(run: Path, config: AskConfig) -> Options:
    """Returns the options of a search, with the question's target."""
    try:
        parts = json.loads((run / "config.json").read_text(encoding="utf-8"))
        if missing := [part for part in get_type_hints(Options) if part not in parts]:
            raise ValueError(f"a run of another version, without options of '{missing[0]}'")
        options = options_of({part: parts[part] for part in get_type_hints(Options)}, Options)
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise DataError(f"Expected a search's folder, found {run}: {error}") from None
    own = dataclasses.replace(
        options.run,
        validation=list(config.validation or options.run.validation),
        drop_copies=config.drop_copies,
        target_tokens=config.target_tokens,
        max_epochs=config.max_epochs,
        validation_sequences=config.validation_sequences or (128 if config.each else 256),
        data=config.data or options.run.data,
    )
    search = dataclasses.replace(options.search, trials=config.trials)
    return dataclasses.replace(options, run=own, search=search)


def _remaining(names: Sequence[str], dropped: Sequence[str]) -> list[str]:
    gone = selected(dropped, names)
    left = [name for name in names if name not in gone]
    if len(left) < 2:
        raise DataError(f"Expected at least two domains after --drop, found {len(left)}")
    return left


def _rounds(
    options: Options,
    asked: Mapping[str, Domains],
    kept: Sequence[Measurement],
    anew: Sequence[str],
) -> dict[str, list[TargetMeasurement]]:
    """Reads every target, and measures unknown domains, where the search measured."""
    from tqdm import tqdm

    search, domains = options.search, next(iter(asked.values()))
    model = language_model(options, domains.corpus.vocabulary, options.run.seed)
    proxy = Proxy(model, options.proxy)
    sketch = GradientSketch(proxy, search.sketch_size, options.run.seed)
    rounds: dict[str, list[TargetMeasurement]] = {name: [] for name in asked}
    each = search.sequences_of_round(domains.num_domains)
    with tqdm(total=len(kept) * len(asked), unit="target", desc="targets") as bar:
        for one in kept:
            set_parameters(proxy, one)
            known = {name: sample for name, sample in one.samples.items() if name not in anew}
            own = measure(sketch, domains, each, one.step, known)
            metric = Metric(list(own.samples.values()))
            for name, target in asked.items():
                rounds[name].append(read_target(sketch, own, target, name=name, metric=metric))
                bar.update()
    return rounds


def _answer(
    options: Options, domains: Domains, rounds: Sequence[TargetMeasurement], out: Path
) -> Answer:
    """Draws from the posterior, makes the trials that were asked for, and answers."""
    found = match([one.evidence for one in rounds])
    drawn = draw_posterior(found, seed=options.run.seed)
    question, plan = question_of(options, domains), trial_plan(options, domains, out / "trials")
    tried = None if plan is None else plan.tried(found, drawn, question, Cost())
    return answer_of(found, drawn, question, tried)
