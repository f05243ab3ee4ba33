"""Batches: order, no repetition within an epoch, validation shares, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from bydore_pyro.data.store import TokenStore
from bydore_pyro.domains import Domains, SequenceStream
from bydore_pyro.errors import DataError


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
