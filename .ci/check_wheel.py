"""Checks a wheel that is installed without extras: `make wheel` runs it in a new environment."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

import bydore_pyro
from bydore_pyro import (
    FreeConcentrations,
    GammaDirichlet,
    InferenceConfig,
    Mixture,
    MixtureGuide,
    SparseDirichlet,
    best_mixture,
    fit_law,
    infer,
)


def run(*arguments: str) -> tuple[int, str]:
    """Runs `bydore`; returns its exit code and all that it prints."""
    command = [str(Path(sys.executable).with_name("bydore")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def check(true: bool, claim: str, found: object = "") -> None:
    """Ends the program where a claim is not true."""
    if not true:
        sys.exit(f"Expected {claim}, found otherwise: {found}")


check("site-packages" in bydore_pyro.__file__, "the installed package", bydore_pyro.__file__)
for module in ("arviz", "datasets", "pandas", "transformers"):
    check(find_spec(module) is None, f"no {module}")
for name in dir(bydore_pyro):
    getattr(bydore_pyro, name)

point = torch.tensor([0.5, 0.3, 0.2])
mean = torch.tensor([2.0, 3.0, 4.0])
known = GammaDirichlet(1e8 * mean, torch.full((3,), 1e8)).log_prob(point)
limit = torch.distributions.Dirichlet(mean).log_prob(point)
check(torch.allclose(known, limit, atol=1e-4), f"the Dirichlet's density {limit}", known)
check(bool(SparseDirichlet.like(point).log_prob(point).isfinite()), "a finite density")

guide = MixtureGuide(FreeConcentrations(3).double(), scale=True)
linear, precision = torch.tensor([1.0, 2.0, 3.0]).double(), torch.eye(3).double()
config = InferenceConfig(steps=4, window=2)
check(infer(guide, linear, linear, precision, config=config).steps == 4, "four steps of SVI")

tokens = torch.tensor([[4.0, 4.0], [8.0, 1.0], [1.0, 8.0]])
best = best_mixture(fit_law(tokens, 3 - 0.1 * tokens.log()).draws(100))
mixture = Mixture(names=("web", "code"), weights=tuple(best.weights.tolist()))
with TemporaryDirectory() as folder:
    (path := Path(folder) / "mixture.json").write_text(mixture.to_json(), encoding="utf-8")
    check(Mixture.from_json(path) == mixture, "the same mixture again", mixture)

version = metadata.version("bydore-pyro")
code, shown = run("--version")
check((code, shown) == (0, f"bydore {version}\n"), "the version", shown)
code, shown = run("search", "--help")
check(code == 0 and "--validation" in shown, "the help of a command", shown)
code, shown = run("search")
message = "pip install 'bydore-pyro[cli]'\n"
check(code == 2 and shown.count("\n") == 1 and shown.endswith(message), "one line", shown)
print("The wheel is sound: the core works alone, and a command says what it lacks.")
