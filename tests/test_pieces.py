"""Pieces of work in turn and on Ray: the same bytes, whatever is killed meanwhile."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from quick import PROXY
from tiny import Bigram, folder_content, make_problem, random_store, small_plan, write_domains

from bydore_pyro import pieces
from bydore_pyro.cli.main import main
from bydore_pyro.data.build import Build
from bydore_pyro.data.domains import Domains
from bydore_pyro.data.preparation import prepare
from bydore_pyro.data.store import TokenStore
from bydore_pyro.errors import DataError
from bydore_pyro.files.origins import versions
from bydore_pyro.measure.measurement import Measurement, measure
from bydore_pyro.pieces import Task, cluster_cpus, join_cluster, on_cluster, run_pieces
from bydore_pyro.proxy.gradients import GradientSketch
from bydore_pyro.proxy.measured_model import MeasuredModel
from bydore_pyro.trials.proxy_runs import PlannedRun, train_runs


def square(number: int, advance: Callable[[int], object]) -> int:
    if number < 0:
        raise DataError(f"Expected a number >= 0, found {number}")
    advance(1)
    return number**2


def test_pieces_run_in_turn_as_far_as_they_are_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = run_pieces(square, [3, 2, -1], label="squares", sizes=[1, 1, 1])
    assert next(found) == (0, 9)
    assert next(found) == (1, 4)
    with pytest.raises(DataError, match="found -1"):
        next(found)
    assert "squares:" in capsys.readouterr().err
    assert list(run_pieces(square, [])) == []
    assert not capsys.readouterr().err, "a bar of nothing"


def test_a_cluster_that_cannot_be_had_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    join_cluster(None)
    with monkeypatch.context() as patch:
        patch.setenv("WORLD_SIZE", "2")
        with pytest.raises(ValueError, match="Expected one process with --cluster, found several"):
            join_cluster("local")
    for address in ("localhost:1", "nowhere.invalid:6379"):
        with pytest.raises(DataError, match=f"at --cluster {address}, found none"):
            join_cluster(address)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(DataError, match=r"found none .*: pip install 'bydore-pyro\[cluster\]'"):
        join_cluster("local")


def test_mapped_arrays_are_sent_by_their_place(tmp_path: Path) -> None:
    path, numbers = tmp_path / "numbers", np.arange(100_000, dtype=np.uint16)
    path.write_bytes(b"12345678" + numbers.tobytes())
    mapped = np.memmap(path, np.uint16, "r", 8)
    read = np.memmap(path, np.uint16, "r+", 8)  # who may change it sends what it is
    for array in (np.asarray(mapped), mapped[7:90_000], np.asarray(mapped)[50_000:][3:9]):
        sent = pieces._packed(array)
        assert len(sent) < 1000
        np.testing.assert_array_equal(pickle.loads(sent), array)
    for array in (numbers, mapped[::2], read, np.empty(0)):
        np.testing.assert_array_equal(pickle.loads(pieces._packed(array)), array)
    sent = pieces._packed(partial(np.sum, np.asarray(mapped)))
    place = torch.get_num_threads(), str(tmp_path), versions()
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.chdir(tmp_path)
        patch.setenv("TOKENIZERS_PARALLELISM", "false")
        patch.setattr(pieces, "_in_task", False)
        assert pieces._work(sent, place, ()) == numbers.sum()
        assert list(run_pieces(square, [3], "anywhere")) == [(0, 9)], "in a task, in turn"
        path.unlink()
        with pytest.raises(DataError, match=r"Expected .*numbers on every machine, found none on"):
            pieces._work(sent, place, ())
        with pytest.raises(DataError, match=r"Expected \{'torch': '0'\} on every machine"):
            pieces._work(sent, (1, str(tmp_path), {"torch": "0"}), ())


def die_once(mark: Path, driver: int) -> None:
    """Ends the process as the system does for want of memory, once, if it is a task's."""
    if os.getpid() == driver:
        return
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def build(mark: Path, driver: int, vocabulary: int, seed: int) -> Bigram:
    die_once(mark, driver)
    return Bigram(vocabulary, seed)


class Dying(Bigram):
    """A model whose process dies when it is first asked."""

    def __init__(self, mark: Path) -> None:
        super().__init__(24)
        self.given = mark, os.getpid()

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        die_once(*self.given)
        return super().forward(input_ids)


def losing(mark: Path, driver: int, number: int, advance: object) -> int:
    """A piece that runs out of memory, as the system ends it: always where there is no mark."""
    if mark is None:
        os.kill(os.getpid(), signal.SIGKILL)
    die_once(mark, driver)
    return number


def threads(number: int, advance: object) -> tuple[int, str]:
    return torch.get_num_threads(), os.getcwd()


def sweep(corpus: TokenStore, folder: Path, cluster: str | None) -> dict[str, bytes]:
    """Losses and tensors of a sweep, a process of which dies in its middle."""
    made = partial(build, folder / "mark", os.getpid(), corpus.vocabulary)
    problem = make_problem(corpus, folder / "runs", build=made, cluster=cluster)
    mixtures = [{name: 1.0} for name in corpus.names]
    given: Any = {"steps": 20, "seed": 0, "keep_model": True}
    planned = [PlannedRun(weights=weights, **given) for weights in mixtures]
    found = train_runs(problem, planned, "sweep")
    assert [len(run.losses) for run in found] == [1] * 4
    content = folder_content(folder / "runs")
    return {name: value for name, value in content.items() if name.endswith("safetensors")}


def measuring(mark: Path, cluster: str | None) -> tuple[Measurement, int]:
    """What a round measures, in processes of which one dies, and the tokens that it read."""
    store = random_store()
    domains = Domains(store, {"a": 1.0}, sequence_length=32, validation_sequences=16, measured=16)
    model = MeasuredModel(Dying(mark))
    found = measure(GradientSketch(model, 64), domains, 16, 3, cluster=cluster)
    return found, model.cost.tokens["gradients"]


@pytest.fixture(scope="module")
def machines() -> Iterator[Any]:
    """Ray's own cluster for tests: a head that runs no piece, and two machines of one CPU."""
    import ray
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_worker_niceness", "0")
        patch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "2")  # wait for a dead head
        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
        head: Any = {"num_cpus": 0, "include_dashboard": False, "include_log_monitor": False}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        for _ in range(2):
            cluster.add_node(num_cpus=1, include_log_monitor=False)
        patch.setenv("RAY_ADDRESS", cluster.address)
        yield cluster
        ray.shutdown()
        cluster.shutdown()
        ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.mark.slow
def test_the_bytes_are_the_same_whatever_dies(
    machines: Any, corpus: TokenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join_cluster("auto")
    assert cluster_cpus() == 2
    assert dict(run_pieces(threads, [0, 1], "auto")) == dict.fromkeys(
        (0, 1), (torch.get_num_threads(), os.getcwd())
    )
    task: Task[int] = on_cluster(square)(-2 + 4, print)
    assert task.result() == 4
    with pytest.raises(DataError, match=r"^Expected a number >= 0, found -1$"):
        list(run_pieces(square, [1, -1], "auto"))

    # A process that the system ends for want of memory: once, and always.
    one = partial(losing, tmp_path / "mark", os.getpid())
    assert dict(run_pieces(one, range(3), "auto")) == {0: 0, 1: 1, 2: 2}
    with monkeypatch.context() as patch:
        patch.setattr(pieces, "LOST", 1)
        with pytest.raises(OSError, match="to run a piece, found WorkerCrashedError"):
            list(run_pieces(partial(losing, None, 0), [0], "auto"))

    # The same in a sweep and in a round, and a machine that dies in the preparing of text.
    for name in ("turn", "cluster"):
        (tmp_path / name).mkdir()
    expected = sweep(corpus, tmp_path / "turn", None)
    assert sweep(corpus, tmp_path / "cluster", "auto") == expected
    assert len(expected) == 4
    assert (tmp_path / "cluster" / "mark").exists(), "a process died"

    (turn, tokens), (found, again) = (
        measuring(tmp_path / "measured", cluster) for cluster in (None, "auto")
    )
    assert (tmp_path / "measured").exists()
    assert again == tokens
    for one, other in zip(turn.samples.values(), found.samples.values(), strict=True):
        assert torch.equal(one.gradients, other.gradients)
        assert torch.equal(one.documents, other.documents)

    left = list(machines.worker_nodes)[-1:]
    monkeypatch.setattr("bydore_pyro.data.build.BATCH", 2000)
    text = write_domains(tmp_path / "text", {"a": "abcde", "b": "vwxyz"}, files=40)

    sound = Build._write

    def write(build: Build, most: int) -> None:
        sound(build, most)
        while left:
            machines.remove_node(left.pop(), allow_graceful=False)

    monkeypatch.setattr(Build, "_write", write)
    prepare(small_plan(text), tmp_path / "many", cluster="auto")
    assert not left
    prepare(small_plan(text), tmp_path / "one")
    assert folder_content(tmp_path / "many") == folder_content(tmp_path / "one")


@pytest.mark.slow
def test_a_head_that_restarts_costs_no_finished_piece(
    store: Path, machines: Any, tmp_path: Path
) -> None:
    """The command ends in one line, and goes on where it stood; here without a cluster."""
    import ray

    ray.shutdown()  # the head may have no other program
    given = ["fit", "--method", "regmix", "--regmix_proxies", "16", "--smoke", "--data", str(store)]
    given += ["--validation", "a", "--proxy", str(PROXY), "--steps", "100"]
    main([*given, "--out", str(tmp_path / "turn")])

    run = tmp_path / "run"
    command = [sys.executable, "-m", "bydore_pyro", *given, "--cluster", "auto", "--out", str(run)]
    program = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    while not finished(run) and program.poll() is None:
        time.sleep(0.05)
    machines.remove_node(machines.head_node, allow_graceful=False)
    _, told = program.communicate(timeout=200)
    # Ray ends the process itself, unless the machine that it is on died with the head.
    ends = {1: "Failed to connect to GCS within", 2: "bydore fit: error: Expected the cluster to"}
    assert told.count(ends[program.returncode]) == 1, told
    assert "Traceback" not in told
    before = finished(run)
    assert 0 < len(before) < len(finished(tmp_path / "turn"))

    options = (run / "config.json").read_text()
    (run / "config.json").write_text(options.replace('"cluster": "auto"', '"cluster": null'))
    main(["fit", "--resume", str(run)])
    assert before.items() <= finished(run).items(), "none was trained twice"
    assert finished(run).keys() == finished(tmp_path / "turn").keys()
    for name in ("mixture.json", *(f"proxies/{name}/tensors.safetensors" for name in before)):
        assert (run / name).read_bytes() == (tmp_path / "turn" / name).read_bytes()


def finished(run: Path) -> dict[str, int]:
    """The proxies that were trained, and when."""
    found = run.glob("proxies/[!.u]*/tree.json")
    return {path.parent.name: path.stat().st_mtime_ns for path in found}
