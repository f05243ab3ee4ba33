"""What the package offers: every name resolves, is documented and stands in a test."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import pytest

import bydore_pyro

TESTS = Path(__file__).parent
PACKAGE = Path(bydore_pyro.__file__).parent
ROOMS = sorted(p.parent.name for p in PACKAGE.glob("*/__init__.pyi"))
MODULES = sorted(
    p.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", ".")
    for p in PACKAGE.rglob("*.py")
    if not p.stem.startswith("__")
)


def test_public_names_resolve_and_others_fail() -> None:
    for name in bydore_pyro.__all__:
        assert getattr(bydore_pyro, name).__name__ == name
        assert name in dir(bydore_pyro)
    with pytest.raises(AttributeError, match="nothing"):
        _ = bydore_pyro.nothing
    for room in ROOMS:
        loaded = importlib.import_module(f"bydore_pyro.{room}")
        assert loaded.__doc__, room
        assert loaded.__all__, room
        for name in loaded.__all__:
            assert not inspect.ismodule(getattr(loaded, name)), name


def public(module: str) -> dict[str, Any]:
    """What a module lists in `__all__`; without it, what it defines that does not begin with _."""
    loaded = importlib.import_module(f"bydore_pyro.{module}")
    if hasattr(loaded, "__all__"):
        return {name: getattr(loaded, name) for name in loaded.__all__}
    return {
        name: value
        for name, value in vars(loaded).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == loaded.__name__
    }


def used_names() -> set[tuple[str, str]]:
    """The names that tests import from a module of ours and use, or take as its attribute."""
    used = set()
    for path in TESTS.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        places, modules = {}, {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bydore_pyro"):
                place = node.module.removeprefix("bydore_pyro").removeprefix(".")
                for alias in node.names:
                    places[alias.asname or alias.name] = (place, alias.name)
                    modules[alias.asname or alias.name] = f"{place}.{alias.name}".lstrip(".")
            elif isinstance(node, ast.Import):
                modules |= {
                    a.asname: a.name.removeprefix("bydore_pyro.") for a in node.names if a.asname
                }
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id in places:
                used.add(places[node.id])
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                used.add((modules.get(node.value.id, ""), node.attr))
    return used


def test_every_module_and_public_name_is_documented_and_tested() -> None:
    used = used_names()
    for module in MODULES:
        room, _, leaf = module.rpartition(".")
        if leaf != "errors":  # they are shown by the tests of their users
            assert (TESTS / room / f"test_{leaf}.py").is_file(), module
        loaded = importlib.import_module(f"bydore_pyro.{module}")
        assert loaded.__doc__, module
        for name, value in public(module).items():
            if inspect.isclass(value) or inspect.isfunction(value):
                assert value.__doc__, name
                offered = {(room, name), ("", name)} & used
                # The options of all configurations are tried by `command_line/test_options.py`.
                walked = is_dataclass(value) and name.endswith(("Config", "Options"))
                assert (module, name) in used or offered or walked, f"no test takes {module}.{name}"


# What a number is in, or between what it lies.
UNIT_OR_RANGE = re.compile(
    r"nats|tokens|FLOPs|seconds|bytes|epochs|training steps|percent|probability|units? of|no unit|"
    r"[<>]=? -?\d|in [\[(]-?\d+, [\w.]+[\])]"
)


def functions(module: str) -> Iterator[tuple[str, Any]]:
    """A module's public functions, and the public methods and properties of its classes."""
    for name, value in public(module).items():
        if inspect.isfunction(value):
            yield f"{module}.{name}", value
        for member, one in vars(value).items() if inspect.isclass(value) else ():
            function = getattr(one, "fget", getattr(one, "func", getattr(one, "__func__", one)))
            if inspect.isfunction(function) and not member.startswith("_"):
                yield f"{module}.{name}.{member}", function


def test_every_returned_float_states_its_unit_or_range() -> None:
    returned = re.compile(r"(Iterator\[|tuple\[)?float\b")
    arguments = re.compile(r"^(Args|Raises|References):\n( .*\n?)+", re.MULTILINE)
    found = {
        name: " ".join(arguments.sub("", inspect.getdoc(function) or "").split())
        for module in MODULES
        for name, function in functions(module)
        if returned.match(str(function.__annotations__.get("return")))
    }
    assert "algorithm1.learner.BayesianLearner.update" in found
    assert [name for name, text in found.items() if not UNIT_OR_RANGE.search(text)] == []


def raises_itself(function: ast.FunctionDef) -> bool:
    """Whether it makes and raises an error, other than in a function within it."""
    rest: list[ast.AST] = [*function.body]
    while rest:
        node = rest.pop()
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            return True
        if not isinstance(node, ast.FunctionDef):
            rest += ast.iter_child_nodes(node)
    return False


def test_what_raises_an_error_names_it() -> None:
    told = {}
    for path in PACKAGE.rglob("*.py"):
        module = ast.parse(path.read_text(encoding="utf-8"))
        for owner in (module, *(node for node in module.body if isinstance(node, ast.ClassDef))):
            for one in owner.body:
                if isinstance(one, ast.FunctionDef) and raises_itself(one):
                    # The errors of making an object stand with its class.
                    place = owner if one.name in ("__init__", "__post_init__") else one
                    names = [getattr(node, "name", "") for node in (owner, place)]
                    # A command's docstring is its help, and its errors end in one line.
                    if not any(n.startswith("_") or n.endswith("_command") for n in names):
                        told[f"{path.stem}.{'.'.join(names)}"] = ast.get_docstring(place) or ""
    assert {"directions..metric_shares", "guide.MixtureGuide.scale_posterior"} < set(told)
    assert [name for name, text in told.items() if "Raises:" not in text] == []
