"""A run's folder, read as far as it is there; nothing is unpickled or run."""

from __future__ import annotations

import csv
import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from bydore_pyro.mixture import Mixture
from bydore_pyro.runs import LengthRecord, Metrics, as_number, read_as
from bydore_pyro.utils import DataError, RunFolderError

if TYPE_CHECKING:
    import xarray

__all__ = [
    "RunRecord",
    "SeedsAgreement",
    "read_run",
]

T = TypeVar("T")

NOTHING = 0.01  # a weight below it counts as next to nothing


@dataclass(frozen=True, kw_only=True)
class SeedsAgreement:
    """How several seeds agree on one weight: a row of `bydore_pyro.analysis.agreement`."""

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
        mixture: The weights.
        trajectory: What was noted at every step: `mean` and other columns ``(step, domain)``, and
            columns ``(step,)``.
        next_to_nothing: The share of the draws below 0.01, by domain.
        agreement: Of several seeds, by domain.
        seeds: The runs of several seeds.
        damaged: Files that are there and could not be read, with the reason.
    """

    path: Path
    label: str
    config: Mapping[str, Any] = field(default_factory=dict)
    metrics: Metrics = field(default_factory=Metrics)
    mixture: Mixture | None = None
    trajectory: xarray.Dataset | None = None
    next_to_nothing: Mapping[str, float] = field(default_factory=dict)
    agreement: Mapping[str, SeedsAgreement] = field(default_factory=dict)
    seeds: tuple[RunRecord, ...] = ()
    damaged: tuple[str, ...] = ()

    @property
    def method(self) -> str:
        """What found the weights: a method's name, "search" where it is the search itself."""
        return str(self.metrics.method or self.asked("fit", "method") or "search")

    @property
    def searched(self) -> bool:
        """Whether a search found the weights."""
        return self.method in ("search", "bydore")

    @property
    def by_matching(self) -> bool:
        """Whether a search found it by gradient matching, not by linear evidence."""
        by_options = self.searched and self.asked("search", "evidence") == "matching"
        return by_options or bool(self.metrics.matching.rounds)

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains, in the mixture's order."""
        return self.mixture.names if self.mixture is not None else tuple(self.agreement)

    @property
    def lengths(self) -> list[LengthRecord]:
        """The lengths of runs that there are weights for, the shortest first."""
        return sorted(
            (one for one in self.metrics.lengths if one.tokens > 0), key=lambda one: one.tokens
        )

    def asked(self, part: str, option: str) -> Any:
        """Returns an option's value, None where it is not known."""
        values = self.config.get(part)
        return values.get(option) if isinstance(values, dict) else None

    def asked_number(self, part: str, option: str) -> float | None:
        """Returns the number that an option names, in the unit of the option; None without one."""
        return as_number(self.asked(part, option))

    def plain_trainings(self) -> float | None:
        """Returns the cost of the search, >= 0, in trainings of the proxy over the asked tokens.

        None where the run did not train, or the asked tokens are not known.
        """
        spent, trained = self.metrics.search, self.metrics.search.parts.get("train")
        asked = [self.asked_number("search", o) for o in ("steps", "batch_sequences")]
        steps, sequences, each = (*asked, self.asked_number("run", "sequence_length"))
        tokens = (steps or 0) * (sequences or 0) * (each or 0)
        if not trained or not trained.flops or not trained.tokens or not tokens:
            return None
        return (spent.flops or 0.0) / (trained.flops / trained.tokens * tokens)


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
    config = attempt("config.json", _read_object) or {}
    metrics = read_as(Metrics, attempt("metrics.json", _read_object))
    if mixture is None and not agreement:
        reason = f": {damaged[0]}" if damaged else ""
        if metrics.stopped:
            reason = f": it stopped after {metrics.steps or 0:.0f} steps: {metrics.stopped}"
        raise RunFolderError(f"Expected a run in {folder}, found no weights in it{reason}")
    record = RunRecord(
        path=folder,
        label=label or folder.resolve().name or str(folder),
        config=config,
        metrics=metrics,
        mixture=mixture,
        trajectory=attempt("trajectory.nc", _read_trajectory),
        next_to_nothing=attempt("posterior.nc", _read_draws) or {},
        agreement=agreement,
        seeds=seeds,
    )
    return dataclasses.replace(record, damaged=tuple(damaged))


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


def _read_trajectory(path: Path) -> xarray.Dataset:
    import xarray

    data = xarray.load_dataset(path, engine="h5netcdf").transpose("step", "domain")
    if not data.sizes["step"] or data["mean"].dims != ("step", "domain"):
        raise DataError("Expected the mean weights of every step")
    return data


def _read_draws(path: Path) -> dict[str, float]:
    import xarray

    w = xarray.load_dataset(path, engine="h5netcdf", group="posterior")["w"]
    shares = (w < NOTHING).mean(("chain", "draw"))
    return dict(zip(map(str, w["domain"].values), shares.values.tolist(), strict=True))
