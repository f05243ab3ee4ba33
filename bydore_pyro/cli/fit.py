"""``bydore fit``: a mixture by any method, on the same proxy and cost counter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from bydore_pyro import core, data, files, methods, mixture, proxy, report, setup, tables, terminal
from bydore_pyro.command_line import Checked, one_line_errors, option, resume_command, warn_idle
from bydore_pyro.errors import DataError
from bydore_pyro.fit import METHODS, REPEATING, MethodOptions, fit, problem_of

# What `--help` lists; `--help-all` adds the rest.
COMMON = (
    *("method", "data", "validation", "proxy", "tokens", "budget", "runs", "target", "out"),
    "smoke",
)

OF_TABLES = ("bydore", "regmix")  # methods that take finished runs
IDLE = ("data", "domains", "proxy")  # beside --runs
SMALL = {
    "regmix_proxies": 4,
    "d_optimal_runs": 4,
    "mde_proxies": 3,
    "mde_candidates": 200,
    "regmix_draws": 500,
    "budget": 12.0,  # measuring costs as much as 6 such short trainings
}


@dataclass(frozen=True, kw_only=True)
class FitConfig(Checked):
    """Which method is used, and whether it trains.

    Raises:
        ValueError: When an option is out of its range, the method is unknown, or options are
            given that do not go together.
    """

    method: str | None = option(
        None,
        f"One of {', '.join(METHODS)}. With --runs one of {', '.join(OF_TABLES)}: our law of "
        "losses (default), or RegMix's trees and simulated optimum.",
    )
    runs: str | None = option(
        None,
        "Folder of tables with the weights and losses of finished runs, in RegMix's or olmix's "
        "format, or one CSV file of both. Their losses are fitted, and nothing is trained.",
    )
    target: list[str] | None = option(
        None,
        "With --runs: what to optimise. Either the mean of metrics, given by name (* matches "
        "anything) and weighted by NAME=WEIGHT; or 'all': every metric of the table.",
    )
    maximize: list[str] | None = option(
        None,
        "With --runs: metrics that are better when higher, by name (* matches anything).",
    )
    minimize: list[str] | None = option(
        None,
        "With --runs: metrics that are better when lower. Each metric needs one of the two, but "
        "for positive ones that are called loss, nll, bpb, perplexity or the like.",
    )
    prior: str | None = option(
        None,
        "With --runs: file of the weights with which the answer is compared, and around which "
        "RegMix simulates mixtures. Default: the shares of --domain_tokens; otherwise the Pile's "
        "token shares, or for other domains the mean of the runs.",
    )
    scale_up: str | None = option(
        None,
        "With --runs: finished runs of a smaller model, on the same domains and metrics, which "
        "show what a domain is worth for a metric. Few runs of the larger model are then enough.",
    )
    predict: str | None = option(
        None, "With --runs: CSV file of mixtures, one per row, to score and rank, with intervals."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.runs is None and self.method not in METHODS:
            found = "none" if self.method is None else f"'{self.method}'"
            raise ValueError(f"Expected a method ({', '.join(METHODS)}), found {found}")
        if self.runs is not None and self.method not in (None, *OF_TABLES):
            raise ValueError(
                f"Expected --method {', '.join(OF_TABLES)} or none with --runs, found "
                f"'{self.method}'"
            )
        if (self.runs is None) != (not self.target):
            raise ValueError("Expected --runs and --target together, found one of them")
        if self.scale_up and self.method == "regmix":
            raise ValueError("Expected --method bydore with --scale_up, found regmix")
        for name in ("maximize", "minimize", "prior", "predict", "scale_up"):
            if getattr(self, name) and self.runs is None:
                raise ValueError(f"Expected --{name} with --runs, found it without")


@dataclass(frozen=True, kw_only=True)
class FitOptions(MethodOptions):
    """All options of `bydore fit`.

    Raises:
        ValueError: When proxies are to repeat text where the method trains none or cannot, weights
            of a fit to finished runs are to be bounded, or another method is asked for more than
            the mean.
    """

    fit: FitConfig

    def __post_init__(self) -> None:
        super().__post_init__()
        warn_idle(self.search, ("trial_share",), "bydore fit: --budget decides")
        asked = [name for name in ("at_least", "at_most", "guard") if getattr(self.question, name)]
        if self.fit.runs is not None and asked:
            raise ValueError(f"Expected --{asked[0]} without --runs, found them together")
        method = "--runs" if self.fit.runs is not None else f"'{self.fit.method}'"
        asking = "--guard" if self.question.guard else f"--objective {self.question.objective}"
        if method != "'bydore'" and asking != "--objective mean":
            raise ValueError(
                f"Expected --method bydore with {asking}, found {method}: it minimises the mean"
            )
        if self.repeated_tokens is not None and method[1:-1] not in REPEATING:
            raise ValueError(
                "Expected proxies_repeat with a method that trains proxies here "
                f"({', '.join(REPEATING)}), found {method}"
            )


@one_line_errors("bydore fit")
def fit_command(arguments: Sequence[str]) -> None:
    """Finds a mixture by any method, within a budget of FLOPs. With --runs, the losses of a table
    of finished runs are fitted (by our law, or RegMix's trees), and nothing is trained. --resume
    RUN continues a run that was stopped; finished proxies are not trained again."""
    about = fit_command.__doc__ or ""
    options, resume = setup.options_or_resumed(
        arguments, "bydore fit", about, FitOptions, {**setup.SMOKE, **SMALL}, COMMON
    )
    folder = run_fit(options, resume)
    if folder.writes:
        print(report.report_text(folder.path))


def run_fit(options: FitOptions, resume: Path | None = None) -> files.RunFolder:
    """Finds a mixture by a method, or continues that of a folder, and writes its page.

    Raises:
        DataError: When data, runs or budget are not what the method needs.
    """
    if options.fit.runs is not None:
        return _fit_on_runs(options, Path(options.fit.runs))
    folder = setup.begin_run(options, "fit", resume)
    domains = setup.load_domains(options)
    shared = options.budget.proxy_runs
    problem = problem_of(options, domains, Path(shared) if shared else folder.path / "proxies")
    if resume is None:
        setup.write_text_index(folder, domains.corpus)
        folder.write_config("fit", options.as_dict())
    with terminal.told_if_stopped(f"Go on with: {resume_command(folder.path)}"):
        found = fit(str(options.fit.method), problem, options, folder.path / "search")
    found = replace(found, mixture=found.mixture.unpooled(domains.pools))
    epochs = setup.run_epochs(options, domains, found.mixture)
    _write_fit(folder, options, found, domains.names, problem.cost, epochs)
    if folder.writes:
        terminal.tell(report.add_html_report(folder))
    return folder


def _fit_on_runs(options: FitOptions, runs: Path) -> files.RunFolder:
    folder, run = setup.begin_run(options, "fit", None), options.run
    asked = replace(options.fit, method=options.fit.method or OF_TABLES[0])
    options = replace(options, fit=asked)
    for field in fields(run):
        if field.name in IDLE and getattr(run, field.name) != field.default:
            terminal.tell(f"without effect beside --runs: --{field.name}")
    table = tables.read_runs(runs)
    for line in (*table.columns.lines(), *table.notes):
        terminal.tell(line)
    metrics = tables.metric_shares(table, asked.target or [])
    given = (asked.maximize or [], asked.minimize or [])
    table, remarks = tables.directed(table, metrics, *given)
    for line in remarks:
        terminal.tell(line)
    smaller = None
    if asked.scale_up is not None:
        smaller, lines = tables.directed(tables.read_runs(Path(asked.scale_up)), metrics, *given)
        for line in (*smaller.columns.lines(), *smaller.notes, *lines):
            terminal.tell(f"--scale_up: {line}")
    tokens = _domain_tokens(options, table)
    if tokens is not None and asked.prior is None:
        prior, source = tokens / tokens.sum(), "the shares of the domains' tokens"
    else:
        prior, source = tables.prior_of(table, asked.prior)
    terminal.tell(f"{len(table.runs)} runs of {len(table.domains)} domains; prior: {source}")
    caps = None if tokens is None else _caps_of(options, tokens)
    mixtures = (
        None if asked.predict is None else tables.read_mixtures(Path(asked.predict), table.domains)
    )
    compared = {"prior": prior, "caps": caps, "mixtures": mixtures}
    if asked.method == "regmix":
        found = methods.fit_regmix_to_table(table, metrics, options.regmix, **compared)
    else:
        found = tables.fit_table(table, metrics, smaller=smaller, **compared)
    notes = list(found.mixture.notes)
    if smaller is not None:
        notes.append(f"What a domain is worth: from {len(smaller.runs)} runs of a smaller model.")
    for note in notes:
        terminal.tell(f"bydore fit: warning: {note}")
    read = (*remarks, *table.notes)  # what the losses and the runs are
    notes += [f"{line[0].upper()}{line[1:]}." for line in read]
    found = replace(found, mixture=replace(found.mixture, notes=tuple(notes)))
    _write_table_fit(folder, options, found, tokens)
    terminal.tell(report.add_html_report(folder))
    return folder


def _domain_tokens(options: FitOptions, table: tables.RunsTable) -> np.ndarray | None:
    """Returns the tokens of the table's domains ``(K,)``, None where they are not named."""
    asked = options.question
    limits = [f"--{n}" for n in ("max_epochs", "target_tokens") if getattr(asked, n) is not None]
    if not asked.domain_tokens and limits:
        raise DataError(
            f"Expected --domain_tokens FILE with {' and '.join(limits)} and --runs, found none"
        )
    if not asked.domain_tokens:
        return None
    found = data.stated_tokens(asked.domain_tokens, table.domains)
    return np.array([found[name] for name in table.domains])


def _caps_of(options: FitOptions, tokens: np.ndarray) -> np.ndarray | None:
    """Returns the largest weights ``(K,)`` that `max_epochs` allows, None without it."""
    asked = options.question
    if asked.max_epochs is None:
        return None
    if asked.target_tokens is None:
        raise DataError("Expected --target_tokens with --max_epochs and --runs, found none")
    caps = np.minimum(asked.max_epochs * tokens / options.run_tokens, 1.0)
    if caps.sum() < 1:
        raise DataError(
            f"Expected enough text for the run within {asked.max_epochs:g} epochs, found text for "
            f"{caps.sum():.3f} of it"
        )
    return caps


def _write_table_fit(
    folder: files.RunFolder, options: FitOptions, found: tables.TableFit, tokens: np.ndarray | None
) -> None:
    asked, names, epochs = options.question, found.mixture.names, {}
    if tokens is not None and asked.target_tokens is not None:
        read = np.array(found.mixture.weights) * options.run_tokens / np.maximum(tokens, 1)
        epochs = {n: float(e) for n, e, t in zip(names, read, tokens, strict=True) if t}
    fit = methods.Fit(mixture=found.mixture, details=setup.MethodDetails(table=found.record))
    _write_fit(folder, options, fit, names, proxy.Cost(), epochs)
    if rows := found.record.predictions:
        import pandas

        table = pandas.DataFrame(map(vars, rows)).to_csv(index=False, lineterminator="\n")
        folder.write_text("predictions.csv", table)
    # From now on the folder counts as a run; only what mattered is kept.
    own = {"regmix_draws": options.regmix.regmix_draws} if options.fit.method == "regmix" else {}
    folder.write_config(
        "fit",
        {
            "fit": vars(options.fit),
            "question": {
                "max_epochs": asked.max_epochs,
                "target_tokens": asked.target_tokens,
                "domain_tokens": asked.domain_tokens,
            },
            "regmix": own,
        },
    )


def _write_fit(
    folder: files.RunFolder,
    options: FitOptions,
    found: methods.Fit,
    names: Sequence[str],
    cost: proxy.Cost,
    epochs: Mapping[str, float] | None,
) -> None:
    path = found.trajectory
    folder.write_text("mixture.json", found.mixture.to_json() + "\n")
    if path is not None:
        import xarray

        coordinates = {"step": np.arange(len(path)), "domain": list(names)}
        trajectory = xarray.Dataset({"mean": (("step", "domain"), path)}, coords=coordinates)
        folder.write_dataset("trajectory.nc", trajectory)
    if found.draws is not None:
        chains = found.draws.reshape(core.GROUPS, -1, found.draws.shape[1])
        posterior = core.as_inference_data(
            {"posterior": {"w": chains}}, coords={"domain": names}, dims={"w": ["domain"]}
        )
        folder.write_posterior("posterior.nc", posterior)
    on_text = options.fit.runs is None
    metrics = setup.Metrics(
        method=str(options.fit.method),
        seed=options.run.seed,
        search=cost.spent(),
        jitter_second_half=None if path is None else mixture.jitter(path[len(path) // 2 :]),
        **vars(found.details),
        run_tokens=options.run_tokens if on_text or options.question.target_tokens else None,
        run_epochs=epochs or {},
        peak_memory_megabytes=setup.peak_memory_megabytes(),
        **files.provenance(() if on_text else ("scikit-learn", "lightgbm", "botorch")),
    )
    folder.write_json("metrics.json", files.plain(metrics))
