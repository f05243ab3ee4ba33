"""Every method on the same proxy, data, seeds and budget: what each finds, and what it is worth."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from common import FRESH_SEED, drawn_by, markdown, pruned, results_of, run_main

from bydore_pyro.analysis import jitter
from bydore_pyro.baselines import Fit, PlannedRun, Problem, SingleConfig, train_runs
from bydore_pyro.data import TokenStore
from bydore_pyro.mixture import Mixture, average_score, benchmark_scores
from bydore_pyro.runs import (
    METHODS,
    MethodOptions,
    begin_run,
    domains_of,
    fit,
    load_domains,
    problem_of,
    processes,
)
from bydore_pyro.utils import DataError, RunFolder, tell

ABOUT = """Find a mixture by every method for four targets, and train fresh models on each: Case 1
(all domains, validation from docstrings), Case 2 (Python source and licences, the same validation),
the planted mixture (validation in known shares), a target of three domains that are scarce in
training, and three targets whose own domain is withheld from training. All methods have the same
text, proxy, batches, seed and most FLOPs (--budget plain trainings of the proxy). Finished proxies
are shared among the methods that can use them, and charged to each; `torchrun --nproc_per_node N`
trains them on N processes."""

LINEAR = "bydore_linear"
COMPARED = (*METHODS, LINEAR)
PAPER = {"single": "Pile-CC", "doremi": "DoReMi", "regmix": "RegMix", "autoscale": "AutoScale",
         "mde": "MDE", LINEAR: "ByDoRe"}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CompareConfig:
    """What is compared."""

    methods: list[str] = field(
        default_factory=lambda: [name for name in COMPARED if name != "human"],
        metadata={
            "help": f"The methods; {LINEAR} is ByDoRe by linear evidence, the paper's Algorithm 1."
        },
    )
    targets: list[str] = field(
        default_factory=lambda: list(TARGETS), metadata={"help": "The targets."}
    )
    target_seeds: int = field(default=3, metadata={"help": "Fresh models a mixture."})
    scale: float = field(
        default=1.0, metadata={"help": "Multiplies --steps, of the proxies and the fresh models."}
    )

    def __post_init__(self) -> None:
        for given, known in ((self.methods, COMPARED), (self.targets, TARGETS)):
            for name in given:
                if name not in known:
                    raise ValueError(f"Expected one of {', '.join(known)}, found '{name}'")
            if len(set(given)) < len(given) or not given:
                raise ValueError(f"Expected different names, found {' '.join(given) or 'none'}")
        if not 1 <= self.target_seeds <= 100:
            raise ValueError(f"Expected target_seeds in [1, 100], actual {self.target_seeds}")
        if not 0 < self.scale <= 1e6:
            raise ValueError(f"Expected scale in (0, 1e6], actual {self.scale}")


@dataclass(frozen=True, kw_only=True)
class CompareOptions(MethodOptions):
    """The options of every method and of the comparison."""

    compare: CompareConfig


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a mixture is to be good for.

    Args:
        validation: Shares of held-out text by domain.
        domains: To train on; all when None.
        withheld: Whether the validation's own domains are not trained on.
        scarce: Sequences of training text that the target's domains are cut to, None for all.
    """

    validation: Mapping[str, float]
    domains: tuple[str, ...] | None = None
    withheld: bool = False
    scarce: int | None = None


TARGETS: dict[str, Target] = {
    "case1": Target(validation={"docstrings": 1.0}),
    "case2": Target(validation={"docstrings": 1.0}, domains=("python", "licences")),
    "planted": Target(validation={"docstrings": 0.5, "c_headers": 0.3, "stubs": 0.2}),
    "scarce": Target(validation={"readmes": 1.0, "json": 1.0, "licences": 1.0}, scarce=150),
    "no_docstrings": Target(validation={"docstrings": 1.0}, withheld=True),
    "no_readmes": Target(validation={"readmes": 1.0}, withheld=True),
    "no_tests": Target(validation={"python_tests": 1.0}, withheld=True),
}
JUDGED = 4  # times as many held-out sequences judge a fresh model as a proxy
HELD_OUT = tuple(dict.fromkeys(n for t in TARGETS.values() if not t.scarce for n in t.validation))


def compare(options: CompareOptions, resume: Path | None) -> None:
    """Finds and judges every mixture; leaves a run folder, a table."""
    folder = begin_run(options, "compare", resume)
    steps = max(2, round(options.search.steps * options.compare.scale))
    scaled = dataclasses.replace(options.search, steps=steps)
    options = dataclasses.replace(options, search=scaled)
    corpus = load_domains(options).corpus
    if resume is None:
        folder.write_config("compare", options.as_dict(), tell)
    results: dict[str, Any] = {}
    for name in options.compare.targets:
        results[name] = one_target(options, folder, corpus, name)
        folder.write_json("results.json", results_of(options, targets=results, steps=steps))
    table = "\n".join(target_table(name, result) for name, result in results.items())
    folder.write_text("table.md", table)
    print(table)
    print(f"In {folder.path}: results.json, table.md, proxies/ and search-*/.")
    print(drawn_by("comparison", folder))


def one_target(
    options: CompareOptions, folder: RunFolder, corpus: TokenStore, name: str
) -> dict[str, Any]:
    """Returns what every method finds for a target, and the losses of fresh models on it."""
    target = TARGETS[name]
    if target.scarce is not None:
        corpus = cut_store(corpus, dict.fromkeys(target.validation, target.scarce
                                                 * options.run.sequence_length))  # fmt: skip
    validation = [f"{domain}={share}" for domain, share in target.validation.items()]
    domains = list(target.domains) if target.domains else options.run.domains
    if target.withheld:
        known = domains or [n for n, tokens in corpus.train.items() if len(tokens)]
        domains = [n for n in known if n not in target.validation]
    run = dataclasses.replace(options.run, validation=validation, domains=domains)
    own = dataclasses.replace(options, run=run)
    found = {}
    for label, method, single in labelled(options.compare.methods, target):
        # DoReMi has no target: its mixture serves every target of the same text.
        whole = method == "doremi" and domains == options.run.domains and target.scarce is None
        noted = folder.path / "fits" / f"{'all' if whole else name}-{label.replace(' ', '-')}.json"
        if not noted.exists():
            tell(f"{name}: {label}")
            place = folder.path / f"search-{name}{'-linear' * (method == LINEAR)}"
            chosen = dataclasses.replace(own, single=SingleConfig(single=single))
            folder.write_json(f"fits/{noted.name}", one_fit(chosen, corpus, folder, method, place))
        processes(own).wait()  # until it is there for all processes
        found[label] = json.loads(noted.read_text(encoding="utf-8"))
        if method == "bydore":
            search = folder.path / f"search-{name}"
            weights = pruned(Mixture.from_json(search / "mixture.json"))
            if weights is not None:
                # What the whole mixture's uncertainty and path were, the pruned one's are not.
                unknown = dict.fromkeys(("standard_deviation", "jitter", "jitter_second_half",
                                         "trajectory"))  # fmt: skip
                cost = found[label]["cost"]
                found["bydore, pruned"] = {
                    "weights": weights,
                    "cost": cost,
                    **unknown,
                    "details": {},
                }
    judged = {k: v["weights"] for k, v in found.items()}
    if (
        set(target.validation) <= set(domains_of(own, corpus, 0).names)
        and len(target.validation) > 1
    ):
        judged["the target's own shares"] = dict(target.validation)
    losses = judge(own, corpus, folder, name, judged)
    return {"validation": dict(target.validation), "methods": found, "losses": losses}


def labelled(methods: Sequence[str], target: Target) -> list[tuple[str, str, str | None]]:
    """Returns the methods' labels, names, and the single domain where it is not the target's."""
    rows: list[tuple[str, str, str | None]] = []
    for method in methods:
        if method == "single" and target.withheld:
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
    if method == LINEAR:
        linear = dataclasses.replace(options.search, evidence="linear")
        options, method = dataclasses.replace(options, search=linear), "bydore"
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
) -> dict[str, list[float]]:
    """Returns the losses on the target of fresh models on each mixture, nats per token."""
    problem = dataclasses.replace(
        problem_on(options, corpus, folder),
        validation_sequences=JUDGED * options.budget.evaluation_sequences,
    )
    seeds = [options.run.seed + FRESH_SEED + i for i in range(options.compare.target_seeds)]
    total = {label: sum(weights.values()) for label, weights in mixtures.items()}
    planned = [
        PlannedRun(
            weights={n: w / total[label] for n, w in weights.items() if w > 0},
            steps=problem.steps,
            seed=seed,
        )
        for label, weights in mixtures.items()
        for seed in seeds
    ]
    runs = train_runs(problem, planned, f"{name}: fresh models")
    losses = [run.target_loss(problem.target) for run in runs]
    return {
        label: losses[len(seeds) * i : len(seeds) * (i + 1)] for i, label in enumerate(mixtures)
    }


def cut_store(store: TokenStore, most: Mapping[str, int]) -> TokenStore:
    """Returns a store with no more than so many training tokens of some domains.

    Raises:
        DataError: When it does not have them.
    """
    for name in most:
        if name not in store.names:
            raise DataError(
                f"Expected a domain of the data ({', '.join(store.names)}), found '{name}'"
            )
    train = {n: tokens[: most.get(n, len(tokens))] for n, tokens in store.train.items()}
    identity = f"{store.sha256} {sorted(most.items())}"
    index = {**store.index, "sha256": hashlib.sha256(identity.encode()).hexdigest()}
    return dataclasses.replace(store, train=train, index=index)


def target_table(name: str, result: Mapping[str, Any]) -> str:
    """Returns what the methods found for a target, and what it was worth, as Markdown."""
    scores = {}
    if name in ("case1", "case2"):
        scores = {m: average_score(t) for m, t in benchmark_scores(int(name[-1])).items()}
    header = ["method", "validation loss", "largest weights", "FLOPs", "tokens", "seconds",
              "jitter", "paper: mean of 13 benchmarks"]  # fmt: skip
    rows = []
    order = sorted(result["losses"], key=lambda label: statistics.mean(result["losses"][label]))
    for label in order:
        losses = result["losses"][label]
        spread = statistics.stdev(losses) if len(losses) > 1 else 0.0
        found = result["methods"].get(label)
        if found is None:
            cells = [leading(result["validation"]), "", "", "", ""]
        else:
            cost, shake = found["cost"], found["jitter_second_half"]
            cells = [
                leading(found["weights"]),
                f"{cost['flops']:.2e}" if cost["flops"] else "0",
                f"{cost['tokens']:,}",
                f"{cost['seconds']:.0f}",
                "" if shake is None else f"{shake:.4f}",
            ]
        paper = scores.get(PAPER.get(label, ""))
        cells.append("" if paper is None else f"{paper:.2f}")
        rows.append([label, f"{statistics.mean(losses):.3f} ± {spread:.3f}", *cells])
    shares = ", ".join(f"{n} {s:g}" for n, s in result["validation"].items())
    return f"## {name}: validation text {shares}\n\n{markdown(header, rows)}"


def leading(weights: Mapping[str, float], count: int = 4) -> str:
    """Returns the largest weights as text."""
    total = sum(weights.values())
    largest = sorted(weights.items(), key=lambda item: -item[1])[:count]
    return ", ".join(f"{name} {w / total:.2f}" for name, w in largest if w > 0)


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
