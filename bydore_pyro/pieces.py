"""Many independent pieces of work: in turn in this process, or as tasks of a Ray cluster.

One function, two executors. Ray schedules, moves what a piece is given and what it returns, and
runs a piece again whose machine or process was lost; an error that the piece raises is final. What
a piece finds, it finds in every place to the last bit: it computes with as many threads as this
process does, and asks for as many CPUs, or for a GPU. Memory-mapped arrays are opened again where
the piece runs, so that the machines need a file system that they share.
"""

from __future__ import annotations

import io
import logging
import os
import pickle
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import suppress
from functools import partial
from typing import Any, ParamSpec, TypeVar

import numpy as np

from bydore_pyro.errors import DataError, expecting, one_line, require
from bydore_pyro.files import versions
from bydore_pyro.terminal import stop_if_asked, tell

#: The help of `--cluster`.
CLUSTER = (
    "Run independent pieces of the work on Ray instead of in turn: 'local' for the cores and GPUs "
    "of this machine, 'auto' or an address for a cluster. The results are the same."
)
SECONDS_TO_ANSWER = 10.0
SECONDS_TO_ASK = 0.5  # between two looks at requests to stop
SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # a frame of HTTP/2: its fourth byte is its kind
LOST = 5  # times that a piece is run again: one that always ends its process must end some day
P = TypeVar("P")
R = TypeVar("R")
G = ParamSpec("G")
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
    # The last lines of a daemon that died would fill standard output; what is raised says it all.
    ray._private.worker.print_to_stdstream = _silent
    if not ray.is_initialized():
        heard = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        given: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
        logging.getLogger("ray").setLevel(logging.ERROR)
        try:
            with expecting(f"Expected a Ray cluster at --cluster {address}, found none:"):
                _require_there(os.environ.get("RAY_ADDRESS", "") if address == "auto" else address)
                ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **given)
        finally:
            for number, handler in heard.items():
                with suppress(ValueError):  # not in the main thread
                    signal.signal(number, handler)
        found = ray.cluster_resources()
        tell(f"cluster {address}: {found.get('CPU', 0):g} CPUs, {found.get('GPU', 0):g} GPUs")


def _require_there(address: str) -> None:
    """Checks that a server of gRPC answers at ``host:port``: Ray itself tries for minutes, or for
    ever where somebody listens and says nothing.

    Such a server begins with a frame of settings (RFC 9113, sections 3.4 and 4.1).
    """
    host, _, port = address.rpartition("/")[2].rpartition(":")
    if not port.isdigit():
        return
    with socket.create_connection((host, int(port)), timeout=SECONDS_TO_ANSWER) as there:
        there.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SETTINGS)
        try:
            kind = there.recv(len(SETTINGS))[3:4]
        except TimeoutError:
            raise OSError(f"a listener that says nothing for {SECONDS_TO_ANSWER:g} s") from None
        if kind != SETTINGS[3:4]:
            raise OSError("a listener that is no head of Ray")


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
        with Tasks(gpus=gpus) as tasks:
            begun = {tasks.submit(function, piece, _nothing): n for n, piece in enumerate(pieces)}
            while begun:
                ended, _ = wait(begun, SECONDS_TO_ASK, FIRST_COMPLETED)
                stop_if_asked()
                for future in ended:
                    number = begun.pop(future)
                    yield number, future.result()
                    bar.update(weights[number])


def _silent(*_: object, **__: object) -> None:
    """Shows nothing of what a daemon of Ray has said; its logs keep it."""


def _nothing(done: int) -> None:
    """Reports the progress of a piece that nobody watches."""


class Tasks(Executor):
    """Runs functions as tasks of the joined cluster, as other executors do in processes.

    A function should be the same object for all tasks: it is sent once.

    Args:
        cpus: That a task needs, of a function without torch. When None it computes with as many
            threads as this process, or with a GPU on one, and needs as many CPUs.
        gpus: That a task needs.
    """

    def __init__(self, *, cpus: int | None = None, gpus: int = 0) -> None:
        import ray

        threads = None
        if cpus is None:
            import torch

            threads = cpus = 1 if gpus else torch.get_num_threads()
        self._ray: Any = ray
        needs: Any = {"num_cpus": cpus, "num_gpus": gpus, "max_retries": LOST}
        self._task = ray.remote(_work).options(**needs)
        self._place = threads, os.getcwd(), versions()
        self._function: Any = None
        self._sent: Any = None
        self._open: dict[Future[Any], Any] = {}

    def submit(self, function: Callable[G, R], /, *given: G.args, **named: G.kwargs) -> Future[R]:
        """Starts a task; returns the future of its result or its error."""
        if function is not self._function:
            self._function, self._sent = function, self._ray.put(_packed(function))
        reference = self._task.remote(self._sent, self._place, given, named)
        future: Future[R] = Future()
        future.set_running_or_notify_cancel()
        self._open[future] = reference
        reference.future().add_done_callback(partial(self._end, future))
        return future

    def _end(self, future: Future[Any], of_ray: Future[Any]) -> None:
        self._open.pop(future, None)
        error = of_ray.exception()
        if error is None:
            future.set_result(of_ray.result())
        elif isinstance(error, self._ray.exceptions.RayTaskError):
            future.set_exception(error.cause)
        else:
            text = f"Expected the cluster to run a piece, found {type(error).__name__}: "
            future.set_exception(OSError(text + one_line(error)))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the tasks that still run."""
        for reference in list(self._open.values()):
            with suppress(Exception):  # it may have ended, and so may the cluster
                self._ray.cancel(reference, force=True)


def _work(
    sent: bytes, place: tuple[int | None, str, dict[str, str]], given: Any, named: Any
) -> Any:
    """A task: runs a function that was packed, as the process does that packed it."""
    global _in_task
    _in_task, (threads, folder, wanted) = True, place
    host = socket.gethostname()
    if (found := versions()) != wanted:
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
    return function(*given, **named)


def _packed(function: Any) -> bytes:
    """Pickles a function with what it holds; of a memory-mapped array only where it lies."""
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
    """Where an array lies that is mapped from a file, read-only; None of another."""
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
