"""Sweeps of proxies: remembered, charged, resumed, and the same as a proxy trained by hand."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import Bigram, make_problem

from bydore_pyro.data.held_out import held_out_stream
from bydore_pyro.data.store import TokenStore
from bydore_pyro.errors import DataError, NonFiniteError
from bydore_pyro.methods.autoscale import fit_autoscale
from bydore_pyro.methods.mixmin import fit_mixmin
from bydore_pyro.proxy.measured_model import Cost, MeasuredModel
from bydore_pyro.proxy.proxy import Proxy
from bydore_pyro.proxy.scheduling import train_on_mixture
from bydore_pyro.terminal import Interrupted
from bydore_pyro.trials.problem import Problem
from bydore_pyro.trials.proxy_runs import FinishedRun, PlannedRun, load_model, train_runs


def planned(name: str, **more: object) -> PlannedRun:
    return PlannedRun(weights={name: 1.0}, steps=10, seed=3, **more)


def test_a_run_is_a_proxy_trained_on_its_weights(problem: Problem) -> None:
    (run,) = train_runs(problem, [planned("birds", keep_model=True)], "x")
    assert isinstance(run, FinishedRun)
    proxy = Proxy(Bigram(problem.corpus.vocabulary, 3), problem.proxy, decay_steps=10)
    list(train_on_mixture(problem.domains(3), proxy, {"birds": 1.0}, 10, 8, seed=3))
    held_out = held_out_stream(problem.corpus, "birds", 32, problem.seed).first(32)
    assert run.losses == {"birds": pytest.approx(proxy.evaluate(held_out, "evaluate"), rel=1e-6)}
    assert torch.equal(load_model(problem, run, 3).model.table, proxy.model.table)
    kept = run.token_losses()["birds"]
    np.testing.assert_allclose(kept, proxy.evaluate_tokens(held_out, "evaluate"), rtol=1e-6)


def test_finished_runs_are_shared_and_charged_to_each(corpus: TokenStore, tmp_path: Path) -> None:
    first, second = make_problem(corpus, tmp_path), make_problem(corpus, tmp_path)
    runs = [planned("birds"), planned("digits")]
    before = train_runs(first, runs, "x")
    stamps = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("tree.json")}
    assert len(stamps) == 2
    after = train_runs(second, [*runs, runs[0]], "x")
    assert after == [*before, before[0]], "equal ones are one, and charged once"
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("tree.json")} == stamps
    assert second.cost.report() == first.cost.report()
    assert first.cost.report()["tokens"] == 2 * (10 * 8 + first.evaluated["birds"]) * 32


def test_what_a_result_depends_on_tells_runs_apart(corpus: TokenStore, tmp_path: Path) -> None:
    problem = make_problem(corpus, tmp_path)
    train_runs(problem, [planned("birds")], "x")
    for other in (
        {"batch_sequences": 4},
        {"held_out": {"greek": 32}},
        {"validation_sequences": 16},
    ):
        count = len(list(tmp_path.iterdir()))
        train_runs(make_problem(corpus, tmp_path, **other), [planned("birds")], "x")
        assert len(list(tmp_path.iterdir())) == count + 1


def test_a_proxy_of_cut_text_is_another_at_the_same_cost(problem: Problem) -> None:
    """It reads the same few sequences again and again, and no uncut proxy is taken for it."""
    few = {"birds": 3 * 32}
    (whole,), first = train_runs(problem, [planned("birds")], "x"), problem.cost.report()
    own = dataclasses.replace(problem, cost=Cost())
    (cut,) = train_runs(own, [planned("birds", text=few)], "x")
    assert cut.folder != whole.folder
    assert cut.losses["birds"] > whole.losses["birds"] + 0.01, "3 sequences, 27 times"
    for part in ("tokens", "flops"):
        assert own.cost.report()[part] == first[part]
    other = planned("birds", text={"birds": 4 * 32})
    assert train_runs(problem, [other, planned("birds")], "x")[1] == whole
    assert len({*problem.runs.iterdir()}) == 3


FITS = {"autoscale": fit_autoscale, "mixmin": fit_mixmin}


@pytest.mark.parametrize("method", FITS)
def test_a_methods_proxies_read_text_as_often_as_the_run_will(
    method: str, problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weight for weight, whatever their length; and they cost what they did."""
    own = dataclasses.replace(problem, budget=2.5)
    FITS[method](own)
    seen: list[float] = []

    def noted(domains, proxy, weights, steps, batch, **more):
        yield from train_on_mixture(domains, proxy, weights, steps, batch, **more)
        left = {name: len(tokens) for name, tokens in domains.corpus.train.items()}
        # Epochs of a run of this domain alone; AutoScale's cut and grown runs are off the base.
        seen.extend(steps * batch * 32 / left[name] for name in weights)

    monkeypatch.setattr("bydore_pyro.trials.proxy_runs.train_on_mixture", noted)
    size = len(problem.corpus.train["birds"])
    repeating = dataclasses.replace(own, run_tokens=10.0 * size, cost=Cost())
    FITS[method](repeating)
    expected = [10 * size / len(tokens) for tokens in problem.corpus.train.values()]
    assert np.median(seen) == pytest.approx(np.median(expected), rel=0.1)
    assert min(seen) > 5
    for part in ("tokens", "flops"):
        assert repeating.cost.report()[part] == own.cost.report()[part]


def test_a_sweep_that_breaks_off_keeps_what_it_has(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [planned(name) for name in problem.names]
    module = "bydore_pyro.trials.proxy_runs.train_on_mixture"
    calls = []

    def third_fails(domains, proxy, weights, *args, **kwargs):
        calls.append(next(iter(weights)))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return train_on_mixture(domains, proxy, weights, *args, **kwargs)

    monkeypatch.setattr(module, third_fails)
    with pytest.raises(KeyboardInterrupt):
        train_runs(problem, runs, "x")
    finished = train_runs(problem, runs, "x")
    assert calls == [*problem.names[:3], *problem.names[2:]]
    assert [run.target_loss({"birds": 1.0}) for run in finished] == [
        run.losses["birds"] for run in finished
    ]


@pytest.mark.usefixtures("_heard")
def test_a_proxy_that_is_stopped_while_it_is_judged_is_not_trained_again(
    corpus: TokenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is kept behind its last step; what it costs is the same."""
    problem = make_problem(corpus, tmp_path / "stopped")
    judge, step, steps = MeasuredModel.evaluate_tokens, Proxy.step, []

    def asked(*given: Any) -> torch.Tensor:
        os.kill(os.getpid(), signal.SIGTERM)
        return judge(*given)

    def counted(proxy: Proxy, *given: Any) -> torch.Tensor:
        steps.append(proxy.steps)
        return step(proxy, *given)

    monkeypatch.setattr(Proxy, "step", counted)
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(MeasuredModel, "evaluate_tokens", asked)
        train_runs(problem, [planned("birds")], "x")
    (found,) = train_runs(problem, [planned("birds")], "x")
    assert steps == [*range(10)]
    whole = make_problem(corpus, tmp_path / "whole")
    (expected,) = train_runs(whole, [planned("birds")], "x")
    assert found.losses == expected.losses
    assert problem.cost.report()["flops"] == whole.cost.report()["flops"]
    assert [path.name for path in problem.runs.iterdir()] == [found.folder.name]


def test_a_damaged_or_exchanged_run_is_set_aside_and_trained_again(
    problem: Problem, capsys: pytest.CaptureFixture[str]
) -> None:
    """Edited losses, NaN, flipped bits and another proxy's folder: none of them is believed."""
    runs = [planned("birds"), planned("greek")]
    first, second = train_runs(problem, runs, "x")
    tree, tensors = first.folder / "tree.json", first.folder / "tensors.safetensors"

    def edit(old: str, new: str) -> None:
        text = tree.read_text()
        assert old in text
        tree.write_text(text.replace(old, new))

    def flip() -> None:
        content = bytearray(tensors.read_bytes())
        content[-5] ^= 1
        tensors.write_bytes(content)

    def exchange() -> None:
        shutil.copytree(second.folder, first.folder, dirs_exist_ok=True)

    loss = repr(first.losses["birds"])
    damages = [
        lambda: edit(loss, repr(first.losses["birds"] / 10)),
        lambda: edit(loss, "NaN"),
        flip,
        exchange,
    ]
    for number, damage in enumerate(damages):
        damage()
        again = train_runs(problem, runs, "x")
        assert f"{first.folder} cannot be used; it is set aside as" in capsys.readouterr().err
        assert [run.losses for run in again] == [first.losses, second.losses]
        refused = list(problem.runs.glob("refused-*"))
        assert len(refused) == number + 1, "kept, to be looked at"


def test_bad_runs(corpus: TokenStore, tmp_path: Path) -> None:
    def broken(seed: int) -> Bigram:
        model = Bigram(corpus.vocabulary)
        with torch.no_grad():
            model.table.fill_(float("nan"))
        return model

    problem = make_problem(corpus, tmp_path, build=broken)
    with pytest.raises(NonFiniteError, match="training loss is nan"):
        train_runs(problem, [planned("birds")], "x")
    assert not list(tmp_path.iterdir())

    def broken_elsewhere(seed: int) -> Bigram:
        model = Bigram(corpus.vocabulary)
        with torch.no_grad():
            model.table[torch.tensor(np.asarray(corpus.validation["greek"][:64], int))] = float(
                "nan"
            )
        return model

    problem = make_problem(corpus, tmp_path, build=broken_elsewhere, target={"greek": 1.0})
    with pytest.raises(NonFiniteError, match="held-out text of 'greek' is nan"):
        train_runs(problem, [planned("digits")], "x")
    with pytest.raises(DataError, match="Expected held-out text of at least 1000000 tokens"):
        held_out_stream(corpus, "birds", 10**6, 0).first(1)
