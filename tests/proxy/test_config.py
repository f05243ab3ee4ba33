"""Options of the proxy: their limits."""

from __future__ import annotations

import pytest

from bydore_pyro.proxy.config import ProxyConfig


def test_what_cannot_be_a_step_size_is_refused() -> None:
    assert ProxyConfig(learning_rate=0).learning_rate == 0
    for rate in (-1e-3, 1e31):
        with pytest.raises(ValueError, match="Expected learning_rate in"):
            ProxyConfig(learning_rate=rate)
