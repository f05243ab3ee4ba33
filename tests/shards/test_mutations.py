"""Whatever happens to one file, or to one number that a file declares: the same tokens come out,
or a line refuses it by name, or what is told of the data is another."""

from __future__ import annotations

import gzip
import json
import os
import re
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from mutations import DAMAGES, damage, under_mutations
from shard_writers import EVERY, WRITERS
from tiny import documents_of, lines_told, write_byte_tokenizer

from bydore_pyro.data.tokenizer import TokenizerConfig
from bydore_pyro.shards import store as shard_store
from bydore_pyro.shards.store import open_shards

EXAMPLES = int(os.environ.get("MUTATIONS", "25"))  # of each format
END = 0
Outcome = tuple[dict[tuple[str, str], list[bytes]], list[str]]


def documents(seed: int, count: int) -> list[np.ndarray]:
    """Documents of bytes, each with the end of text behind it; a domain's are of its own size."""
    rng = np.random.default_rng(seed)
    made = [rng.integers(1, 250, rng.integers(8, 40)).astype("<u2") for _ in range(count)]
    for one in made:
        one[-1] = END
    return made


def write_sound(folder: Path, kind: str) -> Path:
    """Three domains, with two shards to train on and one held out."""
    for number, name in enumerate(("birds", "law", "web")):
        for shard, place in enumerate(("train/part-0", "train/part-1", "validation/part-0")):
            path = folder / name / place
            path.parent.mkdir(parents=True, exist_ok=True)
            WRITERS[kind](path, documents(10 * number + shard, 5 + 3 * number + shard))
    return folder


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bytes") / "tokenizer"
    return write_byte_tokenizer(folder)


def outcome(data: str, tokenizer: Path) -> Outcome:
    """The documents of every domain and side, sorted; and what is told."""
    config = TokenizerConfig(tokenizer=str(tokenizer))
    with lines_told() as lines:
        store = open_shards(data, None, config, cache=tokenizer.parent)
    found = {}
    for side in ("train", "validation"):
        for name in store.names:
            store.read(side, name, slice(None))
            documents = documents_of(getattr(store, side)[name])
            found[name, side] = sorted(d.astype("<u4").tobytes() for d in documents)
    return found, lines


def numbers_in(content: Any, path: tuple = ()) -> Iterator[tuple]:
    """Where whole numbers stand in plain values."""
    pairs = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in pairs:
        if isinstance(value, dict | list):
            yield from numbers_in(value, (*path, key))
        elif isinstance(value, int) and not isinstance(value, bool):
            yield (*path, key)


def declared(file: Path, draw: Callable[[Any], Any]) -> None:
    """Changes one number that a file declares, if it declares any."""
    content = file.read_bytes()
    change = draw(
        st.sampled_from(
            [
                lambda n: n + 1,
                lambda n: max(0, n - 1),
                lambda n: n * 2,
                lambda n: 0,
                lambda n: 2**50,
            ]
        )
    )
    if file.suffix == ".json":
        whole = json.loads(content)
        places = list(numbers_in(whole))
        if places:
            *path, last = draw(st.sampled_from(places))
            inner = whole
            for key in path:
                inner = inner[key]
            inner[last] = change(inner[last])
            file.write_text(json.dumps(whole))
    elif file.name.endswith((".csv.gz", ".metadata")):
        packed = file.suffix == ".gz"
        text = (gzip.decompress(content) if packed else content).decode()
        found = draw(st.sampled_from(list(re.finditer(r"\b\d+\b", text))))
        text = text[: found.start()] + str(change(int(found[0]))) + text[found.end() :]
        file.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    elif content.startswith(b"\x93NUMPY"):
        header = content[10:128]
        size = re.search(rb"\((\d+),", header)
        assert size is not None
        made = header.replace(size[1], b"%d" % change(int(size[1]))).rstrip()
        file.write_bytes(content[:10] + made.ljust(117) + b"\n" + content[128:])
    else:
        start, layout = layout_of(file, content)
        if not layout:  # tokens alone
            return
        values = list(struct.unpack_from(layout, content, start))
        at = draw(st.integers(0, len(values) - 1))
        most = 2 ** (8 * struct.calcsize("<" + layout[-1])) - 1
        values[at] = min(change(values[at]), most)
        made = bytearray(content)
        struct.pack_into(layout, made, start, *values)
        file.write_bytes(bytes(made))


def layout_of(file: Path, content: bytes) -> tuple[int, str]:
    """Where a binary file declares numbers, and which."""
    if content.startswith(b"LITPKDS"):
        return 16, "<Q"
    if content.startswith(struct.pack("<I", 20240520)):
        return 8, "<I"
    of_ending = {
        ".idx": (18, "<QQ"),
        ".index": (0, "<Q"),
        ".mds": (0, "<II"),
        ".npy": (0, ""),
        ".ds": (0, ""),
        ".bin": (0, "<II" if file.name.startswith("chunk") else ""),
    }
    return of_ending.get(file.suffix, (0, "<I"))


def mutate(folder: Path, draw: Callable[[Any], Any]) -> str:
    """Does one thing to one file; returns what."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    file = draw(st.sampled_from(files))
    alike = [other for other in files if other.suffix == file.suffix and other != file]
    what = draw(st.sampled_from([*DAMAGES, "declared", "declared"]))
    if what == "declared":
        declared(file, draw)
    else:
        other = draw(st.sampled_from(alike)) if alike and what in ("link", "swap") else None
        damage(file, other, what, draw)
    return f"{what} {file.relative_to(folder)}"


@pytest.mark.parametrize("kind", EVERY)
def test_no_mutation_passes_in_silence(
    kind: str, tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound, folder = write_sound(tmp_path / "sound", kind), tmp_path / "shards"
    place = shard_store._tokenizer_in(tmp_path / "cache", str(tokenizer))
    monkeypatch.setattr(shard_store, "_tokenizer_in", lambda cache, given: place)
    reading = partial(outcome, f"{kind}:{folder}", tokenizer)
    seen = under_mutations(sound, folder, mutate, reading, EXAMPLES)
    assert seen["refused"] > 0.2 * sum(seen.values())
    assert sum(seen.values()) >= 0.9 * EXAMPLES
