"""Mixtures that follow the training losses, with no target: ODM and ADO, by their papers."""

from __future__ import annotations

import math

import numpy as np

__all__ = ["Ado", "Odm"]

FEWEST = 1e-3  # of a domain's shares


class Odm:
    """Online Data Mixing: a bandit (Exp3) whose reward is a domain's training loss.

    Args:
        start: The weights at first ``(K,)``.
        steps: Of the run; a hundredth of them trains on `start`.

    References:
        Albalak et al. (2023), Efficient Online Data Mixing, arXiv 2312.02406, Algorithm 1.
    """

    def __init__(self, start: np.ndarray, steps: int) -> None:
        self.weights, self._step = start, 0
        self._warmup = max(1, steps // 100)
        self._reward = np.zeros(len(start))

    def observe(self, counts: np.ndarray, losses: np.ndarray) -> None:
        """Is given a step's sequences ``(K,)`` and mean losses by domain ``(K,)``, NaN without."""
        self._step += 1
        seen, size = counts > 0, len(counts)
        gained = losses[seen] / self.weights[seen]  # what is drawn seldom counts more
        self._reward[seen] = 0.9 * self._reward[seen] + 0.1 * gained
        if self._step < self._warmup:
            return

        def explored(step: int) -> float:
            return min(1 / size, math.sqrt(math.log(size) / (size * step)))

        grown = explored(self._step) * self._reward
        share = np.exp(grown - grown.max())
        least = explored(self._step + 1)
        self.weights = (1 - size * least) * share / share.sum() + least


class Ado:
    """Adaptive Data Optimization: power laws of the domains' losses, refitted during the run.

    ``rho_k ~ mu_k h_k^0.5 (alpha_k / n_k) (L_k - eps_k)`` prefers what is learned fastest, with
    ``h`` the smoothed weights; the weights are a tenth of it and nine tenths of their own mean.

    Args:
        start: ``mu (K,)``, the weights at first.
        steps: Of the run; a twentieth trains on `start`, and is the time between two fits.

    References:
        Jiang et al. (2024), Adaptive Data Optimization, arXiv 2410.11820, section 3.
    """

    def __init__(self, start: np.ndarray, steps: int) -> None:
        self.weights, self._start, self._every = start, start, max(4, steps // 20)
        self._read = np.zeros(len(start))
        self._seen: list[list[tuple[float, float]]] = [[] for _ in start]  # (n, loss)
        self._laws: list[tuple[float, float, float]] = []
        self._credit, self._mean, self._step = start, start, 0

    def observe(self, counts: np.ndarray, losses: np.ndarray) -> None:
        """As `Odm.observe`."""
        self._step += 1
        self._read += counts
        for k in np.flatnonzero(counts):
            self._seen[k].append((float(self._read[k]), float(losses[k])))
        if self._step % self._every == 0:
            self._laws = [_power_law(seen) for seen in self._seen]
        if not self._laws:
            return
        _, beta, alpha = np.array(self._laws).T
        read = np.maximum(self._read, 1)
        speed = alpha * beta * read ** (-alpha - 1)
        wish = self._start * self._credit**0.5 * np.maximum(speed, 1e-12)
        weights = np.maximum(0.1 * wish / wish.sum() + 0.9 * self._mean, FEWEST)
        self.weights = weights / weights.sum()
        self._credit = 0.1 * self.weights + 0.9 * self._credit
        self._mean = self._mean + (self.weights - self._mean) / (self._step + 1)


def _power_law(seen: list[tuple[float, float]]) -> tuple[float, float, float]:
    """Returns ``eps, beta, alpha`` of ``L = eps + beta n^-alpha``, by Huber's loss of the logs."""
    from scipy.optimize import least_squares

    if len(seen) < 3:
        return 0.0, 0.0, 0.0
    n, loss = np.array(seen).T

    def apart(law: np.ndarray) -> np.ndarray:
        return np.log(np.exp(law[0]) + np.exp(law[1] - law[2] * np.log(n))) - np.log(loss)

    begin, low, high = [0.0, math.log(loss[0]), 0.3], [-3.0, -3.0, 0.0], [math.log(8), 6.0, 0.8]
    begin[1] = min(begin[1], 5.9)
    fit = least_squares(apart, begin, bounds=(low, high), loss="huber", f_scale=1e-3)
    return math.exp(fit.x[0]), math.exp(fit.x[1]), float(fit.x[2])
