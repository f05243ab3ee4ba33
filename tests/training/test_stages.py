"""Stages of mixtures: what they say, and the files that they are read from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bydore_pyro.data.store import TokenStore
from bydore_pyro.data.supply import supply_of
from bydore_pyro.errors import DataError
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.mixture.weights_files import mixture_from
from bydore_pyro.training.stages import Stages, read_stages

FIRST = Mixture(names=("web", "law", "none"), weights=(0.7, 0.3, 0.0), tokenizer="abc")
SECOND = Mixture(names=("code", "web"), weights=(0.5, 0.5))


def write(path: Path, content: str) -> str:
    path.write_text(content, encoding="utf-8")
    return str(path)


def test_stages_and_the_whole_run() -> None:
    stages = Stages(ends=(0.2, 1.0), mixtures=(FIRST, SECOND))
    assert stages.names == ("code", "law", "web")
    np.testing.assert_allclose(stages.weights, [[0, 0.3, 0.7], [0.5, 0, 0.5]])
    assert stages.shares() == pytest.approx({"code": 0.4, "law": 0.06, "web": 0.54})
    weights = stages.by_step(10)
    assert [weights(step)[0] for step in range(10)] == 2 * [0.0] + 8 * [0.5]
    assert Stages.constant(FIRST).shares() == pytest.approx({"law": 0.3, "web": 0.7})


@pytest.mark.parametrize("ends", [(1.0,), (0.5, 0.5), (0.0, 1.0)])
def test_ends_grow_to_one(ends: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="Expected ends that grow to 1"):
        Stages(ends=ends, mixtures=(FIRST, SECOND))


def test_a_mixture_is_one_stage(tmp_path: Path) -> None:
    path = write(tmp_path / "mixture.json", FIRST.to_json())
    assert read_stages(path, 1e9) == Stages.constant(FIRST)
    assert read_stages(str(tmp_path), 1e9) == Stages.constant(FIRST), "a run's folder"


def test_lists_of_stages(tmp_path: Path) -> None:
    write(tmp_path / "first.json", FIRST.to_json())
    text = "- {until: 0.2, mixture: first.json}\n- mixture: {code: 0.5, web: 0.5}\n"
    expected = Stages(ends=(0.2, 1.0), mixtures=(FIRST, SECOND))
    assert read_stages(write(tmp_path / "a.yaml", text), 1e9) == expected
    by_tokens = text.replace("0.2", "2M").replace("- mixture", "- until: 10M\n  mixture")
    assert read_stages(write(tmp_path / "b.yaml", by_tokens), 1e7) == expected


def test_names_and_numbers_are_those_that_a_single_mixture_would_have(tmp_path: Path) -> None:
    text = "- {until: 0.2, mixture: {no: 0.5, 010: 0.5}}\n"
    text += "- {mixture: {yes: 1}, tokenizer_sha256: null}\n"
    first, last = read_stages(write(tmp_path / "a.yaml", text), 1e9).mixtures
    assert first.as_dict() == {"no": 0.5, "010": 0.5}
    assert last == Mixture(names=("yes",), weights=(1.0,))
    nemo = write(tmp_path / "blend.json", '["0.6", "/d/law", "0.4", "/d/web"]')
    assert read_stages(nemo, 1e9) == Stages.constant(mixture_from(nemo))


def test_a_list_of_entries_is_a_mixture_by_the_names_and_counts_of_the_store(
    corpus: TokenStore, tmp_path: Path
) -> None:
    text = "- {name: x/birds, weight: 0.4}\n- {name: digits, weight: 0.6}\n"
    path = write(tmp_path / "list.yaml", text)
    assert read_stages(path, 1e9).names == ("digits", "x/birds")
    assert read_stages(path, 1e9, corpus).shares() == {"birds": 0.4, "digits": 0.6}
    repeats = write(tmp_path / "b.yaml", "streams: {birds: {repeat: 2}, digits: {repeat: 1}}")
    there = supply_of(corpus.index, corpus.names)
    share = 2 * there["birds"].tokens / (2 * there["birds"].tokens + there["digits"].tokens)
    staged = write(tmp_path / "c.yaml", "- {until: 0.5, mixture: b.yaml}\n- {mixture: b.yaml}\n")
    for given in (repeats, staged):
        assert read_stages(given, 1e9, corpus).shares()["birds"] == pytest.approx(share)
    with pytest.raises(DataError, match="epochs, how often text is read, instead of shares of tok"):
        read_stages(repeats, 1e9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- {until: 0.5, mixture: {a: 1}}", "Expected ends that grow to 1"),
        ("- {mixture: {a: 1}}\n- {mixture: {b: 1}}", "not the last has no 'until'"),
        ("- {mixture: {a: 0.5, b: -0.4}}", "-0.4 as the weight of 'b'"),
    ],
)
def test_bad_stages_are_one_line(text: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "stages.yaml", text)
    with pytest.raises(DataError, match="Expected stages of mixtures in .*" + message):
        read_stages(path, 1e9)
