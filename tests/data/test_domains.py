"""Batches: order, no repetition within an epoch, validation shares, and what is refused."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest
import torch
from scored_text import with_task
from tiny import text_of

from bydore_pyro.data.domains import Domains
from bydore_pyro.data.held_out import (
    held_out_counts,
    held_out_sequences,
    held_out_size,
    held_out_stream,
)
from bydore_pyro.data.orders import SequenceStream, kept_aside, left_to_check, twins
from bydore_pyro.data.scored import together, weighted
from bydore_pyro.data.store import TokenStore
from bydore_pyro.errors import DataError


def test_training_batches_have_the_counts_asked_for(domains: Domains) -> None:
    batch = domains.train_batch({"birds": 2, "digits": 0, "greek": 3, "upper": 1})
    assert batch.shape == (6, 32)
    own = {}
    for name in domains.names:
        stream = SequenceStream(domains.corpus, "train", name, 32, [])
        own[name] = {tuple(row) for row in stream.sequences(np.arange(stream.count)).tolist()}
    for row, name in zip(batch.tolist(), ["birds"] * 2 + ["greek"] * 3 + ["upper"], strict=True):
        assert tuple(row) in own[name]
    sequences = domains.sequences()["greek"]
    assert domains.epochs()["greek"] == pytest.approx(3 / sequences)
    assert domains.most_weights(2.0, 64.0)["greek"] == sequences
    entry = {"train": {"in_all": {"tokens": 10**6, "standard_error": None}}}
    sampled = dataclasses.replace(domains.corpus, index={"domains": {"greek": entry}})
    domains.corpus, corpus = sampled, domains.corpus
    assert domains.most_weights(2.0, 1e7)["greek"] == 0.2, "a sample is not all there is"
    domains.corpus = corpus
    first, second = domains.signal_batch(2), domains.signal_batch(2)
    assert first.shape == (8, 32)
    assert not np.array_equal(first, second), "fresh every time"


def test_validation_shares(corpus: TokenStore) -> None:
    """Held-out text alone; a domain of it need not be trained on."""
    shares = {"birds": 2.0, "digits": 1.0}
    names = ["digits", "greek"]
    domains = Domains(corpus, shares, names=names, sequence_length=16, validation_sequences=60)
    assert domains.validation_shares == {"birds": 2 / 3, "digits": 1 / 3}
    assert domains.num_domains == 2
    assert domains.trainable == ("digits", "greek", "birds")
    assert domains.train_batch({"birds": 4}).shape == (4, 16), "for the comparison alone"
    rows = [tuple(r) for r in together(domains.targets.values())[0].tolist()]
    assert len(set(rows)) == len(rows)
    held_out = np.asarray(corpus.validation["birds"])
    own = {tuple(r) for r in held_out[: len(held_out) // 16 * 16].reshape(-1, 16).tolist()}
    assert sum(r in own for r in rows) == 2 * len(rows) // 3
    assert len({tuple(r) for r in domains.validation_batch(10)[0].tolist()}) == 10
    train = np.asarray(corpus.train["birds"]).tobytes()
    for start in range(0, len(held_out) - 64, 64):
        assert held_out[start : start + 64].tobytes() not in train


def measuring(corpus: TokenStore, measured: int, **validation: float) -> Domains:
    return Domains(
        corpus,
        validation or {"birds": 2.0, "greek": 1.0},
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
        assert domains.trained()[domains.names.index(name)] == len(trained)
        assert every_row(domains, "signal", name) == set(range(total))
    with pytest.raises(ValueError, match="Expected domains with measured > 0"):
        measuring(corpus, 0).measurable()
    assert kept_aside(text_of([np.zeros(64, np.uint16)]), 32, measured, [0]) == (None, None)


@pytest.mark.parametrize("measured", [8, 40, 44])
def test_what_a_mixture_is_checked_on_is_never_measured(corpus: TokenStore, measured: int) -> None:
    """However often measurements come round; and where text is enough they read what they read
    without a check, which reads what they would have read next."""
    plain = measuring(corpus, measured)
    domains = Domains(corpus, {"birds": 1.0}, sequence_length=32, measured=measured, checked=4)
    for name in domains.names:
        left = domains.check_batch(name)[0]
        assert len(left) == domains.checked[name] == left_to_check(measured, 4)
        each = measured - len(left)
        assert domains.measurable()[domains.names.index(name)] == each
        first = domains.measure_batch(name, each)[0]
        expected = plain.measure_batch(name, measured)[0]
        assert torch.equal(torch.cat([first, left]), expected)
        rows = {tuple(row) for row in first.tolist()}
        assert len(rows) == each
        again = torch.cat([domains.measure_batch(name, 7)[0] for _ in range(2 * each)])
        counts = Counter(map(tuple, again.tolist()))
        assert {*counts} == rows
        assert not rows & {tuple(row) for row in left.tolist()}
        assert {*counts.values()} == {14}, "each as often as every other"
        assert torch.equal(domains.check_batch(name)[0], left), "it is always the same"


def test_what_is_drawn_does_not_depend_on_names(corpus: TokenStore) -> None:
    """Neither a domain's nor a target's; and the same text under two names is drawn apart."""
    told = {name: f"the {name}" for name in corpus.names}
    sides = {
        side: {told[name]: text for name, text in getattr(corpus, side).items()}
        for side in ("train", "validation", "judged")
    }
    renamed = dataclasses.replace(corpus, **sides)
    given = {"sequence_length": 32, "validation_sequences": 48, "measured": 20, "checked": 4}
    one = Domains(corpus, {"birds": 2.0, "greek": 1.0}, **given)
    other = Domains(renamed, {"the birds": 2.0, "the greek": 1.0}, **given)
    for name, target in one.targets.items():
        assert torch.equal(target.tokens, other.targets[told[name]].tokens)
    for name in one.names:
        assert torch.equal(one.train_batch({name: 9}), other.train_batch({told[name]: 9}))
        assert torch.equal(one.signal_batch(9, [name]), other.signal_batch(9, [told[name]]))
        assert torch.equal(one.measure_batch(name, 9)[0], other.measure_batch(told[name], 9)[0])
        assert torch.equal(one.check_batch(name)[0], other.check_batch(told[name])[0])
        judged = [
            held_out_stream(store, of, 32, 0, "judged").first(20)
            for store, of in ((corpus, name), (renamed, told[name]))
        ]
        assert torch.equal(*judged)
    train = {**corpus.train, "again": corpus.train["greek"]}
    held_out = {**corpus.validation, "again": corpus.validation["greek"]}
    both = dataclasses.replace(corpus, train=train, validation=held_out)
    assert twins(both, train) == {**dict.fromkeys(corpus.names, 0), "again": 1}
    twice = Domains(both, {"greek": 1.0}, **given)
    first, second = (twice.measure_batch(name, 16)[0] for name in ("greek", "again"))
    assert len({tuple(row) for row in torch.cat([first, second]).tolist()}) > 24


def test_measured_sequences_come_with_their_documents(corpus: TokenStore) -> None:
    """Each is the document that holds its middle; batches go on where the last one ended."""
    domains, twin = measuring(corpus, 40), measuring(corpus, 40)
    first, numbers = domains.measure_batch("greek", 12)
    second, more = domains.measure_batch("greek", 5)
    rows = twin._streams["measure", "greek"].rows(0, 17)
    tokens, ends = corpus.train["greek"], corpus.train["greek"].ends
    assert len(ends) > 20
    for row, sequence, number in zip(rows, [*first, *second], [*numbers, *more], strict=True):
        np.testing.assert_array_equal(sequence, tokens[row * 32 : row * 32 + 32])
        start = 0 if number == 0 else ends[number - 1]
        assert start <= row * 32 + 16 < ends[number]
    state = domains.state()
    expected = domains.measure_batch("greek", 4)[0]
    twin.restore(state)
    assert torch.equal(twin.measure_batch("greek", 4)[0], expected)


def test_each_sequence_of_a_target_stands_in_its_document(corpus: TokenStore) -> None:
    domains = measuring(corpus, 10)
    numbers: set[int] = set()
    for name, target in domains.targets.items():
        held_out = corpus.validation[name]
        for sequence, number in zip(target.tokens.numpy(), target.documents, strict=True):
            tokens = sequence.astype(held_out.dtype).tobytes()
            assert tokens in np.asarray(held_out).tobytes()
            own = np.asarray(held_out)[held_out.starts[number] : held_out.ends[number]]
            assert set(own.tolist()) & set(sequence.tolist())
            numbers.add(int(number))
    assert len(numbers) > 5


def test_a_task_is_a_target_beside_a_domain(corpus: TokenStore) -> None:
    """Each question once; the mean over a batch of all is that of the targets by their shares."""
    store = with_task(corpus, "exam", "birds", count=200)
    shares = {"exam": 0.25, "greek": 0.75}
    domains = Domains(
        store, shares, names=corpus.names, sequence_length=16, validation_sequences=80
    )
    exam, greek = domains.targets["exam"], domains.targets["greek"]
    assert held_out_counts(store, shares, 16, 80) == {"exam": len(exam), "greek": len(greek)}
    assert len(exam) == 64, "no fewer, though its share is of 20"
    assert len(greek) == 60
    assert len({*exam.documents.tolist()}) == 64
    assert held_out_size(store.validation["exam"], 16) == 200
    assert held_out_size(store.validation["greek"], 16) == len(store.validation["greek"]) // 16
    tokens, weights = domains.validation_batch(1000)
    assert weights is not None
    losses = torch.rand(corpus.vocabulary)
    every = weighted(losses[tokens[:, 1:]], weights).mean()
    apart = {
        n: one.of_sequences(losses[one.tokens[:, 1:]]).mean() for n, one in domains.targets.items()
    }
    torch.testing.assert_close(every, 0.25 * apart["exam"] + 0.75 * apart["greek"])
    again = held_out_sequences(store, "exam", 16, 0, 64)
    assert torch.equal(again.tokens, exam.tokens)
    other = held_out_sequences(store, "exam", 16, 1, 64)
    assert {*other.documents.tolist()} != {*exam.documents.tolist()}
    with pytest.raises(DataError, match="Expected judged text"):
        held_out_sequences(store, "exam", 16, 0, 9, "judged")


def test_choices_are_no_batch_of_single_sequences(corpus: TokenStore) -> None:
    store = with_task(corpus, "exam", "birds", choices=3)
    domains = Domains(store, {"exam": 1.0}, names=corpus.names, sequence_length=16)
    assert domains.targets["exam"].tokens.shape == (120, 16)
    assert len(domains.targets["exam"]) == 40
    with pytest.raises(ValueError, match="Expected targets whose answers are scored"):
        domains.validation_batch(8)
