"""What a search has measured answers for other targets as a search of their own would."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from own_models import models_of_branches
from quick import PROXY
from task_files import gsm8k_folder, olmes_file
from tiny import ALPHABETS, documents_in, write_domains, write_lines

from bydore_pyro import ask as module
from bydore_pyro import setup
from bydore_pyro.answer.answer import Answer
from bydore_pyro.answer.steps import LAW
from bydore_pyro.ask import Asked, ask
from bydore_pyro.cli.main import main
from bydore_pyro.data.domains import Domains
from bydore_pyro.data.scored import OF_CHOICES, PER_BYTE, together
from bydore_pyro.data.store import open_store
from bydore_pyro.errors import DataError
from bydore_pyro.files import plain
from bydore_pyro.law.losses import PER_TOKEN
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.setup.domains import hashes_of
from bydore_pyro.setup.question_config import AskConfig, QuestionConfig

QUESTION = {each.name for each in dataclasses.fields(QuestionConfig)}


def asked_of(run: Path, out: Path, **given: object) -> Asked:
    question = QuestionConfig(**{name: given.pop(name) for name in QUESTION & given.keys()})
    return ask(run, question, out, AskConfig(**given))


def weights_of(answer: Answer) -> torch.Tensor:
    return torch.tensor(answer.mixture.weights, dtype=torch.double)


def searched(store: Path, out: Path, *more: str) -> Path:
    """A search like `measured_run`, for something else."""
    given = ["--smoke", "--data", str(store), "--round_sequences", "32", "--trials", "0"]
    main(["search", *given, "--steps", "40", "--proxy", str(PROXY), "--out", str(out), *more])
    return out


def test_it_answers_as_a_search_for_the_same_would(
    store: Path, measured_run: Path, tmp_path: Path
) -> None:
    """Draws of the composition differ in number of target sequences alone."""
    validation = ["b=0.7", "c=0.3"]
    given = ("--validation", *validation, "--at_least", "a=0.1", "--objective", "worst")
    out = searched(store, tmp_path / "own", *given)
    asked = {"at_least": ["a=0.1"], "objective": "worst", "validation_sequences": 32}
    found = asked_of(measured_run, tmp_path, validation=validation, **asked)
    own = Mixture.from_json(out / "mixture.json")
    assert found.answer.mixture.weights == pytest.approx(own.weights, abs=0.01)
    told = json.loads((out / "metrics.json").read_text())["outlook"]
    assert found.answer.outlook is not None
    for mixture, rows in found.answer.outlook.expected.items():
        for text, row in rows.items():
            assert told["expected"][mixture][text]["loss"] == pytest.approx(row.loss, abs=0.02)
    assert (out / "losses.json").read_bytes() == (measured_run / "losses.json").read_bytes(), (
        "what the search has read does not depend on its target"
    )


def test_branches_are_part_of_what_a_search_has_measured(
    measured_run: Path, tmp_path: Path, refused: Callable[..., str]
) -> None:
    record = json.loads((measured_run / "metrics.json").read_text())
    assert record["matching"]["responses"]
    assert len(record["branches"]) == 3
    spent = record["search"]["parts"]
    assert spent["branch_train"]["tokens"] == 3 * 5 * 8 * 32, "an eighth of 40 steps each"
    found = asked_of(measured_run, tmp_path, validation=["b"])
    assert found.metrics.matching.responses
    assert found.answer.mixture.as_dict()["b"] > 0.8
    torn = tmp_path / "torn"
    shutil.copytree(measured_run, torn)
    shutil.rmtree(torn / "branch-2")
    line = refused("ask", torn, "--validation", "b", "--out", tmp_path / "answer")
    assert "Expected the 3 branches that the search made in" in line
    assert line.endswith("found 1"), line


def test_models_of_ones_own_are_branches_too(
    store: Path, measured_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of the search's own branches say what these say, beside them and without any."""
    base, *others = map(str, models_of_branches(measured_run, store, tmp_path / "models"))
    plain = asked_of(measured_run, tmp_path, validation=["b"])
    run = shutil.copytree(measured_run, tmp_path / "run")
    capsys.readouterr()
    found = asked_of(run, tmp_path, validation=["b"], models=[base, *others])
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith(f"4 models count as 3 branches: from {base} to {others[0]}, ")
    assert "They separate 3 directions of 3 domains" in line
    assert [one.folder for one in found.metrics.models.read] == [base, *others]
    assert all(len(one.sha256) == 12 for one in found.metrics.models.read)
    assert found.metrics.search is not None
    texts = sum(len(one.documents) for one in found.domains.targets.values()) + 3 * 32
    assert found.metrics.search.parts["responses"].tokens == 4 * texts * 32
    assert found.answer.mixture.weights == pytest.approx(plain.answer.mixture.weights, abs=0.02)
    again = asked_of(run, tmp_path, validation=["b"], models=[base, *others])
    assert again.answer.mixture.weights == found.answer.mixture.weights
    assert again.metrics.search is not None
    assert "responses" not in again.metrics.search.parts, "nothing is read twice"

    bare = searched(store, tmp_path / "bare", "--validation", "b", "--branches", "0")
    assert not asked_of(bare, tmp_path).metrics.matching.responses
    alone = asked_of(bare, tmp_path, models=[base, *others])
    assert alone.metrics.matching.responses
    assert alone.metrics.matching.unexplained < 0.2
    assert alone.answer.mixture.as_dict()["b"] > 0.8
    capsys.readouterr()
    pair = asked_of(bare, tmp_path, models=[base, others[0]])
    assert "2 models count as 1 branch" in capsys.readouterr().err
    assert not pair.metrics.matching.responses
    assert pair.metrics.models.equations == 1
    before, _ = asked_of(bare, tmp_path).answer.evidence
    assert pair.metrics.matching.unexplained == before.unexplained


def test_models_read_the_sequences_that_the_branches_have_read(
    store: Path, measured_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So models of the branches respond as these did, whether domains are added or dropped."""
    models = [str(one) for one in models_of_branches(measured_run, store, tmp_path / "models")]
    text = write_domains(tmp_path / "text", {"d": ALPHABETS["upper"]})
    given = ["--data", str(text), "--tokenizer", str(store / "tokenizer")]
    main(["prepare", *given, "--out", str(tmp_path / "more")])
    plain, seen = module.setup.targets_of, list[setup.Targets]()

    def spied(*given: object, **named: object) -> setup.Targets:
        seen.append(plain(*given, **named))  # type: ignore[arg-type]
        return seen[-1]

    monkeypatch.setattr(module.setup, "targets_of", spied)
    for asked, names in (
        ({}, "abc"),
        ({"drop": ["b"]}, "ac"),
        ({"add": [str(tmp_path / "more")]}, "abcd"),
    ):
        run = shutil.copytree(measured_run, tmp_path / f"run {names}")
        found = asked_of(run, tmp_path, validation=["a"], models=models, **asked)
        assert "".join(found.domains.names) == names
        responses = seen[-1].rounds[-1].responses
        assert responses is not None
        for sample in (*responses.domains, responses.target):
            of_branches, of_models = sample.gradients.split(3, 1)
            assert torch.allclose(of_branches, of_models, atol=2e-3)


def test_models_that_cannot_be_used_are_refused_in_a_line(
    store: Path, measured_run: Path, tmp_path: Path, refused: Callable[..., str]
) -> None:
    base, other, *_ = map(str, models_of_branches(measured_run, store, tmp_path / "models"))
    for models, message in (
        ([base], "Expected two or more folders for --models, the base first, found one"),
        ([base, other, f"{base}/"], "Expected every folder once for --models, found again"),
        ([base, str(store)], "Expected the configuration of a causal language model"),
        ([base, "nowhere"], "Expected the folder of a model for --models, found none: nowhere"),
    ):
        line = refused("ask", measured_run, "--models", *models, "--out", tmp_path / "answer")
        assert message in line, line
        assert not (tmp_path / "answer").exists()


def test_every_domain_as_a_target(measured_run: Path, tmp_path: Path) -> None:
    """Also of those that are left; each lacks what the others teach."""
    whole = asked_of(measured_run, tmp_path, validation=["all"])
    assert [*whole.answer.outlook.importance] == ["a", "b", "c"]
    assert float(weights_of(whole.answer).min()) > 0.1
    assert whole.metrics.targets == {}, "what they are made of needs no figures"
    two = asked_of(measured_run, tmp_path, validation=["all"], drop=["c"])
    assert two.domains.names == ("a", "b")
    assert two.answer.outlook.importance == {"a": 0.5, "b": 0.5}
    known, length = two.answer.forecast.known, whole.answer.forecast.length
    assert known.tokens.shape == (2, 3), "what the runs have read of the third counts"
    assert two.answer.forecast.length == length
    matched = two.answer.evidence[0]
    assert matched.unexplained < 0.2, "nothing of the domain that was dropped is in it"


def test_a_guard_is_read_as_a_target_and_keeps_what_it_is_worth(
    measured_run: Path, tmp_path: Path, refused: Callable[..., str]
) -> None:
    """A domain or a file; of the target's composition it is no part."""
    rows = [{"question": "a", "answer": "c d e " * 2}] * 20
    write_lines(tmp_path / "exam.jsonl", rows)
    free = asked_of(measured_run, tmp_path, validation=["b"])
    found = asked_of(
        *(measured_run, tmp_path),
        validation=["b"],
        guard=["c", f"{tmp_path}/exam.jsonl"],
        baseline="uniform",
        tolerance=0.05,
    )
    assert found.question.guards == ("c", "exam")
    assert found.domains.validation_shares == {"b": 1.0, "c": 0.0, "exam": 0.0}
    assert [one.importance for one in found.metrics.targets.values()] == [1.0, 0.0, 0.0]
    assert found.metrics.targets["c"].composition["c"] > 0.8
    matched = [one.answer.evidence[0].weights for one in (free, found)]
    torch.testing.assert_close(*matched, atol=0.02, rtol=0.02)
    outlook = found.answer.outlook
    assert outlook is not None
    assert [*outlook.guards] == ["c", "exam"]
    assert all(held >= 0.9 for held in outlook.guards.values())
    assert outlook.none_worse is not None
    assert 0.9 <= outlook.none_worse <= min(outlook.guards.values())
    assert free.answer.mixture.as_dict()["c"] < found.answer.mixture.as_dict()["c"]
    line = refused(
        "ask", measured_run, "--validation", "all", "--guard", "c", "--out", tmp_path / "x"
    )
    assert "Expected guards that are no targets, found 'c' as both" in line


def test_a_search_with_guards_has_the_answer_that_asking_has(
    store: Path, measured_run: Path, tmp_path: Path
) -> None:
    given = {"guard": ["c"], "baseline": "uniform", "tolerance": 0.05, "validation": ["b"]}
    words = [w for k, v in given.items() for w in (f"--{k}", *(v if isinstance(v, list) else [v]))]
    own = searched(store, tmp_path / "own", *map(str, words))
    asked = asked_of(own, tmp_path, **given)
    assert asked.answer.mixture.weights == Mixture.from_json(own / "mixture.json").weights
    told = json.loads((own / "metrics.json").read_text())["outlook"]
    assert asked.answer.outlook is not None
    assert told["guards"] == {"c": pytest.approx(asked.answer.outlook.guards["c"])}
    assert told["guards"]["c"] >= 0.9
    free = asked_of(own, tmp_path, validation=["b"])
    assert free.question.guards == (), "a question does not inherit them"


def test_a_question_is_refused_before_anything_is_read(
    measured_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Domains are dropped, so that a mixture of all of them is none of these."""
    monkeypatch.setattr("bydore_pyro.ask._targets", None)
    all_three = tmp_path / "all.json"
    all_three.write_text('{"a": 0.5, "b": 0.2, "c": 0.3}')
    monkeypatch.chdir(tmp_path)
    assert AskConfig(mixture="all.json").anywhere().mixture == str(all_three)
    assert AskConfig(mixture="uniform").anywhere().mixture == "uniform"
    for given in (
        {"mixture": "all.json"},
        {"mixture": "uniform", "against": "all.json"},
        {"baseline": "all.json"},
    ):
        with pytest.raises(DataError, match="found 'c' in"):
            asked_of(measured_run, tmp_path / "out", drop=["c"], **given)


def test_a_run_that_reads_text_again_wants_other_weights_within_caps(
    measured_run: Path, tmp_path: Path
) -> None:
    def asked(tokens: float, epochs: float | None = None) -> tuple[torch.Tensor, Domains]:
        found = asked_of(measured_run, tmp_path, target_tokens=tokens, max_epochs=epochs)
        return weights_of(found.answer), found.domains

    (once, domains), (again, _) = asked(1e3), asked(1e7)
    assert float((once - again).abs().sum()) > 0.05
    text = sum(domains.sequences().values()) * 32
    capped, _ = asked(text, 1.1)
    assert float((capped - asked(text)[0]).abs().sum()) > 0.05
    most = domains.most_weights(1.1, text)
    assert all(w <= m for w, m in zip(capped.tolist(), most.values(), strict=True))


def test_the_corpus_that_is_stated_counts_and_is_kept_with_the_run(
    measured_run: Path, tmp_path: Path
) -> None:
    sizes = tmp_path / "sizes.yaml"
    sizes.write_text("a: 1M\nb: 2M\nx/C: 5M\n")
    asked = {"target_tokens": 1e6, "max_epochs": 0.4}
    found = asked_of(measured_run, tmp_path, domain_tokens=[str(sizes)], **asked)
    most = {"a": 0.4, "b": 0.8, "c": 1.0}
    weights = found.answer.mixture.as_dict()
    assert all(weight <= most[name] + 1e-9 for name, weight in weights.items())
    epochs = {"a": weights["a"], "b": weights["b"] / 2, "c": weights["c"] / 5}
    assert found.metrics.run_epochs == pytest.approx(epochs)
    # A search that was asked so is asked so again; its file may be gone.
    run = shutil.copytree(measured_run, tmp_path / "run")
    config = json.loads((run / "config.json").read_text())
    config["question"]["domain_tokens"] = found.options.question.domain_tokens
    (run / "config.json").write_text(json.dumps(config))
    sizes.unlink()
    again = asked_of(run, tmp_path, **asked)
    assert again.metrics.run_epochs == pytest.approx(epochs)


def test_domains_that_are_added_or_have_changed_are_measured_anew(
    measured_run: Path, store: Path, tmp_path: Path
) -> None:
    """A store of two of the domains under other names, and one whose text has grown."""
    text = write_domains(tmp_path / "text", {"d": ALPHABETS["upper"], "b": ALPHABETS["digits"]})
    tokenizer = str(store / "tokenizer")
    main(["prepare", "--data", str(text), "--tokenizer", tokenizer, "--out", str(tmp_path / "s")])
    added = {"validation": ["d"], "add": [str(tmp_path / "s")]}
    found = asked_of(measured_run, tmp_path, **added)
    assert found.domains.names == ("a", "b", "c", "d")
    assert found.metrics.measured_anew == ("b", "d")
    assert float(weights_of(found.answer)[3]) > 0.8, "its own kind was added"
    assert found.answer.forecast is None, "no run has trained on it"
    assert found.answer.outlook is None
    with pytest.raises(DataError, match="for the objective worst, found none"):
        asked_of(measured_run, tmp_path, objective="worst", **added)
    tried = asked_of(measured_run, tmp_path / "tried", **added, trials=2)
    assert tried.answer.tried is not None
    assert [one.length for one in tried.answer.tried.tried] == [1.0, 0.5]
    assert tried.answer.forecast is None, "no run tells the target's losses"


def test_domains_can_be_added_to_some_of_a_store(store: Path, tmp_path: Path) -> None:
    text = write_domains(tmp_path / "text", {"d": ALPHABETS["upper"]})
    tokenizer = str(store / "tokenizer")
    main(["prepare", "--data", str(text), "--tokenizer", tokenizer, "--out", str(tmp_path / "s")])
    run = searched(store, tmp_path / "run", "--validation", "b", "--domains", "b", "c")
    found = asked_of(run, tmp_path, validation=["d"], add=[str(tmp_path / "s")])
    assert found.domains.names == ("b", "c", "d")
    assert found.metrics.measured_anew == ("d",)
    with pytest.raises(DataError, match="every added domain once, found 'd' again"):
        asked_of(run, tmp_path, validation=["d"], add=[str(tmp_path / "s")] * 2)


def test_text_that_is_measured_anew_says_what_the_search_found(
    measured_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the text of `b` were another: its sequences are those that the search measured."""
    before, _ = asked_of(measured_run, tmp_path, validation=["b"]).answer.evidence
    changed = lambda domains: hashes_of(domains) | {"b": "another"}  # noqa: E731
    monkeypatch.setattr("bydore_pyro.setup.hashes_of", changed)
    found = asked_of(measured_run, tmp_path, validation=["b"])
    assert found.metrics.measured_anew == ("b",)
    assert found.answer.forecast is None
    again, _ = found.answer.evidence
    torch.testing.assert_close(again.gram, before.gram, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(again.weights, before.weights, atol=1e-3, rtol=0)


def test_a_target_file_has_the_same_answer_under_another_name(
    measured_run: Path, tmp_path: Path
) -> None:
    """Of more text than is measured: which part of it is, its content decides."""
    text = write_domains(tmp_path / "text", {"words": "abcdeklmno"}, files=60) / "words"
    rows = [{"text": path.read_text()} for path in sorted(text.iterdir())]
    found = {}
    for name in ("mine", "zebra"):
        file = write_lines(tmp_path / f"{name}.jsonl", rows)
        given = {"validation": [str(file)], "validation_sequences": 32}
        found[name] = asked_of(measured_run, tmp_path, **given)
    one, other = found.values()
    assert sum(map(len, one.domains.targets.values())) == 32
    assert len(one.domains.corpus.validation["mine"]) > 64 * 32, "a part of it is measured"
    both = (together(of.domains.targets.values())[0] for of in (one, other))
    assert torch.equal(*both)
    assert one.answer.mixture.weights == other.answer.mixture.weights
    assert torch.equal(one.answer.evidence[1].weights, other.answer.evidence[1].weights)


@pytest.mark.parametrize("trials", ["0", "2"])
def test_the_same_question_has_the_same_answer(store: Path, tmp_path: Path, trials: str) -> None:
    """By the law, and where the search's trials decided, which count for these targets alone."""
    target = ("a=2", "b=1") if trials == "2" else ("b",)
    given = ("--validation", *target, "--domains", "b", "c", "--at_most", "b=0.6")
    run = searched(store, tmp_path / "run", *given, "--trials", trials)
    own = Mixture.from_json(run / "mixture.json")
    bound = {"at_most": ["b=0.6"]}
    found = asked_of(run, tmp_path / "same", **bound)
    assert found.answer.mixture.weights == own.weights
    assert max(own.weights) <= 0.6 or own.as_dict()["b"] <= 0.6
    if trials == "0":
        assert found.answer.tried is None
        return
    record = json.loads((run / "metrics.json").read_text())
    assert len(record["trials"]["tried"]) == 2, "the target is of another kind"
    assert found.answer.tried is not None
    assert plain(found.answer.tried) == record["trials"]
    assert found.metrics.trials == found.answer.tried
    assert found.answer.outlook is not None
    assert found.answer.outlook.decided == "trials"
    assert not (tmp_path / "same" / "trials").exists(), "nothing is trained again"
    other = asked_of(run, tmp_path / "other", **bound, validation=["a=1", "b=2"])
    assert other.answer.tried is None, "another question"


def test_a_search_for_a_model_in_training_can_be_asked_without_its_length(
    store: Path, tmp_path: Path
) -> None:
    """What was read before counts for a run of some length alone."""
    read = tmp_path / "read.json"
    read.write_text('{"a": 0, "b": 1e4, "c": 0}')
    given = ("--validation", "b", "--consumed", str(read), "--target_tokens", "1e5")
    run = searched(store, tmp_path / "run", *given, "--repetition_constant", "4")
    plain = asked_of(run, tmp_path / "plain")
    assert plain.question.run is None
    same = asked_of(run, tmp_path / "same", target_tokens=1e5)
    assert same.question.run is not None
    assert same.question.run.before.tolist() == [0.0, 0.1, 0.0]
    assert same.question.run.repetition_constant == 4
    assert same.answer.mixture.weights == Mixture.from_json(run / "mixture.json").weights


def test_a_target_that_no_domain_is_like_can_have_trials(
    measured_run: Path, tmp_path: Path
) -> None:
    """Of the law's mixture and of steps; without them it gets the whole step."""
    given = {"validation": ["a"], "drop": ["a"]}
    plain = asked_of(measured_run, tmp_path, **given).answer
    assert plain.evidence[0].unexplained > 0.4
    assert plain.tried is None
    assert plain.forecast is not None
    assert "length" not in plain.sites or (plain.sites["length"] == 1).all()
    one = asked_of(measured_run, tmp_path, **given, trials=2).answer
    assert one.tried is not None
    assert [trial.length for trial in one.tried.tried] == [LAW, 1.0]
    assert any("Trial runs" in note for note in one.mixture.notes)
    assert one.forecast is not None
    assert len(one.forecast.known.losses) == 4, "they have joined what the search had read"
    covered = asked_of(measured_run, tmp_path, validation=["b"], trials=2).answer
    assert covered.tried is None, "a covered target needs none"


def pieces_of(store: Path, name: str, words: int = 10) -> list[str]:
    """Held-out text of a domain, in pieces."""
    found = []
    for document in documents_in(open_store(store))["validation"][name]:
        every = document.split(" ")
        found += [" ".join(every[i : i + words]) for i in range(0, len(every) - words, words)]
    return found[:60]


def test_files_of_questions_are_asked_about(
    store: Path, measured_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each with the options of its own; a part of a domain's text is made of the domain."""
    pieces = pieces_of(store, "b")
    olmes = olmes_file(tmp_path / "own" / "requests.jsonl", pieces)
    columns = write_lines(
        tmp_path / "quiz.jsonl",
        [{"q": text[:40], "a": text[40:]} for text in pieces_of(store, "c")],
    )
    given = [f"{olmes},name=own", f"{columns},prompt_column=q,answer_column=a=.5", "a=.5"]
    asked = asked_of(measured_run, tmp_path / "out", validation=given)
    told = capsys.readouterr().err
    assert f"target 'own': {len(pieces)} questions" in told
    assert f"left out: {2 * len(pieces)} unconditional copies" in told
    targets = asked.metrics.targets
    assert [one.unit for one in targets.values()] == [PER_BYTE, PER_BYTE, PER_TOKEN]
    assert targets["own"].composition["b"] > 0.6
    assert targets["quiz"].composition["c"] > 0.6
    assert targets["own"].importance == pytest.approx(0.5)
    assert targets["own"].task is not None
    assert [*targets["own"].task.left_out.values()] == [2 * len(pieces)]
    assert asked.answer.outlook is not None
    assert asked.answer.outlook.unit("all targets") == "bits per byte and nats per token"
    per_token = targets["own"].nats_per_token
    expected = asked.answer.outlook.expected["answer"]["domain b"].loss
    assert per_token == pytest.approx(expected, rel=0.3)
    choice = asked_of(measured_run, tmp_path / "two", validation=[f"{olmes},score=choice"])
    (one,) = choice.metrics.targets.values()
    assert (one.unit, one.nats_per_token) == (OF_CHOICES, None)
    assert one.loss is not None


def test_a_search_for_a_task_is_trained_and_read_on_it(store: Path, tmp_path: Path) -> None:
    """Its targets' bits per byte stand in what a training says at its end."""
    pieces = pieces_of(store, "b")
    olmes = olmes_file(tmp_path / "quiz.jsonl", pieces)
    run = searched(store, tmp_path / "run", "--validation", str(olmes))
    mixture = Mixture.from_json(run / "mixture.json")
    assert mixture.as_dict()["b"] > 0.5
    index = json.loads((run / "manifest.json").read_text())
    assert index["told"]["quiz"]["requests_sha256"]
    out = tmp_path / "trained"
    main(["train", "--smoke", "--mixture", str(run), "--data", str(store), "--out", str(out)])
    read = json.loads((out / "metrics.json").read_text())
    assert read["tasks"]["quiz"]["unit"] == PER_BYTE
    assert read["tasks"]["quiz"]["sequences"] == len(pieces)
    assert 0 < read["tasks"]["quiz"]["loss"] < 8
    assert "quiz" not in read["held_out_loss_nats_per_token"]
    olmes.unlink()
    again = tmp_path / "again"
    main(["train", "--smoke", "--mixture", str(run), "--data", str(store), "--out", str(again)])
    assert json.loads((again / "metrics.json").read_text())["tasks"] == {}


@pytest.mark.slow
def test_a_search_for_a_task_of_lm_eval(store: Path, tmp_path: Path) -> None:
    pieces = pieces_of(store, "c")
    data = gsm8k_folder(tmp_path / "data", pieces)
    given = ("--validation", "task:gsm8k,name=sums", "b=.2", "--data_dir", str(data))
    run = searched(store, tmp_path / "run", *given)
    metrics = json.loads((run / "metrics.json").read_text())
    task = metrics["targets"]["sums"]["task"]
    assert (task["split"], task["shots"], task["questions"]) == ("train", 0, len(pieces))
    assert metrics["targets"]["sums"]["composition"]["c"] > 0.5
