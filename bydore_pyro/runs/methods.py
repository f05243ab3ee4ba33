"""Every method of choosing a mixture by its name, on one problem and one cost counter."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bydore_pyro.baselines import (
    FastMixConfig,
    Fit,
    HumanConfig,
    MDEConfig,
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
from bydore_pyro.runs.answers import plain_problem
from bydore_pyro.runs.bydore import fit_bydore
from bydore_pyro.runs.options import Options
from bydore_pyro.utils import option, require_fields

__all__ = [
    "METHODS",
    "REPEATING",
    "BudgetConfig",
    "MethodOptions",
    "fit",
    "problem_of",
]

#: Methods whose proxies can repeat text as the run will.
REPEATING = ("regmix", "autoscale", "mde", "mixmin", "bydore")


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
    regmix: RegMixConfig
    mde: MDEConfig
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
    return dataclasses.replace(
        plain_problem(options, domains, runs),
        validation_sequences=options.budget.evaluation_sequences,
        budget=options.budget.budget,
        held_out=held_out,
        run_tokens=options.repeated_tokens,
    )


METHODS: dict[str, Callable[[Problem, MethodOptions, Path], Fit]] = {
    "uniform": lambda problem, options, folder: fit_uniform(problem),
    "natural": lambda problem, options, folder: fit_natural(problem),
    "unimax": lambda problem, options, folder: fit_unimax(
        problem, options.unimax, options.run_tokens
    ),
    "human": lambda problem, options, folder: fit_human(problem, options.human),
    "single": lambda problem, options, folder: fit_single(problem, options.single),
    "doremi": lambda problem, options, folder: fit_doremi(problem),
    "regmix": lambda problem, options, folder: fit_regmix(problem, options.regmix),
    "autoscale": lambda problem, options, folder: fit_autoscale(problem),
    "mde": lambda problem, options, folder: fit_mde(problem, options.mde),
    "mixmin": lambda problem, options, folder: fit_mixmin(problem),
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
