"""What other methods propose for tasks: from a table of trained mixtures, or from proxies of their
own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import numpy as np
from log_linear import fit_log_linear
from response_ranks import Known, Measured

from bydore_pyro import data, measure, methods, setup, tables
from bydore_pyro import fit as fits
from bydore_pyro.methods import Trees, fit_trees, simulated_optimum

MERGED = "merged branches"
OF_MERGED = 32  # sequences of each target on which merged models are read
LINEAR = "algorithm1"  # among the methods: the paper's, a search with linear evidence
METHODS = (*fits.METHODS, LINEAR)


def merged_losses(run: Measured, mixtures: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the losses on each target of models that are merged of the branches ``(N,)``: where
    they began, and their changes by the weights of their domains ``(N, K)``."""
    model, domains = run.sketch.model, run.domains
    measure.set_parameters(model, run.kept[-1])
    theta, found = model.parameters, dict[str, list[float]]()
    places = [[domains.names.index(name) for name in one.domains] for one in run.branches]
    for row in mixtures:
        merged = {
            name: value
            + sum(
                row[place].sum() * one.change[name].to(value)
                for place, one in zip(places, run.branches, strict=True)
            )
            for name, value in theta.items()
        }
        for name, text in domains.targets.items():
            tokens = text.tokens[:OF_MERGED]
            weights = None if text.weights is None else text.weights[:OF_MERGED]
            some = data.Sequences(tokens, text.documents[:OF_MERGED], weights)
            found.setdefault(name, []).append(float(measure.losses_of(model, some, merged).mean()))
    return {name: np.array(losses) for name, losses in found.items()}


def rivals(
    known: Known,
    names: Sequence[str],
    merged: Mapping[str, np.ndarray],
    runs: Sequence[int],
    seed: int,
) -> dict[str, np.ndarray]:
    """Returns what others propose for some targets: the best of the known mixtures, of merged
    models if they were read, and of regressions on some known runs."""
    truth, order = known.mean(names), np.random.default_rng(seed).permutation(len(known.weights))
    count, even = known.weights.shape[1], np.full(known.weights.shape[1], 1.0)
    found = {
        f"best of {number} runs": known.weights[order[:number]][truth[order[:number]].argmin()]
        for number in (len(truth), *runs)
    }
    if merged:
        found[MERGED] = known.weights[np.mean([merged[name] for name in names], 0).argmin()]
    for number in runs:
        some = order[:number]
        weights, losses = known.weights[some], truth[some]
        process = tables.likeliest_process(weights, losses)
        if process is not None:
            found[f"process on {number} runs"] = simulated_optimum(process.predict, even)
        law = fit_log_linear(weights, losses)
        found[f"olmix's law on {number} runs"] = simulated_optimum(law.predict, even)
        if number >= count:
            trees = fit_trees(weights, losses[:, None])
            found[f"RegMix on {number} runs"] = simulated_optimum(partial(_mean_loss, trees), even)
    return found


def _mean_loss(trees: Trees, mixtures: np.ndarray) -> np.ndarray:
    return trees.predict(mixtures)[:, 0]


def fitted(
    run: Measured, names: Sequence[str], method: str, budget: float, folder: Path, label: str
) -> dict[str, float]:
    """Returns the mixture that another method finds for some targets, within the budget. Its
    proxies are read on all targets, so that those of one group serve the next."""
    own = {part.name: getattr(run.options, part.name) for part in fields(setup.Options)}
    if method == LINEAR:
        own["run"] = replace(own["run"], evidence="linear")
    options = fits.MethodOptions(
        **own,
        budget=fits.BudgetConfig(budget=budget),
        fixed=methods.FixedConfig(),
        regmix=methods.RegMixConfig(),
        design=methods.DOptimalConfig(),
        mde=methods.MDEConfig(),
    )
    whole = fits.problem_of(options, run.domains, folder / "proxies")
    target = run.of(names).validation_shares
    problem = replace(whole, target=target, held_out=whole.evaluated)
    name = "bydore" if method == LINEAR else method
    return fits.fit(name, problem, options, folder / f"{label}-search").mixture.as_dict()
