"""What goes into a store: when two plans are the same, and the text of the tokenizer."""

from __future__ import annotations

from pathlib import Path

from tiny import row, write_lines

from bydore_pyro.data.documents import CorpusConfig
from bydore_pyro.data.plan import Plan, make_plan, sample_text
from bydore_pyro.data.rows import RowConfig
from bydore_pyro.data.tokenizer import TokenizerConfig


def plan(folder: Path, megabytes: float = 32.0, **rows: str) -> Plan:
    tokenizer = TokenizerConfig(tokenizer_megabytes=megabytes)
    config = CorpusConfig(validation_fraction=0.2)
    return make_plan(str(folder), config, RowConfig(**rows), tokenizer)


def test_the_key_follows_files_and_options(tmp_path: Path) -> None:
    for name in "ab":
        write_lines(tmp_path / f"{name}.jsonl", [row(name, i) for i in range(30)])
    first = plan(tmp_path)
    assert first.domains == ["a", "b"]
    assert plan(tmp_path).key == first.key
    assert plan(tmp_path, on_error="skip").key == first.key, "the same store comes out"
    assert plan(tmp_path, megabytes=1.0).key != first.key
    assert plan(tmp_path, text_column="body").key != first.key
    write_lines(tmp_path / "b.jsonl", [row("b", i) for i in range(31)])
    assert plan(tmp_path).key != first.key
    assert first.parts["files"]["number"] == 2


def test_the_tokenizer_sees_as_much_of_every_domain_and_no_validation_text(tmp_path: Path) -> None:
    write_lines(tmp_path / "small.jsonl", [row("small", i) for i in range(100)])
    write_lines(tmp_path / "large.jsonl", [row("large", i) for i in range(2000)])
    texts = list(sample_text(plan(tmp_path, megabytes=0.1)))
    sizes = {name: sum(len(t) for t in texts if t.startswith(name)) for name in ("small", "large")}
    assert 30_000 < sizes["small"] < 55_000
    assert 50_000 <= sizes["large"] < 51_000
    everything = list(sample_text(plan(tmp_path)))
    assert 1500 < len(everything) < 1800, "a fifth is held out"


def test_a_source_of_many_domains_is_not_read_to_its_end(tmp_path: Path) -> None:
    rows = [row("x", i, kind="ab"[i % 2]) for i in range(3000)]
    write_lines(tmp_path / "all.jsonl", rows)
    texts = list(sample_text(plan(tmp_path, megabytes=0.1, domain_column="kind")))
    assert 0 < sum(map(len, texts)) <= 100_000
