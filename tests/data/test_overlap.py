"""Documents of targets that stand in training text: found as by comparing all, and taken out."""

from __future__ import annotations

import dataclasses
import pickle
import signal
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from tiny import assert_same_text, documents_in, documents_of, write_lines
from tiny import small_plan as plan_of

from bydore_pyro import terminal
from bydore_pyro.data import overlap
from bydore_pyro.data.overlap import Overlap, StandingIn, find_overlap, without_training
from bydore_pyro.data.preparation import prepare
from bydore_pyro.data.store import Answers, Text, TokenStore
from bydore_pyro.data.tokenizer import encode, load_encoder
from bydore_pyro.errors import DataError

WORDS = [f"{a}{b}{c}" for a in "bdfgklm" for b in "aeiou" for c in "nrst"]


def prose(seed: int, count: int) -> str:
    """Words without an order."""
    return " ".join(np.random.default_rng([7, seed]).choice(WORDS, count))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> TokenStore:
    """Domains `a` and `b` of 60 rows of 120 words each, a few of which are long and are cut."""
    folder = tmp_path_factory.mktemp("overlap")
    for at, name in enumerate("ab"):
        texts = [prose(1000 * (1 + at) + i, 120 if i % 20 else 700) for i in range(60)]
        write_lines(folder / "text" / f"{name}.jsonl", [{"text": text} for text in texts])
    plan = plan_of(folder / "text")
    return prepare(
        dataclasses.replace(plan, corpus=dataclasses.replace(plan.corpus, longest_document=1000)),
        folder / "store",
    )


def tokens_of(store: TokenStore, texts: Sequence[str]) -> Text:
    tokens, lengths = encode(
        *load_encoder(store.tokenizer), np.dtype(store.index["dtype"]), list(texts)
    )
    return Text(tokens, np.cumsum(lengths))


def task_of(store: TokenStore, questions: Sequence[Sequence[str]], right: int = 0) -> Text:
    """Choices, one of each question right."""
    text = tokens_of(store, [choice for question in questions for choice in question])
    numbers = np.repeat(np.arange(len(questions)), [len(question) for question in questions])
    of_each = np.concatenate([np.arange(len(question)) == right for question in questions])
    sizes = np.zeros(len(text), int)
    return dataclasses.replace(text, answers=Answers(text.ends - 2, sizes, numbers, of_each))


def trained(store: TokenStore, name: str) -> list[str]:
    """The texts of the documents, pieces of long ones joined."""
    parts = iter(documents_in(store)["train"][name])
    end = load_encoder(store.tokenizer)[1]
    counts = [int((one == end).sum()) for one in documents_of(store.train[name])]
    return ["\n".join(next(parts) for _ in range(count)) for count in counts]


def by_comparing_all(
    targets: Sequence[str], texts: Sequence[str]
) -> tuple[set[int], set[int], set[int]]:
    """The targets that stand in texts, these texts, and the targets that are compared."""
    documents = [target.lower().split() for target in targets]
    lengths = [min(13, len(words)) if len(words) >= 8 else 0 for words in documents]

    def runs_of(words: list[str], length: int) -> list[tuple[str, ...]]:
        return (
            [tuple(words[i : i + length]) for i in range(len(words) - length + 1)] if length else []
        )

    own = [runs_of(words, length) for words, length in zip(documents, lengths, strict=True)]
    shared = Counter(run for runs in own for run in {*runs})

    def words_in(number: int, found: Callable[[tuple[str, ...]], bool]) -> set[int]:
        begins = (i for i, run in enumerate(own[number]) if found(run))
        return {i + k for i in begins for k in range(lengths[number])}

    def covered(number: int, found: set[tuple[str, ...]]) -> int:
        own_words = words_in(number, lambda run: shared[run] <= 10 and run in found)
        return len(own_words - words_in(number, lambda run: shared[run] > 10))

    standing, places, compared = set(), set(), set()
    for number in range(len(documents)):
        if not (of := covered(number, {*own[number]})):
            continue
        compared.add(number)
        for place, text in enumerate(texts):
            there = {*runs_of(text.lower().split(), lengths[number])}
            if covered(number, there) >= of / 2:
                standing.add(number)
                places.add(place)
    return standing, places, compared


@pytest.mark.parametrize("block", [300, 1000, 2**16])
def test_what_stands_in_training_text_is_what_comparing_all_finds(
    corpus: TokenStore, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    """Of parts of documents of many lengths, behind the same words and behind others."""
    monkeypatch.setattr(overlap, "BLOCK", block)
    monkeypatch.setattr(overlap, "BEYOND", 256)
    rng, questions = np.random.default_rng(3), []
    texts = {name: trained(corpus, name) for name in "ab"}
    for number in range(60):
        own = texts["ab"[number % 2]]
        words = own[rng.integers(len(own))].split()
        length, begin = int(rng.integers(5, 60 if number % 5 else 16)), int(rng.integers(0, 40))
        before = prose(number, int(rng.integers(0, 60))) if number % 3 else prose(77, 40)
        before = before if number % 5 else ""
        questions.append(f"{before} {' '.join(words[begin : begin + length])}")
    found = find_overlap(corpus, {"exam": tokens_of(corpus, questions)})
    for name in "ab":
        standing, places, compared = by_comparing_all(questions, texts[name])
        assert {*np.flatnonzero(found.standing["exam"][name])} == standing
        assert {*found.training[name]} == places
        assert {*np.flatnonzero(found.compared["exam"])} == compared
        assert 5 < len(standing) < 45
        assert len(compared) < 60


def test_of_much_training_text_a_part_is_read(
    corpus: TokenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks that are spread evenly: what is found there is found in all."""
    monkeypatch.setattr(overlap, "BLOCK", 300)
    questions = [" ".join(text.split()[5:25]) for text in trained(corpus, "a")]
    targets = {"exam": tokens_of(corpus, questions)}
    whole = find_overlap(corpus, targets)
    total = sum(map(len, corpus.train.values()))
    part = find_overlap(corpus, targets, most=total // 3 + 1)
    assert (whole.share, part.share) == (1.0, 1 / 3)
    assert {*part.training["a"]} < {*whole.training["a"]}
    assert len(part.training["a"]) > len(whole.training["a"]) / 6


def test_white_space_case_and_punctuation_make_no_difference(corpus: TokenStore) -> None:
    texts = trained(corpus, "a")
    words = texts[3].split()[:40]
    changed = [
        " ".join(words),
        "\n\n".join(words).upper(),
        ", ".join(words),
        "\t ".join(words).title() + "?!",
        "".join(words),
        " ".join(words[::-1]),
    ]
    found = find_overlap(corpus, {"exam": tokens_of(corpus, changed)})
    assert found.standing["exam"]["a"].tolist() == [True] * 4 + [False] * 2
    assert {*found.standing["exam"]} == {"a"}
    assert found.training["a"].tolist() == [3]


def test_short_documents_are_compared_whole_or_not_at_all(corpus: TokenStore) -> None:
    """Seven words and "yes" stand in any text; of eight to twelve all must be there."""
    words = trained(corpus, "b")[5].split()
    texts = ["yes", " ".join(words[:7]), " ".join(words[9:17]), " ".join([*words[9:17], "yes"])]
    found = find_overlap(corpus, {"exam": tokens_of(corpus, texts)})
    assert found.compared["exam"].tolist() == [False, False, True, True]
    assert found.standing["exam"]["b"].tolist() == [False, False, True, False]


def test_instructions_that_many_questions_share_do_not_count(corpus: TokenStore) -> None:
    """Ten questions of a passage do: it is no instruction."""
    passage = " ".join(trained(corpus, "a")[7].split()[:60])
    for count, stand in ((10, True), (11, False)):
        questions = [f"{passage} {prose(500 + i, 20)}" for i in range(count)]
        found = find_overlap(corpus, {"exam": tokens_of(corpus, questions)})
        assert found.compared["exam"].all()
        own = found.standing["exam"].get("a", np.zeros(count, bool))
        assert own.all() if stand else not own.any()
        others = {"exam": tokens_of(corpus, questions), "more": tokens_of(corpus, questions[:9])}
        found = find_overlap(corpus, others)
        assert found.standing["more"]["a"].all(), "what another target shares makes no difference"


def test_words_of_examples_do_not_count_with_those_of_a_short_question(corpus: TokenStore) -> None:
    """Behind the same examples, questions that begin alike: one that is trained on is one."""
    examples = prose(9000, 60)
    questions = [f"{examples} {prose(9001 + i // 4, 3)} {prose(9100 + i, 9)}" for i in range(40)]
    text = tokens_of(corpus, [f"{prose(9200, 50)} {questions[6]}"])
    store = dataclasses.replace(corpus, train={"a": text})
    found = find_overlap(store, {"exam": tokens_of(corpus, questions)})
    assert found.compared["exam"].all()
    assert np.flatnonzero(found.standing["exam"]["a"]).tolist() == [6]


def test_questions_are_counted_by_their_right_answers_and_by_target(corpus: TokenStore) -> None:
    texts = trained(corpus, "b")
    parts = [" ".join(texts[i].split()[:30]) for i in range(4)]
    questions = [
        [f"{prose(i, 8)} {part}", f"{part} {parts[0]}", prose(30 + i, 20)]
        for i, part in enumerate(parts)
    ]
    targets = {
        "first": task_of(corpus, questions, 0),
        "last": task_of(corpus, questions, 2),
        "both": task_of(corpus, [[question[0]] for question in questions[2:]]),
        "empty": tokens_of(corpus, []),
    }
    found = find_overlap(corpus, targets, ["b"])
    assert {name: [*own] for name, own in found.standing.items()} == {
        "first": ["b"],
        "last": [],
        "both": ["b"],
        "empty": [],
    }
    assert found.standing["first"]["b"].tolist() == [True] * 4
    assert found.standing["both"]["b"].tolist() == [True] * 2
    assert [len(own) for own in found.compared.values()] == [4, 4, 2, 0]
    assert found.training["b"].tolist() == [0, 1, 2, 3]
    none = find_overlap(corpus, targets, ["a"])
    assert none.training == {}
    assert isinstance(none, Overlap)


def test_texts_are_compared_as_tokens_are(corpus: TokenStore) -> None:
    texts = trained(corpus, "a")
    wanted = [" ".join(texts[i].split()[5:60]) for i in (2, 9)]
    held = StandingIn([wanted, ["yes", ""]])
    assert np.flatnonzero(held(texts)).tolist() == [2, 9]
    found = find_overlap(corpus, {"exam": tokens_of(corpus, wanted)})
    assert found.training["a"].tolist() == [2, 9]
    assert held([]).tolist() == []
    assert held([wanted[0].upper(), "", "yes", prose(1, 40)]).tolist() == [
        True,
        False,
        False,
        False,
    ]
    assert not StandingIn([])(texts).any()


def test_training_documents_are_taken_out_and_all_else_stays(corpus: TokenStore) -> None:
    gone = {"a": np.array([0, 1, 7, len(corpus.train["a"].ends) - 1])}
    left = without_training(corpus, gone)
    whole, documents = trained(corpus, "a"), documents_of(corpus.train["a"])
    stay = [one for i, one in enumerate(documents) if i not in gone["a"]]
    np.testing.assert_array_equal(np.asarray(left.train["a"]), np.concatenate(stay))
    assert trained(left, "a") == [text for i, text in enumerate(whole) if i not in gone["a"]]
    assert_same_text(left.train["b"], corpus.train["b"])
    for name in "ab":
        assert_same_text(left.validation[name], corpus.validation[name])
        assert_same_text(left.judged[name], corpus.judged[name])
    before, after = corpus.index["domains"], left.index["domains"]
    assert after["b"] == before["b"]
    assert after["a"]["validation"] == before["a"]["validation"]
    assert after["a"]["in_targets_dropped"] == 4
    end = load_encoder(corpus.tokenizer)[1]
    tokens = np.asarray(left.train["a"])
    assert after["a"]["train"]["tokens"] == len(tokens) == len(left.train["a"])
    assert after["a"]["train"]["documents"] == (tokens == end).sum()
    assert (
        after["a"]["train"]["independent_documents"]
        == before["a"]["train"]["independent_documents"] - 4
    )
    parts = documents_in(left)["train"]["a"]
    assert after["a"]["train"]["bytes"] == sum(len(part.encode()) for part in parts)
    hashes = {corpus.sha256, left.sha256, without_training(corpus, {"a": np.array([3])}).sha256}
    assert len(hashes) == 3
    assert without_training(corpus, {}) is corpus
    twice = without_training(left, {"a": np.array([0])})
    assert twice.index["domains"]["a"]["in_targets_dropped"] == 5
    assert trained(twice, "a") == trained(left, "a")[1:]
    with pytest.raises(DataError, match="Expected training text in 'b' that does not hold"):
        without_training(corpus, {"b": np.arange(len(corpus.train["b"].ends))})


def test_another_process_opens_the_same_store(corpus: TokenStore) -> None:
    left = without_training(corpus, {"a": np.array([0, 5])})
    again = pickle.loads(pickle.dumps(left.reopen))()
    assert again.sha256 == left.sha256
    assert_same_text(again.train["a"], left.train["a"])


def test_the_size_of_a_sampled_domain_shrinks_with_its_sample(corpus: TokenStore) -> None:
    entry = corpus.index["domains"]["a"]
    for error in (2000, None):
        sampled = {"tokens": 10**6, "standard_error": error}
        domains = {
            **corpus.index["domains"],
            "a": {**entry, "train": entry["train"] | {"in_all": sampled}},
        }
        store = dataclasses.replace(corpus, index={**corpus.index, "domains": domains})
        left = without_training(store, {"a": np.array([2])})
        share = len(left.train["a"]) / len(store.train["a"])
        assert left.size("a") == round(1e6 * share)
        assert left.in_all("a")["standard_error"] == (error and round(error * share))


def test_the_comparison_ends_when_asked(
    corpus: TokenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two blocks, where requests are deferred."""
    assert threading.current_thread() is threading.main_thread()
    monkeypatch.setattr(overlap, "BLOCK", 500)
    target = {"exam": tokens_of(corpus, [prose(1, 40)])}
    with pytest.raises(terminal.Interrupted), terminal.deferred():
        signal.raise_signal(signal.SIGTERM)
        find_overlap(corpus, target)


def test_a_store_of_other_tokens_than_its_tokenizer_knows_is_refused(
    corpus: TokenStore, tmp_path: Path
) -> None:
    bad = np.full(50, 60_000, "<u2")
    store = dataclasses.replace(corpus, train={"a": Text(bad, np.array([50]))})
    with pytest.raises(DataError, match="found 60000 in the train text of 'a'"):
        find_overlap(store, {"exam": tokens_of(corpus, [prose(1, 40)])})
