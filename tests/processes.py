"""Programs in this process, which saves the imports, and in two others."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

Run = Callable[..., subprocess.CompletedProcess[str]]


def on_two_processes(*words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a script, given with its arguments, in two processes that work together."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    done = subprocess.run(
        [sys.executable, *launcher, *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def write_program(path: Path, line: str) -> str:
    """Writes a program of one line for the shell; returns its path."""
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return str(path)


def quick_python(folder: Path) -> str:
    """Returns a program for `sys.executable`: Python with what `quick` changes."""
    quick = Path(__file__).parent / "quick.py"
    return write_program(folder / "quick", f'exec "{sys.executable}" "{quick}" "$@"')
