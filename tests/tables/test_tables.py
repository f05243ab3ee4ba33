"""Tables of runs: what is read from each format, how every fault is told, and metrics."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from bydore_pyro.tables.tables import (
    ALL,
    RunsTable,
    directed,
    metric_shares,
    read_mixtures,
    read_runs,
)
from bydore_pyro.utils.errors import DataError

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
    with pytest.warns(UserWarning, match=r"2 of 3 runs sum to 0\.9990 to 1\.0100") as told:
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
        (WEIGHTS.replace("index", "id"), LOSSES, "column run or .*mixture_1m.csv, found id, t"),
        (WEIGHTS.replace("0.25,0.75", "a,b").replace("1.0,0.0", "a,b").replace("train", "x"),
         LOSSES, "columns of weights and losses .*mixture_1m.csv, found none"),
        (WEIGHTS, LOSSES + "8,1,1,1\n9,1,1,1\n", r"none of '8' in train_mixture_1m.csv \(2 in al"),
        (WEIGHTS.replace("pile_pile_cc", "pile_arxiv"), LOSSES, "column once .*'train_the_pile_ar"),
        (WEIGHTS.replace("0.25", "nan"), LOSSES, "finite .*, run '7', column 'train_.*'nan'"),
        (WEIGHTS.replace("0.25", "-0.25"), LOSSES, "weights >= 0 .* run '7', column .*found -0.25"),
        (WEIGHTS.replace("0.75", "0.76001"), LOSSES, "sum to 1 in .*found 1.01001 in run '7': is"),
        (WEIGHTS.replace("x", "\udcff"), LOSSES, "CSV file in UTF-8, found .*train_mixture_1m"),
    ],
)  # fmt: skip
def test_bad_tables_are_one_line(tmp_path: Path, weights: str, losses: str, message: str) -> None:
    for name, text in (("mixture", weights), ("pile_loss", losses)):
        (tmp_path / f"train_{name}_1m.csv").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(DataError, match=message) as raised:
        read_runs(tmp_path)
    assert "\n" not in str(raised.value)


def test_one_table_parts_where_the_sums_are_nearest_to_1(tmp_path: Path) -> None:
    """A learning rate or an error are no weights, and the last weight may be as small as one."""
    rows = "\n1,a,0.2,0.8,0,0.004,2.5\n2,b,0.6,0.4,0,0.005,2.25\n"
    table = read_runs(write(tmp_path, runs="seed,run,law,web,none,err,loss" + rows) / "runs.csv")
    assert (table.domains, table.targets) == (("law", "web"), ("none", "err", "loss"))
    rows = "\na,0.199,0.797,0.004,2.5\nb,0.599,0.396,0.005,2.25\n"
    table = read_runs(write(tmp_path, runs="run,law,web,few,loss" + rows) / "runs.csv")
    assert (table.domains, table.targets) == (("law", "web", "few"), ("loss",))


def test_runs_of_other_lengths_or_tokenizers_do_not_compare(tmp_path: Path) -> None:
    """What all runs share is neither a weight nor a target, however it is written."""
    ratios = "run,tokenizer,x,y\na,gpt2,0.5,0.5\nb,gpt2,0.25,0.75\n"
    metrics = "run,Tokens,loss\na,1000000000,1\nb,1e9,2\n"
    table = read_runs(write(tmp_path, ratios=ratios, metrics=metrics))
    assert (table.domains, table.targets) == (("x", "y"), ("loss",))
    write(tmp_path, metrics=metrics.replace("b,1e9", "b,2e9"))
    with pytest.raises(DataError, match=r"one 'tokens' in .*, found 1000000000, 2e9: loss"):
        read_runs(tmp_path)
    write(tmp_path, ratios=ratios.replace("b,gpt2", "b,other"))
    with pytest.raises(DataError, match=r"one 'tokenizer' in .*ratios.csv, found gpt2, other"):
        read_runs(tmp_path)


TABLE = RunsTable(
    runs=("r", "s"),
    domains=("a", "b"),
    weights=np.array([[0.5, 0.5], [0.2, 0.8]]),
    targets=("exam:rc::x", "code_1", "code_2", "a=b"),
    losses=np.array([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]),
)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (["code_1"], {"code_1": 1.0}),
        (["code_*"], {"code_1": 0.5, "code_2": 0.5}),
        (["exam:rc::x=2", "code_*=1"], {"exam:rc::x": 0.5, "code_1": 0.25, "code_2": 0.25}),
        (["code_*", "code_1=0", "code_2=2"], {"code_1": 0.25, "code_2": 0.75}),
        ([ALL], dict.fromkeys(TABLE.targets, 0.25)),
    ],
)
def test_names_patterns_and_weights(wanted: list[str], expected: dict[str, float]) -> None:
    shares = metric_shares(TABLE, wanted)
    assert shares == pytest.approx(expected)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("essay", "Expected one of the targets .*, found 'essay'"),
        ("code_1=x", "Expected NAME=WEIGHT with a weight >= 0, found 'code_1=x'"),
        ("code_1=0", "Expected a metric with a weight > 0, found none"),
    ],
)
def test_metrics_that_are_none(wrong: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        metric_shares(TABLE, [wrong])


SWARM = """run,loss,other,mmlu_acc,f1
a,1,,0.5,0.5
b,2,nan,,0.25
c,inf,3,0.25,0.125
"""


def test_runs_that_failed_are_left_out_where_they_are_asked_for(tmp_path: Path) -> None:
    """What is not asked for may be missing; a run of which there are weights alone failed."""
    weights = "run,x,y\na,0.5,0.5\nb,0.25,0.75\nc,1,0\nd,0,1\n"
    table = read_runs(write(tmp_path, ratios=weights, metrics=SWARM))
    assert table.runs == ("a", "b", "c", "d")
    found, told = directed(table, {"loss": 1.0})
    assert (found.runs, found.losses_of("loss").tolist()) == (("a", "b"), [1, 2])
    assert (found.weights.tolist(), told) == ([[0.5, 0.5], [0.25, 0.75]],
                                             ["left out without loss: 2 of 4 runs"])  # fmt: skip
    found, told = directed(table, {"mmlu_acc": 1.0}, ["mmlu*"])
    assert (found.runs, found.losses_of("mmlu_acc").tolist()) == (("a", "c"), [-0.5, -0.25])
    assert told == ["maximised: mmlu_acc", "left out without mmlu_acc: 2 of 4 runs"]
    both = {"loss": 0.5, "mmlu_acc": 0.5}
    with pytest.raises(DataError, match=r"of one unit, or NAME=WEIGHT .*'mmlu_acc'.*'loss'"):
        directed(table, both, ["mmlu_acc"])
    directed(table, {"loss": 0.2, "mmlu_acc": 0.8}, ["mmlu_acc"])
    with pytest.raises(DataError, match="Expected runs with loss, other, found none"):
        directed(table, {"loss": 0.5, "other": 0.5})
    write(tmp_path, metrics=SWARM.replace("inf", "five"))
    with pytest.raises(DataError, match=r"finite number .*run 'c', column 'loss', found 'five'"):
        read_runs(tmp_path)


@pytest.mark.parametrize("name", ["mmlu_acc", "pass@1", "squad/exact_match", "acc_norm,none"])
def test_a_name_that_sounds_as_if_higher_were_better_needs_a_direction(name: str) -> None:
    table = RunsTable(
        runs=("r",), domains=("a",), weights=np.ones((1, 1)), targets=("bpb", name),
        losses=np.array([[1.0, 2.0]]),
    )  # fmt: skip
    with pytest.raises(DataError, match=f"--maximize {name}, or --minimize {name}"):
        directed(table, {name: 1.0})
    assert directed(table, {"bpb": 1.0})[0].losses.tolist() == [[1, 2]]
    assert directed(table, {name: 1.0}, [name])[0].losses.tolist() == [[1, -2]]
    assert directed(table, {name: 1.0}, [], [name])[0].losses.tolist() == [[1, 2]]
    with pytest.raises(DataError, match="one direction for"):
        directed(table, {name: 1.0}, ["*"], [name])
    with pytest.raises(DataError, match=r"one of the targets .*, found 'none'"):
        directed(table, {name: 1.0}, ["none"])
