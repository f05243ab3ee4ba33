"""What happens in isolation leaves no trace."""

from __future__ import annotations

import pyro
import torch

from bydore_pyro.core.isolation import isolated


def test_what_is_isolated_leaves_random_numbers_and_parameters_alone() -> None:
    pyro.clear_param_store()
    kept = pyro.param("kept", torch.tensor(1.0))
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    for keep in (False, True):
        with isolated(7, keep=keep):
            first = torch.rand(2)
            assert ("kept" in pyro.get_param_store()) == keep
            pyro.param("inside", torch.tensor(2.0))
        with isolated(7):
            assert torch.equal(torch.rand(2), first)
    assert torch.equal(torch.rand(3), expected)
    assert set(pyro.get_param_store()) == {"kept"}
    assert pyro.param("kept") is kept
    pyro.clear_param_store()
