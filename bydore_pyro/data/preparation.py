"""Sources to a token store: read once, encoded in several processes, continued where it stopped.

The store is built beside its place, in ``.NAME.partial/KEY-RECORDS``, and renamed when it is whole.
Other options and changed files have another key, and are begun anew.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import fields
from itertools import product
from pathlib import Path
from typing import Any

from bydore_pyro import pieces, terminal
from bydore_pyro.data.build import RECORD, RECORDS, Build
from bydore_pyro.data.documents import CorpusConfig, File
from bydore_pyro.data.index import FORMAT, INDEX, SPLITS, UNITS, building_place, sha256_of
from bydore_pyro.data.kinds import is_row_file
from bydore_pyro.data.plan import Plan, make_plan, most_text, sample_text
from bydore_pyro.data.remote import list_anew
from bydore_pyro.data.rows import RowConfig
from bydore_pyro.data.sampling import bytes_listed, in_parts
from bydore_pyro.data.store import (
    TokenStore,
    file_sha256,
    is_store,
    nothing_counted,
    open_store,
    selected,
    stored_as,
)
from bydore_pyro.data.tokenizer import (
    TokenizerConfig,
    save_tokenizer,
    tokenizer_sha256,
    train_tokenizer,
)
from bydore_pyro.errors import DataError
from bydore_pyro.files import FolderLock, appearing_folder

SMALLEST_ENVIRONMENT_DOMAIN = 500_000  # bytes


def prepare(
    plan: Plan, out: Path, *, processes: int = 0, cluster: str | None = None, wait: bool = False
) -> TokenStore:
    """Builds a token store at `out`, or goes on with an unfinished one.

    The same plan gives the same store, byte for byte, with any number of processes and however
    often it was stopped.

    Args:
        plan: What goes into it.
        out: The store's folder; it appears when it is whole.
        processes: Worker processes that encode; 0 encodes in this process.
        cluster: Where text is encoded in their place, see `bydore_pyro.pieces`.
        wait: Whether another process that builds the store is waited for, and its store taken.

    Raises:
        DataError: When `out` exists, or a source cannot be read, changes or holds nothing usable.
        RunFolderError: When another process is building it, or what was built was deleted.
        OSError: When the disk is full or a worker dies; what was built so far stays.
    """
    place = building_place(out)
    lock = FolderLock(place, wait=wait)
    # Builds of other plans, and of other kinds of records, lie beside it until one is whole.
    partial = place / f"{plan.key}-{RECORDS}"
    try:
        if wait and is_store(out):
            return open_store(out)  # another process built it while this one waited
        if out.exists():
            raise DataError(f"Expected a new folder for the store, found {out}")
        if cluster is not None:
            pieces.join_cluster(cluster)
            processes = pieces.cluster_cpus()
        partial.mkdir(exist_ok=True)
        _make_tokenizer(partial / "tokenizer", plan)
        index = _build(partial, plan, processes, cluster)
        (partial / INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
        for record in partial.glob(f"{RECORD}*"):
            record.unlink()
        lock.require()
        partial.rename(out)
        shutil.rmtree(place, ignore_errors=True)
    except OSError:
        lock.require()  # what was deleted amid the work fails in many ways
        raise
    finally:
        lock.release()
    return open_store(out, verify=False)


def _make_tokenizer(folder: Path, plan: Plan) -> None:
    if folder.is_dir():
        return
    with appearing_folder(folder, first_wins=True) as aside:
        if plan.tokenizer.tokenizer is not None:
            save_tokenizer(plan.tokenizer.tokenizer, aside)
        else:
            terminal.tell(f"training a tokenizer of {plan.tokenizer.vocabulary} tokens")
            train_tokenizer(sample_text(plan), plan.tokenizer.vocabulary, aside)


def _build(partial: Path, plan: Plan, processes: int, cluster: str | None) -> dict[str, Any]:
    try:
        cap = most_text(plan, partial / "tokenizer")
        sources = in_parts(plan.sources, plan.corpus, cap)
        with closing(Build(partial, sources, plan.corpus, cap, plan.without)) as build:
            if build.source:
                terminal.tell(f"going on where {partial} stopped")
            with terminal.progress_bar() as bar:
                build.run(processes, bar, cluster)
            list_anew(source.file.path for source in plan.sources)
            for source in plan.sources:
                source.file.require_unchanged()
            if build.nameless:
                withdrawn = ", or a withdrawn one" if plan.data.startswith("pile:") else ""
                terminal.tell(f"skipped {build.nameless} rows that name no domain{withdrawn}")
    except sqlite3.Error as error:
        raise OSError(f"{error}; what was built so far is in {partial}") from None
    except BrokenProcessPool:
        raise OSError(
            "A worker process died, most often from lack of memory; the same command continues"
        ) from None
    listed = bytes_listed(plan.sources) if plan.data != "environment" else {}
    for name, counts in build.counts.items():
        group = name if name in listed else ""
        if size := build.sizes.of(name, group, listed.get(group, 0)):
            counts["train"]["in_all"] = size
    domains = dict(sorted(build.counts.items()))
    files = [source.file for source in plan.sources]
    units = units_of(files, build.units, listed=plan.data != "environment")
    small = _leave_out(partial, plan, domains, build.beside)
    for name, counts in domains.items():
        for split in SPLITS:
            for ending, key in (("bin", "sha256"), ("ends", "ends_sha256")):
                path = partial / split / f"{stored_as(name)}.{ending}"
                path.touch()
                counts[split][key] = file_sha256(path)
    tokenizer = tokenizer_sha256(partial / "tokenizer")
    return {
        "format": FORMAT,
        "origin": plan.data,
        "sha256": sha256_of(domains, tokenizer, build.vocabulary, build.dtype.str),
        "tokenizer_sha256": tokenizer,
        "vocabulary": build.vocabulary,
        "dtype": build.dtype.str,
        "domains": domains,
        "left_out_as_too_small": small,
        UNITS: {name: units[name] for name in domains if name in units},
        **{key: dict(sorted(own.items())) for key, own in build.beside.items()},
        "rows_of_no_domain": build.nameless,
        "files": plan.files,
        **plan.options,
    }


def units_of(
    files: Sequence[File], counts: Mapping[str, Sequence[int]], *, listed: bool
) -> dict[str, dict[str, Any]]:
    """Returns of each domain what its user has, "rows" or "files", their `count` and `bytes`: what
    a trainer draws that samples whole documents.

    A store holds texts of bounded length, without copies. Neither their number nor that of its
    independent documents, which may be pieces of a file, is the number of a user's rows or files.

    Args:
        files: All of the data's.
        counts: `Build.units`: of a sampled domain what was read of it.
        listed: Whether the text of a text file is all that it holds. Text files are then counted in
            this list, whether they were read or not.

    Returns:
        By domain; one that has rows and text files too is left out, since nobody can say which of
        them a trainer draws.
    """
    of_domain: dict[str | None, list[File]] = {}
    for file in files:
        if file.side != "validation":
            of_domain.setdefault(file.domain, []).append(file)
    found = {}
    for name, (count, size) in counts.items():
        own = [*of_domain.get(name, ()), *of_domain.get(None, ())]
        rows = sum(file.of_rows and not _is_text(file) for file in own)
        if 0 < rows < len(own):
            continue
        if listed and all(map(_is_text, own)):
            sizes = [file.size for file in own if file.size]
            count, size = len(sizes), sum(sizes)
        found[name] = {"of": "rows" if rows else "files", "count": count, "bytes": size}
    return found


def _is_text(file: File) -> bool:
    return file.path is not None and not is_row_file(file.path)


def _leave_out(
    partial: Path, plan: Plan, domains: dict[str, Any], beside: dict[str, dict[str, Any]]
) -> dict[str, int]:
    """Takes domains out that are too small: the environment's, and the Pile's without any text."""
    least = 1.0
    if plan.data == "environment":
        least = min(SMALLEST_ENVIRONMENT_DOMAIN, plan.corpus.cap / 2)
    small = {}
    for name in sorted({*plan.domains, *domains}):
        counts = domains.get(name, nothing_counted())
        size = sum(counts[split]["bytes"] for split in SPLITS)
        if size >= least:
            continue
        if plan.data.split(":")[0] not in ("environment", "pile") and name in plan.domains:
            dropped = counts["duplicates_dropped"] + counts["in_validation_dropped"]
            in_targets = counts.get("in_targets_dropped", 0)
            of_targets = f"{in_targets} with documents of targets, " * bool(in_targets)
            short, empty = (beside[key].get(name, 0) for key in ("too_short", "empty"))
            raise DataError(
                f"Expected text in every domain of {plan.data}, found none usable in '{name}' "
                f"({dropped} duplicates, {of_targets}{counts['skipped']} rows skipped, {empty} "
                f"empty, {short} shorter than {plan.corpus.shortest} characters, see "
                "--shortest_document)"
            )
        terminal.tell(f"left out because it has only {size / 1e6:.2f} MB: {name}")
        small[name] = size
        domains.pop(name, None)
        for split, ending in product(SPLITS, ("bin", "ends")):
            (partial / split / f"{stored_as(name)}.{ending}").unlink(missing_ok=True)
    if not domains:
        raise DataError(f"Expected text in a domain of {plan.data}, found none")
    return small


def load_tokens(
    data: str,
    corpus: CorpusConfig | None = None,
    tokenizer: TokenizerConfig | None = None,
    rows: RowConfig | None = None,
    *,
    needed: Iterable[str] = (),
    cache: Path | None = None,
) -> TokenStore:
    """Opens a token store, or reads, tokenizes and caches the named data.

    Args:
        data: The folder of a store, or what `bydore_pyro.data.sources.list_files` takes.
        corpus: How documents are made; without effect on a store, as `tokenizer` and `rows`.
        tokenizer: Which tokenizer.
        rows: The columns of rows.
        needed: Domains that must be among the data's, checked before anything is read if possible.
        cache: Where stores are kept; ``$XDG_CACHE_HOME/bydore_pyro`` when None.

    Raises:
        DataError: When the data does not exist, lacks a domain or text in one, or is damaged.
    """
    if is_store(Path(data)):
        store = open_store(Path(data))
        selected(needed, store.names)
        named = TokenizerConfig(tokenizer=tokenizer.tokenizer) if tokenizer else None
        tell_idle(f"the token store {data}", (corpus, rows, named))
        return store
    plan = make_plan(data, corpus, rows, tokenizer)
    if all(source.domain is not None or source.file.domains for source in plan.sources):
        selected(needed, plan.domains)
    folder = (cache or cache_folder()) / plan.key
    if folder.is_dir():
        try:
            return open_store(folder)
        except DataError as error:
            terminal.tell(f"cached tokens in {folder} are damaged ({error}): building them again")
            shutil.rmtree(folder, ignore_errors=True)
    terminal.tell(f"reading text: {data}")
    store = prepare(plan, folder, wait=True)
    selected(needed, store.names)
    return store


def cache_folder() -> Path:
    """Returns the folder of stores without one of their own: ``$XDG_CACHE_HOME/bydore_pyro``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bydore_pyro"


def tell_idle(on: str, configs: Iterable[Any]) -> None:
    """Reports which options differ from their defaults without an effect on the data."""
    for given in configs:
        for field in fields(given) if given is not None else ():
            if (value := getattr(given, field.name)) != field.default:
                terminal.tell(f"without effect on {on}: {field.name} {value}")
