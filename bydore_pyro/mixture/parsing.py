"""What the text of a file holds: plain values in JSON, YAML or TOML, or lines with comments.

No file can run code: YAML is read as text, without tags.
"""

from __future__ import annotations

import json
import tomllib
from contextlib import suppress
from typing import Any

from bydore_pyro import files
from bydore_pyro.errors import DataError, one_line
from bydore_pyro.mixture.listed import EXAMPLE

LARGEST = 2**21  # bytes; thousands of domains fit in, a data file taken for weights does not
LARGEST_JSON = 2**28  # which is read at once, and which we write ourselves


def parsed(text: str) -> Any:
    """Returns what JSON, YAML or TOML holds; YAML's numbers as text.

    Raises:
        ValueError: When it is none of them.
    """
    found, wrong = None, ""
    try:
        found = files.yaml_or_json(text, words=True)
    except DataError:  # it is one of them, with a name twice
        raise
    except ValueError as error:
        wrong = one_line(error)
    if not isinstance(found, dict | list):
        with suppress(ValueError, RecursionError):
            return tomllib.loads(text) or found
    if wrong:
        raise ValueError(f"what is neither JSON, YAML nor TOML ({wrong}): {EXAMPLE}")
    return found


def parsed_large(text: str) -> Any:
    """Returns what a file holds that is larger than others' weights are: JSON alone is read.

    Raises:
        ValueError: When it is no JSON, or larger than we write.
    """
    if len(text) > LARGEST_JSON:
        raise ValueError(f"more than {LARGEST_JSON // 2**20} MB")
    try:
        return json.loads(text, object_pairs_hook=files.unique_keys)
    except (json.JSONDecodeError, RecursionError):
        raise ValueError(f"more than {LARGEST // 2**20} MB, and no JSON") from None


def without_comments(text: str) -> tuple[str, list[str]]:
    """Returns a table or blend without the lines that begin with `#`, and these, shortened; YAML
    and TOML know them themselves."""
    lines = text.splitlines(keepends=True)
    comments = [f"{line.strip():.40}" for line in lines if line.lstrip().startswith("#")]
    return "".join(line for line in lines if not line.lstrip().startswith("#")), comments
