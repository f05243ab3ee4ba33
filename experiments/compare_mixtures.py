"""The mixtures of a comparison: what each method finds for a target."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from compare_tables import LINEAR, MATCH
from compare_targets import HELD_OUT, TARGETS, Target, require_different, target_named

from bydore_pyro.analysis import jitter
from bydore_pyro.baselines import Fit, Problem, SingleConfig
from bydore_pyro.data import TokenStore
from bydore_pyro.runs import METHODS, MethodOptions, domains_of, fit, problem_of, processes
from bydore_pyro.utils import RunFolder, option, require_fields, tell

COMPARED = (*METHODS, LINEAR, MATCH)
# One that its own domain answers and one that none does: about 90 minutes of one core.
DEFAULT_TARGETS = ("planted", "no_docstrings")


@dataclass(frozen=True, kw_only=True)
class CompareConfig:
    """What is compared."""

    methods: list[str] = option(
        [name for name in COMPARED if name != "human"],
        f"The methods; {LINEAR} is ByDoRe with linear evidence, the paper's Algorithm 1, {MATCH} "
        "ByDoRe without trial runs.",
    )
    targets: list[str] = option(
        list(DEFAULT_TARGETS),
        f"The targets: {', '.join(TARGETS)}, or withheld:DOMAIN, a domain on which nothing is "
        "trained.",
    )
    target_seeds: int = option(3, "Number of fresh models per mixture.", least=1, most=100)
    scale: float = option(
        1.0, "Factor on --steps for the proxies and the fresh models.", above=0, most=1e6
    )

    def __post_init__(self) -> None:
        require_fields(self)
        for name in self.methods:
            if name not in COMPARED:
                raise ValueError(f"Expected one of {', '.join(COMPARED)}, found '{name}'")
        for name in self.targets:
            target_named(name)
        require_different(self.methods)
        require_different(self.targets)


@dataclass(frozen=True, kw_only=True)
class CompareOptions(MethodOptions):
    """The options of every method and of the comparison."""

    compare: CompareConfig


def fits(
    own: CompareOptions, folder: RunFolder, corpus: TokenStore, name: str, shared: bool
) -> dict[str, dict[str, Any]]:
    """Returns what the methods find for a target, by label; finished fits are not run again.

    Args:
        own: The options as the target poses them.
        folder: The comparison's.
        corpus: The target's text.
        name: The target's.
        shared: Whether other targets are trained on the same text.
    """
    target = target_named(name)
    plain = name.replace(":", "-")  # in names of files
    found = {}
    for label, method, single in labelled(own.compare.methods, target):
        # DoReMi has no target: its mixture serves every target of the same text.
        prefix = "all" if method == "doremi" and shared else plain
        other = {LINEAR: "-linear", MATCH: "-match"}.get(method, "")
        place = folder.path / f"search-{plain}{other}"
        chosen = dataclasses.replace(own, single=SingleConfig(single=single))
        compute = partial(one_fit, chosen, corpus, folder, method, place)
        fits = f"fits/{prefix}-{label.replace(' ', '-')}.json"
        if not (folder.path / fits).exists():
            tell(f"{name}: {label}")
        found[label] = folder.once(fits, compute)
        processes(own).wait()  # until it is there for all processes
    return found


def labelled(methods: Sequence[str], target: Target) -> list[tuple[str, str, str | None]]:
    """Returns the methods' labels, names, and the single domain where it is not the target's."""
    rows: list[tuple[str, str, str | None]] = []
    for method in methods:
        if method == "single" and not target.has_own:
            continue  # which domain would it be?
        if method == "single" and target.domains is not None:
            rows += [(f"only {domain}", method, domain) for domain in target.domains]
        else:
            rows.append((method, method, None))
    return rows


def one_fit(
    options: CompareOptions, corpus: TokenStore, folder: RunFolder, method: str, place: Path
) -> dict[str, Any]:
    """Returns what one method finds and what it cost, as plain values."""
    options, method = as_labelled(options, method)
    problem = problem_on(options, corpus, folder)
    found: Fit = fit(method, problem, options, place)
    path = found.trajectory
    return {
        "weights": found.mixture.as_dict(),
        "standard_deviation": found.mixture.standard_deviation,
        "cost": problem.cost.report(),
        "jitter": None if path is None else jitter(path),
        "jitter_second_half": None if path is None else jitter(path[len(path) // 2 :]),
        "trajectory": None if path is None else np.round(path, 5).tolist(),
        "details": dict(found.details),
    }


def as_labelled(options: CompareOptions, label: str) -> tuple[CompareOptions, str]:
    """Returns the options and the method that a label stands for."""
    if label == LINEAR:
        search = dataclasses.replace(options.search, evidence="linear")
        return dataclasses.replace(options, search=search), "bydore"
    if label == MATCH:
        search = dataclasses.replace(options.search, evidence="matching", trials=0)
        return dataclasses.replace(options, search=search), "bydore"
    return options, label


def problem_on(options: CompareOptions, corpus: TokenStore, folder: RunFolder) -> Problem:
    """Returns the problem on a corpus; finished proxies lie in the comparison's folder."""
    runs = Path(options.budget.proxy_runs or folder.path / "proxies")
    domains = domains_of(options, corpus, options.run.seed)
    # One proxy serves every target of the same text.
    shared = HELD_OUT if set(domains.validation_shares) <= set(HELD_OUT) else ()
    return problem_of(options, domains, runs, shared)
