"""Many independent pieces of work: in turn in this process, or as tasks of a Ray cluster.

Ray schedules, moves arguments and results, and runs a piece again whose machine or process was
lost; an error that the piece raises is final. The results are the same in every place to the last
bit: a task computes with as many threads as this process does, and asks for as many CPUs, or for a
GPU. Memory-mapped arrays are opened again where the piece runs, so that the machines need a file
system that they share.
"""

from __future__ import annotations

import io
import logging
import os
import pickle
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

import numpy as np

from bydore_pyro import files, terminal
from bydore_pyro.errors import DataError, expecting, one_line, require

#: The help of `--cluster`.
CLUSTER = (
    "Run independent pieces of the work on Ray instead of in turn: 'local' for the cores and GPUs "
    "of this machine, 'auto' or an address for a cluster. The results are the same."
)
SECONDS_TO_ANSWER = 10.0
SECONDS_TO_ASK = 0.5  # between two looks at requests to stop
LOST = 5  # times that a piece is run again: one that always ends its process must end some day
P = TypeVar("P")
R = TypeVar("R")
_in_task = False  # whether this process is a worker of Ray's: pieces of a piece run in turn


def join_cluster(address: str | None) -> None:
    """Starts Ray on this machine ("local"), or joins a cluster, until this process ends.

    Without an address nothing happens, and nothing is imported.

    Raises:
        DataError: When Ray is not installed, or there is no cluster.
        ValueError: When `torchrun` has started several processes.
    """
    if address is None:
        return
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError(
            "Expected one process with --cluster, found several: torchrun splits batches, "
            "--cluster shares out whole pieces"
        )
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")  # as pieces in turn
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns of the change
    ray = require("ray", "cluster")
    if ray.is_initialized():
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    options: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
    try:
        with expecting(f"Expected a Ray cluster at --cluster {address}, found none:"):
            _require_listener(os.environ.get("RAY_ADDRESS", "") if address == "auto" else address)
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **options)
    finally:
        for number, handler in handlers.items():  # Ray has taken SIGTERM
            with suppress(ValueError):  # not in the main thread
                signal.signal(number, handler)
    found = ray.cluster_resources()
    terminal.tell(f"cluster {address}: {found.get('CPU', 0):g} CPUs, {found.get('GPU', 0):g} GPUs")


def _require_listener(address: str) -> None:
    """Checks that somebody listens at ``host:port``: Ray itself tries for minutes."""
    host, _, port = address.rpartition("/")[2].rpartition(":")
    if port.isdigit():
        socket.create_connection((host, int(port)), timeout=SECONDS_TO_ANSWER).close()


def cluster_cpus() -> int:
    """Returns how many CPUs the joined cluster has."""
    return int(require("ray", "cluster").cluster_resources().get("CPU", 1))


def run_pieces(
    function: Callable[[P, Callable[[int], object]], R],
    pieces: Sequence[P],
    cluster: str | None = None,
    *,
    label: str = "",
    sizes: Sequence[int] | None = None,
    unit: str = "piece",
    delay: float = 0,
    gpus: int = 0,
) -> Iterator[tuple[int, R]]:
    """Runs a function on every piece; yields the number and the result of each as it ends.

    Args:
        function: Takes a piece, and a function that reports how much of it is done.
        pieces: What differs; small.
        cluster: As for `join_cluster`; in turn, in this process, when None.
        label: Of a bar; none is shown when empty.
        sizes: Of the pieces, for the bar; when None the function shows its own progress in turn.
        unit: Of the sizes.
        delay: Seconds before the bar is shown.
        gpus: That a piece needs.

    Raises:
        Exception: The first that a piece raises; the others are cancelled.
        Interrupted: See `stop_if_asked`; on a cluster it is asked while pieces run.
        OSError: When a piece lost its process or machine again and again, or the cluster is gone.
    """
    from tqdm import tqdm

    hidden = not (label and pieces) or (cluster is None and sizes is None)
    weights = sizes or [1] * len(pieces)
    about: Any = {"desc": label, "unit": unit, "mininterval": 0.5, "disable": hidden}
    about |= {"delay": delay, "leave": None}  # it goes where it stood below another
    with tqdm(total=sum(weights), **about) as bar:
        if cluster is None or _in_task:
            for number, piece in enumerate(pieces):
                bar.set_postfix_str(f"{number + 1} of {len(pieces)}", refresh=False)
                yield number, function(piece, bar.update)
            return
        join_cluster(cluster)
        import ray
        import torch

        start = on_cluster(function, threads=1 if gpus else torch.get_num_threads(), gpus=gpus)
        tasks = [start(piece, _unwatched) for piece in pieces]
        running = {task.reference: number for number, task in enumerate(tasks)}
        try:
            while running:
                ended, _ = ray.wait([*running], timeout=SECONDS_TO_ASK)
                terminal.stop_if_asked()
                for reference in ended:
                    number = running.pop(reference)
                    yield number, tasks[number].result()
                    bar.update(weights[number])
        finally:
            for reference in running:
                with suppress(Exception):  # it may have ended, and so may the cluster
                    ray.cancel(reference, force=True)


def _unwatched(done: int) -> None:
    """Reports the progress of a piece that nobody watches."""


class Task(Generic[R]):
    """A call that runs on the cluster; `reference` is Ray's own."""

    def __init__(self, reference: Any) -> None:
        self.reference = reference

    def result(self) -> R:
        """Waits for the result.

        Raises:
            Exception: What the call raised.
            OSError: When its process or machine was lost again and again, or the cluster is gone.
        """
        import ray

        try:
            found: R = ray.get(self.reference)
            return found
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            text = f"Expected the cluster to run a piece, found {type(error).__name__}: "
            raise OSError(text + one_line(error)) from None


def on_cluster(
    function: Callable[..., R], *, threads: int | None = None, gpus: int = 0
) -> Callable[..., Task[R]]:
    """Returns a function that starts the given one as a task of the joined cluster.

    Args:
        function: Sent once, with what it holds.
        threads: With which torch computes; as many CPUs are asked for. One CPU for a function
            without torch when None.
        gpus: That a task needs.
    """
    import ray

    needs: Any = {"num_cpus": threads or 1, "num_gpus": gpus, "max_retries": LOST}
    task = ray.remote(**needs)(_work)
    sent = ray.put(_packed(function))
    place = threads, os.getcwd(), files.versions()
    return lambda *arguments: Task(task.remote(sent, place, arguments))


def _work(sent: bytes, place: tuple[int | None, str, dict[str, str]], arguments: Any) -> Any:
    """A task: runs a function that was packed, as the process does that packed it."""
    global _in_task
    _in_task, (threads, folder, wanted) = True, place
    host = socket.gethostname()
    if (found := files.versions()) != wanted:
        raise DataError(
            f"Expected {wanted} on every machine of the cluster, found {found} on {host}"
        )
    with suppress(OSError):  # for relative paths
        os.chdir(folder)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    try:
        function = pickle.loads(sent)
    except OSError as error:
        raise DataError(
            f"Expected {error.filename} on every machine, found none on {host}: data and --out "
            "belong on a file system that all share"
        ) from None
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    return function(*arguments)


def _packed(function: Any) -> bytes:
    """Pickles a function with what it holds; of a memory-mapped array only its place in a file."""
    from ray import cloudpickle

    class Packer(cloudpickle.Pickler):
        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, np.ndarray) and (place := _in_file(value)):
                return _mapped, place
            return super().reducer_override(value)

    with io.BytesIO() as file:
        Packer(file, protocol=pickle.HIGHEST_PROTOCOL).dump(function)
        return file.getvalue()


def _in_file(array: np.ndarray) -> tuple[str, str, int, tuple[int, ...]] | None:
    """The file, type, offset and shape of an array that is mapped read-only; None of another."""
    root: Any = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    if not isinstance(root, np.memmap) or root.mode != "r" or root.filename is None:
        return None
    if not array.flags.c_contiguous:
        return None
    # A slice of a map has the map's own `offset`, so only the addresses differ.
    offset = root.offset + array.ctypes.data - root.ctypes.data
    return str(root.filename), array.dtype.str, offset, array.shape


def _mapped(path: str, dtype: str, offset: int, shape: tuple[int, ...]) -> np.ndarray:
    return np.asarray(np.memmap(path, np.dtype(dtype), "r", offset, shape))
