"""Every method of choosing a mixture by its name, on one problem and one cost counter."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bydore_pyro.baselines import (
    AutoScaleConfig,
    DoReMiConfig,
    FastMixConfig,
    Fit,
    HumanConfig,
    MDEConfig,
    MixMinConfig,
    Problem,
    RegMixConfig,
    SingleConfig,
    UniMaxConfig,
    fit_autoscale,
    fit_doremi,
    fit_fastmix,
    fit_human,
    fit_mde,
    fit_mixmin,
    fit_natural,
    fit_regmix,
    fit_single,
    fit_uniform,
    fit_unimax,
)
from bydore_pyro.data import Domains
from bydore_pyro.runs.inputs import language_model, largest_weights
from bydore_pyro.runs.options import Options
from bydore_pyro.runs.results import reached
from bydore_pyro.runs.run import search_in
from bydore_pyro.utils import option, require_fields

__all__ = [
    "METHODS",
    "REPEATING",
    "BudgetConfig",
    "MethodOptions",
    "fit",
    "fit_bydore",
    "problem_of",
]

#: Methods whose proxies can repeat text as the run will.
REPEATING = ("regmix", "autoscale", "mde", "mixmin")


@dataclass(frozen=True, kw_only=True)
class BudgetConfig:
    """How much a method may spend, and where finished proxies lie."""

    budget: float = option(
        8.0,
        "Maximum FLOPs of a method, in units of one plain training of the proxy, of --tokens or "
        "--steps. Every method shortens the trainings of its proxies to stay within it.",
        above=0,
        most=1e6,
    )
    proxy_runs: str | None = option(
        None, "Folder of finished proxies, which methods share. Default: a folder in --out."
    )
    evaluation_sequences: int = option(
        64,
        "Maximum number of held-out sequences per domain on which a finished proxy is evaluated.",
        least=16,
    )
    proxies_repeat: bool = option(
        False,
        f"Proxies of {', '.join(REPEATING)} repeat text as often as a run of --target_tokens "
        "will. For this, each domain is cut to its size x the proxy's tokens / the run's tokens, "
        "in whole documents drawn by --seed.",
    )

    def __post_init__(self) -> None:
        require_fields(self)


@dataclass(frozen=True, kw_only=True)
class MethodOptions(Options):
    """The options of a search and of every other method."""

    budget: BudgetConfig
    single: SingleConfig
    human: HumanConfig
    doremi: DoReMiConfig
    regmix: RegMixConfig
    autoscale: AutoScaleConfig
    mde: MDEConfig
    mixmin: MixMinConfig
    fastmix: FastMixConfig
    unimax: UniMaxConfig

    @property
    def repeated_tokens(self) -> float | None:
        """Length of the run that proxies repeat text like, in tokens; None where they do not.

        Raises:
            ValueError: When it is not told.
        """
        if not self.budget.proxies_repeat:
            return None
        if self.run.target_tokens is None:
            raise ValueError("Expected --target_tokens with proxies_repeat, found none")
        return self.run_tokens


def problem_of(
    options: MethodOptions, domains: Domains, runs: Path, held_out: tuple[str, ...] = ()
) -> Problem:
    """Returns the problem that options pose.

    Args:
        options: Data, proxy, lengths, budget.
        domains: Their domains and validation set.
        runs: Folder of finished proxies.
        held_out: Domains on whose held-out text proxies are evaluated, beside the target's.
    """
    corpus = domains.corpus
    return Problem(
        corpus=corpus,
        names=domains.names,
        target=domains.validation_shares,
        build=lambda seed: language_model(options, corpus.vocabulary, seed),
        proxy=options.proxy,
        steps=options.search.steps,
        batch_sequences=options.search.batch_sequences,
        sequence_length=options.run.sequence_length,
        validation_sequences=options.budget.evaluation_sequences,
        seed=options.run.seed,
        budget=options.budget.budget,
        runs=runs,
        most=largest_weights(options, domains),
        held_out=held_out,
        run_tokens=options.repeated_tokens,
    )


def bydore_steps(problem: Problem, options: Options) -> int:
    """Returns how many steps of the search the budget allows, at least 2.

    Raises:
        DataError: When it does not reach for one.
    """
    search = options.search
    if search.evidence == "matching":
        return _matching_steps(problem, options)
    measured = search.signal_sequences * min(len(problem.names), search.signal_domains)
    # A Jacobian-vector product costs about three forward passes; a finite difference takes two.
    passes = 3 if search.hypergradient == "forward_mode" else 2
    update = (search.validation_batch + passes * measured / 3) / search.batch_sequences
    step = 1 + update / search.update_every  # in training steps
    return max(2, problem.steps_for("bydore", step, -step * problem.evaluation_steps()))


def _matching_steps(problem: Problem, options: Options) -> int:
    """The options' steps, or as many as the budget allows beside the rounds' measurements."""
    search, domains = options.search, len(problem.names)
    sequences = domains * search.sequences_of_round(domains) + options.run.validation_sequences
    checked = 2 / 3 * domains * search.check_sequences  # two forward passes
    measured = (search.rounds * sequences + checked) / search.batch_sequences
    share = search.train_share
    most = problem.steps_for("bydore", share, measured - share * problem.evaluation_steps())
    return max(search.rounds, math.ceil(search.rounds / share), min(search.steps, most))


def fit_bydore(problem: Problem, options: Options, folder: Path) -> Fit:
    """Searches the posterior, within the budget; the run stays in `folder` and is continued.

    Raises:
        DataError: When the budget does not reach.
        NonFiniteError: See `bydore_pyro.search.search.search_step`.
    """
    steps = bydore_steps(problem, options)
    warmup = min(options.search.guide_warmup, steps - 1)
    search = dataclasses.replace(options.search, steps=steps, guide_warmup=warmup)
    run = dataclasses.replace(options.run, out=str(folder), tokens=None)
    varied = dataclasses.replace(options, search=search, run=run)
    found = search_in(varied, problem.corpus, folder, "bydore")
    problem.cost.add(found.state.proxy.cost.report()["parts"])
    means = np.stack([record.mean for record in found.state.records])
    details = {"steps": steps, **reached(found.state)}
    return Fit(mixture=found.mixture, trajectory=means, details=details)


METHODS: dict[str, Callable[[Problem, MethodOptions, Path], Fit]] = {
    "uniform": lambda problem, options, folder: fit_uniform(problem),
    "natural": lambda problem, options, folder: fit_natural(problem),
    "unimax": lambda problem, options, folder: fit_unimax(
        problem, options.unimax, options.run_tokens
    ),
    "human": lambda problem, options, folder: fit_human(problem, options.human),
    "single": lambda problem, options, folder: fit_single(problem, options.single),
    "doremi": lambda problem, options, folder: fit_doremi(problem, options.doremi),
    "regmix": lambda problem, options, folder: fit_regmix(problem, options.regmix),
    "autoscale": lambda problem, options, folder: fit_autoscale(problem, options.autoscale),
    "mde": lambda problem, options, folder: fit_mde(problem, options.mde),
    "mixmin": lambda problem, options, folder: fit_mixmin(problem, options.mixmin),
    "fastmix": lambda problem, options, folder: fit_fastmix(problem, options.fastmix),
    "bydore": fit_bydore,
}


def fit(method: str, problem: Problem, options: MethodOptions, folder: Path) -> Fit:
    """Finds a mixture by the method of that name, capped where the problem asks for it.

    Args:
        method: One of `METHODS`.
        problem: Data, target, proxy, budget and caps; its cost counter is charged.
        options: The method's own settings.
        folder: Where a search leaves its run.

    Raises:
        ValueError: When there is no such method.
        DataError: When the budget does not reach, or the data is not what the method needs.
        NonFiniteError: When a loss is NaN or infinite.
    """
    if method not in METHODS:
        raise ValueError(f"Expected a method ({', '.join(METHODS)}), found '{method}'")
    found = METHODS[method](problem, options, folder)
    # A search has capped its own.
    if problem.most is None or found.mixture.free_weights is not None:
        return found
    return dataclasses.replace(found, mixture=found.mixture.capped(problem.most))
