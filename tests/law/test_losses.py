"""Losses of targets that are made of the law's rows, and paired differences of them."""

from __future__ import annotations

import torch
from planted_laws import planted
from torch import Tensor

from bydore_pyro.law.laplace import fit_law
from bydore_pyro.law.losses import loss_differences, losses_of

DRAWS = fit_law(*planted(3, 5, noise=0.05)).draws(60)
BASELINE = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
MIXTURES = torch.tensor([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]]).double()
DRAWN = torch.rand(60, 2, 3, generator=torch.Generator().manual_seed(0)).double()
DRAWN /= DRAWN.sum(-1, keepdim=True)


def halved(weights: Tensor) -> Tensor:
    """Half of what is read of each domain beyond a fifth of the run is fresh."""
    return weights - (weights - 0.2).clamp(min=0) / 2


def test_a_targets_loss_is_the_mean_of_its_rows() -> None:
    rows = losses_of(DRAWS, MIXTURES)
    torch.testing.assert_close(rows, DRAWS.losses(MIXTURES))
    drawn = losses_of(DRAWS, MIXTURES, composition=DRAWN)
    torch.testing.assert_close(drawn, torch.einsum("smt,sqt->smq", rows, DRAWN))
    fixed = losses_of(DRAWS, MIXTURES, composition=DRAWN[0])
    torch.testing.assert_close(fixed, torch.einsum("smt,qt->smq", rows, DRAWN[0]))


def test_fresh_text_makes_the_tokens() -> None:
    fresh = torch.tensor([[0.2, 0.35, 0.25], [0.4, 0.1, 0.25]]).double()
    found = losses_of(DRAWS, MIXTURES, effective=halved)
    torch.testing.assert_close(found, DRAWS.losses(fresh))


def test_differences_are_paired() -> None:
    """Two nearly equal mixtures differ by far less than either is uncertain."""
    other = BASELINE + torch.tensor([0.01, -0.01, 0])
    found = loss_differences(DRAWS, BASELINE, other)
    both = DRAWS.losses(torch.stack([BASELINE, other]))
    torch.testing.assert_close(found, both[:, 0] - both[:, 1])
    assert float(found.std(0).max()) < 0.3 * float(both.std(0).min())
    given = (DRAWN, halved)
    made = losses_of(DRAWS, torch.stack([BASELINE, other]), *given)
    torch.testing.assert_close(
        loss_differences(DRAWS, BASELINE, other, *given), made[:, 0] - made[:, 1]
    )
