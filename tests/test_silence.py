"""No command asks the network of anything, unless the user names a source there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmark_data import write_benchmark, write_task
from conftest import write_domains

from bydore_pyro.cli import COMMANDS

# Read by every Python that starts: the worker processes of a command, too.
REFUSE = """
import os, socket, traceback

def refused(*given, **named):
    with open(os.environ["ASKED"], "a") as file:
        file.write(repr(given) + "".join(traceback.format_stack(limit=12)))
    raise OSError("there is no network")

connect = socket.socket.connect
def connects(self, address):
    return connect(self, address) if self.family == socket.AF_UNIX else refused(address)

socket.socket.connect = socket.socket.connect_ex = connects
socket.getaddrinfo = socket.gethostbyname = refused
"""
RUN = """
import sys
from bydore_pyro.cli import main
for line in sys.argv[1].splitlines():
    print("bydore", line, flush=True)
    main(line.split())
"""
LINES = """
prepare --data TEXT --out STORE --vocabulary 300 --processes 2
search --data STORE --validation birds --smoke --out RUN
search --resume RUN
fit --method natural --data STORE --validation birds --smoke --out NATURAL
export RUN --to nanotron --prefix /data/{domain} --out nanotron.yaml
train --mixture RUN --data STORE --smoke --out TARGET
evaluate TARGET/model --tasks piqa copa own --data_dir DATA --include_path TASKS --num_fewshot 0
report RUN
""".strip()


def run(folder: Path, lines: str) -> subprocess.CompletedProcess[str]:
    """Runs commands one after the other where sockets are refused and recorded."""
    (folder / "site").mkdir(exist_ok=True)
    (folder / "site" / "sitecustomize.py").write_text(REFUSE)
    paths = [str(folder / "site"), *sys.path]
    given = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    given |= {"ASKED": str(folder / "asked"), "HF_HOME": str(folder / "hub")}
    given |= {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-c", RUN, lines]
    return subprocess.run(words, cwd=folder, env=given, capture_output=True, text=True)


@pytest.mark.slow
def test_no_command_opens_a_socket(tmp_path: Path) -> None:
    assert {line.split()[0] for line in LINES.splitlines()} == {*COMMANDS}
    write_domains(tmp_path / "TEXT", {"birds": "abcdefgh", "digits": "0123456789"}, files=12)
    for task in ("piqa", "copa"):
        write_benchmark(tmp_path / "DATA", task, count=3)
    write_task(tmp_path / "TASKS", "own")
    done = run(tmp_path, LINES)
    asked = (tmp_path / "asked").read_text() if (tmp_path / "asked").exists() else ""
    assert done.returncode == 0, done.stderr[-3000:]
    assert asked == ""
    assert (tmp_path / "TARGET" / "model" / "scores.json").is_file()
    # Nor where data are missing; where the user names the hub, it is asked once and not again.
    given = "evaluate TARGET/model --tasks sciq arc_easy --out scores.json"
    done = run(tmp_path, given)
    assert done.returncode == 2
    assert "Expected the data of all tasks, found none for 2" in done.stderr
    assert not (tmp_path / "asked").exists()
    done = run(tmp_path, f"{given} --hub")
    assert done.returncode == 2
    assert "Expected the data of all tasks, found none for 2" in done.stderr
    assert (tmp_path / "asked").read_text().count("get_session().head") == 1
