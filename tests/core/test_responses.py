"""Composition by response: planted compositions come out, where gradients see nothing."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from bydore_pyro import core
from bydore_pyro.core.responses import Responses, composition_of, left_out

MADE = torch.tensor([0.5, 0.0, 0.3, 0.2, 0.0]).double()
DOMAINS, BRANCHES, SEQUENCES = 5, 6, 60


def sample(mean: Tensor, seed: int, noise: float = 0.05, count: int = SEQUENCES) -> core.Sample:
    generator = torch.Generator().manual_seed(seed)
    spread = noise * torch.randn(count, len(mean), generator=generator).double()
    return core.Sample(mean + spread, torch.arange(count))


def means(seed: int = 0) -> Tensor:
    """Most text gains most from its own branch."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(DOMAINS, BRANCHES, generator=generator).double() + torch.eye(5, 6).double()


def planted(scale: float = 1.0, branch_scales: Tensor | None = None) -> Responses:
    rows = means() if branch_scales is None else means() * branch_scales
    domains = tuple(sample(row, k) for k, row in enumerate(rows))
    return Responses(domains, sample(scale * MADE @ rows, 100))


def test_a_planted_composition_comes_out_at_any_scale() -> None:
    for scale in (1.0, 0.4):
        found = core.match([planted(scale).evidence])
        assert float((found.weights - MADE).abs().sum()) / 2 < 0.05
        assert found.scale == pytest.approx(scale, rel=0.1)


def test_each_branch_counts_in_units_of_its_size() -> None:
    """A branch of a hundred times the size, with all its noise, decides no more than the others."""
    sizes = torch.tensor([100.0, 1, 1, 1, 1, 0.01]).double()
    rows, generator = means(), torch.Generator().manual_seed(1)
    spreads = [0.05 * torch.randn(SEQUENCES, 6, generator=generator).double() for _ in range(6)]
    documents = torch.arange(SEQUENCES)

    def responses(factor: Tensor) -> Responses:
        texts = [*rows, MADE @ rows]
        own = [
            core.Sample(factor * (row + spread), documents)
            for row, spread in zip(texts, spreads, strict=True)
        ]
        return Responses(tuple(own[:-1]), own[-1])

    plain, scaled = (core.match([responses(f).evidence]) for f in (torch.ones(6), sizes))
    assert torch.allclose(plain.weights, scaled.weights, atol=1e-4)
    assert responses(sizes).unexplained == pytest.approx(responses(torch.ones(6)).unexplained)


def test_what_a_composition_says_of_a_branch_that_it_was_not_fitted_to() -> None:
    assert planted().unexplained < 0.02
    rows = means()
    domains = tuple(sample(row, k) for k, row in enumerate(rows))
    other = Responses(domains, sample(torch.tensor([0, 0, 0, 0, 0, 3.0]).double(), 7))
    assert other.unexplained > 0.8
    against = Responses(domains, sample(-rows[0], 8))
    assert against.unexplained == 1.0, "nothing but less of all domains would predict it"
    noise = Responses(domains, sample(torch.zeros(6).double(), 9))
    assert noise.unexplained == 1.0
    few = [core.Sample(one.gradients[:, :2], one.documents) for one in (*domains, domains[0])]
    assert left_out(few[:-1], few[-1]) == 1.0, "of two branches none can be left out"


def test_each_kind_counts_by_the_square_of_what_it_explains() -> None:
    generator = torch.Generator().manual_seed(3)
    directions = torch.randn(DOMAINS, 40, generator=generator).double()
    domains = [sample(row, 20 + k) for k, row in enumerate(directions)]
    other = torch.tensor([0.0, 0.6, 0.0, 0.0, 0.4]).double()
    responses = planted()
    covered = core.round_evidence(domains, sample(other @ directions, 30))
    found = composition_of([covered], responses)
    alone, blind = core.match([covered]), core.match([responses.evidence])
    assert alone.unexplained < 0.02
    seen = (1 - alone.unexplained, 1 - responses.unexplained)
    counts = [(one / max(seen)) ** 2 for one in seen]
    both = core.match([covered, responses.evidence], counts)
    assert torch.allclose(found.optimum, both.optimum)
    assert found.unexplained == responses.unexplained
    # A gradient that no mixture of the domains explains does not move the composition.
    strange = torch.randn(40, generator=generator).double()
    away = core.round_evidence(domains, sample(0.02 * other @ directions + strange, 31))
    assert core.match([away]).unexplained > 0.8
    assert torch.allclose(composition_of([away], responses).weights, blind.weights, atol=0.05)
    assert composition_of([covered], None).left_out is None
    # Nor do responses that no composition predicts, where gradients are explained.
    target = sample(3 * torch.randn(6, generator=generator).double(), 50)
    odd = Responses(responses.domains, target)
    assert odd.unexplained == 1.0
    assert torch.allclose(composition_of([covered], odd).weights, alone.weights, atol=0.05)


def test_models_that_say_the_same_count_as_one() -> None:
    """However many checkpoints of one run there are, they outvote no branch and prove nothing."""
    whole = planted()
    copies = [0, 1, 2, 3, 4, 5, 5, 5]
    factors = torch.tensor([1, 1, 1, 1, 1, 1, 2.0, 0.5]).double()

    def again(one: core.Sample) -> core.Sample:
        return core.Sample(one.gradients[:, copies] * factors, one.documents)

    found = Responses(tuple(map(again, whole.domains)), again(whole.target), 3)
    assert found.groups[:5].tolist() == [0, 1, 2, 3, 4]
    assert len(found.groups.unique()) == 6
    assert len(dataclasses.replace(found, models=2).groups.unique()) == 7, "one is a branch"
    one, other = core.match([whole.evidence]), core.match([found.evidence])
    assert torch.allclose(one.gram, other.gram, atol=0.005), "but for the metric's ridge"
    assert torch.allclose(one.weights, other.weights, atol=0.01)
    assert found.unexplained == pytest.approx(whole.unexplained, abs=1e-6)
    plain = dataclasses.replace(found, models=0)
    assert len(plain.groups.unique()) == 8


def test_of_few_models_the_gradients_say_what_is_unexplained() -> None:
    generator = torch.Generator().manual_seed(3)
    directions = torch.randn(DOMAINS, 40, generator=generator).double()
    domains = [sample(row, 20 + k) for k, row in enumerate(directions)]
    strange = torch.randn(40, generator=generator).double()
    other = torch.tensor([0.0, 0.6, 0.0, 0.0, 0.4]).double()
    gradients = core.round_evidence(domains, sample(other @ directions + strange, 31))
    whole = planted()

    def first(one: core.Sample) -> core.Sample:
        return core.Sample(one.gradients[:, :2], one.documents)

    few = Responses(tuple(map(first, whole.domains)), first(whole.target), 2)
    assert few.are_few
    assert not whole.are_few
    domains = whole.domains + tuple(sample(row, 40 + k) for k, row in enumerate(means(1)))
    for models, expected in ((0, False), (3, False), (6, False)):
        assert Responses(domains, whole.target, models).are_few == expected
    assert Responses((*domains, *domains[:3]), whole.target, 6).are_few, "models, 6 of 13"
    assert not Responses((*domains, *domains[:3]), whole.target, 5).are_few, "one is a branch"
    found, alone = composition_of([gradients], few), core.match([gradients])
    assert 0.1 < alone.unexplained < 0.9
    assert found.unexplained == alone.unexplained
    assert found.left_out is None
    assert (few.count, whole.count) == (2, 6)
    both = core.match([gradients, few.evidence], [1 - 2 / 5, 1.0])
    assert torch.equal(found.optimum, both.optimum), "two equations of five"


def test_branches_that_moved_nothing_are_no_evidence() -> None:
    still = Responses(
        tuple(core.Sample(torch.zeros(4, 3), torch.arange(4)) for _ in range(5)),
        core.Sample(torch.zeros(4, 3), torch.arange(4)),
    )
    generator = torch.Generator().manual_seed(4)
    directions = torch.randn(DOMAINS, 40, generator=generator).double()
    domains = [sample(row, 20 + k) for k, row in enumerate(directions)]
    covered = core.round_evidence(domains, sample(MADE @ directions, 30))
    found = composition_of([covered], still)
    assert torch.equal(found.optimum, core.match([covered]).optimum)


def test_some_of_the_domains() -> None:
    responses = planted()
    some = responses.restricted([3, 0])
    assert some.domains == (responses.domains[3], responses.domains[0])
    assert core.match([some.evidence]).optimum.shape == (2,)
