"""The sequences of a run: within one of the quota at every step, none twice, for every reader."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from accelerate.data_loader import BatchSamplerShard
from torch.utils.data import BatchSampler
from training_runs import WEIGHTS

from bydore_pyro.data.store import TokenStore
from bydore_pyro.errors import DataError
from bydore_pyro.training.order import (
    MixtureDataset,
    MixtureSampler,
    MixtureState,
    begin,
    next_batch,
)

LENGTH = 32
SHARES = np.array(list(WEIGHTS.values()))
ROUNDING = 1e-9


def deviation(weights: np.ndarray, batch: int) -> float:
    """The largest |sequences - quota| of any domain at any step; `weights` are of each ``(t, K)``.

    Quotas are summed up here, step by step.
    """
    state, counts = begin(weights.shape[1]), []
    for row in weights:
        found, state = next_batch(state, row, batch)
        assert found.min() >= 0
        assert found.sum() == batch
        counts.append(found)
    total, quota = np.cumsum(counts, 0), np.cumsum(batch * weights, 0)
    assert state.step == len(weights)
    assert not total[-1][~weights.any(0)].any(), "what has no weight never comes"
    assert state.taken == total[-1].tolist()
    np.testing.assert_allclose(state.carry, quota[-1] - total[-1], atol=1e-8)
    return float(np.abs(total - quota).max())


def random_weights(rng: np.random.Generator, count: int) -> np.ndarray:
    weights = rng.dirichlet(np.full(count, rng.choice([0.05, 0.3, 1.0, 10.0])))
    weights[rng.random(count) < 0.2] = 0.0
    weights[0] = rng.choice([1e-6, 0.1, 1.0])
    return weights / weights.sum()


@pytest.mark.parametrize("seed", range(8))
def test_every_count_is_within_one_sequence(seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch, count = int(rng.choice([1, 2, 3, 8, 64, 512])), int(rng.integers(1, 65))
    weights = np.tile(random_weights(rng, count), (300, 1))
    assert deviation(weights, batch) < 1 + ROUNDING


def test_the_first_due_keeps_within_one_where_the_largest_remainder_does_not() -> None:
    """Largest remainders are 1.2 sequences off with these weights."""
    parts = np.array([20, 4, 1, 1, 1, 1, 3, 25, 25, 3, 9, 1, 3])
    assert deviation(np.tile(parts / 97, (2 * 97, 1)), 1) < 1 + ROUNDING


@pytest.mark.parametrize("seed", range(6))
def test_weights_may_change_at_any_step(seed: int) -> None:
    """Within one where each domain is owed a whole sequence of every batch; else below two."""
    rng = np.random.default_rng(seed)
    count, batch = int(rng.integers(2, 17)), int(rng.choice([32, 100, 512]))
    every = int(rng.choice([1, 7, 100]))
    rows = np.array([random_weights(rng, count) for _ in range(-(-200 // every))])
    weights = np.repeat(rows, every, axis=0)[:200]
    share = count / batch
    assert deviation(share / count + (1 - share) * weights, batch) < 1 + ROUNDING
    assert deviation(weights, int(rng.choice([1, 2, 8, batch]))) < 2


def sampler(steps: int, batch: int = 8, state: MixtureState | None = None) -> MixtureSampler:
    return MixtureSampler(lambda step: SHARES, steps, batch, state or begin(4))


def rows_of(store: TokenStore, name: str) -> list[bytes]:
    tokens = np.asarray(store.train[name])
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


@pytest.mark.parametrize(("processes", "each"), [(1, 2), (2, 4), (8, 1)])
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
