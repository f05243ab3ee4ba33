"""Names decide the sides of a split where a train stands beside them, and nowhere else."""

from __future__ import annotations

import time

import pytest

from bydore_pyro.data.splits import (
    Named,
    check_name,
    domain_of,
    domain_parts,
    is_text,
    named_sides,
    sides_beside,
    without_word,
    word_of,
)


def sides(*paths: str) -> dict[str, str | None]:
    """The side of each file as its name decides it."""
    found = named_sides(path.split("/") for path in paths)
    return {path: named.side for path, named in zip(paths, found, strict=True) if named.side}


HELD_OUT = (
    *("validation", "valid", "val", "dev", "devset", "dev_set", "heldout", "held_out", "held-out"),
    *("holdout", "hold_out", "eval", "evaluation", "eval_set", "validation_matched", "valid_seen"),
    *("validation_mismatched", "val2017", "wiki.valid", "c4-validation.1", "law_val_0", "VAL"),
    *("dev set", "split=validation", "data (valid)", "law_val+more"),
    *("dev-00000-of-00001", "validation-00000-of-00002", "mnli_validation_matched", "val_xsmall"),
)
TESTS = (
    "test",
    "test_seen",
    "test-00000-of-00001",
    "devtest",
    "tests_seen",
    "testdev",
    "test set",
    "split=test",
)
TRAINS = (
    "train",
    "training",
    "wiki.train",
    "c4-train.0",
    "train2017",
    "split=train",
)
OTHERS = (
    *("developers", "evaluations of law", "dev notes", "valley", "interval", "testimony", "latest"),
    *("trains", "strain", "contest", "medieval", "my test", "held", "validity"),
)


@pytest.mark.parametrize("ending", ["", ".jsonl", ".txt", ".parquet", ".jsonl.gz", ".json.zst"])
def test_the_usual_names_of_sides(ending: str) -> None:
    named = {"validation": HELD_OUT, "test": TESTS, "train": TRAINS, None: OTHERS}
    for word, names in named.items():
        assert {name: word_of(name + ending) for name in names} == dict.fromkeys(names, word)


def test_a_name_without_its_side() -> None:
    names = ("train", "train.jsonl", "law_val_0", "train-0-of-2", "law_train_high", "contest")
    assert [without_word(name) for name in names] == ["", "", "law", "", "law_high", "contest"]


@pytest.mark.parametrize(
    ("names", "domains"),
    [
        ("law_train law_val law_test", "law law law"),
        ("train_law valid_law train_web test_web", "law law web web"),
        ("train validation_matched test_seen", "x x x"),
        ("train_small val", "x x"),
        ("split=train split=test", "x x"),
        ("law(train) law(dev)", "law law"),
        ("training_manuals law", "training_manuals law"),
        ("train-00000-of-00002 test-00000-of-00002", "x x"),
    ],
)
def test_the_domains_of_folders_that_name_sides(names: str, domains: str) -> None:
    paths = [(name, "a.txt") for name in names.split()]
    found = zip(paths, named_sides(paths), strict=True)
    parts = [domain_parts(path[:1], named) for path, named in found]
    assert ["".join(own) or "x" for own in parts] == domains.split()


def test_a_train_alone_is_a_side_only_where_it_says_nothing_else() -> None:
    assert sides("training_manuals/a.txt", "law_train/b.txt") == {}
    assert sides("training/a.txt", "law/b.txt") == {"training/a.txt": "train"}


@pytest.mark.parametrize("name", HELD_OUT)
@pytest.mark.parametrize("train", ["train", "wiki.train", "train-00000-of-00001"])
def test_a_name_decides_beside_a_train(name: str, train: str) -> None:
    """As a file of rows or of text, and as a folder; in the same folder, at any depth."""
    for ending in (".jsonl", ".txt", ".parquet", "/a.jsonl", "/b/c.txt"):
        pair = {f"x/{train}{ending}": "train", f"x/{name}{ending}": "validation"}
        assert sides(*pair, "x/more.jsonl") == pair
        assert sides(f"x/{name}{ending}", "x/more.jsonl", "train/y.jsonl") == {
            "train/y.jsonl": "train"
        }, "not beside it"


@pytest.mark.parametrize("name", [*HELD_OUT, *TESTS])
def test_without_a_train_no_name_decides(name: str) -> None:
    (found, other) = named_sides([(f"{name}.jsonl",), ("law.jsonl",)])
    assert found == Named(called=f"{name}.jsonl")
    assert other == Named()
    (below, _) = named_sides([("train", name, "a.jsonl"), ("train", "law.jsonl")])
    assert (below.side, below.called) == ("train", name), "a train above is none beside"


def test_kinds_of_text_that_are_cut_into_splits() -> None:
    names = ("a.jsonl", "a.txt", "A.TXT.gz", "a", "wiki.train.0", "a.train", "a.csv")
    assert all(is_text(("train", name)) for name in names)
    assert not any(is_text((name,)) for name in ("a.py", "a.md", "a.ipynb", "a.py.gz"))


def test_many_files_take_little_time() -> None:
    """Folders of shards have thousands of names of sides."""
    names = [f"{word}_{n:05}_{n}" for word in ("train", "val") for n in range(10_000)]
    start = time.process_time()
    assert sides_beside(f"{name}.bin" for name in names) == ("train_00000_0.bin", "val_00000_0.bin")
    assert len(sides(*names)) == len(names)
    assert time.process_time() - start < 5, "a square of them would take minutes"


def test_a_name_of_two_sides() -> None:
    """Beside a train it is held out; where no other is called train, it is the training text."""
    assert sides("train.txt", "train_test.txt") == {"train.txt": "train", "train_test.txt": "test"}
    assert sides("train-dev.txt", "test.txt") == {"train-dev.txt": "train", "test.txt": "test"}


def test_a_tree_of_programs_is_no_split() -> None:
    """Programs called train and eval, and folders of them among others."""
    scripts = ("train.py", "eval.py", "test.py", "dev/tool.py", "validation.py", "model.py")
    pages = ("docs/train.md", "docs/eval.md", "docs/test.html")
    folders = ("train/loop.py", "eval/score.py", "test/a.py", "setup.py", "train/requirements.txt")
    assert sides(*scripts, *pages) == {}
    assert sides(*folders, "train/more.py") == {}
    found = named_sides(path.split("/") for path in folders)
    assert set(found) == {Named()}, "and none is called so"


def test_folders_of_programs_alone_are_a_split() -> None:
    pair = {"train/a.py": "train", "valid/b.py": "validation", "test/c.py": "test"}
    assert sides(*pair, "README.md", "LICENSE") == pair


def test_the_topmost_name_for_held_out_text_decides() -> None:
    """A folder called train hides no split inside of it."""
    paths = ("train/dev/a.jsonl", "train/train/b.jsonl", "test/train/c.jsonl", "more/d.jsonl")
    found = named_sides(path.split("/") for path in paths)
    assert [(named.side, named.levels) for named in found] == [
        ("validation", (0, 1)),
        ("train", (0, 1)),
        ("test", (0, 1)),
        (None, ()),
    ]
    pair = {"training/law/train.jsonl": "train", "training/law/test.jsonl": "test"}
    assert sides(*pair) == pair


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("law", "train", "test"), ("train", "test")),
        (("law_train.jsonl", "law-valid_seen.jsonl"), ("law_train.jsonl", "law-valid_seen.jsonl")),
        (("train_law.jsonl", "val_law.jsonl"), ("train_law.jsonl", "val_law.jsonl")),
        (("train-0.parquet", "test-0.parquet"), ("train-0.parquet", "test-0.parquet")),
        (("training_manuals", "test_reports"), None),
        (("law_train.jsonl", "web_test.jsonl"), None),
        (("train", "law"), None),
        (("test", "dev"), None),
    ],
)
def test_sides_of_one_thing_beside_each_other(
    names: tuple[str, ...], found: tuple[str, str] | None
) -> None:
    assert sides_beside(names) == found


def test_a_name_of_a_hive_becomes_a_domain() -> None:
    check_name(domain_of("cluster=1/quality=0"))
