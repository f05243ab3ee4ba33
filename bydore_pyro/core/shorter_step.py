"""The mixture for a virtual step of another length than the match's, and how sure it is.

`bydore_pyro.core.matching.match` finds the mixture ``w`` and the scale ``s`` at which ``s`` times
its gradient equals the target's. A step of a share ``rho`` of that length wants another mixture,
the one that minimises over the simplex, with ``v = rho s w`` ::

    || m - sum_k v_k m_k ||^2  =  const - 2 c . v + v'Av

At ``rho = 1`` this is the match in the metric of the loss (``A``), close to that of the evidence
(``A B^-1 A``). Towards ``rho = 0`` only the linear term is left: the one domain whose gradient goes
furthest along the target's.

The optimum's condition is on the moments ``c - A v``. Their covariance ``B(v)`` says how far ``c``
may be off. Draws of ``c`` give draws of the mixture: the unconstrained optimum of each is projected
onto the simplex in the metric of the loss, as that of the measured ``c`` is. No prior pulls them
off the bounds: a domain without use has weight 0 in about half of them, or in more.

References:
    Dunson and Neelon (2003), Bayesian inference on order-constrained parameters in generalized
    linear models, Biometrics 59: draws that are projected onto the constraints.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from bydore_pyro.core.evidence import Effective
from bydore_pyro.core.matching import Matching, MeasuredRound, covariance_of
from bydore_pyro.core.quadratic import least_on_simplex
from bydore_pyro.core.repeated import most_likely_weights

__all__ = ["shorter_step", "shorter_step_draws"]


def shorter_step(matching: Matching, length: float, effective: Effective | None = None) -> Tensor:
    """Returns the weights ``(K,)`` for a step of another length, float64, summing to 1.

    Uniform weights where the match's scale is 0. Negative eigenvalues of ``A`` count as 0.

    Args:
        matching: The evidence of all rounds, of K domains.
        length: ``rho``, in (0, 1], as a share of `matching.scale`.
        effective: What weights ``(K,)`` amount to in fresh text, in the unit of ``u = s w``;
            ``s w`` when None.

    Raises:
        ValueError: When the length is not in (0, 1].
    """
    if not 0 < length <= 1:
        raise ValueError(f"Expected a length in (0, 1], actual {length}")
    if not matching.scale > 0:
        return matching.weights
    return _optimum(matching, length, effective)(matching.cross)


def shorter_step_draws(
    matching: Matching,
    rounds: Sequence[MeasuredRound],
    length: float,
    effective: Effective | None = None,
    *,
    draws: int = 1000,
    seed: int = 0,
) -> Tensor:
    """Draws weights for a step of another length, as the scatter between documents leaves them.

    Args:
        matching: The evidence, with a scale above 0.
        rounds: Those that it was found from.
        length: ``rho``, in (0, 1], as in `shorter_step`.
        effective: As in `shorter_step`.
        draws: Number of draws, ``D``.
        seed: Of the draws.

    Returns:
        Weights ``(D, K)``, float64.

    Raises:
        ValueError: When the length is not in (0, 1], or the match's scale is 0.
    """
    if not matching.scale > 0:
        raise ValueError("Expected a match with a scale above 0, actual 0")
    weights = shorter_step(matching, length, effective)
    shares = matching.scale * weights if effective is None else effective(weights)
    root = torch.linalg.cholesky(covariance_of(rounds, length * shares))
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(draws, len(weights), generator=generator, dtype=root.dtype)
    optimum = _optimum(matching, length, effective)
    return torch.stack([optimum(matching.cross + error) for error in noise @ root.T])


def _optimum(
    matching: Matching, length: float, effective: Effective | None
) -> Callable[[Tensor], Tensor]:
    """Returns the optimum ``(K,)`` as a function of ``c (K,)``."""
    values, vectors = torch.linalg.eigh(matching.gram)
    gram = length**2 * (vectors * values.clamp(min=0)) @ vectors.T
    if effective is not None:
        return lambda cross: most_likely_weights(length * cross, gram, effective)
    scale = matching.scale
    return lambda cross: least_on_simplex(scale**2 * gram, scale * length * cross)
