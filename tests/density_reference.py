"""The density by mpmath, for `data/density_reference.json`: `python tests/density_reference.py`.

Independent of the package: adaptive Gauss-Legendre quadrature with 20 digits over windows that a
golden-section search places. Domains are given as types with a multiplicity, so that K = 1,000
takes as long as K = 3.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np

REFERENCE = Path(__file__).parent / "files" / "density_reference.json"
FAR = 32.0  # nats below the peak


def log_integral(log_f: Callable[[Any], Any]) -> Any:
    """Returns ``log int exp(log_f(x)) dx`` over the real line for a function with one peak."""
    low, high = mp.mpf(-40), mp.mpf(40)
    ratio = (mp.sqrt(5) - 1) / 2
    x, y = high - ratio * (high - low), low + ratio * (high - low)
    f, g = log_f(x), log_f(y)
    while high - low > 1e-5:
        if f > g:
            high, y, g = y, x, f
            x = high - ratio * (high - low)
            f = log_f(x)
        else:
            low, x, f = x, y, g
            y = low + ratio * (high - low)
            g = log_f(y)
    peak, height = low, log_f(low)
    # Pieces that double in width: one tail may be algebraic, the other short.
    grid = [peak]
    for sign in (-1, 1):
        width = mp.mpf("1e-3")
        while log_f(peak + sign * width) > height - 1:
            width *= 1.5
        while log_f(peak + sign * width) > height - FAR:
            grid.append(peak + sign * width)
            width *= 2
        grid.append(peak + sign * width)
    grid.sort()
    total = mp.quad(lambda x: mp.exp(log_f(x) - height), grid, method="gauss-legendre", maxdegree=4)
    return height + mp.log(total)


def log_density(types: list[tuple[int, float, float, float]]) -> float:
    """Returns ``log q(w)`` for types ``(count, a, b, w)``."""
    rows = [(n, mp.mpf(a), mp.mpf(b), mp.log(mp.mpf(w))) for n, a, b, w in types]

    def log_h(a: Any, b: Any, log_u: Any) -> Any:
        def log_f(x: Any) -> Any:
            return a * x - b * mp.exp(x) + mp.exp(x) * log_u - mp.loggamma(mp.exp(x))

        return a * mp.log(b) - mp.loggamma(a) + log_integral(log_f)

    def outer(s: Any) -> Any:
        return -mp.exp(s) + sum(n * log_h(a, b, s + log_w) for n, a, b, log_w in rows)

    return float(log_integral(outer) - sum(n * log_w for n, _, _, log_w in rows))


def cases() -> list[list[tuple[int, float, float, float]]]:
    """Returns shapes and rates from 0.05 to 1e4, K from 2 to 1,000, interior points and faces."""
    rng = np.random.default_rng(0)
    found = []
    for counts in ((1, 1), (1, 2), (9, 8), (500, 499, 1)):
        for case in range(4):
            parameters = 10 ** rng.uniform(np.log10(0.05), 4, size=(len(counts), 2))
            if case == 2:
                parameters[0], parameters[1] = (0.05, 0.05), (1e4, 1e4)
            if case == 3:
                parameters[0], parameters[1] = (0.05, 1e4), (1e4, 0.05)
            w = rng.dirichlet(np.ones(len(counts))) / counts
            if case % 2 == 1:  # near a face
                w[0] = 10.0 ** rng.integers(-30, -3)
                w[1:] /= (w[1:] * counts[1:]).sum() / (1 - counts[0] * w[0])
            found.append(
                [
                    (n, *p, x)
                    for n, p, x in zip(counts, parameters.tolist(), w.tolist(), strict=True)
                ]
            )
    return found


if __name__ == "__main__":
    mp.mp.dps = 20
    rows = []
    for types in cases():
        rows.append({"types": types, "log_density": log_density(types)})
        print(rows[-1], flush=True)
    REFERENCE.parent.mkdir(exist_ok=True)
    REFERENCE.write_text(json.dumps(rows, indent=1) + "\n")
