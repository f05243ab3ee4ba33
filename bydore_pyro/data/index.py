"""The index of a token store: what it must hold, and the hash that names the store."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from bydore_pyro.data.tokenizer import tokenizer_sha256
from bydore_pyro.errors import DataError, one_line

FORMAT = "bydore_pyro.tokens/2"
INDEX = "index.json"
SPLITS: tuple[Literal["train", "validation"], ...] = ("train", "validation")
# What is counted and noted by domain beside its entry, as stores of the same tokens have one hash:
# documents left out, and how files were read.
NOT_HASHED = ("too_short", "empty", "notes")
UNITS = "units"  # what a user has by domain: rows or files, their count and bytes
DOMAIN_TOKENS = "domain_tokens"  # what there is of each domain in the user's corpus, if stated


def building_place(out: Path) -> Path:
    """Returns the folder in which a store is built; its builder locks it."""
    return out.parent / f".{out.name}.partial"


def read_index(folder: Path) -> dict[str, Any]:
    """Returns the index of the store in a folder, after checking its own hash and that of its
    tokenizer.

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


def sha256_of(domains: Mapping[str, Any], tokenizer: str, vocabulary: int, dtype: str) -> str:
    """Returns the hash that names a store, from its domains' entries and its tokenizer."""
    content = json.dumps([domains, tokenizer, vocabulary, dtype], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()
