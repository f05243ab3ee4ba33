"""Shards to a token store: their sides, their hashes, and whether the tokenizer is theirs."""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stderr, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bydore_pyro import mixture, terminal
from bydore_pyro.data import (
    CALLED,
    FORMAT,
    SPLITS,
    CorpusConfig,
    RowConfig,
    Text,
    TokenFile,
    TokenizerConfig,
    TokenStore,
    cache_folder,
    file_sha256,
    load_encoder,
    nothing_counted,
    pad_token,
    save_tokenizer,
    selected,
    sha256_of,
    tell_idle,
    tokenizer_sha256,
    vocabulary_of,
)
from bydore_pyro.errors import DataError, listed, one_line
from bydore_pyro.files import content_hash
from bydore_pyro.shards.arrays import blocks_of, fingerprint
from bydore_pyro.shards.inventory import Inventory, Place, checked, once, require_alike
from bydore_pyro.shards.names import missing_numbers
from bydore_pyro.shards.places import Beside, Sides, shard_files
from bydore_pyro.shards.widths import DIVIDERS, Known

LOOKED_AT = 256  # ends of documents of a shard
FEW = 5  # names that a line tells
NAME = 60  # characters of a name that foreign metadata give
CUT = "warning: shards that end within a document, as if they were cut"
UNSHUFFLED = "_unshuffled"  # what datatrove calls shards until it has shuffled them


class _Notes:
    """Names by what there is to tell of them, when all shards are opened."""

    def __init__(self) -> None:
        self.scans = False  # whether it was told that all of a shard is read
        self.lines: dict[str, list[str]] = defaultdict(list)
        self.left_out: dict[str, list[str]] = defaultdict(list)
        self.padding: Counter[str] = Counter()  # tokens
        # Of shards that are scanned, whether the last token ends a document.
        self.finished: dict[str, dict[Path, bool]] = defaultdict(dict)
        self.rows: dict[str, list[int]] = {}
        self.tokenizers: dict[str, str] = {}


def open_shards(
    data: str,
    corpus: CorpusConfig | None = None,
    tokenizer: TokenizerConfig | None = None,
    rows: RowConfig | None = None,
    *,
    needed: Iterable[str] = (),
    cache: Path | None = None,
) -> TokenStore:
    """Opens trainers' token shards as a store: mapped, nothing is copied or converted.

    The store's hash stands for each file's size, time and some blocks (`fingerprint`), and for all
    ends of documents, which take eight bytes of memory each. As of every store, a file that is
    cut while it is read is an error.

    Args:
        data: What `shard_files` takes.
        corpus: Its `validation_fraction` of a domain, the last documents, is held out where no
            shards are; the rest is without effect.
        tokenizer: The tokenizer that the tokens are of, and what the user tells of them.
        rows: Without effect.
        needed: Domains that must be among the data's.
        cache: Where the tokenizer is kept; as for `load_tokens` when None.

    Raises:
        DataError: When there are no such shards, no tokenizer, or shards are damaged or hold tokens
            that the tokenizer has not.
    """
    corpus, tokens_of = corpus or CorpusConfig(), tokenizer or TokenizerConfig()
    places, notes, given = shard_files(data), _Notes(), tokens_of.tokenizer
    domains = places.domains
    selected(needed, domains)
    if given is None:
        raise DataError(f"Expected --tokenizer, whose tokens are in {data}, found none")
    share = corpus.validation_fraction
    idle = replace(corpus, validation_fraction=CorpusConfig().validation_fraction)
    tell_idle(f"shards ({data})", (idle, rows))
    folder = _tokenizer_in(cache or cache_folder(), given)
    known = _known(folder / "tokenizer", tokens_of)
    again = partial(_reopened, data, corpus, tokenizer, cache=cache)
    store, entries = TokenStore(folder, {}, {}, {}, reopen=again), {}
    for name, own in sorted(domains.items()):
        for file in own["train"]:
            if file.called:
                notes.lines[CALLED].append(f"{name}: {file.called}")
        for file in own.get("validation", []):
            if file.side == "validation":
                line = "held out by their names, beside a train"
                notes.lines[line].append(f"{name}: {file.split or file.path.name}")
    found = _inventories(domains, places.beside, notes)
    for name, files in sorted(domains.items()):
        sides = [_opened(name, found.get((name, side), []), known, notes) for side in SPLITS]
        if "validation" not in files:
            sides, how = _held_out(sides[0], share)
            notes.lines[how].append(name)
        entries[name] = _put(store, name, sides)
        notes.rows[name] = [
            sum(len(found.get((name, side), [])) for side in SPLITS),
            sum(len(text.ends) for text in sides),
            *map(len, sides),
            notes.padding[name],
        ]
    texts = (*store.train.values(), *store.validation.values())
    dtype = np.result_type(*(text.dtype for text in texts)).str
    sha256 = tokenizer_sha256(store.tokenizer)
    store.index.update(
        format=FORMAT,
        origin=data,
        sha256=sha256_of(entries, sha256, known.vocabulary, dtype),
        tokenizer_sha256=sha256,
        vocabulary=known.vocabulary,
        dtype=dtype,
        domains=entries,
    )
    shards, total = sum(map(len, found.values())), sum(map(len, texts))
    terminal.tell(f"{len(domains)} domains, {shards} shards, {total:,} tokens, read in place")
    _tell(notes, given)
    return store.with_judged()


def _known(folder: Path, config: TokenizerConfig) -> Known:
    """What the tokenizer, and the user, say of the tokens."""
    encoder, end = load_encoder(folder)
    vocabulary, pad = vocabulary_of(encoder), pad_token(folder, encoder)
    separator, divider = end if config.separator is None else config.separator, None
    if separator in DIVIDERS and separator >= vocabulary:
        separator, divider = end, separator
    if separator >= vocabulary:
        raise DataError(
            f"Expected a separator below {vocabulary}, the vocabulary of --tokenizer, or one of "
            f"{listed(map(str, DIVIDERS))}, found {separator}"
        )
    return Known(
        vocabulary=vocabulary,
        separator=separator,
        divider=divider,
        pad=None if pad == separator else pad,
        width=config.token_bytes,
    )


def _inventories(
    domains: Mapping[str, Sides], beside: Sequence[Beside], notes: _Notes
) -> dict[tuple[str, str], list[Inventory]]:
    """Reads all shards; what lies beside them is refused if it belongs to none, or counted."""
    read = {
        Place(name, side, file.path): file.reader.read(file.path)
        for name, sides in sorted(domains.items())
        for side, files in sides.items()
        for file in files
    }
    if len(read) < sum(len(files) for sides in domains.values() for files in sides.values()):
        raise DataError("Expected every shard once, found one twice for the same domain")
    parts = once(read.items())
    require_alike(read.items())
    for name, missing in missing_numbers((place.domain, place.path) for place in read):
        notes.lines["warning: numbers between those of other shards are missing"].append(
            f"{name}: {missing.name}"
        )
    whole = "parts of what is read whole"
    notes.left_out[whole] += [path.name for path in sorted(parts)]
    shards = {place.path for place in read}
    left_out = {p: why for p, _, why in beside if why.endswith("split") and p not in shards}
    of_splits = [reader.read(path) for path, reader, _ in beside if path in left_out]
    for path, split in left_out.items():
        notes.left_out[split].append(str(path))
    files = [file for one in (*read.values(), *of_splits) for file in (*one.files, *one.beside)]
    known, homes = {*map(os.path.realpath, files)}, [path.parent for path in parts]
    for path, reader, _ in beside:
        if path.as_posix().endswith(reader.endings) and path.name == "zarr.json":
            homes.append(path.parents[2])
    for path, reader, reason in beside:
        if os.path.realpath(path) in known:
            continue
        name, shuffled = path.name, path.with_name(path.name.replace(UNSHUFFLED, ""))
        alone = UNSHUFFLED in path.name and not shuffled.exists()
        if any(path.is_relative_to(home) for home in homes):
            why = whole
        elif reason == "no text" and not alone:
            why, name = "no text of their own", f"{path.parent.name}/{path.name}"
        elif alone or (reader.own and path.as_posix().endswith(reader.own)):
            raise DataError(f"Expected every file to belong to a whole shard, found {path} alone")
        else:
            why = "no shards"
        notes.left_out[why].append(name)
    found: dict[tuple[str, str], list[Inventory]] = {}
    for place, one in read.items():
        if place.path not in parts:
            found.setdefault((place.domain, place.side), []).append(one)
    _tell_same(read, notes)
    return found


def _tell_same(read: Mapping[Place, Inventory], notes: _Notes) -> None:
    """Notes which shards have the same beginning, middle and end as another."""
    seen: dict[tuple[int, bytes], Place] = {}
    for place, one in read.items():
        file = one.files[0]
        known = file.stat().st_size, blocks_of(file)
        first = seen.setdefault(known, place)
        if first is not place and first.path != place.path:
            line = "warning: shards with the same content as another"
            notes.lines[line].append(f"{place.path} ({first.path})")


def _reopened(*given: Any, **more: Any) -> TokenStore:
    """Opens shards in another process, which tells nothing again."""
    with redirect_stderr(io.StringIO()):
        return open_shards(*given, **more)


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


def _opened(name: str, found: Sequence[Inventory], known: Known, notes: _Notes) -> Text:
    """Opens the shards of a domain's side, and looks whether they are of the tokenizer."""
    texts = []
    for one in found:
        if one.ends is None and not notes.scans:
            terminal.tell("reading all of the shards that do not tell where documents end")
            notes.scans = True
        shard = checked(one, known)
        notes.padding[name] += shard.padding
        if not len(shard):
            notes.lines["empty shards, left out"].append(f"{name}: {one.files[0].name}")
            continue
        if shard.width is not None:
            line = f"tokens read as {shard.width} bytes each, since no file says it"
            notes.lines[line].append(name)
        if shard.resembles:
            line = f"warning: tokens that look like {shard.resembles}"
            notes.lines[line].append(f"{name}: {one.files[0].name}")
        end = known.separator
        if shard.scanned:
            notes.lines[f"documents end where end-of-text stands ({end})"].append(name)
            last = shard[np.array([len(shard) - 1])]
            notes.finished[name][one.files[0]] = bool(last[0] == end)
            if one.index is not None and last[0] != end:
                notes.lines[CUT].append(f"{name}: {one.files[0].name}")
        looked_at, ended = _ended(shard, end)
        if shard.scanned and ended <= looked_at / 2:
            line = f"warning: no end-of-text ({end}) divides documents"
            notes.lines[f"{line}; --separator names another token"].append(name)
        elif not shard.scanned and ended < looked_at:
            some = f" ({looked_at - ended} of {looked_at})" if ended > looked_at / 2 else ""
            line = f"warning: documents do not end with end-of-text ({end})"
            notes.lines[line].append(f"{name}{some}")
        if one.tokenizer is not None:
            notes.tokenizers[name] = one.tokenizer
        files = [TokenFile(file, fingerprint(file), fingerprint) for file in one.files]
        texts.append(Text.in_files(shard.tokens, shard.ends, files))
    widths = sorted({text.dtype.itemsize for text in texts})
    if len(widths) > 1:
        line = f"warning: shards of a domain have tokens of {listed(map(str, widths))} bytes"
        notes.lines[line].append(name)
    if found and not texts:
        raise DataError(f"Expected tokens in '{name}', found empty shards: {found[0].files[0]}")
    return Text.joined(texts)


def _ended(text: Text, end: int) -> tuple[int, int]:
    """How many documents are looked at, and how many of them end with the separator."""
    some = np.linspace(0, len(text.ends) - 1, min(len(text.ends), LOOKED_AT)).astype(int)
    return len(some), int((np.asarray(text[text.ends[some] - 1]) == end).sum())


def _held_out(whole: Text, share: float) -> tuple[list[Text], str]:
    """Splits a domain: its last documents are held out, about a share of its tokens; or its last
    tokens, where no document ends near there. Returns in words which of the two."""
    tokens, ends = whole.tokens, whole.ends
    wanted = (1 - share) * len(tokens)
    last = min(int(np.searchsorted(ends, wanted)), max(0, len(ends) - 2))
    cut = int(ends[last])
    how = "the last documents are held out, since no name holds out a shard"
    if not 0.5 * share <= 1 - cut / len(tokens) <= 2 * share:
        how = "the last tokens are held out, since no document ends near there"
        cut = min(int(wanted), len(tokens) - 1)
    first, rest = ends[ends <= cut], ends[ends > cut]
    if not len(first) or first[-1] != cut:
        first = np.append(first, cut)[: cut and None]
    held_out = Text(tokens[cut:], rest - cut, whole.files)
    return [Text(tokens[:cut], first, whole.files), held_out], how


def _put(store: TokenStore, name: str, sides: Sequence[Text]) -> dict[str, Any]:
    """Puts a domain into the store; returns its entry of the index."""
    entry = nothing_counted()
    for split, text in zip(SPLITS, sides, strict=True):
        getattr(store, split)[name] = text
        entry[split] |= {
            "tokens": len(text),
            "documents": len(text.ends),
            "independent_documents": len(text.ends),
            "sha256": content_hash([[file.sha256 for file in text.files], len(text), split]),
            "ends_sha256": hashlib.sha256(np.ascontiguousarray(text.ends).data).hexdigest(),
        }
    return entry


def _tell(notes: _Notes, given: str) -> None:
    """Tells what was found, and what was not in the files or does not look like the tokenizer's."""
    titles = ("", "shards", "documents", "tokens", "held out", "padding left out")
    rows = sorted(notes.rows.items(), key=lambda row: -row[1][2])
    shown = [(name, *map("{:,}".format, counts)) for name, counts in rows[: mixture.MOST_SHOWN]]
    for line in terminal.Table(header=titles, rows=shown).as_text().splitlines():
        terminal.tell(line)
    if len(rows) > mixture.MOST_SHOWN:
        terminal.tell(f"and {len(rows) - mixture.MOST_SHOWN} domains of fewer tokens")
    others = {n: t for n, t in notes.tokenizers.items() if Path(t).name != Path(given).name}
    if others:
        named = listed(sorted({terminal.visible(one_line(t, NAME)) for t in others.values()}), FEW)
        notes.lines[f"warning: the shards name the tokenizer {named}, not {given}"] += others
    for name, finished in notes.finished.items():
        if sum(finished.values()) >= len(finished) / 2:
            cut = [file for file, ended in finished.items() if not ended]
            notes.lines[CUT] += [f"{name}: {file.name}" for file in cut]
    for why, names in notes.left_out.items():
        notes.lines[f"files left out, {why}: {len(names)}"] += names
    for line, names in notes.lines.items():
        if names:
            terminal.tell(f"{line}: {listed(dict.fromkeys(names), FEW)}")
