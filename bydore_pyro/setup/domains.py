"""The data, the model and the processes that the options of a run name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from bydore_pyro import data, proxy, shards, targets, terminal
from bydore_pyro.errors import DataError, listed
from bydore_pyro.files import content_hash
from bydore_pyro.setup.cautions import CAUTIONS
from bydore_pyro.setup.options import Options, options_in
from bydore_pyro.setup.targets import TOLD

if TYPE_CHECKING:
    from transformers import PretrainedConfig

FEW_NAMES = 5
TEXT_COLUMN = data.RowConfig.text_column
# In a store's index: the tasks of each group among the targets.
GROUPS = "groups"


def load_domains(
    options: Options, added: Sequence[str] = (), text_column: str | None = None
) -> data.Domains:
    """Checks everything that can be checked before a long computation, and loads the data.

    Args:
        options: Of the run.
        added: Token stores whose domains are trained on too, in place of those of the same name.
        text_column: Of the targets' files; the options' when None.

    Raises:
        DataError: When data, domains, targets or proxy are not what the run needs; when linear
            evidence is asked of a target that scores choices, or the worst of different units.
        ValueError: When there is no such device.
    """
    entries = options.question.texts()
    for target in entries:
        is_domain = target.file is None and target.task is None
        if is_domain and "." in target.name and Path(target.name).is_file():
            raise DataError(
                "Expected a file of rows (.jsonl, .json, .csv, .tsv, .parquet) or of text "
                f"(.txt) for --validation, found {target.name}"
            )
        if target.file is not None and not Path(target.file).exists():
            raise DataError(f"Expected a file for --validation, found none: {target.file}")
    named = [one.name for one in entries if one.file is None and one.task is None]
    needed = (*named, *(options.run.domains or ()))
    corpus = _load_corpus(options, () if added else needed)
    if options.run.checkpoint is not None:
        check_tokenizer(Path(options.run.checkpoint), corpus)
    new: set[str] = set()
    for path in map(Path, added):
        store = data.open_store(path)
        if twice := sorted(new & {*store.names}):
            raise DataError(f"Expected every added domain once, found '{twice[0]}' again in {path}")
        new.update(store.names)
        corpus = data.joined_stores(corpus, store)
        if options.run.domains is not None:
            names = list(dict.fromkeys([*options.run.domains, *store.names]))
            own = dataclasses.replace(options.run, domains=names)
            options = dataclasses.replace(options, run=own)
    data.selected(needed, corpus.names)
    prepared = not added and not shards.names_shards(options.run.data)
    corpus = with_targets(corpus, options, text_column, prepared=prepared)
    stated = options.question.domain_tokens
    corpus = data.with_domain_tokens(corpus, stated, _trained(options, corpus))
    domains = domains_of(options, corpus, options.run.seed, search=True)
    units = dict.fromkeys(one.unit for one in domains.targets.values())
    if len(units) > 1 and options.question.objective == "worst":
        raise DataError(
            "Expected targets whose losses have one unit, with --objective worst, found "
            f"{' and '.join(units)}"
        )
    choices = [name for name, one in domains.targets.items() if one.questions is not None]
    if choices and options.run.evidence == "linear":
        raise DataError(
            "Expected targets whose answers are scored, with --evidence linear, found score=choice "
            f"of '{choices[0]}'"
        )
    return domains


def with_targets_of(corpus: data.TokenStore, run: Path, sequence_length: int) -> data.TokenStore:
    """Returns a store with the files and the tasks among the targets and guards of a search or an
    answer as domains too, to read a trained model on them. They are not compared with the training
    text.

    Args:
        corpus: The text.
        run: The folder of the search or the answer.
        sequence_length: ``T``, of the model that is read.

    Raises:
        DataError: When the folder is of another version, or a target is gone or not usable.
    """
    options = options_in(run)
    entries = [one for one in options.question.texts() if one.file or one.task]
    if not entries:
        return corpus
    named = [str(dataclasses.replace(one, share=1.0)) for one in entries]
    question = dataclasses.replace(options.question, validation=named, guard=[])
    own = dataclasses.replace(options.run, sequence_length=sequence_length)
    return with_targets(
        corpus, dataclasses.replace(options, question=question, run=own), compared=False
    )


def with_targets(
    corpus: data.TokenStore,
    options: Options,
    text_column: str | None = None,
    *,
    prepared: bool = False,
    compared: bool = True,
) -> data.TokenStore:
    """Returns a store with the files and the tasks among the targets as domains too.

    Reports how each was read, and how much of it also occurs in the training text, and notes it in
    the index; leaves these documents out if the options ask for it.

    Args:
        corpus: The text.
        options: They name the targets and the domains to train on.
        text_column: Of plain text in files that do not name their own; the options' when None.
        prepared: Whether `prepare` has compared all of the corpus, so that only files are.
        compared: Whether targets are compared with the training text at all.

    Raises:
        DataError: When a file or a task is not usable, or only copies are in it.
    """
    asked, entries = options.question, options.question.texts()
    text_column = text_column or options.rows.text_column
    names = _trained(options, corpus)
    added: list[str] = []
    tasks: dict[str, targets.Task] = {}
    for entry in entries:
        if entry.file is None and entry.task is None:
            continue
        found_tasks = targets.tasks_named(
            entry,
            text_column=None if text_column == TEXT_COLUMN else text_column,
            on_error=options.rows.on_error,
            data_dir=asked.data_dir,
            hub=asked.hub,
        )
        if not found_tasks:
            column = entry.text_column or text_column
            rows = data.RowConfig(text_column=column, on_error=options.rows.on_error)
            corpus = data.with_validation_file(corpus, Path(entry.file or ""), rows, entry.name)
            added.append(entry.name)
        elif [*found_tasks] != [entry.name]:
            groups = {**corpus.index.get(GROUPS, {}), entry.name: [*found_tasks]}
            corpus = dataclasses.replace(corpus, index={**corpus.index, GROUPS: groups})
        tasks |= found_tasks
    corpus = _with_tasks(corpus, tasks, options, names if compared else ())
    if not compared:
        return corpus
    every = data.selected([e.name for e in entries if e.task is e.file is None], corpus.names)
    for target in added if prepared else [*added, *every]:
        found = data.copies_in(corpus, target, names)
        if not found:
            continue
        copies = np.any([*found.values()], 0)
        if asked.drop_copies and copies.all():
            raise DataError(
                f"Expected text in '{target}' that is not trained on, found copies alone"
            )
        by_domain = sorted(found.items(), key=lambda item: -int(item[1].sum()))
        places = listed([f"{own.mean():.0%} in '{name}'" for name, own in by_domain], FEW_NAMES)
        line = (
            f"{copies.mean():.0%} of the target '{target}' also occurs in the training text "
            f"({copies.sum()} of {len(copies)} documents: {places}); "
            + ("they are left out" if asked.drop_copies else "--drop_copies leaves them out")
        )
        terminal.tell(f"warning: {line}")
        noted = {**corpus.index, CAUTIONS: [*corpus.index.get(CAUTIONS, ()), line]}
        corpus = dataclasses.replace(corpus, index=noted)
        if asked.drop_copies:
            corpus = data.without_documents(corpus, target, copies)
    return corpus


def _trained(options: Options, corpus: data.TokenStore) -> list[str]:
    """Returns the domains to train on: those that are named, or all that have training text."""
    named = options.run.domains and data.selected(options.run.domains, corpus.names)
    return [*(named or (name for name, tokens in corpus.train.items() if len(tokens)))]


def _with_tasks(
    corpus: data.TokenStore,
    tasks: Mapping[str, targets.Task],
    options: Options,
    names: Sequence[str],
) -> data.TokenStore:
    """Returns a store with tasks as domains too, and reports what each is, what of it is lost, and
    what of it stands in the training text of some domains."""
    if not tasks:
        return corpus
    folder, dtype = corpus.tokenizer, np.dtype(corpus.index["dtype"])
    length, drop = options.run.sequence_length, options.question.drop_copies
    scored = {name: targets.text_of(task, folder, dtype) for name, task in tasks.items()}
    cut = {name: targets.cuts(one.text, length, name) for name, one in scored.items()}
    overlap = None
    if names:
        compared = {}
        for name, task in tasks.items():
            bare = targets.without_examples(task)
            own = scored[name] if bare is task else targets.text_of(bare, folder, dtype)
            compared[name] = own.text
        overlap = data.find_overlap(corpus, compared, names)
        if drop:
            corpus = data.without_training(corpus, overlap.training)
    known = dict(corpus.index.get(TOLD, {}))
    told = {
        name: targets.told_of(tasks[name], one, cut[name], overlap, dropped=drop)
        for name, one in scored.items()
    }
    for line in targets.lines_of_all(told):
        terminal.tell(line)
    for name, one in scored.items():
        known[name] = dataclasses.asdict(told[name])
        corpus = data.with_held_out(corpus, name, one.text, one.entry)
    return dataclasses.replace(corpus, index={**corpus.index, TOLD: known})


def _load_corpus(options: Options, needed: Sequence[str] = ()) -> data.TokenStore:
    """Checks the proxy and the device, and loads the text, which must have the domains needed."""
    run = options.run
    terminal.device_named(run.device)
    place = Path(run.checkpoint or "")
    if place.is_absolute() and not place.is_dir():
        raise DataError(f"Expected the checkpoint {place}, found none there")
    config = proxy.read_model_config(proxy.model_source(run.model))
    check_length(config, run.model, run.sequence_length)
    in_place = shards.names_shards(run.data)
    # --smoke reads little text, which nobody asked of a store or of shards.
    corpus = (
        data.CorpusConfig() if run.smoke and (in_place or data.is_store(Path(run.data))) else None
    )
    rows = options.rows
    in_files = any(target.file is not None for target in options.question.texts())
    if in_files and (in_place or data.is_store(Path(run.data))):
        rows = data.RowConfig(
            domain_column=rows.domain_column
        )  # the others are of the targets' files
    given = run.data, corpus or options.corpus, options.tokenizer, rows
    cache = Path(run.cache) if run.cache else None
    return (shards.open_shards if in_place else data.load_tokens)(
        *given, needed=needed, cache=cache
    )


def check_length(config: PretrainedConfig, model: str, sequence_length: int) -> None:
    """Refuses a model that takes only shorter sequences.

    Raises:
        DataError: When it does.
    """
    longest = getattr(config, "max_position_embeddings", sequence_length)
    if sequence_length > longest:
        raise DataError(
            f"Expected sequence_length <= {longest}, the most that {model} takes, "
            f"found {sequence_length}"
        )


def check_tokenizer(checkpoint: Path, corpus: data.TokenStore) -> bool:
    """Refuses a checkpoint whose own tokenizer is not the text's; returns whether it has one in its
    folder.

    Raises:
        DataError: When it is another.
    """
    if not (checkpoint / "tokenizer.json").is_file():
        return False
    if (odd := data.other_token(corpus.tokenizer, checkpoint)) is not None:
        raise DataError(
            f"Expected a checkpoint of the text's tokenizer ({corpus.tokenizer}), found another in "
            f"{checkpoint}: the token {odd!r} differs"
        )
    return True


def language_model(options: Options, vocabulary: int, seed: int) -> torch.nn.Module:
    """Builds the options' proxy with fresh weights, or loads their checkpoint, on their device."""
    if options.run.checkpoint is not None:
        return proxy.load_language_model(options.run.checkpoint, vocabulary).to(options.device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = proxy.build_language_model(proxy.model_source(options.run.proxy), vocabulary)
    return model.to(options.device)


def proxy_of(
    options: Options, domains: data.Domains, cost: proxy.Cost | None = None
) -> proxy.Proxy:
    """Returns the model whose gradients are measured, as before its first step; its passes are
    counted in `cost`, a new counter when None."""
    model = language_model(options, domains.corpus.vocabulary, options.run.seed)
    return proxy.Proxy(model, options.proxy, cost, parallel=processes(options))


def processes(options: Options) -> proxy.Parallel:
    """Returns the processes that share the batches of the run of these options."""
    return proxy.Parallel(cpu=options.device.type == "cpu")


def domains_of(
    options: Options,
    corpus: data.TokenStore,
    seed: int,
    *,
    search: bool = False,
    count: int | None = None,
) -> data.Domains:
    """Returns the options' domains and targets, in the orders of a seed. Small domains are pooled.
    Without named targets every domain is one. Guards are targets without a share.

    Args:
        options: Of the run.
        corpus: The text.
        seed: Of the orders.
        search: Whether sequences are kept aside that a search measures and is checked on.
        count: The number of domains of that search; those of the options when None.

    Raises:
        DataError: When a guard is a target too.
    """
    groups = corpus.index.get(GROUPS, {})
    shares = {
        name: target.share / len(groups.get(target.name, (0,)))
        for target in options.question.targets()
        for name in groups.get(target.name, (target.name,))
    }
    guards = [one for e in options.question.guards() for one in groups.get(e.name, (e.name,))]
    length = options.run.sequence_length
    corpus = data.with_branches(corpus, (*shares, *guards))
    corpus, names, pools = data.pooled(corpus, options.run.domains, length)
    shares = shares or dict.fromkeys(names, 1 / max(1, len(names)))
    if both := [name for name in guards if name in shares]:
        raise DataError(f"Expected guards that are no targets, found '{both[0]}' as both")
    shares |= dict.fromkeys(guards, 0.0)
    count = count or len(names) or 1
    return data.Domains(
        corpus,
        shares,
        names=names,
        sequence_length=length,
        validation_sequences=max(options.run.validation_sequences, 2 * len(shares)),
        measured=options.measured_sequences(count) if search else 0,
        checked=options.search.sequences_of_check(count) if search else 0,
        seed=seed,
        device=options.device,
        pools=pools,
    )


def hashes_of(domains: data.Domains) -> dict[str, str]:
    """Returns the hash of each domain's training text: equal hashes, equal measurements."""
    entries = domains.corpus.index["domains"]
    return {name: entries[name]["train"]["sha256"] for name in domains.names}


def belongs_of(options: Options, domains: data.Domains) -> dict[str, Any]:
    """Returns what the measurements of a search depend on, beside its folder.

    A model is its configuration, whose entries are listed one by one so that the one that differs
    can be named; the hash also tells that one is gone.

    Raises:
        DataError: When the model's configuration is no more there.
    """
    configuration = proxy.configuration_of(proxy.model_source(options.run.model))
    return {
        "tokenizer": domains.corpus.tokenizer_sha256,
        "domains": hashes_of(domains),
        "proxy": options.run.model,
        **{f"config.json's {name}": value for name, value in configuration.items()},
        "config.json": content_hash(configuration),
        "sequence_length": options.run.sequence_length,
        "sketch_size": options.search.sketch_size,
        "seed": options.run.seed,
    }


def branches_belong_of(options: Options, domains: data.Domains) -> dict[str, Any]:
    """Returns what the branches of a search depend on, beside its measurements.

    Raises:
        DataError: See `belongs_of`.
    """
    config = options.search
    training = {
        "branches": config.branches,
        "branch_steps": config.steps_of_branch,
        "batch_sequences": config.batch_sequences,
    }
    return belongs_of(options, domains) | training
