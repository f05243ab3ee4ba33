"""Batches are even, and the weights are those that a method has after each step."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from bydore_pyro.errors import NonFiniteError
from bydore_pyro.methods.online import Factors, proxy_of, train_on_even
from bydore_pyro.trials.problem import Problem


def test_a_method_sees_even_batches_and_its_weights_are_kept(problem: Problem) -> None:
    count, seen = len(problem.names), []

    def factors(step: int, batch: Tensor, domain: Tensor) -> Factors:
        assert batch.shape == (problem.batch_sequences, problem.sequence_length)
        seen.append(torch.bincount(domain, minlength=count))
        return torch.ones(len(domain))

    def weights() -> Tensor:
        return torch.full((count,), float(len(seen)))

    parts = problem, proxy_of(problem), problem.domains(0)
    path = train_on_even(*parts, 5, "even", factors, weights)
    np.testing.assert_array_equal(path, np.arange(1, 6)[:, None] * np.ones(count))
    even = problem.batch_sequences / count
    assert (torch.stack(seen) - even).abs().max() < 1
    with pytest.raises(NonFiniteError, match="Step 0 of even: the training loss is NaN"):
        train_on_even(*parts, 5, "even", factors, lambda: weights() * torch.nan)
