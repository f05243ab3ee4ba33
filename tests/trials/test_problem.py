"""What methods are given: budgets that hold, and mixtures of the problem's tokens."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from bydore_pyro.errors import DataError
from bydore_pyro.mixture import by_name
from bydore_pyro.trials.problem import Problem


def test_steps_within_the_budget(problem: Problem) -> None:
    read = min(32, len(problem.corpus.validation["birds"]) // 32)
    assert problem.evaluation_steps() == pytest.approx(read / 24)
    steps = problem.steps_for("x", runs=10)
    assert 10 * (steps + problem.evaluation_steps()) <= 20 * 40
    assert 10 * (steps + 1 + problem.evaluation_steps()) > 20 * 40
    assert problem.steps_for("x", runs=10, other=400) < steps / 1.5


def test_mixtures_carry_the_hashes_of_their_tokens(problem: Problem) -> None:
    mixture = problem.mixture(np.array([1.0, 2.0, -1e-12, 1.0]))
    assert mixture.weights == pytest.approx((0.25, 0.5, 0, 0.25))
    assert mixture.tokenizer == problem.corpus.tokenizer_sha256
    assert mixture.data_sha256 == problem.corpus.sha256
    assert by_name(problem.names, np.arange(4.0))[problem.names[2]] == 2.0


def test_text_for_proxies_that_repeat_as_the_run_does(problem: Problem) -> None:
    """Each domain is read as often by a proxy as by the run, whatever its weight."""
    assert problem.text_for(50) is None
    size = {name: len(problem.corpus.train[name]) for name in problem.names}
    run = dataclasses.replace(problem, run_tokens=4.0 * 50 * 8 * 32)
    text = run.text_for(50)
    assert text == {name: size[name] // 4 for name in run.names}
    assert run.text_for(200) is None, "as long as the run"
    cut = run.domains(7, text)
    assert cut.sequences() == {name: tokens // 32 for name, tokens in text.items()}
    assert {n: len(one) for n, one in cut.targets.items()} == {
        n: len(one) for n, one in run.domains(7).targets.items()
    }
    batches = [domains.train_batch({"birds": 4}) for domains in (cut, run.domains(7, text))]
    assert torch.equal(*batches)
    with pytest.raises(DataError, match=r"one sequence of 32 tokens of '\w+' for proxies that"):
        dataclasses.replace(problem, run_tokens=1e12).text_for(50)
