"""The pages tell the truth: their code runs, what they name exists, the site builds."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import time
from contextlib import redirect_stdout, suppress
from functools import cache, partial
from io import StringIO
from pathlib import Path
from typing import Any

import pyro
import pytest
import torch
import yaml
from processes import write_program
from simplex_grid import by_grid
from torch.distributions import Dirichlet

import bydore_pyro
from bydore_pyro.algorithm1.averaged import BY_DOMAIN, BY_STEP
from bydore_pyro.answer.outlook import Outlook
from bydore_pyro.cli.main import COMMANDS, main
from bydore_pyro.core.importance import TOO_WIDE
from bydore_pyro.export.formats import FORMATS
from bydore_pyro.fit import METHODS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
QUICK = Path(__file__).parent / "quick.py"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md"))}
CONTRIBUTING, README = (
    (ROOT / name).read_text(encoding="utf-8") for name in ("CONTRIBUTING.md", "README.md")
)
TEXTS = {**PAGES, "CONTRIBUTING.md": CONTRIBUTING, "README.md": README}
SCRIPTS = "".join(p.read_text(encoding="utf-8") for p in ROOT.glob("experiments/*.py"))
OF_EXPERIMENTS = {f"--{name}" for name in re.findall(r"^    (\w+): .* = option\(", SCRIPTS, re.M)}
OTHER_OPTIONS = {*OF_EXPERIMENTS, "--help", "--numprocesses", "--folder", "--nproc_per_node"}
# Of Slurm, Ray and torchrun.
OTHER_OPTIONS |= {"--requeue", "--signal", "--time", "--overlap", "--nodelist", "--exclude"}
OTHER_OPTIONS |= {"--nodes", "--ntasks", "--gpus", "--nnodes", "--rdzv_backend", "--rdzv_endpoint"}
OTHER_OPTIONS |= {"--head", "--port", "--block", "--address"}
JOB = re.search(r"```bash\n(#!/bin/bash\n.*?)```", PAGES["cli.md"], re.S)


@cache
def known_options() -> dict[str, set[str]]:
    """The options of every command, by its help."""
    found = {}
    for name in COMMANDS:
        with redirect_stdout(StringIO()) as out, suppress(SystemExit):
            main([name, "--help-all"])
        found[name] = set(re.findall(r"--[a-z_]+", out.getvalue()))
    return found


def heading_ids(text: str) -> set[str]:
    """The anchors of a page's headings."""
    titles = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M)
    kept = (re.sub(r"[^\w\s-]", "", title).strip().lower() for title in titles)
    return {re.sub(r"[\s-]+", "-", title) for title in kept}


def test_every_page_is_in_the_navigation() -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    named = [page for entry in settings["nav"] for page in entry.values()]
    assert sorted(named) == sorted(PAGES)
    assert settings["strict"]
    assert settings["theme"]["font"] is False


@pytest.mark.parametrize("page", TEXTS)
def test_the_links_of_a_page_exist(page: str) -> None:
    folder = DOCS if page in PAGES else ROOT
    for target in re.findall(r"\]\(([^)\s]+)\)", TEXTS[page]):
        assert not target.startswith("http"), f"{target} is elsewhere"
        name, _, anchor = target.partition("#")
        path = folder / name if name else folder / page
        assert path.is_file(), target
        if anchor and not anchor.startswith("bydore_pyro."):
            assert anchor in heading_ids(path.read_text(encoding="utf-8")), target
        elif anchor:
            module, _, attribute = anchor.rpartition(".")
            assert hasattr(importlib.import_module(module), attribute), target
            assert f"::: {module}\n" in PAGES["api.md"]


@pytest.mark.parametrize("page", TEXTS)
def test_the_options_of_a_page_exist(page: str) -> None:
    known = set.union(*known_options().values()) | OTHER_OPTIONS
    unlinked = re.sub(r"--(data|domain)[-_](args|yaml|config)[-_]\w+", "", TEXTS[page])  # trainers'
    assert set(re.findall(r"(?<![\w-])--[a-z_]+", unlinked)) <= known


@pytest.mark.parametrize("page", TEXTS)
def test_the_commands_of_a_page_exist(page: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", TEXTS[page], re.S)
    for line in "".join(blocks).splitlines():
        words = shlex.split(line, comments=True)
        if words[0] == "bydore":
            given = {word.partition("=")[0] for word in words if word.startswith("--")}
            assert given <= known_options()[words[1]] | {"--resume"}, words
        elif words[0] == "make":
            assert re.search(rf"^[\w ]*\b{words[1]}\b[\w ]*:", makefile, re.M), words
        elif words[0] == "pip":
            assert words[1:4] == ["install", "-c", "constraints.txt"]
        elif words[0] == "python":
            assert (ROOT / words[1]).is_file(), words
        else:
            assert words[:3] == [".venv/bin/python", "-m", "pytest"], words
            assert all((ROOT / w).exists() for w in words if w.startswith("tests/"))
    scripts = r"python ((?:experiments|benchmarks|figures|examples)/\w+\.py)"
    for script in re.findall(scripts, TEXTS[page]):
        assert (ROOT / script).is_file(), script


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, marks=[pytest.mark.slow] if "AutoGuideList" in block else [])
        for block in re.findall(r"```python\n(.*?)```", PAGES["core.md"], re.S)
    ],
)
def test_the_python_of_the_core_runs(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    with pyro.get_param_store().scope(), torch.random.fork_rng():
        pyro.set_rng_seed(0)
        exec(block, names)
    assert capsys.readouterr().out
    if "exact: (13, 6, 4) / 23" in block:
        found, exact = names["guide"].posterior(), Dirichlet(torch.tensor([13.0, 6, 4]))
        torch.testing.assert_close(found.mean, exact.mean, atol=0.02, rtol=0)
        torch.testing.assert_close(found.stddev, exact.stddev, atol=0, rtol=0.05)
    if "AutoGuideList" in block:  # measured: 0.96 and 0.99 times the exact deviations
        counts = names["counts"]
        topics = names["both"].median(counts)["words"].double()
        _, deviation = by_grid(lambda w: counts.double() @ (w @ topics).log().T)
        ratio = names["guide"].posterior(counts).stddev.detach() / deviation
        assert float(ratio.log().mean().exp()) == pytest.approx(1, abs=TOO_WIDE - 1)
    if "plot_triangle" in block:  # the evidence is largest at linear / precision
        found = names["data"]["posterior"]
        assert found.attrs["corrected"] == 1
        assert float(found["weights"].sel(domain="web").mean()) == pytest.approx(0.4, abs=0.01)


def test_the_python_of_the_law_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the page's own table; the answers keep what the page says of them."""
    page = PAGES["law.md"]
    (table,), (block,) = (
        re.findall(f"```{kind}\n(.*?)```", page, re.S) for kind in ("csv", "python")
    )
    (tmp_path / "runs.csv").write_text(table, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(block, names)
    assert capsys.readouterr().out.count("tensor") >= 6
    predicted, best, bounded = names["predicted"], names["best"], names["bounded"]
    assert (predicted.low < predicted.mean).all()
    assert (predicted.mean < predicted.high).all()
    gain = names["loss_differences"](names["draws"], best.weights, names["natural"]).mean(0)
    assert float(gain @ torch.tensor([0.5, 0.3, 0.2]).double()) < 0
    assert float(bounded.weights[2]) >= float(torch.tensor(0.3)), "exactly"


@pytest.mark.slow
def test_the_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGES["tutorial.md"], re.S)
    script = tmp_path / "tutorial.py"
    script.write_text("\n".join(blocks), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bydore_pyro.core.metropolis.MOST_WINDOWS", 20)  # until they have settled
    runpy.run_path(str(script), run_name="__main__")
    assert script.read_text(encoding="utf-8").count("assert ") > 10
    assert (tmp_path / "mixture.json").is_file()


FAKES = {
    "bydore": f'exec {shlex.quote(sys.executable)} {QUICK} {ROOT}/bydore_pyro/__main__.py "$@"',
    "scontrol": 'echo "$@" >> queued',
}


@pytest.mark.slow
def test_the_job_for_slurm_goes_on_where_it_was(store: Path, tmp_path: Path) -> None:
    assert JOB
    small = f"--data {store} --validation a --smoke --evidence linear --steps 60 "
    small += "--checkpoint_every 1"
    script = JOB[1].replace("--data STORE --validation NAME --tokens 0.4B", small)
    assert small in script
    (tmp_path / "job").write_text(script)
    for name, line in FAKES.items():
        write_program(tmp_path / name, line)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, "SLURM_JOB_ID": "17"}
    start = partial(subprocess.Popen, ["bash", "job"], cwd=tmp_path, env=variables, text=True)
    with start(stderr=subprocess.PIPE) as job:
        while not (tmp_path / "runs/mine/checkpoints").exists():
            time.sleep(0.05)
        job.terminate()
        _, told = job.communicate(timeout=300)
    assert job.returncode == 143, told
    assert "Go on with: bydore search --resume runs/mine" in told
    assert (tmp_path / "queued").read_text() == "requeue 17\n"
    with start(stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as job:
        _, told = job.communicate(timeout=300)
    assert job.returncode == 0, told
    assert "going on from runs/mine/checkpoints/step-" in told
    assert (tmp_path / "queued").read_text() == "requeue 17\n", "it is done"


def test_every_command_has_its_section_which_ends_with_its_help() -> None:
    told = re.findall(r"^(?:## |{{ )bydore (\w+)(?: --help-all }})?$", PAGES["cli.md"], re.M)
    assert told == [name for name in COMMANDS for _ in range(2)]


def test_what_is_promised_has_its_test() -> None:
    tests = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "tests").rglob("*.py"))
    promised = re.findall(r"`(test_\w+)`", PAGES["reliability.md"])
    assert promised
    for name in promised:
        assert f"def {name}(" in tests, name


def test_methods_and_formats_are_all_told() -> None:
    assert re.findall(r"^\| `(\w+)` \|", PAGES["baselines.md"], re.M) == list(METHODS)
    exports = PAGES["formats.md"].split("## Export formats")[1]
    rows = re.findall(r"^\| `([\w-]+)` \| .* \| ([\w, ]+) \| (\w+) \|$", exports, re.M)
    told = {name: (drawn, paths) for name, drawn, paths in rows}
    assert told == {name: (", ".join(f.draws), f.paths) for name, f in FORMATS.items()}
    for name, form in FORMATS.items():
        sources = ", ".join(f"`{url}`" for url in re.findall(r"https://(\S+)", form.rules))
        assert f"| `{name}` | {form.number} | {form.means} | {sources} |\n" in PAGES["formats.md"]
    assert f"or for one of {len(FORMATS) - 1} other trainers\n" in README


def test_the_content_of_a_runs_files_is_all_told() -> None:
    trajectory, metrics, mixtures = (
        PAGES["formats.md"].split(f"## {name}")[1].split("\n## ")[0]
        for name in ("trajectory.nc", "metrics.json", "mixture.json")
    )
    cells = re.findall(r"^- (`.*?): ", trajectory, re.M)
    told = [name.strip("`") for cell in cells for name in cell.split(", ")]
    assert sorted(told) == sorted({*BY_DOMAIN, *BY_STEP})
    assert {*Outlook.__dataclass_fields__} <= set(re.findall(r"`(\w+)`", metrics))
    mixture = bydore_pyro.Mixture(names=("a", "b"), weights=(0.5, 0.5), notes=("few runs",))
    named = "".join(re.findall(r"^- (`.*?): ", mixtures, re.M))
    assert set(re.findall(r"`(\w+)`", named)) == set(json.loads(mixture.to_json()))


def test_modules_of_the_api_exist_and_hold_every_exported_name() -> None:
    modules = re.findall(r"^::: (bydore_pyro[\w.]+)$", PAGES["api.md"], re.M)
    assert len(modules) == len(set(modules))
    named = {name for m in modules for name in vars(importlib.import_module(m))}
    assert {*bydore_pyro.__all__} <= named


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("mkdocstrings") is None,
    reason="the extra docs is not installed",
)
def test_the_site_builds_without_warnings_and_loads_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for name in PAGES:
        html = (tmp_path / name).with_suffix(".html").read_text(encoding="utf-8")
        loaded = re.findall(
            r"""<(?:script|link|img)[^>]*?(?:src|href)=["']?(https?:[^"'> ]+)""", html
        )
        assert not loaded, name
