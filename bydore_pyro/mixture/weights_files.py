"""Weights that others wrote: trainers' files, plain mappings and tables, known by their content.

| content | weights |
|---|---|
| JSON with our `format` | `Mixture.from_json`, with its uncertainty and its hashes |
| a trainer's own file, or a configuration with weights anywhere in it | see \
`bydore_pyro.mixture.trainers_files` |
| JSON, YAML or TOML of names and numbers | as they are |
| a table of domains and weights | see `bydore_pyro.mixture.sheets` |

What is no domain is left out by name: comments, such as `_missing`, and a total of the others.
Beyond that, names and numbers alone say neither that every name is a domain nor what the numbers
are of: where they do not sum to 1, what looks otherwise is refused (`_require_shares`).

No file can run code: YAML is read as text, without tags.
"""

from __future__ import annotations

import dataclasses
import math
import reprlib
import warnings
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bydore_pyro import files, terminal
from bydore_pyro.command_line import resume_command
from bydore_pyro.errors import DataError, RunFolderError, expecting, listed, one_line
from bydore_pyro.mixture.listed import (
    COMMENT,
    EXAMPLE,
    NO_DOMAIN,
    Listed,
    is_number,
    looks_like,
    number_of,
)
from bydore_pyro.mixture.mixture import FORMAT, TOLERANCE, Mixture
from bydore_pyro.mixture.names import matched
from bydore_pyro.mixture.parsing import (
    LARGEST,
    LARGEST_JSON,
    parsed,
    parsed_large,
    without_comments,
)
from bydore_pyro.mixture.published import pile_weights
from bydore_pyro.mixture.sheets import weights_of_sheet
from bydore_pyro.mixture.trainers_files import blend_of, trainers_weights
from bydore_pyro.mixture.units import SAID, Supply, Unit, token_shares

PUBLISHED = "published:"
END = "results.json"  # what runs without a mixture of their own end with
#: What `bydore export` says in a file of numbers that are no shares of tokens.
UNITS_SAID: dict[str, Unit] = {
    SAID["documents"]: "documents",
    f"weights are {SAID['epochs']}": "epochs",
}
CONVERTS = "bydore weights FILE --data STORE --out MIXTURE converts them"
ROUNDED = 0.005  # how far rounded weights may sum from 1
MOST_ROUNDED = 1.05  # what shares rounded without care may sum to
COUNTED = 1000  # a last number from which on it may be the sum of others: no ratio
WHOLE = 100  # a last number that may be so, too: of percentages
SHOWN = 4  # names in a message


def mixture_from(
    source: str | Path,
    *,
    names: Collection[str] = (),
    supply: Mapping[str, Supply] | None = None,
    unit: Unit | None = None,
) -> Mixture:
    """Returns the mixture that a path or a published name stands for.

    A line of progress says what of the file was not read, what it is called otherwise, and what was
    taken where a file can be read in two ways.

    Args:
        source: A file of any kind in the table of this module, whatever its name; a run's folder,
            for its `mixture.json`; or `published:human`, `published:doremi`, `published:regmix` or
            `published:token_share`, the Pile's weights in `published/`.
        names: The domains of the data that it is meant for, if known. Names are matched to these
            (`matched`), and it is said which of these have no weight.
        supply: What there is of those domains, which turns documents and epochs into tokens.
        unit: What the numbers are of, where the file does not say it or says it wrongly.

    Returns:
        Weights that sum to 1. Only our own format says of which tokenizer's tokens they are
        shares; the others' weights come without a `tokenizer`.

    Raises:
        DataError: One line, with the file and what was found, when it is missing, unreadable, of
            no known kind, or names a domain twice, or when a weight is no number, negative or not
            finite, or all are zero; when a name looks like no domain, or the numbers are no shares
            of tokens, and `supply` does not convert them. Our own format must sum to 1. When there
            is no such published name, or a name matches two of `names`.
        RunFolderError: When the run is not finished, or see `require_own`.

    Warns:
        UserWarning: When the weights did not sum to 1 and were normalised.
    """
    if isinstance(source, str) and source.startswith(PUBLISHED):
        columns, name = pile_weights(), source.removeprefix(PUBLISHED)
        if name not in columns:
            known = ", ".join(PUBLISHED + column for column in columns)
            raise DataError(f"Expected one of {known}, found {source!r}")
        return _for_data(normalised(columns[name], source), source, names)
    path = Path(source)
    if path.is_dir():
        require_finished(path)
        mixture = mixture_from(path / "mixture.json", names=names, supply=supply, unit=unit)
        require_own(path)
        return mixture
    with expecting(f"Expected a mixture file, found {path}:", OSError, ValueError):
        found = _content(path)
        if isinstance(found, Listed):
            found = _cleaned(found if unit is None else found._replace(unit=unit, guess=""))
            if found.unit != "tokens" and not supply:
                raise ValueError(_of_others(found.unit))
        elif unit not in (None, "tokens"):
            raise ValueError(f"shares of tokens, as it says, instead of {unit}")
    if isinstance(found, Listed):
        return _mixture_of(found, path, names, supply or {})
    mixture = Mixture.from_content(found, path)
    with expecting(f"Expected a mixture file, found {path}:", ValueError):
        return _for_data(mixture, path, names)


def _of_others(unit: Unit) -> str:
    if unit == "documents":
        return (
            "shares of documents instead of tokens: bydore export --samples sequences writes such, "
            f"and {CONVERTS}"
        )
    return f"epochs, how often text is read, instead of shares of tokens: {CONVERTS}"


def _mixture_of(
    found: Listed, path: Path, names: Collection[str], supply: Mapping[str, Supply]
) -> Mixture:
    """Returns the mixture that a file lists, for the data's domains; says how it was read."""
    with expecting(f"Expected a mixture file, found {path}:", ValueError):
        if found.cut:
            called = listed([f"{name!r:.60}" for name in found.weights], SHOWN)
            terminal.tell(f"{path}: domains are called {found.cut}: {called}")
        for remark in (*found.remarks, *[found.guess] * bool(found.guess)):
            terminal.tell(f"{path}: {remark}")
        numbers, others = found.weights, [each for _, each in found.others]
        if found.unit == "tokens":
            mixture = normalised(numbers, str(path), declared=found.declared)
            return _for_data(mixture, path, names, others)
        numbers = _renamed(numbers, path, names, others) if names else numbers
        shares = token_shares(numbers, found.unit, supply)
        terminal.tell(
            f"{path}: {found.unit} became shares of tokens, by what there is of each domain"
        )
        mixture = Mixture(names=tuple(shares), weights=tuple(shares.values()))
        return _for_data(mixture, path, names)


def _for_data(
    mixture: Mixture,
    place: str | Path,
    names: Collection[str],
    others: Collection[tuple[str, ...]] = (),
) -> Mixture:
    """Returns a mixture with the names that the data has for its domains; says what they are, and
    which domains of the data are not among them."""
    if not names:
        return mixture
    called = _renamed(dict.fromkeys(mixture.names, 0.0), place, names, others)
    left = [name for name in names if name not in called]
    if left and not {*called}.isdisjoint(names):
        terminal.tell(
            f"{place}: it names {len(names) - len(left)} of the data's {len(names)} domains; "
            f"without weight: {listed(left, SHOWN)}"
        )
    return (
        mixture
        if called.keys() == {*mixture.names}
        else dataclasses.replace(mixture, names=tuple(called))
    )


def _renamed(
    numbers: Mapping[str, float],
    place: str | Path,
    names: Collection[str],
    others: Collection[tuple[str, ...]] = (),
) -> dict[str, float]:
    """Returns numbers by the data's names; of several that a file has for its domains, those count
    that fit the data best."""
    known, best = {*names}, tuple(numbers)

    def fitting(each: tuple[str, ...]) -> int:
        with suppress(DataError):
            return len({*each} & known) + len(matched(each, names))
        return 1  # they are like the data's, but not each like one

    if others:
        best = max((best, *others), key=fitting)  # of equal ones the first
    found = matched(best, names)
    called = [found.get(name, name) for name in best]
    pairs = [(a, b) for a, b in zip(numbers, called, strict=True) if a != b]
    if pairs:
        shown = listed([f"{b!r:.60} for {a!r:.60}" for a, b in pairs], SHOWN)
        terminal.tell(f"{place}: domains are called as in the data: {shown}")
    return dict(zip(called, numbers.values(), strict=True))


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
        return _numbers(_cleaned(found).weights)


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
    total = _sum(numbers)
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
        found = parsed_large(text)
    else:
        plain, comments = without_comments(text)
        written = weights_of_sheet(plain) or blend_of(plain)
        found = None if written else parsed(text)
        if written is not None and comments:
            remark = f"left out as comments: {listed([repr(c) for c in comments], SHOWN)}"
            written = written._replace(remarks=(*written.remarks, remark))
    if isinstance(found, dict) and str(found.get("format")).startswith(FORMAT.split("/")[0]):
        return found
    if key is not None and isinstance(found, dict) and isinstance(found.get(key), dict):
        return Listed(found[key])
    written = written or trainers_weights(found)
    if written is None and isinstance(found, dict):
        written = Listed(found, declared=False)
    if written is not None:
        said = [unit for words, unit in UNITS_SAID.items() if words in text[:LARGEST]]
        return written._replace(unit=said[0], guess="") if said else written
    raise ValueError(f"{reprlib.repr(found)} instead of names with weights: {EXAMPLE}")


def _cleaned(found: Listed) -> Listed:
    """Returns what a file lists with numbers, without what is no domain: comments, and a total.

    A comment that is a number, and a total, are left out where not all sum to 1 with them.
    """
    left = [n for n, v in found.weights.items() if COMMENT.fullmatch(n) and not is_number(v)]
    texts = {name: value for name, value in found.weights.items() if name not in left}
    percent = [n for n, v in texts.items() if isinstance(v, str) and v.strip().endswith("%")]
    if percent and len(percent) < len(texts):
        other = next(name for name in texts if name not in percent)
        raise ValueError(f"percentages beside others: {percent[0]!r:.60} and {other!r:.60}")
    numbers = _numbers(texts)
    if percent:
        numbers = {name: number / 100 for name, number in numbers.items()}
    shares = found.unit == "tokens" and not found.declared
    if shares and abs(_sum(numbers) - 1) > TOLERANCE:
        left += [name for name in numbers if COMMENT.fullmatch(name)]
        numbers = {name: number for name, number in numbers.items() if name not in left}
        for name in [name for name in numbers if looks_like("a total", name)]:
            rest = _sum(numbers) - numbers[name]
            if len(numbers) > 2 and math.isclose(numbers[name], rest, rel_tol=ROUNDED):
                left.append(name)
                del numbers[name]
    remarks = found.remarks
    if left:
        remarks += (f"left out as no domain: {listed([f'{n!r:.60}' for n in left], SHOWN)}",)
    return found._replace(weights=numbers, remarks=remarks)


def _sum(numbers: Mapping[str, float]) -> float:
    try:
        return math.fsum(numbers.values())
    except OverflowError:
        return math.inf


def _numbers(weights: Mapping[str, Any]) -> dict[str, float]:
    """Returns weights as numbers; a text that is one is taken for it.

    Refuses parts that hold more than a number, and what is none.
    """
    parts = [name for name, weight in weights.items() if isinstance(weight, dict | list)]
    if parts:
        named = listed([f"{name!r:.60}" for name in parts], SHOWN)
        raise ValueError(f"{named} with more than a number inside: {EXAMPLE}")
    return {name: number_of(weight, name) for name, weight in weights.items()}


def _require_shares(numbers: Mapping[str, float], total: float) -> None:
    """Refuses numbers that do not sum to 1 where not all may be of domains, or none a share.

    What is called as a setting or a sum is (`NO_DOMAIN`) is none of a domain. Neither is a number
    of 1 or more beside others that sum to 1, or the last where it is the sum of all others and no
    small ratio. Numbers of at most 1 that sum to more are fractions of sources.
    """
    values = [*numbers.values()]
    others = {name: value for name, value in numbers.items() if value < 1}
    odd = [name for name in numbers if any(looks_like(kind, name) for kind in NO_DOMAIN)]
    if not odd and len(others) > 1 and abs(math.fsum(others.values()) - 1) < ROUNDED:
        odd = [name for name in numbers if name not in others]
    is_sum = len(values) > 2 and math.isclose(values[-1], math.fsum(values[:-1]), rel_tol=1e-6)
    if not odd and is_sum and (values[-1] >= COUNTED or math.isclose(values[-1], WHOLE)):
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
