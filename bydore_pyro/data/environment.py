"""A corpus on every machine: the text of its Python environment.

The standard library and the packages that a plain install brings hold megabytes of text of very
different kinds. Each kind is a domain.
"""

from __future__ import annotations

import ast
import importlib.metadata
import inspect
import sysconfig
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath

from bydore_pyro.data.documents import File
from bydore_pyro.data.remote import size_and_time
from bydore_pyro.data.rows import Row

# Fixed, so that installing an extra does not change the corpus: the requirements of the main job
# and what these require in turn.
DISTRIBUTIONS = (
    "arviz",
    "contourpy",
    "cycler",
    "datasets",
    "dill",
    "filelock",
    "fonttools",
    "fsspec",
    "h5netcdf",
    "h5py",
    "huggingface-hub",
    "jinja2",
    "kiwisolver",
    "markupsafe",
    "matplotlib",
    "mpmath",
    "multiprocess",
    "networkx",
    "numpy",
    "opt-einsum",
    "packaging",
    "pandas",
    "pillow",
    "pyarrow",
    "pyparsing",
    "pyro-api",
    "pyro-ppl",
    "python-dateutil",
    "pyyaml",
    "regex",
    "safetensors",
    "scipy",
    "sympy",
    "tokenizers",
    "torch",
    "tqdm",
    "transformers",
    "typing-extensions",
    "xarray",
    "xarray-einstats",
    "xxhash",
)

KINDS = (
    "python",
    "python_tests",
    "docstrings",
    "c_headers",
    "c_source",
    "stubs",
    "readmes",
    "licences",
    "tables",
    "text",
    "yaml",
    "json",
    "font_metrics",
)
SUFFIXES = {
    ".h": "c_headers",
    ".hpp": "c_headers",
    ".hh": "c_headers",
    ".cuh": "c_headers",
    ".c": "c_source",
    ".cc": "c_source",
    ".cpp": "c_source",
    ".cu": "c_source",
    ".pyx": "c_source",
    ".pxd": "c_source",
    ".pxi": "c_source",
    ".pyi": "stubs",
    ".md": "readmes",
    ".rst": "readmes",
    ".csv": "tables",
    ".tsv": "tables",
    ".txt": "text",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".json": "json",
    ".afm": "font_metrics",
}
LICENCE_WORDS = ("license", "licence", "copying", "notice", "authors")
Definition = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
TEST_FOLDERS = {"test", "tests", "testing", "_tests"}


def environment_files() -> tuple[list[File], list[str]]:
    """Lists the environment's text files; each feeds one of the `KINDS`, a Python file two.

    Returns:
        The files, and the distributions of the fixed list that are missing.
    """
    library = Path(sysconfig.get_path("stdlib"))
    listed = [("stdlib" / path, library / path) for path in _standard_library(library)]
    missing = []
    for distribution in DISTRIBUTIONS:
        try:
            found = importlib.metadata.distribution(distribution)
        except importlib.metadata.PackageNotFoundError:
            missing.append(distribution)
            continue
        folder = Path(str(found.locate_file("")))
        listed += [(PurePosixPath(file), folder / file) for file in found.files or []]
    files = []
    for name, path in listed:
        kind = _kind(name)
        if kind is None or ".." in name.parts or not path.is_file():
            continue
        kinds = {kind: _read_whole}
        if kind == "python":
            kinds["docstrings"] = read_docstrings
        size, version = size_and_time(path)
        for domain, read in kinds.items():
            rows = partial(_one_row, read, path)
            files.append(File(str(name), domain, rows, size, version, path))
    return files, missing


def _standard_library(library: Path) -> Iterator[PurePosixPath]:
    """Files of the standard library, without `test`, which several systems package apart."""
    for entry in library.iterdir():
        if entry.name not in ("site-packages", "dist-packages", "test", "__pycache__"):
            for path in (entry, *entry.rglob("*")):
                yield PurePosixPath(path.relative_to(library).as_posix())


def _one_row(read: Callable[[Path], str | None], path: Path) -> Iterator[Row]:
    yield Row(1, read(path))


def _read_whole(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return None


def _kind(name: PurePosixPath) -> str | None:
    stem, suffix = name.name.lower(), name.suffix.lower()
    if suffix == ".py":
        is_test = stem.startswith("test_") or TEST_FOLDERS & set(name.parts[:-1])
        return "python_tests" if is_test else "python"
    if any(word in stem for word in LICENCE_WORDS) and suffix in ("", ".txt", ".md", ".rst"):
        return "licences"
    if name.parent.name == "licenses" and suffix in ("", ".txt"):
        return "licences"
    if stem == "metadata":
        return "readmes"
    return SUFFIXES.get(suffix)


def read_docstrings(path: Path) -> str | None:
    """Returns a Python file's docstrings, in order, or None where it does not parse."""
    text = _read_whole(path)
    if text is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # other people's invalid escapes
            tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    found = []
    for node in ast.walk(tree):
        if isinstance(node, Definition) and (docstring := ast.get_docstring(node, clean=False)):
            found.append((node.body[0].lineno, inspect.cleandoc(docstring)))
    return "\n\n".join(text for _, text in sorted(found))
