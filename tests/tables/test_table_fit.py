"""A table of finished runs: what it takes, its answer, and given mixtures."""

from __future__ import annotations

import dataclasses
import doctest
from pathlib import Path

import numpy as np
import pytest
from planted_tables import planted_table, truth

pytest.importorskip("botorch")

from bydore_pyro.errors import DataError
from bydore_pyro.tables import table_fit
from bydore_pyro.tables.decision import bounds_near
from bydore_pyro.tables.directions import directed, metric_shares
from bydore_pyro.tables.expected import recorded
from bydore_pyro.tables.regression import fit_runs
from bydore_pyro.tables.table_fit import TableFit, fit_table
from bydore_pyro.tables.tables import read_runs
from bydore_pyro.tables.wanted import Wanted

PRIOR = np.full(4, 0.25)
T = {"t": 1.0}


def test_the_example_of_the_docstring_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, rows = np.random.default_rng(0), ["run,code,web,val/loss"]
    for number, (code, web) in enumerate(rng.dirichlet(np.ones(2), 30)):
        loss = 3 - 0.3 * np.log(web + 0.01) - 0.1 * np.log(code + 0.01)
        loss += 0.01 * rng.standard_normal()
        rows.append(f"r{number},{code},{web},{loss}")
    (tmp_path / "runs.csv").write_text("\n".join(rows))
    monkeypatch.chdir(tmp_path)
    names = {"Path": Path, "read_runs": read_runs, "directed": directed}
    names |= {"metric_shares": metric_shares, "fit_table": fit_table}
    text = table_fit.fit_table.__doc__ or ""
    example = doctest.DocTestParser().get_doctest(text, names, "fit_table", None, None)
    assert len(example.examples) == 6
    said: list[str] = []
    doctest.DocTestRunner().run(example, out=said.append)
    assert said == []


def test_the_answer_is_the_planted_one_with_intervals_that_hold_it() -> None:
    fit = fit_table(planted_table(40), T, prior=PRIOR)
    assert isinstance(fit, TableFit)
    weights = np.array(fit.mixture.weights)
    assert truth(weights[None])[0] < truth(np.array([[0.6, 0, 0.4, 0]]))[0] + 0.05
    assert fit.mixture.hdi is not None
    assert all(a <= w <= b for w, (a, b) in zip(weights, fit.mixture.hdi, strict=True))
    assert fit.draws is not None
    mean = fit.record.mean
    answer, prior = mean.expected["answer"], mean.expected["prior"]
    assert answer.low < truth(weights[None])[0] < answer.high
    apart = mean.differences["prior"]
    assert apart.loss == pytest.approx(answer.loss - prior.loss)
    assert apart.low < apart.loss < apart.high < 0
    assert apart.better > 0.97
    assert apart == mean.differences["uniform"], "the prior is uniform"
    assert (mean.left_out.spearman_x100 or 0) > 80
    assert fit.record.prior == dict.fromkeys("abcd", 0.25)
    assert fit.record.metrics == {}, "one metric is the mean"


def test_caps_hold_and_what_is_best_without_them_stays_known() -> None:
    fit = fit_table(planted_table(24), T, prior=PRIOR, caps=np.array([0.3, 1, 1, 1]))
    assert fit.mixture.weights[0] <= 0.3 + 1e-9
    assert (fit.mixture.free_weights or (0,))[0] > 0.5
    assert "a" not in fit.record.nearness.held, "a cap holds it, not the runs"


def test_too_few_runs_and_metrics_without_differences_are_refused() -> None:
    with pytest.raises(DataError, match="found one run"):
        fit_table(planted_table(1), T)
    with pytest.raises(DataError, match="at least 6 runs, found 3"):
        fit_table(planted_table(3), T)
    table = planted_table(24)
    flat = dataclasses.replace(
        table, targets=("t", "flat"), losses=np.c_[table.losses, np.full(24, -7.0)]
    )
    wanted = Wanted.of(flat, {"t": 0.5, "flat": 0.5})
    assert (wanted.names, wanted.shares.tolist()) == (("t",), [1.0])
    with pytest.raises(DataError, match="runs that differ in flat, found one value in all"):
        Wanted.of(flat, {"flat": 1.0})


def test_runs_of_a_smaller_model_are_of_the_same_domains_and_metrics() -> None:
    small, few = planted_table(60), planted_table(4)
    other = dataclasses.replace(small, domains=("d", "c", "b", "a"), weights=small.weights[:, ::-1])
    found = [fit_table(few, T, prior=PRIOR, smaller=one).mixture.weights for one in (small, other)]
    assert found[0] == pytest.approx(found[1], abs=1e-4)
    bad = {
        "found 'd' in one table only": dataclasses.replace(small, domains=("a", "b", "c", "e")),
        "in --scale_up, found none": dataclasses.replace(small, targets=("u",)),
        "at least 6 runs in --scale_up, found 5": planted_table(5),
        "runs in --scale_up that differ in loss": dataclasses.replace(
            small, losses=np.ones_like(small.losses)
        ),
        "runs in --scale_up on different mixtures": dataclasses.replace(
            small, weights=np.full_like(small.weights, 0.25)
        ),
    }
    for message, one in bad.items():
        with pytest.raises(DataError, match=message):
            fit_table(few, T, prior=PRIOR, smaller=one)
    with pytest.raises(
        DataError, match="a smaller model's runs in --scale_up, found the losses of"
    ):
        fit_table(small, T, prior=PRIOR, smaller=small)


def test_a_maximised_metric_is_predicted_in_its_own_direction() -> None:
    """The same fit, minimised and negated: equal weights, and values with the other sign."""
    table = planted_table(24)
    mixtures = (("m0", "m1", "m2"), table.weights[:3])
    up = dataclasses.replace(table, losses=40 - table.losses)
    found = []
    for one, names in ((dataclasses.replace(table, losses=table.losses - 40), []), (up, ["t"])):
        turned, lines = directed(one, T, names, [] if names else ["t"])
        assert ("higher is better" if names else "lower is better") in lines[0]
        found.append(fit_table(turned, T, prior=PRIOR, mixtures=mixtures))
    low, high = found
    assert high.mixture.weights == low.mixture.weights
    assert (low.record.direction, high.record.direction) == ("minimised", "maximised")
    for key, one in high.record.mean.expected.items():
        other = low.record.mean.expected[key]
        assert 30 < one.loss < 40
        assert (one.loss, one.low, one.high) == pytest.approx(
            (-other.loss, -other.high, -other.low)
        )
    apart, other = (f.record.mean.differences["prior"] for f in (high, low))
    assert (apart.loss, apart.better) == pytest.approx((-other.loss, other.better))
    assert apart.loss > 0
    best, *others = high.record.predictions
    assert (best.direction, best.rank) == ("maximised", 1)
    for one, other in zip(high.record.predictions, low.record.predictions, strict=True):
        assert one.mixture == other.mixture
        assert (one.expected, one.low, one.high) == pytest.approx(
            (-other.expected, -other.high, -other.low)
        )
        assert one.nearest_run == 0
    assert all(best.expected >= one.expected for one in others)


def test_a_mean_of_both_directions_is_minimised() -> None:
    table = planted_table(24)
    both = np.concatenate([table.losses, 3 - table.losses], 1)
    shares = {"t": 0.75, "acc": 0.25}
    table = dataclasses.replace(table, targets=("t", "acc"), losses=both)
    turned, _ = directed(table, shares, ["acc"], ["t"])
    wanted = Wanted.of(turned, shares)
    model = fit_runs(turned.weights, wanted.losses, wanted.shares)
    fit = fit_table(turned, shares, prior=PRIOR)
    record = recorded(turned, wanted, model, None, fit.mixture, PRIOR, bounds_near(turned.weights))
    assert (fit.record.direction, record.mean.left_out.rmse) == ("both", None)
    each = {name: one.expected["answer"].loss for name, one in record.metrics.items()}
    assert record.mean.expected["answer"].loss == pytest.approx(
        0.75 * each["t"] - 0.25 * each["acc"]
    )
    assert each["acc"] > record.metrics["acc"].expected["prior"].loss
