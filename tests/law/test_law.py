"""The law's equation, in closed form and as the Pyro model states it."""

from __future__ import annotations

from typing import Any

import pyro
import pytest
import torch
from planted_laws import planted
from pyro import poutine

from bydore_pyro.law.law import LawDraws, law_losses, law_model
from bydore_pyro.law.law_runs import LawRuns

ONE = torch.ones(()).double()


def test_its_level_and_its_fall_at_the_reference() -> None:
    log = torch.zeros((), dtype=torch.float64, requires_grad=True)
    loss = law_losses(3 * ONE, 0.5 * ONE, 0.2 * ONE, log.exp())
    assert float(loss.detach()) == 3
    (fall,) = torch.autograd.grad(loss, log)
    assert float(fall) == pytest.approx(-0.5)


def test_a_power_law_and_its_limit() -> None:
    """``E + S/g ((n/n_0)^-g - 1)``; a logarithm where the power is 0."""
    found = law_losses(3 * ONE, 0.5 * ONE, 0.2 * ONE, 8 * ONE)
    assert float(found) == pytest.approx(3 + 0.5 / 0.2 * (8**-0.2 - 1))
    assert float(law_losses(3 * ONE, 0.5 * ONE, 1e-9 * ONE, 8 * ONE)) == pytest.approx(
        3 - 0.5 * float(torch.tensor(8.0).log())
    )


def draws_of(runs: LawRuns, **more: Any) -> LawDraws:
    """Two draws of three targets."""
    targets = runs.own.shape[0]
    generator = torch.Generator().manual_seed(0)
    drawn = torch.rand(5, 2, targets, generator=generator).double() + 0.5
    names = ("level", "slope", "power", "openness", "noise")
    given: dict[str, Any] = dict(zip(names, drawn, strict=True))
    return LawDraws(runs=runs, **{"transfer": runs.transfer, **given, **more})


def test_a_token_of_another_domain_is_worth_its_share() -> None:
    """``n_t = sum_k (a_tk w_k)^rho``, of which ``n_0`` is 1.25 equal shares of the longest run."""
    tokens, losses, cross = planted(3, 4)
    draws = draws_of(LawRuns.of(7 * tokens, losses, cross, rho=0.8))
    worth = draws.worth()  # (S, T, K)
    torch.testing.assert_close(worth.diagonal(dim1=1, dim2=2), torch.ones(2, 3).double())
    of_reference = 7 * 1.25 / 3
    n = (worth[:, None] * (7 * tokens)[:, None] / of_reference).pow(0.8).sum(-1)
    given = (draws.level[:, None], draws.slope[:, None], draws.power[:, None])
    torch.testing.assert_close(draws.losses(7 * tokens), law_losses(*given, n))
    each = draws_of(draws.runs, transfer=draws.transfer.expand(2, -1, -1))
    torch.testing.assert_close(each.losses(tokens), draws.losses(tokens))
    torch.testing.assert_close(each[1:].losses(tokens), draws.losses(tokens)[1:])
    two = tokens * torch.tensor([1.0, 1.0, 0.0])
    for some in (draws, each):
        torch.testing.assert_close(
            some.among(2).losses(two[:, :2]), some.losses(two)[..., :2], msg="of no third domain"
        )


def test_the_pyro_model_states_the_same_law() -> None:
    tokens, losses, cross = planted(3, 4)
    runs = LawRuns.of(tokens, losses, cross)
    pyro.set_rng_seed(0)
    trace = poutine.trace(law_model).get_trace(runs)
    site = {name: node["value"] for name, node in trace.nodes.items() if "value" in node}
    draws = draws_of(
        runs,
        level=runs.centre + runs.unit * 3 * site["level"][None],
        slope=runs.unit * (site["m_S"] + 0.5 * site["slope"][None]).exp(),
        power=(site["m_g"] + 0.3 * site["power"][None]).exp(),
        openness=(0.9 * (site["m"] + 0.7 * site["openness"][None])).exp(),
    )
    expected = (draws.losses(tokens)[0] - runs.centre) / runs.unit
    torch.testing.assert_close(site["predicted"], expected)
    torch.testing.assert_close(trace.nodes["losses"]["value"], runs.losses)
