"""Chats: what stands before each turn of the assistant, and what is no chat."""

from __future__ import annotations

import re

import pytest

from bydore_pyro.errors import DataError
from bydore_pyro.targets.chats import Turn, answers_in, is_chat, turns_of

TURNS = [Turn("user", "Who?"), Turn("assistant", "Marta."), Turn("tool", "3"), Turn("GPT", "Yes.")]


def test_each_turn_of_the_assistant_follows_all_before_it() -> None:
    before = "User: Who?\n\nAssistant: Marta.\n\nTool: 3\n\nAssistant:"
    assert answers_in(TURNS) == [("User: Who?\n\nAssistant:", " Marta."), (before, " Yes.")]
    assert answers_in(TURNS, 2) == [(before, " Yes.")]


def test_a_turn_without_text_is_an_empty_answer() -> None:
    calls = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": None}]
    assert answers_in(turns_of(calls, "m")) == [("User: Who?\n\nAssistant:", "")]


@pytest.mark.parametrize("roles", [["user"], ["user", "system"], []])
def test_a_chat_in_which_the_assistant_is_silent_is_refused(roles: list[str]) -> None:
    found = re.escape(", ".join(roles) or "no turn")
    with pytest.raises(DataError, match=f"Expected a turn of the assistant, .* found {found}: "):
        answers_in([Turn(role, "Who?") for role in roles])


def test_both_formats_and_parts_of_a_message_are_read() -> None:
    found = turns_of(
        [
            {"from": "human", "value": "Who?"},
            {"role": "assistant", "content": [{"type": "text", "text": "Mar"}, {"text": "ta."}]},
        ],
        "m",
    )
    assert found == [Turn("human", "Who?"), Turn("assistant", "Marta.")]
    assert [str(turn) for turn in found] == ["User: Who?", "Assistant: Marta."]
    assert [turn.scored for turn in found] == [False, True]


def test_what_is_no_chat_is_refused() -> None:
    for value in (None, "Who?", [], ["Who?"], [{"content": "Who?"}]):
        assert not is_chat(value)
        with pytest.raises(DataError, match="Expected messages with a role and a content in col"):
            turns_of(value, "m")
    image = [{"role": "user", "content": [{"type": "image", "url": "x"}]}]
    with pytest.raises(DataError, match=r"text alone in column 'm.content', found a part 'image'"):
        turns_of(image, "m")
    with pytest.raises(DataError, match=r"Expected text in column 'm.content', found int"):
        turns_of([{"role": "user", "content": 3}], "m")
