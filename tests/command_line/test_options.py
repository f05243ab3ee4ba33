"""Options: what their classes promise, and those of a run that goes on."""

from __future__ import annotations

import ast
import dataclasses
import json
import math
import re
import typing
import warnings
from argparse import ArgumentTypeError
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch

from bydore_pyro.command_line.options import (
    Checked,
    Range,
    TokenCount,
    number_of_tokens,
    of_type,
    option,
    options_of,
    require_fields,
    resume_command,
    resumed_options,
    resumed_run,
    warn_idle,
)
from bydore_pyro.errors import RunFolderError

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Config(Checked):
    name: str = "x"
    count: int = option(1, "How many.", least=1)
    rate: float = 0.5
    kind: Literal["round", "square"] = "round"
    place: str | None = None
    cases: list[int] = option([1, 2], least=1, most=2)
    names: list[str] = option([])
    length: TokenCount | None = None
    some: list[float] | None = None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"some": [1.0, math.inf]}, "^Expected a finite number as 'some.1', found inf$"),
        ({"cases": [1, 3]}, r"Expected cases in \[1, 2\], actual 3"),
        ({"place": ""}, "Expected a value for --place, found an empty one"),
    ],
)
def test_fields_are_what_their_types_and_ranges_promise(
    options: dict[str, Any], message: str
) -> None:
    taken = Config(rate=1, length=4, some=[1, 2.5], names=["a"], place="b")
    assert (taken.rate, taken.length, taken.some) == (1, 4, [1, 2.5])
    require_fields(Config(length=TokenCount("4M"), some=None))
    with pytest.raises(ValueError, match=message):
        Config(**options)


def configs() -> Iterator[type]:
    """Every class of options of the package."""
    for path in sorted(ROOT.glob("bydore_pyro/**/*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and node.name.endswith("Config"):
                module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                yield getattr(import_module(module), node.name)


NEEDED = {
    "file": "x",
    "method": "uniform",
    "data": "x",
    "out": "x",
    "mixture": "x",
    "to": "datasets",
}
NEEDED |= {"file": "x", "run": "x", "folder": "x", "folders": ["x"]}
ANY_NUMBER = {"InferenceConfig.seed"}


def test_a_range_stands_in_a_message_as_it_is_written() -> None:
    found = [str(Range(least=1)), str(Range(above=0, most=1e6)), str(Range(least=0, below=2**31))]
    assert found == [">= 1", "in (0, 1e+06]", "in [0, 2**31)"]


def refused(config: type, name: str, value: Any) -> str:
    """What a class of options says of a value; "" where it takes it."""
    known = {each.name for each in dataclasses.fields(config)}
    needed = {key: given for key, given in NEEDED.items() if key in known}
    if typing.get_type_hints(config).get("mixture") == list[str]:
        needed["mixture"] = ["x"]
    try:
        config(**{**needed, name: value})
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.filterwarnings("ignore:.* has no effect with")
@pytest.mark.parametrize("config", [*configs()], ids=lambda config: config.__name__)
def test_every_number_has_a_range_that_is_held(config: type) -> None:
    for each in dataclasses.fields(config):
        hint, allowed = str(typing.get_type_hints(config)[each.name]), each.metadata.get("range")
        if allowed is None:
            number = "Literal" not in hint and ("int" in hint or "float" in hint)
            assert not number or f"{config.__name__}.{each.name}" in ANY_NUMBER
            continue
        ends = (allowed.least - 1, allowed.above, 2 * allowed.most, allowed.below)
        for value in filter(math.isfinite, ends):
            value = int(value) if "int" in hint else value
            told = refused(config, each.name, [value] if hint.startswith("list") else value)
            assert told == f"Expected {each.name} {allowed}, actual {value!r}"


def test_a_value_is_returned_as_its_type_has_it() -> None:
    """A whole number as a float, nothing else otherwise; a fault names the place."""
    found = of_type(3, float, "rate")
    assert (type(found), found) == (float, 3.0)
    assert of_type(None, list[str] | None, "names") is None
    assert of_type(["web"], list[str] | None, "names") == ["web"]
    assert of_type(4e6, TokenCount | None, "length") == 4e6
    with pytest.raises(ValueError, match="Expected a valid list as 'names' in FILE, found 'web'"):
        of_type("web", list[str] | None, "names", " in FILE")


OF_OTHER_TYPES = (
    True,
    3,
    2.5,
    "web",
    ["web"],
    [3],
    [["web"]],
    {"web": 1},
    ("web",),
    b"web",
    None,
    np.int64(3),
    np.True_,
    [np.True_],
    Decimal("2.5"),
    torch.tensor(2.5),
)


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type, by hand: a whole number is a number, a truth value is none."""
    if typing.get_origin(hint) is Literal:
        return any(value is one or (type(value) is str and value == one) for one in hint.__args__)
    if typing.get_origin(hint) is list:
        return type(value) is list and all(fits(one, hint.__args__[0]) for one in value)
    if typing.get_args(hint):
        return any(fits(value, one) for one in typing.get_args(hint))
    if hint in (float, TokenCount):
        return type(value) in (int, float)
    return type(value) is hint


@pytest.mark.filterwarnings("ignore:.* has no effect with")
@pytest.mark.parametrize("config", [*configs()], ids=lambda config: config.__name__)
def test_every_option_refuses_values_of_other_types(config: type) -> None:
    """Also those that may be None, and entries of lists; in one line that names the option."""
    hints = typing.get_type_hints(config)
    for each in dataclasses.fields(config):
        for value in OF_OTHER_TYPES:
            if fits(value, hints[each.name]):
                continue
            told = refused(config, each.name, value)
            assert re.fullmatch(rf"Expected .+ as '{each.name}(\.\d)?', found .+", told), told


def test_an_option_without_effect_warns_where_it_was_set() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_idle(Config(count=2), ("rate", "name"), "reason")
    with pytest.warns(UserWarning, match="count has no effect with that reason"):
        warn_idle(Config(count=2), ("count", "rate"), "that reason")


def test_numbers_of_tokens_have_suffixes() -> None:
    assert TokenCount("0.4B") == TokenCount(4e8) == number_of_tokens("400M") == 4e8
    with pytest.raises(ArgumentTypeError, match=r"Expected tokens such as 4e6 or 0\.4B, found 'x'"):
        TokenCount("x")


@dataclass(frozen=True, kw_only=True)
class PartConfig:
    """A part."""

    steps: int = 3
    quick: bool = False


@dataclass(frozen=True, kw_only=True)
class BothOptions:
    """Both."""

    part: PartConfig
    other: PartConfig


def test_a_run_is_resumed_with_its_own_options() -> None:
    assert resumed_run(["--steps", "3"]) is None
    assert resumed_run(["--resume", "runs/lr=3"]) == Path("runs/lr=3")
    assert resumed_run(["--resume=runs/lr=3"]) == Path("runs/lr=3")
    for wrong in (["--resume"], ["--resume="], ["--resume", "a", "--steps", "3"]):
        with pytest.raises(ValueError, match="Expected --resume RUN and no other option"):
            resumed_run(wrong)


def test_the_command_that_goes_on_is_the_outermost_runs(tmp_path: Path) -> None:
    """Of those near: what lies far above is something else's."""
    place = tmp_path / "runs"
    inner = place / "run" / "proxies" / "search"
    inner.mkdir(parents=True)
    (tmp_path / "config.json").write_text('{"name": "something else"}')
    assert resume_command(inner) == f"bydore search --resume {inner}"
    (inner / "config.json").write_text('{"name": "bydore"}')
    (place / "config.json").write_text('{"model_type": "llama"}')
    for name, command in (("fit", "bydore fit"), ("plants", "python experiments/plants.py")):
        (place / "run" / "config.json").write_text(json.dumps({"name": name}))
        assert resume_command(inner) == f"{command} --resume {place / 'run'}"


def test_a_run_goes_on_with_its_own_commands_options_only(tmp_path: Path) -> None:
    options = BothOptions(part=PartConfig(steps=9), other=PartConfig(quick=True))
    parts = {"name": "case1", **dataclasses.asdict(options)}
    (tmp_path / "config.json").write_text(json.dumps(parts))
    assert resumed_options(tmp_path, "case1", BothOptions) == options
    with pytest.raises(RunFolderError, match=r"Expected a run of case2 in .*: a run of case1"):
        resumed_options(tmp_path, "case2", BothOptions)
    short = {"part": {"quick": True}, "other": {}}
    kept = options_of(short, BothOptions)
    assert kept == BothOptions(part=PartConfig(quick=True), other=PartConfig())
    parts["part"]["speed"] = 3
    for content, message in (
        (json.dumps(parts), r"unknown options \['speed'\] of 'part'"),
        ("[]", "a config.json without the name of a command"),
        (json.dumps({**parts, "magic": {}}), r"unknown or missing parts \['magic'\]"),
    ):
        (tmp_path / "config.json").write_text(content)
        with pytest.raises(RunFolderError, match=message):
            resumed_options(tmp_path, "case1", BothOptions)
