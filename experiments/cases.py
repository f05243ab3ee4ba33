"""The whole of Case 1 and Case 2: both searches, verification by fresh models, report."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas
from common import markdown, require_judged, verify

from bydore_pyro.ask import ask
from bydore_pyro.command_line import option
from bydore_pyro.data import Domains, TokenStore
from bydore_pyro.files import RunFolder, plain
from bydore_pyro.mixture import Mixture, mixture_from
from bydore_pyro.proxy import Cost
from bydore_pyro.report import add_html_report, report_text
from bydore_pyro.search import search, search_in
from bydore_pyro.setup import (
    AskConfig,
    Options,
    QuestionConfig,
    begin_run,
    is_finished,
    load_domains,
)
from bydore_pyro.terminal import tell

TOLD = 0.01  # weights below it in every answer are summed up
LINEAR = "linear"  # folder of the paper's search, below the case's


@dataclass(frozen=True, kw_only=True)
class VerificationConfig:
    """What the learned weights are held against, beside uniform ones."""

    compare: list[str] = option(
        [], "Domains alone, and mixture files, on which additional fresh models are trained."
    )


@dataclass(frozen=True, kw_only=True)
class CaseOptions(Options):
    """The options of a search and of its verification."""

    verification: VerificationConfig


class Answer(NamedTuple):
    """What was found: the weights, the share of the target that no mixture explains, the cost in
    plain steps of training and in seconds."""

    mixture: Mixture
    unexplained: float | None
    steps: float | None = None
    seconds: float | None = None


def compared_mixtures(options: CaseOptions, domains: Domains) -> dict[str, dict[str, float]]:
    """Reads what the learned mixture is held against, by the domains' and the files' names."""
    found = {"uniform": dict.fromkeys(domains.names, 1 / domains.num_domains)}
    for place in options.verification.compare:
        if place in domains.trainable:
            found[f"only {place}"] = {place: 1.0}
            continue
        mixture = mixture_from(place)
        mixture.check(domains.trainable, domains.corpus.tokenizer_sha256, place)
        found[place] = mixture.as_dict()
    return found


def case(name: str, options: CaseOptions, resume: Path | None) -> None:
    """Searches, verifies, writes and prints: the whole of Case 1 and Case 2."""
    folder = begin_run(options, name, resume)
    domains = load_domains(options)
    require_judged(options, domains.corpus)
    compared = compared_mixtures(options, domains)
    found = search(options, domains, folder, name)
    if folder.writes:
        print(report_text(folder.path))  # the answer; the rest judges it
    answers = {"learned": answer_in(folder.path)}
    if options.run.evidence == "matching":
        answers["Algorithm 1"] = paper_search(name, options, domains.corpus, folder.path / LINEAR)
        answers |= withheld(options, domains, folder)
    mixtures = {label: answer.mixture.as_dict() for label, answer in answers.items()}
    if (free := found.mixture.free_weights) is not None:
        mixtures["learned, not capped"] = dict(zip(found.mixture.names, free, strict=True))
    cost = Cost()
    losses = verify(options, domains, mixtures | compared, cost, folder.path / "proxies")
    metrics = dataclasses.replace(
        found.metrics, verification=cost.spent(), validation_loss_nats_per_token=losses
    )
    folder.write_json("metrics.json", plain(metrics))
    table = side_by_side(answers, losses)
    folder.write_text("side_by_side.md", table)
    print(f"\n{table}")
    tell(add_html_report(folder))


def paper_search(name: str, options: CaseOptions, corpus: TokenStore, path: Path) -> Answer:
    """Runs the paper's Algorithm 1, in a folder of its own below the case's."""
    if not is_finished(path):
        tell("beside it the paper's Algorithm 1 (--evidence linear)")
        run = dataclasses.replace(options.run, evidence="linear", out=str(path))
        search_in(dataclasses.replace(options, run=run), corpus, path, name)
    return answer_in(path)


def withheld(options: CaseOptions, domains: Domains, folder: RunFolder) -> dict[str, Answer]:
    """Asks the search again, without the domain that the validation set was taken from.

    Returns:
        What the other domains can teach; nothing where none was taken from a domain of the run, or
        less than two others are left.
    """
    shares = domains.validation_shares
    own = max(shares, key=lambda name: shares[name])
    if own not in domains.names or len(domains.names) < 3:
        return {}

    def ask_again() -> dict[str, Any]:
        tell(f"and what the other domains teach if {own} is withheld (bydore ask --drop {own})")
        config = AskConfig(drop=[own])
        answer = ask(folder.path, QuestionConfig(), folder.path, config).answer
        return {
            "mixture": json.loads(answer.mixture.to_json()),
            "unexplained": answer.evidence[0].unexplained,
        }

    kept = folder.kept(f"without-{own}")
    found = kept.get_or(ask_again)
    mixture = Mixture.from_content(found["mixture"], kept.folder)
    return {f"{own} withheld": Answer(mixture, found["unexplained"])}


def answer_in(path: Path) -> Answer:
    """Reads what a search found and cost."""
    content = json.loads((path / "metrics.json").read_text(encoding="utf-8"))
    mixture, cost = Mixture.from_json(path / "mixture.json"), content["search"]
    steps = content["steps"] * cost["flops"] / cost["parts"]["train"]["flops"]
    unexplained = content.get("matching", {}).get("unexplained")
    return Answer(mixture, unexplained, steps, cost["seconds"])


def side_by_side(answers: Mapping[str, Answer], losses: Mapping[str, float]) -> str:
    """Returns what was found as Markdown: a column each, small weights together."""
    found = [answer.mixture for answer in answers.values()]
    weights = pandas.DataFrame([mixture.as_dict() for mixture in found]).T
    order = weights.max(axis=1).sort_values(ascending=False)
    told = [str(name) for name in order[order >= TOLD].index]
    rows = [[name, *(_with_interval(mixture, name) for mixture in found)] for name in told]
    others = weights.drop(index=told)
    if len(others):
        rows.append([f"{len(others)} others", *(f"{share:.3f}" for share in others.sum())])
    for what, form, values in (
        ("of the target unexplained", "{:.1%}", [one.unexplained for one in answers.values()]),
        ("cost, plain training steps", "{:.0f}", [one.steps for one in answers.values()]),
        ("seconds", "{:.0f}", [one.seconds for one in answers.values()]),
        ("fresh model, nats per token", "{:.3f}", [losses[label] for label in answers]),
    ):
        rows.append([what, *("" if value is None else form.format(value) for value in values)])
    rest = ", ".join(f"{name} {loss:.3f}" for name, loss in losses.items() if name not in answers)
    return f"{markdown(['', *answers], rows)}\nFresh models on other weights: {rest}.\n"


def _with_interval(mixture: Mixture, domain: str) -> str:
    if domain not in mixture.names:
        return "withheld"
    weight = mixture.as_dict()[domain]
    if mixture.hdi is None:
        return f"{weight:.3f}"
    low, high = mixture.hdi[mixture.names.index(domain)]
    return f"{weight:.3f} ({low:.3f} to {high:.3f})"
