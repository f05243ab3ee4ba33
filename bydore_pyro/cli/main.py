"""The command line: ``bydore COMMAND [options]``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module, metadata

from packaging.requirements import Requirement

from bydore_pyro import __version__
from bydore_pyro.command_line import asks_for_help, fail, one_line_errors

# What each command does: its docstring's first sentence, which would take seconds to import.
COMMANDS = {
    "prepare": "Turns domains of text into a token store",
    "search": "Finds the domain weights that suit a validation set, and writes a run folder",
    "ask": "Answers other questions from what a search has measured",
    "check": "Trains the proxy on mixtures, and compares its losses with the predicted ones",
    "fit": "Finds a mixture by any method, within a budget of FLOPs",
    "report": "Prints the results of runs",
    "export": "Writes a mixture in a trainer's format",
    "weights": "Shows what weights of any file mean for a run",
    "train": "Trains a target model on exactly a mixture",
    "evaluate": "Scores a trained model on benchmarks and tasks, and measures its loss on text",
}
EXTRA = "cli"  # of setup.cfg: the packages that commands need


def command(name: str) -> Callable[[Sequence[str]], None]:
    """Returns a command's function; its docstring says what it does."""
    return getattr(import_module(f"bydore_pyro.cli.{name}"), f"{name}_command")


def missing_packages() -> list[str]:
    """Returns the packages of the extra `cli` that are not installed."""
    try:
        lines = metadata.requires("bydore-pyro") or []
    except metadata.PackageNotFoundError:  # it runs from a checkout
        return []
    missing = []
    for required in map(Requirement, lines):
        if required.marker and required.marker.evaluate({"extra": EXTRA}):
            try:
                metadata.distribution(required.name)
            except metadata.PackageNotFoundError:
                missing.append(required.name)
    return missing


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or asks_for_help(given[:1]):
        print("usage: bydore COMMAND [options]\n")
        for name, about in COMMANDS.items():
            print(f"  {name:<12}{about}")
        print("\nbydore COMMAND --help explains a command and its most important options.")
        return
    if given == ["--version"]:
        print(f"bydore {__version__}")
        return
    if given[0] not in COMMANDS:
        fail("bydore", f"Expected a command ({', '.join(COMMANDS)}), found '{given[0]}'")
    name = f"bydore {given[0]}"
    if not asks_for_help(given) and (missing := missing_packages()):
        lacking = ", ".join(missing)
        fail(name, f"Expected {lacking}, found none: pip install 'bydore-pyro[{EXTRA}]'")
    with one_line_errors(name):  # one may stop the import, which takes seconds
        run = command(given[0])
    run(given[1:])
