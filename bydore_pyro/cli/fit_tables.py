"""What `bydore fit --runs` does with tables beside the fit itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from bydore_pyro.baselines import (
    FEWEST_LARGE,
    Fit,
    RegMixConfig,
    Regressed,
    RunsTable,
    ScaledUp,
    check_runs,
    fit_runs,
    gain_over,
    interval_of_run,
    read_mixtures,
    read_runs,
    regress_runs,
    scale_up,
    score_mixtures,
    with_mean,
)
from bydore_pyro.data import load_tokens
from bydore_pyro.mixture import Mixture, numbers_of
from bydore_pyro.runs import MethodOptions, RunConfig
from bydore_pyro.utils import DataError, progress_bar, tell

__all__ = ["DEFAULT_DATA", "caps_of", "domain_tokens", "each_metric", "fit_table_of_runs"]

DEFAULT_DATA = RunConfig().data  # the text of the environment, which no table is of


def fit_table_of_runs(
    table: RunsTable,
    metrics: Mapping[str, float],
    prior: np.ndarray,
    config: RegMixConfig,
    *,
    caps: np.ndarray | None = None,
    few_runs: bool = False,
    predict: str | None = None,
    scale_up_to: str | None = None,
    each: bool = False,
) -> Fit:
    """Fits the regression of a mean of metrics, and does what else is asked for with it.

    Args:
        table: The runs.
        metrics: Shares of the metrics whose mean is to fall.
        prior: The natural mixture ``(K,)``.
        config: The regression.
        caps: Largest weights ``(K,)``.
        few_runs: Whether fewer runs than domains are taken.
        predict: File of mixtures to score.
        scale_up_to: Tables of runs of a larger model.
        each: Whether every metric is regressed of its own, too.

    Raises:
        DataError: When a file cannot be read, the runs are too few or conflict, or the caps leave
            no mixture.
    """
    table, target = with_mean(table, dict(metrics))
    check_runs(table, target, few_runs)
    # What can be wrong with files is found before anything is fitted.
    given = None if predict is None else read_mixtures(Path(predict), table.domains)
    large = None if scale_up_to is None else _large_runs(Path(scale_up_to), table, metrics)
    with tqdm(desc="fit and optima", unit="step", mininterval=0.5) as bar:
        regressed = regress_runs(table, target, config.choice, progress=bar.update)
        found = fit_runs(table, target, prior, config, regressed, caps=caps, progress=bar.update)
    model: Any = regressed.model
    more: dict[str, Any] = {"metrics": dict(metrics)} if len(metrics) > 1 else {}
    if large is not None:
        model = scale_up(model, *large)
        more["scale_up"] = _scaled(model, found.mixture, prior)
    if each:
        choice = config.choice
        more["each_metric"] = each_metric(table, metrics, choice, found.mixture, prior)
    if given is not None:
        more["predictions"] = score_mixtures(model, *given, prior, table.weights)
    return dataclasses.replace(found, details={**found.details, **more})


def _large_runs(
    path: Path, table: RunsTable, metrics: Mapping[str, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Returns weights ``(N, K)`` and the same mean of metrics ``(N,)`` of the large runs."""
    large = read_runs(path, None)
    large = large.ordered(table.domains, list(metrics))
    large, target = with_mean(large, dict(metrics))
    if len(large.runs) < FEWEST_LARGE:
        raise DataError(f"Expected at least {FEWEST_LARGE} runs in {path}, found {len(large.runs)}")
    large.check_losses(target)
    return large.weights, large.losses_of(target)


def _scaled(model: ScaledUp, mixture: Mixture, prior: np.ndarray) -> dict[str, Any]:
    """Returns what a calibration tells, as plain values."""
    both = np.stack([np.array(mixture.weights), prior])
    means, ends = model.predict(both).tolist(), model.predict_interval(both).tolist()
    gain, probability = model.gain(both[0], both[1])
    return {
        "runs": model.runs,
        "spearman_x100": model.spearman_x100,
        "intercept": model.intercept,
        "slope": model.slope,
        "error": model.error,
        "weights": {"mean": means[0], "interval": ends[0]},
        "prior": {"mean": means[1], "interval": ends[1]},
        "gain_over_prior": gain,
        "probability": probability,
    }


def each_metric(
    table: RunsTable,
    metrics: Mapping[str, float],
    choice: Any,
    mixture: Mixture,
    prior: np.ndarray,
) -> dict[str, dict[str, Any]]:
    """Cross-validates and fits every metric of its own; a metric that all runs share is left out.

    Returns:
        By metric: the regression, its figures on left-out runs, the losses predicted for the
        proposal and the natural mixture, and the probability that the proposal's is lower.
    """
    both, found = np.stack([np.array(mixture.weights), prior]), dict[str, dict[str, Any]]()
    with tqdm(metrics, desc="each metric", unit="metric", mininterval=0.5) as bar:
        for name in bar:
            bar.set_postfix_str(name[:20])
            try:
                one: Regressed = regress_runs(table, name, choice, quick=True)
            except DataError as error:
                tell(f"{name}: {error}")
                continue
            predicted = one.model.predict(both).tolist()
            gain = gain_over(one.model, both[0], both[1])
            found[name] = {
                "regression": one.kind,
                **(one.compared[0].row() if one.compared else {}),
                "regressions": {each.kind: each.row() for each in one.compared},
                "weights": predicted[0],
                "prior": predicted[1],
                "better_than_prior": gain.get("probability"),
                "interval_of_a_run": interval_of_run(one.model, both[:1])[0].tolist(),
            }
    return found


def domain_tokens(options: MethodOptions, named: str | None, table: RunsTable) -> np.ndarray | None:
    """Returns the tokens of the table's domains ``(K,)``, None where they are not named.

    Args:
        options: The run's length and its text.
        named: The file of `--domain_tokens`.
        table: The runs.

    Raises:
        DataError: When they are needed and not named, or are other domains'.
    """
    run = options.run
    limits = [f"--{n}" for n in ("max_epochs", "target_tokens") if getattr(run, n) is not None]
    if named is not None:
        place, found = named, numbers_of(Path(named))
    elif run.data != DEFAULT_DATA:
        with progress_bar() as bar:
            corpus = load_tokens(
                *(run.data, options.corpus, options.tokenizer, options.rows),
                cache=Path(run.cache) if run.cache else None,
                progress=tell,
                bar=bar,
            )
        place, found = run.data, {name: float(len(t)) for name, t in corpus.train.items()}
    elif limits:
        raise DataError(
            f"Expected --domain_tokens FILE or --data with {' and '.join(limits)}, which need the "
            "domains' numbers of tokens; found neither"
        )
    else:
        return None
    missing = sorted(set(table.domains) - set(found))
    if missing or not any(found.values()):
        told = f"none for '{missing[0]}'" if missing else "none"
        raise DataError(f"Expected the tokens of the runs' domains in {place}, found {told}")
    return np.array([found[name] for name in table.domains])


def caps_of(options: MethodOptions, tokens: np.ndarray) -> np.ndarray | None:
    """Returns the largest weights ``(K,)`` that `max_epochs` allows, None without it.

    Raises:
        DataError: When the run's length is not told, or the domains hold too little for it.
    """
    run = options.run
    if run.max_epochs is None:
        return None
    if run.target_tokens is None:
        raise DataError("Expected --target_tokens with --max_epochs and --runs, found none")
    caps = np.minimum(run.max_epochs * tokens / options.run_tokens, 1.0)
    if caps.sum() < 1:
        raise DataError(
            f"Expected enough text for the run within {run.max_epochs:g} epochs, found text for "
            f"{caps.sum():.3f} of it"
        )
    return caps
