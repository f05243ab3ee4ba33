"""Tables whose answer is known: power laws as given, and losses of random mixtures."""

from __future__ import annotations

import numpy as np

from bydore_pyro.baselines.autoscale import PowerLaws, fit_power_laws, probe_counts

# Validation perplexities in github.com/feiyang-k/AutoScale, algorithms/DDO_example.ipynb: the base
# with uniform weights, then each of seven domains cut, then each grown to 3; the fit takes 1/5 for
# the cut. Its optimum is the authors', with GitHub, the second, held at 0.2.
AUTHORS = np.concatenate(
    [
        [28.11373645],
        [30.11152249, 28.37687875, 29.85955983, 29.90195668, 30.37704005, 29.23766591, 28.92552215],
        [25.78619752, 27.68033216, 26.25833879, 26.47376351, 25.49797272, 27.01485416, 27.24200395],
    ]
)
AUTHORS_OPTIMUM = [1.62475352, 0.2, 1.27415166, 1.17979573, 1.8518998, 0.63716376, 0.23223551]


def laws_of(gamma: list[float], alpha: list[float], base: list[float]) -> PowerLaws:
    """Laws as given, fitted down to a third of the base."""
    g, a, n = np.array(gamma), np.array(alpha), np.array(base)
    return PowerLaws(
        base=n,
        smallest=n / 3,
        gamma=g,
        alpha=a,
        constant=1 - (1 + a) ** -g,
        fits=("exact",) * len(g),
    )


def measured(laws: PowerLaws, counts: np.ndarray, base_loss: float = 3.3) -> np.ndarray:
    """The losses that the laws give for runs ``(N, K)``."""
    return base_loss * np.array([relative_loss(laws, run) for run in counts])


def relative_loss(laws: PowerLaws, counts: np.ndarray) -> float:
    """The loss of counts ``(K,)`` in units of the base's: the domains' differences add up."""
    powers = (counts / laws.base + laws.alpha) ** -laws.gamma - (1 + laws.alpha) ** -laws.gamma
    return float(1 + powers.sum())


def law_for(*relative: float) -> PowerLaws:
    """The law of one domain whose cut (1/3) and grown (3) runs have these relative losses."""
    losses = 2.5 * np.array([1, *relative])
    return fit_power_laws(probe_counts(np.array([600.0])), losses)


def planted(count: int, noise: float = 0.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Mixtures of four domains, and losses that fall with the log of the first and third weight."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(4), count)
    return weights, truth(weights) + noise * rng.standard_normal(count)


def truth(weights: np.ndarray) -> np.ndarray:
    return 5 - 0.3 * np.log(weights[:, 0] + 1e-3) - 0.1 * np.log(weights[:, 2] + 1e-3)
