"""Shards to a token store: their sides, their hashes, and whether the tokenizer is theirs."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bydore_pyro.data import (
    END,
    FORMAT,
    SPLITS,
    CorpusConfig,
    RowConfig,
    TokenizerConfig,
    Tokens,
    TokenStore,
    WatchedFile,
    cache_folder,
    file_sha256,
    joined,
    load_encoder,
    nothing_counted,
    save_tokenizer,
    selected,
    sha256_of,
    tell_idle,
    tokenizer_sha256,
)
from bydore_pyro.shards.arrays import Shard, fingerprint, scanned_ends
from bydore_pyro.shards.places import ShardFile, shard_files
from bydore_pyro.utils import DataError, content_hash

__all__ = ["open_shards"]

BLOCKS, BLOCK = 16, 1024  # of a shard, so many times so many tokens are looked at when it is opened
LOOKED_AT = 256  # ends of documents of a shard
FEW = 5  # names that a line tells


@dataclass
class _Side:
    """Tokens of a domain on a side, where their documents end, and the files that they are in."""

    tokens: Tokens
    ends: np.ndarray
    files: list[Path]


@dataclass
class _Notes:
    """Domains by what there is to tell of them, when all are opened."""

    progress: Callable[[str], None]
    held_out: list[str] = field(default_factory=list)
    scanned: list[str] = field(default_factory=list)
    other_end: list[str] = field(default_factory=list)
    tokenizers: dict[str, str] = field(default_factory=dict)


def open_shards(
    data: str,
    corpus: CorpusConfig | None = None,
    tokenizer: TokenizerConfig | None = None,
    rows: RowConfig | None = None,
    *,
    needed: Iterable[str] = (),
    cache: Path | None = None,
    progress: Callable[[str], None],
) -> TokenStore:
    """Opens trainers' token shards as a store: mapped, nothing is copied or converted.

    The store's hash stands for each file's size, time and some blocks (`fingerprint`), and for all
    ends of documents, which take eight bytes of memory each. As in every store, a file that changes
    while it is read is told.

    Args:
        data: What `shard_files` takes.
        corpus: Its `validation_fraction` of a domain, the last documents, is held out where no
            shards are; the rest is without effect.
        tokenizer: The tokenizer that the tokens are of.
        rows: Without effect.
        needed: Domains that must be among the data's.
        cache: Where the tokenizer is kept; as for `load_tokens` when None.
        progress: Told what was found, line by line.

    Raises:
        DataError: When there are no such shards, no tokenizer, or shards are damaged or hold tokens
            that the tokenizer has not.
    """
    corpus, given = corpus or CorpusConfig(), (tokenizer or TokenizerConfig()).tokenizer
    domains, notes = shard_files(data), _Notes(progress)
    selected(needed, domains)
    if given is None:
        raise DataError(f"Expected --tokenizer, whose tokens are in {data}, found none")
    share = corpus.validation_fraction
    idle = replace(corpus, validation_fraction=CorpusConfig().validation_fraction)
    tell_idle(f"shards ({data})", (idle, rows), progress)
    folder = _tokenizer_in(cache or cache_folder(), given)
    encoder, end = load_encoder(folder / "tokenizer")
    vocabulary, entries = encoder.get_vocab_size(), {}
    again = partial(open_shards, data, corpus, tokenizer, cache=cache, progress=_silent)
    store = TokenStore(folder, {}, {}, {}, reopen=again)
    for name, files in sorted(domains.items()):
        sides = [_opened(name, files.get(side, []), vocabulary, end, notes) for side in SPLITS]
        if "validation" not in files:
            sides = _held_out(sides[0], share)
            notes.held_out.append(name)
        entries[name] = _put(store, name, sides)
    arrays = (*store.train.values(), *store.validation.values())
    dtype = np.result_type(*(tokens.dtype for tokens in arrays)).str
    sha256 = tokenizer_sha256(store.tokenizer)
    store.index.update(
        format=FORMAT,
        origin=data,
        sha256=sha256_of(entries, sha256, vocabulary, dtype),
        tokenizer_sha256=sha256,
        vocabulary=vocabulary,
        dtype=dtype,
        domains=entries,
    )
    shards = sum(len(files) for sides in domains.values() for files in sides.values())
    total = sum(map(len, arrays))
    progress(f"{len(domains)} domains, {shards} shards, {total:,} tokens, read in place")
    _tell(notes, given, end, share)
    return store


def _silent(line: str) -> None:
    """Tells nothing."""


def _tokenizer_in(cache: Path, given: str) -> Path:
    """Saves a tokenizer in a folder that its content names; returns that."""
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as aside:
        made = Path(aside) / "store"
        save_tokenizer(given, made / "tokenizer")
        # Two of the same tokens may differ in which of them ends a text.
        hashes = [file_sha256(file) for file in sorted((made / "tokenizer").iterdir())]
        place = cache / f"tokenizer-{content_hash(hashes)[:16]}"
        with suppress(OSError):  # it is there
            made.rename(place)
    return place


def _opened(
    name: str, files: Sequence[ShardFile], vocabulary: int, end: int, notes: _Notes
) -> _Side:
    """Opens the shards of a domain's side, and looks whether they are of the tokenizer."""
    side, parts, ends = _Side(np.empty(0, "<u2"), np.empty(0, END), []), [], []
    before = 0
    for file in files:
        shard = file.reader.read(file.path, vocabulary)
        _check(shard, vocabulary)
        found = shard.ends
        if found is None:
            if not notes.scanned:
                notes.progress("reading all of the shards that do not tell where documents end")
            notes.scanned.append(name)
            found = scanned_ends(shard.tokens, end)
        if not _ends_with(shard.tokens, found, end):
            notes.other_end.append(name)
        if shard.tokenizer is not None:
            notes.tokenizers[name] = shard.tokenizer
        ends.append(found + before if before else found)
        parts.append(shard.tokens)
        side.files += shard.files
        before += len(shard.tokens)
    side.tokens = joined(parts)
    side.ends = ends[0] if len(ends) == 1 else np.concatenate([side.ends, *ends])
    return side


def _check(shard: Shard, vocabulary: int) -> None:
    """Refuses a shard in some blocks of which there are tokens that the tokenizer has not."""
    for start in np.linspace(0, max(0, len(shard.tokens) - BLOCK), BLOCKS).astype(int).tolist():
        largest = int(np.asarray(shard.tokens[start : start + BLOCK]).max())
        if largest >= vocabulary:
            raise DataError(
                f"Expected tokens below {vocabulary}, the vocabulary of --tokenizer, found "
                f"{largest}: {shard.files[0]}"
            )


def _ends_with(tokens: Tokens, ends: np.ndarray, end: int) -> bool:
    """Whether most documents, of some that are looked at, end with the end-of-text token."""
    some = np.linspace(0, len(ends) - 1, min(len(ends), LOOKED_AT)).astype(int)
    return float((tokens[ends[some] - 1] == end).mean()) > 0.5


def _held_out(whole: _Side, share: float) -> list[_Side]:
    """Splits a domain: its last documents, about a share of its tokens, are held out."""
    tokens, ends = whole.tokens, whole.ends
    last = min(int(np.searchsorted(ends, (1 - share) * len(tokens))), max(0, len(ends) - 2))
    cut = int(ends[last])
    return [
        _Side(tokens[:cut], ends[: last + 1], whole.files),
        _Side(tokens[cut:], ends[last + 1 :] - cut, whole.files),
    ]


def _put(store: TokenStore, name: str, sides: Sequence[_Side]) -> dict[str, Any]:
    """Puts a domain into the store; returns its entry of the index."""
    entry = nothing_counted()
    known: dict[Path, str] = {}
    for split, side in zip(SPLITS, sides, strict=True):
        known |= {path: fingerprint(path) for path in side.files if path not in known}
        hashes = [known[path] for path in side.files]
        getattr(store, split)[name] = side.tokens
        getattr(store, f"{split}_documents")[name] = side.ends
        store.files[split, name] = [
            WatchedFile(path, known[path], fingerprint) for path in side.files
        ]
        entry[split] |= {
            "tokens": len(side.tokens),
            "documents": len(side.ends),
            "independent_documents": len(side.ends),
            "sha256": content_hash([hashes, len(side.tokens), split]),
            "ends_sha256": hashlib.sha256(np.ascontiguousarray(side.ends).data).hexdigest(),
        }
    return entry


def _tell(notes: _Notes, given: str, end: int, share: float) -> None:
    """Tells what was not in the files, or does not look like the tokenizer's."""
    others = {n: t for n, t in notes.tokenizers.items() if Path(t).name != Path(given).name}
    named = ", ".join(sorted({*others.values()}))
    told: Mapping[str, Iterable[str]] = {
        f"held out, as no shards are: the last documents, {share:.0%}": notes.held_out,
        f"documents end where end-of-text stands ({end})": notes.scanned,
        f"warning: documents do not end with end-of-text ({end})": notes.other_end,
        f"warning: the shards name the tokenizer {named}, not {given}": others,
    }
    for line, names in told.items():
        some = list(dict.fromkeys(names))
        more = f" and {len(some) - FEW} more" if len(some) > FEW else ""
        if some:
            notes.progress(f"{line}: {', '.join(some[:FEW])}{more}")
