"""The index of a token store: what it must hold, and the hash that names the store."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any, Literal

from bydore_pyro.data.tokenizer import tokenizer_sha256
from bydore_pyro.errors import DataError, one_line

FORMAT = "bydore_pyro.tokens/2"
INDEX = "index.json"
SPLITS: tuple[Literal["train", "validation"], ...] = ("train", "validation")
COUNTS = ("tokens", "independent_documents")  # of a domain's side, that arrays have as lengths
# What is counted and noted by domain beside its entry, as stores of the same tokens have one hash:
# documents left out, and how files were read.
NOT_HASHED = ("too_short", "empty", "notes")
UNITS = "units"  # what a user has by domain: rows or files, their count and bytes
DTYPES = ("<u2", "<u4", "<u8")


def building_place(out: Path) -> Path:
    """Returns the folder in which a store is built; its builder locks it."""
    return out.parent / f".{out.name}.partial"


def read_index(folder: Path) -> dict[str, Any]:
    """Returns the index of the store in a folder, after checking its own hash, that of its
    tokenizer, and that it holds counts where counts belong.

    Raises:
        DataError: When there is no store, one that is not finished, or another index.
    """
    path = folder / INDEX
    if not path.is_file():
        found = "a folder without one" if folder.is_dir() else "no such folder"
        if building_place(folder).is_dir():
            found = "one that is not finished: the same bydore prepare continues it"
        raise DataError(f"Expected the index of a token store in {folder}, found {found}")
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
        if index["format"] != FORMAT:
            message = f"Expected a token store of format '{FORMAT}', found {index['format']!r} in"
            raise DataError(f"{message} {path}: prepare it again")
        of_tokenizer, of_index = index["tokenizer_sha256"], index["sha256"]
        found = sha256_of(index["domains"], of_tokenizer, index["vocabulary"], index["dtype"])
        found_tokenizer = tokenizer_sha256(folder / "tokenizer")
        _require_kinds(index)
    except DataError:
        raise
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        reason = one_line(f"{type(error).__name__}: {error}")
        raise DataError(f"Expected the index of a token store, found {path}: {reason}") from None
    if found != of_index:
        raise DataError(f"Expected {path} to match the hash in it, found another")
    if found_tokenizer != of_tokenizer:
        raise DataError(
            f"Expected the tokenizer that {folder} was built with ({of_tokenizer[:12]}), found "
            f"another ({found_tokenizer[:12]})"
        )
    return index


def _require_kinds(index: Mapping[str, Any]) -> None:
    """Refuses an index whose hash may be right and whose values are not what they should be."""
    if index["dtype"] not in DTYPES:
        raise ValueError(f"tokens of type {index['dtype']!r}")
    if not isinstance(index["tokenizer_sha256"], str):
        raise ValueError(f"tokenizer_sha256 {index['tokenizer_sha256']!r}")
    counts = {"vocabulary": index["vocabulary"]} | {
        f"{split} {key} of '{name}'": index["domains"][name][split][key]
        for name, split, key in product(index["domains"], SPLITS, COUNTS)
    }
    for what, count in counts.items():
        if not isinstance(count, int) or count < 0:
            raise ValueError(f"{what} {count!r}")


def sha256_of(domains: Mapping[str, Any], tokenizer: str, vocabulary: int, dtype: str) -> str:
    """Returns the hash that names a store, from its domains' entries and its tokenizer."""
    content = json.dumps([domains, tokenizer, vocabulary, dtype], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()
