"""Tasks as scored text: which tokens count, what their bytes are, and what is left out."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast

from bydore_pyro import data
from bydore_pyro.errors import DataError
from bydore_pyro.targets.request import Request, Score, Task
from bydore_pyro.targets.scored import Cuts, Scored, answer_bytes, cuts, text_of

WORDS = "the heron sleeps in the reeds; the old miller keeps a key, héron 漢字 🙂 the end\n" * 20
TYPE = np.dtype("<u2")
END = 0


def byte_level(*, trimmed: bool = False) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=trimmed)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<end>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([WORDS], trainer)
    return tokenizer


def trimmed() -> Tokenizer:
    """Its offsets leave out the space before a word."""
    return byte_level(trimmed=True)


def with_bytes() -> Tokenizer:
    """What it does not know becomes its bytes, as with SentencePiece; a space stands in front."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    known = ["<end>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=known, show_progress=False)
    tokenizer.train_from_iterator([WORDS[:60]], trainer)
    return tokenizer


def normalised() -> Tokenizer:
    """It writes some characters as others."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=80, unk_token="<unk>", special_tokens=["<end>", "<unk>"], show_progress=False
    )
    tokenizer.train_from_iterator([WORDS], trainer)
    return tokenizer


def without_spaces() -> Tokenizer:
    """It drops white space and all that stands in an alphabet that it does not know."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.BertNormalizer(lowercase=True), normalizers.Replace("🙂", "")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=150, special_tokens=["<end>", "<unk>"], show_progress=False
    )
    tokenizer.train_from_iterator([WORDS], trainer)
    return tokenizer


KINDS: list[Callable[[], Tokenizer]] = [
    byte_level,
    trimmed,
    with_bytes,
    normalised,
    without_spaces,
]


def saved(tokenizer: Tokenizer, folder: Path) -> Path:
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>").save_pretrained(
        str(folder)
    )
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(byte_level(), tmp_path_factory.mktemp("tokenizer"))


def task_of(*requests: Request, score: Score = "answer") -> Task:
    return Task(name="river", requests=requests, score=score, source="3 rows", split="validation")


def scored(folder: Path, *requests: Request, score: Score = "answer") -> Scored:
    return text_of(task_of(*requests, score=score), folder, TYPE)


def answers_in(found: Scored, folder: Path) -> list[str]:
    """The tokens of each document that count, as text."""
    tokenizer, _ = data.load_encoder(folder)
    text, answers = found.text, found.text.answers
    assert answers is not None
    spans = zip(answers.starts, text.ends - 1, strict=True)
    return [tokenizer.decode(np.asarray(text[start:end]).tolist()) for start, end in spans]


def test_documents_are_questions_with_their_answers_of_which_these_count(folder: Path) -> None:
    """Also an answer without a question."""
    found = scored(
        folder, Request("the heron sleeps", (" in the reeds",)), Request("", ("héron 漢",))
    )
    assert answers_in(found, folder) == [" in the reeds", "héron 漢"]
    text, answers = found.text, found.text.answers
    assert answers is not None
    assert answers.right is None
    assert answers.questions.tolist() == [0, 1]
    assert (np.asarray(text[text.ends - 1]) == END).all()
    assert answers.starts[1] == text.starts[1]
    assert answers.sizes[: answers.starts[0]].sum() == 0
    assert answers.sizes.sum() == len(" in the reedshéron 漢".encode())
    assert answers.sizes[text.ends - 1].sum() == 0
    entry = found.entry["validation"]
    assert (entry["documents"], entry["tokens"], entry["answer_bytes"]) == (2, len(text), 23)
    assert entry["bytes"] == len("the heron sleeps in the reedshéron 漢".encode())


def test_white_space_moves_to_the_answer_above_and_below_alike(folder: Path) -> None:
    """To its tokens and to its bytes."""
    one = scored(folder, Request("the heron \n", ("in the reeds",)))
    other = scored(folder, Request("the heron", (" \nin the reeds",)))
    assert answers_in(one, folder) == [" \nin the reeds"]
    np.testing.assert_array_equal(np.asarray(one.text), np.asarray(other.text))
    assert one.entry == other.entry
    assert one.entry["validation"]["answer_bytes"] == 14


def test_a_token_over_the_border_belongs_to_the_answer_with_the_answers_bytes(folder: Path) -> None:
    """The tokenizer knows more of "heron" than "on"."""
    found = scored(folder, Request("the her", ("on sleeps",)))
    (read,) = answers_in(found, folder)
    assert " heron sleeps".endswith(read)
    assert len(read) > len("on sleeps")
    answers = found.text.answers
    assert answers is not None
    assert answers.sizes[answers.starts[0]] == 2
    assert answers.sizes.sum() == 9
    found = scored(folder, Request("th", ("e",)))  # the first token of all
    answers = found.text.answers
    assert answers is not None
    assert (answers.starts[0], answers.sizes.tolist()) == (0, [1, 0])


def test_bytes_of_characters_of_several_tokens_count_once() -> None:
    offsets = [(0, 1), (1, 2), (1, 2), (1, 2), (2, 3)]
    found = answer_bytes("a漢b", 1, offsets)
    assert found is not None
    assert found.tolist() == [-1, 3, 0, 0, 1]
    # A space that no token covers counts with the next, what is behind all with the last.
    found = answer_bytes("a b.. ", 1, [(0, 1), (2, 3), (3, 4)])
    assert found is not None
    assert found.tolist() == [-1, 2, 3]
    assert answer_bytes("a b", 3, [(0, 1), (2, 3)]) is None
    assert answer_bytes("", 0, []) is None


@pytest.mark.parametrize("kind", KINDS)
def test_the_bytes_of_tokens_are_those_of_the_answer(kind: Callable[[], Tokenizer]) -> None:
    """Of any tokenizer and any text; every token from the first on counts."""
    tokenizer, draw, spanning = kind(), random.Random(0), 0
    for _ in range(1500):
        context = "".join(draw.choices("the reds \n漢é🙂ﬁ.", k=draw.randint(0, 9))).rstrip()
        answer = "".join(draw.choices("the reds \n漢é🙂ﬁ.", k=draw.randint(1, 9)))
        encoded = tokenizer.encode(context + answer, add_special_tokens=False)
        found = answer_bytes(context + answer, len(context), encoded.offsets)
        if found is None:
            assert not answer.replace("🙂", "").strip()
            continue
        first = int(np.argmax(found >= 0))
        assert (found[:first] == -1).all()
        assert (found[first:] >= 0).all()
        assert found[first:].sum() == len(answer.encode())
        spanning += encoded.offsets[first][0] < len(context)
    assert spanning > 5


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_token_over_the_border_they_are_those_behind_the_context(
    kind: Callable[[], Tokenizer], tmp_path: Path
) -> None:
    """As lm-eval takes them."""
    folder = saved(kind(), tmp_path / "tokenizer")
    tokenizer, _ = data.load_encoder(folder)
    alike = 0
    for context, answer in (
        ("the heron sleeps", " in the reeds"),
        ("the old miller:", " a key"),
        ("a key,\n", "héron 漢"),
        ("the end.", " 🙂 the end"),
    ):
        whole = tokenizer.encode(context + answer, add_special_tokens=False).ids
        before = tokenizer.encode(context.rstrip(), add_special_tokens=False).ids
        if whole[: len(before)] != before:
            continue
        alike += 1
        text = scored(folder, Request(context, (answer,))).text
        assert text.answers is not None
        assert np.asarray(text[int(text.answers.starts[0]) : -1]).tolist() == whole[len(before) :]
    assert alike > 2


def test_choices_are_documents_of_one_question(folder: Path) -> None:
    first = Request("the heron", (" sleeps", " keeps a key"), (0,))
    second = Request("the miller", (" sleeps", " keeps a key", " the end"), (1, 2))
    found = scored(folder, first, second, score="choice")
    answers = found.text.answers
    assert answers is not None
    assert answers.right is not None
    assert answers.questions.tolist() == [0, 0, 1, 1, 1]
    assert answers.right.tolist() == [True, False, False, True, True]
    assert answers_in(found, folder) == [*first.answers, *second.answers]
    entry = found.entry["validation"]
    assert (entry["documents"], entry["independent_documents"]) == (5, 5)
    assert entry["questions"] == 2
    sequences = data.answered_sequences(found.text, 32, np.arange(2))
    assert sequences.unit == data.OF_CHOICES
    right_alone = scored(folder, first, second)
    assert answers_in(right_alone, folder) == [" sleeps", " keeps a key"]


def test_weights_of_an_answer_are_one_over_its_bytes(folder: Path) -> None:
    found = scored(folder, Request("the heron", (" in the reeds",)), Request("", ("漢",)))
    sequences = data.answered_sequences(found.text, 32, np.arange(2))
    assert sequences.weights is not None
    answers = found.text.answers
    assert answers is not None
    counts = found.text.ends - 1 - answers.starts
    sums = counts / (np.array([13, 3]) * np.log(2))
    np.testing.assert_allclose(sequences.weights.sum(1).numpy(), sums, rtol=1e-6)


def test_what_is_left_out_is_counted(folder: Path) -> None:
    one = Request("the heron", (" sleeps",))
    moved = Request("the heron ", ("sleeps",), place="line 9")  # the same question
    others = [Request("the heron", ("",)), Request("the heron\n", (" ",)), one, moved]
    task = replace(task_of(one, *others), left_out={"rows that could not be read": 2})
    found = text_of(task, folder, TYPE)
    assert found.left_out == {
        "rows that could not be read": 2,
        "empty answers": 2,
        "copies of other questions": 2,
    }
    assert len(found.text.ends) == 1
    assert (found.entry["skipped"], found.entry["duplicates_dropped"]) == (2, 2)


def test_a_question_with_an_empty_choice_is_left_out_whole(folder: Path) -> None:
    """The share of the right answer is among all choices."""
    requests = [Request("the heron", (" sleeps", "")), Request("the heron", (" sleeps", " a key"))]
    found = scored(folder, *requests, score="choice")
    assert found.left_out == {"empty answers": 1}
    assert len(found.text.ends) == 2
    assert len(scored(folder, replace(requests[0], answers=(" sleeps",))).text.ends) == 1


def test_a_question_whose_choices_cannot_be_told_apart_is_left_out(folder: Path) -> None:
    """Its loss would be the same number for all models, or have that number as its floor."""
    alike = Request("the heron", (" sleeps", " sleeps", " eats"), (0,))
    all_right = Request("the heron", (" sleeps", " eats"), (0, 1))
    kept = Request("the heron", (" sleeps", " sleeps", " eats"), (0, 1))
    found = scored(folder, alike, all_right, kept, score="choice")
    assert found.left_out == {
        "questions whose right choice is equal to a wrong one, or that have no wrong one": 2
    }
    assert len(found.text.ends) == 3


def test_an_answer_without_a_token_is_left_out(tmp_path: Path) -> None:
    folder = saved(without_spaces(), tmp_path / "tokenizer")
    given = Request("the heron", (" 🙂",)), Request("the heron", (" sleeps",))
    assert scored(folder, *given).left_out == {"answers without a token of their own": 1}
    with pytest.raises(
        DataError, match=r"Expected answers to score, found none in 'river' \(1 answ"
    ):
        scored(folder, given[0])


def test_the_hash_of_a_text_covers_what_of_it_is_scored(folder: Path) -> None:
    """The same words, divided elsewhere."""
    one = scored(folder, Request("the heron", (" sleeps here",)))
    other = scored(folder, Request("the heron sleeps", (" here",)))
    assert np.array_equal(np.asarray(one.text), np.asarray(other.text))
    hashes = [found.entry["validation"]["sha256"] for found in (one, other)]
    assert hashes[0] != hashes[1]


def test_the_hash_of_requests_is_of_what_is_asked(folder: Path) -> None:
    one, two = (Request(context, (" sleeps",)) for context in ("the heron", "the miller"))
    hashes = [
        scored(folder, *given).requests_sha256
        for given in ((one,), (two,), (one, two), (replace(one, place="line 7"),))
    ]
    assert len({*hashes}) == 3
    assert hashes[0] == hashes[3]


def test_what_sequences_lose_is_counted(folder: Path) -> None:
    """An answer keeps a token before it, which is read."""
    found = scored(
        folder, Request("the heron", (" sleeps" * 9,)), Request("the" + " heron" * 9, (" sleeps",))
    )
    text, answers = found.text, found.text.answers
    assert answers is not None
    long, short = (int(n) for n in text.ends - 1 - answers.starts)
    longest = int((text.ends - 1 - text.starts).max())
    assert cuts(text, longest, "river") == Cuts(2, 0, 0, longest)
    assert cuts(text, long + 1, "river") == Cuts(2, 2 if longest > long + 2 else 1, 0, longest)
    assert cuts(text, long, "river").answers == 1
    with pytest.raises(DataError, match=f"--sequence_length > {short} for the target 'river', of"):
        cuts(text, short, "river")
    alone = scored(folder, Request("", (" sleeps",))).text
    assert cuts(alone, len(alone), "river") == Cuts(1, 0, 0, len(alone))
    with pytest.raises(DataError, match="Expected --sequence_length"):
        cuts(alone, len(alone) - 1, "river")
    with pytest.raises(ValueError, match="Expected a text with answers, actual plain text"):
        cuts(data.Text(alone.tokens, alone.ends), 8, "river")


def test_a_question_of_choices_loses_where_one_of_them_does(folder: Path) -> None:
    given = Request("the heron", (" sleeps", " sleeps" * 9), (0,))
    text = scored(folder, given, replace(given, answers=(" a", " key")), score="choice").text
    longest = int((text.ends - 1 - text.starts).max())
    assert cuts(text, longest - 1, "river") == Cuts(2, 1, 0, longest)
    assert cuts(text, 8, "river") == Cuts(2, 0, 1, longest)


def test_the_length_that_would_do_for_choices_is_that_of_the_longest(folder: Path) -> None:
    given = Request("the heron", (" a", " sleeps" * 9), (0,))
    text = scored(folder, given, score="choice").text
    longest = int((text.ends - 1 - text.answers.starts).max()) if text.answers else 0
    with pytest.raises(DataError, match=f"Expected --sequence_length > {longest} for"):
        cuts(text, longest, "river")
    assert cuts(text, longest + 1, "river").answers == 0
