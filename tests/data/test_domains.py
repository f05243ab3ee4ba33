"""Batches: order, no repetition within an epoch, validation shares, and what is refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from tiny import random_store

from bydore_pyro.data.domains import Domains, SequenceStream
from bydore_pyro.data.store import TokenStore
from bydore_pyro.utils.errors import DataError


def test_a_stream_repeats_nothing_within_an_epoch_and_can_be_entered_anywhere() -> None:
    tokens = np.arange(1005, dtype=np.uint16)
    stream = SequenceStream(tokens, 10, [0])
    epochs = [stream.read(e * 100, 100) for e in range(2)]
    for epoch in epochs:
        assert sorted(epoch[:, 0].tolist()) == list(range(0, 1000, 10))
    assert not np.array_equal(*epochs), "another epoch, another order"
    np.testing.assert_array_equal(stream.read(95, 10), np.concatenate(epochs)[95:105])
    np.testing.assert_array_equal(SequenceStream(tokens, 10, [0]).read(150, 5), epochs[1][50:55])
    assert not np.array_equal(SequenceStream(tokens, 10, [1]).read(0, 100), epochs[0])


def test_training_batches_have_the_counts_asked_for(domains: Domains) -> None:
    batch = domains.train_batch({"birds": 2, "digits": 0, "greek": 3, "upper": 1})
    assert batch.shape == (6, 32)
    own = {
        name: {tuple(row) for row in domains._streams["train", name]._sequences.tolist()}
        for name in domains.names
    }
    for row, name in zip(batch.tolist(), ["birds"] * 2 + ["greek"] * 3 + ["upper"], strict=True):
        assert tuple(row) in own[name]
    assert domains.epochs()["greek"] == pytest.approx(3 / domains.sequences()["greek"])


def test_signal_batches_go_domain_after_domain(domains: Domains) -> None:
    first, second = domains.signal_batch(2), domains.signal_batch(2)
    assert first.shape == (8, 32)
    assert not np.array_equal(first, second), "fresh every time"


def test_validation_shares(corpus: TokenStore) -> None:
    shares = {"birds": 2.0, "digits": 1.0}
    domains = Domains(corpus, shares, sequence_length=16, validation_sequences=60)
    assert domains.validation_shares == {"birds": 2 / 3, "digits": 1 / 3}
    held_out = {
        name: {
            tuple(r)
            for r in corpus.validation[name][: 16 * (len(corpus.validation[name]) // 16)]
            .reshape(-1, 16)
            .tolist()
        }
        for name in shares
    }
    rows = [tuple(r) for r in domains.validation.tolist()]
    assert sum(r in held_out["birds"] for r in rows) == 2 * len(rows) // 3
    assert len(set(rows)) == len(rows)
    batch = domains.validation_batch(10)
    assert len({tuple(r) for r in batch.tolist()}) == 10


def test_validation_text_is_never_trained_on(corpus: TokenStore) -> None:
    """Documents of one file lie on one side, so no validation sequence stands in training."""
    for name in corpus.names:
        train = corpus.train[name].tobytes()
        length = 64
        for start in range(0, len(corpus.validation[name]) - length, length):
            assert corpus.validation[name][start : start + length].tobytes() not in train


def test_a_validation_domain_need_not_be_trained_on(corpus: TokenStore) -> None:
    domains = Domains(corpus, {"birds": 1.0}, names=["digits", "greek"], sequence_length=32)
    assert domains.num_domains == 2
    assert domains.train_batch({"birds": 4}).shape == (4, 32), "for the comparison alone"


def measuring(corpus: TokenStore, measured: int) -> Domains:
    return Domains(
        corpus,
        {"birds": 2.0, "greek": 1.0},
        sequence_length=32,
        validation_sequences=64,
        measured=measured,
    )


def every_row(domains: Domains, kind: str, name: str) -> set[int]:
    """The numbers of the sequences that a stream of two epochs is made of."""
    stream = domains._streams[kind, name]
    return set(stream.rows(0, 2 * stream.count).tolist())


@pytest.mark.parametrize("measured", [1, 10, 10**6])
def test_what_is_kept_for_measuring_is_never_trained_on(corpus: TokenStore, measured: int) -> None:
    """Together they are all sequences; at most a third is kept."""
    domains = measuring(corpus, measured)
    kept = dict(zip(domains.names, domains.measurable().tolist(), strict=True))
    for name in domains.names:
        total = len(corpus.train[name]) // 32
        trained, own = every_row(domains, "train", name), every_row(domains, "measure", name)
        assert not trained & own
        assert trained | own == set(range(total))
        assert len(own) == kept[name] == min(measured, total // 3)
        assert domains.sequences()[name] == total, "a run reads all of it"
        assert every_row(domains, "signal", name) == set(range(total))


def test_nothing_is_kept_where_nothing_is_measured(corpus: TokenStore) -> None:
    plain = Domains(corpus, {"birds": 1.0}, sequence_length=32, validation_sequences=64)
    assert not any(kind == "measure" for kind, _ in plain._streams)
    assert plain.sequences()["birds"] == len(corpus.train["birds"]) // 32


def test_measured_sequences_come_with_their_documents(corpus: TokenStore) -> None:
    """Each is the document that holds its middle; batches go on where the last one ended."""
    domains, twin = measuring(corpus, 40), measuring(corpus, 40)
    first, numbers = domains.measure_batch("greek", 12)
    second, more = domains.measure_batch("greek", 5)
    rows = twin._streams["measure", "greek"].rows(0, 17)
    tokens, ends = corpus.train["greek"], corpus.train_documents["greek"]
    assert len(ends) > 20
    for row, sequence, number in zip(rows, [*first, *second], [*numbers, *more], strict=True):
        assert sequence.tolist() == tokens[row * 32 : row * 32 + 32].tolist()
        start = 0 if number == 0 else ends[number - 1]
        assert start <= row * 32 + 16 < ends[number]
    state = domains.state()
    expected = domains.measure_batch("greek", 4)[0]
    twin.restore(state)
    assert torch.equal(twin.measure_batch("greek", 4)[0], expected)


def test_validation_documents_are_told_apart(corpus: TokenStore) -> None:
    """Those of another domain have other numbers, and each sequence stands in its document."""
    domains = measuring(corpus, 10)
    numbers = domains.validation_documents
    assert len(numbers) == len(domains.validation)
    of_birds = len(corpus.validation_documents["birds"])
    held_out = {name: corpus.validation[name].tobytes() for name in ("birds", "greek")}
    for sequence, number in zip(domains.validation.numpy(), numbers, strict=True):
        name = "birds" if number < of_birds else "greek"
        tokens = sequence.astype(corpus.validation[name].dtype).tobytes()
        assert tokens in held_out[name]
    assert len(set(numbers.tolist())) > 5


@pytest.mark.parametrize("sequences", [1, 2, 3])
def test_a_domain_of_few_sequences_can_be_measured(sequences: int) -> None:
    corpus = random_store(tokens=6400)
    train = {**corpus.train, "c": corpus.train["c"][: 32 * sequences]}
    domains = measuring_random(dataclasses.replace(corpus, train=train))
    batch, documents = domains.measure_batch("c", 2)
    assert batch.shape == (2, 32)
    assert documents.shape == (2,)
    assert domains.train_batch({"c": 2}).shape == (2, 32)


def measuring_random(corpus: TokenStore) -> Domains:
    return Domains(corpus, {"a": 1.0}, sequence_length=32, validation_sequences=64, measured=20)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": ["birds"]}, "at least two domains"),
        ({"names": ["birds", "cats"]}, "found 'cats'"),
        ({"names": ["birds", "birds"]}, "every domain once"),
        ({"validation": {"cats": 1.0}}, "found 'cats'"),
        ({"validation": {"birds": 0.0}}, "shares > 0"),
        ({"validation": {}}, "shares > 0"),
        ({"validation": {"birds": 1.0, "greek": 1e-3}}, "share of at least one in"),
        ({"sequence_length": 10**6}, "one sequence of 1000000 tokens in domain 'birds'"),
        ({"sequence_length": 600}, "at least 16 validation sequences"),
    ],
)
def test_bad_domains_are_refused(corpus: TokenStore, options: dict, message: str) -> None:
    validation = options.pop("validation", {"birds": 1.0})
    with pytest.raises(DataError, match=message):
        Domains(corpus, validation, **options)
