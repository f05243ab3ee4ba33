"""Names of shards: which hold no text, and which are missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from bydore_pyro.errors import DataError
from bydore_pyro.shards.names import holds_no_text, missing_numbers, require_all


@pytest.mark.parametrize(
    "name",
    [
        "part-0.mask",
        "mask_0",
        "Loss_Mask",
        "lossMask-3",
        "attention_mask.0",
        "attn_mask",
        "labels",
        "train_labels_001",
        "0.label",
        "position_ids",
        "PositionIds_0",
        "pos_ids",
        "seg_ids_",
        "segment_ids-00",
        "doc_ids",
        "document_idx",
        "docids",
        "token_type_ids_3",
        "cu_seqlens",
        "doc_lengths",
        "offsets",
        "x-document_index",
        "sample_idx",
        "loss_weights",
        "domain_ids",
    ],
)
def test_names_of_files_without_text(name: str) -> None:
    assert holds_no_text((), name)


@pytest.mark.parametrize(
    "name",
    [
        "part-0",
        "input_ids",
        "token_ids_part_0000",
        "tokens",
        "damask",
        "composition",
        "position",
        "docs_0",
        "segments",
        "law_train_000001",
        "documents",
        "text_document",
        "unmasked",
        "index",
        "weights_of_history",
        "sequences",
    ],
)
def test_names_of_files_with_text(name: str) -> None:
    assert not holds_no_text((), name)


def test_a_folder_says_it_for_its_files() -> None:
    for folder in (
        "loss_mask",
        "Labels",
        "train_labels",
        "position-ids",
        "mask_0",
        "doc_ids_train",
    ):
        assert holds_no_text(("law", folder), "part-0")
    for folder in (
        "food_labels",
        "source_id=3",
        "domain_id_3",
        "input_ids",
        "masked_language",
        "law",
    ):
        assert not holds_no_text((folder, "more"), "part-0")


def touched(folder: Path, *names: str) -> list[tuple[str, Path]]:
    """The domain is the first folder."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return [(name.partition("/")[0], folder / name) for name in names]


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (["a/x-00000-of-00002.npy", "a/x-00001-of-00002.npy"], None),
        (["a/x-00000-of-00002.npy"], "a/x-00001-of-00002.npy"),
        (["a/x-00001-of-00002.npy"], "a/x-00000-of-00002.npy"),
        (["a/1_of_2.npy", "a/2_of_2.npy"], None),
        (["a/2of2.npy"], "a/1of2.npy"),
        (["a/s-0-of-2/index.json"], "a/s-1-of-2/index.json"),
        (["a/x-0-of-2.npy", "b/x-0-of-2.npy", "b/x-1-of-2.npy"], "a/x-1-of-2.npy"),
        (["a/train/x-0-of-2.npy", "a/validation/x-1-of-2.npy"], None),
        (["a/train/0-of-2.npy", "a/val/0-of-2.npy", "a/val/1-of-2.npy"], "a/train/1-of-2.npy"),
        (["a/train-0-of-2.npy", "a/val-0-of-2.npy", "a/val-1-of-2.npy"], "a/train-1-of-2.npy"),
        (["a/2019/0-of-2.npy", "a/2020/0-of-2.npy", "a/2020/1-of-2.npy"], "a/2019/1-of-2.npy"),
        (["a/part-3.npy", "a/out-of-4.npy", "a/0-of-0.npy"], None),
    ],
)
def test_of_a_numbered_set_all_are_there(
    names: list[str], missing: str | None, tmp_path: Path
) -> None:
    files, depth = touched(tmp_path, *names), len(tmp_path.parts)
    if missing is None:
        require_all(files, depth)
        return
    with pytest.raises(DataError, match=f"found no {tmp_path / missing}; a list of domains can"):
        require_all(files, depth)
    require_all(files, depth + 3)  # the user names it
    touched(tmp_path, missing)
    require_all(files, depth)


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (["a/part-0.npy", "a/part-1.npy", "a/part-3.npy"], ["a/part-2.npy"]),
        (["a/x_001.bin", "a/x_002.bin", "a/x_005.bin"], ["a/x_003.bin", "a/x_004.bin"]),
        (["a/0/index.json", "a/1/index.json", "a/3/index.json"], ["a/2/index.json"]),
        (["a/train/0.ds", "a/validation/1.ds", "a/train/2.ds"], []),
        (["a/train_0.ds", "a/val_1.ds", "a/train_2.ds", "a/train_4.ds"], ["a/train_3.ds"]),
        (["a/0.ds", "b/1.ds", "a/2.ds", "a/3.ds"], ["a/1.ds"]),
        (["a/0.ds", "a/2.ds"], []),
        (["a/c-5.ds", "a/c-17.ds", "a/c-90.ds"], []),
        (["a/0-of-9.ds", "a/1-of-9.ds", "a/3-of-9.ds"], []),
    ],
)
def test_gaps_between_numbers(names: list[str], missing: list[str], tmp_path: Path) -> None:
    found = list(missing_numbers(touched(tmp_path, *names)))
    assert [path.relative_to(tmp_path).as_posix() for _, path in found] == missing
    assert {domain for domain, _ in found} <= {"a"}
