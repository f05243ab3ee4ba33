"""The sequences of a run: exact shares, no repetition, the same for every reader."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from accelerate.data_loader import BatchSamplerShard
from torch.utils.data import BatchSampler
from training_runs import WEIGHTS

from bydore_pyro.data.store import TokenStore
from bydore_pyro.training.mixture_batches import MixtureState, begin
from bydore_pyro.training.mixture_dataset import MixtureDataset, MixtureSampler
from bydore_pyro.utils.errors import DataError

LENGTH = 32
SHARES = np.array(list(WEIGHTS.values()))


def sampler(steps: int, batch: int = 8, state: MixtureState | None = None) -> MixtureSampler:
    return MixtureSampler(lambda step: SHARES, steps, batch, state or begin(4))


def rows_of(store: TokenStore, name: str) -> list[bytes]:
    tokens = store.train[name]
    rows = tokens[: len(tokens) // LENGTH * LENGTH].reshape(-1, LENGTH).astype(np.int64)
    return [row.tobytes() for row in rows]


def test_sequences_are_their_domains_own(corpus: TokenStore) -> None:
    dataset = MixtureDataset(corpus, tuple(WEIGHTS), LENGTH)
    own = {name: set(rows_of(corpus, name)) for name in WEIGHTS}
    counts = dict.fromkeys(WEIGHTS, 0)
    for domain, n in sampler(50):
        item, name = dataset[domain, n], dataset.names[domain]
        assert torch.equal(item["input_ids"], item["labels"])
        assert item["input_ids"].numpy().tobytes() in own[name]
        assert n == counts[name], "the next of its domain"
        counts[name] += 1
    assert counts == {"birds": 200, "digits": 120, "greek": 60, "upper": 20}


def test_nothing_comes_twice_within_an_epoch(corpus: TokenStore) -> None:
    dataset = MixtureDataset(corpus, ["birds"], LENGTH)
    count = len(dataset)
    rows = [dataset[0, n]["input_ids"].numpy().tobytes() for n in range(2 * count)]
    assert sorted(rows[:count]) == sorted(rows[count:]) == sorted(rows_of(corpus, "birds"))
    assert rows[:count] != rows[count:], "another order"
    assert dataset.epochs({"birds": 2 * count}) == {"birds": 2.0}


def test_a_sequence_depends_on_its_key_alone(corpus: TokenStore) -> None:
    dataset = MixtureDataset(corpus, tuple(WEIGHTS), LENGTH)
    copy = pickle.loads(pickle.dumps(dataset))  # as in a process that is spawned
    other = MixtureDataset(corpus, tuple(WEIGHTS), LENGTH, seed=1)
    keys = [(0, 299), (3, 5), (1, 130), (0, 0)]
    assert all(torch.equal(copy[k]["input_ids"], dataset[k]["input_ids"]) for k in keys)
    assert not all(torch.equal(other[k]["input_ids"], dataset[k]["input_ids"]) for k in keys)


def test_a_run_goes_on_from_any_step() -> None:
    whole = sampler(30, 5)
    keys = list(whole)
    assert len(keys) == len(whole) == 150
    assert list(whole) == keys, "again from its beginning"
    rest = sampler(30, 5, whole.state(11))
    assert list(rest) == keys[55:]
    assert len(rest) == 150
    with pytest.raises(KeyError):
        whole.state(10)  # forgotten


@pytest.mark.parametrize(("processes", "each"), [(1, 8), (1, 2), (2, 4), (4, 1), (8, 1)])
def test_any_number_of_processes_serves_the_same_steps(processes: int, each: int) -> None:
    """Accelerate's own dealing out, as the Trainer uses it, with a global batch of 8."""
    steps, accumulation = 5, 8 // (processes * each)
    batches = BatchSampler(sampler(steps), each, drop_last=False)
    shares = [list(BatchSamplerShard(batches, processes, index)) for index in range(processes)]
    for step in range(steps):
        taken = slice(step * accumulation, (step + 1) * accumulation)
        seen = [key for share in shares for batch in share[taken] for key in batch]
        assert sorted(seen) == sorted(list(sampler(steps))[8 * step : 8 * step + 8])


def test_text_that_is_not_there(corpus: TokenStore) -> None:
    with pytest.raises(DataError, match="of domain 'law', which has weight, found 0 tokens"):
        MixtureDataset(corpus, ["birds", "law"], LENGTH)
