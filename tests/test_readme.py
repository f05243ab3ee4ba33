"""The README is short, and the Python of the page on the core runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyro
import pytest
import torch
from quick import FEW_STEPS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CORE = (ROOT / "docs" / "core.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", CORE, re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("block", PYTHON, ids=range(len(PYTHON)))
def test_python_blocks_run(
    block: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With fewer steps of the guide."""
    monkeypatch.setattr(*FEW_STEPS)
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    with pyro.get_param_store().scope(), torch.random.fork_rng():
        pyro.set_rng_seed(0)
        exec(block, names)
    assert capsys.readouterr().out
    if "exact: (13, 6, 4) / 23" in block:
        mean, exact = (
            names["guide"].posterior(names["counts"]).mean,
            torch.tensor([13.0, 6, 4]) / 23,
        )
        torch.testing.assert_close(mean, exact, atol=0.03, rtol=0)


def test_it_is_read_in_one_sitting() -> None:
    assert len(README.splitlines()) <= 120
