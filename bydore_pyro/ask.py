"""Questions to a finished search: other targets, other aims, other domains, a given mixture.

The rounds of the search have measured the domains, and the losses of all its proxies were read on
every domain. A new target needs only its own gradients at the parameters of the rounds. So does a
domain that was added or whose text has changed; but no run has trained on it, so that no losses are
forecast where there is one.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bydore_pyro import files, measure, search, setup, terminal
from bydore_pyro.answer import Answer, Outlook, Question, TriedSteps, outlook_of
from bydore_pyro.data import Domains, selected
from bydore_pyro.errors import DataError, RunFolderError, expecting
from bydore_pyro.mixture import Mixture, require_finished
from bydore_pyro.proxy import Cost, GradientSketch

GIVEN = "given_mixture.json"  # in an answer's folder: the mixture that was asked about


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

    options: setup.Options
    domains: Domains
    question: Question
    answer: Answer
    metrics: setup.Metrics
    given: Outlook | None = None
    mixture: Mixture | None = None


def ask(
    run: Path, asked: setup.QuestionConfig, out: Path, config: setup.AskConfig | None = None
) -> Asked:
    """Answers a question from what a search has measured and read.

    Args:
        run: The search's folder.
        asked: What is asked of the mixture; without targets, of the run's own.
        out: A folder for finished trial runs.
        config: How the search is asked.

    Raises:
        DataError: When the folder is no search's that kept its measurements, or see
            `load_domains`.
        RunFolderError: When the search has not ended.
        ValueError: When no mixture meets the bounds under the forecast.
    """
    config = config or setup.AskConfig()
    opened = open_search(run, asked, config)
    options, domains, anew = opened.options, opened.domains, opened.anew
    # Refused, as the mixtures, before anything is read.
    question = setup.question_of(options, domains)
    sources = [one for one in (config.mixture, config.against) if one is not None]
    mixtures = [_mixture_of(source, domains) for source in sources]
    given = [setup.weights_in(each, domains) for each in mixtures]
    if given:
        opened.require_forecast("--mixture")
    models = setup.models_of(options, domains.corpus, config.models)
    cost = Cost()
    targets = opened.targets(cost, models)
    record = setup.models_record(models, targets)
    tried = None if anew else _own_trials(run, opened.record, domains)
    plan = search.trial_plan(options, domains, out / "trials")
    same = _same_targets(run, domains)
    known = [] if anew else [one.on(same) for one in opened.readings]
    seed = options.run.seed
    answer, _ = search.answered(question, targets, known, plan, cost, tried, seed=seed)
    metrics = setup.common_metrics(
        *(options, domains, answer, cost, targets),
        measured_anew=anew,
        learning=opened.record.learning,
        models=record,
    )
    if words := setup.models_words(record, tested=metrics.matching.responses):
        terminal.tell(words)
    judged = mixture = None
    if config.mixture is not None and answer.forecast is not None:
        name = config.against or "the answer"
        weights = given[1] if config.against else setup.weights_in(answer.mixture, domains)
        beside = dataclasses.replace(question, references={name: weights}, baseline=name)
        judged = outlook_of(answer.forecast, beside, given[0])
        mixture = mixtures[0]
    return Asked(options, domains, question, answer, metrics, judged, mixture)


@dataclass(frozen=True)
class OpenSearch:
    """A finished search and what it is asked of, before any model is read.

    Attributes:
        options: Of the search, with the question's own.
        record: What it found.
        whole: Its text, with the domains that are added.
        domains: Those that are to be trained on, and the targets.
        kept: What it has measured.
        branches: Of the last measurement.
        anew: The domains whose text it has not measured.
        readings: The losses that it knows, its own first.
    """

    options: setup.Options
    record: setup.Metrics
    whole: Domains
    domains: Domains
    kept: Sequence[measure.Measurement]
    branches: Sequence[measure.Branch]
    anew: tuple[str, ...]
    readings: Sequence[measure.Reading]

    def require_forecast(self, asking: str) -> None:
        """Refuses a search that knows too few losses for a forecast of a mixture.

        Args:
            asking: What needs one, for the message.

        Raises:
            DataError: When it does.
        """
        if self.anew or not setup.forecasts(self.domains.names, self.readings):
            raise DataError(
                "Expected a search that read the losses of all these domains twice or more, for a "
                f"forecast of {asking}, found none"
            )

    def targets(self, cost: Cost, models: Sequence[measure.Model] = ()) -> setup.Targets:
        """Reads the targets where the search was measured, and in models that one has; charges a
        counter."""
        read = (self.options, self.whole, self.domains, self.kept, self.branches, self.anew)
        return _targets(*read, cost, models)


def open_search(run: Path, asked: setup.QuestionConfig, config: setup.AskConfig) -> OpenSearch:
    """Opens a finished search for a question, and prints what is to be known of its text.

    Args:
        run: Its folder.
        asked: What is asked of the mixture; without targets, of the run's own.
        config: How the search is asked.

    Raises:
        DataError: When the folder is no search's that kept its measurements, or see
            `load_domains`.
        RunFolderError: When the search has not ended.
    """
    options = _options_for(run, asked, config)
    record = _record_of(run)
    whole = setup.load_domains(options, config.add, config.text_column)
    kept, branches = _kept(run, record, options, whole)
    readings = measure.read_readings(run)
    dropped = selected(config.drop, whole.names)
    names = [name for name in whole.names if name not in dropped]
    options = dataclasses.replace(options, run=dataclasses.replace(options.run, domains=names))
    seed = options.run.seed
    # The same text is kept as for the search.
    domains = setup.domains_of(options, whole.corpus, seed, search=True, count=whole.num_domains)
    setup.tell_cautions(options, domains)
    texts = setup.hashes_of(whole)
    anew = tuple(name for name, text in texts.items() if kept[0].hashes.get(name) != text)
    return OpenSearch(
        options=options,
        record=record,
        whole=whole,
        domains=domains,
        kept=kept,
        branches=branches,
        anew=anew,
        readings=readings,
    )


def _options_for(run: Path, asked: setup.QuestionConfig, config: setup.AskConfig) -> setup.Options:
    """Returns the options of a search, with what is asked in place of its own.

    What a model had read before counts for a run of some length: without one it says nothing.
    """
    searched = setup.options_in(run)
    validation = asked.validation or searched.question.validation
    domain_tokens = asked.domain_tokens or searched.question.domain_tokens
    own = dataclasses.replace(
        searched.run,
        consumed=searched.run.consumed if asked.target_tokens else None,
        validation_sequences=config.validation_sequences or searched.run.validation_sequences,
        data=config.data or searched.run.data,
    )
    return dataclasses.replace(
        searched,
        run=own.anywhere(),
        question=dataclasses.replace(
            asked, validation=list(validation), domain_tokens=list(domain_tokens)
        ).anywhere(),
        search=dataclasses.replace(searched.search, trials=config.trials),
    )


def _record_of(run: Path) -> setup.Metrics:
    """Returns the record of a search that has ended and kept what it measured."""
    require_finished(run)
    if not setup.is_finished(run):
        raise RunFolderError(
            f"Expected a finished search in {run}, found no sound metrics.json that names the "
            "weights of its mixture.json"
        )
    record = files.read_as(setup.Metrics, run / "metrics.json")
    if not record.measured:
        raise DataError(f"Expected a search by matching that kept what it measured, found {run}")
    return record


def _kept(
    run: Path, record: setup.Metrics, options: setup.Options, whole: Domains
) -> tuple[list[measure.Measurement], list[measure.Branch]]:
    """Returns the measurements of a search and its branches, which must be those that its record
    names."""
    kept = measure.read_measurements(run, setup.belongs_of(options, whole))
    if tuple(one.sha256 for one in kept) != record.measured:
        other = len(kept) == len(record.measured)
        raise DataError(
            f"Expected the {len(record.measured)} measurements that the search made in {run}, "
            f"found {'changed ones' if other else f'{len(kept)} from measured-1 on'}"
        )
    if not record.branches:
        return kept, []
    belongs = setup.branches_belong_of(options, whole)
    branches = measure.read_branches(run, kept[-1], belongs)
    if tuple(one.sha256 for one in branches) != record.branches:
        found = "changed ones" if len(branches) == len(record.branches) else len(branches)
        raise DataError(
            f"Expected the {len(record.branches)} branches that the search made in {run}, found "
            f"{found}"
        )
    return kept, branches


def _mixture_of(source: str, domains: Domains) -> Mixture:
    """Returns the mixture that was asked about, as its source has it."""
    if source not in setup.KNOWN:
        return setup.mixture_for(source, domains)
    known = Mixture(
        names=domains.names,
        weights=tuple(setup.weights_of(source, domains).tolist()),
        tokenizer=domains.corpus.tokenizer_sha256,
        data_sha256=domains.corpus.sha256,
    )
    return known.unpooled(domains.pools)


def _own_trials(run: Path, record: setup.Metrics, domains: Domains) -> TriedSteps | None:
    """Returns the trials that the search made, where the question is about the same domains and
    the same targets, which its trials were read on; None elsewhere."""
    targets = {name: share for name, share in domains.validation_shares.items() if share}
    before_it, made = {n for n, one in record.targets.items() if one.importance}, record.trials
    if targets.keys() != before_it or made is None:
        return None
    if any({*one.weights} != {*domains.names} for one in made.tried):
        return None
    shares = {name: float(record.targets[name].importance) for name in targets}
    if not all(math.isclose(share, shares[name]) for name, share in targets.items()):
        return None
    return made if targets.keys() <= _same_targets(run, domains) else None


def _same_targets(run: Path, domains: Domains) -> set[str]:
    """Returns the names of those targets whose text is that of the search."""
    with expecting(f"Expected the manifest of the search in {run}, found:", Exception):
        content = json.loads((run / "manifest.json").read_text(encoding="utf-8"))["domains"]
        before = {name: one["validation"]["sha256"] for name, one in content.items()}
    now = domains.corpus.index["domains"]
    return {n for n in domains.validation_shares if before.get(n) == now[n]["validation"]["sha256"]}


def _targets(
    options: setup.Options,
    everything: Domains,
    asked: Domains,
    kept: Sequence[measure.Measurement],
    branches: Sequence[measure.Branch],
    anew: Sequence[str],
    cost: Cost,
    models: Sequence[measure.Model],
) -> setup.Targets:
    """Measures the domains that the search did not know where it measured the others, and reads the
    targets there, and all of them in models."""
    proxy, seed = setup.proxy_of(options, asked, cost), options.run.seed
    sketch = GradientSketch(proxy, options.search.sketch_size, seed)
    each = options.search.sequences_of_round(everything.num_domains)

    def with_new(one: measure.Measurement) -> measure.Measurement:
        measure.set_parameters(proxy, one)
        known = {name: sample for name, sample in one.samples.items() if name not in anew}
        with cost.part("gradients"):
            own = measure.measure(sketch, everything, each, one.step, known)
        return dataclasses.replace(one, samples=own.samples)

    measured = [with_new(one) for one in kept] if anew else kept
    order, again, responses = everything.names, anew, None
    if models:
        for name in order:
            if name not in anew:  # what the rounds have measured is passed over
                everything.measure_batch(
                    name, sum(len(one.samples[name].documents) for one in measured)
                )
        # Of another number of domains others are kept aside than those that the branches have read.
        before = len(kept[-1].samples)
        if options.measured_sequences(before) != options.measured_sequences(len(order)):
            again = order
    texts = {}
    if models or (branches and anew):
        count = options.search.sequences_read(len(order))
        texts = measure.texts_of(everything, count, order if models else anew)
    if branches and again:
        own = {name: texts[name] for name in again}
        branches = measure.with_domains(branches, proxy, own, order)
    if models:
        load = setup.loader_of(options, everything.corpus.vocabulary, cost)
        run = kept[-1].folder and kept[-1].folder.parent
        responses = measure.responses_to_models(models, load, texts, asked.targets, run)
    return setup.targets_of(sketch, measured, asked, seed, branches, models=responses, order=order)
