"""Weights that nobody searches."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import make_problem

from bydore_pyro.baselines.fixed import (
    HumanConfig,
    SingleConfig,
    fit_human,
    fit_natural,
    fit_single,
    fit_uniform,
)
from bydore_pyro.baselines.problem import Problem
from bydore_pyro.data.store import TokenStore
from bydore_pyro.utils.errors import DataError


def test_uniform_and_natural(problem: Problem) -> None:
    assert fit_uniform(problem).mixture.weights == pytest.approx((0.25,) * 4)
    assert fit_natural(problem).mixture.weights == pytest.approx(problem.token_shares)
    assert problem.cost.report()["flops"] == 0


def test_one_domain(corpus: TokenStore, tmp_path: Path) -> None:
    problem = make_problem(corpus, tmp_path, target={"greek": 0.3, "upper": 0.7})
    assert fit_single(problem, SingleConfig()).mixture.as_dict()["upper"] == 1
    assert fit_single(problem, SingleConfig(single="digits")).mixture.as_dict()["digits"] == 1
    with pytest.raises(DataError, match=r"Expected one of the domains .*, found 'law'"):
        fit_single(problem, SingleConfig(single="law"))
    apart = make_problem(corpus, tmp_path, names=("digits", "greek"))
    with pytest.raises(DataError, match="Expected --single"):
        fit_single(apart, SingleConfig())


def test_someone_elses(problem: Problem, tmp_path: Path) -> None:
    path = tmp_path / "weights.yaml"
    path.write_text("train:\n  birds: 0.25\n  upper: 0.75\n")
    found = fit_human(problem, HumanConfig(human=str(path)))
    assert found.mixture.as_dict() == {"birds": 0.25, "digits": 0, "greek": 0, "upper": 0.75}
    with (
        pytest.raises(DataError, match="Expected domains of the data"),
        pytest.warns(UserWarning, match="sum"),
    ):
        fit_human(problem, HumanConfig())
