"""Texts with answers, built by hand, and stores that have one as a task."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence

import numpy as np

from bydore_pyro.data.store import Answers, Text, TokenStore, nothing_counted

END = 9
#: A context, an answer, and the bytes of the answer's tokens.
Row = tuple[list[int], list[int], list[int]]


def scored_text(
    rows: Sequence[Row],
    questions: list[int] | None = None,
    right: list[bool] | None = None,
    end: int = END,
) -> Text:
    tokens: list[int] = []
    starts, ends, sizes = [], [], list[int]()
    for context, answer, own in rows:
        starts.append(len(tokens) + len(context))
        tokens += [*context, *answer, end]
        sizes += [*[0] * len(context), *own, 0]
        ends.append(len(tokens))
    answers = Answers(
        starts=np.array(starts),
        sizes=np.array(sizes),
        questions=np.array(questions or range(len(rows))),
        right=None if right is None else np.array(right),
    )
    return Text(np.array(tokens, "<u2"), np.array(ends), answers=answers)


def with_task(
    store: TokenStore,
    name: str,
    of: str,
    *,
    count: int = 40,
    context: int = 6,
    answer: int = 4,
    choices: int = 1,
) -> TokenStore:
    """A store with a task whose contexts and right answers are pieces of a domain's held-out text;
    the other choices are random tokens."""
    rng = np.random.default_rng(0)
    source = np.asarray(store.validation[of]).astype(int)
    rows: list[Row] = []
    questions, right = list[int](), list[bool]()
    for number in range(count):
        start = int(rng.integers(len(source) - context - answer))
        piece = source[start : start + context + answer].tolist()
        for choice in range(choices):
            end = (
                piece[context:]
                if not choice
                else rng.integers(1, store.vocabulary, answer).tolist()
            )
            rows.append((piece[:context], end, [2] * answer))
            questions.append(number)
            right.append(not choice)
    text = scored_text(rows, questions, right if choices > 1 else None, end=0)
    entry = nothing_counted()
    digest = hashlib.sha256(np.asarray(text).tobytes()).hexdigest()
    entry["validation"] |= {"documents": count, "sha256": digest}
    domains = {**store.index.get("domains", {}), name: entry}
    return dataclasses.replace(
        store,
        train={**store.train, name: Text(text[:0], text.ends[:0])},
        validation={**store.validation, name: text},
        judged={**store.judged, name: Text(text[:0], text.ends[:0])},
        index={**store.index, "domains": domains, "sha256": digest},
    )
