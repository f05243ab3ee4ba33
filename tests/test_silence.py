"""The documentation's chain of commands runs; no command asks the network of anything, unless the
user names a source there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from benchmark_data import write_benchmark
from tiny import write_domains

from bydore_pyro.cli.main import COMMANDS

# Read by every Python that starts: the worker processes of a command, too.
REFUSE = """
import os, socket, traceback

def refused(*given, **named):
    with open("asked", "a") as file:
        file.write(f"{os.environ['LINE']} | {given}\\n")
        traceback.print_stack(limit=12, file=file)
    raise OSError("there is no network")

connect = socket.socket.connect
def connects(self, address):
    return connect(self, address) if self.family == socket.AF_UNIX else refused(address)

socket.socket.connect = socket.socket.connect_ex = connects
socket.getaddrinfo = socket.gethostbyname = refused
"""
RUN = """
import os, shlex, sys
from bydore_pyro.cli.main import main
from quick import be_quick

be_quick()
for line in sys.argv[1].splitlines():
    os.environ["LINE"] = line
    try:
        main(shlex.split(line))
    except SystemExit as end:
        print("ENDED", end.code, line)
"""
PAGE = (Path(__file__).parents[1] / "docs" / "cli.md").read_text(encoding="utf-8")
CHAIN = re.search(r"## A chain to try.*?```sh\n(.*?)```", PAGE, re.S)
MORE = """
prepare --data TEXT --out OTHER --vocabulary 300 --processes 2
evaluate TARGET/model --tasks piqa copa hellaswag --data_dir DATA --num_fewshot 0 1
evaluate TARGET/model --tasks sciq arc_easy --out scores.json
""".strip()
HUB = "evaluate TARGET/model --tasks sciq --out scores.json --hub"


@pytest.mark.slow
def test_no_command_opens_a_socket(tmp_path: Path) -> None:
    assert CHAIN
    chain = CHAIN[1].replace("bydore ", "")
    assert {line.split()[0] for line in chain.splitlines()} == {*COMMANDS} - {"evaluate"}
    write_domains(tmp_path / "TEXT", {"birds": "abcdefgh", "digits": "0123456789"})
    for task in ("piqa", "copa", "hellaswag"):
        write_benchmark(tmp_path / "DATA", task, count=3)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(REFUSE)
    paths = [str(tmp_path / "site"), *sys.path]
    given = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    given |= {"HF_HOME": str(tmp_path / "hub")}
    given |= {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    words = [sys.executable, "-c", RUN, f"{chain}{MORE}\n{HUB}"]
    done = subprocess.run(words, cwd=tmp_path, env=given, capture_output=True, text=True)
    *_, missing = MORE.splitlines()
    ended = [line for line in done.stdout.splitlines() if line.startswith("ENDED")]
    assert ended == [f"ENDED 2 {missing}", f"ENDED 2 {HUB}"], done.stderr[-3000:]
    assert "Expected a folder DATA/sciq (--data_dir DATA), or --hub, found neither" in done.stderr
    assert (
        "Expected data of sciq with the hub's columns and values in DATA/sciq, found" in done.stderr
    )
    assert (tmp_path / "RUN" / "mixture.json").is_file()
    assert "dataset_weights" in (tmp_path / "nanotron.yaml").read_text(encoding="utf-8")
    assert (tmp_path / "TARGET" / "model" / "scores.json").is_file()
    asked = (tmp_path / "asked").read_text()
    asking = {line.partition(" | ")[0] for line in asked.splitlines() if " | " in line}
    assert asking == {HUB}, asked
