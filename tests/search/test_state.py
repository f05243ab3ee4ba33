"""What both searches share: training steps, and values that are not finite."""

from __future__ import annotations

import pytest
import torch
from bydore_pyro.search.config import SearchConfig
from bydore_pyro.search.state import check_finite
from searches import KINDS, state_of

from bydore_pyro.data.store import TokenStore
from bydore_pyro.utils.errors import NonFiniteError


@KINDS
def test_training_takes_counts_and_factors(
    corpus: TokenStore, config: SearchConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, given = state_of(corpus, config), []
    step = state.proxy.step

    def trained(batch: torch.Tensor, factors: torch.Tensor | None) -> torch.Tensor:
        given.append((len(batch), factors))
        return step(batch, factors)

    monkeypatch.setattr(state.proxy, "step", trained)
    counts = torch.tensor([3, 0, 1, 0])
    loss = state.train(counts, torch.ones(4))
    assert 0 < loss < 20
    state.train(counts, torch.tensor([0.5, 1.0, 2.0, 1.0]))
    assert given[0] == (4, None)
    assert given[1][1].tolist() == [0.5, 0.5, 0.5, 2.0]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_is_named(bad: float) -> None:
    check_finite("loss", torch.tensor([1.0, 2.0]), 3, ["a", "b"])
    message = rf"Step 3: the loss of domain 'b' is {bad}; a smaller --learning_rate"
    with pytest.raises(NonFiniteError, match=message):
        check_finite("loss", torch.tensor([1.0, bad]), 3, ["a", "b"])
    with pytest.raises(NonFiniteError, match="--guide_learning_rate may help"):
        check_finite("posterior's rate", torch.tensor([bad]), 3, ["a"])
