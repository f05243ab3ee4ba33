"""Prefixes, folders, patterns and lists name domains, and folders their sides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bydore_pyro.errors import DataError
from bydore_pyro.shards.formats import READERS
from bydore_pyro.shards.places import Beside, Places, ShardFile, Sides, names_shards, shard_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (
        "law_text_document.idx",
        "law_text_document.bin",
        "web_text_document.idx",
        "deep/one/train/0.idx",
        "deep/one/train/more/1.idx",
        "deep/one/validation/0.idx",
        "deep/two/train-0.idx",
        "deep/two/test.idx",
        "notes/readme.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def told(domains: dict[str, Sides], folder: Path) -> dict[str, dict[str, list[str]]]:
    """Paths by domain and side."""
    return {
        name: {s: [f.path.relative_to(folder).as_posix() for f in files] for s, files in d.items()}
        for name, d in domains.items()
    }


ONE = {
    "train": ["deep/one/train/0.idx", "deep/one/train/more/1.idx"],
    "validation": ["deep/one/validation/0.idx"],
}
TWO = {"train": ["deep/two/train-0.idx"]}
LAW, WEB = {"train": ["law_text_document.idx"]}, {"train": ["web_text_document.idx"]}


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*_text_document", {"law": LAW, "web": WEB}),
        ("*_text_document.idx", {"law": LAW, "web": WEB}),
        ("deep", {"one": ONE, "two": TWO}),
        ("deep/", {"one": ONE, "two": TWO}),
        ("deep/*", {"one": ONE, "two": TWO}),
        ("deep/*/train*", {"one": {"train": ONE["train"]}, "two": TWO}),
        ("law_text_document", {"law_text_document": LAW}),
        ("law_text_*", {"document": LAW}),
    ],
)
def test_a_pattern_names_domains(pattern: str, expected: dict, folder: Path) -> None:
    assert told(shard_files(f"megatron:{folder}/{pattern}").domains, folder) == expected


def test_a_file_of_a_folder_is_a_domain_beside_its_folders(folder: Path) -> None:
    found = shard_files(f"megatron:{folder}").domains
    assert set(found) == {"law_text_document", "web_text_document", "deep"}
    file = found["law_text_document"]["train"][0]
    assert file == ShardFile(folder / "law_text_document.idx", READERS["megatron"])


def listed(folder: Path, domains: object) -> str:
    path = folder / "list.json"
    path.write_text(json.dumps({"domains": domains}))
    return str(path)


def test_a_list_names_domains(folder: Path) -> None:
    data = listed(
        folder,
        {
            "both": ["megatron:law_*", "megatron:web_text_document"],
            "one": "megatron:deep/one",
            "stars": "megatron:deep/one/*/*.idx",
            "told": {"train": "megatron:deep/two", "validation": "megatron:law_text_document.idx"},
            "exam": {"validation": "megatron:law_text_document"},
        },
    )
    assert names_shards(data)
    assert told(shard_files(data).domains, folder) == {
        "both": {"train": ["law_text_document.idx", "web_text_document.idx"]},
        "one": ONE,
        "stars": {"train": ["deep/one/train/0.idx"], "validation": ONE["validation"]},
        "told": {**TWO, "validation": LAW["train"]},
        "exam": {"train": [], "validation": LAW["train"]},
    }


def test_what_names_no_shards(folder: Path) -> None:
    assert names_shards("megatron:anything")
    for data in ("environment", str(folder), "pile:x", "hub:x", "megatron", "list.json"):
        assert not names_shards(data)
    assert not names_shards(listed(folder, {"a": "text/*.txt"}))
    with pytest.raises(DataError, match=r"shards of megatron \(\.idx\), found none for '.*lost"):
        shard_files(f"megatron:{folder}/lost*")
    mixed = listed(folder, {"a": "megatron:deep", "b": "text/b.txt"})
    with pytest.raises(DataError, match=r"in every domain, as megatron:PATH, found 'text/b\.txt'"):
        shard_files(mixed)
    with pytest.raises(DataError, match=r"found none for 'megatron:no' of 'a' in .*list\.json"):
        shard_files(listed(folder, {"a": "megatron:no"}))


def test_no_place_is_not_the_root_of_the_disk(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def searched(*_: object, **__: object) -> None:
        raise AssertionError("nothing is to be searched")

    monkeypatch.setattr("bydore_pyro.shards.places.glob.glob", searched)
    for place, message in (
        ("", "Expected a folder, prefix or pattern behind 'dolma:', found none"),
        ("s3://bucket/x", "Expected shards on a disk, .*, found an address: s3://bucket/x"),
    ):
        with pytest.raises(DataError, match=message):
            shard_files(f"dolma:{place}")
    with pytest.raises(DataError, match="found an address: s3://bucket/x"):
        shard_files(listed(folder, {"a": "dolma:s3://bucket/x"}))


def test_what_lies_beside_shards_is_told(folder: Path) -> None:
    found = shard_files(f"megatron:{folder}")
    assert isinstance(found, Places)
    assert {file.path.name: file.why for file in found.beside} == {
        "law_text_document.bin": "ending",
        "readme.txt": "ending",
        "test.idx": "test split",
    }
    assert all(file.reader is READERS["megatron"] for file in found.beside)


def sides(folder: Path, pattern: str, *names: str) -> dict[str, dict[str, list[str]]]:
    """The places of empty shards of nanoGPT by domain and side, and those that are left out."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    found = shard_files(f"nanogpt:{folder}/{pattern}")
    left_out = {file.why: [] for file in found.beside}
    for file in found.beside:
        left_out[file.why].append(file.path.relative_to(folder).as_posix())
    return told(found.domains, folder) | ({"left out": left_out} if left_out else {})


@pytest.mark.parametrize("form", ["{}.bin", "{}/0.bin", "{}/more/0.bin", "{}_000.bin"])
@pytest.mark.parametrize("name", ["val", "wiki.valid"])
def test_a_name_for_held_out_text_beside_train(name: str, form: str, tmp_path: Path) -> None:
    train, held_out, more = f"law/{form.format('train')}", f"law/{form.format(name)}", "law/x.bin"
    assert sides(tmp_path, "", train, held_out, more) == {
        "law": {"train": [train, more], "validation": [held_out]}
    }


@pytest.mark.parametrize("pattern", ["", "*", "*/", "**/*.bin"])
def test_a_test_beside_train_is_never_read(pattern: str, tmp_path: Path) -> None:
    """With and without a validation split, as a file and as a folder, in every sort of pattern."""
    files = "law/train/0.bin", "law/test_seen/0.bin", "web/train.bin", "web/test_seen.bin"
    expected = {
        "law": {"train": ["law/train/0.bin"]},
        "web": {"train": ["web/train.bin"]},
        "left out": {"test split": ["law/test_seen/0.bin", "web/test_seen.bin"]},
    }
    assert sides(tmp_path, pattern, *files) == expected
    expected["law"]["validation"] = ["law/val/0.bin"]
    assert sides(tmp_path, pattern, "law/val/0.bin") == expected


def test_without_a_train_no_name_decides(tmp_path: Path) -> None:
    """All is read, and what is called so is named."""
    files = ["law/holdout/0.bin", "law/x.bin", "train_x/y.bin"]
    found = sides(tmp_path, "", *files)
    assert found == {"law": {"train": files[:2]}, "train_x": {"train": files[2:]}}
    law = shard_files(f"nanogpt:{tmp_path}").domains["law"]["train"]
    assert [file.called for file in law] == ["holdout", None]


def test_sides_that_a_pattern_names(tmp_path: Path) -> None:
    """A star for a part of a name, for folders of any depth, and with a side above the domains."""
    llmc = "law_train_000.bin", "law_train_001.bin", "law_val_000.bin", "law_test_000.bin"
    assert sides(tmp_path / "llmc", "*_*_0*", *llmc) == {
        "law": {"train": [*llmc[:2]], "validation": [llmc[2]]},
        "left out": {"test split": [llmc[3]]},
    }
    assert sides(tmp_path / "llmc", "*_train_*") == {"law": {"train": [*llmc[:2]]}}
    deep = "train/law/0.bin", "val/law/0.bin", "test/law/0.bin", "train/web/0.bin", "val/web/0.bin"
    assert sides(tmp_path / "deep", "**/*.bin", *deep) == {
        "law": {"train": [deep[0]], "validation": [deep[1]]},
        "web": {"train": [deep[3]], "validation": [deep[4]]},
        "left out": {"test split": [deep[2]]},
    }


@pytest.mark.parametrize("names", ["train val", "law_train law_test", "train_0 val_0"])
@pytest.mark.parametrize("form", ["{}.bin", "{}/0.bin"])
def test_sides_in_place_of_domains_are_refused(names: str, form: str, tmp_path: Path) -> None:
    train, held_out = names.split()
    message = f"found names of the sides of a split, {train} and {held_out}: put the shards of"
    with pytest.raises(DataError, match=message):
        sides(tmp_path, "", form.format(train), form.format(held_out), "more.bin")


def test_a_domain_of_a_test_split_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"found a test split alone: .*web_test/0\.bin"):
        sides(tmp_path, "**/*.bin", "law_train/0.bin", "web_test/0.bin")


def test_training_text_of_a_list_without_held_out_splits(tmp_path: Path) -> None:
    """Where the list names both sides, a split in its training text is left out and counted."""
    sides(tmp_path, "", *(f"law/{name}/0.bin" for name in ("train", "val", "test")), "x/exam.bin")
    own = {"train": "nanogpt:law", "validation": "nanogpt:x/exam.bin"}
    found = shard_files(listed(tmp_path, {"law": own, "all": "nanogpt:law/test/0.bin"}))
    assert told(found.domains, tmp_path) == {
        "law": {"train": ["law/train/0.bin"], "validation": ["x/exam.bin"]},
        "all": {"train": ["law/test/0.bin"]},
    }
    assert {file.path.parent.name: file.why for file in found.beside} == {
        "val": "validation split",
        "test": "test split",
    }


def test_files_beside_tokens_are_no_shards(tmp_path: Path) -> None:
    """By the name of a file or folder from the first star on; above it the user names them."""
    for name in (
        "law/part-0.npy",
        "law/part-0.mask.npy",
        "law/seg_ids_0.npy",
        "law/Loss_Mask/part-0.npy",
        "loss_mask/part-0.npy",
    ):
        (tmp_path / "masks" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "masks" / name).touch()
    found = shard_files(f"dolma:{tmp_path}/masks")
    assert told(found.domains, tmp_path / "masks") == {"law": {"train": ["law/part-0.npy"]}}
    assert [file.why for file in found.beside] == ["no text"] * 4
    folder = tmp_path / "masks" / "law"
    assert found.beside[0] == Beside(folder / "Loss_Mask/part-0.npy", READERS["dolma"], "no text")
    with pytest.raises(DataError, match=r"no text by their names: 1 \(part-0\.mask\.npy\)"):
        shard_files(f"dolma:{folder}/*.mask.npy")
    asked = listed(tmp_path, {"law": "dolma:masks/law/part-0.mask.npy"})
    assert [file.path.name for file in shard_files(asked).domains["law"]["train"]] == [
        "part-0.mask.npy"
    ]


def test_of_numbered_shards_all_are_there(tmp_path: Path) -> None:
    for number in (0, 1, 3):
        (tmp_path / "law").mkdir(exist_ok=True)
        (tmp_path / "law" / f"train-0000{number}-of-00004.parquet").touch()
    message = r"Expected all 4 shards that .* is one of, found no .*law/train-00002-of-00004\.parq"
    with pytest.raises(DataError, match=message):
        shard_files(f"datasets:{tmp_path}")
    one = shard_files(listed(tmp_path, {"law": "datasets:law/train-00003-of-00004.parquet"}))
    assert len(one.domains["law"]["train"]) == 1
    (tmp_path / "law" / "train-00002-of-00004.parquet").touch()
    assert len(shard_files(f"datasets:{tmp_path}").domains["law"]["train"]) == 4


def test_folders_of_a_hive(tmp_path: Path) -> None:
    for place in ("cluster=1/quality=0/0.npy", "cluster=2/quality=1/0.npy"):
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).touch()
    assert set(shard_files(f"dolma:{tmp_path}").domains) == {"cluster-1", "cluster-2"}
    deep = shard_files(f"dolma:{tmp_path}/**/*.npy").domains
    assert set(deep) == {"cluster-1/quality-0", "cluster-2/quality-1"}
