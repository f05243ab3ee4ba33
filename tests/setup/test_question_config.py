"""What is asked, as options: targets, shares, files, and what is refused at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bydore_pyro.errors import DataError
from bydore_pyro.law import Goal
from bydore_pyro.setup.question_config import AskConfig, QuestionConfig, shares_of
from bydore_pyro.targets.entry import Entry


def test_targets_have_shares_of_sum_1_and_all_names_none() -> None:
    assert QuestionConfig(validation=["a=3", "b"]).targets() == (
        Entry(name="a", share=0.75),
        Entry(name="b", share=0.25),
    )
    assert QuestionConfig(validation=["all"]).targets() == ()
    with pytest.raises(ValueError, match="Expected --validation NAME, the domain whose"):
        QuestionConfig().targets()


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        (["a=x"], "Expected a share above 0 behind the last '=', found 'a=x'"),
        (["a=0"], "Expected a share above 0 behind the last '=', found 'a=0'"),
        (["a", "a=2"], "Expected every target once, found 'a' twice"),
        (["all", "a"], "Expected 'all' alone and without a share, .* found 'all a'"),
        (["all=.5"], "Expected 'all' alone and without a share"),
    ],
)
def test_targets_that_cannot_be_are_refused(validation: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        QuestionConfig(validation=validation)


def test_guards_are_named_as_targets_are_without_shares(tmp_path: Path) -> None:
    path = tmp_path / "exam.jsonl"
    asked = QuestionConfig(
        validation=["a=3", "b"], guard=["c", f"{path}"], answer_column="x", prompt_column="y"
    )
    assert [one.name for one in asked.guards()] == ["c", "exam"]
    assert asked.guards()[1].answer_column == "x"
    assert [one.name for one in asked.texts()] == ["a", "b", "c", "exam"]
    assert [one.share for one in asked.targets()] == [0.75, 0.25]
    assert QuestionConfig(validation=["all"], guard=["c"]).texts() == (Entry(name="c"),)
    assert QuestionConfig(guard=["c"]).guards() == (Entry(name="c"),)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"guard": ["a"]},
            "Expected guards that are no targets of --validation, found 'a' as both",
        ),
        ({"guard": ["c", "c"]}, "Expected every target once, found 'c' twice .*"),
        ({"guard": ["c=.5"]}, "Expected --guard without shares, found one of 'c'"),
        ({"guard": ["all"]}, "Expected names of guards, found 'all': --objective none_worse"),
        (
            {"guard": ["c"], "objective": "worst"},
            "Expected --objective mean or none_worse with --guard, found worst",
        ),
    ],
)
def test_guards_that_cannot_be_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        QuestionConfig(validation=["a", "b"], **given)


def test_a_file_is_a_target_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    whole = tmp_path / "day=1" / "hour=2.jsonl"
    whole.parent.mkdir()
    whole.touch()
    for entry in (str(whole), f"{whole}=2"):
        expected = Entry(name="hour-2", file=str(whole))
        assert QuestionConfig(validation=[entry]).targets() == (expected,)
    Path("notes.txt").write_text("words")
    given = QuestionConfig(validation=["notes.txt=2", "a.b", "c=3"])
    assert [target.file for target in given.targets()] == ["notes.txt", None, None]
    assert given.anywhere().validation == [f"{tmp_path}/notes.txt=2", "a.b", "c=3"]


def test_columns_of_all_files_and_of_one(tmp_path: Path) -> None:
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    asked = QuestionConfig(
        validation=[str(one), f"{other},answer_column=b", "web"],
        prompt_column="q",
        answer_column="a",
    )
    found = {target.name: target for target in asked.targets()}
    assert (found["one"].prompt_column, found["one"].answer_column) == ("q", "a")
    assert (found["other"].prompt_column, found["other"].answer_column) == (None, "b")
    assert found["web"].answer_column is None


def test_sizes_are_kept_without_their_file(tmp_path: Path) -> None:
    (tmp_path / "sizes.csv").write_text("web,1.3T\nlaw,30M\n")
    asked = QuestionConfig(domain_tokens=[str(tmp_path / "sizes.csv"), "code=5"]).anywhere()
    (tmp_path / "sizes.csv").unlink()
    assert asked.domain_tokens == ["web=1300000000000", "law=30000000", "code=5"]
    assert asked.anywhere() == asked
    with pytest.raises(DataError, match=r"Expected tokens of domains in .*, found: .*No such"):
        QuestionConfig(domain_tokens=[str(tmp_path / "sizes.csv")]).anywhere()


def test_defaults_are_those_of_a_goal() -> None:
    asked, goal = QuestionConfig(), Goal()
    for name in ("objective", "tolerance", "probability"):
        assert getattr(asked, name) == getattr(goal, name)


def test_a_tolerance_that_nothing_asks_for_is_told() -> None:
    QuestionConfig(objective="none_worse", tolerance=0.1).warn_of_idle()
    QuestionConfig(guard=["a"], tolerance=0.1).warn_of_idle()
    QuestionConfig().warn_of_idle()
    with pytest.warns(UserWarning, match="tolerance has no effect with objective mean"):
        QuestionConfig(tolerance=0.1).warn_of_idle()


@pytest.mark.parametrize("option", ["at_least", "at_most"])
def test_what_is_no_share_is_refused(option: str) -> None:
    assert shares_of(["a=0.1", "b=0"]) == {"a": 0.1, "b": 0.0}
    for entry in ("a", "a=x", "=0.1", "a=1.1", "a=-0.1", "a=nan"):
        with pytest.raises(ValueError, match=rf"as NAME=SHARE in \[0, 1\], found '{entry}'"):
            QuestionConfig(**{option: [entry]})
    with pytest.raises(ValueError, match="Expected each domain once"):
        QuestionConfig(**{option: ["a=0.1", "a=0.2"]})


def test_models_are_two_or_more_and_each_stands_once(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.symlink_to(one)
    with pytest.raises(ValueError, match="two or more folders for --models, the base first"):
        AskConfig(models=[str(one)])
    for again in (str(one), str(other), f"{one}/../one"):
        with pytest.raises(ValueError, match="Expected every folder once for --models, found ag"):
            AskConfig(models=[str(one), str(tmp_path / "two"), again])
