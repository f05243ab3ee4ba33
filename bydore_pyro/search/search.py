"""A search of either kind: begun, run, saved and gone on with.

A checkpoint ``checkpoints/step-000050`` holds everything that the next step depends on, without
pickle: the proxy and its optimiser, the guide and its optimiser, random states, positions in the
data and the trajectory so far. It also names the seed, options, data and versions that it belongs
to. On a CPU a resumed search ends with the same bits as one that was never stopped. A damaged
checkpoint is set aside as ``refused-step-000050`` and no longer counted.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bydore_pyro.data import Domains
from bydore_pyro.proxy import Proxy, proxy_content, restore_proxy
from bydore_pyro.search.config import SearchConfig
from bydore_pyro.search.linear import LinearSearch
from bydore_pyro.search.matching import MatchingSearch
from bydore_pyro.search.state import SearchState, StepRecord
from bydore_pyro.utils import (
    appearing_folder,
    check_belongs,
    read_tree,
    return_freed_memory,
    set_aside,
    write_tree,
)

__all__ = ["init_search", "load_checkpoint", "run_search", "save_checkpoint"]

TRIM_EVERY = 20  # steps
FORMAT = "bydore_pyro.checkpoint/6"
KEPT = 2  # the newest, and one before it should the newest be damaged


def init_search(
    domains: Domains,
    proxy: Proxy,
    config: SearchConfig,
    *,
    seed: int = 0,
) -> SearchState:
    """Returns a search before its first step, with the evidence that `config` names.

    For gradient matching, `domains` should keep sequences for measuring
    (`config.measured_sequences` of each domain).
    """
    kind = MatchingSearch if config.evidence == "matching" else LinearSearch
    return kind.begin(domains, proxy, config, seed)


def run_search(state: SearchState) -> Iterator[StepRecord]:
    """Yields a record a step until the search is done.

    Raises:
        DataError: When the files of the domains' tokens change while they are read.
        NonFiniteError: See `SearchState.step`; `state.records` holds every step before it.
    """
    while not state.is_done:
        record = state.step()
        # What a step reads is looked at before; this also finds what changed since.
        if state.is_done or len(state.records) % TRIM_EVERY == 0:
            state.domains.corpus.require_unchanged()
        yield record
        if len(state.records) % TRIM_EVERY == 0:
            return_freed_memory()


def save_checkpoint(state: SearchState, folder: Path, run: Mapping[str, Any] | None = None) -> Path:
    """Writes a checkpoint below `folder`, whole or not at all, and deletes all but the newest two.

    Args:
        state: The search.
        folder: Where its checkpoints are.
        run: What it belongs to beside the search's own options and data, by name: plain values.

    Returns:
        Its folder.

    Raises:
        OSError: When the disk is full; the checkpoints before it stay.
    """
    path = folder / f"step-{len(state.records):06d}"
    if not path.is_dir():
        with appearing_folder(path) as aside:
            write_tree(aside, _content(state), _header(state, run))
    for old in _checkpoints(folder)[KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
    return path


def load_checkpoint(
    state: SearchState,
    folder: Path,
    tell: Callable[[str], None],
    run: Mapping[str, Any] | None = None,
    *,
    writes: bool = True,
) -> Path | None:
    """Sets a search that has not begun to where the newest sound checkpoint was.

    Args:
        state: From `init_search`, with the arguments of the search that is continued.
        folder: Where its checkpoints are.
        tell: Told which checkpoints are refused, and why, and of other versions.
        run: What the search belongs to, as `save_checkpoint` was told.
        writes: Whether damaged checkpoints are set aside: of several processes one does.

    Returns:
        The checkpoint's folder, None when there is no sound one.

    Raises:
        RunFolderError: When the newest sound one belongs to another search; it names what differs,
            and all checkpoints stay.
    """
    for path in _checkpoints(folder):
        try:
            header, content = read_tree(path)
        except ValueError as error:
            place = set_aside(path) if writes else path
            tell(f"checkpoint {path} is refused and set aside as {place.name}: {error}")
            continue
        check_belongs(path, header, _header(state, run), tell)
        _restore(state, content)
        return path
    return None


def _checkpoints(folder: Path) -> list[Path]:
    """The newest first; a number of more than six digits comes after the others in its text."""
    found = {path.name.removeprefix("step-"): path for path in folder.glob("step-*")}
    return [found[step] for step in sorted(filter(str.isdecimal, found), key=int, reverse=True)]


def _header(state: SearchState, run: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a checkpoint and the search that goes on from it must share."""
    return {
        "format": FORMAT,
        "data": state.domains.corpus.sha256,
        "domains": list(state.domains.names),
        "search": dataclasses.asdict(state.config),
        "proxy": dataclasses.asdict(state.proxy.config),
        "parameters": sum(p.numel() for p in state.proxy.model.parameters()),
        **(run or {}),
    }


def _content(state: SearchState) -> dict[str, Any]:
    fields = [field.name for field in dataclasses.fields(StepRecord)]
    records = {
        name: np.array([getattr(record, name) for record in state.records]) for name in fields
    }
    return {
        **proxy_content(state.proxy, state.domains),
        "generator": state.generator.get_state(),
        "running": state.running(),
        "records": records,
    }


def _restore(state: SearchState, content: dict[str, Any]) -> None:
    restore_proxy(state.proxy, state.domains, content)
    state.generator.set_state(content["generator"])
    state.restore(content["running"])
    columns = content["records"]
    length = len(columns["loss"])
    state.records = [
        StepRecord(**{n: c[i] if c.ndim > 1 else c[i].item() for n, c in columns.items()})
        for i in range(length)
    ]
