"""A search by matching leaves its run, and ends with the same bits however it got there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyro
import pytest
import torch
from method_options import WITHHELD, options_for
from quick import quickly

from bydore_pyro.data.domains import Domains
from bydore_pyro.data.store import TokenStore
from bydore_pyro.files.run_folder import RunFolder
from bydore_pyro.fit import MethodOptions
from bydore_pyro.search.matching import search, search_in
from bydore_pyro.setup.domains import load_domains
from bydore_pyro.setup.run import Found, is_finished

ROUNDS = ("--rounds", "3", "--steps", "6", "--trials", "0")
EVERY_STEP = ("--checkpoint_every", "1", "--check_sequences", "4")


def searched(options: MethodOptions, folder: Path, *, resume: bool = False) -> Found:
    return search(options, load_domains(options), RunFolder(folder, resume=resume), "test")


def assert_same(left: Found, right: Found) -> None:
    assert left.mixture == right.mixture
    assert left.metrics.matching == right.metrics.matching
    assert left.metrics.search.tokens == right.metrics.search.tokens
    for name, values in left.answer.sites.items():
        assert torch.equal(values, right.answer.sites[name]), name
    for name, parameter in left.proxy.parameters.items():
        assert torch.equal(parameter, right.proxy.parameters[name])


def test_a_search_leaves_its_run_and_its_checkpoints(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = options_for(store, *WITHHELD, *EVERY_STEP, "--trials", "2")
    found = searched(options, tmp_path / "run")
    assert found.metrics.steps == options.search.steps == found.proxy.steps == 6
    assert found.path.shape == (2, 2)
    assert len(found.validation_losses) == 2
    told = capsys.readouterr().err
    rounds = [f"round {n} of 2: measuring the gradients of 2 domains" for n in (1, 2)]
    trials = "2 trial runs of 2 steps each"
    places = [told.index(one) for one in (*rounds, trials, "trials: 100%")]
    assert places == sorted(places), told
    assert "step/s" not in told[: places[2]], "nobody knows how long the rest takes"
    corpus = load_domains(options).corpus
    assert isinstance(corpus, TokenStore)
    assert_same(found, search_in(options, corpus, tmp_path / "below", "test"))
    assert is_finished(tmp_path / "run")
    assert json.loads((tmp_path / "run" / "config.json").read_text())["name"] == "test"
    assert len(list((tmp_path / "run" / "checkpoints").iterdir())) == 2
    kept = (
        "guide.safetensors",
        "posterior.nc",
        "posterior.png",
        "measured-1",
        "measured-2",
        "losses.json",
    )
    assert all((tmp_path / "run" / name).exists() for name in kept)
    assert not list((tmp_path / "below").glob("measured-*")), "nobody asks it"


def noted(plain: Callable[..., Any], found: dict[str, list[tuple[int, ...]]]) -> Callable[..., Any]:
    """A method of `Domains` that returns a domain's sequences, and notes them."""

    def method(self: Domains, name: str, *count: int) -> Any:
        batch, documents = plain(self, name, *count)
        found.setdefault(name, []).extend(map(tuple, batch.tolist()))
        return batch, documents

    return method


def test_a_search_is_checked_on_text_that_no_round_has_read(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although the rounds read all that is left of the short domains, over and over."""
    measured: dict[str, list[tuple[int, ...]]] = {}
    checked: dict[str, list[tuple[int, ...]]] = {}
    for kind, found in (("measure_batch", measured), ("check_batch", checked)):
        monkeypatch.setattr(Domains, kind, noted(getattr(Domains, kind), found))
    more = ("--round_sequences", "64", "--check_sequences", "8")
    done = searched(options_for(store, *WITHHELD, *ROUNDS, *more), tmp_path)
    assert [*measured] == [*checked] == ["b", "c"]
    for name in measured:
        assert len(measured[name]) == 3 * 64 > 2 * len({*measured[name]}), "they come again"
        assert not {*measured[name]} & {*checked[name]}
        assert len(checked[name]) == done.metrics.matching.check.sequences[name] == 8


@pytest.fixture(scope="module")
def whole(store: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Found, Path]:
    """A search that kept all its checkpoints."""
    out = tmp_path_factory.mktemp("whole") / "run"
    with quickly(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("bydore_pyro.files.checkpoints.KEPT", 99)
        return searched(options_for(store, *ROUNDS, *EVERY_STEP), out), out


def test_the_seed_alone_decides(store: Path, whole: tuple[Found, Path], tmp_path: Path) -> None:
    """And the search leaves the process's random numbers and parameters alone."""
    torch.rand(3)
    keys, before = list(pyro.get_param_store().keys()), torch.get_rng_state()
    again = searched(options_for(store, *ROUNDS, *EVERY_STEP), tmp_path / "again")
    assert torch.equal(torch.get_rng_state(), before)
    assert list(pyro.get_param_store().keys()) == keys
    assert_same(whole[0], again)
    other = searched(options_for(store, *ROUNDS, "--seed", "1"), tmp_path / "other")
    assert not np.array_equal(other.path, again.path)


def stopped(whole: Path, out: Path, step: int) -> Path:
    """The folder of that search as it was after so many steps."""
    shutil.copytree(whole, out)
    for path in out.iterdir():
        if path.is_file() and path.name not in ("config.json", "manifest.json", "tokenizer.json"):
            path.unlink()
    for path in (out / "checkpoints").iterdir():
        if int(path.name.removeprefix("step-")) > step:
            shutil.rmtree(path)
    return out


@pytest.mark.parametrize("step", [1, 4])
def test_it_goes_on_after_any_step(
    store: Path, whole: tuple[Found, Path], tmp_path: Path, step: int
) -> None:
    """Before its rounds (2, 3, 6) and between them; those that were kept are taken as they are."""
    found, path = whole
    out = stopped(path, tmp_path / "out", step)
    assert_same(found, searched(options_for(store, *ROUNDS, *EVERY_STEP), out, resume=True))
    for name in ("mixture.json", "guide.safetensors", "losses.json"):
        assert (out / name).read_bytes() == (path / name).read_bytes()


def test_what_cannot_be_promised_loses_nothing_that_was_measured(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No mixture with so much of `a` is as good as the baseline for `c`: known when all is done."""
    promise = ("--objective", "none_worse", "--at_least", "a=.95", "--tolerance", "1e-6")
    options = options_for(store, "--validation", "c", "--trials", "0", *promise)
    found = searched(options, tmp_path / "run")
    assert "warning: Expected bounds under which no target need be worse" in capsys.readouterr().err
    assert is_finished(tmp_path / "run")
    assert found.metrics.outlook.objective == "mean"
    assert found.mixture.as_dict()["a"] >= 0.95 - 1e-6
