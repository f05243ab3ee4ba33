"""Weights that others wrote: RegMix, DoReMi, plain mappings and tables, known by their content.

| content | weights |
|---|---|
| JSON with our `format` | `Mixture.from_json`, with its uncertainty and its hashes |
| a trainer's own file | see `bydore_pyro.mixture.trainers_files` |
| JSON, YAML or TOML of names and numbers | as they are |
| a table with `domain` and `weight` between commas, tabs or semicolons | as they are, of these |

Names and numbers alone say neither that every name is a domain nor what the numbers are of: where
they do not sum to 1, what looks otherwise is refused (`_require_shares`).

No file can run code: YAML is read as text, without tags.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import reprlib
import tomllib
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bydore_pyro import files, terminal
from bydore_pyro.command_line import resume_command
from bydore_pyro.errors import DataError, RunFolderError, expecting, listed, one_line
from bydore_pyro.mixture.mixture import FORMAT, TOLERANCE, Mixture
from bydore_pyro.mixture.published import pile_weights
from bydore_pyro.mixture.trainers_files import (
    EXAMPLE,
    NUMBER,
    Listed,
    blend_of,
    trainers_weights,
)

PUBLISHED = "published:"
END = "results.json"  # what runs without a mixture of their own end with
LARGEST = 2**21  # bytes; thousands of domains fit in, a data file taken for weights does not
LARGEST_JSON = 2**28  # which is read at once, and which we write ourselves
OF_DOCUMENTS = "shares of documents"  # what `bydore export` says in a file of such
DELIMITERS = ",\t;"  # of a table
ROUNDED = 0.005  # how far rounded weights may sum from 1
MOST_ROUNDED = 1.05  # what shares rounded without care may sum to
COUNTED = 1000  # a last number from which on it may be the sum of others: no ratio, no percentage
SHOWN = 4  # names in a message
#: Whole names that stand beside weights and are no domain's, and why.
NO_DOMAIN = {
    "a setting": r"((random|data)_)?seed|((max|min|peak)_)?(lr|learning_rate)|wd|weight_decay|"
    r"warmup\w*|dropout|momentum|(adam_)?(beta_?[12]|eps|epsilon)|(grad(ient)?_)?clip\w*|"
    r"temperature|((global|micro|train)_)?batch(_size)?|gpus?|nodes|world_size|fold|rank|trial|"
    r"version|(max|num|total|train)_(steps|epochs|tokens)|steps",
    "a total": r"total|sum|(total|sum)_(of_)?weights?|weights?_(sum|total)",
}


def mixture_from(source: str | Path) -> Mixture:
    """Returns the mixture that a path or a published name stands for.

    Args:
        source: A file of any kind in the table of this module, whatever its name; a run's folder,
            for its `mixture.json`; or `published:human`, `published:doremi`, `published:regmix` or
            `published:token_share`, the Pile's weights in `published/`.

    Returns:
        Weights that sum to 1. Only our own format says of which tokenizer's tokens they are
        shares; the others' weights come without a `tokenizer`. Where names do not stand in the file
        as they are returned, a line of progress says what was cut off.

    Raises:
        DataError: One line, with the file and what was found, when it is missing, unreadable, of
            no known kind, or names a domain twice, or when a weight is no number, negative or not
            finite, or all are zero; when a name looks like no domain, or the numbers are no shares
            of tokens. Our own format must sum to 1. When there is no such name.
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
        require_own(path)
        return mixture
    with expecting(f"Expected a mixture file, found {path}:", OSError, ValueError):
        found = _content(path)
        if isinstance(found, Listed):
            mixture = normalised(found.weights, str(path), declared=found.declared)
            if found.cut:
                names = listed([f"{name!r:.60}" for name in mixture.names], SHOWN)
                terminal.tell(f"{path}: domains are called {found.cut}: {names}")
            return mixture
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
        found = _content(path, key)
        if not isinstance(found, Listed) or not found.weights:
            raise ValueError("a mixture, or nothing")
        return _numbers(found.weights)


def normalised(weights: Mapping[str, Any], place: str, *, declared: bool = False) -> Mixture:
    """Returns weights as a mixture, normalised.

    Args:
        weights: By domain; numbers, or text that is one.
        place: Where they come from, for the warning.
        declared: Whether it is said where they come from that they are weights of domains, relative
            to each other.

    Raises:
        ValueError: What was found that cannot be weights; or, where nothing is declared and they do
            not sum to 1, what looks like no domain or no share.

    Warns:
        UserWarning: When they did not sum to 1.
    """
    if not weights or "" in weights:
        raise ValueError("no domain, or one without a name")
    numbers = _numbers(weights)
    try:
        total = math.fsum(numbers.values())
    except OverflowError:
        total = math.inf
    if not 0 < total < math.inf:
        raise ValueError(f"weights that sum to {total}")
    if abs(total - 1) > TOLERANCE:
        if not declared:
            _require_shares(numbers, total)
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
        metrics = files.read_json(folder / "metrics.json")
    reason = metrics.get("stopped") if isinstance(metrics, dict) else None
    if not reason and any(folder.glob("mixture*.json")):
        return
    if not (folder / "config.json").exists() or (folder / END).exists():
        raise RunFolderError(f"Expected a finished run in {folder}, found no mixture.json")
    found = f"{folder} without a mixture"
    if reason:
        found = f"{folder} stopped after {metrics.get('steps')} steps ({one_line(reason)})"
    raise RunFolderError(
        f"Expected a finished run, found {found}: {resume_command(folder)} goes on"
    )


def require_own(folder: Path) -> None:
    """Refuses a run's folder whose `mixture.json` is not the one that its `metrics.json` names.

    Raises:
        RunFolderError: When it is another.
    """
    metrics: Any = None
    with suppress(OSError, ValueError):
        metrics = files.read_json(folder / "metrics.json")
    named = metrics.get("mixture_sha256") if isinstance(metrics, dict) else None
    # The text counts, as its run wrote it: also that of earlier versions.
    text = (folder / "mixture.json").read_text("utf-8").strip()
    if named and named != files.content_hash(text):
        raise RunFolderError(
            f"Expected in {folder / 'mixture.json'} the mixture that the run's metrics.json names, "
            "found another: keep weights of your own in a file of their own"
        )


def _content(path: Path, key: str | None = None) -> dict[str, Any] | Listed:
    """Returns what a file lists by name, whatever it is written in; of our own format all of it.

    With a `key` that the file has, what stands there.
    """
    with path.open("rb") as file:
        content = file.read(LARGEST_JSON + 1)
    text, written = content.decode("utf-8-sig"), None
    if path.suffix == ".py":
        raise ValueError("a Python module; give the mixture that it was exported from")
    if len(content) > LARGEST:
        found = _large(text)
    else:
        written = _table(text) or blend_of(text)
        found = None if written else _parsed(text)
    if isinstance(found, dict) and str(found.get("format")).startswith(FORMAT.split("/")[0]):
        return found
    if OF_DOCUMENTS in text:
        raise ValueError(
            f"{OF_DOCUMENTS} instead of tokens: bydore export --samples sequences writes such"
        )
    if key is not None and isinstance(found, dict) and isinstance(found.get(key), dict):
        return Listed(found[key])
    written = written or trainers_weights(found)
    if written is not None:
        return written
    if isinstance(found, dict):
        return Listed(found, declared=False)
    raise ValueError(f"{reprlib.repr(found)} instead of names with weights: {EXAMPLE}")


def _large(text: str) -> Any:
    """Returns what a file holds that is larger than others' weights are: JSON alone is read."""
    if len(text) > LARGEST_JSON:
        raise ValueError(f"more than {LARGEST_JSON // 2**20} MB")
    try:
        return json.loads(text, object_pairs_hook=files.unique_keys)
    except (json.JSONDecodeError, RecursionError):
        raise ValueError(f"more than {LARGEST // 2**20} MB, and no JSON") from None


def _parsed(text: str) -> Any:
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


def _table(text: str) -> Listed | None:
    for delimiter in DELIMITERS:
        try:
            rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
        except csv.Error:
            continue
        rows = [found for row in rows if any(found := [cell.strip() for cell in row])]
        header = [cell.lower() for cell in rows[0]] if rows else []
        if not {"domain", "weight"} <= {*header}:
            continue
        if len({*header}) < len(header) or any(len(row) != len(header) for row in rows):
            raise ValueError("a column twice, or rows of other lengths than the header")
        domain, weight = header.index("domain"), header.index("weight")
        pairs = [(row[domain], row[weight]) for row in rows[1:]]
        return Listed(files.unique_keys(pairs), declared=False)
    return None


def _numbers(weights: Mapping[str, Any]) -> dict[str, float]:
    """Returns weights as numbers; a text that is one is taken for it.

    Refuses parts that hold more than a number, and what is none.
    """
    parts = [name for name, weight in weights.items() if isinstance(weight, dict | list)]
    if parts:
        named = listed([f"{name!r:.60}" for name in parts], SHOWN)
        raise ValueError(f"{named} with more than a number inside: {EXAMPLE}")
    others = [
        name
        for name, weight in weights.items()
        if isinstance(weight, bool)
        or not (isinstance(weight, int | float) or NUMBER.fullmatch(str(weight)))
    ]
    if others:
        value = reprlib.repr(weights[others[0]])
        raise ValueError(
            f"{value} instead of a number as the weight of {others[0]!r:.60}: {EXAMPLE}"
        )
    numbers = {}
    for name, weight in weights.items():
        try:
            numbers[name] = float(weight)
        except OverflowError:
            numbers[name] = math.inf
        if not 0 <= numbers[name] < math.inf:
            raise ValueError(f"{numbers[name]} as the weight of {name!r:.60}")
    return numbers


def _require_shares(numbers: Mapping[str, float], total: float) -> None:
    """Refuses numbers that do not sum to 1 where not all may be of domains, or none a share.

    What is called as a setting or a sum is (`NO_DOMAIN`) is none of a domain. Neither is a number
    of 1 or more beside others that sum to 1, or the last where it is the sum of all others. Numbers
    of at most 1 that sum to more are fractions of sources.
    """
    values = [*numbers.values()]
    others = {name: value for name, value in numbers.items() if value < 1}
    known = re.compile("|".join(NO_DOMAIN.values()), re.IGNORECASE)
    odd = [name for name in numbers if known.fullmatch(re.sub(r"[\s-]", "_", name.strip()))]
    if not odd and len(others) > 1 and abs(math.fsum(others.values()) - 1) < ROUNDED:
        odd = [name for name in numbers if name not in others]
    is_sum = len(values) > 2 and math.isclose(values[-1], math.fsum(values[:-1]), rel_tol=1e-6)
    if not odd and is_sum and values[-1] >= COUNTED:
        odd = [*numbers][-1:]
    if odd:
        shown = listed([f"{name!r:.60} ({numbers[name]:g})" for name in odd], SHOWN)
        raise ValueError(
            f"weights that sum to {total:.6g}, among them {shown}, which looks like no domain: "
            "leave it out; if it is one, write weights that sum to 1"
        )
    if total > MOST_ROUNDED and max(values) <= 1 and any(0 < value < 1 for value in values):
        raise ValueError(
            f"numbers of at most 1 that sum to {total:.6g}: fractions of sources are no shares of "
            "the tokens; if they are relative weights, write them so that they sum to 1"
        )
