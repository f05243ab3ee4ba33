"""Are the mixtures that the law of losses finds better than the match's, and as it predicts?

One search a seed measures the domains; `bydore ask` answers all questions from it. Fresh models on
the answers, on the match's whole step and on uniform weights, and at the search's length on natural
weights, are judged by text that nothing else has read.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import fresh_models, leave, markdown, run_main, searched, with_error

from bydore_pyro.answer import candidate
from bydore_pyro.ask import ask
from bydore_pyro.command_line import Checked, TokenCount, option
from bydore_pyro.files import RunFolder, plain
from bydore_pyro.law import Objective
from bydore_pyro.mixture import Mixture
from bydore_pyro.proxy import Cost
from bydore_pyro.search import plain_problem
from bydore_pyro.setup import (
    AskConfig,
    Options,
    QuestionConfig,
    begin_run,
)

ABOUT = """Find mixtures for many targets out of one search a seed, by the law of losses and by the
match, and train fresh models on them, as long as the search and longer."""
JUDGED = 128  # sequences of a domain
MIXTURES = ("law", "match", "uniform", "natural")


@dataclass(frozen=True)
class Asked:
    """A question: targets, domains that are withheld, and what is made small."""

    validation: tuple[str, ...]
    drop: tuple[str, ...] = ()
    objective: Objective = "mean"


SETS = {
    # The environment's text.
    "set 1": ("python=.4", "licences=.3", "yaml=.3"),
    "set 2": ("docstrings", "text", "json"),
    "set 3": ("c_source", "python_tests", "readmes"),
    "set 4": ("tables", "stubs", "font_metrics"),
    # Kinds of text on the web.
    "set 5": ("stackexchange=.4", "arxiv=.3", "wikipedia_en=.3"),
    "set 6": ("pile_cc", "freelaw", "dm_mathematics"),
    "set 7": ("pubmed_abstracts", "uspto_backgrounds", "europarl"),
    "set 8": ("gutenberg_pg19", "ubuntu_irc", "pubmed_central"),
}
QUESTIONS = {
    "planted": Asked(("docstrings=.5", "c_headers=.3", "stubs=.2")),
    "dense": Asked(("python=.3", "text=.25", "json=.25", "c_source=.2")),
    "docstrings": Asked(("docstrings",)),
    "all": Asked(("all",)),
    **{name: Asked(given) for name, given in SETS.items()},
    **{f"{name}, none worse": Asked(given, objective="none_worse") for name, given in SETS.items()},
    **{f"{name}, worst": Asked(given, objective="worst") for name, given in SETS.items()},
    "docstrings withheld": Asked(("docstrings",), ("docstrings",)),
    "readmes withheld": Asked(("readmes",), ("readmes",)),
    "tests withheld": Asked(("python_tests",), ("python_tests",)),
    "three withheld": Asked(*2 * (("docstrings", "readmes", "json"),)),
    "planted web": Asked(("arxiv=.5", "freelaw=.3", "ubuntu_irc=.2")),
    "dense web": Asked(
        ("pile_cc=.3", "wikipedia_en=.25", "stackexchange=.25", "pubmed_central=.2")
    ),
    "pile_cc": Asked(("pile_cc",)),
    "pile_cc withheld": Asked(("pile_cc",), ("pile_cc",)),
}


@dataclass(frozen=True, kw_only=True)
class DecisionsConfig(Checked):
    """What is asked, and how it is judged."""

    questions: list[str] | None = option(
        None, f"Some of {', '.join(QUESTIONS)}; without it all whose targets the data has."
    )
    target_seeds: int = option(5, "Number of searches, each with a fresh model.", least=1, most=100)
    times: list[int] = option([1], "Lengths of the fresh models, in lengths of the search.")
    mixtures: list[str] = option([*MIXTURES], "The mixtures that are trained; the law's always is.")
    judge: str | None = option(
        None, "Fresh models' shape: a folder with config.json, or a hub name. Default: the proxy's."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.questions or ():
            if name not in QUESTIONS:
                raise ValueError(f"Expected one of {', '.join(QUESTIONS)}, found '{name}'")
        for name in self.mixtures:
            if name not in MIXTURES:
                raise ValueError(f"Expected one of {', '.join(MIXTURES)}, found '{name}'")
        if not self.times or min(self.times) < 1:
            raise ValueError(f"Expected --times of 1 and more, found {self.times}")


@dataclass(frozen=True, kw_only=True)
class DecisionsOptions(Options):
    """The options of a search and of the questions."""

    decisions: DecisionsConfig


def answer(path: Path, asked: Asked, tokens: float | None) -> dict[str, Any]:
    """Returns what a finished search answers: weights, the match's, the loss that it predicts."""
    question = QuestionConfig(
        validation=list(asked.validation),
        objective=asked.objective,
        target_tokens=None if tokens is None else TokenCount(tokens),
    )
    config = AskConfig(drop=list(asked.drop), trials=4 if asked.drop else 0)
    parts = [*asked.validation, *asked.drop, asked.objective]
    name = "-".join(parts).replace("/", "-")
    found = ask(path, question, path / f"trials-{name}", config).answer
    matching, posterior = found.evidence
    match = candidate(matching, posterior, 1.0).tolist()
    predicted = {} if found.outlook is None else plain(found.outlook).get("differences", {})
    return {
        "law": found.mixture.as_dict(),
        "match": dict(zip(found.names, match, strict=True)),
        "unexplained": matching.unexplained,
        "differences": {
            of: {text: one for text, one in texts.items() if not text.startswith("domain ")}
            for of, texts in predicted.items()
        },
    }


def one_seed(
    options: DecisionsOptions, folder: RunFolder, seed: int, cost: Cost
) -> dict[str, dict[str, Any]]:
    """Returns, by length and question, the losses of fresh models on a seed's answers."""
    path = folder.path / f"seed-{seed}"
    own, domains = searched(options, path, seed, ["all"])
    judge = dataclasses.replace(own.run, proxy=options.decisions.judge or own.run.proxy)
    judged_by = dataclasses.replace(own, run=judge)
    problem = plain_problem(judged_by, domains, folder.path / "proxies")
    sizes = Mixture(names=domains.names, weights=tuple(problem.token_shares.tolist())).as_dict()
    found: dict[str, dict[str, Any]] = {}
    for times in options.decisions.times:
        asked = {MIXTURES[0], *options.decisions.mixtures}
        compared = [of for of in MIXTURES if of in asked and (of != "natural" or times == 1)]
        tokens = None if times == 1 else times * float(options.run_tokens)
        answers = {}
        for name in options.decisions.questions or asked_of(domains.names):
            ask_it = partial(answer, path, QUESTIONS[name], tokens)
            answers[name] = folder.kept(f"answers-{seed}-{times}/{name}").get_or(ask_it)
        judged = {
            f"{name}: {of}": weights
            for name, one in answers.items()
            for of, weights in mixtures_of(one, sizes, QUESTIONS[name].drop).items()
            if of in compared
        }
        longer = dataclasses.replace(problem, steps=times * problem.steps)
        runs = fresh_models(longer, judged, 1, f"seed {seed}: fresh models", JUDGED)
        losses = {label: dict(one.losses) for label, (one,) in runs.items()}
        found[str(times)] = {
            name: {
                **{of: on(losses[f"{name}: {of}"], name) for of in compared},
                "by_target": by_target(losses, name) if "natural" in compared else {},
                "answer": answers[name],
            }
            for name in answers
        }
    cost.add(problem.cost.report()["parts"])
    return found


def mixtures_of(
    found: Mapping[str, Any], sizes: Mapping[str, float], drop: tuple[str, ...]
) -> dict[str, dict[str, float]]:
    """Returns the mixtures that are judged, those of nobody's answer without what is withheld."""
    kept = {name: size for name, size in sizes.items() if name not in drop}
    others = {"uniform": dict.fromkeys(kept, 1.0), "natural": kept}
    return {**{of: dict(found[of]) for of in ("law", "match")}, **others}


def asked_of(names: Iterable[str]) -> list[str]:
    """Returns the questions about these domains: those all of whose targets are among them."""
    known = {*names, "all"}
    given = {name: {one.split("=")[0] for one in QUESTIONS[name].validation} for name in QUESTIONS}
    return [name for name, targets in given.items() if targets <= known]


def shares_of(name: str, domains: Mapping[str, float]) -> dict[str, float]:
    """Returns the targets of a question, by their shares."""
    given = QUESTIONS[name].validation
    if given == ("all",):
        return dict.fromkeys(domains, 1 / len(domains))
    shares = {n: float(share or 1) for n, _, share in (one.partition("=") for one in given)}
    return {one: share / sum(shares.values()) for one, share in shares.items()}


def on(losses: Mapping[str, float], name: str) -> float:
    """Returns the loss on the targets of a question, or on the worst of them, from those on
    domains, nats per token."""
    shares = shares_of(name, losses)
    if QUESTIONS[name].objective == "worst":
        return max(losses[one] for one in shares)
    return sum(share * losses[one] for one, share in shares.items())


def by_target(losses: Mapping[str, Mapping[str, float]], name: str) -> dict[str, float]:
    """Returns by how much each target is worse under the law's mixture than under natural
    weights."""
    law, natural = losses[f"{name}: law"], losses[f"{name}: natural"]
    return {one: law[one] - natural[one] for one in shares_of(name, law)}


def table(results: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """Returns the questions as Markdown: means over the seeds, differences with standard errors."""
    header = [
        "times",
        "question",
        "law",
        "less the match",
        "less uniform",
        "predicted",
        "worst target less natural",
    ]
    rows = []
    for times in next(iter(results.values())):
        for name in next(iter(results.values()))[times]:
            seeds = [found[times][name] for found in results.values()]
            law = np.array([one["law"] for one in seeds])
            told = [told_of(one["answer"]["differences"], name) for one in seeds]
            predicted = [one["loss"] for one in told if one is not None]
            worst = [max(one["by_target"].values()) for one in seeds if one["by_target"]]
            apart = [
                with_error(law - [one[of] for one in seeds]) if of in seeds[0] else ""
                for of in ("match", "uniform")
            ]
            ends = [f"{np.mean(predicted):+.3f}", " ".join(f"{one:+.3f}" for one in worst)]
            rows.append([times, name, f"{law.mean():.3f}", *apart, *ends])
    return markdown(header, rows)


def told_of(differences: Mapping[str, Any], name: str) -> Mapping[str, float] | None:
    """Returns the difference from uniform that an answer predicted; None where it did not."""
    found = list(differences.get("uniform", {}).values())
    several = len(QUESTIONS[name].validation) > 1 or QUESTIONS[name].validation == ("all",)
    return found[-1 if several else 0] if found else None


def decisions(options: DecisionsOptions, resume: Path | None) -> None:
    """Searches, asks, trains and judges; leaves a run folder, a table."""
    folder = begin_run(options, "decisions", resume)
    if resume is None:
        folder.write_config("decisions", options.as_dict())
    cost = Cost()
    seeds = range(options.run.seed, options.run.seed + options.decisions.target_seeds)
    results = {}
    for seed in seeds:
        results[str(seed)] = one_seed(options, folder, seed, cost)
        folder.write_text("table.md", table(results))
    content = {"questions": json.loads(json.dumps(results)), "steps": options.search.steps}
    leave(folder, options, content, cost, table(results))


if __name__ == "__main__":
    run_main(
        *(decisions, "decisions", ABOUT, DecisionsOptions),
        resumable=True,
        steps=160,
        batch_sequences=16,
    )
