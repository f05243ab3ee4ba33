"""Exported shares, measured: what `datasets` draws by them, and what the user is told."""

from __future__ import annotations

import json
from collections import Counter

import datasets
import numpy as np
import pytest

from bydore_pyro.export.formats import ExportConfig
from bydore_pyro.export.write import Exported, export, interleave
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.utils.errors import DataError

MIXTURE = Mixture(names=("short", "long", "none"), weights=(0.3, 0.7, 0.0))
LENGTHS = {"short": 20.0, "long": 180.0, "none": 50.0}  # mean tokens per document
DRAWS = 12_000


def documents(name: str, streamed: bool) -> datasets.Dataset | datasets.IterableDataset:
    """Documents of 10 and 30 tokens, or of 90 and 270: known lengths that differ."""
    half = int(LENGTHS[name]) // 2
    rows = [{"domain": name, "tokens": half if i % 2 else 3 * half} for i in range(50)]
    made = datasets.Dataset.from_list(rows)
    return made.to_iterable_dataset() if streamed else made


def long_mix(sources: dict, arguments: dict) -> list[dict]:
    """Interleaves as a reader of the file does, many times with other seeds."""
    rows: list[dict] = []
    for seed in range(1000):
        rows += datasets.interleave_datasets([*sources.values()], **{**arguments, "seed": seed})
        if len(rows) >= DRAWS:
            return rows
    raise AssertionError


def test_documents_are_drawn_so_that_tokens_have_the_weights() -> None:
    found = export(MIXTURE, ExportConfig(to="datasets"), LENGTHS)
    given = json.loads(found.text)
    assert given["names"] == ["short", "long"]
    sources = {name: documents(name, False) for name in given["names"]}
    counts: Counter[str] = Counter()
    for row in long_mix(sources, given["interleave_datasets"]):
        counts[row["domain"]] += row["tokens"]
    # 12,000 draws: the standard error of a share of tokens is 0.006.
    assert counts["short"] / counts.total() == pytest.approx(0.3, abs=0.025)
    # The token shares themselves would have given short documents far too few tokens.
    naive = 0.3 * 20 / (0.3 * 20 + 0.7 * 180)
    assert naive < 0.05


def test_sequences_have_the_weights_themselves() -> None:
    config = ExportConfig(to="datasets", samples="sequences")
    given = json.loads(export(MIXTURE, config).text)
    assert given["interleave_datasets"]["probabilities"] == [0.3, 0.7]


def test_interleave_without_a_file() -> None:
    """Of datasets that are streamed; those that are not are drawn by the file's arguments above."""
    sources = {name: documents(name, True) for name in ("short", "long", "none")}
    counts: Counter[str] = Counter()
    for seed in range(60):
        for row in interleave(MIXTURE, sources, LENGTHS, seed=seed):
            counts[row["domain"]] += row["tokens"]
    assert {*counts} == {"short", "long"}
    assert counts["short"] / counts.total() == pytest.approx(0.3, abs=0.025)
    same = interleave(MIXTURE, sources, seed=1, stopping_strategy="first_exhausted")
    assert 0 < len([*same]) < 150
    with pytest.raises(DataError, match="dataset for each domain, found none for long"):
        interleave(MIXTURE, {"short": sources["short"]}, LENGTHS)
    with pytest.raises(DataError, match="tokens per document > 0 of 'long'"):
        interleave(MIXTURE, sources, {"short": 1.0})


def test_the_user_is_told() -> None:
    rare = Mixture(names=("a", "b", "c", "d"), weights=(0.9989996, 0.001, 4e-7, 0.0))
    found = export(rare, ExportConfig(to="megatron", prefix="/data"))
    assert isinstance(found, Exported)
    assert found.dropped == ("c", "d")
    assert found.samples == "sequences"
    assert found.notes == (
        "Per token: megatron draws sequences of one length.",
        "Dropped, having no weight: d.",
        "Dropped, rounded to 0 in units of 0.000001: c.",
    )
    rough = export(rare, ExportConfig(to="nemo", prefix="/data", digits=4))
    assert rough.shares == {"a": 0.999, "b": 0.001}
    rarer = Mixture(names=("a", "b"), weights=(0.9991, 0.0009))
    told = export(rarer, ExportConfig(to="megatron", prefix="/data")).notes[-1]
    assert told.startswith("Below 0.001, older Megatron-LM ran out of samples")
    assert told.endswith(": b.")
    kept = export(rare, ExportConfig(to="levanter"))
    assert kept.dropped == ()
    assert "Kept at 0, having no weight: d." in kept.notes
    olmo = export(rare, ExportConfig(to="olmo-core", prefix="/data"))
    assert olmo.notes[0] == "Per token: olmo-core counts tokens."


def test_documents_are_told_of() -> None:
    notes = export(MIXTURE, ExportConfig(to="datasets"), LENGTHS).notes
    assert notes[0].startswith("Per document: datasets draws whole documents, so shares of tokens")
    assert notes[0].endswith("(short 20.0, long 180.0).")
    assert notes[1] == "Where it draws sequences: --samples sequences."
    config = ExportConfig(to="streaming", prefix="/data", samples="documents")
    found = export(MIXTURE, config, LENGTHS)
    np.testing.assert_allclose([*found.shares.values()], [0.794118, 0.205882])
    assert "shares of documents" in found.text


def test_what_is_missing_is_asked_for() -> None:
    with pytest.raises(DataError, match="Expected --prefix for megatron, a folder or a template"):
        export(MIXTURE, ExportConfig(to="megatron"))
    with pytest.raises(
        DataError, match="because datasets draws documents, found none: give --data"
    ):
        export(MIXTURE, ExportConfig(to="datasets"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"to": "doremi", "prefix": "/data"}, "prefix has no effect in doremi"),
        ({"to": "doremi", "max_repetition_ratio": 2.0}, "max_repetition_ratio has no effect in"),
    ],
)
def test_options_without_effect_are_told(options: dict, message: str) -> None:
    with pytest.warns(UserWarning, match=message):
        export(MIXTURE, ExportConfig(**options))
