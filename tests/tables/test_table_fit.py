"""A table of finished runs: what it takes, its prior, and given mixtures."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from planted_tables import planted, truth

pytest.importorskip("botorch")

from bydore_pyro.errors import DataError
from bydore_pyro.mixture.published import pile_weights
from bydore_pyro.tables.directions import directed
from bydore_pyro.tables.gaussian_process import fit_law_processes, worth_of
from bydore_pyro.tables.table_fit import RegressionConfig, fit_table_of_runs, prior_of
from bydore_pyro.tables.tables import RunsTable

PRIOR = np.full(4, 0.25)


def table_of(runs: int) -> RunsTable:
    weights, losses = planted(runs, noise=0.05)
    return RunsTable(
        runs=tuple(f"run {n}" for n in range(runs)),
        domains=("a", "b", "c", "d"),
        weights=weights,
        targets=("t",),
        losses=losses[:, None],
    )


def test_fewer_runs_than_domains_and_a_missing_file_are_refused() -> None:
    config = RegressionConfig(regmix_draws=500)
    linear = RegressionConfig(regmix_draws=500, regmix_regression="linear")
    with pytest.raises(DataError, match=r"as many runs as domains \(4\), found 3"):
        fit_table_of_runs(table_of(3), {"t": 1.0}, PRIOR, linear, method="regmix")
    with pytest.raises(DataError, match="found one run"):
        fit_table_of_runs(table_of(1), {"t": 1.0}, PRIOR, config)
    with pytest.raises(DataError, match=r"nowhere\.csv"):
        fit_table_of_runs(table_of(9), {"t": 1.0}, PRIOR, config, predict=Path("nowhere.csv"))


def test_a_metric_in_another_unit_is_noted() -> None:
    table, config = table_of(8), RegressionConfig(regmix_draws=500, regmix_regression="linear")
    both = dataclasses.replace(table, targets=("t", "u"), losses=table.losses * [1, 100])
    notes = [
        fit_table_of_runs(both, shares, PRIOR, config, method="regmix")[0].notes
        for shares in ({"t": 0.5, "u": 0.5}, {"t": 0.6, "u": 0.4})
    ]
    assert ["'u' differs 100 times as much as 't'" in " ".join(one) for one in notes] == [
        True,
        False,
    ]


def test_what_smaller_runs_say_of_domains_ranks_better_than_four_runs_alone() -> None:
    small = table_of(60)
    worth = worth_of(small.weights, small.losses, [-1])
    assert worth[0].argmax() == 0
    unseen, _ = planted(200, seed=5)
    ranks = []
    for seed in range(10, 14):
        weights, losses = planted(4, noise=0.05, seed=seed)
        laws = [fit_law_processes(weights, losses[:, None] + 1, [-1], w)[0] for w in (None, worth)]
        ranks.append([np.corrcoef(one.predict(unseen), truth(unseen))[0, 1] for one in laws])
    alone, scaled_up = np.mean(ranks, 0)
    assert scaled_up > alone + 0.05


def test_runs_of_a_smaller_model_are_of_the_same_domains_and_metrics() -> None:
    small, few = table_of(60), table_of(4)
    other = dataclasses.replace(small, domains=("d", "c", "b", "a"), weights=small.weights[:, ::-1])
    config = RegressionConfig(regmix_draws=500)
    found = [
        fit_table_of_runs(few, {"t": 1.0}, PRIOR, config, smaller=one)[0].weights
        for one in (small, other)
    ]
    assert found[0] == pytest.approx(found[1], abs=1e-6)
    bad = {
        "found 'd' in one table only": dataclasses.replace(small, domains=("a", "b", "c", "e")),
        "in --scale_up, found none": dataclasses.replace(small, targets=("u",)),
        "at least 6 runs in --scale_up, found 5": table_of(5),
        "runs in --scale_up that differ in loss": dataclasses.replace(
            small, losses=np.ones_like(small.losses)
        ),
        "runs in --scale_up on different mixtures": dataclasses.replace(
            small, weights=np.full_like(small.weights, 0.25)
        ),
    }
    for message, one in bad.items():
        with pytest.raises(DataError, match=message):
            fit_table_of_runs(few, {"t": 1.0}, PRIOR, config, smaller=one)
    with pytest.raises(
        DataError, match="a smaller model's runs in --scale_up, found the losses of"
    ):
        fit_table_of_runs(small, {"t": 1.0}, PRIOR, config, smaller=small)
    linear = RegressionConfig(regmix_draws=500, regmix_regression="linear")
    with pytest.raises(DataError, match="Expected the law of losses with --scale_up, found linear"):
        fit_table_of_runs(table_of(9), {"t": 1.0}, PRIOR, linear, method="regmix", smaller=small)


def test_priors_of_tables(tmp_path: Path) -> None:
    prior, source = prior_of(table_of(40))
    np.testing.assert_allclose(prior, table_of(40).weights.mean(0))
    assert source.startswith("the mean of the runs' mixtures")
    shares = pile_weights()["token_share"]
    pile = dataclasses.replace(table_of(2), domains=tuple(sorted(shares)))
    prior, source = prior_of(pile)
    assert source == "the Pile's token shares"
    total = sum(shares.values())
    np.testing.assert_allclose(prior, [shares[name] / total for name in pile.domains], atol=1e-6)
    (tmp_path / "prior.json").write_text('{"law": 1}')
    with pytest.raises(DataError, match="Expected the same domains in"):
        prior_of(pile, str(tmp_path / "prior.json"))


def test_a_maximised_metric_is_predicted_in_its_own_direction(tmp_path: Path) -> None:
    """The same fit, minimised and negated: equal weights, and values with the other sign."""
    table, config = table_of(24), RegressionConfig(regmix_draws=500)
    rows = [",".join(map(repr, map(float, row))) for row in table.weights[:3]]
    (tmp_path / "mine.csv").write_text(
        "run,a,b,c,d\n" + "\n".join(f"m{n},{row}" for n, row in enumerate(rows))
    )
    up = dataclasses.replace(table, losses=40 - table.losses)
    found = []
    for one, names in ((dataclasses.replace(table, losses=table.losses - 40), []), (up, ["t"])):
        turned, lines = directed(one, {"t": 1.0}, names, [] if names else ["t"])
        assert ("higher is better" if names else "lower is better") in lines[0]
        found.append(
            fit_table_of_runs(
                turned, {"t": 1.0}, PRIOR, config, predict=tmp_path / "mine.csv", each=True
            )
        )
    (low, low_details), (high, high_details) = found
    assert high.weights == low.weights
    assert (low_details.direction, high_details.direction) == ("minimised", "maximised")
    gain, other_gain = high_details.gain_over_prior, low_details.gain_over_prior
    for key, one in gain.predicted_loss.items():
        assert 30 < one.mean < 40
        assert other_gain.predicted_loss[key] == dataclasses.replace(one, mean=-one.mean)
    assert gain.predicted_loss["weights"].mean > gain.predicted_loss["prior"].mean
    assert gain == dataclasses.replace(other_gain, predicted_loss=gain.predicted_loss)
    assert gain.mean is not None
    assert gain.mean > 0
    best, *others = high_details.predictions
    assert (best.direction, best.rank) == ("maximised", 1)
    for one, other in zip(high_details.predictions, low_details.predictions, strict=True):
        assert (one.mixture, one.predicted) == (other.mixture, -(other.predicted or 0))
        assert (one.low, one.high) == (-(other.high or 0), -(other.low or 0))
        assert (one.low or 0) < (one.predicted or 0) < (one.high or 0)
    assert all((best.predicted or 0) >= (one.predicted or 0) for one in others)
    each, other_each = high_details.each_metric["t"], low_details.each_metric["t"]
    assert (each.weights, each.prior) == (-(other_each.weights or 0), -(other_each.prior or 0))
    assert each.better_than_prior == other_each.better_than_prior


def test_a_mean_of_both_directions_is_minimised() -> None:
    table, config = table_of(24), RegressionConfig(regmix_draws=500)
    both = np.concatenate([table.losses, 3 - table.losses], 1)
    shares = {"t": 0.75, "acc": 0.25}
    table = dataclasses.replace(table, targets=("t", "acc"), losses=both)
    turned, _ = directed(table, shares, ["acc"], ["t"])
    _, details = fit_table_of_runs(turned, shares, PRIOR, config, each=True)
    assert details.direction == "both"
    each, predicted = details.each_metric, details.gain_over_prior.predicted_loss
    mean = 0.75 * (each["t"].weights or 0) - 0.25 * (each["acc"].weights or 0)
    assert predicted["weights"].mean == pytest.approx(mean)
    assert (each["acc"].weights or 0) > (each["acc"].prior or 0)


def test_olmix_predicts_maximised_metrics_that_are_negative_alone() -> None:
    config = RegressionConfig(regmix_draws=500)
    turned, _ = directed(table_of(24), {"t": 1.0}, ["t"])
    with pytest.raises(DataError, match=r"losses > 0 .* \(a maximised .*: --method bydore fits"):
        fit_table_of_runs(turned, {"t": 1.0}, PRIOR, config, method="olmix")
    logs = dataclasses.replace(table_of(24), losses=-table_of(24).losses)
    turned, _ = directed(logs, {"t": 1.0}, ["t"])
    found = fit_table_of_runs(turned, {"t": 1.0}, PRIOR, config, method="olmix")[1]
    assert found.gain_over_prior.predicted_loss["weights"].mean < 0


def test_metrics_without_differences_are_left_out_or_refused() -> None:
    table, config = table_of(24), RegressionConfig(regmix_draws=500)
    flat = dataclasses.replace(
        table, targets=("t", "flat"), losses=np.c_[table.losses, np.full(24, -7.0)]
    )
    alone = fit_table_of_runs(table, {"t": 1.0}, PRIOR, config)[0]
    both = fit_table_of_runs(flat, {"t": 0.5, "flat": 0.5}, PRIOR, config)[0]
    assert both.weights == alone.weights
    with pytest.raises(DataError, match="runs that differ in flat, found one value in all"):
        fit_table_of_runs(flat, {"flat": 1.0}, PRIOR, config)
