"""What names of folders and files tell: domains, and the sides of a split."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from bydore_pyro.utils import DataError

# Names of files or folders by which `datasets` and trainers know the sides of a split:
# ``validation.jsonl.gz``, ``validation-00000-of-00001.parquet``, ``val_small``, ``c4-validation.1``
# and ``law_val_000000.bin``, but not ``dev notes.md``.
SIZES = (
    r"([-_.](x?small|tiny|mini|large|full|sub(set)?|sample|split|set|data))?"
    r"([-_.]?\d[-\w]*)?(\..*)?"
)
TRAIN, VALIDATION, TEST = (
    re.compile(rf"({words}){SIZES}", re.IGNORECASE)
    for words in (
        "train|training",
        r"valid|dev|eval|evaluation|held[-_]?out|([^ ]*[-_.])?(validation|val)",
        "test|testing",
    )
)


def check_name(name: str) -> None:
    """Refuses a domain's name, or path of names, that files, options or JSON could not carry.

    Raises:
        DataError: When it is no UTF-8, is empty, is longer than 200 bytes, holds '=' or a null
            byte, or has '', '.', '..' or '*' between slashes.
    """
    text = name.encode(errors="replace")
    of_path = {"", ".", "..", "*"}.isdisjoint(name.split("/"))
    if not of_path or len(text) > 200 or text.decode() != name or "=" in name or "\0" in name:
        raise DataError(
            "Expected a domain's name of at most 200 bytes without '=', or a path of such names, "
            f"found {name!r}"
        )


def domain_of(name: str) -> str:
    """Returns what a folder or file calls a domain: of a hive's ``cluster=1``, ``cluster-1``."""
    return name.replace("=", "-")


def side_of(parts: Sequence[str]) -> Literal["train", "validation"] | None:
    """Returns the side that names of folders and of a file in them tell, None of what is to test
    on; it counts where the side of any file is "validation"."""
    if any(VALIDATION.fullmatch(part) for part in parts):
        return "validation"
    return None if any(TEST.fullmatch(part) for part in parts) else "train"


def split_named(part: str) -> bool:
    """Whether a folder is called as a side of a split: ``train``, ``val_small``."""
    return bool(TRAIN.fullmatch(part)) or side_of((part,)) != "train"
