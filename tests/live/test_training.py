"""A training that moves its mixture: what it finds, reads, leaves, and goes on with when killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import arviz
import numpy as np
import pytest
from processes import on_two_processes
from quick import quickly
from training_runs import StopAt, mixture_for, same_bits, tiny_config, tiny_shape, weights_in
from transformers import AutoModelForCausalLM

from bydore_pyro.core.metropolis import _Chains
from bydore_pyro.data.domains import Domains
from bydore_pyro.data.store import TokenStore
from bydore_pyro.live.training import LiveTraining, sequences_of_round
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.proxy.measured_model import MeasuredModel
from bydore_pyro.proxy.parallel import Parallel
from bydore_pyro.report.figures import rounds_figure
from bydore_pyro.report.page import LIVE, html_report, report_text
from bydore_pyro.report.run import read_run
from bydore_pyro.training.order import MixtureDataset
from bydore_pyro.training.stages import Schedule, Stages
from bydore_pyro.training.training import train_target
from bydore_pyro.utils.errors import DataError, RunFolderError
from bydore_pyro.utils.terminal import Interrupted

STEPS = 40
GIVEN: dict[str, Any] = {"tokens": str(STEPS * 8 * 32), "save_every": 8}


def train(
    store: TokenStore, out: Path, *, share: float = 0.01, resume: bool = False, **rest: Any
) -> tuple[dict[str, Any], LiveTraining]:
    """40 steps towards the text of one domain, from shares of another kind."""
    config = tiny_config(**{**GIVEN, **rest.pop("options", {})})
    stages = Stages.constant(mixture_for(store))
    live = LiveTraining(
        store, {"greek": 1.0}, stages.shares(), config, share, **rest.pop("given", {})
    )
    schedule: Schedule = live
    metrics = train_target(
        tiny_shape(), store, stages, config, out, resume=resume, live=schedule, **rest
    )
    return metrics, live


@pytest.fixture(scope="module")
def whole(corpus: TokenStore, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    out = tmp_path_factory.mktemp("live") / "run"
    with quickly():
        return out, *train(corpus, out)


def test_the_mixture_moves_to_what_the_target_is_made_of(whole: tuple[Any, ...]) -> None:
    out, metrics, live = whole
    assert [one["step"] for one in metrics["matching"]["rounds"]] == [5, 10, 20]
    model = MeasuredModel(AutoModelForCausalLM.from_pretrained(out / "model"))
    expected = model.evaluate(live.mixture.domains.validation, "test")
    assert metrics["target_loss_nats_per_token"] == pytest.approx(expected, rel=1e-6)
    assert metrics["target_sequences"] == len(live.mixture.domains.validation)
    last = metrics["matching"]["rounds"][-1]["weights"]
    assert last["greek"] > 0.9, "it began with 0.15"
    for step in range(STEPS):
        known = [one for one in live.mixture.rounds if one.step + live.lag <= step]
        expected = known[-1].weights if known else [0.5, 0.3, 0.15, 0.05]
        np.testing.assert_allclose(live.weights_of(step), expected)
    planned = 8 * sum(live.weights_of(step) for step in range(STEPS))
    read = [metrics["tokens_by_domain"][name] / 32 for name in live.names]
    np.testing.assert_allclose(read, planned, atol=1.5)
    assert metrics["live"]["parts"]["gradients"]["flops"] > 0
    assert metrics["live"]["share_of_sequences"] == live.share


def test_all_rounds_are_left_for_arviz(whole: tuple[Any, ...]) -> None:
    out, metrics, live = whole
    found = arviz.from_netcdf(str(out / "live.nc"))
    assert found["posterior"]["w"].dims == ("chain", "draw", "round", "domain")
    np.testing.assert_allclose(found["posterior"]["w"].sum("domain"), 1, atol=1e-5)
    assert found["constant_data"]["step"].values.tolist() == [5, 10, 20]
    told = [list(one["weights"].values()) for one in metrics["matching"]["rounds"]]
    np.testing.assert_allclose(found["constant_data"]["weights"], told)
    assert (out / "live.png").stat().st_size > 10_000
    last = Mixture.from_json(out / "mixture.json")
    assert list(last.as_dict().values()) == pytest.approx(told[-1])
    assert last.hdi is not None
    assert last.hdi[live.names.index("greek")][0] > 0.5


def test_the_report_tells_of_the_rounds(whole: tuple[Any, ...]) -> None:
    out, metrics, _ = whole
    told = report_text(out)
    assert "--to nanotron --from_step " in told
    assert "The training reads no domain twice." in told
    figure = rounds_figure(read_run(out))
    assert figure is not None
    (axes,) = figure.axes
    (greek,) = (
        one for one in axes.lines if len(one.get_xdata()) > 1 and one.get_gid()[:5] == "greek"
    )
    rounds = metrics["matching"]["rounds"]
    assert list(greek.get_xdata()) == [5, 10, 20]
    assert list(greek.get_ydata()) == pytest.approx([one["weights"]["greek"] for one in rounds])
    assert LIVE in html_report([out])


@pytest.fixture(scope="module")
def broken(corpus: TokenStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same training, broken off after its second checkpoint."""
    out = tmp_path_factory.mktemp("broken") / "run"
    with quickly(), pytest.raises(KeyboardInterrupt):
        train(corpus, out, callbacks=[StopAt(18)])
    return out


@pytest.mark.parametrize("damaged", [False, True])
def test_killed_it_goes_on_with_the_same_bits(
    corpus: TokenStore,
    whole: tuple[Any, ...],
    broken: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    damaged: bool,
) -> None:
    """Also from the checkpoint before one whose state of the rounds was changed."""
    (out, metrics, _), run = whole, shutil.copytree(broken, tmp_path / "run")
    if damaged:
        (state,) = (run / "checkpoints/checkpoint-16/live").glob("*.json")
        state.write_text(state.read_text().replace("0", "1", 1))
    resumed, _ = train(corpus, run, resume=True)
    told = [line for line in capsys.readouterr().err.splitlines() if "checkpoint" in line]
    assert f"going on from {run}/checkpoints/checkpoint-{8 if damaged else 16}" in told[-1]
    assert ("checkpoint-16, whose live/" in told[0]) == damaged
    assert resumed["matching"]["rounds"] == metrics["matching"]["rounds"]
    assert resumed["live"]["tokens"] == metrics["live"]["tokens"]
    assert resumed["tokens_by_domain"] == metrics["tokens_by_domain"]
    assert same_bits(weights_in(run / "model"), weights_in(out / "model"))


@pytest.mark.usefixtures("_heard")
@pytest.mark.parametrize("part", ["sequence_gradients", "sweep"])
def test_stopped_in_a_round_it_saves_the_steps_before_and_measures_it_anew(
    corpus: TokenStore,
    whole: tuple[Any, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    part: str,
) -> None:
    """While gradients are computed, and while the posterior is drawn."""
    owner: Any = MeasuredModel if part == "sequence_gradients" else _Chains
    plain, calls = getattr(owner, part), []

    def ask(*given: Any) -> Any:
        calls.append(part)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return plain(*given)

    (out, metrics, _), run = whole, tmp_path / "run"
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(owner, part, ask)
        train(corpus, run)
    assert f"Saved {run}/checkpoints/checkpoint-5\n" in capsys.readouterr().err, "the first round's"
    assert len(calls) < 20, "the rest of the round was not waited for"
    resumed, _ = train(corpus, run, resume=True)
    assert resumed["matching"]["rounds"] == metrics["matching"]["rounds"]
    assert resumed["live"]["tokens"] == metrics["live"]["tokens"]
    assert same_bits(weights_in(run / "model"), weights_in(out / "model"))


def test_edited_options_are_refused(corpus: TokenStore, broken: Path, tmp_path: Path) -> None:
    run = shutil.copytree(broken, tmp_path / "run")
    for change, told in (
        ({"share": 1.0}, "live_sequences"),
        ({"options": {"max_epochs": 9.0}}, "live_max_epochs"),
    ):
        with pytest.raises(RunFolderError, match=f"Expected {told} "):
            train(corpus, run, resume=True, **change)


def test_what_is_measured_is_never_trained_on(corpus: TokenStore) -> None:
    domains = Domains(corpus, {"greek": 1.0}, sequence_length=32, measured=30, seed=4)
    dataset = MixtureDataset(corpus, domains.names, 32, seed=4, measured=30)
    for number, name in enumerate(domains.names):
        kept = int(domains.measurable()[number])
        measured = {bytes(row.numpy()) for row in domains.measure_batch(name, kept)[0]}
        count = len(corpus.train[name]) // 32 - kept
        trained = {bytes(dataset[number, n]["input_ids"].numpy()) for n in range(count)}
        assert dataset.epochs(dict.fromkeys(domains.names, count))[name] == 1
        assert not measured & trained


def test_no_text_is_read_more_often_than_allowed(corpus: TokenStore, tmp_path: Path) -> None:
    limit = {"max_epochs": 0.35}
    metrics, _ = train(corpus, tmp_path / "run", options=limit)
    assert metrics["matching"]["rounds"][-1]["weights"]["greek"] < 0.9
    assert metrics["epochs"]["greek"] == pytest.approx(0.35, abs=0.03)


def test_workers_that_read_ahead_make_weights_hold_later_and_all_is_reported(
    corpus: TokenStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A sequence is drawn while weights that it needs are not known: never."""
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "told"))
    options = {"loader_workers": 1, "report_to": "tensorboard"}
    metrics, live = train(corpus, tmp_path / "run", options=options)
    assert live.lag == 4
    assert live.mixture.present[live.names.index("greek")] > 0.9
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    told = EventAccumulator(str(tmp_path / "told")).Reload()
    found = {one.step: one.value for one in told.Scalars("train/weight/greek")}
    rounds = {one["step"]: one["weights"]["greek"] for one in metrics["matching"]["rounds"]}
    assert found == pytest.approx(rounds)
    measuring = [one.value for one in told.Scalars("train/live/measuring")]
    last = max(rounds)
    assert measuring[-1] * last == pytest.approx(metrics["live"]["share_of_sequences"] * STEPS)
    bar = capsys.readouterr().err
    assert all(f"measuring {share:.1%}" in bar for share in measuring)


@pytest.mark.parametrize(
    ("budget", "domains", "expected"),
    [(1000, 10, (64, 250)), (400, 10, (30, 100)), (0, 10, (8, 32)), (1e6, 2, (64, 512))],
)
def test_a_rounds_sequences_follow_from_its_share(
    budget: float, domains: int, expected: tuple[int, int]
) -> None:
    assert sequences_of_round(budget, domains) == expected


def test_a_run_too_short_for_a_round_is_refused(corpus: TokenStore, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Expected a run of more than 3 steps for --live, found 2"):
        train(corpus, tmp_path / "run", options={"tokens": "512"})


def test_two_processes_measure_what_one_measures(
    corpus: TokenStore, whole: tuple[Any, ...], tmp_path: Path
) -> None:
    def work(rank: int) -> None:
        _, live = train(corpus, tmp_path / "run", given={"parallel": Parallel()})
        weights = [one.weights.tolist() for one in live.mixture.rounds]
        Path(f"weights-{rank}").write_text(json.dumps(weights))

    on_two_processes(work, tmp_path)
    first, second = (json.loads((tmp_path / f"weights-{rank}").read_text()) for rank in (0, 1))
    assert first == second, "the same bits"
    _, metrics, _ = whole
    alone = [list(one["weights"].values()) for one in metrics["matching"]["rounds"]]
    np.testing.assert_allclose(first, alone, atol=0.01)
    found = json.loads((tmp_path / "run/metrics.json").read_text())
    for name, tokens in metrics["tokens_by_domain"].items():
        assert abs(found["tokens_by_domain"][name] - tokens) <= 2 * 32
