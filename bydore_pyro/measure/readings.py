"""Readings: the losses of models that trained on known tokens, on held-out text of every domain.

Every run is read on every domain, whatever its target: the search's own run at some of its steps,
each trial and each run of a check at its end. The table ``losses.json`` in a run's folder holds all
readings. The law of losses (`bydore_pyro.law.law`) is fitted to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bydore_pyro import data, files, proxy, terminal
from bydore_pyro.errors import expecting

READ = 64  # sequences of a domain
READINGS = "losses.json"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The losses of one model.

    Attributes:
        of: Which model, in words.
        tokens: On which it trained, by domain.
        losses: On held-out text by domain, nats per token.
        run: Of a run of `bydore check`, the hash of all that it depends on; else "".
        targets: Of such a run, on the targets of the search, each in its unit.
    """

    of: str
    tokens: Mapping[str, files.Number]
    losses: Mapping[str, files.Number]
    run: str = ""
    targets: Mapping[str, files.Number] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class _Table:
    """What `READINGS` holds."""

    readings: tuple[Reading, ...]


def read_losses(model: proxy.MeasuredModel, domains: data.Domains) -> dict[str, float]:
    """Returns a model's losses by domain, nats per token, of those that have held-out text.

    Raises:
        Interrupted: See `stop_if_asked`; it is asked after every domain.
    """
    corpus, length, found = domains.corpus, domains.sequence_length, {}
    for name in domains.names:
        if len(corpus.validation[name]) >= length:
            text = data.held_out_stream(corpus, name, length, domains.seed).first(READ)
            found[name] = model.evaluate(text.to(domains.device), "read")
            terminal.stop_if_asked(model.parallel.largest)
    return found


def readings_text(readings: Sequence[Reading]) -> str:
    """Returns readings as the text of `READINGS`, with its hash."""
    rows = []
    for one in readings:
        row: dict[str, Any] = {"of": one.of}
        row |= {"tokens": dict(one.tokens), "losses": dict(one.losses)}
        rows.append(row | ({"run": one.run, "targets": dict(one.targets)} if one.run else {}))
    content = {"readings": rows}
    return (
        json.dumps({**content, "sha256": files.content_hash(content)}, indent=2, allow_nan=False)
        + "\n"
    )


def read_readings(folder: Path) -> tuple[Reading, ...]:
    """Reads the table of a run.

    Raises:
        DataError: When it is gone, was changed or is damaged.
    """
    path = folder / READINGS
    with expecting(f"Expected the losses that a run has written, found none or others: {path}:"):
        found = files.plain_json(path.read_text(encoding="utf-8"))
        if found.pop("sha256") != files.content_hash(found):
            raise ValueError("another hash than its own")
    return files.read_as(_Table, path).readings
