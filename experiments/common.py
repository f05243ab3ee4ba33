"""What the experiments share: verification by fresh models, and the whole of a case."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from paper_scale import PAPER, ScaleConfig, paper_case
from tqdm import tqdm

from bydore_pyro.command_line import one_line_errors, parse_options, resumed_run
from bydore_pyro.cost import Cost
from bydore_pyro.data.store import TokenStore
from bydore_pyro.diagnostics import jitter
from bydore_pyro.domains import Domains
from bydore_pyro.errors import NonFiniteError
from bydore_pyro.files import appearing_file
from bydore_pyro.html_report import add_html_report
from bydore_pyro.mixture import Mixture
from bydore_pyro.options import SMOKE, Options
from bydore_pyro.parallel import number_of_processes
from bydore_pyro.proxy import Proxy
from bydore_pyro.report import report_text
from bydore_pyro.run import (
    Found,
    begin_run,
    domains_of,
    load_domains,
    resumed_options,
    search,
    search_in,
    search_metrics,
    tell,
    uniform_weights,
)
from bydore_pyro.run_folder import RunFolder
from bydore_pyro.verification import train_on_mixture
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


def run_main(
    experiment: Callable[..., None],
    name: str,
    about: str,
    kind: type = Options,
    pile: dict[str, Any] | None = None,
    resumable: bool = False,
    **defaults: Any,
) -> None:
    """Parses the command line and runs an experiment; what a user can mend ends with exit code 2.

    Args:
        experiment: Takes the options; a resumable one also the folder of the run that it is to go
            on with, or None.
        name: The experiment's name, also that of its run folder.
        about: The text of `--help`.
        kind: The class of the options: a dataclass whose fields are dataclasses of options.
        pile: Its defaults on top of those where the data is the Pile.
        resumable: Whether it takes `--resume RUN`.
        defaults: The experiment's own defaults of options.
    """
    arguments = sys.argv[1:]
    if any(value.startswith(("pile:", "--data=pile:")) for value in arguments):
        defaults |= pile or {}
    if kind is CaseOptions and {"paper", "--scale=paper"} & set(arguments):
        defaults |= PAPER
    with one_line_errors(name):
        if number_of_processes() > 1:
            raise ValueError("Expected one process, found several; bydore search runs on them")
        if resumable:
            about += " --resume RUN goes on with a run that was stopped."
            resume = resumed_run(arguments)
            if resume is not None:
                experiment(resumed_options(resume, kind), resume)
                return
        options: Any = parse_options(
            arguments, name, about, kind, defaults, {"--smoke": {**SMOKE, "vectors": 4}}
        )
        if isinstance(options, Options):
            options = options.resolved()
        experiment(options, None) if resumable else experiment(options)


def verify(
    options: Options,
    corpus: TokenStore,
    mixtures: dict[str, dict[str, float]],
    steps: int,
    cost: Cost,
    seed: int,
    known: Path | None = None,
) -> dict[str, float]:
    """Trains a fresh model on each mixture, all from the same start, with the search's tokens.

    The step size falls linearly to zero over the run. Neither the initial weights nor the batches
    of a seed are those of a search with the same seed.

    Args:
        options: Model, batches, validation set.
        corpus: The tokens.
        mixtures: Weights by label.
        steps: Of each model.
        cost: Counts what the models spend.
        seed: Of models and batches.
        known: A JSON file of losses that are known already, and where new ones are noted.

    Returns:
        The validation loss, nats per token, by the mixture's label.
    """
    losses = {}
    noted = json.loads(known.read_text("utf-8")) if known is not None and known.exists() else {}
    seed += 1_000_003
    for label, weights in mixtures.items():
        if noted.get(label, {}).get("weights") == weights:
            losses[label] = noted[label]["loss"]
            continue
        domains = domains_of(options, corpus, seed)
        # A constant step size would leave the last losses noisier than the mixtures differ.
        model = options.language_model(corpus.vocabulary, seed)
        proxy = Proxy(model, options.proxy, decay_steps=steps)
        training = train_on_mixture(
            domains, proxy, weights, steps, options.search.batch_sequences, seed=seed
        )
        bar = tqdm(training, total=steps, desc=f"verify: {label}", unit="step", mininterval=0.5)
        for loss in bar:
            bar.set_postfix_str(f"training {loss:.3f}", refresh=False)
        with proxy.cost.part("evaluate"):
            losses[label] = proxy.evaluate(domains.validation, "evaluate")
        if not math.isfinite(losses[label]):
            raise NonFiniteError(
                f"The validation loss of a fresh model on {label} weights is {losses[label]}; "
                "a smaller --learning_rate may help"
            )
        for part in ("train", "evaluate"):
            cost.count(f"verify_{part}", proxy.cost.tokens[part], proxy.cost.flops[part])
            cost.seconds[f"verify_{part}"] += proxy.cost.seconds[part]
        if known is not None:
            noted[label] = {"weights": weights, "loss": losses[label]}
            with appearing_file(known) as aside:
                aside.write_text(json.dumps(noted), encoding="utf-8")
    return losses


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
    finish(folder, options, found, losses, cost)
    tell(add_html_report(folder))
    print(report_text(folder.path))


def finish(
    folder: RunFolder, options: Options, found: Found, losses: dict[str, float], cost: Cost
) -> dict[str, Any]:
    """Writes and returns `metrics.json`: what the run cost and what it reached."""
    metrics = {
        **search_metrics(options, found),
        "verification": cost.report(),
        "validation_loss_nats_per_token": losses,
    }
    folder.write_json("metrics.json", metrics)
    return metrics


def run_variants(
    options: Options, resume: Path | None, name: str, option: str, values: Sequence[str]
) -> tuple[RunFolder, dict[str, dict[str, Any]]]:
    """Runs a search for each value of one of its options, each in a folder of its own.

    Returns:
        The folder of all of them, and by value: weights, jitter, the validation losses of the
        steps, and that of the whole validation set at the end; losses in nats per token. Searches
        that were finished before are not run again.
    """
    folder = begin_run(options, name, resume)
    if resume is None:
        folder.write_config(name, options.as_dict(), tell)
    results = {}
    for value in values:
        noted = folder.path / value / "variant.json"
        if not noted.exists():
            config: Any = {option: value}
            varied = dataclasses.replace(
                options, search=dataclasses.replace(options.search, **config)
            )
            found = search_in(varied, folder.path / value, name)
            folder.write_json(f"{value}/variant.json", variant_results(found))
        results[value] = json.loads(noted.read_text(encoding="utf-8"))
    return folder, results


def variant_results(found: Found) -> dict[str, Any]:
    """Returns what `run_variants` tells of one search."""
    state = found.state
    means = np.stack([record.mean for record in state.records])
    return {
        "weights": found.mixture.as_dict(),
        "jitter": jitter(means),
        "jitter_second_half": jitter(means[len(means) // 2 :]),
        "validation_losses": [record.validation_loss for record in state.records],
        "validation_loss_of_the_proxy": state.proxy.evaluate(state.domains.validation, "evaluate"),
    }


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
