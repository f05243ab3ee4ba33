"""Rows that stand more than once."""

from __future__ import annotations

import numpy as np

from bydore_pyro.tables.copies import first_of_copies


def test_copies_are_equal_in_weights_and_losses() -> None:
    weights = np.array([[0.5, 0.5], [0.1, 0.9], [0.5, 0.5], [0.5, 0.5], [0.1, 0.9]])
    losses = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [1.5, 2.0], [3.0, 4.0 + 1e-12]])
    for unit in (1, 1e-9, 1e25):
        assert first_of_copies(weights, losses * unit).tolist() == [True, True, False, True, False]
