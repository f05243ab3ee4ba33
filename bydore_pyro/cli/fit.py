"""``bydore fit``: a mixture by any method, on the same proxy and cost counter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import xarray

from bydore_pyro.analysis import jitter
from bydore_pyro.baselines import (
    ALL,
    Fit,
    fit_table_of_runs,
    metric_shares,
    next_rows,
    prior_of,
    read_runs,
)
from bydore_pyro.cli.fit_tables import DEFAULT_DATA, caps_of, domain_tokens
from bydore_pyro.proxy import Cost
from bydore_pyro.report import add_html_report, report_text
from bydore_pyro.runs import (
    METHODS,
    REPEATING,
    SMOKE,
    MethodOptions,
    Metrics,
    begin_run,
    fit,
    load_domains,
    options_or_resumed,
    peak_memory_megabytes,
    plain,
    problem_of,
    run_epochs,
    spent,
)
from bydore_pyro.utils import (
    RunFolder,
    one_line_errors,
    option,
    provenance,
    require_fields,
    tell,
)

__all__ = ["COMMON", "MORE", "FitConfig", "FitOptions", "fit_command"]

# What `--help` lists, and what `--help-all` adds; all other settings stand in a file.
COMMON = (
    *("method", "data", "validation", "proxy", "tokens", "budget", "runs", "target", "out"),
    "smoke",
)
MORE = (
    *("domains", "target_tokens", "max_epochs", "device", "seed", "steps", "batch_sequences"),
    *("sequence_length", "evidence", "trials", "learning_rate", "precision", "domain_megabytes"),
    *("text_column", "domain_column", "on_error", "tokenizer", "vocabulary", "cache"),
    *("checkpoint_every", "proxy_runs", "prior", "predict", "scale_up", "few_runs"),
    *("domain_tokens", "single", "human", "regmix_proxies", "adaptive", "regmix_regression"),
    *("regmix_kl", "regmix_draws", "mde_proxies", "unimax_epochs"),
)

NEXT = "next_mixtures.csv"
CHAINS = 4  # that independent draws are written as, because ArviZ compares chains
SMALL = {
    "regmix_proxies": 4,
    "mde_proxies": 3,
    "mde_candidates": 200,
    "regmix_draws": 500,
    "budget": 12.0,  # measuring costs as much as 6 such short trainings
}


@dataclass(frozen=True, kw_only=True)
class FitConfig:
    """Which method is used, and whether it trains.

    Raises:
        ValueError: When an option is out of its range, the method is unknown, or options are
            given that do not go together.
    """

    method: str = option(MISSING, f"One of {', '.join(METHODS)}.")
    runs: str | None = option(
        None,
        "Folder of tables with the weights and losses of finished runs, in RegMix's or olmix's "
        "format, or one CSV file of both. regmix is fitted to them, and nothing is trained.",
    )
    target: list[str] | None = option(
        None,
        "With --runs: what to minimise. Either the mean of metrics, given by name (* matches "
        "anything) and weighted by NAME=WEIGHT; or a file of such weights; or 'all': every metric "
        "of the table, each with a row of its own.",
    )
    prior: str | None = option(
        None,
        "With --runs: file of the weights around which mixtures are simulated and with which "
        "the intervals are compared. Default: the shares of --domain_tokens or --data; "
        "otherwise the Pile's token shares, or for other domains the mean of the runs.",
    )
    predict: str | None = option(
        None,
        "With --runs: CSV file of mixtures, one per row, to score and rank, with intervals.",
    )
    scale_up: str | None = option(
        None,
        "With --runs: table of a few runs of a larger model, to which the predictions are "
        "calibrated.",
    )
    few_runs: bool = option(
        False,
        "With --runs: accept fewer runs than domains, with a warning that is saved in the result.",
    )
    domain_tokens: str | None = option(
        None,
        "With --runs: file of the number of tokens in each domain (in a format of weights), for"
        " --max_epochs. Default: those of --data.",
    )

    def __post_init__(self) -> None:
        require_fields(self)
        if self.method not in METHODS:
            raise ValueError(f"Expected a method ({', '.join(METHODS)}), found '{self.method}'")
        if self.runs is not None and self.method != "regmix":
            raise ValueError(f"Expected --method regmix with --runs, found '{self.method}'")
        if (self.runs is None) != (not self.target):
            raise ValueError("Expected --runs and --target together, found one of them")
        for name in ("prior", "predict", "scale_up", "few_runs", "domain_tokens"):
            if getattr(self, name) and self.runs is None:
                raise ValueError(f"Expected --{name} with --runs, found it without")


@dataclass(frozen=True, kw_only=True)
class FitOptions(MethodOptions):
    """All options of `bydore fit`.

    Raises:
        ValueError: When several lengths are given, or `adaptive` with a method other than RegMix.
    """

    fit: FitConfig

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.run_lengths) > 1:
            raise ValueError(f"Expected one --target_tokens, found {len(self.run_lengths)}")
        if self.regmix.adaptive and self.fit.method != "regmix":
            raise ValueError(f"Expected --method regmix with --adaptive, found '{self.fit.method}'")


@one_line_errors("bydore fit")
def fit_command(arguments: Sequence[str]) -> None:
    """Finds a mixture by any method, within a budget of FLOPs. With --runs, RegMix is
    fitted to a table of finished runs, and nothing is trained. --resume RUN continues a run that
    was stopped; finished proxies are not trained again."""
    about = fit_command.__doc__ or ""
    options, resume = options_or_resumed(
        arguments, "bydore fit", about, FitOptions, {**SMOKE, **SMALL}, COMMON, MORE
    )
    _check_repeating(options)
    if options.fit.runs is not None:
        _fit_on_runs(options, Path(options.fit.runs))
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
        if "adaptive" in found.details:
            tell(found.details["adaptive"]["told"])
        tell(add_html_report(folder))
        print(report_text(folder.path))


def _check_repeating(options: FitOptions) -> None:
    """Proxies repeat text only where the method trains some and takes the option."""
    asked = options.fit
    if options.repeated_tokens is None or (asked.method in REPEATING and asked.runs is None):
        return
    found = f"'{asked.method}'" if asked.runs is None else "--runs"
    raise ValueError(
        f"Expected proxies_repeat with a method that trains proxies here ({', '.join(REPEATING)}), "
        f"found {found}"
    )


def _fit_on_runs(options: FitOptions, runs: Path) -> None:
    """Fits RegMix's regression to tables of finished runs; trains nothing."""
    folder, asked = begin_run(options, "fit", None), options.fit
    # RegMix keeps runs to fit on and runs to test on.
    split = "train" if any(runs.glob("train_mixture_*.csv")) else None
    table = read_runs(runs, split)
    metrics = metric_shares(table, asked.target or [])
    tokens = domain_tokens(options, asked.domain_tokens, table)
    caps = None if tokens is None else caps_of(options, tokens)
    if tokens is not None and asked.prior is None:
        prior, source = tokens / tokens.sum(), "the shares of the domains' tokens"
    else:
        prior, source = prior_of(table, asked.prior)
    tell(f"{len(table.runs)} runs of {len(table.domains)} domains; prior: {source}")
    config = options.regmix
    found = fit_table_of_runs(
        *(table, metrics, prior, config),
        caps=caps,
        few_runs=asked.few_runs,
        predict=asked.predict,
        scale_up_to=asked.scale_up,
        each=asked.target == [ALL],
    )
    for note in found.mixture.notes:
        tell(f"bydore fit: warning: {note}")
    epochs = None
    if tokens is not None and options.run.target_tokens is not None:
        length, held = options.run_tokens, dict(zip(table.domains, tokens, strict=True))
        epochs = {
            n: float(w * length / held[n]) for n, w in found.mixture.as_dict().items() if held[n]
        }
    _write_fit(folder, options, found, Cost(), epochs, fitted_to="runs")
    used = ("regmix_regression", "regmix_draws", "regmix_kl", "adaptive")
    settings: dict[str, dict[str, Any]] = {"fit": vars(asked), "run": _used_of_run(options)}
    settings["regmix"] = {name: getattr(config, name) for name in used}
    folder.write_config("fit", settings, tell)  # from now on the folder counts as a run
    if "adaptive" in found.details:
        ahead = found.details["adaptive"]
        folder.write_text(NEXT, next_rows(table, np.array(ahead["weights"])))
        tell(f"{ahead['told']}. What to train next: {folder.path / NEXT}")
    tell(add_html_report(folder))
    print(report_text(folder.path))


def _used_of_run(options: FitOptions) -> dict[str, Any]:
    """Returns those options of a run that matter to a fit on finished runs, as far as given."""
    run = options.run
    used: dict[str, Any] = {"max_epochs": run.max_epochs, "target_tokens": run.target_tokens}
    return used | ({} if run.data == DEFAULT_DATA else {"data": run.data})


def _write_fit(
    folder: RunFolder,
    options: FitOptions,
    found: Fit,
    cost: Cost,
    epochs: Mapping[str, float] | None,
    fitted_to: str = "text",
) -> None:
    """Writes mixture, metrics, trajectory, draws; what a search left stays in its own folder."""
    path = found.trajectory
    folder.write_text("mixture.json", found.mixture.to_json() + "\n")
    if path is not None:
        names, steps = list(found.mixture.names), np.arange(len(path))
        trajectory = xarray.Dataset(
            {"mean": (("step", "domain"), path)}, coords={"step": steps, "domain": names}
        )
        folder.write_dataset("trajectory.nc", trajectory)
    if found.draws is not None:
        chains = found.draws.reshape(CHAINS, -1, found.draws.shape[1])
        coordinates = {"domain": list(found.mixture.names)}
        import arviz

        posterior = arviz.from_dict({"w": chains}, dims={"w": ["domain"]}, coords=coordinates)
        folder.write_posterior("posterior.nc", posterior)
    on_text = fitted_to == "text"
    metrics = Metrics(
        method=options.fit.method,
        seed=options.run.seed,
        search=spent(cost),
        jitter_second_half=None if path is None else jitter(path[len(path) // 2 :]),
        details=found.details,
        run_tokens=options.run_tokens if on_text or options.run.target_tokens else None,
        run_epochs=epochs or {},
        peak_memory_megabytes=peak_memory_megabytes(),
        **provenance(() if on_text else ("scikit-learn", "lightgbm", "botorch")),
    )
    if rows := found.details.get("predictions"):
        table = pandas.DataFrame(rows).to_csv(index=False, lineterminator="\n")
        folder.write_text("predictions.csv", table)
    folder.write_json("metrics.json", plain(metrics))
