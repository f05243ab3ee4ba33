"""The prior network: its start, its shapes, and that it can tell domains apart."""

from __future__ import annotations

import math

import pytest
import torch

from bydore_pyro.core.prior_net import FreeConcentrations, PriorNetwork, PriorNetworkConfig


@pytest.mark.parametrize("shape", [1.0, 4.0])
def test_every_domain_starts_at_the_same_point_whatever_the_signals(shape: float) -> None:
    network = PriorNetwork(5, PriorNetworkConfig(initial_shape=shape))
    a, b = network(torch.tensor([3.0, 9.0, -1.0, 0.0, 2.0]))
    torch.testing.assert_close(a, torch.full((5,), shape), atol=1e-4, rtol=0)
    torch.testing.assert_close(b, torch.full((5,), shape), atol=1e-4, rtol=0)


def test_domains_of_equal_loss_can_get_different_weights() -> None:
    torch.manual_seed(0)
    network = PriorNetwork(4)
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    target = torch.tensor([4.0, 1.0, 1.0, 0.5])
    for _ in range(150):
        a, _ = network(torch.full((4,), 2.0))
        optimizer.zero_grad()
        (a - target).square().sum().backward()
        optimizer.step()
    torch.testing.assert_close(a.detach(), target, atol=0.1, rtol=0)


def test_batches_are_mapped_one_by_one() -> None:
    torch.manual_seed(0)
    network = PriorNetwork(3)
    torch.nn.init.normal_(network.output.weight)
    signals = torch.randn(2, 5, 3)
    a, b = network(signals)
    assert a.shape == b.shape == (2, 5, 3)
    assert (a > 0).all()
    assert (b > 0).all()
    torch.testing.assert_close(network(signals[1, 2])[0], a[1, 2], atol=1e-5, rtol=1e-5)


def test_signals_of_another_unit_change_nothing() -> None:
    torch.manual_seed(0)
    network = PriorNetwork(3)
    torch.nn.init.normal_(network.output.weight)
    signals = torch.tensor([1.0, 2.0, 4.0])
    torch.testing.assert_close(
        network(signals)[0], network(7 * signals + 3)[0], atol=1e-4, rtol=1e-4
    )


def test_heads_share_the_width() -> None:
    with pytest.raises(ValueError, match="width divisible by heads = 4, actual 30"):
        PriorNetworkConfig(width=30)


def test_free_concentrations_ignore_the_signals() -> None:
    network = FreeConcentrations(3, initial_shape=2.5)
    a, b = network(torch.randn(3))
    torch.testing.assert_close(a, torch.full((3,), 2.5))
    torch.testing.assert_close(b, torch.full((3,), 2.5))
    (a[0] / b[0]).backward()
    assert network.log_mean.grad is not None
    assert network.log_mean.grad[0] == pytest.approx(1)  # d log(a / b) at a / b = 1
    with pytest.raises(ValueError, match="num_domains >= 2"):
        FreeConcentrations(1)


@pytest.mark.parametrize("shape", [0.0, -1.0, math.inf, math.nan])
def test_bad_initial_shapes_are_refused(shape: float) -> None:
    with pytest.raises(ValueError, match="finite initial_shape > 0"):
        FreeConcentrations(3, initial_shape=shape)


def test_bad_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="divisible by heads = 3, actual 8"):
        PriorNetworkConfig(width=8, heads=3)
    with pytest.raises(ValueError, match="num_domains >= 2"):
        PriorNetwork(1)
    with pytest.raises(ValueError, match="signals"):
        PriorNetwork(3)(torch.ones(4))


@pytest.mark.parametrize("link", ["softplus", "exp"])
def test_a_network_starts_where_it_is_told_to(link: str) -> None:
    torch.manual_seed(0)
    for network in (PriorNetwork(3, link=link), FreeConcentrations(3)):
        signals = torch.tensor([1.0, 2.0, 4.0])
        if isinstance(network, PriorNetwork):
            torch.nn.init.normal_(network.output.weight, std=0.1)
        a, b = torch.tensor([0.5, 30.0, 400.0]), torch.tensor([0.02, 1.0, 50.0])
        network.start_at(signals, a, b)
        for value, expected in zip(network(signals), (a, b), strict=True):
            torch.testing.assert_close(value.detach(), expected, rtol=1e-3, atol=0)
        moved = network(signals.flip(0))[0]
        assert torch.allclose(moved, a, rtol=1e-3) == isinstance(network, FreeConcentrations)


def test_the_link_exp_starts_at_the_initial_shape() -> None:
    network = PriorNetwork(3, PriorNetworkConfig(initial_shape=4.0), link="exp")
    for value in network(torch.tensor([1.0, 2.0, 4.0])):
        torch.testing.assert_close(value, torch.full((3,), 4.0))
    with pytest.raises(ValueError, match="'softplus' or 'exp'"):
        PriorNetwork(3, link="log")  # type: ignore[arg-type]
