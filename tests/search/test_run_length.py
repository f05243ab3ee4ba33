"""A run of a given length: how often it reads text, and what that amounts to."""

from __future__ import annotations

import pytest
import torch
from searches import state_of

from bydore_pyro.data.store import TokenStore
from bydore_pyro.mixture.repetition import effective_shares
from bydore_pyro.search.run_length import RunLength, run_of_length


def test_it_knows_how_often_text_is_read(corpus: TokenStore) -> None:
    domains = state_of(corpus).domains
    held = {name: count * 32 for name, count in domains.sequences().items()}
    least = min(held.values())
    run = run_of_length(domains, 3.0 * least, 2.0)
    assert isinstance(run, RunLength)
    expected = [3.0 * least / held[name] for name in domains.names]
    torch.testing.assert_close(run.rates, torch.tensor(expected, dtype=torch.float64))
    alone = torch.eye(4, dtype=torch.float64)
    weights = alone[int(run.rates.argmax())]
    assert run.repeats(weights)
    assert run.repeats(alone), "of several mixtures one does"
    assert not run.repeats(weights / 4)
    torch.testing.assert_close(run.effective(weights), effective_shares(weights, run.rates, 2.0))
    with pytest.raises(ValueError, match="tokens > 0"):
        run_of_length(domains, 0)
