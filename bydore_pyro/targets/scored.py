"""Tasks as scored text: tokens, of which those of the answers count.

Context and answer are encoded as one text. A token belongs to the answer if it ends behind the
border between the two, so that one that spans it does; it counts the answer's bytes alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bydore_pyro import data
from bydore_pyro.errors import DataError
from bydore_pyro.targets.request import Request, Task, bordered, requests_sha256

EMPTY = "empty answers"
NO_TOKEN = "answers without a token of their own"
ALIKE = "questions whose right choice is equal to a wrong one, or that have no wrong one"
COPIES = "copies of other questions"


@dataclass(frozen=True)
class Scored:
    """A task as text.

    Attributes:
        text: A document for each answer, or for each choice.
        entry: Of the task in a store's index.
        left_out: How many questions were left out, by reason in words.
        requests_sha256: Of what is asked: contexts, answers, and which of these are right.
    """

    text: data.Text
    entry: dict[str, Any]
    left_out: Mapping[str, int]
    requests_sha256: str


@dataclass(frozen=True)
class Cuts:
    """What sequences of a length lose of a task.

    Attributes:
        questions: Of the task.
        contexts: Those that lose the beginning of what stands before their answer, and no more.
        answers: Those whose answer, or a choice, does not fit and loses its beginning.
        longest: Tokens of the longest question with its answer.
    """

    questions: int
    contexts: int
    answers: int
    longest: int


def text_of(task: Task, tokenizer: Path, dtype: np.dtype[Any]) -> Scored:
    """Returns a task as text that is scored on its answers.

    White space at a context's end belongs to its answers. Equal questions count once. A question
    with an empty answer, or one that keeps no token, is left out; so is one of which no loss tells
    the right choice from the others.

    Args:
        task: The questions.
        tokenizer: Its folder.
        dtype: Of the tokens.

    Raises:
        DataError: When no question is left.
    """
    left_out = dict(task.left_out)
    kept: dict[tuple[Any, ...], Request] = {}
    for one in map(bordered, task.requests):
        if any(not answer.strip() for answer in one.answers):
            left_out[EMPTY] = left_out.get(EMPTY, 0) + 1
        elif task.score == "choice" and _alike(one):
            left_out[ALIKE] = left_out.get(ALIKE, 0) + 1
        elif (same := (one.context, one.answers, one.right)) in kept:
            left_out[COPIES] = left_out.get(COPIES, 0) + 1
        else:
            kept[same] = one
    documents = _Documents(*data.load_encoder(tokenizer), dtype)
    requests = [one for one in kept.values() if documents.add(one, choices=task.score == "choice")]
    if without := len(kept) - len(requests):
        left_out[NO_TOKEN] = without
    if not requests:
        reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        raise DataError(f"Expected answers to score, found none in '{task.name}' ({reasons})")
    text, answers = documents.text(choices=task.score == "choice")
    entry = data.nothing_counted()
    entry |= {
        "skipped": sum(task.left_out.values()),
        "duplicates_dropped": left_out.get(COPIES, 0),
        "validation": {
            "tokens": len(text),
            "documents": len(text.ends),
            "independent_documents": len(text.ends),
            "questions": len(requests),
            "bytes": documents.bytes,
            "answer_bytes": int(answers.sizes.sum()),
            "sha256": _sha256_of(text, answers),
            "ends_sha256": hashlib.sha256(text.ends.tobytes()).hexdigest(),
        },
    }
    return Scored(text, entry, left_out, requests_sha256(requests))


def _sha256_of(text: data.Text, answers: data.Answers) -> str:
    """The hash of a text's tokens and of what of them is scored."""
    digest = hashlib.sha256(np.asarray(text).tobytes())
    for part in (answers.starts, answers.sizes, answers.questions, answers.right):
        digest.update(b"" if part is None else part.tobytes())
    return digest.hexdigest()


def cuts(text: data.Text, length: int, name: str) -> Cuts:
    """Returns what sequences of a length lose of a task.

    Args:
        text: With `Text.answers`.
        length: ``T``, tokens in a sequence.
        name: Of the task, for messages.

    Raises:
        DataError: When no answer fits.
    """
    answers = text.answers
    if answers is None:
        raise ValueError("Expected a text with answers, actual plain text")
    # The end-of-text token stands in front of an answer without a context, else nowhere.
    alone = (answers.starts == text.starts).astype(int)
    sizes = text.ends - 1 - text.starts + alone
    of_answers = text.ends - 1 - answers.starts
    longest = np.zeros(int(answers.questions[-1]) + 1, int)  # answer of each question
    np.maximum.at(longest, answers.questions, of_answers)
    too_long = longest >= length
    cut = _of_questions(answers.questions, sizes > length)
    if too_long.all():
        raise DataError(
            f"Expected --sequence_length > {int(longest.min())} for the target '{name}', of "
            f"which no answer fits, found {length}"
        )
    return Cuts(
        questions=len(cut),
        contexts=int((cut & ~too_long).sum()),
        answers=int(too_long.sum()),
        longest=int(sizes.max()),
    )


def _of_questions(questions: np.ndarray, marked: np.ndarray) -> np.ndarray:
    """Whether a document of each question is marked."""
    found = np.zeros(int(questions.max()) + 1, bool)
    found[questions[marked]] = True
    return found


def _alike(request: Request) -> bool:
    """Whether all choices of a question are right, or a wrong one is equal to a right one."""
    right = {request.answers[place] for place in request.right}
    wrong = [a for place, a in enumerate(request.answers) if place not in request.right]
    return not wrong or not right.isdisjoint(wrong)


class _Documents:
    """Documents that are encoded one by one: tokens, borders and bytes.

    Args:
        tokenizer: What encodes.
        end: The token behind a document.
        dtype: Of the tokens.
    """

    def __init__(self, tokenizer: Any, end: int, dtype: np.dtype[Any]) -> None:
        self._encode, self._end, self._dtype = tokenizer.encode_batch, end, dtype
        self._tokens: list[np.ndarray] = []
        self._sizes: list[np.ndarray] = []
        self._borders: list[int] = []
        self._questions: list[int] = []
        self._right: list[bool] = []
        self.bytes = 0

    def add(self, request: Request, *, choices: bool) -> bool:
        """Adds a question with its right answer, or with all choices; False, and nothing is added,
        where one keeps no token."""
        places = range(len(request.answers)) if choices else request.right[:1]
        texts = [request.context + request.answers[place] for place in places]
        found = []
        for text, encoded in zip(texts, self._encode(texts, add_special_tokens=False), strict=True):
            sizes = answer_bytes(text, len(request.context), encoded.offsets)
            if sizes is None:
                return False
            found.append((encoded.ids, sizes))
        question = self._questions[-1] + 1 if self._questions else 0
        for place, text, (ids, sizes) in zip(places, texts, found, strict=True):
            self._tokens.append(np.array([*ids, self._end], self._dtype))
            self._sizes.append(np.append(sizes, 0))
            self._borders.append(int(np.flatnonzero(sizes >= 0)[0]))
            self._questions.append(question)
            self._right.append(place in request.right)
            self.bytes += len(text.encode())
        return True

    def text(self, *, choices: bool) -> tuple[data.Text, data.Answers]:
        """Returns the documents one behind the other, and what of them is scored."""
        lengths = np.array([len(one) for one in self._tokens])
        ends = np.cumsum(lengths).astype(data.END)
        answers = data.Answers(
            starts=ends - lengths + np.array(self._borders),
            sizes=np.maximum(np.concatenate(self._sizes), 0),
            questions=np.array(self._questions),
            right=np.array(self._right) if choices else None,
        )
        return data.Text(np.concatenate(self._tokens), ends, answers=answers), answers


def answer_bytes(
    text: str, border: int, offsets: list[tuple[int, int]]
) -> np.ndarray[Any, np.dtype[np.int32]] | None:
    """Returns the bytes of UTF-8 of the answer that each token counts ``(n,)``, -1 of tokens before
    the answer; None where no token ends behind the border.

    Together they are the bytes of the answer: a character of several tokens counts with the first,
    what belongs to no token with the next one, or with the last.

    Args:
        text: The context and the answer.
        border: Characters of the context.
        offsets: Where each token begins and ends in the text, in characters.
    """
    ends = np.maximum.accumulate(np.array([end for _, end in offsets], int))
    behind = ends > border
    if not behind.any():
        return None
    first = int(np.argmax(behind))
    ends[-1] = len(text)
    sizes = np.full(len(ends), -1, np.int32)
    begin = border
    for place in range(first, len(ends)):
        sizes[place] = len(text[begin : ends[place]].encode())
        begin = int(ends[place])
    return sizes
