"""The experiment on the drift of the law of losses."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.slow
def test_in_smoke_size(smoke: Callable[..., dict]) -> None:
    """A gain is by the later law, of whose answers none is worse than the earlier law's."""
    found = smoke("drift", "--domains", "python", "licences", "docstrings")
    (pairs,) = found["pairs"].values()
    assert [(round(p["from"]), round(p["to"])) for p in pairs] == [
        (2048, 4096),
        (2048, 8192),
        (4096, 8192),
    ]
    for one in pairs:
        assert -1 <= one["kept"] <= 1
        assert one["own"] <= min(one["answer"], one["composition"], 0) + 1e-6
