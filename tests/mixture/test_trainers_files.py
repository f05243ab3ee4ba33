"""Weights in trainers' own files are read as they are meant; a module is never run."""

from __future__ import annotations

from pathlib import Path

import pytest

from bydore_pyro.mixture.trainers_files import (
    blend_of,
    module_weights,
    names_of_paths,
    trainers_weights,
)
from bydore_pyro.mixture.weights_files import mixture_from, numbers_of
from bydore_pyro.utils.errors import DataError

WEIGHTS = {"law": 0.5, "web": 0.5}
FILES = {
    "megatron": "0.5 /data/law_text_document\n\n 5e-1\t/data/web_text_document\n",
    "nemo": '["0.5", "/data/law.v1", "0.5", "/data/web.v1"]',
    "nanotron": "dataset_folder: [/x/law, /x/web]\ndataset_weights: [0.5, 0.5]",
    "nanotron's stage": "data_stages:\n- data: {dataset: {dataset_folder: [a/law, a/web], "
    "dataset_weights: [0.5, 0.5]}}",
    "datasets": '{"names": ["law", "web"], "interleave_datasets": {"probabilities": [0.5, 0.5]}}',
    "streaming": "streams: {law: {local: a, proportion: 0.5}, web: {proportion: 0.5}}",
    "olmo-core": "sources:\n- {source_name: law, target_ratio: 0.5, paths: [x]}\n"
    "- {source_name: web, target_ratio: 0.5}",
    "levanter": "train_weights: {law: 0.5, web: 0.5}\nmixture_block_size: 2048",
    "levanter's stage": "train_weights:\n- [100, {law: 0.5, web: 0.5}]",
    "litgpt": "import os\nPATHS = {}\nWEIGHTS = {'law': 0.5, 'web': 0.5}\nraise SystemExit",
    "regmix": "train: {/x/train_law_: 0.5, /x/train_web_: 0.5}\nvalid: {}",
}


@pytest.mark.parametrize("trainer", FILES)
def test_a_trainers_file(trainer: str, tmp_path: Path) -> None:
    (tmp_path / "weights").write_text(FILES[trainer])
    expected = {f"train_{n}": w for n, w in WEIGHTS.items()} if trainer == "regmix" else WEIGHTS
    assert mixture_from(tmp_path / "weights").as_dict() == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("train_weights:\n- [0, {a: 1}]\n- [9, {a: 1}]", "a schedule of 2 stages instead of one"),
        ("dataset_folder: [a]\ndataset_weights: [0.5, 0.5]", "1 domains and 2 weights"),
        ("sources:\n- {source_name: a}", "a trainer's file that is not whole"),
        ('["0.5", "/a", "0.5", "/a"]', "found '' twice|found 'a' twice|no domain"),
        ("[1, 2]", "no paths beside the weights"),
    ],
)
def test_what_is_not_one_mixture_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "weights").write_text(text)
    with pytest.raises(DataError, match=message) as error:
        mixture_from(tmp_path / "weights")
    assert "\n" not in str(error.value)


def test_names_are_what_paths_have_of_their_own() -> None:
    assert names_of_paths(["/d/law_text_document", "/d/lab_text_document"]) == ["law", "lab"]
    assert names_of_paths(["/data/only"]) == ["only"]
    assert names_of_paths(["a/x/train", "a/y/train"]) == ["x", "y"]
    assert names_of_paths(["law", "web"]) == ["law", "web"]


def test_what_is_none_is_told_as_such() -> None:
    assert blend_of("0.5 a\nwords here\n") is None
    assert blend_of("") is None
    assert module_weights("WEIGHTS = [1]") is None
    assert module_weights("{") is None
    assert trainers_weights({"a": 1}) == {"a": 1}


def test_numbers_may_have_underscores(tmp_path: Path) -> None:
    for name, text in (("a.yaml", "web: 60_000_000_000\nlaw: 5"), ("a.csv", "domain,weight\nweb,"
                       "60_000_000_000\nlaw,5\n")):  # fmt: skip
        (tmp_path / name).write_text(text)
        assert numbers_of(tmp_path / name) == {"web": 6e10, "law": 5}
    (tmp_path / "a.yaml").write_text("web: 6__0\n")
    with pytest.raises(DataError, match="instead of a number"):
        numbers_of(tmp_path / "a.yaml")
