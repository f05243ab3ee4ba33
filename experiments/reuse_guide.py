"""The guide in two models without a language model, each with a known answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyro
import torch
from common import leave, markdown, run_main, table_run
from pyro.distributions import Dirichlet, Multinomial
from pyro.infer import SVI, Trace_ELBO
from pyro.optim import ClippedAdam
from torch import Tensor, nn
from tqdm import tqdm

from bydore_pyro.command_line import Checked, option
from bydore_pyro.core import FreeConcentrations, MixtureGuide
from bydore_pyro.proxy import Cost

ABOUT = """Fit the Gamma-Dirichlet guide with Pyro's own objective: (a) to multinomial counts with a
Dirichlet prior, and (b), amortised, to many count vectors at once, as in a topic model. In both
models the exact posterior is Dirichlet(alpha + counts), so the error is known."""

ALPHA = 0.8
SHARES = (0.45, 0.25, 0.15, 0.1, 0.05)
DRAWS = 2000


@dataclass(frozen=True, kw_only=True)
class ReuseConfig(Checked):
    """What is fitted, and where the results go."""

    steps: int = option(1500, "Steps of SVI in each model.", least=1)
    vectors: int = option(100, "Number of count vectors of the second model.", least=2)
    seed: int = option(0, "Seed of the data and of the fit.", least=0, below=2**31)
    out: str | None = option(None, "Folder of the run. Default: runs/reuse_guide-<time>.")
    smoke: bool = option(False, "Run for seconds, only to check that all parts work.")


@dataclass(frozen=True, kw_only=True)
class ReuseOptions:
    """All options."""

    run: ReuseConfig


def one_vector(counts: Tensor) -> Tensor:
    """Multinomial counts ``(K,)`` with a Dirichlet prior."""
    shares = pyro.sample("shares", Dirichlet(torch.full_like(counts, ALPHA)))
    pyro.sample("counts", Multinomial(int(counts.sum()), shares), obs=counts)
    return shares


def many_vectors(counts: Tensor) -> Tensor:
    """Count vectors ``(N, K)``, each with shares of its own."""
    with pyro.plate("documents", len(counts)):
        shares = pyro.sample("shares", Dirichlet(torch.full_like(counts, ALPHA)))
        # The totals differ between vectors, which Multinomial does not take: its likelihood is
        # prod_k shares_k ** counts_k up to a constant.
        pyro.factor("counts", (counts * shares.log()).sum(-1))
    return shares


class CountNetwork(nn.Module):
    """Maps counts ``(..., K)`` to Gamma shape and rate: what an amortised guide asks for.

    Every component is treated alike: it sees the log of its own count and of the total.
    """

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, width), nn.SiLU(), nn.Linear(width, 2))

    def forward(self, counts: Tensor) -> tuple[Tensor, Tensor]:
        """Returns shape and rate, ``(..., K)``."""
        logs = torch.stack(
            torch.broadcast_tensors(torch.log1p(counts), torch.log1p(counts.sum(-1, keepdim=True))),
            -1,
        )
        log_mean, log_rate = self.layers(logs).unbind(-1)
        rate = log_rate.exp()
        return log_mean.exp() * rate, rate


def fit(model: Any, guide: Any, counts: Tensor, steps: int, label: str, particles: int = 1) -> None:
    """Runs SVI with Pyro's own objective."""
    decay = 0.02 ** (1 / steps)
    objective = Trace_ELBO(
        num_particles=particles, vectorize_particles=particles > 1, max_plate_nesting=1
    )
    svi = SVI(model, guide, ClippedAdam({"lr": 0.1, "lrd": decay}), objective)
    with tqdm(range(steps), desc=label, unit="step", mininterval=0.5) as bar:
        for _ in bar:
            bar.set_postfix_str(f"loss {svi.step(counts):.2f}", refresh=False)


def compare(guide: MixtureGuide, counts: Tensor) -> dict[str, float]:
    """Returns the errors against the exact posterior, over all vectors."""
    exact = Dirichlet(ALPHA + counts)
    with torch.no_grad():
        q = guide.posterior(counts)
        divergence = q.estimate_kl(exact, DRAWS)
        return {
            "largest_error_of_mean": (q.mean - exact.mean).abs().max().item(),
            "mean_error_of_mean": (q.mean - exact.mean).abs().mean().item(),
            "largest_error_of_sd": (q.stddev - exact.stddev).abs().max().item(),
            "kl_to_exact_nats": divergence.mean().item(),
        }


def reuse_guide(options: ReuseOptions) -> None:
    """Fits, compares, draws, and writes the results."""
    run = options.run
    steps, vectors, cost = run.steps, run.vectors, Cost()
    folder = table_run("reuse_guide", run)
    pyro.set_rng_seed(run.seed)
    pyro.clear_param_store()
    shares = torch.tensor(SHARES, dtype=torch.float64)
    counts = Multinomial(200, shares).sample()
    network = FreeConcentrations(len(SHARES), initial_shape=5.0)
    single = MixtureGuide(network.double(), name="shares")
    with cost.part("one_vector"):
        fit(one_vector, single, counts, steps, "one vector", particles=8)

    each = Dirichlet(torch.full((len(SHARES),), ALPHA, dtype=torch.float64)).sample((vectors,))
    totals = torch.randint(20, 200, (vectors,))
    many = torch.stack([Multinomial(int(n), p).sample() for n, p in zip(totals, each, strict=True)])
    amortised = MixtureGuide(CountNetwork().double(), name="shares")

    def in_plate(counts: Tensor) -> dict[str, Tensor]:
        with pyro.plate("documents", len(counts)):
            return amortised(counts)

    with cost.part("many_vectors"):
        fit(many_vectors, in_plate, many, steps, "many vectors")

    results = {
        "one_vector": {"counts": counts.tolist(), **compare(single, counts)},
        "many_vectors": {"vectors": vectors, **compare(amortised, many)},
    }
    told = ("largest_error_of_mean", "largest_error_of_sd", "kl_to_exact_nats")
    rows = [[name, *(f"{row[one]:.4f}" for one in told)] for name, row in results.items()]
    leave(folder, options, results, cost, markdown(["model", *told], rows))


if __name__ == "__main__":
    run_main(reuse_guide, "reuse_guide", ABOUT, ReuseOptions, smoke={"vectors": 4})
