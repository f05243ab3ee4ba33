"""The sequences of a run: exact shares, no repetition, the same for every reader."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from accelerate.data_loader import BatchSamplerShard
from bydore_pyro.training.mixture_schedule import MixtureSchedule
from torch.utils.data import BatchSampler, SequentialSampler
from training_runs import WEIGHTS, mixture_for

from bydore_pyro.data.store import TokenStore
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.training.mixture_dataset import MixtureDataset
from bydore_pyro.utils.errors import DataError

LENGTH = 32


def make(store: TokenStore, sequences: int, weights: dict[str, float] | None = None, seed: int = 0):
    given = weights or WEIGHTS
    mixture = Mixture(names=tuple(given), weights=tuple(given.values()))
    return MixtureDataset(store, MixtureSchedule.constant(mixture), sequences, LENGTH, seed)


def domain_of(store: TokenStore) -> dict[bytes, str]:
    """The domain of every sequence of a store, by its tokens."""
    found = {}
    for name, tokens in store.train.items():
        whole = tokens[: len(tokens) // LENGTH * LENGTH].reshape(-1, LENGTH).astype(np.int64)
        found |= {row.tobytes(): name for row in whole}
    return found


def test_measured_shares_are_the_asked(corpus: TokenStore) -> None:
    dataset, names = make(corpus, 400), domain_of(corpus)
    counts = dict.fromkeys(WEIGHTS, 0)
    for n in range(len(dataset)):
        item = dataset[n]
        assert torch.equal(item["input_ids"], item["labels"])
        assert item["input_ids"].dtype == torch.int64
        counts[names[item["input_ids"].numpy().tobytes()]] += 1
        assert all(abs(counts[k] - (n + 1) * w) < 1 + 1e-9 for k, w in WEIGHTS.items())
    assert counts == {"birds": 200, "digits": 120, "greek": 60, "upper": 20}


def test_nothing_comes_twice_within_an_epoch(corpus: TokenStore) -> None:
    count = len(corpus.train["birds"]) // LENGTH
    dataset = make(corpus, 2 * count, {"birds": 1.0})
    rows = [dataset[n]["input_ids"].numpy().tobytes() for n in range(2 * count)]
    assert len(set(rows[:count])) == len(set(rows[count:])) == count
    assert rows[:count] != rows[count:], "another order"
    assert dataset.epochs() == {"birds": pytest.approx(2.0)}


def test_a_sequence_depends_on_its_number_alone(corpus: TokenStore) -> None:
    dataset = make(corpus, 300)
    forwards = [dataset[n]["input_ids"] for n in range(300)]
    copy = pickle.loads(pickle.dumps(dataset))
    for n in (299, 5, 130, 0):
        assert torch.equal(make(corpus, 300)[n]["input_ids"], forwards[n])
        assert torch.equal(copy[n]["input_ids"], forwards[n]), "in a process that was spawned"
    assert any(
        not torch.equal(make(corpus, 300, seed=1)[n]["input_ids"], forwards[n]) for n in range(5)
    )
    with pytest.raises(IndexError, match="Expected a sequence in"):
        dataset[300]


@pytest.mark.parametrize(("processes", "each"), [(1, 8), (1, 2), (2, 4), (2, 2), (4, 1), (8, 1)])
def test_any_number_of_processes_serves_the_same_steps(processes: int, each: int) -> None:
    """Accelerate's own dealing out, as the Trainer uses it, with a global batch of 8."""
    total, steps, accumulation = 8, 5, 8 // (processes * each)
    shares = [
        list(
            BatchSamplerShard(
                BatchSampler(SequentialSampler(range(total * steps)), each, drop_last=False),
                num_processes=processes,
                process_index=index,
            )
        )
        for index in range(processes)
    ]
    for step in range(steps):
        taken = slice(step * accumulation, (step + 1) * accumulation)
        seen = [n for share in shares for batch in share[taken] for n in batch]
        assert sorted(seen) == list(range(step * total, (step + 1) * total))


def test_text_that_is_not_there(corpus: TokenStore) -> None:
    with pytest.raises(DataError, match="of domain 'law', which has weight, found 0 tokens"):
        make(corpus, 10, {"birds": 0.5, "law": 0.5})
    schedule = MixtureSchedule.constant(mixture_for(corpus))
    with pytest.raises(DataError, match="Expected at least one sequence of 100000 tokens"):
        MixtureDataset(corpus, schedule, 10, 100_000)
