"""Options of the proxy: their limits, and that they come without torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bydore_pyro.proxy.config import ProxyConfig


def test_what_cannot_be_a_step_size_is_refused() -> None:
    assert ProxyConfig(learning_rate=0).learning_rate == 0
    for rate in (-1e-3, 1e31):
        with pytest.raises(ValueError, match="Expected learning_rate in"):
            ProxyConfig(learning_rate=rate)


def test_the_options_of_a_search_need_no_torch() -> None:
    """`bydore search --help` answers in under a second."""
    code = (
        "import sys\n"
        "from bydore_pyro.algorithm1 import LinearConfig\n"
        "from bydore_pyro.measure import MatchingConfig\n"
        "from bydore_pyro.proxy import ProxyConfig\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "transformers"} & {*done.stdout.split()}
