"""A room imports from the rooms above it alone, by what they export; the import is light."""

from __future__ import annotations

import ast
import configparser
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "bydore_pyro"
# From the ground up.
ROOMS = [
    *("errors", "terminal", "files", "command_line", "pieces", "core", "law", "mixture", "data"),
    *("shards", "targets", "proxy", "measure", "trials", "answer", "algorithm1", "tables"),
    *("methods", "setup", "search", "ask", "check", "fit", "export", "training", "evaluation"),
    *("report", "cli"),
]
KNOW_PYRO = {"core", "law", "algorithm1"}
HEAVY = ("transformers", "datasets", "arviz", "matplotlib", "xarray", "tokenizers", "lm_eval")
HEAVY += ("jinja2", "sklearn", "lightgbm", "ray", "pandas", "pyarrow")
MODULES = sorted(
    p.relative_to(PACKAGE)
    for p in PACKAGE.rglob("*.py")
    if p.parent != PACKAGE or not p.stem.startswith("__")
)


def imports(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Every import of a module, wherever it stands: from where, and which names."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or ""), [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)


@cache
def exported(room: str) -> set[str]:
    """What a room offers to the others: the names in its stub; of a room of one file, its own."""
    stub = PACKAGE / room / "__init__.pyi"
    if (PACKAGE / f"{room}.py").exists():
        own = ast.parse((PACKAGE / f"{room}.py").read_text(encoding="utf-8")).body
        defined = {n.name for n in own if isinstance(n, ast.FunctionDef | ast.ClassDef)}
        stored = (n for n in ast.walk(ast.Module(own, [])) if isinstance(n, ast.Name))
        return defined | {n.id for n in stored if isinstance(n.ctx, ast.Store) and n.id.isupper()}
    tree = ast.parse(stub.read_text(encoding="utf-8")) if stub.exists() else ast.Module([], [])
    return {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_every_folder_and_every_file_beside_it_is_a_room() -> None:
    folders = {p.name for p in PACKAGE.iterdir() if p.is_dir() and p.name != "__pycache__"}
    files = {p.stem for p in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert folders | files == set(ROOMS)


def test_contributors_find_the_rooms_in_their_order() -> None:
    page = (PACKAGE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert re.findall(r"^  (\w+)(?:/|\.py) ", page, re.M) == ROOMS


def test_a_wheel_holds_every_folder_of_python_files() -> None:
    setup = configparser.ConfigParser()
    setup.read(PACKAGE.parent / "setup.cfg")
    found = {p.parent.relative_to(PACKAGE.parent).as_posix() for p in PACKAGE.rglob("*.py")}
    assert {name.replace("/", ".") for name in found} | {"bydore_pyro.models"} == {
        *setup["options"]["packages"].split()
    }


def test_arrows_point_down_go_through_the_rooms_doors_and_in_no_circle() -> None:
    graph: dict[str, set[str]] = {}
    for module in MODULES:
        own, found = module.with_suffix("").parts[0], [*imports(PACKAGE / module)]
        graph[f"bydore_pyro.{'.'.join(module.with_suffix('').parts)}"] = {s for s, _ in found}
        for source, names in found:
            first, *rest = source.split(".")
            told = f"{module} imports {names} from {source}"
            assert first not in ("experiments", "figures", "tests"), told
            assert first != "pyro" or own in KNOW_PYRO, told
            if first != "bydore_pyro":
                continue
            for room in rest[:1] or {*names} & {*ROOMS}:
                assert room == own or ROOMS.index(room) < ROOMS.index(own), told
            if rest and rest[0] != own:
                assert rest[1:] == [], f"{told}, which is inside of its room"
                assert set(names) <= exported(rest[0]), told
    graphlib.TopologicalSorter(graph).prepare()


def test_experiments_go_through_the_rooms_doors() -> None:
    for script in PACKAGE.parent.glob("experiments/*.py"):
        for source, names in imports(script):
            package, *rest = source.split(".")
            # A function named as its module is hidden by it at the door.
            if package == "bydore_pyro" and names != rest[1:]:
                assert len(rest) < 2, f"{script}: {source} is inside of its room"
                assert not rest or set(names) <= exported(rest[0]), f"{script}: {source}"


def test_the_import_is_light_the_core_needs_torch_and_pyro_and_an_answer_no_model() -> None:
    """Nor text or pictures, nor a room of ours that needs one."""
    statements = (
        "import bydore_pyro",
        "from bydore_pyro.core import *",
        "from bydore_pyro.answer import *",
    )
    code = "import sys\n" + "".join(f"{line}\nprint(*sys.modules)\n" for line in statements)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    package, core, answer = (set(line.split()) for line in done.stdout.splitlines())
    assert not package & {*HEAVY, "torch", "pyro"}
    assert not (core | answer) & {*HEAVY}
    assert "bydore_pyro.answer.answer" in answer
    rooms = {name.split(".")[1] for name in answer if name.startswith("bydore_pyro.")}
    assert rooms <= set(ROOMS[: ROOMS.index("answer") + 1]) - {"data", "shards", "proxy", "measure"}
