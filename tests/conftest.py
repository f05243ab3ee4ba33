"""Shared fixtures: a corpus of synthetic domains, small language models, scripts run here."""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

# Both before any import that reads them. Tests run beside each other: threads that wait for a core,
# and this is so in the fits of Gaussian processes above all, cost many times what they bring.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"  # a test that reaches for a hub must fail at once

import pyro
import pytest
import torch
from processes import Run
from quick import PROXY, QUICK, quickly
from tiny import ALPHABETS, make_problem, write_domains

from bydore_pyro.cli.main import main
from bydore_pyro.data.documents import CorpusConfig
from bydore_pyro.data.domains import Domains
from bydore_pyro.data.preparation import load_tokens
from bydore_pyro.data.store import TokenStore
from bydore_pyro.data.tokenizer import TokenizerConfig
from bydore_pyro.trials.problem import Problem

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "experiments"))  # tests import what scripts define

# Begun in the background of a shell, tests ignore Ctrl-C, and so would all that they start.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests first, lest one core end with them alone: slow ones, then those of scripts."""

    def place(item: pytest.Item) -> tuple[bool, int]:
        fast, depth = item.get_closest_marker("slow") is None, len(item.path.parts)
        return fast, depth if fast else -depth  # both of Ray's tests before what is slow elsewhere

    items.sort(key=place)


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three small domains, alone in a folder."""
    folder = tmp_path_factory.mktemp("small") / "text"
    return write_domains(folder, {"a": "abcde", "b": "vwxyz", "c": "klmno"}, files=30)


@pytest.fixture(scope="session")
def store(text: Path) -> Path:
    """Their token store, as `bydore prepare` leaves it."""
    out = text.parent / "store"
    main(
        [
            "prepare",
            "--data",
            str(text),
            "--out",
            str(out),
            "--vocabulary",
            "280",
            "--processes",
            "0",
        ]
    )
    return out


@pytest.fixture(scope="session")
def measured_run(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search without trials, on `a`, that kept what it measured."""
    out = tmp_path_factory.mktemp("measured") / "run"
    given = ["--smoke", "--data", str(store), "--validation", "a", "--round_sequences", "32"]
    more = ["--trials", "0", "--steps", "40", "--proxy", str(PROXY)]
    with quickly():
        main(["search", *given, *more, "--out", str(out)])
    return out


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command that must end with exit code 2; returns the last line that it says."""

    def refused(*arguments: object) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            main([str(argument) for argument in arguments])
        assert exit_.value.code == 2
        told = capsys.readouterr().err
        assert "Traceback" not in told
        return told.splitlines()[-1]

    return refused


@pytest.fixture
def _heard() -> Iterator[None]:
    """A test run in the background may have been started with the signals ignored."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def _own_store() -> Iterator[None]:
    """Parameters and random numbers of Pyro that no other test sees."""
    with pyro.get_param_store().scope(), torch.random.fork_rng():
        pyro.set_rng_seed(0)
        yield


@pytest.fixture
def run_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a script of a folder in this process, which saves the imports."""

    def run(
        script: str, *arguments: str, cwd: Path = ROOT, top: str = "experiments"
    ) -> subprocess.CompletedProcess[str]:
        path = ROOT / top / f"{script}.py"
        code = 0
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", [str(path), *arguments])
            patch.syspath_prepend(str(path.parent))
            patch.chdir(cwd)
            try:
                runpy.run_path(str(path), run_name="__main__")
            except SystemExit as exit_:
                code = int(exit_.code or 0)
        return subprocess.CompletedProcess([script, *arguments], code, *capsys.readouterr())

    return run


@pytest.fixture
def draw(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Path], None]:
    """Draws a figure of the results in a folder; `test_figures.py` saves each."""

    def draw(figure: str, folder: Path) -> None:
        import matplotlib.pyplot as plt

        monkeypatch.syspath_prepend(ROOT / "figures")
        results = json.loads((folder / "results.json").read_text())
        assert runpy.run_path(str(ROOT / "figures" / f"{figure}.py"))["draw"](results).axes
        plt.close("all")

    return draw


@pytest.fixture
def experiment(tmp_path: Path, run_here: Run) -> Callable[..., dict]:
    """Runs an experiment into the folder `run`; returns its results."""

    def experiment(script: str, *given: str) -> dict:
        out = tmp_path / "run"
        done = run_here(script, *given, "--out", str(out), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "Warning" not in done.stderr
        assert (out / "table.md").read_text() in done.stdout
        results = json.loads((out / "results.json").read_text())
        assert {"seed", "config", "versions", "commit"} <= set(results)
        assert not {"out", "cache"} & set(results["config"].get("run", {}))
        assert {"tokens", "flops", "seconds", "parts"} == set(results["cost"])
        assert results["cost"]["seconds"] > 0
        return results

    return experiment


@pytest.fixture
def smoke(
    tmp_path: Path, cache: Path, experiment: Callable[..., dict], run_here: Run
) -> Callable[..., dict]:
    """The same in smoke size, and goes on with it as if it had been killed at its end."""

    def smoke(script: str, *more: str) -> dict:
        out = tmp_path / "run"
        results = experiment(script, "--smoke", "--cache", str(cache), *more)
        assert results["cost"]["tokens"] > 0
        if script in ("convergence", "calibration"):  # which cannot be gone on with
            return results
        (out / "results.json").unlink()
        again = run_here(script, "--resume", str(out), cwd=tmp_path)
        assert again.returncode == 0, again.stderr
        assert "training loss" not in again.stderr, "nothing is trained again"
        found = json.loads((out / "results.json").read_text())
        # The source may have been committed between the two.
        assert {**found, "commit": ""} == {**results, "commit": ""}
        return results

    return smoke


@pytest.fixture(autouse=True)
def _quick_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file whose tests judge draws has a fixture of this name of its own."""
    for module, name, value in QUICK:
        monkeypatch.setattr(module, name, value)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of token stores, one for all workers of a test run."""
    folder = tmp_path_factory.getbasetemp()
    return (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "tokens"


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> TokenStore:
    return load_tokens(
        str(write_domains(tmp_path_factory.mktemp("text"), ALPHABETS)),
        CorpusConfig(validation_fraction=0.2),
        TokenizerConfig(vocabulary=300),
        cache=tmp_path_factory.mktemp("cache"),
    )


@pytest.fixture
def domains(corpus: TokenStore) -> Domains:
    return Domains(corpus, {"birds": 1.0}, sequence_length=32, validation_sequences=64)


@pytest.fixture
def problem(corpus: TokenStore, tmp_path: Path) -> Problem:
    return make_problem(corpus, tmp_path / "proxies")
