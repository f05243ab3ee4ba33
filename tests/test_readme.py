"""The README tells the truth: its Python runs, and it is short."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyro
import pytest
import torch
from quick import FEW_STEPS, PROXY

from bydore_pyro.data.documents import CorpusConfig
from bydore_pyro.data.tokenizer import TokenizerConfig
from bydore_pyro.data.tokens import load_tokens
from bydore_pyro.runs.options import SMOKE

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CORE = (ROOT / "docs" / "core.md").read_text(encoding="utf-8")
ENVIRONMENT = 'load_tokens("environment")'
PYTHON = re.findall(r"```python\n(.*?)```", README + CORE, re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("block", PYTHON, ids=range(len(PYTHON)))
def test_python_blocks_run(
    block: str, cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On less of the same text, with a smaller proxy and fewer steps of the guide."""
    monkeypatch.setattr(*FEW_STEPS)
    block = block.replace("models/proxy-tiny", str(PROXY))
    if ENVIRONMENT in block:
        given = (SMOKE[name] for name in ("domain_megabytes", "tokenizer_megabytes", "vocabulary"))
        megabytes, sample, vocabulary = given
        corpus = CorpusConfig(domain_megabytes=megabytes)
        tokenizer = TokenizerConfig(vocabulary=vocabulary, tokenizer_megabytes=sample)
        store = load_tokens("environment", corpus, tokenizer, cache=cache)
        block = block.replace(ENVIRONMENT, f"load_tokens({str(store.folder)!r})")
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
    assert len(README.splitlines()) <= 150
