"""Weights that nobody searches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tiny import make_problem

from bydore_pyro.data.store import TokenStore
from bydore_pyro.data.supply import supply_of
from bydore_pyro.errors import DataError
from bydore_pyro.methods.fixed import (
    FixedConfig,
    fit_human,
    fit_natural,
    fit_single,
    fit_uniform,
    fit_unimax,
    unimax_tokens,
)
from bydore_pyro.trials.problem import Problem


def test_uniform_and_natural(problem: Problem) -> None:
    assert fit_uniform(problem).mixture.weights == pytest.approx((0.25,) * 4)
    assert fit_natural(problem).mixture.weights == pytest.approx(problem.token_shares)
    assert problem.cost.report()["flops"] == 0


def test_one_domain(corpus: TokenStore, tmp_path: Path) -> None:
    problem = make_problem(corpus, tmp_path, target={"greek": 0.3, "upper": 0.7})
    assert fit_single(problem, FixedConfig()).mixture.as_dict()["upper"] == 1
    assert fit_single(problem, FixedConfig(single="digits")).mixture.as_dict()["digits"] == 1
    with pytest.raises(DataError, match=r"Expected one of the domains .*, found 'law'"):
        fit_single(problem, FixedConfig(single="law"))
    apart = make_problem(corpus, tmp_path, names=("digits", "greek"))
    with pytest.raises(DataError, match="Expected --single"):
        fit_single(apart, FixedConfig())


def test_someone_elses(problem: Problem, tmp_path: Path) -> None:
    path = tmp_path / "weights.yaml"
    path.write_text("train:\n  birds: 0.25\n  upper: 0.75\n")
    found = fit_human(problem, FixedConfig(human=str(path)))
    assert found.mixture.as_dict() == {"birds": 0.25, "digits": 0, "greek": 0, "upper": 0.75}
    path.write_text("streams: {x/Birds: {repeat: 2}, upper.jsonl: {repeat: 1}}")
    read = supply_of(problem.corpus.index, ["birds", "upper"])
    share = 2 * read["birds"].tokens / (2 * read["birds"].tokens + read["upper"].tokens)
    found = fit_human(problem, FixedConfig(human=str(path))).mixture.as_dict()
    assert found == pytest.approx({"birds": share, "digits": 0, "greek": 0, "upper": 1 - share})
    with (
        pytest.raises(DataError, match="Expected domains of the data"),
        pytest.warns(UserWarning, match="sum"),
    ):
        fit_human(problem, FixedConfig())


def test_by_hand() -> None:
    sizes = np.array([100.0, 1.0, 10.0])
    # 60 / 3 is more than 1; 59 / 2 is more than 10; the last takes the rest.
    assert unimax_tokens(sizes, 60, 1).tolist() == [49, 1, 10]
    assert unimax_tokens(sizes, 60, 4).tolist() == [28, 4, 28]
    assert unimax_tokens(sizes, 3, 1).tolist() == [1, 1, 1]


def test_it_fills_like_water() -> None:
    """No domain that could take more has less than another; the budget is spent."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        sizes = rng.lognormal(3, 2, 8)
        budget = rng.uniform(0.1, 1.0) * 2 * sizes.sum()
        read = unimax_tokens(sizes, budget, 2)
        assert read.sum() == pytest.approx(budget)
        level = read.max()
        np.testing.assert_allclose(read, np.minimum(2 * sizes, level))


def test_a_short_run_is_uniform_and_one_too_long_is_natural(problem: Problem) -> None:
    assert fit_unimax(problem, FixedConfig(), 10.0).mixture.weights == (0.25,) * 4
    long = fit_unimax(problem, FixedConfig(unimax_epochs=1), 1e12)
    assert long.mixture.weights == pytest.approx(fit_natural(problem).mixture.weights)
