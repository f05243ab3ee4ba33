"""What is no table of runs is refused in one line; units cancel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from planted_laws import planted

from bydore_pyro.law.laplace import fit_law
from bydore_pyro.law.law_runs import LawRuns

TOKENS, LOSSES, CROSS = planted(3, 4)


def changed(table: torch.Tensor, value: float) -> torch.Tensor:
    """With a value in its second row and column."""
    table = table.clone()
    table[1, 1] = value
    return table


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"losses": changed(LOSSES, torch.nan)}, "Expected finite losses, actual 1 NaN"),
        ({"losses": LOSSES[1:]}, "tokens (R, K) and losses (R, T), actual (6, 3) and (5, 3)"),
        ({"tokens": TOKENS[:1], "losses": LOSSES[:1]}, "two readings of runs or more, actual 1"),
        ({"tokens": changed(TOKENS, -0.1)}, "Expected finite tokens >= 0, some in every run"),
        ({"transfer": CROSS[:2]}, "Expected finite transfer (T, K) = (3, 3), actual (2, 3)"),
        ({"transfer": changed(CROSS, 0.0)}, "Expected c_tt > 0, actual 0 at target 1"),
        (
            {"losses": torch.cat([LOSSES[:, :2], torch.full((6, 1), 2.5)], 1)},
            "Expected losses that vary over the runs, actual target 2: all 2.5",
        ),
        ({"losses": LOSSES[:, :0]}, "tokens (R, K) and losses (R, T), actual (6, 3) and (6, 0)"),
        ({"own": [0.5, 0.3, 0.2]}, "3 own domains, integers in [-1, 2], actual [0.5, 0.3"),
        ({"own": [0, 1]}, "Expected 3 own domains, integers in [-1, 2], actual [0, 1]"),
        ({"rho": 0.0}, "Expected rho in (0, 1], actual 0.0"),
    ],
)
def test_bad_input_is_one_line(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as found:  # noqa: PT011
        fit_law(**{"tokens": TOKENS, "losses": LOSSES, "transfer": CROSS, **given})
    assert message in str(found.value)
    assert "\n" not in str(found.value)


def test_what_is_no_mixture_is_not_predicted() -> None:
    law = fit_law(TOKENS, LOSSES, CROSS)
    with pytest.raises(ValueError, match=r"Expected tokens \(\.\.\., 3\), actual \(6, 2\)"):
        law.predict(TOKENS[:, :2])
    with pytest.raises(ValueError, match="Expected finite tokens >= 0, some in every run"):
        law.predict(changed(TOKENS, -0.1))


def test_transfer_is_measured_at_each_targets_own_domain() -> None:
    runs = LawRuns.of(TOKENS, LOSSES[:, :2], changed(CROSS, -1.0)[[2, 1]], own=[2, -1], rho=1.0)
    assert runs.own.tolist() == [[0, 0, 1], [0, 0, 0]]
    torch.testing.assert_close(runs.transfer[0, :2], CROSS[2, :2] / CROSS[2, 2] + 0.01)
    assert float(runs.transfer[0, 2]) == 0, "its own tokens are counted once"
    assert float(runs.transfer[1, 1]) == pytest.approx(0.01), "no transfer is negative"
    # A target without a domain is compared with the one that is worth most for it.
    assert float(runs.transfer[1].max()) == pytest.approx(1.01)


def test_gradients_say_how_alike_the_domains_are() -> None:
    cross = torch.tensor([[2.0, 1.0, 0.0], [1.0, 4.0, 2.0], [0.0, 2.0, 4.0]]).double()
    shares = [0.5, 0.0, 0.25, 0.5, 0.0, 0.5]  # c_tk / c_tt of others
    assert LawRuns.of(TOKENS, LOSSES, cross).likeness == pytest.approx(np.mean(shares) + 0.01)
    assert LawRuns.of(TOKENS, LOSSES).likeness == pytest.approx(0.2)
    assert LawRuns.of(TOKENS[:, :1], LOSSES[:, :1]).likeness == 0.2, "there are no others"


def test_as_many_targets_as_domains_are_these() -> None:
    assert LawRuns.of(TOKENS, LOSSES).own.tolist() == torch.eye(3).tolist()
    assert LawRuns.of(TOKENS, LOSSES[:, :2]).own.tolist() == [[0] * 3] * 2


@pytest.mark.parametrize("unit", [1e-300, 2.0, 1e200])
def test_units_cancel(unit: float) -> None:
    """Tokens in any unit, losses in any unit and, as far as digits reach, from any zero."""
    plain = fit_law(TOKENS, LOSSES, CROSS)
    other = fit_law(1e9 * TOKENS, unit * (1 + LOSSES), 5 * CROSS)
    assert (plain.length, other.length) == pytest.approx((1, 1e9))
    expected, found = plain.predict(TOKENS), other.predict(1e9 * TOKENS)
    for name in ("mean", "low", "high", "draws"):
        value = getattr(found, name) / unit
        torch.testing.assert_close(value, 1 + getattr(expected, name), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(other.runs.amounts_of(1e9 * TOKENS), other.runs.amounts)
