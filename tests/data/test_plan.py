"""What goes into a store is known, and named, before anything is read."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from tiny import row, small_plan, write_byte_tokenizer, write_lines

from bydore_pyro.data.documents import CorpusConfig
from bydore_pyro.data.plan import Plan, make_plan, most_text, sample_text
from bydore_pyro.data.rows import RowConfig
from bydore_pyro.data.tokenizer import TokenizerConfig


def test_the_key_follows_files_and_options(tmp_path: Path) -> None:
    for name in "ab":
        write_lines(tmp_path / f"{name}.jsonl", [row(name, i) for i in range(30)])

    def plan(corpus: CorpusConfig | None = None, **rows: str) -> Plan:
        return make_plan(str(tmp_path), corpus, RowConfig(**rows))  # type: ignore[arg-type]

    first = plan()
    assert first.domains == ["a", "b"]
    assert plan().key == plan(on_error="skip").key == first.key, "the same store comes out"
    others = {plan(CorpusConfig(data_seed=1)).key, plan(text_column="body").key}
    write_lines(tmp_path / "b.jsonl", [row("b", i) for i in range(31)])
    assert len({first.key, *others, plan().key}) == 4


def test_the_tokenizer_sees_as_much_of_every_domain_and_no_validation_text(tmp_path: Path) -> None:
    def sampled(data: Path, megabytes: float, **rows: str) -> list[str]:
        plan = small_plan(data, **rows)
        config = TokenizerConfig(tokenizer_megabytes=megabytes)
        return list(sample_text(dataclasses.replace(plan, tokenizer=config)))

    write_lines(tmp_path / "text/small.jsonl", [row("small", i) for i in range(100)])
    write_lines(tmp_path / "text/large.jsonl", [row("large", i) for i in range(2000)])
    texts = sampled(tmp_path / "text", 0.1)
    sizes = {name: sum(len(t) for t in texts if t.startswith(name)) for name in ("small", "large")}
    assert 30_000 < sizes["small"] < 55_000
    assert 50_000 <= sizes["large"] < 51_000
    assert 1500 < len(sampled(tmp_path / "text", 32.0)) < 1800, "a fifth is held out"
    rows = [row("x", i, kind="ab"[i % 2]) for i in range(3000)]
    path = write_lines(tmp_path / "all.jsonl", rows)
    of_both = sampled(path, 0.1, domain_column="kind")
    assert 0 < sum(map(len, of_both)) <= 100_000, "it is not read to its end"


def test_a_sample_is_shared_equally_and_counted_in_tokens(tmp_path: Path) -> None:
    """By a tokenizer to which a byte is a token. What is not a file of a domain is one share."""
    write_byte_tokenizer(tmp_path / "bytes")
    for name in "abc":
        rows = [row(name, i, kind="xy"[i % 2]) for i in range(300)]
        write_lines(tmp_path / f"text/{name}.jsonl", rows)
    plan = make_plan(str(tmp_path / "text"), tokens=30_000)
    assert plan.corpus.cap == 4 * 10_000, "until they are measured"
    assert most_text(plan, tmp_path / "bytes") == pytest.approx(10_000, rel=0.01)
    of_rows = make_plan(str(tmp_path / "text"), rows=RowConfig(domain_column="kind"), tokens=30_000)
    assert most_text(of_rows, tmp_path / "bytes") == pytest.approx(30_000, rel=0.01)
    assert most_text(make_plan(str(tmp_path / "text")), tmp_path / "bytes") is None
    assert len({plan.key, of_rows.key, make_plan(str(tmp_path / "text"), tokens=40_000).key}) == 3
