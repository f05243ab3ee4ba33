"""The part of a page that one plays with: what its scripts read, and the scripts.

They take the numbers from `explorer.safetensors`. A run without that file, as of another method,
shows its weights alone.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from bydore_pyro import answer, files, setup, terminal
from bydore_pyro.errors import DataError
from bydore_pyro.report.run import RunRecord
from bydore_pyro.report.words import count

SCRIPTS = ("forecast.js", "explorer.js")  # arithmetic, drawing
BY_HAND = "Set by hand on the page of a run, not found by it."
THE_ANSWER = "the answer"
NO_LAW = "This run keeps no law of the domains' losses (a search and its answers keep one)."


@dataclass(frozen=True)
class Explored:
    """What the scripts of a page read, as plain values."""

    content: dict[str, Any]


def explored(record: RunRecord) -> Explored:
    """Returns what the scripts of the page on a run read. What stands by domain or by target is a
    list in their order, because names are no safe keys of a script's objects.

    Raises:
        DataError: When the law that is kept is of other domains than the mixture.
    """
    page, numbers = record.explorer or (without_law(record), {})
    names, mixture = [*page.weights], record.mixture
    leaves = [[*page.pools.get(name, {name: 1.0}).items()] for name in names]
    if sorted(leaf for own in leaves for leaf, _ in own) != sorted(mixture.names):
        raise DataError(
            f"Expected {setup.EXPLORER} of the domains of mixture.json in {record.path}, found "
            "other domains"
        )

    def column(values: Mapping[str, float]) -> list[float | None]:
        return [values.get(name) for name in names]

    by_hand = replace(
        mixture,
        standard_deviation=None,
        hdi=None,
        free_weights=None,
        notes=(*mixture.notes, BY_HAND),
    )
    content = {
        "names": names,
        "labels": [terminal.visible(name) for name in names],
        "mixtures": [[name, column(one)] for name, one in page.references.items()]
        + [[THE_ANSWER, column(page.weights)]],
        "baseline": page.baseline,
        "at_least": column(page.at_least),
        "at_most": column(page.at_most),
        "sizes": column(page.sizes),
        "tokens": page.tokens,
        "leaves": leaves,
        "file": json.loads(by_hand.to_json()),
        "reason": page.reason,
        "law": None,
    }
    if page.law is not None:
        targets = [*page.law.importance]
        content["law"] = {
            **files.plain(page.law),
            "targets": targets,
            "labels": [
                terminal.visible(name) if share else f"{terminal.visible(name)} (guard)"
                for name, share in page.law.importance.items()
            ],
            "together": terminal.visible(page.law.together),
            "shares": [*page.law.importance.values()],
            "units": [page.law.units[name] for name in targets],
            "worst": page.law.worst,
            "numbers": {name: coded(values) for name, values in numbers.items()},
        }
    return Explored(content)


def explorer_words(record: RunRecord) -> str:
    """Returns what a reader should know who moves sliders."""
    words = "A slider takes the others along, in proportion, but for those that are locked. "
    if record.explorer is not None and (law := record.explorer[0].law) is not None:
        words += (
            "Losses, with 94 % intervals for one run, are expected after "
            f"{count(law.length)} tokens, as long as what was measured; differences are those of "
            "two runs. "
        )
        if law.left_out:
            words += (
                f"The page holds {law.draws - law.left_out} of the law's {law.draws} draws, so its "
                "last digits are not the report's. "
            )
    return f"{words}The page's address holds the mixture that is shown: send it to share it."


def coded(values: Any) -> str:
    """Returns an array as text: float32, the least significant byte first, in base64."""
    return base64.b64encode(values.astype("<f4").tobytes()).decode("ascii")


def without_law(record: RunRecord) -> answer.Explorer:
    """Returns what is known of a run's weights alone: the text and its natural weights."""
    names, domains = record.mixture.names, record.index.get("domains", {})
    sizes = dict[str, float]()
    for name in names:
        train = domains.get(name, {}).get("train", {})
        tokens = train.get("in_all", train).get("tokens", 0)
        sizes |= {name: tokens} if tokens else {}
    references = {"uniform": dict.fromkeys(names, 1 / len(names))}
    if len(sizes) == len(names):
        whole = sum(sizes.values())
        natural = {name: size / whole for name, size in sizes.items()}
        references = {"natural": natural, **references}
    return answer.Explorer(
        weights=record.mixture.as_dict(),
        references=references,
        sizes=sizes,
        tokens=record.metrics.run_tokens,
        reason=NO_LAW,
    )


@cache
def script() -> str:
    """Returns the scripts of a page as one."""
    return "\n".join((Path(__file__).parent / name).read_text("utf-8") for name in SCRIPTS)


def script_hash() -> str:
    """Returns the script as a page's policy names it: no other script of the page may run."""
    digest = hashlib.sha256(script().encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
