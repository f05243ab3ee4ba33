"""A search of either kind repeats itself bit by bit, and so does one that goes on."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pyro
import pytest
import torch
from bydore_pyro.search.config import SearchConfig
from bydore_pyro.search.linear import LinearSearch
from bydore_pyro.search.matching import MatchingSearch
from bydore_pyro.search.search import init_search, load_checkpoint, run_search, save_checkpoint
from bydore_pyro.search.state import SearchState, StepRecord
from searches import KINDS, LINEAR, MATCHING, means, state_of
from tiny import Bigram

from bydore_pyro.data.domains import Domains
from bydore_pyro.data.store import TokenStore
from bydore_pyro.proxy.proxy import Proxy, ProxyConfig
from bydore_pyro.utils.errors import RunFolderError

ROUNDS = dataclasses.replace(
    MATCHING, steps=12, rounds=3, train_share=0.5, round_sequences=10, inference_steps=4
)


@KINDS
def test_same_seed_same_weights_bit_for_bit(corpus: TokenStore, config: SearchConfig) -> None:
    """Also in turns with another search of the process, with which it shares nothing."""
    alone = state_of(corpus, config)
    assert isinstance(alone, SearchState)
    records: list[StepRecord] = list(run_search(alone))
    assert len(records) == len(alone.records) == config.trained_steps == alone.proxy.steps
    assert list(run_search(alone)) == []
    torch.rand(3)  # what others do to the global generator does not matter
    again, other = state_of(corpus, config), state_of(corpus, config, seed=1)
    keys = list(pyro.get_param_store().keys())
    before = torch.get_rng_state()
    for _ in range(config.trained_steps):
        again.step()
        other.step()
    assert torch.equal(torch.get_rng_state(), before), "the global generator is left alone"
    assert list(pyro.get_param_store().keys()) == keys
    for left, right in zip(alone.records, again.records, strict=True):
        for field in dataclasses.fields(left):
            np.testing.assert_array_equal(getattr(left, field.name), getattr(right, field.name))
    assert not np.array_equal(means(other), means(alone))


def test_the_options_decide_which_search_it_is(corpus: TokenStore) -> None:
    for config, kind in ((LINEAR, LinearSearch), (MATCHING, MatchingSearch)):
        domains = state_of(corpus, config).domains
        proxy = Proxy(Bigram(corpus.vocabulary), ProxyConfig())
        assert type(init_search(domains, proxy, config)) is kind
    assert isinstance(domains, Domains)


def run_and_save(state: SearchState, folder: Path) -> list[Path]:
    """Runs a search to its end; returns the checkpoints of its steps, each in a folder."""
    steps = enumerate(run_search(state), 1)
    return [save_checkpoint(state, folder / str(step)) for step, _ in steps]


def assert_same(left: SearchState, right: SearchState) -> None:
    for a, b in zip(left.records, right.records, strict=True):
        for field in dataclasses.fields(a):
            x, y = getattr(a, field.name), getattr(b, field.name)
            assert np.array_equal(x, y, equal_nan=True), field.name
            assert type(x) is type(y)
    for name, parameter in left.proxy.parameters.items():
        assert torch.equal(parameter, right.proxy.parameters[name])
    assert left.domains.state() == right.domains.state()
    assert left.proxy.cost.tokens == right.proxy.cost.tokens


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"learner": "point"},
        {"learner": "exponentiated", "signal_domains": 2},
    ],
)
def test_resumed_at_any_step_the_end_is_the_same(
    corpus: TokenStore, tmp_path: Path, options: dict
) -> None:
    config = dataclasses.replace(LINEAR, **options)
    whole = state_of(corpus, config)
    saved = run_and_save(whole, tmp_path)
    for stop in (1, 4, 12):
        torch.manual_seed(stop)  # what the process drew since does not matter
        resumed = state_of(corpus, config)
        assert load_checkpoint(resumed, tmp_path / str(stop), print) == saved[stop - 1]
        assert len(resumed.records) == stop
        list(run_search(resumed))
        assert_same(whole, resumed)


def test_matching_goes_on_after_any_step(corpus: TokenStore, tmp_path: Path) -> None:
    """Before, between and right after the rounds, and when all is done."""
    assert ROUNDS.measured_steps == (2, 4, 6)
    whole = state_of(corpus, ROUNDS)
    saved = run_and_save(whole, tmp_path)
    assert isinstance(whole, MatchingSearch)
    assert whole.check is not None
    for stop in range(1, 7):
        torch.manual_seed(stop)
        resumed = state_of(corpus, ROUNDS)
        assert isinstance(resumed, MatchingSearch)
        assert load_checkpoint(resumed, tmp_path / str(stop), print) == saved[stop - 1]
        assert len(resumed.rounds) == stop // 2
        list(run_search(resumed))
        assert_same(whole, resumed)
        assert torch.equal(whole.matching.precision, resumed.matching.precision)
        assert torch.equal(whole.matching.linear, resumed.matching.linear)
        for left, right in zip(whole.rounds, resumed.rounds, strict=True):
            for field in dataclasses.fields(left):
                x, y = getattr(left, field.name), getattr(right, field.name)
                assert np.array_equal(x, y, equal_nan=True), field.name
                assert type(x) is type(y), field.name
        assert resumed.check is not None
        for name in ("slopes", "errors", "weights"):
            assert torch.equal(getattr(whole.check, name), getattr(resumed.check, name)), name


def test_a_checkpoint_of_a_resumed_search_is_whole(corpus: TokenStore, tmp_path: Path) -> None:
    """The optimiser's state that no step has taken up yet is not lost."""
    state = state_of(corpus, LINEAR)
    for _ in range(8):
        state.step()
    save_checkpoint(state, tmp_path / "a")
    second = state_of(corpus, LINEAR)
    load_checkpoint(second, tmp_path / "a", print)
    save_checkpoint(second, tmp_path / "b")
    third = state_of(corpus, LINEAR)
    load_checkpoint(third, tmp_path / "b", print)
    for resumed in (state, third):
        list(run_search(resumed))
    assert_same(state, third)


def test_a_damaged_checkpoint_is_refused_and_the_one_before_it_used(
    corpus: TokenStore, tmp_path: Path
) -> None:
    state = state_of(corpus, LINEAR)
    paths = []
    for _ in range(4):
        state.step()
        paths.append(save_checkpoint(state, tmp_path))
    assert [p.name for p in sorted(tmp_path.iterdir())] == ["step-000003", "step-000004"]
    tensors = paths[-1] / "tensors.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-10])
    lines: list[str] = []
    resumed = state_of(corpus, LINEAR)
    assert load_checkpoint(resumed, tmp_path, lines.append) == paths[-2]
    assert len(resumed.records) == 3
    assert len(lines) == 1
    assert str(paths[-1]) in lines[0]
    refused = tmp_path / "refused-step-000004"
    assert sorted(tmp_path.iterdir()) == [refused, paths[-2]]
    other = state_of(corpus, dataclasses.replace(LINEAR, kl_weight=1.0))
    with pytest.raises(RunFolderError, match=r"Expected search\.kl_weight .*, found 1\.0"):
        load_checkpoint(other, tmp_path, lines.append)
    assert sorted(tmp_path.iterdir()) == [refused, paths[-2]], "a foreign one is not touched"
    assert load_checkpoint(state_of(corpus, LINEAR), tmp_path / "none", print) is None


def test_of_several_processes_one_sets_aside(corpus: TokenStore, tmp_path: Path) -> None:
    state = state_of(corpus, LINEAR)
    state.step()
    path = save_checkpoint(state, tmp_path)
    (path / "tree.json").write_text("{")
    assert load_checkpoint(state_of(corpus, LINEAR), tmp_path, print, writes=False) is None
    assert path.is_dir()
    assert load_checkpoint(state_of(corpus, LINEAR), tmp_path, print) is None
    assert not path.is_dir()


def test_the_newest_is_that_of_most_steps(corpus: TokenStore, tmp_path: Path) -> None:
    """Not the last in the order of words: step 1,000,000 comes after step 999,999."""
    state = state_of(corpus, LINEAR)
    (one,) = run_and_save(state, tmp_path)[:1]
    folder = tmp_path / "many"
    for step in ("000002", "999999", "1000000"):
        shutil.copytree(one, folder / f"step-{step}")
    found = load_checkpoint(state_of(corpus, LINEAR), folder, print)
    assert found == folder / "step-1000000"
