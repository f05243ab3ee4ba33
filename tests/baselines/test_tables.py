"""Tables of runs: what is read from each format, and how every fault is told."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path

import numpy as np
import pytest

from bydore_pyro.baselines.tables import (
    RunsTable,
    next_rows,
    read_mixtures,
    read_runs,
    some,
)
from bydore_pyro.utils.errors import DataError

SHARED = Path(__file__).parents[3] / "shared" / "regmix"

WEIGHTS = """index,train_the_pile_arxiv,train_the_pile_pile_cc,note
7,0.25,0.75,x
3,1.0,0.0,y
"""
LOSSES = """index,metric/the_pile_pile_cc_val_loss,metric/the_pile_arxiv_val_loss,step
3,5.5,3.25,
7,4.5,4.0,9
"""
RATIOS = """run,name,index,wiki,code,day
a1,first,0,0.5,0.5,monday
a2,second,1,0.125,0.875,friday
"""
METRICS = """run,name,index,bpb,accuracy
a2,second,1,0.9,-1
a1,first,0,1.1,2e-1
"""


def write(folder: Path, **files: str) -> Path:
    """Writes files by name without ending; returns the folder."""
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")
    return folder


def regmix(folder: Path, weights: str = WEIGHTS, losses: str = LOSSES) -> Path:
    return write(folder, train_mixture_1m=weights, train_pile_loss_1m=losses)


def test_regmix_by_hand(tmp_path: Path) -> None:
    table = read_runs(regmix(tmp_path), "train")
    assert table.runs == ("7", "3")
    assert table.domains == ("arxiv", "pile_cc")
    assert table.targets == ("pile_cc", "arxiv")
    np.testing.assert_array_equal(table.weights, [[0.25, 0.75], [1, 0]])
    np.testing.assert_array_equal(table.losses, [[4.5, 4.0], [5.5, 3.25]])  # joined, not in order
    np.testing.assert_array_equal(table.losses_of("arxiv"), [4.0, 3.25])
    with pytest.raises(DataError, match="targets pile_cc, arxiv, found 'github'"):
        table.losses_of("github")


def test_olmix_by_hand(tmp_path: Path) -> None:
    table = read_runs(write(tmp_path, ratios=RATIOS, metrics=METRICS), None)
    assert table.runs == ("a1", "a2")
    assert table.domains == ("wiki", "code")
    assert table.targets == ("bpb", "accuracy")
    np.testing.assert_array_equal(table.weights, [[0.5, 0.5], [0.125, 0.875]])
    np.testing.assert_array_equal(table.losses, [[1.1, 0.2], [0.9, -1]])


def test_names_without_the_pile_and_other_scales(tmp_path: Path) -> None:
    """What not all domains' names begin with stays; targets may be one or many."""
    write(
        tmp_path,
        test_mixture_60m="train_the_pile_cc,index,train_web\r\n0.5,r,0.5\r\n",
        test_pile_loss_60m="\ufeffindex,books_val_loss\nr,3\n",
    )
    for split, scale in (("test", "60m"), ("test", None), (None, None)):
        table = read_runs(tmp_path, split, scale=scale)
        assert table.domains == ("the_pile_cc", "web")
        assert table.targets == ("books",)
        assert table.losses.tolist() == [[3.0]]


def test_numbers_are_read_to_the_last_digit(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weights, losses = rng.dirichlet(np.ones(3), 50), rng.normal(5, 1, (50, 1))
    lines = [",".join(["index", *(f"train_{k}" for k in "abc")])]
    lines += [f"{n},{','.join(map(repr, row.tolist()))}" for n, row in enumerate(weights)]
    measured = ["index,x_val_loss", *(f"{n},{x!r}" for n, x in enumerate(losses[:, 0].tolist()))]
    regmix(tmp_path, "\n".join(lines), "\n".join(measured))
    table = read_runs(tmp_path, "train", normalise=False)
    np.testing.assert_array_equal(table.weights, weights)
    np.testing.assert_array_equal(table.losses, losses)


def test_rounded_rows_are_normalised_with_one_warning(tmp_path: Path) -> None:
    rounded = "index,train_a,train_b\n1,0.333,0.666\n2,0.5,0.5\n3,0.505,0.505\n"
    regmix(tmp_path, rounded, "index,a_val_loss\n1,1\n2,2\n3,3\n")
    with pytest.warns(UserWarning, match=r"2 of 3 runs sum to 0\.9990 to 1\.0100") as told:
        table = read_runs(tmp_path, "train")
    assert len(told) == 1
    assert "train_mixture_1m.csv" in str(told[0].message)
    assert told[0].filename == __file__
    np.testing.assert_allclose(table.weights.sum(1), 1, rtol=1e-15)
    np.testing.assert_allclose(table.weights[0], [1 / 3, 2 / 3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = read_runs(tmp_path, "train", normalise=False)
    np.testing.assert_array_equal(kept.weights[0], [0.333, 0.666])


@pytest.mark.parametrize(
    ("weights", "losses", "message"),
    [
        ("", LOSSES, "CSV file in UTF-8, found .*train_mixture_1m.csv: No columns"),
        ("index,train_a\n", LOSSES, "Expected runs in .*train_mixture_1m.csv, found none"),
        (WEIGHTS.replace("index", "id"), LOSSES, "column run or .*mixture_1m.csv, found id, t"),
        (WEIGHTS.replace("train", "part"), LOSSES, "columns of weights and losses .*mixture_1m"),
        (
            WEIGHTS,
            LOSSES.replace("metric/", "").replace("_val", ""),
            "columns .*pile_loss_1m",
        ),
        (WEIGHTS + "7,0.5,0.5,z\n", LOSSES, "run once in .*mixture_1m.csv, found '7' twice"),
        (WEIGHTS + "8,0.5,0.5,z\n", LOSSES, r"'8' only in train_mixture_1m.csv \(1 in all\)"),
        (
            WEIGHTS,
            LOSSES + "8,1,1,1\n9,1,1,1\n",
            r"'8' only in train_pile_loss_1m.csv \(2 in all\)",
        ),
        (WEIGHTS + ",0.5,0.5,z\n", LOSSES, "name in column 'index' of .*found none in a row"),
        (WEIGHTS.replace("pile_pile_cc", "pile_arxiv"), LOSSES, "column once .*'train_the_pile_ar"),
        (WEIGHTS, LOSSES.replace("step", "arxiv_val_loss"), "name once in .*'arxiv' twice"),
        (WEIGHTS.replace("train_the_pile_arxiv", "train_the_pile_"), LOSSES, "one without a name"),
        (WEIGHTS, LOSSES.replace("5.5", "nan"), "finite .*, run '3', column 'metric/.*'nan'"),
        (WEIGHTS, LOSSES.replace("5.5", "five"), "finite number .*found 'five'"),
        (WEIGHTS, LOSSES.replace("3,5.5,3.25,", "3,5.5"), "run '3', column 'metric/the_pile_arxi"),
        (WEIGHTS, LOSSES.replace("5.5", "5_5"), "finite number .*found '5_5'"),
        (WEIGHTS.replace("0.25", "-0.25"), LOSSES, "weights >= 0 .* run '7', column .*found -0.25"),
        (WEIGHTS.replace("0.75", "0.76001"), LOSSES, "sum to 1 in .*found 1.01001 in run '7'"),
    ],
)
def test_bad_tables_are_one_line(tmp_path: Path, weights: str, losses: str, message: str) -> None:
    regmix(tmp_path, weights, losses)
    with pytest.raises(DataError, match=message) as raised:
        read_runs(tmp_path, "train")
    assert "\n" not in str(raised.value)


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    regmix(tmp_path)
    path = tmp_path / "train_mixture_1m.csv"
    path.write_bytes(WEIGHTS.replace("x", "\xe9").encode("latin-1"))
    with pytest.raises(DataError, match=r"CSV file in UTF-8, found .*train_mixture_1m"):
        read_runs(tmp_path, "train")
    path.unlink()
    path.mkdir()
    with pytest.raises(DataError, match=r"CSV file in UTF-8, found .*train_mixture_1m"):
        read_runs(tmp_path, "train")


@pytest.mark.parametrize(
    ("files", "split", "scale", "message"),
    [
        ((), None, None, "SPLIT_mixture_SCALE.csv and SPLIT_pile_loss_SCALE.csv, or ratios.csv and "
         "metrics.csv in .*, found no table"),
        (("other",), "train", None, "train_mixture_SCALE.csv .*found other.csv"),
        (("ratios", "metrics"), "train", None, "train_mixture_SCALE.csv .*found metrics.csv, rat"),
        (("ratios",), None, None, "ratios.csv and metrics.csv in .*, found no metrics.csv"),
        (("train_mixture_1m",), "train", None, "train_pile_loss_SCALE.csv, or .*found train"),
        (("train_mixture_1m", "train_pile_loss_1m"), "test", "1m", "test_mixture_1m.csv and"),
        (("train_mixture_1m", "train_pile_loss_1m", "train_mixture_60m", "train_pile_loss_60m"),
         "train", None, "one split and scale of runs in .*found train 1m, train 60m: name"),
    ],
)  # fmt: skip
def test_what_lies_in_the_folder(
    tmp_path: Path, files: tuple[str, ...], split: str | None, scale: str | None, message: str
) -> None:
    write(tmp_path, **{name: WEIGHTS if "mixture" in name else LOSSES for name in files})
    with pytest.raises(DataError, match=message):
        read_runs(tmp_path, split, scale=scale)


def test_the_scale_chooses_and_a_missing_folder_is_told(tmp_path: Path) -> None:
    regmix(tmp_path)
    write(tmp_path, train_mixture_1B="broken", train_pile_loss_1B="broken")
    assert read_runs(tmp_path, "train", scale="1m").runs == ("7", "3")
    for place in (tmp_path / "none", tmp_path / "train_pile_loss_1m.csv"):
        with pytest.raises(DataError, match=r"folder or a CSV file|a finite number"):
            read_runs(place, "train")


def test_many_names_are_cut_for_a_message() -> None:
    assert some([*"abc"], 2) == "a, b and 1 more"


def test_columns_in_another_order() -> None:
    table = RunsTable(
        runs=("1", "2"),
        domains=("a", "b"),
        weights=np.array([[0.5, 0.5], [0.0, 1.0]]),
        targets=("x", "y", "z"),
        losses=np.arange(6.0).reshape(2, 3),
    )
    other = table.ordered(("b", "a"), ("z", "x"))
    assert (other.domains, other.targets) == (("b", "a"), ("z", "x"))
    np.testing.assert_array_equal(other.weights, [[0.5, 0.5], [1, 0]])
    np.testing.assert_array_equal(other.losses, [[2, 0], [5, 3]])
    with pytest.raises(DataError, match="same domains, found 'c' on one side only"):
        table.ordered(("a", "b", "c"), ("x",))
    with pytest.raises(DataError, match="found 'w'"):
        table.ordered(("a", "b"), ("w",))


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"the runs of RegMix are not in {SHARED}")
def test_the_runs_of_regmix() -> None:
    for split, count in (("train", 512), ("test", 256)):
        with pytest.warns(UserWarning, match=f"of {count} runs sum to 0.99"):
            runs = read_runs(SHARED, split, scale="1m")
        assert runs.weights.shape == (count, 17)
        assert runs.losses.shape == (count, 13)
        assert runs.domains[:2] == ("arxiv", "freelaw")
        assert runs.targets[8] == "pile_cc"
        assert 1 < runs.losses.min() < runs.losses.max() < 10


def test_run_id_names_the_runs_as_well(tmp_path: Path) -> None:
    ratios, metrics = (text.replace("run,", "run_id,", 1) for text in (RATIOS, METRICS))
    table = read_runs(write(tmp_path, ratios=ratios, metrics=metrics), None)
    assert table.runs == ("a1", "a2")
    assert table.domains == ("wiki", "code")


def test_a_numeric_column_that_is_no_domain_is_named(tmp_path: Path) -> None:
    ratios = RATIOS.replace("monday", "1000").replace("friday", "1000").replace("day", "steps")
    with pytest.raises(DataError, match=r"found 1001 in run 'a1': is every column"):
        read_runs(write(tmp_path, ratios=ratios, metrics=METRICS), None)


def test_a_table_may_be_named_itself(tmp_path: Path) -> None:
    for split, loss in (("train", 1.0), ("test", 2.0)):
        (tmp_path / f"{split}_mixture_1m.csv").write_text("index,train_a,train_b\n0,0.25,0.75\n")
        text = f"index,metric/exam\n0,{loss}\n"
        (tmp_path / f"{split}_pile_loss_1m.csv").write_text(text)
    found = read_runs(tmp_path / "test_mixture_1m.csv", None)
    assert found.losses.tolist() == [[2.0]]
    (tmp_path / "ratios.csv").write_text("run,a,b\nr,0.2,0.8\n")
    (tmp_path / "metrics.csv").write_text("run,exam\nr,3\n")
    assert read_runs(tmp_path / "ratios.csv", "train").losses.tolist() == [[3.0]]
    names, rows = read_mixtures(tmp_path / "ratios.csv", ("b", "a"))
    assert (names, rows.tolist()) == (("r",), [[0.8, 0.2]])
    with pytest.raises(DataError, match="found none for 'c'"):
        read_mixtures(tmp_path / "ratios.csv", ("a", "c"))


def test_weights_and_losses_may_stand_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "swarm.csv"
    path.write_text("name,web,law,code,exam,essay\nr,0.2,0.8,0,3,0.5\ns,0.5,0.3,0.2,2,0.1\n")
    table = read_runs(path)
    assert (table.domains, table.targets) == (("web", "law", "code"), ("exam", "essay"))
    assert table.losses.tolist() == [[3, 0.5], [2, 0.1]]
    path.write_text("index,train_web,train_law,metric/exam\nr,0.2,0.8,3\n")
    assert read_runs(path).targets == ("exam",)
    path.write_text("name,web,law\nr,0.2,0.9\n")
    with pytest.raises(DataError, match="columns of weights, which sum to 1, and then columns of"):
        read_runs(path)


@pytest.mark.parametrize(
    ("name", "header", "row", "losses", "split", "names"),
    [
        ("ratios.csv", "name,run,web,law,code,size", "x,{},0.5,0.25,0.25,big",
         "metrics.csv", None, ("a", "next-1", "next-3", "next-4")),
        ("train_mixture_1m.csv", "index,train_web,train_law,train_code", "{},0.5,0.25,0.25",
         "train_pile_loss_1m.csv", "train", ("7", "9", "10", "11")),
    ],
)  # fmt: skip
def test_its_rows_are_read_as_further_runs(
    name: str, header: str, row: str, losses: str, split: str | None, names: tuple[str, ...],
    tmp_path: Path,
) -> None:  # fmt: skip
    table, key = tmp_path / name, "run" if split is None else "index"
    table.write_text("\n".join([header, *(row.format(run) for run in names[:2])]) + "\n")
    measured = tmp_path / losses
    measured.write_text(f"{key},metric/exam\n" + "".join(f"{run},3.5\n" for run in names[:2]))
    known = read_runs(tmp_path, split)
    assert known.runs == names[:2]
    mixtures = np.array([[0.1, 0.2, 0.7], [1 / 3, 2 / 3, 0.0]])
    # In another order than the table's: law, code, web.
    text = next_rows(known.ordered(("law", "code", "web"), known.targets), mixtures)
    first, rows = text.split("\n", 1)
    assert first == header
    table.write_text(table.read_text() + rows)
    measured.write_text(measured.read_text() + "".join(f"{run},3\n" for run in names[2:]))
    read = read_runs(tmp_path, split)
    assert read.runs == names
    assert read.domains == ("web", "law", "code")
    np.testing.assert_allclose(read.weights[2:], mixtures[:, [2, 0, 1]], rtol=1e-15)


@pytest.mark.parametrize("losses", [[2.0, 2 + 4e-16, 2 - 4e-16], [1e-300, 3e-300, 2e-300]])
def test_losses_that_differ_by_rounding_alone_are_refused(losses: list[float]) -> None:
    table = RunsTable(
        runs=("a", "b", "c"),
        domains=("law", "web"),
        weights=np.array([[0.1, 0.9], [0.5, 0.5], [0.9, 0.1]]),
        targets=("exam",),
        losses=np.array(losses)[:, None],
    )
    with pytest.raises(DataError, match="Expected exam to differ between runs"):
        table.check("exam")
    dataclasses.replace(table, losses=np.array([[2.0], [2.1], [2.2]])).check("exam")
