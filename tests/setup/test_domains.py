"""Options become tokens, domains and caps; what is wrong shows before anything long starts."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from quick import PROXY
from task_files import olmes_file
from tiny import documents_in, row, write_lines

from bydore_pyro.command_line.command_line import parse_options
from bydore_pyro.data.store import open_store
from bydore_pyro.errors import DataError
from bydore_pyro.setup.cautions import CAUTIONS
from bydore_pyro.setup.domains import (
    belongs_of,
    branches_belong_of,
    domains_of,
    hashes_of,
    language_model,
    load_domains,
    processes,
    proxy_of,
    with_targets,
    with_targets_of,
)
from bydore_pyro.setup.options import SMOKE, Options


def options(store: Path, *more: str) -> Options:
    given = ["--smoke", "--data", str(store), "--validation", "a", *more]
    return parse_options(given, "test", "", Options, smoke=SMOKE)


def test_options_become_domains(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = options(store, "--max_epochs", "2", "--target_tokens", "9000")
    domains = load_domains(given)
    other = domains_of(given, domains.corpus, seed=1)
    assert not torch.equal(other.signal_batch(2), domains.signal_batch(2))
    assert "without effect" not in capsys.readouterr().err, "nobody asked for --smoke's cap"
    every = domains_of(options(store, "--validation", "all"), domains.corpus, 0)
    assert every.validation_shares == dict.fromkeys("abc", 1 / 3)


def test_what_cannot_be_read_is_refused_before_anything_long(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.md").write_text("words")
    for name, message in (("notes.md", r"or of text \(\.txt\)"), ("lost.txt", "found none: lost")):
        with pytest.raises(DataError, match=f"{message}.*"):
            load_domains(options(store, "--validation", name))


def test_a_search_keeps_what_it_measures(store: Path) -> None:
    """By gradient matching; Algorithm 1, and all other methods, train on everything."""
    matching = options(store)
    domains = load_domains(matching)
    most = matching.search.measured_sequences(3)
    total = domains_of(matching, domains.corpus, 0).sequences()
    kept = dict(zip(domains.names, domains.measurable().tolist(), strict=True))
    for name in domains.names:
        left = domains.checked[name]
        assert kept[name] + left == min(most, total[name] // 3)
        assert left == min(2, min(most, total[name] // 3) // 4), "--smoke checks on two"
        assert domains.sequences()[name] == total[name], "a run reads all of it"
    linear = domains_of(options(store, "--evidence", "linear"), domains.corpus, 0, search=True)
    assert linear.sequences() == total
    of_two = domains_of(options(store, "--domains", "a", "b"), domains.corpus, 0, search=True)
    assert of_two.names == ("a", "b")
    assert of_two.measurable().max() <= matching.search.measured_sequences(2)


def test_options_become_a_model_and_processes(store: Path) -> None:
    given = options(store)
    one, same, other = (language_model(given, 300, seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(value, same[name]) for name, value in one.items())
    assert not all(torch.equal(value, other[name]) for name, value in one.items())
    assert processes(given).count == 1
    proxy = proxy_of(given, load_domains(given))
    assert (proxy.steps, proxy.parallel.count) == (0, 1)


def test_a_file_of_rows_is_a_validation_set_beside_the_data(store: Path, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "exam.jsonl", [row("abcde", n) for n in range(9)])
    both = options(store, "--validation", f"{path}=3", "a=1")
    domains = load_domains(both)
    assert domains.names == ("a", "b", "c")
    assert domains.validation_shares == {"exam": 0.75, "a": 0.25}
    again = domains_of(both, domains.corpus, 0)
    for name, target in domains.targets.items():
        assert torch.equal(again.targets[name].tokens, target.tokens)


def test_columns_of_targets_beside_a_store(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Options of rows have an effect on the files of a target; without such a file, none."""
    path = write_lines(
        tmp_path / "exam.jsonl", [{**row("abcde", n), "ask": "no"} for n in range(9)]
    )
    load_domains(options(store, "--text_column", "ask"))
    told = f"without effect on the token store {store}: text_column ask"
    assert told in capsys.readouterr().err
    load_domains(options(store, "--validation", str(path), "--text_column", "text"))
    told = capsys.readouterr().err
    assert "without effect" not in told
    assert "text is read from the column 'text', not from ask" in told
    wrong = options(store, "--validation", str(path), "--text_column", "none")
    with pytest.raises(DataError, match=r"a column 'none', found text, ask \(--text_column names"):
        load_domains(wrong)
    assert load_domains(wrong, text_column="text").validation_shares == {"exam": 1.0}


def test_a_target_in_the_training_text_is_told_and_left_out(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = documents_in(open_store(store))["train"]
    fresh = [row("abcde", number)["text"] for number in range(6)]
    texts = [*trained["a"][:3], *trained["c"][:1], *fresh]
    path = write_lines(tmp_path / "exam.jsonl", [{"text": text} for text in texts])
    given = options(store, "--validation", str(path))
    domains = load_domains(given)
    told = (
        "40% of the target 'exam' also occurs in the training text (4 of 10 documents: 30% in 'a', "
    )
    assert f"warning: {told}10% in 'c'); --drop_copies leaves them out" in capsys.readouterr().err
    left = load_domains(options(store, "--validation", str(path), "--drop_copies"))
    assert f"{told}10% in 'c'); they are left out" in capsys.readouterr().err
    counts = [len(one.corpus.validation["exam"].ends) for one in (domains, left)]
    assert counts == [10, 6]
    two = options(store, "--validation", str(path), "--domains", "b", "c")
    load_domains(two)
    assert "10% of the target 'exam' also occurs" in capsys.readouterr().err, (
        "of what is trained on"
    )
    alone = write_lines(tmp_path / "alone.jsonl", [{"text": text} for text in trained["a"]])
    with pytest.raises(DataError, match="text in 'alone' that is not trained on, found copies"):
        load_domains(options(store, "--validation", str(alone), "--drop_copies"))


def test_held_out_text_is_compared_where_prepare_has_not(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As of shards, or of a store that was added with the text of another."""
    corpus, given = open_store(store), options(store)
    train = {**corpus.train, "b": corpus.validation["a"]}
    copied = dataclasses.replace(corpus, train=train)
    with_targets(copied, given, prepared=True)
    with_targets(corpus, given, prepared=False)
    assert not capsys.readouterr().err
    noted = with_targets(copied, given, prepared=False)
    assert noted.sha256 == copied.sha256
    (line,) = noted.index[CAUTIONS]
    assert "100% of the target 'a' also occurs in the training text" in line
    assert f"warning: {line}" in capsys.readouterr().err


def test_measurements_belong_to_a_models_configuration(store: Path, tmp_path: Path) -> None:
    """Equal shapes, another activation: another model. Where the file lies says nothing."""
    content = json.loads((PROXY / "config.json").read_text())
    found, path = [], tmp_path / "config.json"
    for change in ({}, {"architectures": content["architectures"]}, {"hidden_act": "gelu"}):
        path.write_text(json.dumps({**content, **change}, indent=len(found) or None))
        given = options(store, "--proxy", str(tmp_path))
        found.append(belongs_of(given, load_domains(given)))
    assert found[0] == found[1]
    differs = {name for name in found[2] if found[2][name] != found[0][name]}
    assert differs == {"config.json", "config.json's hidden_act"}
    path.write_text(json.dumps({k: v for k, v in content.items() if k != "hidden_act"}))
    assert belongs_of(given, load_domains(given))["config.json"] != found[0]["config.json"]
    domains = load_domains(given)
    assert found[0]["domains"] == hashes_of(domains)
    assert list(hashes_of(domains)) == list(domains.names)
    of_branches = branches_belong_of(given, domains)
    assert of_branches.items() >= belongs_of(given, domains).items()
    assert of_branches["branch_steps"] == given.search.steps_of_branch


def test_documents_that_hold_questions_are_left_out_of_training(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = documents_in(open_store(store))["train"]["b"]
    texts = [" ".join(text.split(" ")[10:40]) for text in trained[:5]]
    olmes = olmes_file(tmp_path / "quiz.jsonl", texts)
    given = ("--sequence_length", "64", "--validation", str(olmes))
    before = load_domains(options(store, *given))
    assert "5 of 5 questions also stand in the training text: 5 in 'b'" in capsys.readouterr().err
    left = load_domains(options(store, *given, "--drop_copies"))
    assert len(before.corpus.train["b"].ends) - len(left.corpus.train["b"].ends) == 5
    assert len(left.targets["quiz"]) == 5
    assert hashes_of(left)["b"] != hashes_of(before)["b"]
    assert hashes_of(left)["a"] == hashes_of(before)["a"]


def test_a_question_that_does_not_fit_is_refused_in_a_line(store: Path, tmp_path: Path) -> None:
    olmes = olmes_file(tmp_path / "quiz.jsonl", ["word " * 400 + "end"])
    with pytest.raises(DataError, match=r"Expected --sequence_length > .* target 'quiz'"):
        load_domains(options(store, "--validation", str(olmes)))


def test_a_trained_model_is_read_on_the_targets_of_its_search(store: Path, tmp_path: Path) -> None:
    """They are not compared with the training text again; domains are there anyway."""
    olmes = olmes_file(tmp_path / "quiz.jsonl", [f"What is {n}? It is {n}." for n in range(40)])
    given = options(store, "--validation", str(olmes), "a")
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.json").write_text(json.dumps(given.as_dict()))
    corpus = open_store(store)
    found = with_targets_of(corpus, run, 48)
    assert set(found.names) - set(corpus.names) == {"quiz"}
    assert found.index["told"]["quiz"]["compared"] is None
    (run / "config.json").write_text(json.dumps(options(store).as_dict()))
    assert with_targets_of(corpus, run, 48) is corpus
    olmes.unlink()


def test_linear_evidence_takes_answers_and_no_choices(store: Path, tmp_path: Path) -> None:
    pieces = [f"What is the number {n}? It is {n}." for n in range(40)]
    olmes = olmes_file(tmp_path / "quiz.jsonl", pieces)
    asked = ("--evidence", "linear", "--sequence_length", "48", "--validation")
    domains = load_domains(options(store, *asked, str(olmes)))
    tokens, weights = domains.validation_batch(8)
    assert weights is not None
    assert (tokens.shape, weights.shape) == ((8, 48), (8, 47))
    with pytest.raises(DataError, match="one unit, with --objective worst, found bits per byte an"):
        load_domains(options(store, *asked[2:], str(olmes), "a", "--objective", "worst"))
    with pytest.raises(DataError, match="with --evidence linear, found score=choice of 'quiz'"):
        load_domains(options(store, *asked, f"{olmes},score=choice"))
