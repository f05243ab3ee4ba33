"""`bydore evaluate` as a user runs it; what scores are is tested in `tests/evaluation`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmark_data import save_model, write_benchmark, write_run
from tiny import write_lines

from bydore_pyro import answer
from bydore_pyro.cli.evaluate import evaluate_command
from bydore_pyro.errors import DataError
from bydore_pyro.evaluation import evaluate
from bydore_pyro.files.trees import read_tree, write_tree


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model, and questions of two benchmarks."""
    folder = tmp_path_factory.mktemp("trained")
    for task in ("arc_easy", "sciq"):
        write_benchmark(folder / "data", task)
    return save_model(folder / "model"), folder / "data"


def arguments(trained: tuple[Path, Path], *tasks: str) -> list[str]:
    """Three questions of tasks, without examples, asked of a model."""
    model, data = trained
    given = [str(model), "--tasks", *tasks, "--data_dir", str(data), "--device", "cpu"]
    return [*given, "--num_fewshot", "0", "--limit", "3"]


def test_scores_are_told_and_written_beside_the_model_once(
    trained: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    model, given = trained[0], arguments(trained, "arc_easy", "sciq")
    evaluate_command(given)
    captured, written = capsys.readouterr(), (model / "scores.json").read_text()
    scores = json.loads(written)
    assert {*scores["tasks"]} == {"ARC-Easy", "SciQ"}
    for name, result in scores["tasks"].items():
        assert (result["questions"], result["seed"]) == (3, 1234)
        assert f"{name}: acc_norm {result['score']:.2f}\n" in captured.err
    average = scores["average"]
    told = f"average of 2  {average['score']:6.2f} ± {average['standard_error']:.2f}"
    assert told in captured.out.splitlines()
    assert f"In {model / 'scores.json'}." in captured.out
    assert {"python", "torch", "lm-eval", "accelerate"} <= {*scores["versions"]}
    with pytest.raises(SystemExit, match="2"):
        evaluate_command(given)
    assert "Expected a new file, found" in capsys.readouterr().err
    assert (model / "scores.json").read_text() == written


def test_bits_per_byte_and_accuracy_of_other_tasks(
    trained: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a task of lm-eval, and of a file of questions and answers."""
    own = write_lines(tmp_path / "own.jsonl", [{"prompt": "A bird?", "completion": " An owl."}] * 2)
    out = tmp_path / "scores.json"
    given = arguments(trained, "task:arc_easy", str(own))
    evaluate_command([*given, "--out", str(out)])
    captured, scores = capsys.readouterr(), json.loads(out.read_text())
    choices, alone = scores["tasks"]["arc_easy"], scores["tasks"][str(own)]
    lines = captured.out.splitlines()
    told = (
        f"{choices['bits_per_byte']:.4f} ± {choices['bits_per_byte_standard_error']:.4f} bits per "
        f"byte, accuracy {choices['accuracy']:.2f} ± {choices['accuracy_standard_error']:.2f} %"
    )
    assert any(line.startswith("arc_easy ") and told in line for line in lines)
    assert any(line.endswith(f"{alone['bits_per_byte']:.4f} bits per byte") for line in lines)
    assert alone["left_out"] == {"copies of other questions": 1}
    assert any(line.startswith("mean of 2 ") for line in lines)
    mean = (choices["bits_per_byte"] + alone["bits_per_byte"]) / 2
    assert scores["mean"]["bits_per_byte"] == pytest.approx(mean)
    assert scores["average"] is None
    assert "2 answers in 2 rows" in captured.err, "how a file is read"


def test_what_a_search_predicted_stands_beside_what_is_measured(
    trained: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    refused: Callable[..., str],
) -> None:
    own = write_lines(tmp_path / "own.jsonl", [{"prompt": "A bird?", "completion": " An owl."}] * 2)
    expected = {"answer": {"own": answer.Expected(loss=6.5, low=6.25, high=6.75)}}
    record = {"expected": expected, "units": {"own": "bits per byte"}}
    run, out = write_run(tmp_path / "run", **record), str(tmp_path / "scores.json")
    evaluate_command([*arguments(trained, str(own)), "--run", str(run), "--out", out])
    captured, scores = capsys.readouterr(), json.loads(Path(out).read_text())
    assert "bits per byte; predicted 6.5000 (6.2500 to 6.7500)\n" in captured.out
    assert "trained on 5,000 tokens with its weights" in captured.err
    assert scores["run"] == str(run)
    assert scores["tasks"][str(own)]["predicted_bits_per_byte"] == 6.5
    Path(out).unlink()
    told = refused("evaluate", *arguments(trained, str(own)), "--out", out, "--run", str(tmp_path))
    assert f"Expected a finished search in {tmp_path} (--run), found none" in told


def test_contexts_are_as_long_as_the_model_was_trained(
    trained: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of documents and of benchmarks."""
    model = shutil.copytree(trained[0], tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "trained_sequence_length": 24}))
    text = str(write_lines(tmp_path / "own.jsonl", [{"text": "a bird " * 50}]))
    given = arguments((model, trained[1]), "sciq", text)
    score, lengths = evaluate._score, []

    def noted(scored: Any, *rest: Any) -> dict[str, Any]:
        lengths.append(scored.max_length)
        return score(scored, *rest)

    monkeypatch.setattr(evaluate, "_score", noted)
    for more, tokens, told in (
        ([], 24, "contexts of at most 24 tokens, the length at which the model was trained"),
        (["--sequence_length", "100"], 100, "contexts of at most 100 tokens, as --sequence_length"),
    ):
        out = tmp_path / f"{tokens}.json"
        evaluate_command([*given, *more, "--out", str(out)])
        scores = json.loads(out.read_text())
        assert scores["context"]["tokens"] == lengths[-1] == tokens
        assert (scores["tasks"][text]["tokens"], scores["tasks"][text]["cut"]) == (tokens - 1, 1)
        assert told in capsys.readouterr().err


def test_what_is_done_is_kept_and_gone_on_with(
    trained: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    refused: Callable[..., str],
) -> None:
    """Ctrl-C, and then a failure: every task that was scored is in a file, whole."""
    whole, out = tmp_path / "whole.json", tmp_path / "deep" / "scores.json"
    unfinished = tmp_path / "deep" / "scores.unfinished"
    given = [*arguments(trained, "arc_easy", "sciq"), "--out"]
    evaluate_command([*given, str(whole)])
    original = evaluate._score

    for error, code in ((KeyboardInterrupt(), 130), (DataError("too long"), 2)):

        def stop(model: Any, name: str, *rest: Any, error: BaseException = error) -> dict:
            if name == "arc_easy":
                raise error
            return original(model, name, *rest)

        with monkeypatch.context() as patch, pytest.raises(SystemExit) as exit_:
            patch.setattr(evaluate, "_score", stop)
            evaluate_command([*given, str(out)])
        assert exit_.value.code == code
        assert [path.name for path in out.parent.iterdir()] == [unfinished.name]
        key, kept = read_tree(unfinished / "task-1")
        assert kept["label"] == "SciQ"
    # Another evaluation does not go on with it.
    for name in ("model_sha256", "data_sha256", "packages", "config"):
        write_tree(unfinished / "task-1", kept, {**key, name: ""})
        told = refused("evaluate", *given, out)
        assert f"Expected {name}" in told
        assert f"with which {unfinished / 'task-1'} was saved" in told
    write_tree(unfinished / "task-1", kept, key)
    capsys.readouterr()
    evaluate_command([*given, str(out)])
    captured = capsys.readouterr()
    assert "SciQ: " not in captured.err
    assert "SciQ " in captured.out
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    first, second = (json.loads(path.read_text()) for path in (whole, out))
    assert second.pop("seconds") > kept["seconds"]
    first.pop("seconds")
    assert first == second
    assert len(first["model_sha256"]) == len(first["data_sha256"]) == 64


def test_mistakes_are_one_line(
    trained: tuple[Path, Path], tmp_path: Path, refused: Callable[..., str]
) -> None:
    model, _ = trained
    out = str(tmp_path / "scores.json")
    given = [str(model), "--out", out, "--tasks", "piqa"]
    (tmp_path / "broken" / "piqa").mkdir(parents=True)
    (tmp_path / "broken" / "piqa" / "train.jsonl").write_text("goal,label\n")
    other = str(write_lines(tmp_path / "other.jsonl", [{"body": "a bird"}]))
    own = str(write_lines(tmp_path / "own.jsonl", [{"text": "a bird"}]))
    bare = shutil.copytree(model, tmp_path / "bare")
    for path in bare.glob("*token*"):
        path.unlink()
    for arguments, message in (
        (["--tasks", "piqa"], "the following arguments are required: DIR"),
        ([str(model), "--out", "/dev/null/x.json"], "Expected a folder to write to"),
        ([*given, "--device", "tpu9"], "Expected a device of this machine, found 'tpu9'"),
        ([*given, "--tasks", "evil"], "Expected a task or group of lm-eval"),
        ([*given, "--tasks", "mmlu=.5"], "Expected tasks without a share"),
        (given, "Expected a folder DATA/piqa (--data_dir DATA), or --hub, found neither"),
        ([*given, "--tasks", other], "Expected a column 'text', or those of questions"),
        ([*given, "--tasks", own, "--sequence_length", "513"], "Expected --sequence_length <= 512"),
        ([str(bare), "--out", out, "--tasks", other], "Expected a model's folder"),
        ([*given, "--data_dir", str(tmp_path / "broken")], "piqa/train.jsonl, line 1"),
    ):
        assert message in refused("evaluate", *arguments)
    assert not list(tmp_path.glob("*scores*")), "nothing is written"
