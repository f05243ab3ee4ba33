"""Reads a run's folder, as much as there is; nothing is unpickled or run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from bydore_pyro.algorithm1 import AVERAGE_FROM
from bydore_pyro.answer import COVERED, Outlook, agreement
from bydore_pyro.errors import DataError, RunFolderError
from bydore_pyro.files import read_as
from bydore_pyro.mixture import Mixture, require_finished, require_own
from bydore_pyro.setup import Metrics

if TYPE_CHECKING:
    import pandas
    import xarray

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """What the folder of a run holds; whatever can be missing may be None or empty.

    Attributes:
        path: The folder.
        label: A name for it beside others.
        config: What was asked.
        index: What it noted of its text.
        metrics: What it cost and reached.
        mixture: The weights.
        trajectory: What was noted at every step: `mean` and other columns ``(step, domain)``, and
            columns ``(step,)``.
        agreement: Of several seeds, see `bydore_pyro.answer.agreement`.
        seeds: The runs of several seeds.
        forecast: Of an answer: the losses of the mixture that it was asked about.
        damaged: Files that are there and could not be read, with the reason.
    """

    path: Path
    label: str
    config: Mapping[str, Any] = field(default_factory=dict)
    index: Mapping[str, Any] = field(default_factory=dict)
    metrics: Metrics = field(default_factory=Metrics)
    mixture: Mixture | None = None
    trajectory: xarray.Dataset | None = None
    agreement: pandas.DataFrame | None = None
    seeds: tuple[RunRecord, ...] = ()
    forecast: Outlook = field(default_factory=Outlook)
    damaged: tuple[str, ...] = ()

    @property
    def method(self) -> str:
        """What found the weights: the name of a method, "search" for the search itself."""
        return str(self.metrics.method or self.asked("fit", "method") or "search")

    @property
    def found_by(self) -> str:
        """The method, or "ask" for an answer."""
        return "ask" if self.config.get("name") == "ask" else self.method

    @property
    def searched(self) -> bool:
        """Whether a search found the weights."""
        return self.method in ("search", "bydore") and self.metrics.table.runs is None

    @property
    def by_matching(self) -> bool:
        """Whether a search found the weights by gradient matching, not by linear evidence."""
        by_options = self.searched and self.asked("run", "evidence") == "matching"
        return by_options or bool(self.metrics.matching.rounds)

    @property
    def uncovered(self) -> dict[str, float]:
        """What no mixture explains of the targets that the domains do not cover, by name."""
        shares = {name: float(one.unexplained) for name, one in self.metrics.targets.items()}
        return {name: share for name, share in shares.items() if share > COVERED}

    @property
    def average_start(self) -> int:
        """The place of the first step that the result averages; by matching, of the last step."""
        steps = 0 if self.trajectory is None else self.trajectory.sizes["step"]
        if self.by_matching:
            return max(0, steps - 1)
        if self.method == "doremi":  # its result averages all steps
            return 0
        return int(steps * AVERAGE_FROM)

    def asked(self, part: str, option: str) -> Any:
        """Returns an option's value, None where it is not known."""
        values = self.config.get(part)
        return values.get(option) if isinstance(values, dict) else None


def read_run(folder: Path, label: str | None = None) -> RunRecord:
    """Reads the folder of a search, a case, another method's fit, or several seeds.

    Args:
        folder: The run.
        label: Its name, the folder's own if not given.

    Raises:
        RunFolderError: When the folder holds neither weights nor the runs of several seeds, or
            other weights than its `metrics.json` tells of.
    """
    damaged: list[str] = []

    def attempt(name: str, read: Callable[[Path], T]) -> T | None:
        path = folder / name
        if not path.is_file():
            return None
        try:
            return read(path)
        except Exception as error:  # of a damaged netCDF file the reader raises anything
            damaged.append(f"{name}: {type(error).__name__}: {error}"[:300])
            return None

    mixture = attempt("mixture.json", Mixture.from_json)
    config = attempt("config.json", _read_object) or {}
    metrics = attempt("metrics.json", partial(read_as, Metrics)) or Metrics()
    seeds = _read_seeds(folder) if mixture is None else ()
    if mixture is None and len(seeds) < 2:
        require_finished(folder)
        reason = f": {damaged[0]}" if damaged else ""
        raise RunFolderError(f"Expected a run in {folder}, found no weights in it{reason}")
    if mixture is not None:
        require_own(mixture, folder)
    record = RunRecord(
        path=folder,
        label=label or folder.resolve().name or str(folder),
        config=config,
        index=attempt("manifest.json", _read_object) or {},
        metrics=metrics,
        mixture=mixture,
        trajectory=attempt("trajectory.nc", _read_trajectory),
        agreement=_agreement(seeds),
        seeds=seeds,
        forecast=attempt("forecast.json", partial(read_as, Outlook)) or Outlook(),
    )
    return dataclasses.replace(record, damaged=tuple(damaged))


def _read_object(path: Path) -> dict[str, Any]:
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise DataError(f"Expected an object, found {type(content).__name__}")
    return content


def _read_seeds(folder: Path) -> tuple[RunRecord, ...]:
    """Reads the finished runs of several seeds, in their order."""
    found = []
    for path in folder.glob("seed-*"):
        seed = path.name.removeprefix("seed-")
        if seed.isdecimal() and (path / "mixture.json").is_file():
            found.append((int(seed), path))
    return tuple(read_run(path, f"seed {seed}") for seed, path in sorted(found))


def _agreement(seeds: Sequence[RunRecord]) -> pandas.DataFrame | None:
    with suppress(ValueError):  # a single one, or without intervals
        return agreement([one.mixture for one in seeds if one.mixture is not None])
    return None


def _read_trajectory(path: Path) -> xarray.Dataset:
    import xarray

    data = xarray.load_dataset(path, engine="h5netcdf").transpose("step", "domain")
    if not data.sizes["step"] or data["mean"].dims != ("step", "domain"):
        raise DataError("Expected the mean weights of every step")
    return data
