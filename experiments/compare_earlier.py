"""An earlier comparison's results.json: its mixtures are judged again, by more or larger models."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common import check_weights, no_results
from compare_mixtures import CompareOptions, labelled
from compare_tables import target_table
from compare_targets import posed, target_named

from bydore_pyro.data import TokenStore
from bydore_pyro.runs import domains_of
from bydore_pyro.utils import DataError, tell

# Losses are comparable where these options, by part, are the same.
CONDITIONS = {
    "run": ("data", "proxy", "sequence_length", "seed"),
    "search": ("batch_sequences",),
    "proxy": ("optimizer", "learning_rate"),
}


def finished_comparison(path: Path, targets: Sequence[str]) -> dict[str, Any]:
    """Returns the content of a comparison's results.json, which has the targets.

    Raises:
        DataError: When the file is no results.json of `compare.py`, or lacks a target.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        known = [*found["targets"].keys()]
        if not isinstance(found["steps"], int):
            raise ValueError(f"steps {found['steps']!r:.60}")
        for name in set(targets) & set(known):
            result = found["targets"][name]
            target_table(name, result)  # needs whatever a table shows
            for label, method in result["methods"].items():
                dict(method["cost"]["parts"])
                statistics.mean(result["losses"][label])
            if not result["methods"]:
                raise ValueError(f"no method for {name}")
        conditions(found["config"])
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise no_results("compare.py", path, error) from None
    for name in targets:
        if name not in known:
            raise DataError(
                f"Expected one of the targets of {path}, {', '.join(known)}, found '{name}'"
            )
    return dict(found)


def found_before(options: CompareOptions, path: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Returns the mixtures of `--methods` that an earlier comparison found, by target and label.

    Tells which of the methods it lacks, and which conditions were other ones.

    Raises:
        DataError: When the file is none, lacks a target, or has none of the methods for one.
    """
    found = finished_comparison(path, options.compare.targets)
    before = conditions(found["config"]) | {"steps": found["steps"]}
    now = conditions(options.as_dict()) | {"steps": options.search.steps}
    for name in before:
        if before[name] != now[name]:
            tell(f"warning: {path} was made with {name} {before[name]}, this is {now[name]}")
    chosen = {}
    for name in options.compare.targets:
        labels = [label for label, _, _ in labelled(options.compare.methods, target_named(name))]
        known = found["targets"][name]["methods"]
        if lacking := [label for label in labels if label not in known]:
            tell(f"{name}: {path} has no {', '.join(lacking)}")
        chosen[name] = {label: known[label] for label in known if label in labels}
        if not chosen[name]:
            raise DataError(
                f"Expected a mixture of {', '.join(options.compare.methods)} for {name} in {path}, "
                f"found those of {', '.join(known)}"
            )
    return chosen


def conditions(config: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the options, by name, under which losses are comparable."""
    return {name: config[part][name] for part, names in CONDITIONS.items() for name in names}


def check_found(
    options: CompareOptions,
    corpus: TokenStore,
    found: Mapping[str, Mapping[str, Mapping[str, Any]]],
) -> None:
    """Checks mixtures by target and label: they are shares of the domains that are trained on.

    Raises:
        DataError: When one is not.
    """
    for name, methods in found.items():
        names = domains_of(*posed(options, corpus, target_named(name)), 0).names
        for label, method in methods.items():
            place = f"the earlier mixture of {label} for {name}"
            check_weights(method["weights"], names, place)
