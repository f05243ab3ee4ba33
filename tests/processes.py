"""Programs in this process and in forks of it, alone and in twos: the imports are paid once."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from multiprocessing.context import ForkProcess
from pathlib import Path

from tqdm import tqdm

# What commands import where they need it, and every fork would again.
IMPORTED = (
    "accelerate",
    "arviz",
    "h5netcdf",
    "transformers.models.llama.modeling_llama",
    "transformers.trainer",
)
Run = Callable[..., subprocess.CompletedProcess[str]]

# `conftest` imports this before Torch and what comes with it, which are thousands of files. Where
# the environment keeps no bytecode, as in many containers, every process of a test run, and every
# run again, would compile them, which takes longer than all but a few tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def forked(work: Callable[[], object], told: Path, **variables: str) -> ForkProcess:
    """Starts work in a fork that stands in this folder and is killed or heard like any process.

    Args:
        work: Called without arguments; `SystemExit` and what it raises end the process as ever.
        told: The file to which it prints.
        variables: Of its environment.
    """

    def alone() -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        tqdm.set_lock(threading.RLock())  # all forks share its own, also of one that was killed
        os.environ.update(variables)
        with told.open("a") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", 1, closefd=False) for number in (1, 2))
        work()

    for name in IMPORTED:
        import_module(name)
    process = multiprocessing.get_context("fork").Process(target=alone)
    process.start()
    return process


def on_two_processes(work: Callable[[int], object], folder: Path) -> str:
    """Does work, which gets its rank, in two forks that find each other as torchrun's do.

    Returns:
        What they printed.
    """

    def ranked(rank: int) -> None:
        from accelerate.state import AcceleratorState, GradientState

        os.chdir(folder)
        AcceleratorState._reset_state(reset_partial_state=True)  # of what this process was alone
        GradientState._reset_state()
        work(rank)

    with socket.create_server(("localhost", 0)) as free:
        port = str(free.getsockname()[1])
    together = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": port}
    processes = [
        forked(
            lambda rank=rank: ranked(rank),
            folder / f"told-{rank}",
            **together,
            RANK=str(rank),
            LOCAL_RANK=str(rank),
        )
        for rank in (0, 1)
    ]
    for process in processes:
        process.join(300)
        process.kill()
    told = [(folder / f"told-{rank}").read_text() for rank in (0, 1)]
    assert [process.exitcode for process in processes] == [0, 0], told
    return "".join(told)


def write_program(path: Path, line: str) -> str:
    """Writes a program of one line for the shell; returns its path."""
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return str(path)
