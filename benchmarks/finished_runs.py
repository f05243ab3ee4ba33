"""What a regression on a table of finished runs takes: seconds, memory, errors on other mixtures.

The runs are planted: a target's loss is a power of its effective tokens, to which the domains
contribute by known factors.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "experiments"))
from regressions import KINDS, fit_regression

from bydore_pyro.files import provenance
from bydore_pyro.terminal import one_thread

NOISE = 0.02  # of a run's loss, nats per token
FRESH = 500  # mixtures whose losses are predicted


def planted(
    runs: int, domains: int, targets: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns the weights ``(N, K)`` and measured losses ``(N, T)`` of runs, and fresh weights and
    their losses without noise."""
    rng = np.random.default_rng(seed)
    worth = rng.dirichlet(np.full(domains, 0.3), targets)
    slope, power = rng.uniform(0.5, 1.5, targets), rng.uniform(0.1, 0.4, targets)
    weights = rng.dirichlet(np.ones(domains), runs + FRESH)
    losses = 3 + slope * ((weights @ worth.T) * domains) ** -power
    measured = losses[:runs] + NOISE * rng.standard_normal((runs, targets))
    return weights[:runs], measured, weights[runs:], losses[runs:]


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--domains", type=int, default=64)
    parser.add_argument("--targets", type=int, default=52)
    parser.add_argument("--kinds", nargs="+", default=[*KINDS], choices=KINDS)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    weights, losses, fresh, true = planted(given.runs, given.domains, given.targets, given.seed)
    fit_regression("linear", weights, losses)  # imports
    print(f"{given.runs} runs, {given.domains} domains, {given.targets} targets; one thread")
    for kind in given.kinds:
        with one_thread():
            begin = time.process_time()
            model = fit_regression(kind, weights, losses)
            fitted = time.process_time()
            told = model.predict(fresh)
            done = time.process_time()
        error = np.sqrt(np.square(told - true).mean())
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
        print(
            f"{kind}: fitted in {fitted - begin:.1f} s, {FRESH} mixtures predicted in "
            f"{done - fitted:.1f} s; rmse {error:.4f} of {true.std(0).mean():.4f}; "
            f"at most {peak:.2f} GB so far",
            flush=True,
        )
    print(provenance())


if __name__ == "__main__":
    main()
