"""``bydore fit``: a mixture by any method, on the same proxy and cost counter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import xarray

from bydore_pyro.baselines.problem import Fit
from bydore_pyro.baselines.regmix import fit_runs, prior_of
from bydore_pyro.baselines.runs_table import read_runs
from bydore_pyro.command_line import one_line_errors, tell
from bydore_pyro.cost import Cost
from bydore_pyro.diagnostics import jitter
from bydore_pyro.html_report import add_html_report
from bydore_pyro.methods import METHODS, MethodOptions, fit, problem_of
from bydore_pyro.options import SMOKE
from bydore_pyro.parallel import quiet_unless_main
from bydore_pyro.report import report_text
from bydore_pyro.resuming import begin_run, options_or_resumed
from bydore_pyro.run_data import load_domains
from bydore_pyro.run_folder import RunFolder, provenance
from bydore_pyro.search_results import peak_memory_megabytes, run_epochs

__all__ = ["FitConfig", "FitOptions", "fit_command"]

SMALL = {"regmix_proxies": 4, "mde_proxies": 3, "mde_candidates": 200, "regmix_draws": 500}


@dataclass(frozen=True, kw_only=True)
class FitConfig:
    """Which method is used, and whether it trains."""

    method: str = field(metadata={"help": f"One of {', '.join(METHODS)}."})
    runs: str | None = field(
        default=None,
        metadata={
            "help": "Folder of measured runs (tables of weights and losses, as RegMix or olmix "
            "write them): regmix is fitted on them and trains nothing."
        },
    )
    target: str | None = field(
        default=None, metadata={"help": "With --runs: the column of losses that is to fall."}
    )
    prior: str | None = field(
        default=None,
        metadata={
            "help": "With --runs: weights around which mixtures are simulated, a file; if not "
            "given, the Pile's token shares, or the mean of the runs for other domains."
        },
    )

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"Expected a method ({', '.join(METHODS)}), found '{self.method}'")
        if self.runs is not None and self.method != "regmix":
            raise ValueError(f"Expected --method regmix with --runs, found '{self.method}'")
        if (self.runs is None) != (self.target is None):
            raise ValueError("Expected --runs and --target together, found one of them")
        if self.prior is not None and self.runs is None:
            raise ValueError("Expected --prior with --runs, found it alone")


@dataclass(frozen=True, kw_only=True)
class FitOptions(MethodOptions):
    """All options of `bydore fit`."""

    fit: FitConfig


def fit_command(arguments: Sequence[str]) -> None:
    """Finds a mixture by --method uniform, natural, human, single, doremi, regmix, autoscale, mde
    or bydore, within a budget of FLOPs. --resume RUN goes on with a run that was stopped: finished
    proxies are not trained again."""

    name = "bydore fit"
    quiet_unless_main()
    with one_line_errors(name):
        about = fit_command.__doc__ or ""
        options, resume = options_or_resumed(arguments, name, about, FitOptions, {**SMOKE, **SMALL})
        if options.fit.runs is not None:
            _fit_on_runs(options, Path(options.fit.runs), str(options.fit.target))
            return
        folder = begin_run(options, "fit", resume)
        domains = load_domains(options)
        if resume is None:
            folder.write_config("fit", options.as_dict(), tell)
        shared = options.budget.proxy_runs
        problem = problem_of(options, domains, Path(shared) if shared else folder.path / "proxies")
        found = fit(options.fit.method, problem, options, folder.path / "search")
        epochs = run_epochs(options, domains, found.mixture)
        _write_fit(folder, options, found, problem.cost, epochs)
        if folder.writes:
            tell(add_html_report(folder))
            print(report_text(folder.path))


def _fit_on_runs(options: FitOptions, runs: Path, target: str) -> None:
    """Fits RegMix's regression to tables of finished runs; needs neither data nor proxy."""
    folder = begin_run(options, "fit", None)
    # RegMix keeps runs to fit on and runs to test on.
    split = "train" if any(runs.glob("train_mixture_*.csv")) else None
    table = read_runs(runs, split)
    prior, source = prior_of(table, options.fit.prior)
    tell(f"{len(table.runs)} runs of {len(table.domains)} domains; prior: {source}")
    found = fit_runs(table, target, prior, options.regmix)
    folder.write_config("fit", options.as_dict(), tell)
    _write_fit(folder, options, found, Cost(), None)
    tell(add_html_report(folder))
    print(report_text(folder.path))


def _write_fit(
    folder: RunFolder,
    options: FitOptions,
    found: Fit,
    cost: Cost,
    epochs: Mapping[str, float] | None,
) -> None:
    """Writes mixture, metrics and trajectory; what a search left stays in its own folder."""
    path = found.trajectory
    folder.write_text("mixture.json", found.mixture.to_json() + "\n")
    if path is not None:
        names, steps = list(found.mixture.names), np.arange(len(path))
        trajectory = xarray.Dataset(
            {"mean": (("step", "domain"), path)}, coords={"step": steps, "domain": names}
        )
        folder.write_dataset("trajectory.nc", trajectory)
    metrics = {
        "method": options.fit.method,
        "seed": options.run.seed,
        "search": cost.report(),
        "jitter_second_half": None if path is None else jitter(path[len(path) // 2 :]),
        "details": dict(found.details),
        "run_tokens": options.run_tokens,
        "run_epochs": None if epochs is None else dict(epochs),
        "peak_memory_megabytes": peak_memory_megabytes(),
        **provenance(),
    }
    folder.write_json("metrics.json", metrics)
