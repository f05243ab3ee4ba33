"""The folder that a run leaves behind; every file appears whole or not at all."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bydore_pyro.errors import RunFolderError
from bydore_pyro.files import appearing_file

if TYPE_CHECKING:
    import arviz
    import xarray
    from matplotlib.figure import Figure

__all__ = ["RunFolder", "provenance"]

PACKAGES = ("torch", "pyro-ppl", "transformers", "tokenizers", "datasets", "arviz", "numpy")


class RunFolder:
    """Writes a run's results; the folder is made by the first write.

    Args:
        path: The folder.
        resume: Whether it holds a run that is continued.
        writes: Whether anything is written at all: of several processes one does.

    Raises:
        RunFolderError: When the folder holds a run already, is a file, or cannot be written to.
    """

    def __init__(self, path: Path, *, resume: bool = False, writes: bool = True) -> None:
        self.path = path
        self.resumed = resume
        self.writes = writes
        if not writes:
            return
        if not resume and (path / "config.json").exists():
            raise RunFolderError(f"Expected a new output folder, found a run in {path}")
        existing = next(p for p in (path, *path.absolute().parents) if p.exists())
        if not existing.is_dir() or not os.access(existing, os.W_OK):
            raise RunFolderError(f"Expected a folder to write to, found {existing}")

    def write_text(self, name: str, text: str) -> None:
        """Writes a text file."""
        if not self.writes:
            return
        with appearing_file(self.path / name) as aside:
            aside.write_text(text, encoding="utf-8")

    def write_json(self, name: str, content: Any) -> None:
        """Writes plain values as JSON; NaN and infinity are refused."""
        self.write_text(name, json.dumps(content, indent=2, allow_nan=False) + "\n")

    def write_config(
        self, name: str, parts: Mapping[str, Mapping[str, Any]], tell: Callable[[str], None]
    ) -> None:
        """Writes `config.json`, which makes the folder a run, and tells the options."""
        self.write_json("config.json", {"name": name, **parts})
        for part, values in parts.items():
            tell(f"{part}: {', '.join(f'{key}={value}' for key, value in values.items())}")

    def write_dataset(self, name: str, data: xarray.Dataset) -> None:
        """Writes labelled arrays as netCDF."""
        if not self.writes:
            return
        with appearing_file(self.path / name) as aside:
            data.to_netcdf(aside, engine="h5netcdf")

    def write_posterior(self, name: str, posterior: arviz.InferenceData) -> None:
        """Writes an InferenceData as netCDF, to be read by `arviz.from_netcdf`."""
        if not self.writes:
            return
        with appearing_file(self.path / name) as aside:
            aside.unlink()  # ArviZ appends to a file that exists
            posterior.to_netcdf(str(aside), engine="h5netcdf")

    def write_figure(self, name: str, figure: Figure) -> None:
        """Writes a figure as PNG and closes it."""
        import matplotlib.pyplot as plt

        if self.writes:
            with appearing_file(self.path / name) as aside:
                figure.savefig(aside, dpi=150)
        plt.close(figure)


def provenance(more: Sequence[str] = ()) -> dict[str, Any]:
    """Returns the versions of Python and of the packages that matter, and the source's commit.

    Args:
        more: Packages that matter here beside those that always do.
    """
    versions = {"python": sys.version.split()[0]}
    for package in ("bydore-pyro", *PACKAGES, *more):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return {"versions": versions, "commit": _commit()}


def _commit() -> str | None:
    """The commit of the checkout that holds this package, with "+" where it has been changed."""
    source = Path(__file__).parents[1]
    if not (source / ".git").exists():
        return None
    try:
        run = [
            "git",
            "-C",
            str(source),
            "describe",
            "--always",
            "--abbrev=40",
            "--dirty=+",
            "--exclude=*",
        ]
        return (
            subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip() or None
        )
    except (OSError, subprocess.CalledProcessError):
        return None
