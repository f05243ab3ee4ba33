"""Exported shares, measured: what `datasets` draws by them, and what the user is told."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path

import datasets
import numpy as np
import pytest
from tiny import write_byte_tokenizer, write_lines

from bydore_pyro.data.documents import CorpusConfig
from bydore_pyro.data.plan import make_plan
from bydore_pyro.data.preparation import prepare
from bydore_pyro.data.rows import RowConfig
from bydore_pyro.data.store import TokenStore
from bydore_pyro.data.tokenizer import TokenizerConfig
from bydore_pyro.errors import DataError, RunFolderError
from bydore_pyro.export.formats import ExportConfig
from bydore_pyro.export.write import Exported, export, export_from, index_of_run
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.mixture.units import Supply

MIXTURE = Mixture(names=("short", "long", "none"), weights=(0.3, 0.7, 0.0))
MEANS = {"short": 20.0, "long": 180.0, "none": 50.0}  # tokens per document
LENGTHS = {name: Supply(mean * 50, 50, "rows") for name, mean in MEANS.items()}
DRAWS = 12_000


def documents(name: str) -> datasets.Dataset:
    """Documents of 10 and 30 tokens, or of 90 and 270: known lengths that differ."""
    half = int(MEANS[name]) // 2
    rows = [{"domain": name, "tokens": half if i % 2 else 3 * half} for i in range(50)]
    return datasets.Dataset.from_list(rows)


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
    sources = {name: documents(name) for name in given["names"]}
    counts: Counter[str] = Counter()
    for row in long_mix(sources, given["interleave_datasets"]):
        counts[row["domain"]] += row["tokens"]
    # 12,000 draws: the standard error of a share of tokens is 0.006.
    assert counts["short"] / counts.total() == pytest.approx(0.3, abs=0.025)
    # The token shares themselves would have given short documents far too few tokens.
    naive = 0.3 * 20 / (0.3 * 20 + 0.7 * 180)
    assert naive < 0.05


def token_shares(shares: dict[str, float], rows: dict[str, list[int]]) -> dict[str, float]:
    """What a trainer reads that draws a domain by its share, and one of its rows by chance."""
    rng = np.random.default_rng(0)
    drawn = rng.choice(len(shares), 1_000_000, p=[*shares.values()])
    counts = np.bincount(drawn, minlength=len(shares))
    tokens = {n: rng.choice(rows[n], c).sum() for n, c in zip(shares, counts, strict=True)}
    return {name: float(count) / sum(tokens.values()) for name, count in tokens.items()}


@pytest.mark.parametrize("novels", ["files", "rows"])
def test_novels_and_short_rows_get_the_tokens_of_their_weights(novels: str, tmp_path: Path) -> None:
    """However the store cuts, samples and drops text: whole novels are drawn, and all rows."""
    text, rng = tmp_path / "text", np.random.default_rng(1)
    lines = [" ".join(rng.choice(list("abcdefgh"), 30)) for _ in range(1500)]
    long = ["\n".join(rng.choice(lines, 500 + 60 * i)) for i in range(29)]
    short = [f"{i:04} {'word ' * (4 + i % 60)}".strip() for i in range(3000)]
    short += short[:200]  # copies, which a store drops and a trainer draws
    write_lines(text / "short.jsonl", [{"text": row} for row in short])
    if novels == "rows":
        write_lines(text / "long.jsonl", [{"text": novel} for novel in long])
    else:
        (text / "long").mkdir()
        for number, novel in enumerate(long):
            (text / "long" / f"{number}.txt").write_text(novel)
    corpus = CorpusConfig(domain_megabytes=0.2 if novels == "files" else 0, shortest_document=30)
    tokenizer = TokenizerConfig(tokenizer=str(write_byte_tokenizer(tmp_path / "bytes")))
    prepare(make_plan(str(text), corpus, RowConfig(), tokenizer), tmp_path / "store")
    (tmp_path / "weights.json").write_text('{"long": 0.5, "short": 0.5}')
    rows = {"long": [*map(len, long)], "short": [*map(len, short)]}  # a byte is a token
    for to in ("datasets", "streaming", "torchtitan", "doremi"):
        config = ExportConfig(
            to=to,
            samples="documents",
            data=str(tmp_path / "store"),
            prefix="/data" if to == "streaming" else None,
        )
        found = export_from(str(tmp_path / "weights.json"), config)
        tokens = token_shares(found.shares, rows)
        assert tokens == pytest.approx({"long": 0.5, "short": 0.5}, abs=0.03)
        assert f"of 29 {novels}" in found.notes[0]
        assert found.shares["long"] < 0.01


def test_a_run_without_counts_is_refused(corpus: TokenStore, tmp_path: Path) -> None:
    mixture = Mixture(names=("birds", "greek"), weights=(0.5, 0.5))
    (tmp_path / "mixture.json").write_text(mixture.to_json())
    index = {**corpus.index}
    (tmp_path / "manifest.json").write_text(json.dumps(index))
    shares = export_from(str(tmp_path), ExportConfig(to="datasets")).shares
    for name in ("mixture.json", "given_mixture.json"):  # the run's, and of an answer the user's
        (tmp_path / name).write_text(mixture.to_json())
        assert export_from(str(tmp_path / name), ExportConfig(to="datasets")).shares == shares
    del index["units"]
    (tmp_path / "manifest.json").write_text(json.dumps(index))
    with pytest.raises(DataError, match="Expected the number of rows or files that 'birds' has"):
        export_from(str(tmp_path), ExportConfig(to="datasets"))
    tokens = ExportConfig(to="datasets", samples="sequences")
    assert export_from(str(tmp_path), tokens).shares == {"birds": 0.5, "greek": 0.5}


def test_a_tiny_share_of_documents_is_not_rounded_away() -> None:
    lengths = {
        "short": Supply(10.0 * 10**6, 10**6, "rows"),
        "long": Supply(5e7 * 3, 3, "files"),
    }
    mixture = Mixture(names=("short", "long"), weights=(0.5, 0.5))
    found = export(mixture, ExportConfig(to="datasets"), lengths)
    assert found.shares["long"] == pytest.approx(10 / 5e7, rel=0.01)


def test_the_user_is_told() -> None:
    rare = Mixture(names=("a", "b", "c", "d"), weights=(0.9989996, 0.001, 4e-7, 0.0))
    found = export(rare, ExportConfig(to="megatron", prefix="/data"))
    assert isinstance(found, Exported)
    assert found.notes == (
        "Per token: megatron draws sequences of one length.",
        "Dropped, having no weight: d.",
        "Dropped, rounded to 0 in units of 0.000001: c.",
    )
    rarer = Mixture(names=("a", "b"), weights=(0.9991, 0.0009))
    told = export(rarer, ExportConfig(to="megatron", prefix="/data")).notes[-1]
    assert told.startswith("Below 0.001, older Megatron-LM ran out of samples")
    assert told.endswith(": b.")
    kept = export(rare, ExportConfig(to="levanter"))
    assert "Kept at 0, having no weight: d." in kept.notes
    olmo = export(rare, ExportConfig(to="olmo-core", prefix="/data"))
    assert olmo.notes[0] == "Per token: olmo-core counts tokens."


def test_domains_that_are_never_sampled_are_named() -> None:
    """Of levanter's largest block a domain gets its share, rounded down."""
    rare = Mixture(names=("a", "b"), weights=(0.99998, 0.00002))
    notes = export(rare, ExportConfig(to="levanter")).notes
    assert notes[-1] == "Never sampled, since 32768 samples are shared out at once: b."
    others = export(rare, ExportConfig(to="nemo", prefix="/data")).notes
    assert not any(note.startswith("Never") for note in others)


def test_a_file_of_weights_is_written_with_its_notes(tmp_path: Path) -> None:
    place, doremi = tmp_path / "mixture.json", ExportConfig(to="doremi")
    noted = dataclasses.replace(MIXTURE, notes=("Nothing like it was run.",))
    place.write_text(noted.to_json())
    found = export_from(str(place), doremi)
    assert found.text == export(MIXTURE, doremi).text
    assert found.notes[0] == noted.notes[0]


def test_what_a_run_noted_of_its_text(tmp_path: Path) -> None:
    assert index_of_run(tmp_path) is None, "an unfinished run, or none"
    noted = {"domains": {"a": {}}, "tokenizer_sha256": "t", "sha256": "s"}
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({**noted, "domain_tokens": {"a": 5}}))
    found = index_of_run(tmp_path)
    assert found == index_of_run(tmp_path / "mixture.json")
    assert found is not None
    assert (found["domains"], found["domain_tokens"]) == ({"a": {}}, {"a": 5.0})
    for damaged in ({"domains": {}}, {**noted, "domain_tokens": {"a": "many"}}, [1]):
        path.write_text(json.dumps(damaged))
        with pytest.raises(RunFolderError, match=r"Expected a run's manifest, found .*") as error:
            index_of_run(tmp_path)
        assert "\n" not in str(error.value)
