"""Every method on the same proxy, data, seeds and budget: what each finds, and what it is worth."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import fresh_models, leave, run_main
from compare_tables import LINEAR, MATCH, standings, standings_table, target_table
from compare_targets import (
    TARGETS,
    Target,
    posed,
    require_different,
    require_targets,
    target_named,
    text_of_targets,
)
from fastmix import FastMixConfig, fit_fastmix

from bydore_pyro.command_line import Checked, option
from bydore_pyro.data import TokenStore
from bydore_pyro.files import RunFolder, plain
from bydore_pyro.fit import METHODS, MethodOptions, fit, problem_of
from bydore_pyro.mixture import jitter
from bydore_pyro.proxy import Cost
from bydore_pyro.setup import begin_run, domains_of
from bydore_pyro.terminal import tell
from bydore_pyro.trials import Problem

ABOUT = """Find a mixture for each target by every method, and train fresh models on it. The targets
are: Case 1 (all domains, validation on docstrings), Case 2 (Python source and licences, the same
validation), mixtures in known shares (planted: three domains, dense: four), all domains equally,
three domains that are scarce in training, three that are withheld from training, a domain that is
(withheld:NAME, also of your own text in --data), and the text of benchmark questions. All methods
have the same text, proxy, batches, seed and FLOP budget (--budget plain trainings of the proxy).
Methods share finished proxies where they can; the cost counts for each."""

FASTMIX = "fastmix"
COMPARED = (*METHODS, FASTMIX, LINEAR, MATCH)
# One that its own domain answers and one that none does: about 90 minutes of one core.
DEFAULT_TARGETS = ("planted", "withheld:docstrings")


@dataclass(frozen=True, kw_only=True)
class CompareConfig(Checked):
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
    target_seeds: int = option(5, "Number of fresh models per mixture.", least=1, most=100)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.methods:
            if name not in COMPARED:
                raise ValueError(f"Expected one of {', '.join(COMPARED)}, found '{name}'")
        require_different(self.methods)
        require_targets(self.targets)


@dataclass(frozen=True, kw_only=True)
class CompareOptions(MethodOptions):
    """The options of every method and of the comparison."""

    compare: CompareConfig


def compare(options: CompareOptions, resume: Path | None) -> None:
    """Finds and judges every mixture; leaves a run folder, a table."""
    folder = begin_run(options, "compare", resume)
    corpus = text_of_targets(options, options.compare.targets)
    if resume is None:
        folder.write_config("compare", options.as_dict())
    results: dict[str, Any] = {}
    cost = Cost()
    for name in options.compare.targets:
        results[name] = one_target(options, folder, corpus, name, cost)
    placed = standings(results)
    tables = [target_table(name, result) for name, result in results.items()]
    table = "\n".join([*tables, standings_table(results, placed)])
    content = {"targets": results, "steps": options.search.steps, "standings": placed}
    leave(folder, options, content, cost, table, "comparison")


def one_target(
    options: CompareOptions, folder: RunFolder, corpus: TokenStore, name: str, cost: Cost
) -> dict[str, Any]:
    """Returns what every method finds for a target, and the losses of fresh models on it.

    Args:
        options: Those of all targets.
        folder: The comparison's.
        corpus: The text of all targets.
        name: The target's.
        cost: Counts all of it, and proxies that methods or targets share for each of them.

    Returns:
        Plain values: `validation` (shares), `methods` (mixtures and their costs, by label),
        `losses` (nats per token, model by model, by label).
    """
    target = target_named(name)
    own, corpus = posed(options, corpus, target)
    if target.scarce is not None:  # proxies read text as often as the run will
        own = dataclasses.replace(own, budget=dataclasses.replace(own.budget, proxies_repeat=True))
    same_text = own.run.domains == options.run.domains and target.scarce is None
    found = fits(own, folder, corpus, name, same_text)
    judged = {label: one["weights"] for label, one in found.items()}
    domains = domains_of(own, corpus, 0)
    shares = domains.validation_shares
    if set(shares) <= set(domains.names) and len(shares) > 1:
        judged["the target's own shares"] = dict(shares)
    problem = problem_on(own, corpus, folder)
    runs = fresh_models(problem, judged, own.compare.target_seeds, f"{name}: fresh models")
    for one in found.values():
        cost.add(one["cost"]["parts"])
    cost.add(problem.cost.report()["parts"], prefix="fresh_")
    losses = {label: [run.target_loss(shares) for run in of] for label, of in runs.items()}
    return {"validation": dict(shares), "methods": found, "losses": losses}


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
    stem = name.replace(":", "-")  # in names of files
    found = {}
    for label, method, single in labelled(own.compare.methods, target_named(name)):
        # DoReMi has no target: its mixture serves every target of the same text.
        prefix = "all" if method == "doremi" and shared else stem
        chosen = dataclasses.replace(own, fixed=dataclasses.replace(own.fixed, single=single))
        compute = partial(one_fit, chosen, corpus, folder, method, stem)
        place = f"fits/{prefix}-{label.replace(' ', '-')}"
        if not (folder.path / place).exists():
            tell(f"{name}: {label}")
        found[label] = folder.kept(place).get_or(compute)
    return found


def labelled(methods: Sequence[str], target: Target) -> Iterator[tuple[str, str, str | None]]:
    """Yields the methods' labels, names, and the single domain where it is not the target's."""
    for method in methods:
        if method != "single":
            yield method, method, None
        elif target.has_own:  # else: which domain would it be?
            for domain in target.domains or (None,):
                yield f"only {domain}" if domain else method, method, domain


def one_fit(
    options: CompareOptions, corpus: TokenStore, folder: RunFolder, label: str, target: str
) -> dict[str, Any]:
    """Returns what one method finds and what it cost, as plain values."""
    method, place = label, f"search-{target}"
    if label in (LINEAR, MATCH):
        run, search, method = options.run, options.search, "bydore"
        if label == LINEAR:
            run = dataclasses.replace(run, evidence="linear")
        else:
            search = dataclasses.replace(search, trials=0)
        options = dataclasses.replace(options, run=run, search=search)
        place += label.removeprefix(method).replace("_", "-")
    problem = problem_on(options, corpus, folder)
    if method == FASTMIX:
        found = fit_fastmix(problem, FastMixConfig())
    else:
        found = fit(method, problem, options, folder.path / place)
    path = found.trajectory
    return {
        "weights": found.mixture.as_dict(),
        "standard_deviation": found.mixture.standard_deviation,
        "cost": problem.cost.report(),
        "jitter_second_half": None if path is None else jitter(path[len(path) // 2 :]),
        "trajectory": None if path is None else np.round(path, 5).tolist(),
        "details": plain(found.details),
    }


def problem_on(options: CompareOptions, corpus: TokenStore, folder: RunFolder) -> Problem:
    """Returns the problem on a corpus; finished proxies lie in the comparison's folder."""
    runs = Path(options.budget.proxy_runs or folder.path / "proxies")
    domains = domains_of(options, corpus, options.run.seed)
    return problem_of(options, domains, runs)


if __name__ == "__main__":
    run_main(
        *(compare, "compare", ABOUT, CompareOptions),
        resumable=True,
        budget=6.0,
        steps=160,
        batch_sequences=16,
    )
