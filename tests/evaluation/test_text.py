"""The loss on rows of text, against a closed form, transformers' own loss, and bytes by hand."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas
import pytest
import torch
from benchmark_data import character_tokenizer, save_model, write_benchmark
from tiny import write_lines
from torch import nn
from transformers import AutoTokenizer

from bydore_pyro.data.tokenizer import train_tokenizer
from bydore_pyro.errors import DataError, NonFiniteError
from bydore_pyro.evaluation.config import EvaluationConfig
from bydore_pyro.evaluation.evaluate import evaluate_model, load_model
from bydore_pyro.evaluation.text import (
    LONGEST,
    Context,
    Document,
    context_of,
    loss_per,
    read_documents,
    text_loss,
)
from bydore_pyro.proxy.language_model import TRAINED_LENGTH

TEXTS = ["a bird", "a longer row about birds, and more", "z", "two\nlines"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple:
    """A model of fresh weights that are far from zero, and its tokenizer of characters."""
    model, tokenizer = load_model(save_model(tmp_path_factory.mktemp("trained")), "cpu")
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model, tokenizer


def rows_of(path: Path, texts: list[str]) -> Path:
    return write_lines(path, [{"text": text} for text in texts])


def test_the_loss_is_transformers_own(trained: tuple, tmp_path: Path) -> None:
    """Of each document alone; in batches of documents of other lengths it is the same."""
    model, tokenizer = trained
    documents = read_documents(rows_of(tmp_path / "own.jsonl", TEXTS), tokenizer, LONGEST)
    losses = []
    for text in TEXTS:
        ids = torch.tensor([[0, *tokenizer(text, add_special_tokens=False)["input_ids"]]])
        with torch.no_grad():
            losses.append(model(input_ids=ids, labels=ids).loss.item() * len(text))
    sizes = np.array([len(text) for text in TEXTS])
    mean = sum(losses) / sizes.sum()
    assert loss_per(np.array(losses), sizes)[0] == pytest.approx(mean)
    for batch in (1, 3, 16):
        found = text_loss(model, documents, batch)
        assert found["loss_nats_per_token"] == pytest.approx(mean, rel=1e-5)
        assert found["loss_nats_per_byte"] == found["loss_nats_per_token"], "a character, a byte"
        assert (found["documents"], found["cut"]) == (4, 0)
        assert found["tokens"] == found["bytes"] == sizes.sum()


def test_a_model_that_knows_nothing(trained: tuple, tmp_path: Path) -> None:
    """The loss of every token is ln V, so that it has no error; one document has none to tell."""
    model, tokenizer = load_model(save_model(tmp_path / "model"), "cpu")
    nn.init.zeros_(model.lm_head.weight)
    documents = read_documents(rows_of(tmp_path / "own.jsonl", TEXTS), tokenizer, LONGEST)
    found = text_loss(model, documents, 2)
    assert found["loss_nats_per_token"] == pytest.approx(math.log(101))
    assert found["loss_nats_per_token_standard_error"] == pytest.approx(0, abs=1e-6)
    one = text_loss(model, [Document(torch.tensor([0, 5, 9]), 8, cut=True)], 2)
    assert one["loss_nats_per_byte"] == pytest.approx(2 * math.log(101) / 8)
    assert one["loss_nats_per_byte_standard_error"] is None
    nn.init.constant_(model.lm_head.weight, float("nan"))
    with pytest.raises(NonFiniteError, match=r"Expected a finite loss, found nan of document 1$"):
        text_loss(model, documents, 2)


def test_the_error_is_the_scatter_of_the_loss_over_sets_of_documents() -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(5, 200, (4000, 80))
    losses = sizes * rng.gamma(9.0, 0.3, sizes.shape)
    means, errors = np.array([loss_per(*pair) for pair in zip(losses, sizes, strict=True)]).T
    assert np.mean(errors) == pytest.approx(means.std(), rel=0.03)


def test_bytes_are_those_of_the_characters_that_are_read(tmp_path: Path) -> None:
    """A document is cut between two characters, also where a character is several tokens."""
    train_tokenizer(["héhé 東京 <|endoftext|> " * 20], 280, tmp_path / "tokenizer")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "tokenizer")
    path = rows_of(tmp_path / "own.jsonl", ["北海道 and more", "x", "<|endoftext|>"])
    for most, characters in ((2, 0), (4, 1), (5, 1), (6, 1), (7, 2), (10, 3), (11, 4)):
        if not characters:
            with pytest.raises(DataError, match=r"text in every row, found none in row 1 of "):
                read_documents(path, tokenizer, most)
            continue
        first, second, third = read_documents(path, tokenizer, most)
        assert first.cut
        assert first.bytes == len("北海道 and"[:characters].encode())
        assert tokenizer.decode(first.tokens[1:]) == "北海道 and"[:characters]
        assert first.tokens[0] == tokenizer.eos_token_id
        assert (second.bytes, second.cut) == (1, False)
        assert tokenizer.eos_token_id not in third.tokens[1:], "a word of the text"
    whole = read_documents(path, tokenizer, LONGEST)
    assert [one.bytes for one in whole] == [18, 1, 13]
    long = rows_of(tmp_path / "long.jsonl", ["x!" * 3000])
    (one,) = read_documents(long, tokenizer, LONGEST)
    assert (len(one.tokens), one.bytes, one.cut) == (2048, 2047, True)


@pytest.mark.parametrize(
    ("config", "asked", "tokens", "text"),
    [
        ({"max_position_embeddings": 8192, TRAINED_LENGTH: 4096}, None, 4096, 4096),
        ({"max_position_embeddings": 131072}, None, 131072, 2048),
        ({"max_position_embeddings": 2048, TRAINED_LENGTH: 128}, 256, 256, 256),
        ({}, None, 2048, 2048),
    ],
)
def test_the_longest_context(
    config: dict[str, int], asked: int | None, tokens: int, text: int
) -> None:
    """Whatever a model takes, it knows the length at which it was trained."""
    found = context_of(SimpleNamespace(config=SimpleNamespace(**config)), asked)
    assert found == Context(tokens, text, found.source)


def test_a_context_longer_than_the_model_takes_is_refused() -> None:
    model = SimpleNamespace(config=SimpleNamespace(max_position_embeddings=512))
    with pytest.raises(DataError, match=r"Expected --sequence_length <= 512, .*, found 513$"):
        context_of(model, 513)


def test_what_is_no_text_is_refused(trained: tuple, tmp_path: Path) -> None:
    _, tokenizer = trained
    good = rows_of(tmp_path / "good.jsonl", TEXTS)
    assert len(read_documents(good, tokenizer, LONGEST, limit=3)) == 3
    with pytest.raises(
        DataError,
        match=r"a column 'body', found text \(--text_column names another\), .*good.jsonl, line 1",
    ):
        read_documents(good, tokenizer, LONGEST, "body")
    pandas.DataFrame({"body": TEXTS}).to_parquet(tmp_path / "good.parquet")
    assert len(read_documents(tmp_path / "good.parquet", tokenizer, LONGEST, "body")) == 4
    for name, content, told in (
        ("nothing", "", "Expected rows of text, found none in .*nothing.jsonl"),
        ("empty", '{"text": "x"}\n{"text": ""}\n', "found none in row 2 of .*empty.jsonl"),
        ("broken", '{"text": "x"}\nx\n', "Expected a JSON object, found .*broken.jsonl, line 2"),
    ):
        path = tmp_path / f"{name}.jsonl"
        path.write_text(content)
        with pytest.raises(DataError, match=told):
            read_documents(path, tokenizer, LONGEST)
    tokenizer = character_tokenizer()
    tokenizer.eos_token = None
    with pytest.raises(DataError, match=r"Expected a tokenizer.json .*, found no such token"):
        read_documents(good, tokenizer, LONGEST)


def test_text_beside_benchmarks(
    trained: tuple, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commas or spaces; text is read before a benchmark is scored, and needs no lm-eval."""
    model, tokenizer = trained
    write_benchmark(tmp_path, "piqa")
    own, more = (str(rows_of(tmp_path / f"{name}.jsonl", TEXTS)) for name in ("own", "more"))
    given = {"data_dir": str(tmp_path), "num_fewshot": [0], "limit": 2}
    config = EvaluationConfig(tasks=[f"piqa,{own}", more, own], **given)
    found = evaluate_model(model, tokenizer, config)
    assert [*found] == ["PIQA", own, more]
    assert found[own] == found[more]
    assert found[own] == text_loss(model, read_documents(Path(own), tokenizer, LONGEST)[:2], 16)
    kept = {"PIQA": {"score": 1.0}, own: {"loss": 2.0}}
    again = evaluate_model(model, tokenizer, config, kept)
    assert again == {**kept, more: found[more]}
    absent = EvaluationConfig(tasks=["piqa", f"{tmp_path}/absent.jsonl"], **given)
    states: list[dict] = []
    with pytest.raises(DataError, match=r"Expected a file, found none: .*absent"):
        evaluate_model(model, tokenizer, absent, keep=states.append)
    assert not states
    monkeypatch.setitem(sys.modules, "lm_eval.models.huggingface", None)
    alone = evaluate_model(model, tokenizer, EvaluationConfig(tasks=[own], limit=2))
    assert alone == {own: found[own]}
