"""Text that runs out: what mixtures are worth to models that read the target's text again."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import fresh_models, markdown, run_main
from compare_tables import leading

from bydore_pyro.data import Domains, TokenStore, cut_store
from bydore_pyro.mixture import Mixture, exactly, mixture_for
from bydore_pyro.proxy import Cost
from bydore_pyro.runs import (
    MethodOptions,
    begin_run,
    domains_of,
    fit,
    is_finished,
    load_domains,
    problem_of,
    results_of,
    search_in,
)
from bydore_pyro.utils import RunFolder, Tokens, option, require_fields, tell

ABOUT = """Cut the text of a target's domains, find mixtures for runs that read this text several
times, and train fresh models of that length on each. The mixtures are: the target's own shares, the
natural shares, UniMax, gradient matching for fresh text, the same capped at 4 epochs and for each
length of run (--target_tokens), and the paper's Algorithm 1; with --compared also MDE and RegMix,
whose proxies repeat text or do not. Finished models are kept and not trained again."""

CAP = 4.0  # epochs
REPEATING = "_repeating"
TRAINED = ("mde", "regmix")
ROWS = ("own", "natural", "caps", "unimax", "matching", "effective", "linear")
KNOWN = (*ROWS, *TRAINED, *(f"{name}{REPEATING}" for name in TRAINED))
WORDS = {
    "own": "the target's own shares",
    "caps": f"matching, capped at {CAP:g} epochs",
    "matching": "matching, for fresh text",
    "effective": "matching, effective shares",
    "linear": "Algorithm 1 (linear evidence)",
}


TARGETS = {  # their domains, in equal shares
    "scarce": ("readmes", "json", "licences"),
    "python": ("docstrings", "python_tests"),
    "wikipedia": ("wikipedia_en", "pile_cc"),
}
WHOLE = ("pile_cc",)  # is not cut


@dataclass(frozen=True, kw_only=True)
class RunsOutConfig:
    """What is cut, how long the runs are, and what is compared."""

    target: str = option(
        "scarce",
        f"Target: one of {', '.join(TARGETS)}. 'wikipedia' needs --data with the domains "
        "wikipedia_en and pile_cc, and leaves the second whole.",
    )
    epochs: list[float] = option(
        [1.4, 5.7, 11.4, 23.0],
        "Lengths of the runs, in epochs of the scarcest text at the target's own shares.",
    )
    compared: list[str] = option(list(ROWS), f"Mixtures to compare: {', '.join(KNOWN)}.")
    cut_sequences: int = option(150, "Number of sequences that remain of a domain.", least=3)
    target_seeds: int = option(3, "Number of fresh models per mixture.", least=1, most=100)

    def __post_init__(self) -> None:
        require_fields(self)
        for given, known in (([self.target], TARGETS), (self.compared, KNOWN)):
            for name in given:
                if name not in known:
                    raise ValueError(f"Expected one of {', '.join(known)}, found '{name}'")
        if not self.epochs or not all(0 < one < math.inf for one in self.epochs):
            raise ValueError(f"Expected epochs > 0, found {self.epochs}")
        if len(set(self.epochs)) < len(self.epochs) or len(set(self.compared)) < len(self.compared):
            raise ValueError("Expected different epochs and rows, found one twice")


@dataclass(frozen=True, kw_only=True)
class RepetitionOptions(MethodOptions):
    """The options of every method and of this experiment."""

    runs_out: RunsOutConfig


def repetition(options: RepetitionOptions, resume: Path | None) -> None:
    """Finds and judges every mixture at every length; leaves a run folder and a table."""
    asked, target = options.runs_out, TARGETS[options.runs_out.target]
    run = dataclasses.replace(options.run, validation=[f"{name}=1.0" for name in target])
    options = dataclasses.replace(options, run=run)
    folder = begin_run(options, "repetition", resume)
    cut = [name for name in target if name not in WHOLE]
    left = asked.cut_sequences * options.run.sequence_length
    corpus = cut_store(load_domains(options).corpus, dict.fromkeys(cut, left))
    if resume is None:
        folder.write_config("repetition", options.as_dict(), tell)
    domains = domains_of(options, corpus, options.run.seed)
    once = domains.most_weights(1.0, 1.0)  # tokens of the domains
    first = min(once[name] for name in cut) * len(target)
    steps = [max(1, round(one * first / options.batch_tokens)) for one in asked.epochs]
    lengths = [float(one * options.batch_tokens) for one in steps]
    mixtures = found_mixtures(options, corpus, folder, lengths)
    cost = cost_of_mixtures(folder.path)
    cells: dict[str, Any] = {}
    for epochs, count, tokens in zip(asked.epochs, steps, lengths, strict=True):
        here = {row: mixtures[row][tokens] for row in asked.compared}
        losses = judge(options, corpus, folder, here, count, cost)
        read = {
            row: max(weights.get(name, 0.0) * tokens / once[name] for name in once)
            for row, weights in here.items()
        }
        cells[f"{epochs:g}"] = {
            "steps": count,
            "tokens": tokens,
            "weights": here,
            "most_epochs": read,
            "losses": losses,
        }
        content = {"target": asked.target, "cells": cells}
        results = results_of(content, options, options.run.seed, cost)
        folder.write_json("results.json", results)
    table = table_of(asked, cells)
    folder.write_text("table.md", table)
    print(table)
    print(f"In {folder.path}: results.json, table.md, proxies/ and search-*/.")


def found_mixtures(
    options: RepetitionOptions, corpus: TokenStore, folder: RunFolder, lengths: Sequence[float]
) -> dict[str, dict[float, dict[str, float]]]:
    """Returns weights by row and length of run."""
    asked, found = options.runs_out.compared, {}
    domains = domains_of(options, corpus, options.run.seed)
    for row in asked:
        if row == "own":
            target = TARGETS[options.runs_out.target]
            found[row] = dict.fromkeys(lengths, dict.fromkeys(target, 1 / len(target)))
        elif row == "linear":
            config = dataclasses.replace(options.search, evidence="linear")
            place = searched(dataclasses.replace(options, search=config), corpus, folder, row)
            weights = Mixture.from_json(place / "mixture.json").as_dict()
            found[row] = dict.fromkeys(lengths, weights)
        elif row in ("matching", "effective", "caps"):
            run = dataclasses.replace(options.run, target_tokens=[*map(Tokens, lengths)])
            place = searched(dataclasses.replace(options, run=run), corpus, folder, "matching")
            found[row] = {n: matched(row, place, domains, n) for n in lengths}
        else:
            found[row] = {n: fitted(options, corpus, folder, row, n) for n in lengths}
    return found


def searched(options: RepetitionOptions, corpus: TokenStore, folder: RunFolder, name: str) -> Path:
    """Returns the folder of a search, which is run or gone on with where it has not ended."""
    place = folder.path / f"search-{name}"
    run = dataclasses.replace(options.run, out=str(place), tokens=None)
    options = dataclasses.replace(options, run=run)
    if not is_finished(place):
        search_in(options, corpus, place, f"search-{name}")
    return place


def matched(row: str, place: Path, domains: Domains, tokens: float) -> dict[str, float]:
    """Returns the weights of a search by matching: for fresh text, capped, or for the length."""
    if row == "effective":
        return mixture_for(place, tokens).as_dict()
    metrics = json.loads((place / "metrics.json").read_text(encoding="utf-8"))
    weights = metrics["matching"]["rounds"][-1]["weights"]
    free = Mixture(names=tuple(weights), weights=tuple(weights.values()))
    most = domains.most_weights(CAP, tokens)
    # Where all text together is too little for the cap, there is nothing to cap.
    capped = row == "caps" and sum(most.values()) >= 1
    return (free.capped(most) if capped else free).as_dict()


def fitted(
    options: RepetitionOptions, corpus: TokenStore, folder: RunFolder, row: str, tokens: float
) -> dict[str, float]:
    """Returns what another method finds for a run of a length; noted in the folder."""
    method, repeats = row.removesuffix(REPEATING), row.endswith(REPEATING)
    by_length = repeats or method == "unimax"

    def compute() -> dict[str, Any]:
        budget = dataclasses.replace(options.budget, proxies_repeat=repeats)
        run = dataclasses.replace(options.run, target_tokens=[Tokens(tokens)])
        own = dataclasses.replace(options, run=run, budget=budget)
        domains = domains_of(own, corpus, own.run.seed)
        problem = problem_of(own, domains, folder.path / "proxies")
        tell(f"{row}: a run of {tokens:,.0f} tokens")
        found = fit(method, problem, own, folder.path / f"search-{row}").mixture.as_dict()
        return {"weights": found, "cost": problem.cost.report()}

    name = f"{row}{f'-{exactly(tokens)}' if by_length else ''}.json"
    return folder.once(f"fits/{name}", compute)["weights"]


def cost_of_mixtures(folder: Path) -> Cost:
    """Returns what the searches and the other methods' mixtures cost, each once."""
    cost = Cost()
    for key, pattern in (("search", "search-*/metrics.json"), ("cost", "fits/*.json")):
        for path in sorted(folder.glob(pattern)):
            cost.add(json.loads(path.read_text(encoding="utf-8"))[key]["parts"])
    return cost


def judge(
    options: RepetitionOptions,
    corpus: TokenStore,
    folder: RunFolder,
    mixtures: Mapping[str, Mapping[str, float]],
    steps: int,
    cost: Cost,
) -> dict[str, list[float]]:
    """Trains fresh models on each mixture, with repetition; `cost` counts them.

    Returns:
        Their losses on the target by row, nats per token.
    """
    domains = domains_of(options, corpus, options.run.seed)
    problem = problem_of(options, domains, folder.path / "proxies")
    problem = dataclasses.replace(problem, steps=steps)
    count = options.runs_out.target_seeds
    runs = fresh_models(problem, mixtures, count, f"fresh models of {steps} steps")
    cost.add(problem.cost.report()["parts"], prefix="fresh_")
    return {row: [run.target_loss(problem.target) for run in of] for row, of in runs.items()}


def table_of(asked: RunsOutConfig, cells: Mapping[str, Any]) -> str:
    """Returns losses by row and length, with the best's rivals, and the weights, as Markdown."""
    header = ["mixture", *(f"{epochs} epochs ({c['steps']} steps)" for epochs, c in cells.items())]
    best = {k: min(statistics.mean(x) for x in c["losses"].values()) for k, c in cells.items()}
    rows = []
    for row in asked.compared:
        line = [WORDS.get(row, row.replace("_", ", proxies "))]
        for epochs, cell in cells.items():
            losses = cell["losses"][row]
            mean = statistics.mean(losses)
            error = statistics.stdev(losses) / len(losses) ** 0.5 if len(losses) > 1 else 0.0
            told = f"{mean:.3f} ± {error:.3f}"
            line.append(f"**{told}**" if mean - error <= best[epochs] else told)
        rows.append(line)
    lines = [
        f"- {epochs} epochs, {WORDS.get(row, row)}: {leading(weights)}; the most read domain "
        f"{cell['most_epochs'][row]:.1f} times"
        for epochs, cell in cells.items()
        for row, weights in cell["weights"].items()
    ]
    about = "Nats per token, mean and standard error; bold: within one of the best."
    return f"## {asked.target}\n\n{about}\n\n{markdown(header, rows)}\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    run_main(
        repetition,
        "repetition",
        ABOUT,
        RepetitionOptions,
        resumable=True,
        smoke={"cut_sequences": 12, "epochs": [1.0, 4.0], "target_seeds": 1},
        budget=6.0,
        steps=160,
        batch_sequences=16,
    )
