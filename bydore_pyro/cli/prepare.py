"""``bydore prepare``: text to a token store."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, replace
from pathlib import Path
from typing import Any

from bydore_pyro import mixture, pieces, shards, targets, terminal
from bydore_pyro.command_line import Checked, TokenCount, one_line_errors, option, parse_options
from bydore_pyro.data import (
    SPLITS,
    CorpusConfig,
    Plan,
    RowConfig,
    TokenizerConfig,
    TokenStore,
    in_pieces,
    is_row_file,
    make_plan,
    prepare,
    read_rows,
    read_text,
)
from bydore_pyro.errors import DataError, listed

# What `--help` lists; `--help-all` adds the others.
COMMON = (
    *("data", "out", "tokenizer", "vocabulary", "text_column", "domain_column"),
    *("tokens", "validation_fraction", "on_error", "processes"),
)
COLUMNS = (
    "A file can be several documents. These are left out and counted: duplicates, training "
    "documents that are also in validation text, documents that are too short "
    "(--shortest_document) or empty, and rows and files that could not be read (--on_error skip)."
)
IN_TARGETS = (
    "In targets: documents that contain a document of --without, that is, at least half of its "
    "words in runs of 13 words. Held-out text that is named as such is not compared."
)
MOST_NAMED = 20  # files of a kind
SIDES = {"train": "train", "validation": "held out", "drawn": "drawn"}
DRAWN = "No file's name says what to hold out: the seed draws the held-out text."
DECIDED = (
    "The name of a file decides its side if a train stands beside it, and so does a list of "
    "domains. Of the other files, as drawn, the seed draws what is held out."
)


@dataclass(frozen=True, kw_only=True)
class PrepareConfig(Checked):
    """The text to prepare, and the place of the store."""

    data: str = option(
        MISSING,
        "'environment' (the text of the Python environment); a folder whose sub-folders or "
        "files are domains; a JSON or YAML file that lists domains; 'pile:' followed by the "
        "folder or hub name of a copy of the Pile. With --domain_column also a file or folder "
        "of rows, or 'hub:' followed by a dataset's name.",
    )
    out: str = option(MISSING, "New folder for the token store.")
    tokens: TokenCount | None = option(
        None,
        "Size of a sample, such as 0.5B: an equal share of each domain, read from all over its "
        "files. Default: all text.",
        least=1,
    )
    processes: int | None = option(
        None,
        "Number of encoding processes, besides the one that reads. Default: one per core. 0 "
        "encodes in the reading process.",
        least=0,
        most=1024,
    )
    without: list[str] = option(
        [],
        "Leave out training documents that contain documents of these targets: files of questions, "
        "of rows (--text_column), of text (.txt), or task:NAME, as for bydore search.",
    )
    data_dir: str | None = option(None, targets.DATA_DIR)
    hub: bool = option(False, targets.HUB)
    cluster: str | None = option(None, pieces.CLUSTER)


@dataclass(frozen=True, kw_only=True)
class PrepareOptions:
    """All options of `bydore prepare`, by the part that they configure."""

    prepare: PrepareConfig
    corpus: CorpusConfig
    rows: RowConfig
    tokenizer: TokenizerConfig


@one_line_errors("bydore prepare")
def prepare_command(arguments: Sequence[str]) -> None:
    """Turns domains of text into a token store. The other commands read it with --data STORE. If it
    is interrupted, the same command continues where it stopped."""
    options = parse_options(
        arguments,
        "bydore prepare",
        prepare_command.__doc__ or "",
        PrepareOptions,
        defaults={"domain_megabytes": 0.0},
        common=COMMON,
    )
    given = options.prepare
    if given.tokens is not None and options.corpus.domain_megabytes:
        raise ValueError("Expected --tokens or --domain_megabytes, found both")
    if shards.names_shards(given.data):
        raise DataError(
            f"Expected text, found token shards ({given.data}), which bydore search --data reads "
            "in place"
        )
    pieces.join_cluster(given.cluster)
    parts = options.corpus, options.rows, options.tokenizer
    with terminal.told_if_stopped("What was read is kept. Go on with the same command"):
        without = _texts_without(given, options.rows)
        plan = make_plan(given.data, *parts, tokens=given.tokens, without=without)
        processes = given.processes if given.processes is not None else os.cpu_count() or 1
        store = prepare(plan, Path(given.out), processes=processes, cluster=given.cluster)
    columns = f"{COLUMNS} {_in_targets(store)}" if given.without else COLUMNS
    print(f"{store_table(store)}\n\n{columns}\n\n{files_table(plan)}")
    if count := store.index["rows_of_no_domain"]:
        print(f"Left out (rows of no domain): {count:,}.")
    by_note: dict[str, list[str]] = {}
    for name, notes in store.index["notes"].items():
        for note in notes:
            by_note.setdefault(note, []).append(terminal.visible(name))
    for note, names in by_note.items():
        print(f"{listed(names, MOST_NAMED)}: {note}.")
    folder = terminal.visible(str(store.folder))
    print(f"The store is in {folder}. {terminal.visible(_next_line(store))}")


def _texts_without(given: PrepareConfig, rows: RowConfig) -> dict[str, list[str]]:
    """Returns the texts that --without names, by name: questions of files and tasks with their
    answers, or plain text.

    Raises:
        DataError: When one is no file or task, or holds no text or what cannot be read.
    """
    found: dict[str, list[str]] = {}
    for entry in (one for text in given.without for one in targets.entries_of(text)):
        path = Path(entry.file or "")
        if entry.file is not None and not path.exists():
            raise DataError(f"Expected a file for --without, found none: {entry.file}")
        if entry.task is None and (entry.file is None or not path.is_file()):
            raise DataError(
                "Expected a file of rows (.jsonl, .parquet) or of text (.txt) or task:NAME for "
                f"--without, found {entry.file or entry.name}"
            )
        tasks = targets.tasks_named(
            entry, on_error=rows.on_error, data_dir=given.data_dir, hub=given.hub
        )
        for name, task in tasks.items():
            found[name] = targets.texts_of(task)
        if tasks:
            continue
        if is_row_file(path):
            column = entry.text_column or rows.text_column
            read = read_rows(path, replace(rows, text_column=column, domain_column=None))
        else:
            read = in_pieces(read_text(path, rows), CorpusConfig())
        texts = [row.text for row in read if row.text and row.text.strip()]
        if not texts:
            raise DataError(f"Expected text in the file of --without, found none in {path}")
        found[entry.name] = texts
    return found


def _in_targets(store: TokenStore) -> str:
    """Returns how much text was looked for in the training text, and how it was compared."""
    sizes = {name: one["documents"] for name, one in store.index.get("without", {}).items()}
    sought = ", ".join(f"{count:,} of {terminal.visible(name)}" for name, count in sizes.items())
    dropped = sum(one.get("in_targets_dropped", 0) for one in store.index["domains"].values())
    none = "" if dropped else " None was left out."
    return f"{IN_TARGETS}{none} Documents that were looked for: {sought}."


def _next_line(store: TokenStore) -> str:
    """Returns a search on a store, as it can be run: on its largest domain that can be judged."""
    if len(store.names) < 2:
        folder = shlex.quote(str(store.folder))
        return f"A search needs two domains or more; bydore ask RUN --add {folder} adds this one."
    target = max(store.names, key=lambda name: len(store.validation[name]))
    folder, domain = shlex.quote(str(store.folder)), shlex.quote(target)
    return (
        "A search needs a target: a domain, several, files (.jsonl, .txt), task:NAME or 'all'. "
        f"Next: bydore search --data {folder} --validation {domain} --out RUN"
    )


def store_table(store: TokenStore) -> str:
    """Returns what a store holds as text, the domains by name; of many the largest, with the sums
    of branches and of the rest."""
    entries = [store.index["domains"][name] for name in store.names]
    sizes = [entry["train"]["tokens"] for entry in entries]
    rows = mixture.shown_rows(store.names, sizes)
    if len(sizes) <= mixture.MOST_SHOWN:
        rows = sorted((row for row in rows if row.kind == "domain"), key=lambda row: row.places)
        rows = [row._replace(depth=0) for row in rows]
    counts = {
        "tokens": sizes,
        "held out": [entry["validation"]["tokens"] for entry in entries],
        "documents": [sum(entry[split]["documents"] for split in SPLITS) for entry in entries],
        "duplicates": [entry["duplicates_dropped"] for entry in entries],
        "in validation": [entry["in_validation_dropped"] for entry in entries],
        "in targets": [entry.get("in_targets_dropped", 0) for entry in entries],
        "too short": [store.index["too_short"].get(name, 0) for name in store.names],
        "empty": [store.index["empty"].get(name, 0) for name in store.names],
        "skipped": [entry["skipped"] for entry in entries],
    }
    if not any("in_targets_dropped" in entry for entry in entries):
        del counts["in targets"]
    columns = {"": [row.label for row in rows]}
    for key, own in counts.items():
        columns[key] = [f"{sum(own[k] for k in row.places):,}" for row in rows]
        sampled = [_estimate(store.in_all(r.name)) if r.kind == "domain" else "" for r in rows]
        if key == "tokens" and any(sampled):
            columns["in all, about"] = sampled
    return terminal.Table(
        header=tuple(columns), rows=list(zip(*columns.values(), strict=True))
    ).as_text()


def files_table(plan: Plan) -> str:
    """Returns how many files of each domain are on which side, and which are left out, as text; of
    many domains those in which names decide come first."""
    files = plan.files
    if all({*own} == {"drawn"} for own in files.values()):
        return DRAWN
    if len(files) > mixture.MOST_SHOWN:
        order = sorted(files, key=lambda name: {*files[name]} == {"drawn"})
        files = {name: files[name] for name in order[: mixture.MOST_SHOWN]}
        hidden = [plan.files[name] for name in order[mixture.MOST_SHOWN :]]
        sides = dict.fromkeys(side for own in hidden for side in own)
        files[f"the rest ({len(hidden)} domains)"] = {
            side: sum(own.get(side, 0) for own in hidden) for side in sides
        }
    rows = []
    for name, own in files.items():
        reasons = {reason: count for reason, count in own.items() if reason not in SIDES}
        why = ", ".join(f"{reason} {count:,}" for reason, count in reasons.items())
        left_out = f"{sum(reasons.values()):,}" + (f" ({why})" if why else "")
        counts = [f"{own.get(side, 0):,}" for side in SIDES]
        rows.append([name or "of no domain, or of many", *counts, left_out])
    lines = [
        terminal.Table(header=("files", *SIDES.values(), "left out"), rows=rows).as_text(),
        "",
        DECIDED,
    ]
    for what, names in _files_by_name(plan).items():
        lines.append(terminal.visible(f"{what}: {listed(names, MOST_NAMED)}."))
    return "\n".join(lines)


def _files_by_name(plan: Plan) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in plan.left_out:
        found.setdefault(f"Left out ({one.reason})", []).append(one.name)
    for source in plan.sources:
        if source.file.side == "validation":
            found.setdefault("Held out", []).append(source.name)
    return {what: sorted(names) for what, names in sorted(found.items())}


def _estimate(size: dict[str, Any] | None) -> str:
    if size is None:
        return ""
    tokens, error = size["tokens"], size["standard_error"]
    return f"{tokens:,} ± " + ("?" if error is None else f"{error / tokens:.1%}")
