"""What experts tell of the target: their runs' losses, by token."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tiny import make_problem

from bydore_pyro.data.store import TokenStore
from bydore_pyro.methods.experts import expert_losses
from bydore_pyro.methods.mde import mixture_of_experts_loss
from bydore_pyro.trials.problem import Problem
from bydore_pyro.trials.proxy_runs import train_mixtures


def test_the_feature_of_an_expert_is_its_run(problem: Problem) -> None:
    place = problem.names.index("greek")
    alone = np.eye(len(problem.names))[[place]]
    (run,) = train_mixtures(problem, alone, 5, "x")
    losses, shares = expert_losses(problem, 5, "x")
    np.testing.assert_array_equal(losses[place], run.token_losses()["birds"])
    tokens = losses.reshape(len(losses), -1)
    feature = mixture_of_experts_loss(tokens, alone, shares.flatten())
    assert feature[0] == pytest.approx(run.target_loss(problem.target), rel=1e-6)


def test_the_texts_of_a_domain_share_it_evenly(corpus: TokenStore, tmp_path: Path) -> None:
    target = {"birds": 1.0, "digits": 3.0}
    held_out = dict.fromkeys(target, 16)
    problem = make_problem(corpus, tmp_path, target=target, held_out=held_out)
    losses, shares = expert_losses(problem, 1, "x")
    assert losses.shape[:2] == (4, 32)
    np.testing.assert_allclose(shares.sum(1), [1 / 64] * 16 + [3 / 64] * 16, rtol=1e-6)
    np.testing.assert_allclose(shares, np.broadcast_to(shares[:, :1], shares.shape))
