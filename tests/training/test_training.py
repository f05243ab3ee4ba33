"""Trainings as a whole: killed and resumed, on one process and on two, and what they leave."""

from __future__ import annotations

import importlib.util
import json
import math
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bydore_pyro.training.mixture_schedule import MixtureSchedule
from processes import on_two_processes
from safetensors.torch import load_file, save_file
from training_runs import (
    WEIGHTS,
    Runs,
    SignalAt,
    StopAt,
    mixture_for,
    same_bits,
    tiny_config,
    tiny_shape,
    train,
    weights_in,
)
from transformers import AutoModelForCausalLM, AutoTokenizer

from bydore_pyro.data.store import TokenStore
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.training.checkpoints import broken_seal, write_seal
from bydore_pyro.training.mixture_dataset import MixtureDataset
from bydore_pyro.training.training import TargetConfig, Trained, train_target
from bydore_pyro.utils.errors import NonFiniteError, RunFolderError
from bydore_pyro.utils.interrupts import Interrupted


@pytest.fixture(scope="module")
def whole(corpus: TokenStore, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A training that nothing disturbed."""
    return train(corpus, tmp_path_factory.mktemp("whole") / "run", log="tensorboard")


def watch(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the sequences that are read, as they are read."""
    seen: list[int] = []
    plain = MixtureDataset.__getitem__

    def read(self: MixtureDataset, n: int) -> dict[str, torch.Tensor]:
        seen.append(n)
        return plain(self, n)

    monkeypatch.setattr(MixtureDataset, "__getitem__", read)
    return seen


def test_what_a_training_leaves(corpus: TokenStore, whole: Trained) -> None:
    losses = [entry["loss"] for entry in whole.log]
    assert len(losses) == 12
    assert losses[0] == pytest.approx(math.log(corpus.vocabulary), abs=0.1)
    assert losses[-1] < losses[0] - 0.5
    assert whole.log[-1]["learning_rate"] < 0.2 * 1e-2
    left = {path.name for path in whole.folder.iterdir()}
    assert left == {
        *("config.json", "schedule.json", "manifest.json", "metrics.json"),
        *("checkpoints", "model", "tensorboard"),
    }
    config = json.loads((whole.folder / "config.json").read_text())
    assert config["name"] == "train"
    assert TargetConfig(**config["target"]) == tiny_config(log="tensorboard")
    assert {p.name for p in (whole.folder / "checkpoints").iterdir()} == {
        "checkpoint-8",
        "checkpoint-12",
    }


def test_transformers_reads_the_model(corpus: TokenStore, whole: Trained) -> None:
    assert not list(whole.model.glob("*.bin")), "no pickle"
    checkpoint = whole.folder / "checkpoints" / "checkpoint-12"
    for folder in (whole.model, checkpoint):
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder)
        assert len(tokenizer) == model.config.vocab_size == corpus.vocabulary
        assert model.config.eos_token_id == tokenizer.eos_token_id
    assert AutoModelForCausalLM.from_pretrained(whole.model).config.use_cache
    assert same_bits(weights_in(whole.model), weights_in(checkpoint))


def test_the_metrics_tell_the_shares(whole: Trained) -> None:
    metrics = json.loads((whole.folder / "metrics.json").read_text())
    assert metrics["tokens"] == 12 * 8 * 32
    for name, weight in WEIGHTS.items():
        assert abs(metrics["tokens_by_domain"][name] - weight * metrics["tokens"]) < 32
    assert metrics["largest_deviation_sequences"] < 1
    assert metrics["final_loss"] == whole.log[-1]["loss"]
    assert metrics["parameters"] == 37_792
    assert metrics["tokens_per_second"] > 0
    assert metrics["log"] == whole.log


@pytest.mark.parametrize("stopped", [3, 8])
def test_resumed_it_ends_with_the_same_bits(
    corpus: TokenStore,
    whole: Trained,
    tmp_path: Path,
    stopped: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(corpus, tmp_path / "run", callbacks=[StopAt(stopped)])
    newest = stopped - 1 if stopped % 4 == 0 else stopped  # it stops before it saves
    begun = newest // 4 * 4
    seen = watch(monkeypatch)
    told: list[str] = []
    resumed = train(corpus, tmp_path / "run", resume=True, tell=told.append)
    assert seen == list(range(begun * 8, 96)), "the sequences that the whole run saw"
    assert any(("checkpoint-" if begun else "beginning anew") in line for line in told)
    assert same_bits(weights_in(resumed.model), weights_in(whole.model))
    assert [e["loss"] for e in resumed.log] == [e["loss"] for e in whole.log]


@pytest.mark.parametrize(
    ("number", "code", "step"), [(signal.SIGTERM, 143, 1), (signal.SIGINT, 130, 7)]
)
def test_a_signal_saves_first_and_says_where(
    corpus: TokenStore, whole: Trained, tmp_path: Path, number: int, code: int, step: int
) -> None:
    """In any step, once, however often it comes; with workers that read ahead."""
    before = signal.signal(number, signal.default_int_handler)  # it may be ignored
    told: list[str] = []
    asking = SignalAt(step, number)
    run = tmp_path / "run"
    try:
        with pytest.raises(Interrupted) as found:
            train(corpus, run, callbacks=[asking], tell=told.append, loader_workers=1)
    finally:
        signal.signal(number, before)
    assert found.value.exit_code == code
    assert told[-1] == f"Saved {run}/checkpoints/checkpoint-{step}. Go on with --resume {run}"
    assert asking.saved == 1 + step // 4
    assert not (run / "model").exists()
    resumed = train(corpus, run, resume=True)
    assert same_bits(weights_in(resumed.model), weights_in(whole.model))
    assert [e["loss"] for e in resumed.log] == [e["loss"] for e in whole.log]


def test_edited_options_are_refused_by_the_field(
    corpus: TokenStore, whole: Trained, tmp_path: Path
) -> None:
    """As `bydore train --resume` reads them from the run's own file."""
    folder = tmp_path / "run"
    shutil.copytree(whole.folder, folder)
    shutil.rmtree(folder / "model")
    content = json.loads((folder / "config.json").read_text())
    for field, value in (("learning_rate", 0.5), ("seed", 7), ("weight_decay", 0.0)):
        edited = {**content, "target": {**content["target"], field: value}}
        (folder / "config.json").write_text(json.dumps(edited))
        with pytest.raises(RunFolderError, match=f"Expected {field} .*, found {value}: a run"):
            train(corpus, folder, resume=True, **{field: value})
    (folder / "config.json").write_text(json.dumps(content))
    assert len(list((folder / "checkpoints").iterdir())) == 2, "nothing is set aside"
    resumed = train(corpus, folder, resume=True, log_every=3, kept_checkpoints=1)
    assert same_bits(weights_in(resumed.model), weights_in(whole.model))


def test_a_changed_checkpoint_is_set_aside(
    corpus: TokenStore, whole: Trained, tmp_path: Path
) -> None:
    """One whose weights are sound, and one that was not written to its end."""
    folder = tmp_path / "run"
    shutil.copytree(whole.folder, folder)
    shutil.rmtree(folder / "model")
    change(folder / "checkpoints" / "checkpoint-8", "model.norm.weight", torch.zeros(32))
    (folder / "checkpoints" / "checkpoint-12" / "belongs.json").unlink()
    told: list[str] = []
    resumed = train(corpus, folder, resume=True, tell=told.append)
    assert "checkpoint-12, which has no belongs.json: it was not written to its end" in told[0]
    assert "checkpoint-8, whose model.safetensors was changed" in told[1]
    for line, step in zip(told, (12, 8), strict=False):
        assert line.endswith(f"; it is set aside as refused-checkpoint-{step}")
    assert told[2] == "no checkpoint: beginning anew"
    assert same_bits(weights_in(resumed.model), weights_in(whole.model))
    kept = sorted(path.name for path in (folder / "checkpoints").iterdir())
    assert kept == [f"{p}checkpoint-{n}" for p in ("", "refused-") for n in (12, 8)]


def test_a_finished_run_is_finished(corpus: TokenStore, whole: Trained, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole.folder, folder)
    with pytest.raises(RunFolderError, match="found a finished one in"):
        train(corpus, folder, resume=True)
    shutil.rmtree(folder / "model")
    resumed = train(corpus, folder, resume=True)
    assert same_bits(weights_in(resumed.model), weights_in(whole.model))


def test_a_checkpoint_cannot_run_code(corpus: TokenStore, whole: Trained, tmp_path: Path) -> None:
    """Not even one that is sealed anew; without its seal the one before is gone on from."""
    ran = tmp_path / "ran"
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        folder = tmp_path / name
        shutil.copytree(whole.folder, folder)
        shutil.rmtree(folder / "model")
        shutil.rmtree(folder / "checkpoints" / "checkpoint-12")
        checkpoint = folder / "checkpoints" / "checkpoint-8"
        belongs = json.loads((checkpoint / "belongs.json").read_text())["belongs"]
        torch.save({"state": Runs(ran)}, checkpoint / name)
        assert broken_seal(checkpoint) == f"whose {name} was changed, lost or added"
        write_seal(checkpoint, belongs)
        with pytest.raises(RunFolderError, match=r"Expected a valid .*, found: Weights only load"):
            train(corpus, folder, resume=True)
        assert not ran.exists()


def change(path: Path, name: str, value: torch.Tensor) -> None:
    weights = load_file(path / "model.safetensors")
    save_file({**weights, name: value}, path / "model.safetensors", {"format": "pt"})


def test_other_sizes_of_a_device_see_the_same(
    corpus: TokenStore, whole: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = watch(monkeypatch)
    other = train(corpus, tmp_path / "run", device_batch_sequences=2, activation_checkpointing=True)
    assert seen == list(range(96))
    np.testing.assert_allclose(
        [e["loss"] for e in other.log], [e["loss"] for e in whole.log], rtol=1e-4
    )


def test_stages_follow_each_other(corpus: TokenStore, tmp_path: Path) -> None:
    first = Mixture(names=("birds", "digits"), weights=(0.75, 0.25))
    second = Mixture(names=("greek",), weights=(1.0,))
    schedule = MixtureSchedule(ends=(0.5, 1.0), mixtures=(first, second))
    trained = train(corpus, tmp_path / "run", schedule=schedule, tokens="1024")
    sequences = {k: v // 32 for k, v in trained.metrics["tokens_by_domain"].items()}
    assert sequences == {"birds": 12, "digits": 4, "greek": 16}


def test_refused_before_anything_is_written(corpus: TokenStore, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Expected to read the text of a domain at most"):
        train(corpus, tmp_path / "run", tokens="1B")
    assert not (tmp_path / "run").exists()


def test_folders_that_cannot_be_used(corpus: TokenStore, whole: Trained, tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="Expected a new output folder, found a run"):
        train(corpus, whole.folder)
    with pytest.raises(RunFolderError, match="Expected an unfinished training"):
        train(corpus, tmp_path, resume=True)
    for name in ("model", "checkpoints", "tensorboard"):
        (tmp_path / name / name).mkdir(parents=True)
        with pytest.raises(RunFolderError, match=f"new output folder, found {name} in"):
            train(corpus, tmp_path / name)
        assert [p.name for p in (tmp_path / name).iterdir()] == [name]


def test_a_diverging_training_stops(corpus: TokenStore, tmp_path: Path) -> None:
    schedule = MixtureSchedule.constant(mixture_for(corpus))
    config = tiny_config(learning_rate=1e30, max_gradient_norm=1e30, warmup_share=0.0)
    with pytest.raises(NonFiniteError, match="Expected a finite"):
        train_target(tiny_shape(), corpus, schedule, config, tmp_path / "run")


# What two processes do, one after the other, so that they are started once. Every process writes
# down the numbers of the sequences that it reads. The second is so late that it finds what the
# first has written. Then a signal reaches the second process alone. Then they shard: Accelerate
# does so on GPUs alone; taken for one, a CPU is sharded by the same calls.
SCRIPT = """
import os, signal, sys, time
from pathlib import Path
import torch
from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType
from bydore_pyro.data.store import open_store
from bydore_pyro.training.config import TargetConfig
from bydore_pyro.training.mixture_dataset import MixtureDataset
from bydore_pyro.utils.interrupts import Interrupted
from training_runs import SignalAt, StopAt, train

torch.set_num_threads(1)
signal.signal(signal.SIGTERM, signal.default_int_handler)
plain, seen = MixtureDataset.__getitem__, []
MixtureDataset.__getitem__ = lambda self, n: (seen.append(n), plain(self, n))[1]
store, run, stopped, sharded, killed = open_store(Path(sys.argv[1])), *map(Path, sys.argv[2:])
rank = os.environ["RANK"]
while rank == "1" and not (run / "config.json").exists():
    time.sleep(0.05)
train(store, run)
Path(f"seen-{rank}").write_text(" ".join(map(str, seen)))
try:
    train(store, stopped, callbacks=[SignalAt(6, signal.SIGTERM)] if rank == "1" else [])
except Interrupted as error:
    Path(f"code-{rank}").write_text(str(error.exit_code))

TargetConfig.__post_init__ = lambda self: None  # it refuses to shard on a CPU
begin = PartialState.__init__

def taken_for_gpus(self, *arguments, **options):
    begin(self, *arguments, **options)
    if self._shared_state["distributed_type"] == DistributedType.MULTI_CPU:
        self._shared_state["distributed_type"] = DistributedType.MULTI_GPU

PartialState.__init__ = taken_for_gpus
AcceleratorState._reset_state(reset_partial_state=True)
train(store, sharded, fsdp=True)
try:
    train(store, killed, fsdp=True, callbacks=[StopAt(6)])
except KeyboardInterrupt:
    pass
torch.distributed.barrier()
train(store, killed, fsdp=True, resume=True)
"""


@pytest.fixture(scope="module")
def pair(corpus: TokenStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two processes' training, another that a signal stopped, and two that are sharded."""
    folder = tmp_path_factory.mktemp("pair")
    (folder / "script.py").write_text(SCRIPT)
    places = (corpus.folder, *(folder / name for name in ("run", "stopped", "sharded", "killed")))
    on_two_processes("script.py", *places, cwd=folder)
    return folder


@pytest.mark.slow
def test_two_processes_train_what_one_trains(
    corpus: TokenStore, whole: Trained, pair: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = pair / "run"
    written = [(pair / f"seen-{rank}").read_text().split() for rank in (0, 1)]
    seen = [[int(n) for n in share] for share in written]
    assert not set(seen[0]) & set(seen[1]), "every process gets its own"
    for step in range(12):  # four sequences of each process make up a step
        own = [n for share in seen for n in share[4 * step : 4 * step + 4]]
        assert sorted(own) == list(range(8 * step, 8 * step + 8))
    log = json.loads((run / "metrics.json").read_text())["log"]
    np.testing.assert_allclose([e["loss"] for e in log], [e["loss"] for e in whole.log], rtol=1e-5)
    two, one = weights_in(run / "model"), weights_in(whole.model)
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=1e-3, atol=1e-4)

    # Begun by two processes, killed behind step 8, ended by one.
    shutil.rmtree(run / "model")
    shutil.rmtree(run / "checkpoints" / "checkpoint-12")
    alone = watch(monkeypatch)
    resumed = train(corpus, run, resume=True)
    assert alone == list(range(64, 96)), "what two would have seen"
    for name, value in weights_in(resumed.model).items():
        torch.testing.assert_close(value, two[name], rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_processes_save_together(corpus: TokenStore, whole: Trained, pair: Path) -> None:
    """Whichever of them the signal reaches; no save waits for one that has gone."""
    run = pair / "stopped"
    assert [(pair / f"code-{rank}").read_text() for rank in (0, 1)] == ["143", "143"]
    saved = sorted(path.name for path in (run / "checkpoints").iterdir())
    assert saved == ["checkpoint-4", "checkpoint-6"]
    told: list[str] = []
    resumed = train(corpus, run, resume=True, tell=told.append)
    assert f"going on from {run}/checkpoints/checkpoint-6" in told
    np.testing.assert_allclose(
        [e["loss"] for e in resumed.log], [e["loss"] for e in whole.log], rtol=1e-4
    )


@pytest.mark.slow
def test_sharded_processes_train_what_one_trains(whole: Trained, pair: Path) -> None:
    """FSDP2, killed and resumed too, with checkpoints that are whole and hold no pickled index."""
    checkpoint = pair / "sharded/checkpoints/checkpoint-12"
    assert (checkpoint / "pytorch_model_fsdp.bin").is_file(), "it was sharded"
    assert all(path.is_file() for path in checkpoint.iterdir())
    sharded = weights_in(pair / "sharded/model")
    assert same_bits(sharded, weights_in(pair / "killed/model"))
    for name, value in weights_in(whole.model).items():
        torch.testing.assert_close(sharded[name], value, rtol=1e-3, atol=1e-4)


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    path = Path(__file__).parents[2] / "benchmarks" / "target.py"
    spec = importlib.util.spec_from_file_location("target_benchmark", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "target_benchmark", module)
    spec.loader.exec_module(module)
    return module


def test_the_benchmark(benchmark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    benchmark.main(["--smoke"])
    printed = capsys.readouterr().out
    assert "models/target-tiny: 802,944 parameters, cpu" in printed
    assert "over 3 steps" in printed


def test_the_benchmark_counts_flops(benchmark: Any) -> None:
    """66,000 tokens a second of the 1.1 B model at T = 2,048 are 48.8 % of an H200's bf16 rate."""
    options = benchmark.BenchmarkOptions(
        benchmark=benchmark.BenchmarkConfig(model="models/target-1b"),
        target=TargetConfig(target_batch_sequences=64),
    )
    metrics = {
        "parameters": 1_100_048_384,
        "embedding_parameters": 65_536_000,
        "device": "NVIDIA H200",
    }
    trained = Trained(Path("run"), [], metrics)
    text = benchmark.report(options, trained, [64 * 2048 / 66_000] * 3)
    # (6 x 1,034,512,384 + 12 x 22 x 2,048 x 2,048) x 66,000 = 4.827e14
    assert "66,000 tokens per second, 482.7 TFLOP/s, 48.8% of 989.4" in text
