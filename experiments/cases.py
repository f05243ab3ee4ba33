"""The whole of Case 1 and Case 2: both searches, verification by fresh models, report."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from common import markdown, run_main, verify

from bydore_pyro.data import Domains, TokenStore
from bydore_pyro.mixture import Mixture, mixture_from
from bydore_pyro.proxy import Cost
from bydore_pyro.report import add_html_report, report_text
from bydore_pyro.runs import (
    Options,
    begin_run,
    is_finished,
    load_domains,
    plain,
    search,
    search_in,
    search_metrics,
    spent,
    uniform_weights,
)
from bydore_pyro.utils import option, tell

LINEAR = "linear"  # folder of the paper's search, below the case's


@dataclass(frozen=True, kw_only=True)
class VerificationConfig:
    """What the learned weights are held against, beside uniform ones and the validation's own."""

    compare: list[str] = option(
        [], "Mixture files on whose weights additional fresh models are trained."
    )


@dataclass(frozen=True, kw_only=True)
class CaseOptions(Options):
    """The options of a search and of its verification."""

    verification: VerificationConfig


def learned_mixtures(mixture: Mixture) -> dict[str, dict[str, float]]:
    """Returns the learned weights, and what they were before they were capped."""
    found = {"learned": mixture.as_dict()}
    if mixture.free_weights is not None:
        found["learned, not capped"] = dict(zip(mixture.names, mixture.free_weights, strict=True))
    return found


def compared_mixtures(options: CaseOptions, domains: Domains) -> dict[str, dict[str, float]]:
    """Reads the mixtures that the learned one is held against, by their files' names."""
    found = {}
    for place in options.verification.compare:
        mixture = mixture_from(place)
        mixture.check(domains.trainable, domains.corpus.tokenizer_sha256, place)
        found[place] = mixture.as_dict()
    return found


def fixed_mixtures(domains: Domains) -> dict[str, dict[str, float]]:
    """Returns what the learned weights are held against: uniform, the validation's own domain."""
    shares = domains.validation_shares
    uniform = uniform_weights(domains)
    own = max(shares, key=lambda name: shares[name])
    if own not in domains.trainable:
        return {"uniform": uniform}
    return {"uniform": uniform, f"only {own}": {own: 1.0}}


def case_main(name: str, about: str, pile: Mapping[str, Any], **defaults: Any) -> None:
    """Runs a case as the command line asks.

    Args:
        name: `case1` or `case2`.
        about: The text of `--help`.
        pile: Defaults on top of the others where the data is the Pile.
        defaults: The case's own defaults of options.
    """
    run_main(
        partial(case, name),
        name,
        about,
        CaseOptions,
        pile=dict(pile),
        resumable=True,
        steps=250,
        **defaults,
    )


def case(name: str, options: CaseOptions, resume: Path | None) -> None:
    """Searches, verifies, writes and prints: the whole of Case 1 and Case 2."""
    folder = begin_run(options, name, resume)
    domains = load_domains(options)
    compared = compared_mixtures(options, domains)
    found = search(options, domains, folder, name)
    folder.write_json("metrics.json", plain(search_metrics(options, found)))
    if folder.writes:
        print(report_text(folder.path))  # the answer; the rest judges it
    paper = paper_search(name, options, domains.corpus, folder.path / LINEAR)
    mixtures = {**learned_mixtures(found.mixture), **paper, **fixed_mixtures(domains), **compared}
    cost, steps, seed = Cost(), options.search.steps, options.run.seed
    known = folder.path / "verification.json"
    losses = verify(options, domains.corpus, mixtures, steps, cost, seed, known)
    metrics = dataclasses.replace(
        search_metrics(options, found),
        verification=spent(cost),
        validation_loss_nats_per_token=losses,
    )
    folder.write_json("metrics.json", plain(metrics))
    tell(add_html_report(folder))
    if not paper:
        print(report_text(folder.path))
        return
    table = side_by_side(folder.path, losses)
    folder.write_text("side_by_side.md", table)
    print(f"\n{table}")


def paper_search(
    name: str, options: CaseOptions, corpus: TokenStore, path: Path
) -> dict[str, dict[str, float]]:
    """Runs the paper's Algorithm 1, in a folder of its own below the case's.

    Returns:
        Its weights, for a fresh model; nothing where the case itself is by linear evidence.
    """
    if options.search.evidence == "linear":
        return {}
    if not is_finished(path):
        tell("beside it the paper's Algorithm 1 (--evidence linear)")
        linear = dataclasses.replace(options.search, evidence="linear")
        run = dataclasses.replace(options.run, out=str(path))
        search_in(dataclasses.replace(options, search=linear, run=run), corpus, path, name)
    return {"learned by Algorithm 1": Mixture.from_json(path / "mixture.json").as_dict()}


def side_by_side(folder: Path, losses: Mapping[str, float]) -> str:
    """Returns what both searches found and cost as a Markdown table, the paper's first."""
    labels = {"Algorithm 1": "learned by Algorithm 1", "gradient matching": "learned"}
    places = dict(zip(labels, (folder / LINEAR, folder), strict=True))
    mixtures = {label: Mixture.from_json(path / "mixture.json") for label, path in places.items()}
    metrics = {
        label: json.loads((path / "metrics.json").read_text(encoding="utf-8"))
        for label, path in places.items()
    }
    matching = mixtures["gradient matching"].as_dict()
    rows = []
    for domain in sorted(matching, key=lambda n: -matching[n]):
        rows.append([domain, *(_with_interval(m, domain) for m in mixtures.values())])
    train = metrics["Algorithm 1"]["search"]["parts"]["train"]
    plain = train["flops"] / metrics["Algorithm 1"]["steps"]  # of one training step
    about = {
        "PSIS k-hat": lambda m: _number(m.get("guide_fit", {}).get("khat")),
        "cost, plain training steps": lambda m: f"{m['search']['flops'] / plain:.0f}",
        "seconds": lambda m: f"{m['search']['seconds']:.0f}",
    }
    rows += [[what, *(tell_(m) for m in metrics.values())] for what, tell_ in about.items()]
    rows.append(
        ["fresh model, nats per token", *(f"{losses[label]:.3f}" for label in labels.values())]
    )
    rest = ", ".join(f"{k} {v:.3f}" for k, v in losses.items() if k not in labels.values())
    return f"{markdown(['', *labels], rows)}\nFresh models on other weights: {rest}.\n"


def _number(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value or "")


def _with_interval(mixture: Mixture, domain: str) -> str:
    weight = mixture.as_dict()[domain]
    if mixture.hdi is None:
        return f"{weight:.3f}"
    low, high = mixture.hdi[mixture.names.index(domain)]
    return f"{weight:.3f} ({low:.3f} to {high:.3f})"
