"""Stores made of stores: joined with another, with a file of rows to validate on, or cut."""

from __future__ import annotations

import dataclasses
import hashlib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bydore_pyro import terminal
from bydore_pyro.data.documents import CorpusConfig, in_pieces
from bydore_pyro.data.index import NOT_HASHED, UNITS, sha256_of
from bydore_pyro.data.kinds import is_row_file, is_rows_or_txt
from bydore_pyro.data.rows import RowConfig, read_rows, read_text
from bydore_pyro.data.splits import check_name, domain_of
from bydore_pyro.data.store import END, SIDES, Text, TokenStore, check_needed, nothing_counted
from bydore_pyro.data.tokenizer import encode, load_encoder
from bydore_pyro.errors import DataError, listed


def joined_stores(store: TokenStore, added: TokenStore) -> TokenStore:
    """Returns a store with another one's domains too, which replace those of the same name.

    Raises:
        DataError: When the other was built with another tokenizer.
    """
    if added.tokenizer_sha256 != store.tokenizer_sha256:
        raise DataError(
            f"Expected tokens of the tokenizer in {store.folder} "
            f"({store.tokenizer_sha256[:12]}), found others in {added.folder} "
            f"({added.tokenizer_sha256[:12]}): bydore prepare --tokenizer {store.tokenizer}"
        )
    domains = dict(sorted((store.index["domains"] | added.index["domains"]).items()))
    sha256 = sha256_of(domains, store.tokenizer_sha256, store.vocabulary, store.index["dtype"])
    joined: dict[str, Any] = {
        side: dict(sorted((getattr(store, side) | getattr(added, side)).items())) for side in SIDES
    }
    index = {**store.index, "domains": domains, "sha256": sha256}
    for key in (*NOT_HASHED, UNITS):
        kept = {n: v for n, v in index.get(key, {}).items() if n not in added.index["domains"]}
        own = {n: v for n, v in added.index.get(key, {}).items() if n in added.index["domains"]}
        index[key] = kept | own
    return dataclasses.replace(store, index=index, **joined)


def name_of_validation_file(entry: str) -> str | None:
    """Returns the domain name of a file of rows or of text (.txt), None where `entry` names no such
    file.

    It is the file's own up to the first dot, as for a file in a folder of domains.
    """
    path = Path(entry)
    return domain_of(path.name.split(".")[0]) if is_rows_or_txt(path) else None


def with_held_out(
    store: TokenStore, name: str, text: Text, entry: dict[str, Any], empty: int = 0
) -> TokenStore:
    """Returns a store with one more domain, of held-out text alone; none of it is judged.

    Args:
        store: The others.
        name: Of the domain.
        text: Of the store's tokenizer.
        entry: Of the domain in the index.
        empty: Rows of it that held no text.

    Raises:
        DataError: When there is a domain of this name, or the name cannot be a domain's.
    """
    check_name(name)
    if name in store.names:
        raise DataError(
            f"Expected a target that is not named like a domain of the data ({listed(store.names)}"
            f"), found '{name}': name= gives it another name"
        )
    index = {**store.index, "domains": {name: entry}, "empty": {name: empty} if empty else {}}
    none = {name: Text(text[:0], text.ends[:0])}
    return joined_stores(store, TokenStore(store.folder, none, {name: text}, index, none))


def with_validation_file(
    store: TokenStore, path: Path, rows: RowConfig | None = None, name: str | None = None
) -> TokenStore:
    """Returns a store with the rows of a file as one more domain, of held-out text alone.

    The file names the domain, where no other `name` is given. Each row is a document, whatever its
    length, and so is each piece of a text file (.txt), cut as those of a domain of few files;
    nothing is drawn, and only the space around a text is cut off. Of rows of the same text one is
    kept, because copies add nothing new.
    None is kept to judge by. The tokens are held in memory.

    Raises:
        DataError: When there is no such file, it holds no text or what cannot be read, or its name
            is that of a domain.

    Warns:
        UserWarning: When rows are copies of others, empty, or could not be read.
    """
    name = name or domain_of(path.name.split(".")[0])
    config = dataclasses.replace(rows or RowConfig(), domain_column=None)
    if is_row_file(path):
        read = list(read_rows(path, config))
    elif path.is_file():
        read = list(in_pieces(read_text(path, config), CorpusConfig()))
    else:
        raise DataError(f"Expected a file, found none: {path}")
    for note in (row.note for row in read if row.note):
        terminal.tell(f"{path}: {note}")
    given = [text for row in read if row.text and (text := row.text.strip())]
    texts = list(dict.fromkeys(given))
    if not texts:
        raise DataError(f"Expected text in the validation file, found none in {path}")
    copies, skipped = len(given) - len(texts), sum(row.text is None for row in read)
    empty = len(read) - len(given) - skipped
    for count, what, of in (
        (copies, "are copies of others and", len(given)),
        (empty, "are empty and", len(read)),
        (skipped, "could not be read and", len(read)),
    ):
        if count:
            warnings.warn(f"{path}: {count} of {of} rows {what} are left out", stacklevel=2)
    tokens, lengths = encode(*load_encoder(store.tokenizer), np.dtype(store.index["dtype"]), texts)
    ends = np.cumsum(lengths).astype(END)
    entry = nothing_counted()
    entry |= {"skipped": skipped, "duplicates_dropped": copies}
    entry["validation"] = {
        "tokens": len(tokens),
        "documents": len(texts),
        "independent_documents": len(texts),
        "bytes": sum(len(text.encode()) for text in texts),
        "sha256": hashlib.sha256(tokens.tobytes()).hexdigest(),
        "ends_sha256": hashlib.sha256(ends.tobytes()).hexdigest(),
    }
    return with_held_out(store, name, Text(tokens, ends), entry, empty)


def cut_store(store: TokenStore, most: Mapping[str, int], seed: int | None = None) -> TokenStore:
    """Limits the training tokens of some domains of a store, so that their text runs out.

    Documents stay whole but for the last one taken, which fills the size up. They are taken in an
    order of the seed, or the store's own when it is None: of two sizes, the text of the smaller one
    is the beginning of the larger one's.

    Raises:
        DataError: When there is no such domain.
    """
    check_needed(most, store.names)
    train = dict(store.train)
    entries = dict(store.index.get("domains", {}))
    for name, size in most.items():
        text = train[name]
        if size >= len(text):
            continue
        if name in entries:  # what is left of it is all of it
            of_train = {k: v for k, v in entries[name]["train"].items() if k != "in_all"}
            entries[name] = {**entries[name], "train": of_train}
        order, starts, ends = np.arange(len(text.ends)), text.starts, text.ends
        if seed is not None:
            order = np.random.default_rng([seed, *text.seed]).permutation(order)
        total = np.cumsum((ends - starts)[order])
        taken = order[: int(np.searchsorted(total, size)) + 1]
        tokens = text[:size]  # as it lies on the disk, without a copy
        if seed is not None:
            tokens = np.concatenate([text[starts[i] : ends[i]] for i in taken])[:size]
        train[name] = Text(tokens, np.minimum(total[: len(taken)], size), text.files)
    identity = f"{store.sha256} {sorted(most.items())}" + (f" {seed}" if seed is not None else "")
    sha256 = hashlib.sha256(identity.encode()).hexdigest()
    index = {**store.index, "sha256": sha256, "domains": entries}
    return dataclasses.replace(store, train=train, index=index)
