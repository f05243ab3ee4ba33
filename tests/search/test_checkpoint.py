"""A search that goes on from a checkpoint ends with the same bits as one that was never stopped."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import Bigram

from bydore_pyro.data.domains import Domains
from bydore_pyro.data.store import TokenStore
from bydore_pyro.proxy.proxy import Proxy, ProxyConfig
from bydore_pyro.search.checkpoint import load_checkpoint, save_checkpoint
from bydore_pyro.search.config import SearchConfig
from bydore_pyro.search.kinds import init_search
from bydore_pyro.search.matching import MatchingSearch
from bydore_pyro.search.search import SearchState, run_search, search_step
from bydore_pyro.utils.errors import RunFolderError

CONFIG = SearchConfig(
    evidence="linear", steps=14, batch_sequences=8, validation_batch=8, guide_warmup=4
)
MATCHING = SearchConfig(
    steps=12,
    rounds=3,
    train_share=0.5,
    round_sequences=10,
    sketch_size=128,
    inference_steps=4,
    check_sequences=4,
    batch_sequences=8,
)


def state_of(corpus: TokenStore, config: SearchConfig, seed: int = 0) -> SearchState:
    domains = Domains(
        corpus,
        {"birds": 1.0},
        sequence_length=32,
        validation_sequences=64,
        measured=config.measured_sequences(4),
    )
    return init_search(domains, Proxy(Bigram(corpus.vocabulary), ProxyConfig()), config, seed=seed)


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
    config = dataclasses.replace(CONFIG, **options)
    whole = state_of(corpus, config)
    saved = run_and_save(whole, tmp_path)
    for stop in (1, 4, 14):
        torch.manual_seed(stop)  # what the process drew since does not matter
        resumed = state_of(corpus, config, seed=99)
        assert load_checkpoint(resumed, tmp_path / str(stop), print) == saved[stop - 1]
        assert len(resumed.records) == stop
        list(run_search(resumed))
        assert_same(whole, resumed)


def test_matching_goes_on_after_any_step(corpus: TokenStore, tmp_path: Path) -> None:
    """Before, between and right after the rounds, and when all is done."""
    config = MATCHING
    assert config.measured_steps == (2, 4, 6)
    whole = state_of(corpus, config)
    saved = run_and_save(whole, tmp_path)
    assert isinstance(whole, MatchingSearch)
    assert whole.check is not None
    for stop in range(1, 7):
        torch.manual_seed(stop)
        resumed = state_of(corpus, config)
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


def test_evidence_of_one_kind_is_no_beginning_of_the_other(
    corpus: TokenStore, tmp_path: Path
) -> None:
    state = state_of(corpus, CONFIG)
    search_step(state)
    save_checkpoint(state, tmp_path)
    with pytest.raises(RunFolderError, match=r"Expected search\.\w+ .*, with which .*step-000001"):
        load_checkpoint(state_of(corpus, MATCHING), tmp_path, print)


def test_a_checkpoint_of_a_resumed_search_is_whole(corpus: TokenStore, tmp_path: Path) -> None:
    """The optimiser's state that no step has taken up yet is not lost."""
    state = state_of(corpus, CONFIG)
    for _ in range(8):
        search_step(state)
    save_checkpoint(state, tmp_path / "a")
    second = state_of(corpus, CONFIG)
    load_checkpoint(second, tmp_path / "a", print)
    save_checkpoint(second, tmp_path / "b")
    third = state_of(corpus, CONFIG)
    load_checkpoint(third, tmp_path / "b", print)
    for resumed in (state, third):
        list(run_search(resumed))
    assert_same(state, third)


def test_a_damaged_checkpoint_is_refused_and_the_one_before_it_used(
    corpus: TokenStore, tmp_path: Path
) -> None:
    state = state_of(corpus, CONFIG)
    paths = []
    for _ in range(4):
        search_step(state)
        paths.append(save_checkpoint(state, tmp_path))
    assert [p.name for p in sorted(tmp_path.iterdir())] == ["step-000003", "step-000004"]
    tensors = paths[-1] / "tensors.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-10])
    lines: list[str] = []
    resumed = state_of(corpus, CONFIG)
    assert load_checkpoint(resumed, tmp_path, lines.append) == paths[-2]
    assert len(resumed.records) == 3
    assert len(lines) == 1
    assert str(paths[-1]) in lines[0]
    refused = tmp_path / "refused-step-000004"
    assert sorted(tmp_path.iterdir()) == [refused, paths[-2]]
    other = state_of(corpus, dataclasses.replace(CONFIG, kl_weight=1.0))
    with pytest.raises(RunFolderError, match=r"Expected search\.kl_weight .*, found 1\.0"):
        load_checkpoint(other, tmp_path, lines.append)
    assert sorted(tmp_path.iterdir()) == [refused, paths[-2]], "a foreign one is not touched"
    assert load_checkpoint(state_of(corpus, CONFIG), tmp_path / "none", print) is None


def test_a_checkpoint_carries_what_it_belongs_to(corpus: TokenStore, tmp_path: Path) -> None:
    state = state_of(corpus, CONFIG)
    search_step(state)
    run = {"run": {"seed": 0}, "versions": {"torch": "1"}}
    path = save_checkpoint(state, tmp_path, run)
    header = json.loads((path / "tree.json").read_text())["header"]
    assert header["data"] == corpus.sha256
    assert (header["run"], header["versions"]) == ({"seed": 0}, {"torch": "1"})
    lines: list[str] = []
    other = {"run": {"seed": 0}, "versions": {"torch": "2"}}
    assert load_checkpoint(state_of(corpus, CONFIG), tmp_path, lines.append, other) == path
    assert "saved with torch 1, this is 2: the result may differ in its last bits" in lines[0]
    with pytest.raises(RunFolderError, match=r"Expected run\.seed 0, with which .*, found 1:"):
        load_checkpoint(state_of(corpus, CONFIG), tmp_path, print, {"run": {"seed": 1}})


def test_of_several_processes_one_sets_aside(corpus: TokenStore, tmp_path: Path) -> None:
    state = state_of(corpus, CONFIG)
    search_step(state)
    path = save_checkpoint(state, tmp_path)
    (path / "tree.json").write_text("{")
    assert load_checkpoint(state_of(corpus, CONFIG), tmp_path, print, writes=False) is None
    assert path.is_dir()
    assert load_checkpoint(state_of(corpus, CONFIG), tmp_path, print) is None
    assert not path.is_dir()


def test_a_full_disk_leaves_the_checkpoint_before(
    corpus: TokenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = state_of(corpus, CONFIG)
    search_step(state)
    good = save_checkpoint(state, tmp_path)
    search_step(state)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bydore_pyro.utils.tensor_tree.Path.write_text", full)
    with pytest.raises(OSError, match="No space"):
        save_checkpoint(state, tmp_path)
    assert list(tmp_path.iterdir()) == [good]


def test_the_newest_is_that_of_most_steps(corpus: TokenStore, tmp_path: Path) -> None:
    """Not the last in the order of words: step 1,000,000 comes after step 999,999."""
    state = state_of(corpus, CONFIG)
    (one,) = run_and_save(state, tmp_path)[:1]
    folder = tmp_path / "many"
    for step in ("000002", "999999", "1000000"):
        shutil.copytree(one, folder / f"step-{step}")
    found = load_checkpoint(state_of(corpus, CONFIG), folder, print)
    assert found == folder / "step-1000000"
