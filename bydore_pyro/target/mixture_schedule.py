"""The mixture of a run over its length: one for the whole run, stages, or a search's trajectory.

A file of stages is a JSON or YAML list,

    - {until: 0.8, mixture: first/mixture.json}
    - {until: 50B, mixture: {web: 0.7, law: 0.3}}

`until` is the share of the run up to which the mixture holds or, above 1, the number of tokens; the
last stage reaches to the end and need not say so. Files are named relative to the list.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bydore_pyro.mixture import Mixture, mixture_from, normalised
from bydore_pyro.utils import DataError, number_of_tokens, yaml_or_json

__all__ = ["MixtureSchedule", "read_schedule"]

LARGEST = 2**21  # bytes of a list of stages
FIELDS = {"until", "mixture", "tokenizer_sha256"}


@dataclass(frozen=True, kw_only=True)
class MixtureSchedule:
    """Mixtures that follow each other.

    Args:
        ends: The share of the run at which each of the ``M`` stages ends, in (0, 1], growing; the
            last is 1.
        mixtures: The mixture of each stage.

    Raises:
        ValueError: When there is no stage, the numbers differ, or the ends do not grow to 1.
    """

    ends: tuple[float, ...]
    mixtures: tuple[Mixture, ...]

    def __post_init__(self) -> None:
        if not self.mixtures or len(self.ends) != len(self.mixtures):
            raise ValueError(
                f"Expected an end for each mixture, actual {len(self.ends)} for "
                f"{len(self.mixtures)}"
            )
        grows = all(a < b for a, b in zip((0.0, *self.ends), self.ends, strict=False))
        if not grows or self.ends[-1] != 1:
            raise ValueError(f"Expected ends that grow to 1, actual {self.ends}")

    @classmethod
    def constant(cls, mixture: Mixture) -> MixtureSchedule:
        """Returns the schedule of one mixture for the whole run."""
        return cls(ends=(1.0,), mixtures=(mixture,))

    @property
    def names(self) -> tuple[str, ...]:
        """The domains that have weight at some time, sorted."""
        found = (m.as_dict().items() for m in self.mixtures)
        return tuple(sorted({name for stage in found for name, weight in stage if weight > 0}))

    @property
    def weights(self) -> np.ndarray:
        """The weights of `names` in each stage ``(M, K)``; rows sum to 1."""
        columns = [[m.as_dict().get(name, 0.0) for name in self.names] for m in self.mixtures]
        weights = np.array(columns)
        return weights / weights.sum(1, keepdims=True)

    def shares(self) -> dict[str, float]:
        """Returns each domain's share of the whole run's tokens."""
        lengths = np.diff(self.ends, prepend=0.0)
        return dict(zip(self.names, (lengths @ self.weights).tolist(), strict=True))

    def to_json(self) -> str:
        """Returns a list of stages as `read_schedule` reads it."""
        stages = [
            {"until": end, "mixture": m.as_dict(), "tokenizer_sha256": m.tokenizer}
            for end, m in zip(self.ends, self.mixtures, strict=True)
        ]
        return json.dumps(stages, indent=2)


def read_schedule(source: str, tokens: float, trajectory_stages: int = 20) -> MixtureSchedule:
    """Reads the mixture of a run, or its mixtures.

    Args:
        source: The folder of a search, whose `mixture.json` is read; a list of stages; a search's
            `trajectory.nc`, whose mean weights are averaged over stages of equal length; else
            whatever `weights_files.mixture_from` reads.
        tokens: Length of the run.
        trajectory_stages: Most stages of a trajectory.

    Raises:
        DataError: When the file is missing or holds neither weights nor stages.
        ValueError: When `trajectory_stages` is smaller than 1.
    """
    if trajectory_stages < 1:
        raise ValueError(f"Expected trajectory_stages >= 1, actual {trajectory_stages}")
    path = Path(source)
    if path.suffix == ".nc":
        return _trajectory(path, trajectory_stages)
    stages = _list_in(path)
    if stages is None:
        return MixtureSchedule.constant(mixture_from(source))
    try:
        return _stages(stages, tokens, path.parent)
    except (ValueError, TypeError, OverflowError) as error:
        reason = " ".join(str(error).split())[:300]
        raise DataError(f"Expected stages of mixtures in {path}, found: {reason}") from None


def _list_in(path: Path) -> list[Any] | None:
    """Returns a file's content when that is a list, None for whatever else there is or is not."""
    try:
        if not path.is_file() or path.stat().st_size > LARGEST:  # a pipe can be read but once
            return None
        found = yaml_or_json(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, list) else None


def _stages(stages: list[Any], tokens: float, folder: Path) -> MixtureSchedule:
    ends, mixtures = [], []
    for number, stage in enumerate(stages):
        if not isinstance(stage, dict) or not {"mixture"} <= {*stage} <= FIELDS:
            raise ValueError(f"stage {number + 1} is not 'until' with 'mixture': {stage!r:.80}")
        last = number == len(stages) - 1
        ends.append(_share(stage.get("until", 1 if last else None), tokens))
        mixtures.append(_stage_mixture(stage, folder))
    return MixtureSchedule(ends=tuple(ends), mixtures=tuple(mixtures))


def _share(until: Any, tokens: float) -> float:
    """Returns the share of the run that `until` names."""
    if isinstance(until, str):
        until = number_of_tokens(until)
    if isinstance(until, bool) or not isinstance(until, int | float):
        raise ValueError(f"until: {until!r} instead of a share or a number of tokens")
    return float(until) if until <= 1 else until / tokens


def _stage_mixture(stage: Mapping[str, Any], folder: Path) -> Mixture:
    found, tokenizer = stage["mixture"], stage.get("tokenizer_sha256")
    if isinstance(found, str):
        here = folder / found
        return mixture_from(str(here) if here.exists() else found)
    if not isinstance(found, dict):
        raise ValueError(f"mixture: {found!r:.80} instead of a file or names with weights")
    mixture = normalised({str(name): weight for name, weight in found.items()}, "a stage")
    return dataclasses.replace(mixture, tokenizer=tokenizer)


def _trajectory(path: Path, most: int) -> MixtureSchedule:
    """Averages a search's mean weights over stages of (nearly) as many steps each."""
    import xarray

    try:
        with xarray.open_dataset(path, engine="h5netcdf") as data:
            mean = np.asarray(data["mean"].transpose("step", "domain").values, float)  # (steps, K)
            names = tuple(map(str, data["domain"].values))
    except Exception as error:  # whatever a file that is none makes of it
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise DataError(f"Expected the trajectory of a search in {path}, found: {reason}") from None
    if not len(mean) or not (mean >= 0).all() or not np.allclose(mean.sum(1), 1, atol=1e-3):
        raise DataError(
            f"Expected weights of every step, >= 0 and summing to 1 in {path}, found none or others"
        )
    beside = path.with_name("mixture.json")
    tokenizer = mixture_from(str(beside)).tokenizer if beside.exists() else None
    parts = np.array_split(mean, min(most, len(mean)))
    ends = np.cumsum([len(part) for part in parts]) / len(mean)
    rows = [part.mean(0) for part in parts]
    return MixtureSchedule(
        ends=tuple(ends.tolist()),
        mixtures=tuple(
            Mixture(names=names, weights=tuple((row / row.sum()).tolist()), tokenizer=tokenizer)
            for row in rows
        ),
    )
