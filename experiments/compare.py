"""Every method on the same proxy, data, seeds and budget: what each finds, and what it is worth."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import drawn_by, fresh_models, pruned, run_main
from compare_tables import FASTER, LINEAR, PRUNED, standings, standings_table, target_table
from compare_targets import HELD_OUT, TARGETS, Target, posed, target_named, text_of_targets

from bydore_pyro.analysis import jitter
from bydore_pyro.baselines import FinishedRun, Fit, Problem, SingleConfig
from bydore_pyro.data import TokenStore
from bydore_pyro.mixture import Mixture
from bydore_pyro.proxy import Cost
from bydore_pyro.runs import (
    METHODS,
    MethodOptions,
    begin_run,
    domains_of,
    fit,
    problem_of,
    processes,
    results_of,
)
from bydore_pyro.utils import RunFolder, option, require_fields, tell

ABOUT = """Find a mixture for each target by every method, and train fresh models on it. The targets
are: Case 1 (all domains, validation on docstrings), Case 2 (Python source and licences, the same
validation), the planted mixture (validation in known shares), a target of three domains that are
scarce in training, three targets whose own domain is withheld from training, three such domains at
once (judged by their mean and by the worst of them), and the text of benchmark questions. With your
own text in --data, a target is a withheld domain: --targets withheld:NAME. All methods have the
same text, proxy, batches, seed and FLOP budget (--budget plain trainings of the proxy). Methods
share finished proxies where they can; the cost counts for each. `torchrun --nproc_per_node N`
trains them on N processes."""

COMPARED = (*METHODS, FASTER, LINEAR)
FASTER_RATE = 0.1  # with its authors' 1e-4 FastMix's weights stay uniform in so few steps
# One that its own domain answers and one that none does: about 80 minutes of one core.
DEFAULT_TARGETS = ("planted", "no_docstrings")


@dataclass(frozen=True, kw_only=True)
class CompareConfig:
    """What is compared."""

    methods: list[str] = option(
        [name for name in COMPARED if name != "human"],
        f"The methods; {FASTER} is FastMix with a step size of {FASTER_RATE} for its logits, "
        f"{LINEAR} is ByDoRe with linear evidence, the paper's Algorithm 1.",
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
        for given in (self.methods, self.targets):
            if len(set(given)) < len(given) or not given:
                raise ValueError(f"Expected different names, found {' '.join(given) or 'none'}")


@dataclass(frozen=True, kw_only=True)
class CompareOptions(MethodOptions):
    """The options of every method and of the comparison."""

    compare: CompareConfig


def compare(options: CompareOptions, resume: Path | None) -> None:
    """Finds and judges every mixture; leaves a run folder, a table."""
    folder = begin_run(options, "compare", resume)
    steps = max(2, round(options.search.steps * options.compare.scale))
    scaled = dataclasses.replace(options.search, steps=steps)
    options = dataclasses.replace(options, search=scaled)
    corpus = text_of_targets(options, options.compare.targets)
    if resume is None:
        folder.write_config("compare", options.as_dict(), tell)
    results: dict[str, Any] = {}
    cost = Cost()
    for name in options.compare.targets:
        results[name] = one_target(options, folder, corpus, name, cost)
        found = standings(results)
        content = {"targets": results, "steps": steps, "standings": found}
        content = results_of(content, options, options.run.seed, cost)
        folder.write_json("results.json", content)
    tables = [target_table(name, result) for name, result in results.items()]
    table = "\n".join([*tables, standings_table(found)])
    folder.write_text("table.md", table)
    print(table)
    print(f"In {folder.path}: results.json, table.md, proxies/ and search-*/.")
    print(drawn_by("comparison", folder))


def one_target(
    options: CompareOptions, folder: RunFolder, corpus: TokenStore, name: str, cost: Cost
) -> dict[str, Any]:
    """Returns what every method finds for a target, and the losses of fresh models on it.

    `cost` counts all of it, and proxies that methods or targets share for each of them.
    """
    target = target_named(name)
    own, corpus = posed(options, corpus, target)
    if target.scarce is not None:  # proxies read text as often as the run will
        own = dataclasses.replace(own, budget=dataclasses.replace(own.budget, proxies_repeat=True))
    plain = name.replace(":", "-")  # in names of files
    found = {}
    for label, method, single in labelled(options.compare.methods, target):
        # DoReMi has no target: its mixture serves every target of the same text.
        same = own.run.domains == options.run.domains and target.scarce is None
        whole = method == "doremi" and same
        noted = folder.path / "fits" / f"{'all' if whole else plain}-{label.replace(' ', '-')}.json"
        if not noted.exists():
            tell(f"{name}: {label}")
            place = folder.path / f"search-{plain}{'-linear' * (method == LINEAR)}"
            chosen = dataclasses.replace(own, single=SingleConfig(single=single))
            folder.write_json(f"fits/{noted.name}", one_fit(chosen, corpus, folder, method, place))
        processes(own).wait()  # until it is there for all processes
        found[label] = json.loads(noted.read_text(encoding="utf-8"))
        cost.add(found[label]["cost"]["parts"])
        if method == "bydore":
            search = folder.path / f"search-{plain}"
            weights = pruned(Mixture.from_json(search / "mixture.json"))
            if weights is not None:
                # What the whole mixture's uncertainty and path were, the pruned one's are not.
                unknown = dict.fromkeys(("standard_deviation", "jitter", "jitter_second_half",
                                         "trajectory"))  # fmt: skip
                found[PRUNED] = {
                    "weights": weights,
                    "cost": found[label]["cost"],
                    **unknown,
                    "details": {},
                }
    judged = {k: v["weights"] for k, v in found.items()}
    trained = domains_of(own, corpus, 0).names
    if set(target.validation) <= set(trained) and len(target.validation) > 1:
        judged["the target's own shares"] = dict(target.validation)
    runs = judge(own, corpus, folder, name, judged, cost)
    result = {
        "validation": dict(target.validation),
        "methods": found,
        "losses": {
            label: [run.target_loss(target.validation) for run in of] for label, of in runs.items()
        },
    }
    if len(target.validation) > 1:
        result["single_losses"] = {
            label: {domain: [run.losses[domain] for run in of] for domain in target.validation}
            for label, of in runs.items()
        }
    return result


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
    if label == FASTER:
        fastmix = dataclasses.replace(options.fastmix, fastmix_rate=FASTER_RATE)
        return dataclasses.replace(options, fastmix=fastmix), "fastmix"
    return options, label


def problem_on(options: CompareOptions, corpus: TokenStore, folder: RunFolder) -> Problem:
    """Returns the problem on a corpus; finished proxies lie in the comparison's folder."""
    runs = Path(options.budget.proxy_runs or folder.path / "proxies")
    domains = domains_of(options, corpus, options.run.seed)
    # One proxy serves every target of the same text.
    shared = HELD_OUT if set(domains.validation_shares) <= set(HELD_OUT) else ()
    return problem_of(options, domains, runs, shared)


def judge(
    options: CompareOptions,
    corpus: TokenStore,
    folder: RunFolder,
    name: str,
    mixtures: Mapping[str, Mapping[str, float]],
    cost: Cost,
) -> dict[str, list[FinishedRun]]:
    """Returns the fresh models on each mixture, which tell their losses, seed by seed."""
    problem = problem_on(options, corpus, folder)
    runs = fresh_models(problem, mixtures, options.compare.target_seeds, f"{name}: fresh models")
    cost.add(problem.cost.report()["parts"], prefix="fresh_")
    return runs


if __name__ == "__main__":
    run_main(
        compare,
        "compare",
        ABOUT,
        CompareOptions,
        resumable=True,
        several=True,
        budget=6.0,
        steps=160,
        batch_sequences=16,
    )
