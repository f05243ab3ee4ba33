"""Weights that others wrote: RegMix, DoReMi, plain mappings and tables, known by their content.

| content | weights |
|---|---|
| JSON with our `format` | `Mixture.from_json`, with its uncertainty and its hashes |
| YAML or JSON with a mapping `train` | RegMix; `train_the_pile_arxiv` becomes `arxiv` |
| JSON with `train_domain_weights` | DoReMi, whose `Pile-CC` becomes `pile_cc` |
| JSON or YAML of names and numbers | as they are |
| CSV with the columns `domain` and `weight` | as they are; other columns are passed over |
| a trainer's own file | see `bydore_pyro.mixture.trainers_files` |

No file can run code: YAML is read as text, without tags.
"""

from __future__ import annotations

import csv
import io
import math
import re
import reprlib
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bydore_pyro.mixture.mixture import FORMAT, TOLERANCE, Mixture
from bydore_pyro.mixture.published import PILE_DOMAINS, pile_weights
from bydore_pyro.mixture.trainers_files import (
    blend_of,
    module_weights,
    names_of_paths,
    trainers_weights,
)
from bydore_pyro.utils import (
    DataError,
    RunFolderError,
    expecting,
    one_line,
    read_json,
    resume_command,
    unique_keys,
    yaml_or_json,
)

PUBLISHED = "published:"
ENDS = ("agreement.csv", "results.json")  # what runs without a mixture of their own end with
LARGEST = 2**21  # bytes; thousands of domains fit in, a data file taken for weights does not
# RegMix's prefixes, outermost first; each goes when all names have it.
PREFIXES = ("train_", "the_pile_", "unzip_")
# YAML 1.1 misses 5e-06.
NUMBER = re.compile(r"[-+]?([0-9]+(_[0-9]+)*\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")


def mixture_from(source: str | Path) -> Mixture:
    """Returns the mixture that a path or a published name stands for.

    Args:
        source: A file of any kind in the table of this module, whatever its name; a run's folder,
            for its `mixture.json`; or `published:human`, `published:doremi`, `published:regmix` or
            `published:token_share`, the Pile's weights in `published/`.

    Returns:
        Weights that sum to 1. Only our own format says of which tokenizer's tokens they are
        shares; the others' weights come without a `tokenizer`.

    Raises:
        DataError: One line, with the file and what was found, when it is missing, unreadable, of
            no known kind, or names a domain twice, or when a weight is no number, negative or not
            finite, or all are zero. Our own format must sum to 1. When there is no such name.
        RunFolderError: When the run is not finished, or see `require_own`.

    Warns:
        UserWarning: When the weights did not sum to 1 and were normalised.
    """
    if isinstance(source, str) and source.startswith(PUBLISHED):
        columns, name = pile_weights(), source.removeprefix(PUBLISHED)
        if name not in columns:
            known = ", ".join(PUBLISHED + column for column in columns)
            raise DataError(f"Expected one of {known}, found {source!r}")
        return normalised(columns[name], source)
    path = Path(source)
    if path.is_dir():
        require_finished(path)
        mixture = mixture_from(path / "mixture.json")
        require_own(mixture, path)
        return mixture
    with expecting(f"Expected a mixture file, found {path}:", OSError, ValueError):
        found = _content(path)
        if not _is_ours(found):
            return normalised(_weights(found), str(path))
    return Mixture.from_content(found, path)


def numbers_of(path: Path, key: str | None = None) -> dict[str, float]:
    """Reads numbers by domain, such as tokens, from a file of weights, without normalising.

    Args:
        path: The file.
        key: Where they stand in it, if it has that key.

    Raises:
        DataError: As `mixture_from`, and where they are weights of our own format.
    """
    with expecting(f"Expected numbers of domains in {path}, found:", OSError, ValueError):
        found = _content(path)
        found = found.get(key, found) if key else found
        if not found or _is_ours(found):
            raise ValueError("a mixture, or nothing")
        return {name: _number(name, value) for name, value in _weights(found).items()}


def normalised(weights: Mapping[str, Any], place: str) -> Mixture:
    """Returns weights as a mixture, normalised.

    Args:
        weights: By domain; numbers, or text that is one.
        place: Where they come from, for the warning.

    Raises:
        ValueError: What was found that cannot be weights.

    Warns:
        UserWarning: When they did not sum to 1.
    """
    if not weights or "" in weights:
        raise ValueError("no domain, or one without a name")
    numbers = {name: _number(name, weight) for name, weight in weights.items()}
    try:
        total = math.fsum(numbers.values())
    except OverflowError:
        total = math.inf
    if not 0 < total < math.inf:
        raise ValueError(f"weights that sum to {total}")
    if abs(total - 1) > TOLERANCE:
        warnings.warn(
            f"{place}: the weights sum to {total:.6g}; they were normalised", stacklevel=3
        )
        numbers = {name: weight / total for name, weight in numbers.items()}
    return Mixture(names=tuple(numbers), weights=tuple(numbers.values()))


def require_finished(folder: Path) -> None:
    """Refuses the folder of a run without weights, or of one that was stopped before its end.

    Raises:
        RunFolderError: Tells where it stands, and the command that goes on with it.
    """
    metrics: Any = None
    with suppress(OSError, ValueError):  # another's folder, or a damaged one, has none
        metrics = read_json(folder / "metrics.json")
    reason = metrics.get("stopped") if isinstance(metrics, dict) else None
    if not reason and any(folder.glob("mixture*.json")):
        return
    if not (folder / "config.json").exists() or any((folder / name).exists() for name in ENDS):
        raise RunFolderError(f"Expected a finished run in {folder}, found no mixture.json")
    found = f"{folder} without a mixture"
    if reason:
        found = f"{folder} stopped after {metrics.get('steps')} steps ({one_line(reason)})"
    raise RunFolderError(
        f"Expected a finished run, found {found}: {resume_command(folder)} goes on"
    )


def require_own(mixture: Mixture, folder: Path) -> None:
    """Refuses a run's mixture that is another than its `metrics.json` tells of.

    Raises:
        RunFolderError: When it is.
    """
    metrics: Any = None
    with suppress(OSError, ValueError):
        metrics = read_json(folder / "metrics.json")
    told = metrics.get("mixture_sha256") if isinstance(metrics, dict) else None
    if told and told != mixture.sha256:
        raise RunFolderError(
            f"Expected in {folder / 'mixture.json'} the mixture that the run's metrics.json tells "
            "of, found another: keep weights of your own in a file of their own"
        )


def _content(path: Path) -> dict[str, Any]:
    """Returns what a file of names with weights holds, whatever it is written in."""
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"more than {LARGEST // 2**20} MB")
    text = content.decode("utf-8-sig")
    found: Any = _table(text)
    if found is None:
        found = module_weights(text) or blend_of(text) or yaml_or_json(text, words=True)
        try:
            found = trainers_weights(found)
        except (LookupError, TypeError) as error:
            raise ValueError(f"a trainer's file that is not whole ({error})") from None
    if not isinstance(found, dict):
        raise ValueError(f"{reprlib.repr(found)} instead of names with weights")
    return found


def _is_ours(found: Mapping[str, Any]) -> bool:
    return str(found.get("format")).startswith(FORMAT.split("/")[0])


def _weights(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the weights in a file's content, by name."""
    weights: Any = found.get("train_domain_weights", found)
    if weights is not found and isinstance(weights, dict):  # names of the Pile's public copies
        weights = {PILE_DOMAINS.get(name, name): weight for name, weight in weights.items()}
    if isinstance(found.get("train"), dict):
        weights = found["train"]
        paths = weights and all("/" in n and not n.startswith(PREFIXES[0]) for n in weights)
        for prefix in PREFIXES:
            if all(name.startswith(prefix) for name in weights):
                weights = {name.removeprefix(prefix): w for name, w in weights.items()}
        if paths:
            weights = dict(zip(names_of_paths([*weights]), weights.values(), strict=True))
    if not isinstance(weights, dict):
        raise ValueError(f"{reprlib.repr(weights)} instead of names with weights")
    return weights


def _table(text: str) -> dict[str, str] | None:
    """Returns the weights of a CSV table as text, or None when there is no such header."""
    try:
        rows = list(csv.reader(io.StringIO(text, newline="")))
    except csv.Error:
        return None
    rows = [found for row in rows if any(found := [cell.strip() for cell in row])]
    header = [cell.lower() for cell in rows[0]] if rows else []
    if not {"domain", "weight"} <= {*header}:
        return None
    if len({*header}) < len(header) or any(len(row) != len(header) for row in rows):
        raise ValueError("a column twice, or rows of other lengths than the header")
    domain, weight = header.index("domain"), header.index("weight")
    return unique_keys([(row[domain], row[weight]) for row in rows[1:]])


def _number(name: str, value: Any) -> float:
    """Returns a weight as a number; a text that is one is taken for it."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number and not (isinstance(value, str) and NUMBER.fullmatch(value)):
        raise ValueError(f"{reprlib.repr(value)} instead of a number as the weight of {name!r:.60}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not 0 <= number < math.inf:
        raise ValueError(f"{number} as the weight of {name!r:.60}")
    return number
