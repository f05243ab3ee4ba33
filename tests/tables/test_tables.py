"""Tables of runs: what is read from each format, how every fault is told, and metrics."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from bydore_pyro.errors import DataError
from bydore_pyro.tables.tables import read_mixtures, read_runs

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
    """The split train counts, but where another table is named itself."""
    write(regmix(tmp_path), test_mixture_1m=WEIGHTS, test_pile_loss_1m=LOSSES.replace("5.5", "6"))
    table = read_runs(tmp_path)
    assert table.runs == ("7", "3")
    assert table.domains == ("arxiv", "pile_cc")
    assert table.targets == ("pile_cc", "arxiv")
    np.testing.assert_array_equal(table.weights, [[0.25, 0.75], [1, 0]])
    np.testing.assert_array_equal(table.losses, [[4.5, 4.0], [5.5, 3.25]])  # joined, not in order
    np.testing.assert_array_equal(table.losses_of("arxiv"), [4.0, 3.25])
    with pytest.raises(DataError, match="targets pile_cc, arxiv, found 'github'"):
        table.losses_of("github")
    assert read_runs(tmp_path / "test_mixture_1m.csv").losses[1, 0] == 6


@pytest.mark.parametrize("key", ["run", "run_id"])
def test_olmix_by_hand(key: str, tmp_path: Path) -> None:
    ratios, metrics = (text.replace("run", key, 1) for text in (RATIOS, METRICS))
    write(tmp_path, ratios=ratios, metrics=metrics)
    for place in (tmp_path, tmp_path / "ratios.csv"):
        table = read_runs(place)
        assert table.runs == ("a1", "a2")
        assert table.domains == ("wiki", "code")
        assert table.targets == ("bpb", "accuracy")
        np.testing.assert_array_equal(table.weights, [[0.5, 0.5], [0.125, 0.875]])
        np.testing.assert_array_equal(table.losses, [[1.1, 0.2], [0.9, -1]])
    names, rows = read_mixtures(tmp_path / "ratios.csv", ("code", "wiki"))
    assert (names, rows[1].tolist()) == (("a1", "a2"), [0.875, 0.125])
    with pytest.raises(DataError, match="found none for 'c'"):
        read_mixtures(tmp_path / "ratios.csv", ("code", "c"))


def test_rounded_rows_are_normalised_with_one_warning(tmp_path: Path) -> None:
    rounded = "index,train_a,train_b\n1,0.333,0.666\n2,0.5,0.5\n3,0.505,0.505\n"
    regmix(tmp_path, rounded, "index,a_val_loss\n1,1\n2,2\n3,3\n")
    with pytest.warns(UserWarning, match=r"2 of 3 runs do not .* at most 0\.01\)") as told:
        table = read_runs(tmp_path)
    assert len(told) == 1
    assert "train_mixture_1m.csv" in str(told[0].message)
    assert told[0].filename == __file__
    np.testing.assert_allclose(table.weights.sum(1), 1, rtol=1e-15)
    np.testing.assert_allclose(table.weights[0], [1 / 3, 2 / 3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = read_runs(tmp_path, normalise=False)
    np.testing.assert_array_equal(kept.weights[0], [0.333, 0.666])


@pytest.mark.parametrize(
    ("weights", "losses", "message"),
    [
        (
            WEIGHTS.replace("index", "id"),
            LOSSES,
            r"column that names the runs \(run, .*mixture_1m.csv, found id, t",
        ),
        (
            WEIGHTS.replace("0.25,0.75", "a,b").replace("1.0,0.0", "a,b").replace("train", "x"),
            LOSSES,
            "columns of weights in .*mixture_1m.csv, found none; neither: .*\\(text\\)",
        ),
        (WEIGHTS, LOSSES + "8,1,1,\n9,1,1,\n", r"none of '8' in train_mixture_1m.csv \(2 in al"),
        (WEIGHTS.replace("pile_pile_cc", "pile_arxiv"), LOSSES, "column once .*'train_the_pile_ar"),
        (WEIGHTS.replace("0.25", "nan"), LOSSES, "finite .*, run '7', column 'train_.*'nan'"),
        (WEIGHTS.replace("0.25", "-0.25"), LOSSES, "weights >= 0 .* run '7', column .*found -0.25"),
        (WEIGHTS.replace("0.75", "0.76001"), LOSSES, "sum to 1 in .*found 1.01001 in run '7': is"),
        (WEIGHTS.replace("x", "\udcff"), LOSSES, "CSV file in UTF-8, found .*train_mixture_1m"),
    ],
)
def test_bad_tables_are_one_line(tmp_path: Path, weights: str, losses: str, message: str) -> None:
    for name, text in (("mixture", weights), ("pile_loss", losses)):
        (tmp_path / f"train_{name}_1m.csv").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(DataError, match=message) as raised:
        read_runs(tmp_path)
    assert "\n" not in str(raised.value)


def test_runs_of_other_lengths_or_tokenizers_do_not_compare(tmp_path: Path) -> None:
    """What all runs share is neither a weight nor a target, however it is written."""
    ratios = "run,tokenizer,x,y\na,gpt2,0.5,0.5\nb,gpt2,0.25,0.75\n"
    metrics = "run,Tokens,loss\na,1000000000,1\nb,1e9,2\n"
    table = read_runs(write(tmp_path, ratios=ratios, metrics=metrics))
    assert (table.domains, table.targets) == (("x", "y"), ("loss",))
    write(tmp_path, metrics=metrics.replace("b,1e9", "b,2e9"))
    with pytest.raises(DataError, match=r"one 'Tokens' in .*, found 1000000000, 2e9: loss"):
        read_runs(tmp_path)
    write(tmp_path, ratios=ratios.replace("b,gpt2", "b,other"))
    with pytest.raises(DataError, match=r"one 'tokenizer' in .*ratios.csv, found gpt2, other"):
        read_runs(tmp_path)


def test_a_run_of_which_there_are_weights_alone_has_no_losses(tmp_path: Path) -> None:
    weights = "run,x,y\na,0.5,0.5\nb,0.25,0.75\nc,1,0\nd,0,1\n"
    swarm = "run,loss,other\na,1,\nb,2,nan\nc,inf,3\n"
    table = read_runs(write(tmp_path, ratios=weights, metrics=swarm))
    assert table.runs == ("a", "b", "c", "d")
    np.testing.assert_array_equal(table.losses_of("loss"), [1, 2, np.nan, np.nan])
    write(tmp_path, metrics=swarm.replace("inf", "five"))
    with pytest.raises(DataError, match=r"finite number .*run 'c', column 'loss', found 'five'"):
        read_runs(tmp_path)


def test_one_table_may_lack_losses_but_no_weights(tmp_path: Path) -> None:
    text = "run,x,y,loss,other_loss\na,0.5,0.5,1,\nb,0.25,0.75,,3\nc,1,0,2,4\n"
    path = write(tmp_path, runs=text) / "runs.csv"
    table = read_runs(path)
    np.testing.assert_array_equal(table.losses, [[1, np.nan], [np.nan, 3], [2, 4]])
    path.write_text(text.replace("0.25,", ","))
    with pytest.raises(DataError, match=r"finite number .*run 'b', column 'x', found ''"):
        read_runs(path)


STATES = """name,state,x,y,loss
a,finished,0.5,0.5,1
b,crashed,0.25,0.75,9
b,finished,0.25,0.75,2
c,Failed,0.1,0.9,8
d,finished,1,0,3
"""


def test_runs_that_did_not_finish_are_left_out_and_counted(tmp_path: Path) -> None:
    path = write(tmp_path, runs=STATES) / "runs.csv"
    table = read_runs(path)
    assert (table.runs, table.losses[:, 0].tolist()) == (("a", "b", "d"), [1, 2, 3])
    assert table.notes == ("left out, as their state is crashed, Failed: 2 of 5 runs",)
    path.write_text(STATES.replace("finished", "crashed"))
    with pytest.raises(DataError, match=r"Expected runs that have finished in .*, found none"):
        read_runs(path)
    for word, gone in {"killed": 1, "fine": 0}.items():  # where nothing is called finished
        for name in ("status", "Run State"):
            path.write_text(f"run,{name},x,y,loss\na,{word},0.5,0.5,1\nb,good,0.25,0.75,2\n")
            table = read_runs(path)
            assert (len(table.runs), table.targets) == (2 - gone, ("loss",))
    ratios = "run,x,y\na,0.5,0.5\nb,0.25,0.75\nc,1,0\n"
    metrics = "run,status,loss\na,completed,1\nb,running,2\nc,completed,3\n"
    table = read_runs(write(tmp_path / "..", ratios=ratios, metrics=metrics) / "ratios.csv")
    assert table.runs == ("a", "c")


def test_equal_steps_are_those_within_a_hundredth(tmp_path: Path) -> None:
    text = "run,x,y,_step,loss\na,0.5,0.5,4999,1\nb,0.25,0.75,5000,2\n"
    path = write(tmp_path, runs=text) / "runs.csv"
    assert read_runs(path).targets == ("loss",)
    path.write_text(text.replace("4999", "4000"))
    with pytest.raises(DataError, match=r"one '_step' in .*, found 4000, 5000: losses of diff"):
        read_runs(path)


def test_weights_in_percent_and_counts_are_shares(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, runs="run,x,y,loss\na,50,50,1\nb,25,75,2\n") / "runs.csv"
    assert read_runs(path).weights.tolist() == [[0.5, 0.5], [0.25, 0.75]]
    names, rows = read_mixtures(path, ("y", "x"))
    assert (names, rows.tolist()) == (("a", "b"), [[0.5, 0.5], [0.75, 0.25]])
    path.write_text("run,weights/x,weights/y,loss\na,50%,50%,1\nb,25%,75%,2\n")
    table = read_runs(path)
    assert (table.domains, table.weights[1].tolist()) == (("x", "y"), [0.25, 0.75])
    assert read_mixtures(path, ("x", "y"))[1].tolist() == [[0.5, 0.5], [0.25, 0.75]]
    assert "percent signs, taken as hundredths: weights/x, weights/y" in table.notes[0]
    path.write_text("run,corpus/X,y,x_loss\na,50,50,1\n")
    assert read_mixtures(path, ("x", "y"))[1].tolist() == [[0.5, 0.5]]
    assert "as in the runs: 'x' for 'corpus/X'" in capsys.readouterr().err
    path.write_text("run,x_loss,y\na,50,50\n")
    with pytest.raises(DataError, match=r"each of the runs' domains in .*, found none for 'x'"):
        read_mixtures(path, ("x", "y"))
    path.write_text("run,x,y,loss\na,5000,5000,1\nb,2500,7500,2\n")
    table = read_runs(path)
    assert (table.columns.unit, table.weights[1].tolist()) == (10000, [0.25, 0.75])


def test_the_runs_are_named_by_a_column_that_names_each_once(tmp_path: Path) -> None:
    path = write(tmp_path, runs="Name,run_id,x,y,loss\na,1,0.5,0.5,1\na,2,0.25,0.75,2\n")
    assert read_runs(path / "runs.csv").runs == ("1", "2")
    (path / "runs.csv").write_text(",x,y,loss\nfirst,0.5,0.5,1\nsecond,0.25,0.75,2\n")
    assert read_runs(path / "runs.csv").runs == ("first", "second")


def test_two_files_that_name_one_run_differently_are_refused(tmp_path: Path) -> None:
    """The index is the number of a row, which another order of rows changes."""
    ratios = "index,name,x,y\n0,a,0.5,0.5\n1,b,0.25,0.75\n"
    metrics = "index,name,loss\n0,b,2\n1,a,1\n"
    write(tmp_path, ratios=ratios, metrics=metrics)
    with pytest.raises(DataError, match=r"one 'name' of run '0' in both files, found 'a' in"):
        read_runs(tmp_path)
    write(tmp_path, metrics=metrics.replace("0,b", "1,b").replace("1,a", "0,a"))
    assert read_runs(tmp_path).losses[:, 0].tolist() == [1, 2]
    write(tmp_path, runs="Run Name,x,y,loss\na,0.5,0.5,1\nb,0.25,0.75,2\n")
    assert read_runs(tmp_path / "runs.csv").runs == ("a", "b")


def test_models_that_differ_are_refused(tmp_path: Path) -> None:
    def rows(**columns: list[str]) -> Path:
        names = ("run", "x", "y", *columns, "loss")
        lines = [",".join(names)]
        for number, cells in enumerate(zip(*columns.values(), strict=True)):
            lines.append(",".join((f"r{number}", "0.5", "0.5", *cells, str(number + 1))))
        return write(tmp_path, runs="\n".join(lines)) / "runs.csv"

    assert read_runs(rows(lr=["1e-3", "1e-3", "2e-3"])).columns.ignored["lr"] == "a setting"
    for name in ("tokens (B)", "Train steps", "arch"):
        with pytest.raises(DataError, match="losses of different ones do not compare"):
            read_runs(rows(**{name: ["10", "10", "20"]}))
    assert read_runs(rows(model_name=[f"my-run-{n}" for n in range(9)])).targets == ("loss",)
    with pytest.raises(DataError, match=r"found base, large: .* begin the names of the weights'"):
        read_runs(rows(model_name=["base"] * 5 + ["large"] * 4))


def test_a_table_without_metrics_says_what_its_columns_are(tmp_path: Path) -> None:
    text = "run,x,y,loss\na,0.5,0.5,3.1 nats\nb,0.25,0.75,3.2 nats\n"
    message = (
        r"columns of metrics in .*, found none; neither: run \(names the runs\); loss \(text\)"
    )
    with pytest.raises(DataError, match=message):
        read_runs(write(tmp_path, runs=text) / "runs.csv")
