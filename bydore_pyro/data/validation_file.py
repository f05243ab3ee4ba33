"""A file of rows as a validation set: text that is no domain of the data, and never trained on."""

from __future__ import annotations

import dataclasses
import hashlib
import warnings
from pathlib import Path

import numpy as np

from bydore_pyro.data.encode import encode
from bydore_pyro.data.rows import RowConfig, is_row_file, read_rows
from bydore_pyro.data.sources import check_name
from bydore_pyro.data.store import END, TokenStore, nothing_counted, sha256_of
from bydore_pyro.data.tokenizer import load_encoder
from bydore_pyro.utils import DataError

__all__ = ["name_of_validation_file", "with_validation_file"]


def name_of_validation_file(entry: str) -> str | None:
    """Returns the name that a file of rows has as a domain, None where `entry` names no such file.

    It is the file's own up to the first dot, as for a file in a folder of domains.
    """
    path = Path(entry)
    return path.name.split(".")[0] if is_row_file(path) else None


def with_validation_file(
    store: TokenStore, path: Path, rows: RowConfig | None = None
) -> TokenStore:
    """Returns a store with one domain more: held-out text alone, the rows of a file.

    Each row is a document, whatever its length; nothing is drawn or cut. Of rows of the same text
    one is kept, because copies tell nothing new. The text is encoded by the store's tokenizer and
    held in memory; the folder of the store stays as it is.

    Args:
        store: The tokens of the domains.
        path: A file of rows (JSON lines, Parquet, Arrow), which names the domain.
        rows: The column of the text, and what happens to a row that cannot be used.

    Raises:
        DataError: When there is no such file, it holds no text or what cannot be read, or its name
            is that of a domain.

    Warns:
        UserWarning: When rows are copies of others.
    """
    name = path.name.split(".")[0]
    check_name(name)
    if name in store.names:
        raise DataError(
            f"Expected a validation file that is not named like a domain of the data "
            f"({', '.join(store.names)}), found {path}"
        )
    read = list(read_rows(path, dataclasses.replace(rows or RowConfig(), domain_column=None)))
    given = [row.text for row in read if row.text]
    first: dict[str, str] = {}
    for text in given:
        first.setdefault(text.strip(), text)
    texts = list(first.values())
    if copies := len(given) - len(texts):
        warnings.warn(
            f"{path}: {copies} of {len(given)} rows are copies of others and are left out",
            stacklevel=2,
        )
    if not texts:
        raise DataError(f"Expected text in the validation file, found none in {path}")
    tokenizer, end = load_encoder(store.tokenizer)
    dtype = np.dtype(store.index["dtype"])
    tokens, lengths = encode(tokenizer, end, dtype, texts)
    ends = np.cumsum(lengths).astype(END)
    entry = nothing_counted()
    entry["skipped"] = len(read) - len(given)
    entry["duplicates_dropped"] = copies
    entry["validation"] = {
        "tokens": len(tokens),
        "documents": len(texts),
        "independent_documents": len(texts),
        "bytes": sum(len(text.encode()) for text in texts),
        "sha256": hashlib.sha256(tokens.tobytes()).hexdigest(),
        "ends_sha256": hashlib.sha256(ends.tobytes()).hexdigest(),
    }
    domains = dict(sorted({**store.index["domains"], name: entry}.items()))
    sha256 = sha256_of(domains, store.tokenizer_sha256, store.vocabulary, dtype.str)
    return dataclasses.replace(
        store,
        train=dict(sorted({**store.train, name: tokens[:0]}.items())),
        validation=dict(sorted({**store.validation, name: tokens}.items())),
        train_documents=dict(sorted({**store.train_documents, name: ends[:0]}.items())),
        validation_documents=dict(sorted({**store.validation_documents, name: ends}.items())),
        index={**store.index, "domains": domains, "sha256": sha256},
    )
