"""The whole of Case 1 and Case 2: search, verification by fresh models, report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from common import run_main, verify
from paper_scale import PAPER, ScaleConfig, paper_case

from bydore_pyro.command_line import tell
from bydore_pyro.cost import Cost
from bydore_pyro.domains import Domains
from bydore_pyro.html_report import add_html_report
from bydore_pyro.mixture import Mixture
from bydore_pyro.options import Options
from bydore_pyro.report import report_text
from bydore_pyro.resuming import begin_run
from bydore_pyro.run import search
from bydore_pyro.run_data import load_domains, uniform_weights
from bydore_pyro.search_results import search_metrics
from bydore_pyro.weights_files import mixture_from


@dataclass(frozen=True, kw_only=True)
class VerificationConfig:
    """What the learned weights are held against, beside uniform ones and the validation's own."""

    compare: list[str] = field(
        default_factory=list,
        metadata={"help": "Mixture files on whose weights fresh models are trained too."},
    )


@dataclass(frozen=True, kw_only=True)
class CaseOptions(Options):
    """The options of a search and of its verification."""

    verification: VerificationConfig
    scale: ScaleConfig


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
        presets={"--scale=paper": PAPER},
        resumable=True,
        steps=250,
        **defaults,
    )


def case(name: str, options: CaseOptions, resume: Path | None) -> None:
    """Searches, verifies, writes and prints: the whole of Case 1 and Case 2."""
    if options.scale.scale == "paper":
        paper_case(name, options, options.scale, resume)
        return
    folder = begin_run(options, name, resume)
    domains = load_domains(options)
    compared = compared_mixtures(options, domains)
    found = search(options, domains, folder, name)
    mixtures = {**learned_mixtures(found.mixture), **fixed_mixtures(domains), **compared}
    cost, steps, seed = Cost(), len(found.state.records), options.run.seed
    known = folder.path / "verification.json"
    losses = verify(options, domains.corpus, mixtures, steps, cost, seed, known)
    metrics = {
        **search_metrics(options, found),
        "verification": cost.report(),
        "validation_loss_nats_per_token": losses,
    }
    folder.write_json("metrics.json", metrics)
    tell(add_html_report(folder))
    print(report_text(folder.path))
