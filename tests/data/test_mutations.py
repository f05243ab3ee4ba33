"""Whatever happens to one file of text: the same store comes out, or a line refuses it by name, or
the table that `bydore prepare` prints tells another count."""

from __future__ import annotations

import csv
import gzip
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import strategies as st
from mutations import DAMAGES, damage, under_mutations
from pyarrow import parquet
from tiny import lines_told, row, write_byte_tokenizer

from bydore_pyro.cli.prepare import store_table
from bydore_pyro.data.documents import CorpusConfig
from bydore_pyro.data.plan import make_plan
from bydore_pyro.data.preparation import prepare
from bydore_pyro.data.rows import RowConfig
from bydore_pyro.data.tokenizer import TokenizerConfig

EXAMPLES = int(os.environ.get("MUTATIONS", "25")) // 2  # of each format
FORMS = (".jsonl", ".json.gz", ".csv", ".parquet", ".txt")


def write(path: Path, rows: list[dict]) -> None:
    """Writes rows in the form of the path's ending."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(one) + "\n" for one in rows).encode()
    if path.suffix == ".parquet":
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([["text"], *([one["text"]] for one in rows)])
    elif path.suffix == ".txt":
        path.write_text("\n".join(one["text"] for one in rows))
    else:
        path.write_bytes(gzip.compress(lines) if path.suffix == ".gz" else lines)


def mutate(folder: Path, draw: Callable[[Any], Any]) -> str:
    """Does one thing to one file; returns what."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    file = draw(st.sampled_from(files))
    other = draw(st.sampled_from([one for one in files if one != file]))
    what = draw(st.sampled_from(DAMAGES))
    damage(file, other, what, draw)
    return f"{what} {file.relative_to(folder)}"


@pytest.mark.parametrize("form", FORMS)
def test_no_mutation_of_text_passes_in_silence(form: str, tmp_path: Path) -> None:
    sound, folder, out = tmp_path / "sound", tmp_path / "text", tmp_path / "store"
    tokenizer = TokenizerConfig(tokenizer=str(write_byte_tokenizer(tmp_path / "bytes")))
    for number, name in enumerate(("birds", "law", "web")):
        for part, place in enumerate(("train-0", "train-1", "validation-0")):
            rows = [row(f"{name}{part}", i) for i in range(2 + 2 * number + part)]
            write(sound / name / f"{place}{form}", rows)

    def outcome() -> tuple[dict[str, str], list[str]]:
        shutil.rmtree(out, ignore_errors=True)
        corpus = CorpusConfig(domain_megabytes=0)
        with lines_told() as told:
            plan = make_plan(str(folder), corpus, RowConfig(), tokenizer)
        store = prepare(plan, out)
        domains = store.index["domains"]
        hashes = {
            f"{n} {s}": domains[n][s]["sha256"] for n in domains for s in ("train", "validation")
        }
        return hashes, [*told, store_table(store)]

    seen = under_mutations(sound, folder, mutate, outcome, EXAMPLES)
    assert seen["refused"] > 0
    assert seen["told"] > 0
