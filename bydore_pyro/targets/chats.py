"""Chats as questions: each turn of the assistant answers what stands before it.

A chat is rendered without a model's template: ``User: ...``, ``Assistant: ...``, a blank line
between turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bydore_pyro import data
from bydore_pyro.errors import DataError, listed

ASSISTANT = ("assistant", "gpt", "chatgpt", "model", "bot")  # what formats call it
CALLED = {"human": "User", "user": "User", "system": "System", "developer": "System"}
SPEAKER, SAYS = ("role", "from"), ("content", "value")  # keys of a turn, by format
#: How chats are rendered, in words.
RENDERED = "rendered as 'User: ...', 'Assistant: ...'"


class Turn(NamedTuple):
    """A message: who speaks, as the file calls him, and what he says."""

    role: str
    text: str

    @property
    def scored(self) -> bool:
        """Whether the assistant speaks."""
        return self.role.lower() in ASSISTANT

    def __str__(self) -> str:
        """The turn in a rendered chat."""
        role = self.role.lower()
        name = "Assistant" if self.scored else CALLED.get(role, role.capitalize())
        return f"{name}: {self.text}"


def is_chat(value: Any) -> bool:
    """Whether a value is a list of messages."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, Mapping) and _key(one, SPEAKER) for one in value)
    )


def turns_of(value: Any, column: str) -> list[Turn]:
    """Returns the messages in a column: ``role`` and ``content``, or ``from`` and ``value``.

    Raises:
        DataError: When it holds something else, or what is no text.
    """
    if not is_chat(value):
        raise DataError(
            f"Expected messages with a role and a content in column '{column}', found "
            + ("an empty list" if value == [] else type(value).__name__)
        )
    return [
        Turn(
            data.checked_text(one[_key(one, SPEAKER)], f"{column}.role"),
            _content(one.get(_key(one, SAYS)), f"{column}.content"),
        )
        for one in value
    ]


def answers_in(turns: Sequence[Turn], first: int = 0) -> list[tuple[str, str]]:
    """Returns what stands before each of the assistant's turns, and the turn.

    Args:
        turns: Of a chat.
        first: The first turn that is scored.

    Raises:
        DataError: When the assistant says nothing.
    """
    found = []
    for place, turn in enumerate(turns):
        if turn.scored and place >= first:
            before = "".join(f"{one}\n\n" for one in turns[:place])
            found.append((f"{before}Assistant:", f" {turn.text}" if turn.text else ""))
    if not found:
        roles = listed(dict.fromkeys(turn.role for turn in turns[first:]), 5) or "no turn"
        raise DataError(
            f"Expected a turn of the assistant, which is scored, found {roles}: leave the row out, "
            "or give it one"
        )
    return found


def _key(turn: Mapping[str, Any], keys: Sequence[str]) -> str:
    return next((key for key in keys if turn.get(key) is not None), "")


def _content(value: Any, column: str) -> str:
    """The text of a message, which may be a list of parts; none where it calls a tool alone."""
    if value is None:
        return ""
    if not isinstance(value, list):
        return data.checked_text(value, column)
    for part in value:
        if not isinstance(part, Mapping) or not isinstance(part.get("text"), str):
            kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
            raise DataError(f"Expected text alone in column '{column}', found a part '{kind}'")
    return "".join(data.checked_text(part["text"], column) for part in value)
