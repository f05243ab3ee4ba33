"""Names tell sides and domains."""

from __future__ import annotations

from pathlib import Path

import pytest

from bydore_pyro.data.names import check_name, domain_of, side_of, split_named


@pytest.mark.parametrize(
    ("path", "side"),
    [
        ("a.txt", "train"),
        ("train/dev notes.md", "train"),
        ("more/validation-00000-of-00001.parquet", "validation"),
        ("test/a.jsonl", None),
        ("validation_small.jsonl", "validation"),
        ("c4-validation.00000-of-00008.json.gz", "validation"),
        ("held_out.parquet", "validation"),
        ("valley/interval.txt", "train"),
        ("developers/evaluations of law.txt", "train"),
    ],
)
def test_names_tell_a_side(path: str, side: str | None) -> None:
    assert side_of(Path(path).parts) == side


def test_folders_of_sides_are_no_part_of_a_domains_name() -> None:
    named = ("train", "train_small", "Training", "val", "val_xsmall", "validation", "test", "eval")
    assert all(map(split_named, named))
    assert not any(map(split_named, ("law", "train notes", "trains", "developers")))


def test_a_name_of_a_hive_becomes_a_domain() -> None:
    check_name(domain_of("cluster=1/quality=0"))
