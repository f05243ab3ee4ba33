"""Every method of choosing a mixture by its name, on one problem and one cost counter."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bydore_pyro import data, measure, methods, search, setup, trials
from bydore_pyro.command_line import Checked, option

SEARCH_SHARE = 0.65  # of ByDoRe's budget is for the search where trials are paid from it too
#: Methods whose proxies can repeat text as the run will.
REPEATING = ("regmix", "d_optimal", "autoscale", "mde", "mixmin", "bydore")


@dataclass(frozen=True, kw_only=True)
class BudgetConfig(Checked):
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
    proxies_repeat: bool = option(
        False,
        f"Proxies of {', '.join(REPEATING)} repeat text as often as a run of --target_tokens "
        "will. For this, each domain is cut to its size x the proxy's tokens / the run's tokens, "
        "in whole documents drawn by --seed.",
    )


@dataclass(frozen=True, kw_only=True)
class MethodOptions(setup.Options):
    """The options of a search and of every other method."""

    budget: BudgetConfig
    fixed: methods.FixedConfig
    regmix: methods.RegMixConfig
    design: methods.DOptimalConfig
    mde: methods.MDEConfig

    @property
    def repeated_tokens(self) -> float | None:
        """Length in tokens of the run that proxies repeat text like; None if they do not.

        Raises:
            ValueError: Without `--target_tokens`.
        """
        if not self.budget.proxies_repeat:
            return None
        if self.question.target_tokens is None:
            raise ValueError("Expected --target_tokens with proxies_repeat, found none")
        return self.run_tokens


def problem_of(options: MethodOptions, domains: data.Domains, runs: Path) -> trials.Problem:
    """Returns the problem that options pose. Its finished proxies lie in the folder `runs`; they
    are evaluated on the validation set, all of which a search reads too."""
    question = setup.question_of(options, domains)
    return dataclasses.replace(
        search.plain_problem(options, domains, runs),
        budget=options.budget.budget,
        most=question.most,
        least=question.least,
        run_tokens=options.repeated_tokens,
    )


def bydore_steps(problem: trials.Problem, options: setup.Options) -> int:
    """Returns how many steps of the search the budget allows, at least 2.

    Raises:
        DataError: When it does not reach for one.
    """
    config, linear, domains = options.search, options.linear, len(problem.names)
    if options.run.evidence == "matching":  # its own steps, or as many as the budget leaves
        part = SEARCH_SHARE if config.trials else 1.0
        sequences = domains * config.sequences_of_round(domains) + options.run.validation_sequences
        checked = 2 / 3 * domains * config.sequences_of_check(domains)  # two forward passes
        read = domains * measure.READ / 3  # one forward pass
        measured = (config.rounds * (sequences + read) + checked) / config.batch_sequences
        count = config.number_of_branches(domains)
        if count:  # one forward pass of all that is read, in each branch and before
            texts = domains * config.sequences_of_branches(domains)
            texts += options.run.validation_sequences
            measured += (count + 1) * texts / (3 * config.batch_sequences)
        # Branches are as long as they are asked to be, or shares of the search's own steps.
        most = _searched(problem, measured, part, 1 + count * measure.MOST_OF_STEPS)
        if most * measure.MOST_OF_STEPS > config.branch_steps:
            most = _searched(problem, measured + count * config.branch_steps, part, 1.0)
        return max(2 ** (config.rounds - 1), min(config.steps, most))
    measured = linear.signal_sequences * min(domains, linear.signal_domains)
    update = linear.validation_batch + 2 / 3 * measured  # a finite difference: two forward passes
    step = 1 + update / config.batch_sequences  # in training steps
    return max(2, problem.steps_for("bydore", step, -step * problem.evaluation_steps()))


def _searched(problem: trials.Problem, other: float, part: float, each: float) -> int:
    """Returns the steps of a search within a part of the budget, of which each costs so much and
    whose measurements cost so many more; no proxy of it is evaluated."""
    return problem.steps_for(
        "bydore", each / part, (other - each * problem.evaluation_steps()) / part
    )


def fit_bydore(problem: trials.Problem, options: setup.Options, folder: Path) -> methods.Fit:
    """Searches the posterior within the budget, with the trials that the options ask for, in
    `folder`; continues a run that is there.

    Raises:
        DataError: When the budget does not reach, or see `trials.Problem.text_for`.
    """
    plan, count = None, options.search.trials
    if options.run.evidence == "matching" and count:
        runs = count / (1 - SEARCH_SHARE)
        tried = problem.read_on_all()
        plan = search.TrialPlan(tried, count, min(problem.steps, tried.steps_for("bydore", runs)))
        problem.text_for(plan.steps)  # refused before the search, not after it
    steps = bydore_steps(problem, options)
    warmup = min(options.linear.guide_warmup, steps - 1)
    varied = dataclasses.replace(
        options,
        search=dataclasses.replace(options.search, steps=steps),
        linear=dataclasses.replace(options.linear, guide_warmup=warmup),
        run=dataclasses.replace(options.run, out=str(folder), tokens=None),
    )
    found = search.search_in(varied, problem.corpus, folder, "bydore", plan)
    problem.cost.add(found.proxy.cost.report()["parts"])
    parts = (part.name for part in dataclasses.fields(setup.MethodDetails))
    details = setup.MethodDetails(**{part: getattr(found.metrics, part) for part in parts})
    draws = found.answer.draws.numpy() if found.answer.sites else None
    return methods.Fit(mixture=found.mixture, trajectory=found.path, details=details, draws=draws)


METHODS: dict[str, Callable[[trials.Problem, MethodOptions, Path], methods.Fit]] = {
    "uniform": lambda problem, options, folder: methods.fit_uniform(problem),
    "natural": lambda problem, options, folder: methods.fit_natural(problem),
    "unimax": lambda problem, options, folder: methods.fit_unimax(
        problem, options.fixed, options.run_tokens
    ),
    "human": lambda problem, options, folder: methods.fit_human(problem, options.fixed),
    "single": lambda problem, options, folder: methods.fit_single(problem, options.fixed),
    "doremi": lambda problem, options, folder: methods.fit_doremi(problem),
    "regmix": lambda problem, options, folder: methods.fit_regmix(problem, options.regmix),
    "d_optimal": lambda problem, options, folder: methods.fit_d_optimal(problem, options.design),
    "autoscale": lambda problem, options, folder: methods.fit_autoscale(problem),
    "mde": lambda problem, options, folder: methods.fit_mde(problem, options.mde),
    "mixmin": lambda problem, options, folder: methods.fit_mixmin(problem),
    "bydore": fit_bydore,
}


def fit(method: str, problem: trials.Problem, options: MethodOptions, folder: Path) -> methods.Fit:
    """Finds a mixture by the method of that name, within the bounds of the problem.

    Args:
        method: One of `METHODS`.
        problem: Data, target, proxy, budget and caps; its cost counter is charged.
        options: The method's own settings.
        folder: Where a search leaves its run.

    Raises:
        DataError: When the budget does not reach, or the data is not what the method needs.
        NonFiniteError: When a loss is NaN or infinite.
    """
    found = METHODS[method](problem, options, folder)
    # A search keeps bounds itself, of pools too.
    if method == "bydore" or (problem.most is None and not problem.least):
        return found
    bounded = found.mixture.capped(problem.most or {}, problem.least)
    return dataclasses.replace(found, mixture=bounded)
