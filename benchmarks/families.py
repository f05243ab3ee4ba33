"""Which family for weights on the simplex: the Gamma-Dirichlet beside Pyro's own guides.

    python benchmarks/families.py --out DIR

Every family is fitted to the same four posteriors by SVI, with the same draws per step and the same
schedule. Its learning rate is the one of the grid with the least loss on a seed of its own, which
is not among those that are reported. The truth does not come from any of the families::

    peaked, tied     3 domains, Dirichlet(1) prior, quadratic evidence: a Gauss-Legendre quadrature
    sparse, many     8 and 50 domains, SparseDirichlet prior, counts: a mixture of Dirichlets

Seconds are the processor's, of one thread. Each posterior leaves DIR/NAME.json, and is not measured
again; DIR/table.md shows all.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import arviz
import numpy as np
import pyro
import torch
from pyro import poutine
from pyro.distributions import Dirichlet, Multinomial, constraints
from pyro.infer import ELBO, SVI, Trace_ELBO
from pyro.infer.autoguide import AutoMultivariateNormal, AutoNormal
from pyro.infer.importance import vectorized_importance_weights
from torch import Tensor

from bydore_pyro import FreeConcentrations, HypergradientELBO, MixtureGuide
from bydore_pyro.core import CONCENTRATIONS, SparseDirichlet, quadratic_factor
from bydore_pyro.files import provenance
from bydore_pyro.proxy import Cost

Program = Callable[[], Any]  # a model or a guide

POSTERIORS = ("peaked", "sparse", "tied", "many")

DRAWS = 8  # per step
RATES = (0.01, 0.03, 0.1, 0.3, 1.0)
LAST_RATE = 0.03  # as a share of the first
START_SHAPE = 20.0  # of the Gammas about the concentrations of a Dirichlet
WINDOW, CLOSE = 50, 0.1  # steps, and nats: how convergence is read from the losses
WEIGHED, FOR_MOMENTS = 4000, 40_000  # draws of a fitted guide
NODES = 800  # of the quadrature, in each of two dimensions


@dataclass(frozen=True)
class Truth:
    """A posterior, known without any guide."""

    model: Program
    mean: Tensor  # (K,)
    sd: Tensor  # (K,)
    log_evidence: float  # nats
    quadratic: bool  # whether the likelihood's expectation is known


@dataclass(frozen=True)
class Family:
    """A guide, made for K domains, and the objective that fits it.

    With `from_dirichlet`, a Dirichlet guide takes the first half of the steps, and the second half
    begins there.
    """

    guide: Callable[[Program, int], Any]
    objective: Callable[[Truth], ELBO]
    from_dirichlet: bool = False


def of_counts(counts: Tensor) -> Truth:
    """Counts ``(K,)`` under a `SparseDirichlet` prior: the posterior is a mixture of Dirichlets.

    Its parts are ``Dirichlet(alpha_j + n)``, its weights the parts' marginal likelihoods.
    """

    def model() -> None:
        w = pyro.sample("w", SparseDirichlet.like(counts))
        pyro.factor("counts", (counts * w.log()).sum(-1))

    def log_norm(alpha: Tensor) -> Tensor:
        return torch.lgamma(alpha).sum(-1) - torch.lgamma(alpha.sum(-1))

    prior = counts.new_tensor(CONCENTRATIONS)[:, None].expand(-1, len(counts))
    log_parts = log_norm(prior + counts) - log_norm(prior) - math.log(len(prior))
    parts, share = Dirichlet(prior + counts), log_parts.softmax(0)[:, None]
    mean = (share * parts.mean).sum(0)
    square = (share * (parts.variance + parts.mean.square())).sum(0)
    sd = (square - mean.square()).sqrt()
    return Truth(model, mean, sd, float(log_parts.logsumexp(0)), quadratic=False)


def of_evidence(optimum: Tensor, gram: Tensor, deviation: float, nodes: int = NODES) -> Truth:
    """Quadratic evidence for three weights with a flat prior, by quadrature.

    With ``w = ((1 - t) v, (1 - t)(1 - v), t)`` the simplex is a square, on which a product of
    Gauss-Legendre rules integrates ``2 (1 - t) exp(h . w - 1/2 w' Lambda w)``.
    """
    precision = gram / deviation**2
    linear = precision @ optimum

    def model() -> None:
        w = pyro.sample("w", Dirichlet(torch.ones_like(linear)))
        quadratic_factor("evidence", w, linear, precision)

    places, weights = (torch.from_numpy(x) for x in np.polynomial.legendre.leggauss(nodes))
    v, t = torch.cartesian_prod(*[(places + 1) / 2] * 2).unbind(1)
    log_volume = torch.cartesian_prod(*[weights / 2] * 2).log().sum(1) + (1 - t).log()
    w = torch.stack([(1 - t) * v, (1 - t) * (1 - v), t], 1)
    height = w @ linear - ((w @ precision) * w).sum(1) / 2 + log_volume + math.log(2)
    mass = height.softmax(0)
    mean = mass @ w
    sd = (mass @ (w - mean).square()).sqrt()
    return Truth(model, mean, sd, float(height.logsumexp(0)), quadratic=True)


def posteriors() -> dict[str, Truth]:
    """Returns the four posteriors by name."""
    apart = torch.tensor([[1.0, 0.3, 0.1], [0.3, 1.0, 0.2], [0.1, 0.2, 1.0]])
    alike = torch.tensor([[1.0, 0.995, 0.1], [0.995, 1.0, 0.1], [0.1, 0.1, 1.0]])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        shares = Dirichlet(torch.full((50,), 0.2)).sample()
        many = Multinomial(200, shares).sample()
    return {
        "peaked": of_evidence(torch.tensor([0.5, 0.3, 0.2]), apart, 0.01),
        "sparse": of_counts(torch.tensor([14.0, 5.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0])),
        "tied": of_evidence(torch.tensor([0.35, 0.35, 0.3]), alike, 0.02),
        "many": of_counts(many),
    }


def gamma_dirichlet(model: Program, size: int) -> MixtureGuide:
    """Returns this package's guide, as it begins."""
    return MixtureGuide(FreeConcentrations(size).double(), name="w")


def dirichlet(model: Program, size: int) -> Program:
    """Returns a guide whose concentrations begin at 1."""

    def guide() -> None:
        alpha = pyro.param("alpha", torch.ones(size), constraint=constraints.positive)
        pyro.sample("w", Dirichlet(alpha))

    return guide


def stock(truth: Truth) -> ELBO:
    """Returns Pyro's objective for a model that cannot be enumerated."""
    return Trace_ELBO(num_particles=DRAWS, vectorize_particles=True, max_plate_nesting=0)


def exact_expectation(truth: Truth) -> ELBO:
    """Returns this package's, with as many draws: all of the divergence where they can be."""
    particles = 1 if truth.quadratic else DRAWS
    return HypergradientELBO(
        num_samples=DRAWS // particles,
        num_particles=particles,
        vectorize_particles=particles > 1,
        max_plate_nesting=0,
    )


FAMILIES = {
    "Gamma-Dirichlet": Family(gamma_dirichlet, stock),
    "Gamma-Dirichlet, HypergradientELBO": Family(gamma_dirichlet, exact_expectation),
    "Gamma-Dirichlet, begun at a Dirichlet": Family(gamma_dirichlet, exact_expectation, True),
    "Dirichlet": Family(dirichlet, stock),
    "logistic-normal (AutoNormal)": Family(lambda model, _: AutoNormal(model), stock),
    "AutoMultivariateNormal": Family(lambda model, _: AutoMultivariateNormal(model), stock),
}


@dataclass(frozen=True)
class Fit:
    """A guide after SVI."""

    guide: Program
    losses: list[float]  # nats, one a step
    seconds: float  # of a step

    @property
    def last(self) -> float:
        """The mean loss of the last two windows, nats; infinite where a fit has diverged."""
        found = statistics.fmean(self.losses[-2 * WINDOW :])
        return found if math.isfinite(found) else math.inf

    @property
    def converged_after(self) -> int:
        """Steps after which the loss stays within 0.1 nats of its last mean, and its noise."""
        means = np.array(self.losses).reshape(-1, WINDOW).mean(1)
        noise = 2 * statistics.stdev(self.losses[-2 * WINDOW :]) / math.sqrt(WINDOW)
        off = np.flatnonzero(means > self.last + CLOSE + noise)
        return WINDOW * int(off[-1] + 1 if len(off) else 0)


def fit(truth: Truth, family: Family, rate: float, seed: int, steps: int) -> Fit | None:
    """Fits a guide by SVI; None where the fit diverges."""
    pyro.clear_param_store()
    pyro.set_rng_seed(seed)
    guide = family.guide(truth.model, len(truth.mean))
    parts = [(guide, family.objective(truth), steps)]
    if family.from_dirichlet:
        first = (dirichlet(truth.model, len(truth.mean)), stock(truth), steps // 2)
        parts = [first, (*parts[0][:2], steps // 2)]
    losses: list[float] = []
    start = time.process_time()
    try:
        for program, objective, count in parts:
            if losses:
                shape = torch.full_like(truth.mean, START_SHAPE)
                guide.network.start_at(shape, shape / pyro.param("alpha").detach())
            optimizer = pyro.optim.ClippedAdam({"lr": rate, "lrd": LAST_RATE ** (1 / count)})
            svi = SVI(truth.model, program, optimizer, objective)
            losses += [svi.step() for _ in range(count)]
    except ValueError:  # parameters that a distribution refuses
        return None
    return Fit(guide, losses, (time.process_time() - start) / steps)


@torch.no_grad()
def errors(truth: Truth, fitted: Fit) -> dict[str, float]:
    """Returns how far a fitted guide is from the truth."""
    with pyro.plate("_draws", FOR_MOMENTS, dim=-1):
        w = poutine.trace(fitted.guide).get_trace().nodes["w"]["value"]
    log_weights = vectorized_importance_weights(
        truth.model, fitted.guide, num_samples=WEIGHED, max_plate_nesting=0
    )[0]
    log_ratio = (w.std(0) / truth.sd).log()
    _, khat = arviz.psislw(log_weights.numpy())
    return {
        "error_of_mean": float(((w.mean(0) - truth.mean) / truth.sd).square().mean().sqrt()),
        "width": float(log_ratio.mean().exp()),
        "error_of_sd": float(log_ratio.square().mean().sqrt()),
        "kl": truth.log_evidence - float(log_weights.mean()),
        "khat": float(khat),
        "steps": fitted.converged_after,
        "milliseconds": 1e3 * fitted.seconds,
        "seconds": fitted.converged_after * fitted.seconds,
    }


def measured(truth: Truth, family: Family, seeds: int, steps: int) -> dict[str, Any]:
    """Returns the learning rate of least loss, how many are as good, and the errors by seed."""
    tried = {rate: fit(truth, family, rate, 0, steps) for rate in RATES}
    losses = {rate: found.last if found else math.inf for rate, found in tried.items()}
    best = min(losses, key=lambda rate: losses[rate])
    good = [rate for rate, loss in losses.items() if loss < losses[best] + CLOSE]
    found = [fit(truth, family, best, seed, steps) for seed in range(1, seeds + 1)]
    rows = [errors(truth, one) for one in found if one]
    return {"losses": losses, "rate": best, "good": good, "seeds": rows}


COLUMNS = {
    "error of means, sd": ("error_of_mean", 3),
    "sd / true sd": ("width", 3),
    "error of log sd": ("error_of_sd", 3),
    "KL to the truth, nats": ("kl", 3),
    "k-hat": ("khat", 2),
    "steps": ("steps", 0),
    "ms a step": ("milliseconds", 1),
    "seconds": ("seconds", 1),
}


def mean_and_error(values: Sequence[float], digits: int) -> str:
    """Returns ``mean ± standard error``."""
    mean = statistics.fmean(values)
    if len(values) < 2 or not math.isfinite(mean):
        return f"{mean:.{digits}f}"
    error = statistics.stdev(values) / math.sqrt(len(values))
    return f"{mean:.{digits}f} ± {error:.{digits}f}"


def table(found: dict[str, dict[str, Any]]) -> str:
    """Returns one posterior's rows, in Markdown."""
    head = ["family", *COLUMNS, "rate", "good rates"]
    lines = [head, ["---"] * len(head)]
    for name, row in found.items():
        cells = [
            mean_and_error([one[key] for one in row["seeds"]], digits)
            for key, digits in COLUMNS.values()
        ]
        lines.append([name, *cells, f"{row['rate']:g}", f"{len(row['good'])} of {len(RATES)}"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Measures one posterior after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--posteriors", nargs="*", default=list(POSTERIORS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1000, help=f"a multiple of {WINDOW}")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    given.out.mkdir(parents=True, exist_ok=True)
    try:
        for name in given.posteriors:
            kept = given.out / f"{name}.json"
            if kept.exists():
                continue
            truth, found, cost = posteriors()[name], {}, Cost()
            for family, made in FAMILIES.items():
                with cost.part(family):
                    found[family] = measured(truth, made, given.seeds, given.steps)
                print(name, family, flush=True)
            config = {"seeds": given.seeds, "steps": given.steps}
            origin = {"config": config, "seed": 0, "cost": cost.report(), **provenance()}
            record = {**origin, "families": found}
            kept.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    finally:
        torch.set_default_dtype(before)
    tables = []
    for name in POSTERIORS:
        if (kept := given.out / f"{name}.json").exists():
            found = json.loads(kept.read_text(encoding="utf-8"))["families"]
            tables.append(f"## {name}\n\n{table(found)}\n")
    (given.out / "table.md").write_text("\n".join(tables), encoding="utf-8")
    print("\n".join(tables))


if __name__ == "__main__":
    main()
