"""Questions to a finished search: other targets, other aims, other domains, a given mixture.

The rounds of the search have measured the domains, and all its proxies were read on every domain.
A target needs nothing but its own gradients at the proxies of the rounds, and so does a domain that
was added or whose text has changed; of these no run knows what they are worth, so that the law of
losses has nothing to say where there are any.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, get_type_hints

import torch
from torch import Tensor

from bydore_pyro.answer import Answer, Outlook, Question, TriedSteps, outlook_of
from bydore_pyro.command_line import Checked, Tokens, option, options_of
from bydore_pyro.data import Domains, gathered, selected
from bydore_pyro.errors import DataError, RunFolderError, expecting
from bydore_pyro.files import read_as
from bydore_pyro.measure import (
    Measurement,
    TargetMeasurement,
    measure,
    read_measurements,
    read_readings,
    read_target,
    set_parameters,
)
from bydore_pyro.mixture import REPETITION_CONSTANT, Mixture, mixture_from, require_finished
from bydore_pyro.proxy import Cost, GradientSketch, Proxy
from bydore_pyro.search import answered, trial_plan, tried_before
from bydore_pyro.setup import (
    KNOWN,
    GoalConfig,
    Metrics,
    Options,
    absolute,
    belongs_of,
    common_metrics,
    forecasts,
    hashes_of,
    is_finished,
    language_model,
    load_domains,
    mixture_anywhere,
    question_of,
    search_domains,
    targets_anywhere,
    targets_of,
    tell_cautions,
    weights_of,
)

GIVEN = "given_mixture.json"  # in an answer's folder: the mixture that was asked about


@dataclass(frozen=True, kw_only=True)
class AskConfig(Checked):
    """What is asked of a search.

    Raises:
        ValueError: When an option is out of its range, a target stands twice, or options exclude
            each other.
    """

    validation: list[str] = option(
        [],
        "Targets, as for bydore search: domains of the data as NAME or NAME=SHARE, files of rows "
        "or of text, or 'all'. Default: the run's own.",
    )
    text_column: str | None = option(
        None, "Column of the text in files of --validation. Default: the run's own."
    )
    drop_copies: bool = option(
        False, "Leave out documents of --validation that stand in the training text too."
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
        None, "With --mixture: the mixture to compare its losses with. Default: the answer.",
    )  # fmt: skip
    target_tokens: Tokens | None = option(
        None, "Length in tokens of the run that the weights are for, as for bydore search.", above=0
    )
    max_epochs: float | None = option(
        None, "With --target_tokens: most readings of a domain's text, as for bydore search.",
        above=0,
    )  # fmt: skip
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
        "Default: where it lay.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.validation)) < len(self.validation):
            raise ValueError(f"Expected different targets, found {' '.join(self.validation)}")
        if self.max_epochs is not None and self.target_tokens is None:
            raise ValueError("Expected --target_tokens with --max_epochs, found none")
        if self.against is not None and self.mixture is None:
            raise ValueError("Expected --mixture with --against, found none")

    def anywhere(self) -> Self:
        """Returns a question whose files and folders are found from any working directory."""
        return dataclasses.replace(
            self,
            validation=targets_anywhere(self.validation),
            add=[absolute(place) for place in self.add],
            mixture=self.mixture and mixture_anywhere(self.mixture),
            against=self.against and mixture_anywhere(self.against),
            data=self.data and absolute(self.data),
        )


@dataclass(frozen=True)
class Asked:
    """The answer to a question.

    Attributes:
        options: Of the search, with the question's own.
        domains: The text.
        question: What was asked of the mixture.
        answer: The answer.
        metrics: Its record.
        given: The losses of the mixture that was asked about; None without one.
        mixture: The mixture that was asked about; None without one.
    """

    options: Options
    domains: Domains
    question: Question
    answer: Answer
    metrics: Metrics
    given: Outlook | None = None
    mixture: Mixture | None = None


def ask(run: Path, config: AskConfig, goal: GoalConfig, out: Path) -> Asked:
    """Answers a question from what a search has measured and read.

    Args:
        run: The search's folder.
        config: The question.
        goal: What is asked of the mixture.
        out: A folder for finished trial runs.

    Raises:
        DataError: When the folder is no search's that kept its measurements, or see
            `load_domains`.
        RunFolderError: When the search has not ended.
        ValueError: When no mixture meets the bounds under the forecast.
    """
    searched = _options_of_run(run)
    options = _asked_options(searched, config, goal)
    require_finished(run)
    if not is_finished(run):
        raise RunFolderError(
            f"Expected a finished search in {run}, found no sound metrics.json that names the "
            "weights of its mixture.json"
        )
    record = read_as(Metrics, run / "metrics.json")
    if not record.measured:
        raise DataError(f"Expected a search by matching that kept what it measured, found {run}")
    whole = load_domains(options, config.add, config.text_column)
    kept = read_measurements(run, belongs_of(options, whole))
    if tuple(one.sha256 for one in kept) != record.measured:
        other = len(kept) == len(record.measured)
        raise DataError(
            f"Expected the {len(record.measured)} measurements that the search made in {run}, "
            f"found {'changed ones' if other else f'{len(kept)} from measured-1 on'}"
        )
    readings = list(read_readings(run))
    names = _remaining(whole.names, config.drop)
    own = dataclasses.replace(options.run, domains=names)
    options = dataclasses.replace(options, run=own)
    # The same text is kept as for the search.
    domains = search_domains(options, whole.corpus, options.run.seed, whole.num_domains)
    tell_cautions(options, domains)
    texts = hashes_of(whole)
    anew = tuple(name for name, text in texts.items() if kept[0].hashes.get(name) != text)
    question = question_of(options, domains)  # refused, as the mixtures, before anything is read
    sources = [one for one in (config.mixture, config.against) if one is not None]
    given = [weights_of(source, domains) for source in sources]
    if given and (anew or not forecasts(names, readings)):
        raise DataError(
            "Expected a search that read the losses of all these domains twice or more, for a "
            "forecast of --mixture, found none"
        )
    cost = Cost()
    with cost.part("gradients"):
        rounds = _rounds(options, whole, domains, kept, anew, cost)
    with cost.part("guide"):
        targets = targets_of(options, domains, rounds, measured=whole.names)
    tried = None if anew else _own_trials(run, searched, record, domains)
    plan = trial_plan(options, domains, out / "trials")
    known = [] if anew else readings
    answer, _ = answered(options, domains, targets, known, plan, cost, tried)
    metrics = common_metrics(
        *(options, domains, answer, cost, targets), measured_anew=anew, learning=record.learning
    )
    judged = _judged(config, given, question, answer, domains) if given else None
    mixture = None if config.mixture is None else _mixture_of(config.mixture, given[0], domains)
    return Asked(options, domains, question, answer, metrics, judged, mixture)


def _mixture_of(source: str, weights: Tensor, domains: Domains) -> Mixture:
    """Returns the mixture that was asked about, as its source has it."""
    if source not in KNOWN:
        return mixture_from(source)
    known = Mixture(
        names=domains.names,
        weights=tuple(weights.tolist()),
        tokenizer=domains.corpus.tokenizer_sha256,
        data_sha256=domains.corpus.sha256,
    )
    return known.unpooled(domains.pools)


def _judged(
    config: AskConfig, given: Sequence[Tensor], question: Question, answer: Answer, domains: Domains
) -> Outlook | None:
    """Returns the losses of the given mixture, beside those of the other, or of the answer."""
    if answer.forecast is None:
        return None
    if config.against is not None:
        other = {config.against: given[-1]}
    else:
        weights = gathered(answer.mixture.as_dict(), domains.pools)
        other = {"the answer": torch.tensor([weights[name] for name in domains.names]).double()}
    return outlook_of(answer.forecast, dataclasses.replace(question, references=other), given[0])


def _own_trials(
    run: Path, searched: Options, record: Metrics, domains: Domains
) -> TriedSteps | None:
    """Returns the trials that the search made, where the question is about the same domains and
    the same targets, which its trials were read on; None elsewhere."""
    with expecting(f"Expected the manifest of the search in {run}, found:", Exception):
        before = json.loads((run / "manifest.json").read_text(encoding="utf-8"))["domains"]
    now = domains.corpus.index["domains"]
    shares, asked = searched.run.validation_shares(), domains.validation_shares
    if shares.keys() != asked.keys() or searched.run.validates_all:
        return None
    for name, share in shares.items():
        if not math.isclose(share / sum(shares.values()), asked[name] / sum(asked.values())):
            return None
        if before[name]["validation"]["sha256"] != now[name]["validation"]["sha256"]:
            return None
    return tried_before(record.trials, domains)


def _options_of_run(run: Path) -> Options:
    """Returns the options of a search."""
    with expecting(f"Expected a search's folder, found {run}:", Exception):
        parts = json.loads((run / "config.json").read_text(encoding="utf-8"))
        if missing := [part for part in get_type_hints(Options) if part not in parts]:
            raise ValueError(f"a run of another version, without options of '{missing[0]}'")
        return options_of({part: parts[part] for part in get_type_hints(Options)}, Options)


def _asked_options(options: Options, config: AskConfig, goal: GoalConfig) -> Options:
    """Returns the options of a search, with what the question asks in place of its own.

    What was read before belongs to a run of some length: without one it says nothing.
    """
    consumed, constant = options.run.consumed, options.run.repetition_constant
    if config.target_tokens is None:
        consumed, constant = None, REPETITION_CONSTANT
    own = dataclasses.replace(
        options.run,
        validation=list(config.validation or options.run.validation),
        drop_copies=config.drop_copies,
        target_tokens=config.target_tokens,
        max_epochs=config.max_epochs,
        consumed=consumed,
        repetition_constant=constant,
        validation_sequences=config.validation_sequences or options.run.validation_sequences,
        data=config.data or options.run.data,
    ).anywhere()
    goal = dataclasses.replace(goal, baseline=mixture_anywhere(goal.baseline))
    search = dataclasses.replace(options.search, trials=config.trials)
    return dataclasses.replace(options, run=own, search=search, goal=goal)


def _remaining(names: Sequence[str], dropped: Sequence[str]) -> list[str]:
    gone = selected(dropped, names)
    left = [name for name in names if name not in gone]
    if len(left) < 2:
        raise DataError(f"Expected at least two domains after --drop, found {len(left)}")
    return left


def _rounds(
    options: Options,
    everything: Domains,
    asked: Domains,
    kept: Sequence[Measurement],
    anew: Sequence[str],
    cost: Cost,
) -> list[TargetMeasurement]:
    """Reads the targets, and measures unknown domains, where the search measured; returns the
    evidence of all of them."""
    from tqdm import tqdm

    model = language_model(options, asked.corpus.vocabulary, options.run.seed)
    proxy = Proxy(model, options.proxy, cost)
    sketch = GradientSketch(proxy, options.search.sketch_size, options.run.seed)
    each = options.search.sequences_of_round(everything.num_domains)
    rounds = []
    for one in tqdm(kept, unit="round", desc="targets"):
        set_parameters(proxy, one)
        known = {name: sample for name, sample in one.samples.items() if name not in anew}
        own = measure(sketch, everything, each, one.step, known)
        own = dataclasses.replace(own, folder=one.folder, sha256=one.sha256)
        rounds.append(read_target(sketch, own, asked, each=not options.run.validates_all))
    return rounds
