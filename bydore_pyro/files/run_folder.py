"""The folder of one run: it is locked, and every file in it appears whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from bydore_pyro import terminal
from bydore_pyro.errors import RunFolderError
from bydore_pyro.files.kept import Kept
from bydore_pyro.files.locks import LOCK, FolderLock
from bydore_pyro.files.records import RECORD, plain
from bydore_pyro.files.writing import appearing_file, require_writable

if TYPE_CHECKING:
    import arviz
    import xarray
    from matplotlib.figure import Figure


_held: WeakValueDictionary[Path, FolderLock] = WeakValueDictionary()  # by this process


def _held_by_this_process(path: Path) -> FolderLock:
    """Locks a folder, or returns the lock that this process has already."""
    place = path.resolve()
    lock = _held.get(place)
    if lock is None or not (place / LOCK).exists():
        lock = _held[place] = FolderLock(path)
    return lock


def release_folders() -> None:
    """Releases the folders of all runs: a command has ended, and its errors may hold them."""
    for lock in list(_held.values()):
        lock.release()
    _held.clear()


class RunFolder:
    """Writes a run's results, and keeps other processes from the folder while it is in use.

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
        self._lock = _held_by_this_process(path)
        self._require_new()  # a run may have begun and ended in the meantime

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if isinstance(error, OSError):
                self.require()  # a folder that is gone is the reason
        finally:
            self._lock = None  # released where nobody else of this process writes there

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

    def kept(self, name: str) -> Kept:
        """Returns work of this run, which depends on the run's options alone."""
        return Kept(self.path / name, {}, writes=self.writes)

    def write_config(self, name: str, parts: Mapping[str, Mapping[str, Any]]) -> None:
        """Writes `config.json`, which makes the folder a run, and prints its path."""
        self.write_json("config.json", {"name": name, **parts})
        terminal.tell(f"all options: {self.path / 'config.json'}")

    def write_dataset(self, name: str, data: xarray.Dataset) -> None:
        """Writes labelled arrays as netCDF."""
        self._write(name, lambda aside: data.to_netcdf(aside, engine="h5netcdf"))

    def write_tensors(self, name: str, tensors: Mapping[str, Any], record: Any = None) -> None:
        """Writes tensors by name as safetensors; a record that describes them stands in the file's
        own header (`read_with_tensors`)."""
        from safetensors.torch import save

        header = None if record is None else {RECORD: json.dumps(plain(record), allow_nan=False)}
        self._write(name, lambda aside: aside.write_bytes(save(dict(tensors), header)))

    def write_posterior(self, name: str, posterior: arviz.InferenceData | xarray.DataTree) -> None:
        """Writes what ArviZ reads as netCDF, for `arviz.from_netcdf`."""

        def write(aside: Path) -> None:
            aside.unlink()  # ArviZ appends to a file that exists
            posterior.to_netcdf(str(aside), engine="h5netcdf")

        self._write(name, write)
