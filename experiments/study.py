"""The whole study: every experiment that a figure needs, then all figures."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from common import rounded
from compare_targets import TARGETS

from bydore_pyro.command_line import Checked, one_line_errors, option, parse_options
from bydore_pyro.files import RunFolder, appearing_file
from bydore_pyro.setup import is_finished
from bydore_pyro.terminal import tell

ABOUT = """Run the study's experiments, each in its own folder. Keep the results that the figures
need, and draw every figure. If it is interrupted, the same command continues where it stopped and
does not repeat finished experiments. It takes about thirteen hours of a core, by an estimate from
its parts; --only divides it between terminals. With --tasks the decisions on tasks are run too."""

ROOT = Path(__file__).resolve().parents[1]
EXPERIMENTS = {  # the longest first
    "compare": ["--targets", *TARGETS],
    "decisions": [],
    "few_runs": [],
    "assumptions": [],
    "plants": ["--plants", "20", "--trials", "0"],
    "probabilistic": [],
    "scheduling": [],
    "case1": [],
    "convergence": [],
    "calibration": [],
}
# Of the folder of --tasks, on --data; the first leaves what the second takes.
OF_TASKS = ("task_searches", "task_decisions")
FROM_THE_START = ("convergence", "calibration")  # that cannot be gone on with
# Of results, where it is not the experiment's name.
PLACES = {"decisions": "decisions/environment"}
FIGURES = (
    "framework",
    "posterior",
    "trajectories",
    "point_estimate",
    "scheduling_strategies",
    "convergence_rates",
    "assumption_violations",
    "planted_mixtures",
    "interval_coverage",
    "comparison",
    "task_responses",
)
DIGITS = 6
DRAWS = 500  # of the posterior's that are kept, a chain


@dataclass(frozen=True, kw_only=True)
class StudyConfig(Checked):
    """What is run, and where."""

    out: str | None = option(
        None,
        "Folder of the experiments' runs. Default: runs/study, or runs/study-smoke with --smoke.",
    )
    figures: str | None = option(
        None,
        "Folder of the figures; its results/ contains their data. Default: the repository's "
        "figures/; with --smoke a folder in --out.",
    )
    only: list[str] = option(list(EXPERIMENTS), "The experiments to run.")
    tasks: str | None = option(None, "Folder of tasks, as of task_searches: they are run too.")
    data: str | None = option(None, "Text for the tasks. Default: the environment's.")
    groups: str | None = option(None, "Groups of tasks, as of task_decisions.")
    known: str | None = option(None, "Trained mixtures, as of task_decisions, for its rivals.")
    cache: str | None = option(None, "Folder of cached token stores.")
    smoke: bool = option(False, "Run for seconds, only to check that all parts work.")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.only:
            if name not in EXPERIMENTS:
                raise ValueError(f"Expected one of {', '.join(EXPERIMENTS)}, found '{name}'")
        if self.tasks is None and (self.data or self.groups or self.known):
            raise ValueError("Expected --tasks with --data, --groups and --known, found none")


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """The options of the study."""

    study: StudyConfig


def study(config: StudyConfig) -> None:
    """Runs, keeps, draws."""
    out = Path(config.out or ("runs/study-smoke" if config.smoke else "runs/study"))
    figures = Path(config.figures or (out / "figures" if config.smoke else ROOT / "figures"))
    names = [*config.only, *(OF_TASKS if config.tasks else ())]
    for name in names:
        run_experiment(name, out / name, config)
        if name != OF_TASKS[0]:
            keep(name, out / name, figures / "results")
    print(f"In {figures / 'results'}: {', '.join(n for n in names if n != OF_TASKS[0])}.")
    if set(config.only) == set(EXPERIMENTS):
        for name in FIGURES:
            call("figures", name, ["--folder", str(figures)])
        print(f"In {figures}: {', '.join(FIGURES)}.")


def run_experiment(name: str, run: Path, config: StudyConfig) -> None:
    """Runs an experiment, goes on with one that was stopped, or leaves a finished one alone."""
    # A table is written last, and so are the metrics of a case.
    if is_finished(run) if name == "case1" else (run / "table.md").exists():
        tell(f"{name}: finished before, in {run}")
        return
    if name in FROM_THE_START:
        shutil.rmtree(run, ignore_errors=True)
    if (run / "config.json").exists():
        given = ["--resume", str(run)]
    else:
        given = [*arguments_of(name, run.parent, config), "--out", str(run)]
        given += ["--smoke"] if config.smoke else []
    call("experiments", name, given)


def arguments_of(name: str, out: Path, config: StudyConfig) -> list[str]:
    """Returns the options of an experiment."""
    searches, decisions = OF_TASKS
    if name == decisions:
        found = out / searches
        given = ["--groups", config.groups] if config.groups else []
        given += ["--known", config.known] if config.known else []
        judge = ["--judge", *map(str, sorted((found / "judge").iterdir()))]
        return [*map(str, sorted(found.glob("seed-*"))), *judge, *given]
    given = ["--cache", config.cache] if config.cache else []
    if name == searches:
        assert config.tasks is not None
        given += ["--data", config.data] if config.data else []
        return ["--tasks", config.tasks, *given, *(["--target_seeds", "1"] if config.smoke else [])]
    return [*EXPERIMENTS[name], *given]


def call(folder: str, name: str, arguments: list[str]) -> None:
    """Runs a script of the repository; it ends when the study is ended from outside."""
    tell(f"{folder}/{name}.py {' '.join(arguments)}")
    begun = time.perf_counter()
    done = subprocess.run([sys.executable, str(ROOT / folder / f"{name}.py"), *arguments])
    if done.returncode:
        raise SystemExit(done.returncode)  # it has said why
    tell(f"{name}: done, {(time.perf_counter() - begun) / 60:.1f} minutes")


def keep(name: str, run: Path, results: Path) -> None:
    """Copies what the figures need of a finished experiment, small enough to be committed."""
    if name == "case1":
        keep_run(run, RunFolder(results / "case1", resume=True))  # it may hold an earlier one
        return
    content = rounded(json.loads((run / "results.json").read_text(encoding="utf-8")), DIGITS)
    content = without_places(content)
    texts = {
        ".json": json.dumps(content, separators=(",", ":")) + "\n",
        ".md": (run / "table.md").read_text(encoding="utf-8"),
    }
    for suffix, text in texts.items():
        with appearing_file(results / f"{PLACES.get(name, name)}{suffix}") as aside:
            aside.write_text(text, encoding="utf-8")


def without_places(value: Any) -> Any:
    """Returns results with the last part of each absolute path in its place."""
    if isinstance(value, dict):
        return {name: without_places(each) for name, each in value.items()}
    if isinstance(value, list):
        return [without_places(each) for each in value]
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value


def keep_run(run: Path, folder: RunFolder) -> None:
    """Copies a run's mixture, metrics and options, and some of its draws."""
    import xarray

    posterior = xarray.load_dataset(run / "posterior.nc", group="posterior", engine="h5netcdf")
    kinds = [name for name in ("w", "composition") if name in posterior]
    draws = posterior[kinds].isel(draw=slice(DRAWS)).astype("float32")
    folder.write_posterior("posterior.nc", xarray.DataTree.from_dict({"posterior": draws}))
    for file in ("mixture.json", "metrics.json"):
        folder.write_text(file, (run / file).read_text(encoding="utf-8"))
    config = json.loads((run / "config.json").read_text(encoding="utf-8"))
    for place in ("out", "cache"):
        del config["run"][place]
    folder.write_json("config.json", config)


if __name__ == "__main__":
    with one_line_errors("study"):
        own = [each.name for each in fields(StudyConfig)]
        study(parse_options(sys.argv[1:], "study", ABOUT, StudyOptions, common=own).study)
