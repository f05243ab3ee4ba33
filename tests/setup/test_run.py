"""A search from its options to its run folder: kills, Ctrl-C, damage and other data."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import re
import shutil
import signal
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
import torch
import xarray
from method_options import options_for
from processes import forked
from quick import quickly
from tiny import folder_content

from bydore_pyro.answer.answer import Answer
from bydore_pyro.cli.main import main
from bydore_pyro.command_line.command_line import parse_options
from bydore_pyro.data.store import open_store
from bydore_pyro.data.tokenizer import tokenizer_sha256
from bydore_pyro.errors import RunFolderError
from bydore_pyro.files.run_folder import RunFolder
from bydore_pyro.mixture import Mixture, mixture_from
from bydore_pyro.proxy.measured_model import Cost
from bydore_pyro.proxy.parallel import Parallel
from bydore_pyro.proxy.proxy import Proxy
from bydore_pyro.setup.domains import load_domains
from bydore_pyro.setup.options import SMOKE, Options
from bydore_pyro.setup.record import Learning, Metrics
from bydore_pyro.setup.run import (
    Drive,
    begin_run,
    broken_off,
    is_finished,
    leave_answer,
    write_inputs,
    write_text_index,
)


def arguments(store: Path, out: Path, *more: str) -> list[str]:
    given = ["search", "--smoke", "--data", str(store), "--validation", "a", "--out", str(out)]
    return [*given, "--checkpoint_every", "1", *more]


@pytest.fixture(scope="module")
def whole(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search that nothing disturbed."""
    out = tmp_path_factory.mktemp("whole") / "run"
    with quickly():
        main(arguments(store, out))
    return out


def results(folder: Path) -> dict[str, object]:
    """What must be the same, whatever happened; the record holds times too."""
    metrics = json.loads((folder / "metrics.json").read_text())
    kept = ("mixture_sha256", "last_weights", "learning", "matching", "trials", "guide_fit")
    content = {name: metrics.get(name) for name in kept} | {"tokens": metrics["search"]["tokens"]}
    kinds = ("losses.json",) if metrics.get("matching") else ()  # Algorithm 1 reads none
    for name in ("mixture.json", "guide.safetensors", *kinds):
        content[name] = (folder / name).read_bytes()
    for path in folder.glob("*.nc"):
        group = "posterior" if path.name == "posterior.nc" else None
        content[path.name] = xarray.load_dataset(path, group=group, engine="h5netcdf")
    return content


def assert_same(left: dict[str, object], right: dict[str, object]) -> None:
    assert set(left) == set(right)
    for name, value in left.items():
        if isinstance(value, xarray.Dataset):
            xarray.testing.assert_equal(value, right[name])
        else:
            assert value == right[name], name


def kill_in_time(out: Path, seconds: float) -> None:
    """Kills this process after so much work on a run, not by a clock that runs while it waits."""

    def kill() -> None:
        while not (out / "config.json").exists():
            time.sleep(0.001)
        end = time.process_time() + seconds
        while time.process_time() < end:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()


def kill_amid_file(number: int) -> None:
    """Kills this process amid so many files that it writes."""
    write = RunFolder._write

    def counting(folder: RunFolder, name: str, content: Callable[[Path], None]) -> None:
        nonlocal number
        number -= 1

        def half(aside: Path) -> None:
            content(aside)
            if not number:
                os.kill(os.getpid(), signal.SIGKILL)

        write(folder, name, half)

    RunFolder._write = counting  # type: ignore[method-assign]


def killed(
    given: list[str], out: Path, kills: Sequence[Callable[[], None]]
) -> tuple[list[int | None], str]:
    """Runs a search that is killed and resumed again and again; its exit codes, what it printed."""
    codes = []
    for kill in [*kills, lambda: None]:
        begun = (out / "config.json").exists()

        def work(kill: Callable[[], None] = kill, begun: bool = begun) -> None:
            kill()
            main(["search", "--resume", str(out)] if begun else given)

        process = forked(work, out.with_suffix(".told"))
        process.join()
        codes.append(process.exitcode)
    return codes, out.with_suffix(".told").read_text()


@pytest.mark.slow
def test_killed_twenty_times(store: Path, tmp_path: Path) -> None:
    """`kill -9` at ten random moments of a search of each kind, each time resumed: bit-identical to
    one left alone."""
    settings = tmp_path / "settings.yaml"
    settings.write_text("guide_warmup: 10\n")
    for kind, steps in (("matching", "24"), ("linear", "14")):
        more = ("--evidence", kind, "--steps", steps, "--config", str(settings))
        out, whole, rng = tmp_path / kind, tmp_path / f"whole-{kind}", random.Random(0)
        main(arguments(store, whole, *more))
        kills = [partial(kill_in_time, out, rng.uniform(0.02, 0.2)) for _ in range(10)]
        codes, told = killed(arguments(store, out, *more), out, kills)
        assert codes[-1] == 0, told
        assert set(codes) <= {0, -signal.SIGKILL}, told
        assert codes.count(-signal.SIGKILL) >= 5, codes
        assert "going on from" in told
        assert_same(results(whole), results(out))
        assert not list(out.rglob(".*")), "nothing half-written is left"


def test_killed_amid_every_file_that_it_writes(store: Path, whole: Path, tmp_path: Path) -> None:
    """All that is derived after the last step depends on the checkpoint alone."""
    out, files = tmp_path / "out", [4, 2, 4, 6]  # behind the options, and then again
    kills = [partial(kill_amid_file, number) for number in files]
    codes, told = killed(arguments(store, out), out, kills)
    assert codes == [-signal.SIGKILL] * len(files) + [0], told
    assert_same(results(whole), results(out))
    assert not list(out.rglob(".*")), "nothing half-written is left"


def signalled(
    arguments: list[str], step: int, number: int, monkeypatch: pytest.MonkeyPatch
) -> object:
    """Runs a search that gets a signal twice within a step, as `timeout` sends it."""
    taken = Proxy.step

    def take(proxy: Proxy, *given: torch.Tensor) -> torch.Tensor:
        if proxy.steps + 1 == step:
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)
        return taken(proxy, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Proxy, "step", take)
        with pytest.raises(SystemExit) as exit_:
            main(arguments)
    return exit_.value.code


@pytest.mark.usefixtures("_heard")
@pytest.mark.parametrize(
    ("evidence", "step", "kept", "number", "code", "last"),
    [
        ("linear", 3, 3, signal.SIGTERM, 143, "interrupted by SIGTERM"),
        ("matching", 2, 2, signal.SIGHUP, 129, "interrupted by SIGHUP"),
        # A round follows these steps: it is broken off, and done again.
        ("matching", 3, 2, signal.SIGINT, 130, "interrupted"),
        ("matching", 1, 0, signal.SIGINT, 130, "interrupted"),
    ],
)
def test_a_signal_saves_once_and_says_where(
    store: Path,
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    evidence: str,
    step: int,
    kept: int,
    number: int,
    code: int,
    last: str,
) -> None:
    """Within any step, before the first checkpoint, in a round: nothing but the round is lost."""
    kind, out = ("--evidence", evidence, "--checkpoint_every", "50"), tmp_path / "out"
    kind = (*kind, *(("--steps", "1", "--rounds", "1") if step == 1 else ()))
    if evidence == "linear" or step == 1:
        main(arguments(store, whole := tmp_path / "whole", *kind))
    assert signalled(arguments(store, out, *kind), step, number, monkeypatch) == code
    saved = out / "checkpoints" / f"step-{kept:06d}"
    assert [*saved.parent.glob("*")][-1:] == ([saved] if kept else [])
    stderr = capfd.readouterr().err
    assert stderr.count(f"{number.name}: stopping as soon as what is done is saved; a second") == 1
    told = f"Saved {saved}" if kept else "No step is saved"
    assert stderr.count(f"{told}. Go on with: bydore search --resume {out}") == 1
    assert stderr.splitlines()[-1] == f"bydore search: error: {last}"
    assert not is_finished(out)
    assert (out / "trajectory.nc").exists() == (evidence == "linear")
    assert not list(out.glob("mixture*.json"))
    told = (
        rf"found {out} stopped after {kept} steps \({last}\): bydore search --resume {out} goes on"
    )
    with pytest.raises(RunFolderError, match=told):
        mixture_from(str(out))  # as export and train read it
    main(["search", "--resume", str(out)])
    assert (f"going on from {saved}" in capfd.readouterr().err) == bool(kept)
    assert is_finished(out)
    assert_same(results(whole), results(out))


def test_a_kill_within_a_round_loses_that_round_alone(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bydore_pyro.measure.measured_steps.measure", full)
    with pytest.raises(SystemExit):
        main(arguments(store, tmp_path / "out", "--steps", "10", "--checkpoint_every", "50"))
    saved = [path.name for path in (tmp_path / "out" / "checkpoints").iterdir()]
    assert saved == ["step-000004"], "the first of two rounds follows step 5"


def test_an_answer_without_draws_leaves_weights_and_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mixture = Mixture(names=("a", "b"), weights=(0.25, 0.75))
    answer = Answer(mixture=mixture, names=mixture.names, sites={})
    metrics = Metrics(learning=Learning(warning="it has not learned"))
    with RunFolder(tmp_path / "run") as folder:
        leave_answer(folder, answer, metrics)
    assert Mixture.from_json(tmp_path / "run/mixture.json") == mixture
    assert set(folder_content(tmp_path / "run")) == {"mixture.json", "metrics.json"}
    assert "warning: it has not learned" in capsys.readouterr().err


def test_a_run_notes_its_text(store: Path, tmp_path: Path) -> None:
    corpus = open_store(store)
    with RunFolder(tmp_path / "run") as folder:
        write_text_index(folder, corpus)
        assert json.loads((tmp_path / "run/manifest.json").read_text()) == corpus.index
        assert tokenizer_sha256(tmp_path / "run") == corpus.tokenizer_sha256


def edited(folder: Path, part: str, **fields: object) -> None:
    """Edits the options of a run."""
    path = folder / "config.json"
    content = json.loads(path.read_text())
    content[part] |= fields
    path.write_text(json.dumps(content))


def test_a_run_with_edited_options_is_refused_by_the_field(
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    refused: Callable[..., str],
) -> None:
    out = shutil.copytree(whole, tmp_path / "out")
    begun, before = (out / "config.json").read_text(), folder_content(out / "checkpoints")
    for part, field, value in (
        ("run", "seed", 7),
        ("search", "sketch_size", 16),
        ("proxy", "learning_rate", 0.5),
    ):
        was = json.loads(begun)[part][field]
        edited(out, part, **{field: value})
        last = refused("search", "--resume", out)
        assert last.startswith(f"bydore search: error: Expected {part}.{field} {was}, with which")
        assert f"found {value}" in last
        (out / "config.json").write_text(begun)
        assert folder_content(out / "checkpoints") == before
    edited(out, "run", checkpoint_every=2)  # how it is told may change
    monkeypatch.setattr("bydore_pyro.files.versions", lambda: {"torch": "1.0"})
    main(["search", "--resume", str(out)])
    stderr = capsys.readouterr().err
    assert "was saved with torch" in stderr
    assert "this is 1.0: the result may differ" in stderr
    assert is_finished(out)


def test_a_resumed_search_that_begins_anew_keeps_its_new_checkpoints(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refused ones, of later steps, do not count among the kept."""
    out = shutil.copytree(whole, tmp_path / "out")
    checkpoints = out / "checkpoints"
    last = sorted(path.name for path in checkpoints.iterdir())
    for name in last:  # a stored position, which gave another mixture without a word
        text = (checkpoints / name / "tree.json").read_text()
        changed = re.sub(r'(?<=\["train", "a", )\d+', lambda m: str(int(m[0]) + 1), text)
        assert changed != text
        (checkpoints / name / "tree.json").write_text(changed)
    main(["search", "--resume", str(out)])
    assert "no sound checkpoint: beginning anew" in capsys.readouterr().err
    found = sorted(path.name for path in checkpoints.iterdir())
    assert found == [*(f"refused-{name}" for name in last), *last]
    assert_same(results(whole), results(out))


def test_a_run_goes_on_with_its_own_data(
    whole: Path, tmp_path: Path, refused: Callable[..., str]
) -> None:
    out = shutil.copytree(whole, tmp_path / "out")
    content = json.loads((out / "manifest.json").read_text())
    (out / "manifest.json").write_text(json.dumps({**content, "sha256": "0" * 64}))
    untouched = folder_content(out)
    assert "Expected the data with which" in refused("search", "--resume", out)
    assert folder_content(out) == untouched
    for wrong in (["--resume", tmp_path], ["--resume"], ["--resume", out, "--seed", "3"]):
        refused("search", *wrong)
    (out / "manifest.json").write_text("{")
    told = f"Expected the run's manifest and options, found {out / 'manifest.json'}: "
    assert told in refused("search", "--resume", out)


def test_inputs_are_written_once(store: Path, tmp_path: Path) -> None:
    given = arguments(store, tmp_path / "unused")[1:]
    options = parse_options(given, "test", "", Options, smoke=SMOKE)
    corpus = load_domains(options).corpus
    options = dataclasses.replace(
        options, run=dataclasses.replace(options.run, out=str(tmp_path / "run"))
    )
    write_inputs(begin_run(options, "test", None), options, corpus, "test")
    with pytest.raises(RunFolderError, match="found a run in"):
        begin_run(options, "test", None)
    before = folder_content(tmp_path / "run")
    assert set(before) == {"config.json", "manifest.json", "tokenizer.json"}
    write_inputs(begin_run(options, "test", tmp_path / "run"), options, corpus, "test")
    assert folder_content(tmp_path / "run") == before


def test_what_breaks_off_is_recorded_and_raised(store: Path, tmp_path: Path) -> None:
    options = options_for(store, "--steps", "12")
    drive = Drive(
        folder=RunFolder(tmp_path / "run"),
        options=options,
        domains=load_domains(options),
        parallel=Parallel(alone=True),
        total=8,
        content=dict,
        done=3,
    )
    with pytest.raises(OSError, match="full"), broken_off(drive, Cost()):
        raise OSError("the disk is full")
    record = json.loads((tmp_path / "run/metrics.json").read_text())
    assert (record["steps"], record["stopped"]) == (3, "the disk is full")
