"""The folder of one run: it is locked, and every file in it appears whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bydore_pyro.errors import RunFolderError
from bydore_pyro.files.files import read_hashed, require_writable, with_hash
from bydore_pyro.files.folders import FolderLock, appearing_file, hold_folder
from bydore_pyro.terminal import tell

if TYPE_CHECKING:
    import arviz
    import xarray
    from matplotlib.figure import Figure


class RunFolder:
    """Writes a run's results, and keeps other processes from the folder until the command ends.

    A folder that was made for it goes again where nothing was written.

    Args:
        path: The folder.
        resume: Whether it holds a run that is continued.
        writes: Whether anything is written at all: of several processes one does.

    Raises:
        RunFolderError: When the folder holds a run already, is a file, cannot be written to, or
            another process writes to it.
    """

    def __init__(self, path: Path, *, resume: bool = False, writes: bool = True) -> None:
        self.path = path
        self.resumed = resume
        self.writes = writes
        self._lock: FolderLock | None = None
        if not writes:
            return
        self._require_new()
        require_writable(path)
        self._lock = hold_folder(path)
        self._require_new()  # a run may have begun and ended in the meantime

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if isinstance(error, OSError):
                self.require()  # a folder that is gone is the reason
        finally:
            self._lock = None  # collected where no other of this process writes there

    def _require_new(self) -> None:
        if not self.resumed and (self.path / "config.json").exists():
            raise RunFolderError(f"Expected a new output folder, found a run in {self.path}")

    def require(self) -> None:
        """Checks that the folder is still there.

        Raises:
            RunFolderError: When it has been deleted, moved or replaced.
        """
        if self._lock is not None:
            self._lock.require()

    def _write(self, name: str, write: Callable[[Path], object]) -> None:
        if self.writes:
            self.require()
            with appearing_file(self.path / name) as aside:
                write(aside)

    def write_text(self, name: str, text: str) -> None:
        """Writes a text file."""
        self._write(name, lambda aside: aside.write_text(text, encoding="utf-8"))

    def write_json(self, name: str, content: Any) -> None:
        """Writes plain values as JSON; NaN and infinity are refused."""
        self.write_text(name, json.dumps(content, indent=2, allow_nan=False) + "\n")

    def write_figure(self, name: str, figure: Figure) -> None:
        """Writes a matplotlib figure as PNG."""
        self._write(name, lambda aside: figure.savefig(aside, format="png", dpi=150))

    def once(self, name: str, compute: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """Computes plain values, or returns those that an earlier call wrote to that file.

        A file that was changed since is computed again, with a warning.
        """
        found = read_hashed(self.path / name)
        if found is None:
            found = dict(json.loads(json.dumps(compute())))
            self.write_text(name, with_hash(found))
        return found

    def write_config(self, name: str, parts: Mapping[str, Mapping[str, Any]]) -> None:
        """Writes `config.json`, which makes the folder a run, and prints its path."""
        self.write_json("config.json", {"name": name, **parts})
        tell(f"all options: {self.path / 'config.json'}")

    def write_dataset(self, name: str, data: xarray.Dataset) -> None:
        """Writes labelled arrays as netCDF."""
        self._write(name, lambda aside: data.to_netcdf(aside, engine="h5netcdf"))

    def write_tensors(self, name: str, tensors: Mapping[str, Any]) -> None:
        """Writes tensors by name as safetensors."""
        from safetensors.torch import save_file

        self._write(name, lambda aside: save_file(dict(tensors), str(aside)))

    def write_posterior(self, name: str, posterior: arviz.InferenceData) -> None:
        """Writes an InferenceData as netCDF, for `arviz.from_netcdf`."""

        def write(aside: Path) -> None:
            aside.unlink()  # ArviZ appends to a file that exists
            posterior.to_netcdf(str(aside), engine="h5netcdf")

        self._write(name, write)
