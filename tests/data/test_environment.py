"""The embedded corpus: its kinds, and that extras do not change it."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path, PurePosixPath

import pytest

from bydore_pyro.data.documents import FEWEST_HELD_OUT, CorpusConfig, sources_of
from bydore_pyro.data.environment import (
    DISTRIBUTIONS,
    KINDS,
    _kind,
    environment_files,
    read_docstrings,
)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("numpy/linalg/_linalg.py", "python"),
        ("numpy/linalg/tests/test_linalg.py", "python_tests"),
        ("torch/include/ATen/Tensor.h", "c_headers"),
        ("tqdm-4.dist-info/METADATA", "readmes"),
        ("tqdm-4.dist-info/licenses/LICENCE", "licences"),
        ("torch/lib/libtorch.so", None),
        ("yaml/license_checks.py", "python"),
    ],
)
def test_kinds(name: str, kind: str | None) -> None:
    assert _kind(PurePosixPath(name)) == kind


def test_docstrings_in_order(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        '"""Module."""\nx = "no docstring"\n'
        'class A:\n    """Class.\n\n    More.\n    """\n    def f(self):\n        "Method."\n'
        'async def g():\n    """Function."""\n'
    )
    assert read_docstrings(path) == "Module.\n\nClass.\n\nMore.\n\nMethod.\n\nFunction."
    path.write_text("def broken(:\n")
    assert read_docstrings(path) is None
    path.write_bytes(b"\xff")
    assert read_docstrings(path) is None


def test_the_list_is_what_the_main_job_installs() -> None:
    """Every listed distribution is required, directly or in turn, by this package's main job."""
    required, queue = set(), ["bydore-pyro"]
    while queue:
        try:
            lines = importlib.metadata.requires(package := queue.pop()) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        for line in lines:
            name = re.match(r"[A-Za-z0-9_.-]+", line)
            own = package == "bydore-pyro" and re.search(r"extra == .cli.", line)
            if name and ("extra ==" not in line or own):
                normal = re.sub(r"[-_.]+", "-", name[0]).lower()
                if normal not in required:
                    required.add(normal)
                    queue.append(normal)
    assert set(DISTRIBUTIONS) <= required


def test_at_least_ten_kinds_are_here() -> None:
    """Those of few files are held out by pieces; a Python file, which feeds two, by the file."""
    files, missing = environment_files()
    assert missing == []
    sizes = {kind: sum(f.size for f in files if f.domain == kind) for kind in KINDS}
    assert {f.domain for f in files} == set(KINDS)
    assert sum(size > 500_000 for size in sizes.values()) >= 10
    assert not any(f.name.startswith(("..", "/")) for f in files), "names hold on any machine"
    sources, sides = sources_of(files, CorpusConfig()), {}
    by_piece = {s.domain for s in sources if s.side is None}
    assert {"yaml", "readmes", "json", "tables", "text", "font_metrics"} <= by_piece
    for source in sources:
        if source.domain in ("python", "docstrings"):
            assert source.side is not None
            sides.setdefault(source.name, set()).add(source.side)
    assert {len(found) for found in sides.values()} == {1}
    for name in ("yaml", "json"):
        found = {
            (str(document.text), document.split, source.name)
            for source in sources
            if source.domain == name
            for document in source.documents()
        }
        held_out = [(text, file) for text, split, file in found if split == "validation"]
        assert len({text for text, _ in held_out}) > FEWEST_HELD_OUT / 2
        assert len({file for _, file in held_out}) > 1
        share = sum(len(text) for text, _ in held_out) / sum(len(text) for text, *_ in found)
        assert 0.05 < share < 0.17
