"""Sources to a token store: read once, encoded in several processes, continued where it stopped.

The store is built beside its place, in ``.NAME.partial``, and renamed when it is whole.
"""

from __future__ import annotations

import json
import logging
import shutil
import sqlite3
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from pathlib import Path
from typing import Any

from bydore_pyro.data.build import RECORD, Build, is_recorded
from bydore_pyro.data.encode import encoding
from bydore_pyro.data.plan import Plan, sample_text
from bydore_pyro.data.store import FORMAT, INDEX, SPLITS, TokenStore, open_store, sha256_of
from bydore_pyro.data.tokenizer import save_tokenizer, tokenizer_sha256, train_tokenizer
from bydore_pyro.data.unchanged import file_sha256
from bydore_pyro.utils import DataError, FolderLock, appearing_file, appearing_folder

__all__ = ["Bar", "building_place", "prepare"]

log = logging.getLogger(__name__)

REFUSED = "refused.txt"  # in a store that bad text broke off: what was wrong
SMALLEST_ENVIRONMENT_DOMAIN = 500_000  # bytes

#: Told how many of how many bytes of the sources have been read, and what was taken of them.
Bar = Callable[[float, float, str], None]


def prepare(
    plan: Plan,
    out: Path,
    *,
    processes: int = 0,
    progress: Callable[[str], None] = log.info,
    bar: Bar = lambda done, total, taken: None,
    waiting: Callable[[], None] | None = None,
) -> TokenStore:
    """Builds a token store, or goes on with one whose building was stopped.

    The same plan gives the same store, byte for byte, with any number of processes and however
    often it was stopped.

    Args:
        plan: What goes into it.
        out: The store's folder; it appears when it is whole.
        processes: Worker processes that encode; 0 encodes in this process.
        progress: Told what is going on, line by line.
        bar: Told how far it is.
        waiting: Called where another process is building the store, before that is waited for;
            when None it is not.

    Raises:
        DataError: When `out` exists, a source cannot be read, changes or holds nothing usable, or
            a store of other options or files was begun there.
        RunFolderError: When another process is building it, or what was built was deleted.
        OSError: When the disk is full or a worker dies; what was built so far stays.
    """
    partial = building_place(out)
    lock = FolderLock(partial, waiting)
    try:
        if out.exists():
            raise DataError(f"Expected a new folder for the store, found {out}")
        _check_plan(partial, plan, progress)
        if not (partial / INDEX).exists():
            try:
                _make_tokenizer(partial / "tokenizer", plan, progress)
                index = _build(partial, plan, processes, progress, bar)
            except DataError as error:
                _refuse(partial, error)
                raise
            with appearing_file(partial / INDEX) as aside:
                aside.write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
        for scaffold in (*partial.glob(f"{RECORD}*"), partial / "plan.json"):
            scaffold.unlink(missing_ok=True)
        lock.require()
        partial.rename(out)
    except OSError:
        lock.require()  # what was deleted amid the work fails in many ways
        raise
    finally:
        lock.release()
    return open_store(out, verify=False)


def building_place(out: Path) -> Path:
    """Returns the folder that a store is built in, which who builds it locks."""
    return out.parent / f".{out.name}.partial"


def _refuse(partial: Path, error: DataError) -> None:
    """Leaves what was built until bad text came: nothing, or what `on_error="skip"` goes on with.

    The next plan begins anew without being asked: text that was mended is other text.
    """
    if is_recorded(partial):
        (partial / REFUSED).write_text(str(error), encoding="utf-8")
    else:
        _clear(partial)


def _clear(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _check_plan(partial: Path, plan: Plan, progress: Callable[[str], None]) -> None:
    """Writes the plan, or refuses to go on with a store that was begun with another."""
    path = partial / "plan.json"
    if not path.exists():
        if not (partial / INDEX).exists():
            with appearing_file(path) as aside:
                aside.write_text(json.dumps(plan.parts), encoding="utf-8")
        return
    try:
        begun = json.loads(path.read_text(encoding="utf-8"))
        differing = [k for k, v in json.loads(json.dumps(plan.parts)).items() if begun[k] != v]
    except (ValueError, KeyError, TypeError):
        differing = ["everything"]
    if differing and (partial / REFUSED).exists():
        progress(f"beginning anew, because {partial} had stopped at text that has been mended")
        _clear(partial)
        return _check_plan(partial, plan, progress)
    (partial / REFUSED).unlink(missing_ok=True)
    if differing:
        raise DataError(
            f"Expected the options and files with which {partial} was started, found others "
            f"({', '.join(differing)}); delete that folder to start again"
        )


def _make_tokenizer(folder: Path, plan: Plan, progress: Callable[[str], None]) -> None:
    if folder.is_dir():
        return
    with appearing_folder(folder, first_wins=True) as aside:
        if plan.tokenizer.tokenizer is not None:
            save_tokenizer(plan.tokenizer.tokenizer, aside)
        else:
            progress(f"training a tokenizer of {plan.tokenizer.vocabulary} tokens")
            train_tokenizer(sample_text(plan), plan.tokenizer.vocabulary, aside)


def _build(
    partial: Path, plan: Plan, processes: int, progress: Callable[[str], None], bar: Bar
) -> dict[str, Any]:
    """Fills the arrays and returns the index."""
    try:
        with closing(Build(partial, plan)) as build:
            if build.source or build.row:
                progress(f"going on where {partial} stopped")
            with encoding(partial / "tokenizer", build.dtype, processes) as encoder:
                build.run(encoder, bar)
            build.write_last_ends()
            build.write_files()
            domains = dict(sorted(build.counts.items()))
    except sqlite3.Error as error:
        raise OSError(f"{error}; what was built so far is in {partial}") from None
    except BrokenProcessPool:
        raise OSError(
            "A worker process died, most often from lack of memory; the same command continues"
        ) from None
    small = _leave_out(partial, plan, domains, progress)
    for name, counts in domains.items():
        for split in SPLITS:
            path = partial / split / f"{name}.bin"
            path.touch()
            counts[split]["sha256"] = file_sha256(path)
            counts[split]["ends_sha256"] = file_sha256(path.with_name(f"{name}.ends"))
    tokenizer = tokenizer_sha256(partial / "tokenizer")
    options = {key: plan.parts[key] for key in ("corpus", "rows", "tokenizer")}
    return {
        "format": FORMAT,
        "origin": plan.data,
        "sha256": sha256_of(domains, tokenizer, build.vocabulary, build.dtype.str),
        "tokenizer_sha256": tokenizer,
        "vocabulary": build.vocabulary,
        "dtype": build.dtype.str,
        "domains": domains,
        "left_out_as_too_small": small,
        **options,
    }


def _leave_out(
    partial: Path, plan: Plan, domains: dict[str, Any], progress: Callable[[str], None]
) -> dict[str, int]:
    """Takes domains out that are too small: the environment's, and the Pile's without any text."""
    least = 1.0
    if plan.data == "environment":
        least = min(SMALLEST_ENVIRONMENT_DOMAIN, plan.corpus.cap / 2)
    small = {}
    for name in sorted({*plan.domains, *domains}):
        size = sum(domains[name][s]["bytes"] for s in SPLITS) if name in domains else 0
        if size >= least:
            continue
        if plan.data.split(":")[0] not in ("environment", "pile") and name in plan.domains:
            raise DataError(
                f"Expected text in every domain of {plan.data}, found none usable in '{name}' "
                f"({_dropped(domains.get(name))})"
            )
        progress(f"left out because it has only {size / 1e6:.2f} MB: {name}")
        small[name] = size
        domains.pop(name, None)
        for split in SPLITS:
            for ending in ("bin", "ends"):
                (partial / split / f"{name}.{ending}").unlink(missing_ok=True)
    if not domains:
        raise DataError(f"Expected text in a domain of {plan.data}, found none")
    return small


def _dropped(counts: dict[str, Any] | None) -> str:
    """Tells in words why a domain is empty."""
    if counts is None:
        return "no document of it is long enough, or no row names it"
    dropped = counts["duplicates_dropped"] + counts["in_validation_dropped"]
    return f"{dropped} duplicates, {counts['skipped']} rows skipped"
