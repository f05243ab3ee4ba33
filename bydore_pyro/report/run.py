"""Reads the folder of a finished run, as much as there is; nothing is unpickled or run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from bydore_pyro import algorithm1, answer, data, files, setup
from bydore_pyro.errors import DataError, expecting
from bydore_pyro.mixture import Mixture, require_finished, require_own

if TYPE_CHECKING:
    import numpy as np
    import xarray

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """What the folder of a finished run holds; all but the weights may be None or empty.

    Attributes:
        path: The folder.
        label: A name for it beside others.
        mixture: The weights.
        config: The run's options, by part.
        index: The index of its text.
        metrics: What it cost and reached.
        trajectory: What was noted at every step: `mean` and other columns ``(step, domain)``, and
            columns ``(step,)``.
        forecast: Of an answer: the losses of the mixture that it was asked about.
        draws: Of the weights ``(D, 3)``, where there are three domains and they have intervals.
        explorer: What the page needs to try other weights, and the numbers of its law, by name.
    """

    path: Path
    label: str
    mixture: Mixture
    config: Mapping[str, Any] = field(default_factory=dict)
    index: Mapping[str, Any] = field(default_factory=dict)
    metrics: setup.Metrics = field(default_factory=setup.Metrics)
    trajectory: xarray.Dataset | None = None
    forecast: answer.Outlook = field(default_factory=answer.Outlook)
    draws: np.ndarray | None = None
    explorer: tuple[answer.Explorer, Mapping[str, np.ndarray]] | None = None

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
        most = answer.HARDLY if self.metrics.matching.responses else answer.COVERED
        return {name: share for name, share in shares.items() if share > most}

    @property
    def prior(self) -> Mapping[str, float]:
        """The shares that intervals are held against, by domain; without any, equal ones are."""
        return self.metrics.table.prior

    @property
    def average_start(self) -> int:
        """The place of the first step that the result averages; by matching, of the last step."""
        steps = 0 if self.trajectory is None else self.trajectory.sizes["step"]
        if self.by_matching:
            return max(0, steps - 1)
        if self.method == "doremi":  # its result averages all steps
            return 0
        return int(steps * algorithm1.AVERAGE_FROM)

    def asked(self, part: str, option: str) -> Any:
        """Returns an option's value, None where it is not known."""
        values = self.config.get(part)
        return values.get(option) if isinstance(values, dict) else None


def read_run(
    folder: Path, label: str | None = None, domain_tokens: Sequence[str] = ()
) -> RunRecord:
    """Reads the folder of a search, an answer, a case, or another method's fit.

    Args:
        folder: The run.
        label: Its name, the folder's own if not given.
        domain_tokens: What there is of each domain, by which epochs count in place of the run's
            own figures (`data.stated_tokens`).

    Raises:
        RunFolderError: When the run has not ended, or its weights are not those that its
            `metrics.json` names.
        DataError: When a file is damaged, or a domain is not stated.
    """
    require_finished(folder)
    mixture = Mixture.from_json(folder / "mixture.json")
    require_own(folder)
    posterior = folder / "posterior.nc"
    in_triangle = len(mixture.names) == 3 and mixture.hdi is not None
    metrics, forecast = (
        partial(files.read_as, setup.Metrics),
        partial(files.read_as, answer.Outlook),
    )
    explorer = partial(files.read_with_tensors, answer.Explorer)
    record = RunRecord(
        path=folder,
        label=label or folder.resolve().name or str(folder),
        mixture=mixture,
        config=_if_there(folder / "config.json", _read_object) or {},
        index=_if_there(folder / "manifest.json", _read_object) or {},
        metrics=_if_there(folder / "metrics.json", metrics) or setup.Metrics(),
        trajectory=_if_there(folder / "trajectory.nc", _read_trajectory),
        forecast=_if_there(folder / "forecast.json", forecast) or answer.Outlook(),
        draws=_if_there(posterior, partial(_read_draws, mixture.names)) if in_triangle else None,
        # `bydore fit --method bydore` keeps its search below it.
        explorer=_if_there(folder / setup.EXPLORER, explorer)
        or _if_there(folder / "search" / setup.EXPLORER, explorer),
    )
    return _with_domain_tokens(record, domain_tokens) if domain_tokens else record


def _with_domain_tokens(record: RunRecord, entries: Sequence[str]) -> RunRecord:
    """Returns a run whose epochs are those of the text that is stated."""
    stated, run = data.stated_tokens(entries, record.mixture.names), record.metrics.run_tokens
    shares = record.mixture.as_dict()
    epochs = {} if run is None else {n: shares[n] * float(run) / stated[n] for n in shares}
    return dataclasses.replace(
        record,
        index={**record.index, data.DOMAIN_TOKENS: stated},
        metrics=dataclasses.replace(record.metrics, run_epochs=epochs),
    )


def _if_there(path: Path, read: Callable[[Path], T]) -> T | None:
    return read(path) if path.is_file() else None


def _read_object(path: Path) -> dict[str, Any]:
    with expecting(f"Expected an object in {path}, found:", ValueError):
        content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise DataError(f"Expected an object in {path}, found {type(content).__name__}")
    return content


def _read_trajectory(path: Path) -> xarray.Dataset:
    import xarray

    # Of a damaged netCDF file the reader raises anything.
    with expecting(f"Expected the mean weights of every step in {path}, found:", Exception):
        data = xarray.load_dataset(path, engine="h5netcdf").transpose("step", "domain")
        if not data.sizes["step"] or data["mean"].dims != ("step", "domain"):
            raise ValueError("none")
        return data


def _read_draws(names: Sequence[str], path: Path) -> np.ndarray | None:
    """Returns draws of the weights of these domains ``(D, K)``; None of others, as of pools."""
    import xarray

    with expecting(f"Expected draws of the weights in {path}, found:", Exception):
        with xarray.open_dataset(path, group="posterior", engine="h5netcdf") as data:
            weights = data["w"].transpose(..., "domain").load()
        if {*map(str, weights["domain"].values)} != {*names}:
            return None
        ordered: np.ndarray = weights.sel(domain=list(names)).values
        return ordered.reshape(-1, len(names))
