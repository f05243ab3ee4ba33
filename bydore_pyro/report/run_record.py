"""What a run's folder holds, read as far as it is there; nothing is unpickled or run."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bydore_pyro.mixture import Mixture
from bydore_pyro.utils import DataError, RunFolderError

__all__ = [
    "Draws",
    "RunRecord",
    "SeedsAgreement",
    "Trajectory",
    "as_number",
    "labelled_runs",
    "named_numbers",
    "read_run",
    "unlearned",
]

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """What was noted at every step.

    Attributes:
        names: The domains.
        steps: Their numbers, ``(steps,)``.
        by_domain: Columns ``(steps, K)`` by name, in the order of `names`.
        by_step: Columns ``(steps,)`` by name.
    """

    names: tuple[str, ...]
    steps: np.ndarray
    by_domain: Mapping[str, np.ndarray]
    by_step: Mapping[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Draws:
    """What the draws of a posterior say of one weight.

    Attributes:
        quartiles: Lower quartile, median, upper quartile.
        above_uniform: Share of the draws above ``1 / K``.
    """

    quartiles: tuple[float, float, float]
    above_uniform: float


@dataclass(frozen=True, kw_only=True)
class SeedsAgreement:
    """How several seeds agree on one weight; `bydore_pyro.analysis.seeds.agreement` tells more.

    Attributes:
        mean: Over the seeds.
        sd_over_seeds: Of the weight.
        posterior_sd: The posteriors' own standard deviation.
        coverage: Share of the pairs of seeds in which an interval holds what the other found.
        overconfident: Whether the posteriors are much narrower than the spread over seeds.
    """

    mean: float
    sd_over_seeds: float
    posterior_sd: float
    coverage: float
    overconfident: bool


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """A run as its folder tells it; whatever can be missing may be None or empty.

    Attributes:
        path: The folder.
        label: A name to tell it from others.
        config: What was asked.
        metrics: What it cost and reached.
        manifest: The data.
        mixture: The weights.
        trajectory: Of the steps.
        draws: Of the posterior, by domain.
        agreement: Of several seeds, by domain.
        seeds: The runs of several seeds.
        damaged: Files that are there and could not be read, with the reason.
    """

    path: Path
    label: str
    config: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    manifest: Mapping[str, Any] = field(default_factory=dict)
    mixture: Mixture | None = None
    trajectory: Trajectory | None = None
    draws: Mapping[str, Draws] = field(default_factory=dict)
    agreement: Mapping[str, SeedsAgreement] = field(default_factory=dict)
    seeds: tuple[RunRecord, ...] = ()
    damaged: tuple[str, ...] = ()

    @property
    def method(self) -> str:
        """What found the weights: a method's name, "search" where it is the search itself."""
        return str(self.metrics.get("method") or self.asked("fit", "method") or "search")

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains, in the mixture's order."""
        return self.mixture.names if self.mixture is not None else tuple(self.agreement)

    @property
    def by_matching(self) -> bool:
        """Whether a search found it by gradient matching, not by linear evidence."""
        if isinstance(self.metrics.get("matching"), dict):
            return True
        searched = self.method in ("search", "bydore")
        return searched and self.asked("search", "evidence") == "matching"

    def asked(self, part: str, option: str) -> Any:
        """Returns an option's value, None where it is not known."""
        values = self.config.get(part)
        return values.get(option) if isinstance(values, dict) else None

    def number(self, *keys: str) -> float | None:
        """Returns a finite number of the metrics, None where there is none at that place."""
        value: Any = self.metrics
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return as_number(value)

    def numbers(self, *keys: str) -> dict[str, float]:
        """Returns the finite numbers by name at a place of the metrics."""
        value: Any = self.metrics
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return named_numbers(value)

    def plain_training(self) -> float | None:
        """Returns the FLOPs of a plain training of the proxy over the tokens that were asked for.

        Known where the run trained at all: FLOPs of its training by token, times those tokens.
        """
        spent = self.numbers("search", "parts", "train")
        lengths = [
            as_number(self.asked(*place))
            for place in (
                ("search", "steps"),
                ("search", "batch_sequences"),
                ("run", "sequence_length"),
            )
        ]
        tokens = math.prod(length or 0 for length in lengths)
        if not tokens or not spent.get("tokens") or not spent.get("flops"):
            return None
        return spent["flops"] / spent["tokens"] * tokens


def as_number(value: Any) -> float | None:
    """Returns a finite number, None for everything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def named_numbers(value: Any) -> dict[str, float]:
    """Returns the finite numbers of an object by their names; nothing of what is none."""
    items = value.items() if isinstance(value, dict) else ()
    found = {str(name): as_number(item) for name, item in items}
    return {name: item for name, item in found.items() if item is not None}


def unlearned(metrics: Mapping[str, Any]) -> str:
    """Returns what a run noted of a proxy that has not learned, "" where it noted nothing."""
    for place in (metrics, metrics.get("details")):  # a search's own, and that of a fit
        learning = place.get("learning") if isinstance(place, Mapping) else None
        warning = learning.get("warning") if isinstance(learning, Mapping) else None
        if isinstance(warning, str):
            return warning
    return ""


def read_run(folder: Path, label: str | None = None) -> RunRecord:
    """Reads a run's folder: a search's, a case's, another method's fit, or several seeds'.

    Args:
        folder: The run.
        label: Its name, the folder's own if not given.

    Raises:
        RunFolderError: When the folder holds neither weights nor the agreement of several seeds.
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
    agreement = attempt("agreement.csv", _read_agreement) or {}
    seeds = tuple(_read_seeds(folder)) if agreement else ()
    if mixture is None and not agreement:
        reason = f": {damaged[0]}" if damaged else ""
        raise RunFolderError(f"Expected a run in {folder}, found no weights in it{reason}")
    record = RunRecord(
        path=folder,
        label=label or folder.resolve().name or str(folder),
        config=attempt("config.json", _read_object) or {},
        metrics=attempt("metrics.json", _read_object) or {},
        manifest=attempt("manifest.json", _read_object) or {},
        mixture=mixture,
        trajectory=attempt("trajectory.nc", _read_trajectory),
        draws=attempt("posterior.nc", _read_draws) or {},
        agreement=agreement,
        seeds=seeds,
    )
    return dataclasses.replace(record, damaged=tuple(damaged))


def labelled_runs(records: list[RunRecord]) -> list[RunRecord]:
    """Returns runs whose labels differ: by their folders' names, by whole paths, by number."""
    for label in (lambda r: r.label, lambda r: str(r.path)):
        labels = [label(record) for record in records]
        if len(set(labels)) == len(labels):
            break
    else:
        labels = [f"{record.path} ({i})" for i, record in enumerate(records, start=1)]
    return [dataclasses.replace(r, label=label) for r, label in zip(records, labels, strict=True)]


def _read_object(path: Path) -> dict[str, Any]:
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise DataError(f"Expected an object, found {type(content).__name__}")
    return content


def _read_agreement(path: Path) -> dict[str, SeedsAgreement]:
    columns = ("mean", "sd_over_seeds", "posterior_sd", "coverage")
    with path.open(encoding="utf-8", newline="") as file:
        return {
            row["domain"]: SeedsAgreement(
                **{column: float(row[column]) for column in columns},
                overconfident=row["overconfident"] == "True",
            )
            for row in csv.DictReader(file)
        }


def _read_seeds(folder: Path) -> list[RunRecord]:
    """Reads the runs of several seeds, in their order."""
    found = []
    for path in folder.glob("seed-*"):
        seed = path.name.removeprefix("seed-")
        if seed.isdecimal() and (path / "mixture.json").is_file():
            found.append((int(seed), path))
    return [read_run(path, f"seed {seed}") for seed, path in sorted(found)]


def _read_trajectory(path: Path) -> Trajectory:
    import xarray

    with xarray.open_dataset(path, engine="h5netcdf") as data:
        columns = {name: data[name].transpose("step", ...).values for name in data.data_vars}
        steps = data["step"].values
        names = tuple(str(name) for name in data["domain"].values)
        if len(steps) == 0 or columns["mean"].shape != (len(steps), len(names)):
            raise DataError("Expected the mean weights of every step")
        return Trajectory(
            names=names,
            steps=steps.astype(int),
            by_domain={
                str(n): c for n, c in columns.items() if c.shape == (len(steps), len(names))
            },
            by_step={str(n): c for n, c in columns.items() if c.shape == (len(steps),)},
        )


def _read_draws(path: Path) -> dict[str, Draws]:
    import xarray

    with xarray.open_dataset(path, engine="h5netcdf", group="posterior") as data:
        w = data["w"].transpose("chain", "draw", "domain").values
        names = [str(name) for name in data["domain"].values]
    w = w.reshape(-1, len(names))
    quartiles = np.quantile(w, [0.25, 0.5, 0.75], axis=0)
    above = (w > 1 / len(names)).mean(0)
    return {
        name: Draws(
            quartiles=(float(low), float(middle), float(high)), above_uniform=float(above[k])
        )
        for k, (name, low, middle, high) in enumerate(zip(names, *quartiles, strict=True))
    }
