"""`bydore evaluate` as a user runs it, on a model that was really trained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmark_data import write_benchmark
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from bydore_pyro.cli.evaluate import ScoresConfig, evaluate_command
from bydore_pyro.evaluation import evaluate
from bydore_pyro.utils.errors import DataError

SOUNDS = {
    **{"cow": "moo", "dog": "woof", "cat": "meow", "duck": "quack", "sheep": "baa"},
    **{"pig": "oink", "horse": "neigh", "owl": "hoot", "bee": "buzz", "snake": "hiss"},
}
PLACES = ("on the hill", "by the sea", "in the town", "near the mill", "at the fair", "at home")


def riddle(animal: str, place: str) -> str:
    return f"Which sound does the {animal} {place} make ?"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model trained for seconds on riddles, and others of them as ARC-Easy and SciQ."""
    folder = tmp_path_factory.mktemp("trained")
    pairs = [(animal, place) for animal in SOUNDS for place in PLACES]
    asked = [pair for i, pair in enumerate(pairs) if i % 4 == 3]
    texts = [
        f"Question: {riddle(*pair)}\nAnswer: {SOUNDS[pair[0]]}"
        for pair in pairs
        if pair not in asked
    ]
    words = sorted({w for text in texts for w in text.replace(":", " : ").split()})
    vocabulary = {"<end>": 0, "<unknown>": 1} | {word: i + 2 for i, word in enumerate(words)}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<unknown>"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<end>")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=128,
    )
    model = LlamaForCausalLM(config)
    tokens = tokenizer(texts, padding=False)["input_ids"]
    length = max(map(len, tokens))
    batch = torch.tensor([row + [0] * (length - len(row)) for row in tokens])
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(120):
        optimizer.zero_grad()
        model(input_ids=batch, labels=batch).loss.backward()
        optimizer.step()
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")

    def write(task: str, rows: list[dict]) -> None:
        (folder / "data" / task).mkdir(parents=True)
        (folder / "data" / task / "test.jsonl").write_text(
            "".join(json.dumps(r) + "\n" for r in rows)
        )

    sounds, arc, sciq = list(SOUNDS.values()), [], []
    for i, (animal, place) in enumerate(asked):
        right = sounds.index(SOUNDS[animal])
        choices = [sounds[(right + k) % len(sounds)] for k in range(4)]
        gold = i % 4
        choices[0], choices[gold] = choices[gold], choices[0]
        listed = {"text": choices, "label": list("ABCD")}
        question = riddle(animal, place)
        arc.append({"question": question, "choices": listed, "answerKey": "ABCD"[gold]})
        wrong = [choice for choice in choices if choice != sounds[right]]
        row = {f"distractor{k + 1}": choice for k, choice in enumerate(wrong)}
        sciq.append({**row, "support": "", "question": question, "correct_answer": sounds[right]})
    write("arc_easy", arc)
    write("sciq", sciq)
    return folder / "model", folder / "data"


def test_a_trained_model_beats_chance(
    trained: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, data = trained
    out = tmp_path / "deep" / "scores.json"
    given = ["--tasks", "arc_easy", "sciq", "--data_dir", str(data), "--num_fewshot", "0"]
    evaluate_command([str(model), *given, "--device", "cpu", "--out", str(out)])
    captured = capsys.readouterr()
    scores = json.loads(out.read_text())
    assert {*scores["tasks"]} == {"ARC-Easy", "SciQ"}
    for name, result in scores["tasks"].items():
        assert (result["questions"], result["seed"]) == (15, 1234)
        assert result["score"] >= 80.0, name  # chance is 25, give or take 11
        assert f"{name}: acc_norm {result['score']:.2f}\n" in captured.err
    average = scores["average"]
    told = f"average of 2  {average['score']:6.2f} ± {average['standard_error']:.2f}"
    assert told in captured.out.splitlines()
    assert f"In {out}." in captured.out
    assert "Traceback" not in captured.err
    assert {"python", "torch", "lm-eval", "accelerate"} <= {*scores["versions"]}
    assert list(out.parent.iterdir()) == [out]


@pytest.mark.parametrize(
    ("error", "code"),
    [(KeyboardInterrupt(), 130), (DataError("too long"), 2)],
    ids=["Ctrl-C", "failure"],
)
def test_what_is_done_is_kept_and_gone_on_with(
    error: BaseException,
    code: int,
    trained: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-C, or a failure late: every task that was scored is in a file, whole."""
    model, data = trained
    whole, out = tmp_path / "whole.json", tmp_path / "deep" / "scores.json"
    unfinished = tmp_path / "deep" / "scores.unfinished.json"
    given = [str(model), "--tasks", "arc_easy", "sciq", "--data_dir", str(data)]
    given += ["--num_fewshot", "0", "--limit", "7", "--out"]
    evaluate_command([*given, str(whole)])
    original = evaluate._score

    def stop(model: Any, name: str, *rest: Any) -> dict:
        if name == "arc_easy":
            raise error
        return original(model, name, *rest)

    capsys.readouterr()
    with monkeypatch.context() as patch, pytest.raises(SystemExit) as exit_:
        patch.setattr(evaluate, "_score", stop)
        evaluate_command([*given, str(out)])
    assert exit_.value.code == code
    assert [path.name for path in out.parent.iterdir()] == [unfinished.name]
    kept = json.loads(unfinished.read_text())
    assert [*kept["tasks"]] == ["SciQ"]
    # Another evaluation does not go on with it.
    for changes in ({"model_sha256": ""}, {"data_sha256": ""}, {"versions": {}}, {"config": {}}):
        unfinished.write_text(json.dumps({**kept, **changes}))
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            evaluate_command([*given, str(out)])
        assert exit_.value.code == 2
        line = capsys.readouterr().err
        assert f"{unfinished}, found another {next(iter(changes))}: delete" in line
        assert len(line.splitlines()) == 1
    unfinished.write_text(json.dumps(kept))
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
    trained: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model, _ = trained
    out = str(tmp_path / "scores.json")
    given = [str(model), "--out", out, "--tasks", "piqa"]
    write_benchmark(tmp_path / "part", "piqa", examples=False)
    (tmp_path / "broken" / "piqa").mkdir(parents=True)
    (tmp_path / "broken" / "piqa" / "train.jsonl").write_text("goal,label\n")
    for arguments, message in (
        ([], "Expected the folder of a model first, found nothing"),
        (["--tasks", "piqa"], "Expected the folder of a model first, found --tasks"),
        ([str(tmp_path)], "Expected a model's folder (a training leaves it in model), found"),
        ([*given, "--limit", "0"], "Expected limit >= 1, actual 0"),
        ([str(model), "--out", ""], "Expected a value for --out"),
        ([str(model), "--tusks", "x"], "unrecognized arguments: --tusks x"),
        ([str(model), "--out", "/dev/null/x.json"], "Expected a folder to write to"),
        ([*given, "--device", "tpu9"], "Expected a device of this machine, found 'tpu9'"),
        ([*given, "--tasks", "evil"], "Expected tasks one of 'pile13', 'social_iqa'"),
        (given, "Expected a folder DATA/piqa (--data_dir DATA), or --hub, found neither"),
        ([*given, "--data_dir", str(tmp_path / "broken")], "piqa/train.jsonl, line 1"),
        ([*given, "--data_dir", str(tmp_path / "part")], "No such file or directory"),
    ):
        with pytest.raises(SystemExit) as exit_:
            evaluate_command(arguments)
        assert exit_.value.code == 2
        error = capsys.readouterr().err
        assert message in error
        assert len(error.splitlines()) == 1, error
    assert not Path(out).exists()
    with pytest.raises(ValueError, match="Expected a value for --out"):
        ScoresConfig(out="")
