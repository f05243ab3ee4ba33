"""The options of Algorithm 1."""

from __future__ import annotations

import pytest

from bydore_pyro.algorithm1.config import GUIDE_DECAY, LinearConfig


def test_step_sizes_of_the_guide_end_at_a_share_of_the_first() -> None:
    """Geometrically, over the steps behind the warm-up."""
    config = LinearConfig(guide_warmup=30)
    assert config.guide_decay(100) ** 70 == pytest.approx(GUIDE_DECAY)
    assert config.guide_decay(31) == pytest.approx(GUIDE_DECAY)
