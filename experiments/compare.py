"""Every method on the same proxy, data, seeds and budget: what each finds, and what it is worth."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common import drawn_by, fresh_models, run_main
from compare_mixtures import CompareOptions, fits, problem_on
from compare_tables import standings, standings_table, target_table
from compare_targets import posed, target_named, text_of_targets

from bydore_pyro.baselines import FinishedRun
from bydore_pyro.data import TokenStore
from bydore_pyro.proxy import Cost
from bydore_pyro.runs import begin_run, domains_of, results_of
from bydore_pyro.utils import RunFolder, tell

ABOUT = """Find a mixture for each target by every method, and train fresh models on it. The targets
are: Case 1 (all domains, validation on docstrings), Case 2 (Python source and licences, the same
validation), the planted mixture (validation in known shares), a target of three domains that are
scarce in training, three targets whose own domain is withheld from training, three such domains at
once (judged by their mean and by the worst of them), and the text of benchmark questions. With your
own text in --data, a target is a withheld domain: --targets withheld:NAME. All methods have the
same text, proxy, batches, seed and FLOP budget (--budget plain trainings of the proxy). Methods
share finished proxies where they can; the cost counts for each. `torchrun --nproc_per_node N`
trains them on N processes."""


def compare(options: CompareOptions, resume: Path | None) -> None:
    """Finds and judges every mixture; leaves a run folder, a table."""
    folder = begin_run(options, "compare", resume)
    given = options
    steps = max(2, round(options.search.steps * options.compare.scale))
    options = dataclasses.replace(options, search=dataclasses.replace(options.search, steps=steps))
    corpus = text_of_targets(options, options.compare.targets)
    if resume is None:
        folder.write_config("compare", given.as_dict(), tell)
    results: dict[str, Any] = {}
    cost = Cost()
    for name in options.compare.targets:
        results[name] = one_target(options, folder, corpus, name, cost)
        placed = standings(results)
        content = {"targets": results, "steps": steps, "standings": placed}
        content = results_of(content, given, given.run.seed, cost)
        folder.write_json("results.json", content)
    tables = [target_table(name, result) for name, result in results.items()]
    table = "\n".join([*tables, standings_table(results, placed)])
    folder.write_text("table.md", table)
    print(table)
    print(f"In {folder.path}: results.json, table.md and the runs behind them.")
    print(drawn_by("comparison", folder))


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
        `losses` (nats per token, model by model, by label), and with several domains in the
        validation set `single_losses`, the losses on each of them.
    """
    target = target_named(name)
    own, corpus = posed(options, corpus, target)
    if target.scarce is not None:  # proxies read text as often as the run will
        own = dataclasses.replace(own, budget=dataclasses.replace(own.budget, proxies_repeat=True))
    trained = domains_of(own, corpus, 0).names
    same_text = own.run.domains == options.run.domains and target.scarce is None
    found = fits(own, folder, corpus, name, same_text)
    for method in found.values():
        cost.add(method["cost"]["parts"])
    judged = {k: v["weights"] for k, v in found.items()}
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
