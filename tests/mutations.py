"""Files that are damaged at random, and what becomes of data sets with a mutated file."""

from __future__ import annotations

import copy
import math
import os
import random
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from bydore_pyro.errors import DataError


def mutated(content: bytes, rng: random.Random, pieces: Sequence[bytes]) -> bytes:
    """Cuts, flips, inserts, repeats or swaps bytes, a few times; `pieces` may trip a reader."""
    data = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(7):
            case 0:
                del data[at:]
            case 1 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 2:
                data[at:at] = rng.randbytes(rng.randrange(1, 9))
            case 3:
                del data[at : at + rng.randrange(1, 50)]
            case 4:
                data[at:at] = data[at : at + rng.randrange(1, 99)]
            case 5:
                data[at : at + 4] = rng.choice(pieces)
            case 6:
                data[at:at] = rng.choice(pieces)
    return bytes(data)


#: What a value in a file is replaced by.
REPLACEMENTS: tuple[Any, ...] = (
    None,
    [],
    {},
    [1],
    {"a": 1},
    [[]],
    "",
    "x",
    "0.5",
    0,
    -1,
    0.5,
    True,
    math.nan,
    math.inf,
    1e308,
    10**400,
    "\ud800",
    ["a", "b"],
    [{"a": 1}],
)


def replaced(content: Any) -> Iterator[Any]:
    """Yields copies of a content in which one value, at any depth, is another, or is gone."""

    def places(value: Any, way: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        yield way
        keys = range(len(value)) if isinstance(value, list) else ()
        for key in [*value] if isinstance(value, dict) else keys:
            yield from places(value[key], (*way, key))

    for way in places(content, ()):
        for new in (*REPLACEMENTS, "gone"):
            if not way:
                yield new
                continue
            copied = copy.deepcopy(content)
            inside = copied
            for key in way[:-1]:
                inside = inside[key]
            if new == "gone":
                del inside[way[-1]]
            else:
                inside[way[-1]] = new
            yield copied


def require_one_line(refused: Iterable[str], path: Path) -> None:
    """Checks that each error is a line of ours that names the file."""
    for line in refused:
        assert line.startswith("Expected ")
        assert str(path) in line
        assert "\n" not in line


#: What can happen to a file.
DAMAGES = ("remove", "double", "link", "lose", "truncate", "empty", "extend", "swap")
DAMAGES += ("folder", "pipe")


def damage(file: Path, other: Path | None, what: str, draw: Callable[[Any], Any]) -> None:
    """Does one of `DAMAGES` to a file; `other` is what it is swapped for or linked to."""
    content = file.read_bytes()
    if what == "double":
        shutil.copy(file, file.with_name(f"copy-{file.name}"))
    elif what == "truncate":
        file.write_bytes(content[: draw(st.integers(0, max(0, len(content) - 1)))])
    elif what == "empty":
        file.write_bytes(b"")
    elif what == "extend":
        file.write_bytes(content + draw(st.binary(min_size=1, max_size=40)))
    elif what == "swap" and other is not None:
        file.write_bytes(other.read_bytes())
        other.write_bytes(content)
    elif what != "swap":
        file.unlink()
        if what == "link":
            file.symlink_to(other or "nowhere")
        elif what == "lose":
            file.symlink_to("nowhere")
        elif what == "folder":
            file.mkdir()
        elif what == "pipe":
            os.mkfifo(file)


def under_mutations(
    sound: Path,
    folder: Path,
    mutate: Callable[[Path, Callable[..., Any]], str],
    outcome: Callable[[], tuple[Any, Any]],
    examples: int,
) -> dict[str, int]:
    """Counts what becomes of mutated copies of a sound data set: the same, refused or told.

    Anything else fails: other content of which no line says so, or an error that names no file.

    Args:
        sound: The data set.
        folder: Where its copies lie.
        mutate: Changes a copy with draws of hypothesis, and says what it did.
        outcome: Reads the copy; returns its content, and what was printed.
        examples: How many copies.
    """
    shutil.copytree(sound, folder)
    expected, printed = outcome()
    seen = dict.fromkeys(("same", "refused", "told"), 0)

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
    )
    @given(st.data())
    def check(data: st.DataObject) -> None:
        shutil.rmtree(folder)
        shutil.copytree(sound, folder)
        what, refused = mutate(folder, data.draw), ""
        try:
            found, lines = outcome()
        except DataError as error:
            refused = str(error)
        if refused:
            assert "\n" not in refused, what
            assert str(folder) in refused, f"{what}: named by its path: {refused}"
            seen["refused"] += 1
            return
        assert found == expected or lines != printed, f"{what}: in silence"
        seen["same" if found == expected else "told"] += 1

    check()
    return seen
