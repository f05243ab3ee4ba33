"""Evidence by gradient matching: what it estimates, without bias, and how far to believe it."""

from __future__ import annotations

import dataclasses
import itertools
import math

import pytest
import torch
from torch import Tensor

from bydore_pyro.core.matching import (
    RIDGE,
    Matching,
    Metric,
    RoundEvidence,
    Sample,
    covariance_of,
    match,
    round_evidence,
    scatter_of_means,
)
from bydore_pyro.core.quadratic import least, square_root
from bydore_pyro.core.sparse import CONCENTRATIONS, WITHOUT_SPARSEST

SIZE = 24
SHARES = torch.tensor([0.5, 0.3, 0.2, 0.0], dtype=torch.float64)


def normal(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def sample(mean: Tensor, count: int, seed: int, *, effect: float = 0.0, each: int = 1) -> Sample:
    """Sequences with noise of their own and, `each` to a document, noise of their document's."""
    documents = torch.arange(count) // each
    own = normal(count, len(mean), seed=2 * seed)
    shared = effect * normal(count, len(mean), seed=2 * seed + 1)[documents]
    return Sample((mean + own + shared).float(), documents)


def a_round(
    means: Tensor, shares: Tensor, seed: int, *, count: int = 12, effect: float = 0.0, each: int = 1
) -> RoundEvidence:
    options = {"effect": effect, "each": each}
    domains = [sample(m, count, 100 * seed + k, **options) for k, m in enumerate(means)]
    return round_evidence(domains, sample(shares @ means, 4 * count, 100 * seed + 99, **options))


def exact(mean: Tensor, count: int = 8) -> Sample:
    """A sample with hardly any noise, of which nothing is left in the mean."""
    noise = normal(count // 2, len(mean), seed=len(mean)) * 1e-3 * mean.norm()
    return Sample((mean + torch.cat([noise, -noise])).float(), torch.arange(count))


def exact_match(means: Tensor, target: Tensor) -> Matching:
    return match([round_evidence([exact(m) for m in means], exact(target))])


def pairs(left: Sample, right: Sample | None = None) -> float:
    """The mean product over pairs of sequences; of one sample, those of different documents."""
    products = []
    other = right or left
    for (x, d), (y, e) in itertools.product(
        zip(left.gradients, left.documents, strict=True),
        zip(other.gradients, other.documents, strict=True),
    ):
        if right is not None or d != e:
            products.append(float(x.double() @ y.double()))
    return sum(products) / len(products)


def test_products_are_means_over_pairs_of_different_documents() -> None:
    """Documents of unequal sizes; between two samples every pair counts."""
    means = normal(3, SIZE, seed=0)
    documents = [torch.tensor(d) for d in ([0, 0, 0, 1, 2, 2], [4, 5, 6, 7], [0, 0, 9, 9, 9])]
    domains = [
        Sample(sample(m, len(d), k).gradients, d)
        for k, (m, d) in enumerate(zip(means, documents, strict=True))
    ]
    held_out = Sample(sample(means[0], 7, 9).gradients, torch.tensor([0, 0, 1, 1, 1, 2, 3]))
    found = round_evidence(domains, held_out)
    for j, k in itertools.product(range(3), repeat=2):
        expected = pairs(domains[j], None if j == k else domains[k])
        assert float(found.gram[j, k]) == pytest.approx(expected, rel=1e-4), (j, k)
    for k in range(3):
        assert float(found.cross[k]) == pytest.approx(pairs(held_out, domains[k]), rel=1e-4)
    assert found.target == pytest.approx(pairs(held_out), rel=1e-4)
    assert [len(p) for p in found.products] == [6, 4, 5]


def test_noise_does_not_bias_the_products() -> None:
    """Twelve sequences in six documents: a plain mean would add the noise's square to each norm."""
    means = 0.3 * normal(3, SIZE, seed=0)
    shares = SHARES[:3]
    found = [a_round(means, shares, seed, effect=1.0, each=2, count=12) for seed in range(1, 401)]
    target = shares @ means
    for name, truth in (
        ("gram", means @ means.T),
        ("cross", means @ target),
        ("target", target @ target),
    ):
        values = torch.stack([torch.as_tensor(getattr(f, name)).double() for f in found])
        error = values.std(0) / math.sqrt(len(found))
        assert (((values.mean(0) - truth) / error).abs() < 4).all(), name


EQUAL, UNEQUAL = (1, 1, 1, 1), (0.1, 1, 5, 30)


@pytest.mark.parametrize(
    ("lengths", "scale"),
    [(EQUAL, 1.0), (EQUAL, 0.4), (EQUAL, 3.0), (UNEQUAL, 1.0), (UNEQUAL, 0.4), (UNEQUAL, 1.2)],
)
def test_the_planted_shares_are_the_optimum(lengths: tuple[float, ...], scale: float) -> None:
    """However long a domain's gradient is, and where the validation's is a multiple."""
    means = normal(4, SIZE, seed=1) * torch.tensor(lengths, dtype=torch.float64)[:, None]
    found = exact_match(means, scale * (SHARES @ means))
    torch.testing.assert_close(found.weights, SHARES, rtol=0, atol=2e-3)
    assert found.scale == pytest.approx(scale, rel=2e-3)
    assert found.unexplained < 1e-3


def test_no_weight_is_negative() -> None:
    """Where the best combination takes one domain away, it gets nothing."""
    means = normal(3, SIZE, seed=3)
    target = means[0] + means[1] - 0.5 * means[2]
    found = exact_match(means, target)
    assert (found.weights >= 0).all()
    assert float(found.weights[2]) == 0
    assert float(found.weights.sum()) == pytest.approx(1)
    nothing = exact_match(means, -means.sum(0))
    assert found.unexplained > 0.01
    assert nothing.unexplained == pytest.approx(1, abs=1e-6)
    assert nothing.scale == 0
    assert dataclasses.replace(found, target=-1e-3).unexplained == 1
    torch.testing.assert_close(nothing.weights, torch.full((3,), 1 / 3, dtype=torch.float64))


@pytest.mark.parametrize("angle", [0.0, 30.0, 60.0, 90.0])
def test_the_unexplained_share_is_the_sine_squared(angle: float) -> None:
    """A target at an angle to all domains: 0 within their span, 1 where it is orthogonal."""
    means = torch.eye(SIZE, dtype=torch.float64)[:3]
    inside = SHARES[:3] @ means
    outside = torch.eye(SIZE, dtype=torch.float64)[5] * inside.norm()
    radians = math.radians(angle)
    found = exact_match(means, math.cos(radians) * inside + math.sin(radians) * outside)
    assert found.unexplained == pytest.approx(math.sin(radians) ** 2, abs=2e-3)


def moments(rounds: list[RoundEvidence], u: Tensor) -> Tensor:
    """``c - A u``, every round over the trace of its A."""
    traces = [float(r.gram.diagonal().sum()) for r in rounds]
    return sum((r.cross - r.gram @ u) / t for r, t in zip(rounds, traces, strict=True))


def test_the_covariance_is_that_of_the_whole_experiment_repeated() -> None:
    """Four sequences of a document are no four witnesses: by sequence the errors are too small."""
    means, u = 5 * normal(3, SIZE, seed=4), SHARES[:3]
    seen, by_document, by_sequence = [], [], []
    for seed in range(1, 301):
        one = a_round(means, u, seed, count=40, effect=1.5, each=4)
        seen.append(moments([one], u))
        by_document.append(covariance_of([one], u))
        alone = [torch.arange(len(of)) for of in (*one.documents, one.held_out_documents)]
        own = dataclasses.replace(one, documents=tuple(alone[:3]), held_out_documents=alone[3])
        by_sequence.append(covariance_of([own], u))
    true = torch.stack(seen).T.cov().diagonal()
    ratio = torch.stack(by_document).mean(0).diagonal() / true
    assert ((ratio > 0.75) & (ratio < 1.3)).all(), ratio
    # Variances 1 and 1.5^2, four to a document: (1 + 2.25) / (1 + 9) = 0.33.
    apart = torch.stack(by_sequence).mean(0).diagonal() / true
    assert (apart < 0.5).all(), apart
    assert (apart > 0.2).all(), apart


def test_the_scatter_of_means_is_the_covariance_of_the_mean_by_its_witnesses() -> None:
    """Alone, sequences give the sample covariance over n; documents, that of their means."""
    values = normal(30, 3, seed=7)
    documents = torch.arange(30) // 5
    found, count = scatter_of_means([values], [torch.arange(30)])
    torch.testing.assert_close(found, torch.cov(values.T) / 30)
    assert count == pytest.approx(30)
    found, count = scatter_of_means([values], [documents])
    torch.testing.assert_close(found, torch.cov(values.reshape(6, 5, 3).mean(1).T) / 6)
    assert count == pytest.approx(6)
    # A document with half of the sequences: 1 / (1/4 + 15/30^2).
    assert scatter_of_means([values], [(documents.new_tensor(range(30)) - 14).clamp(min=0)])[
        1
    ] == pytest.approx(3.75)
    # One document alone: its sequences are the witnesses.
    found, count = scatter_of_means([values], [torch.zeros(30, dtype=torch.int64)])
    torch.testing.assert_close(found, torch.cov(values.T) / 30)
    assert count == pytest.approx(30)


def test_a_target_of_few_large_documents_is_nearer_to_its_diagonal() -> None:
    """Its part of the covariance, by its own witnesses; that of the domains stays."""
    means, u = normal(3, SIZE, seed=5), SHARES[:3]
    one = a_round(means, u, 1, count=400)
    few = dataclasses.replace(one, held_out_documents=one.held_out_documents % 2)
    part, witnesses = scatter_of_means([few.held_out], [few.held_out_documents])
    part = part / float(one.gram.diagonal().sum()) ** 2
    moved = covariance_of([few], u) + 3 / (3 + witnesses) * (part - torch.diag(part.diagonal()))
    domains = covariance_of([one], u)
    all_of = scatter_of_means([one.held_out], [one.held_out_documents])[0]
    all_of = all_of / float(one.gram.diagonal().sum()) ** 2
    torch.testing.assert_close(moved - part, domains - all_of, rtol=0.05, atol=1e-8)


def test_the_same_sequences_again_are_no_new_witnesses() -> None:
    """Two rounds of the same sequences know as much as one; of fresh ones, twice as much."""
    means, u = normal(3, SIZE, seed=5), SHARES[:3]
    first = a_round(means, u, 1, count=40)
    fresh = a_round(means, u, 2, count=40)
    documents = tuple(d + 1000 for d in fresh.documents)
    held_out = fresh.held_out_documents + 1000
    other = dataclasses.replace(fresh, documents=documents, held_out_documents=held_out)
    alone = covariance_of([first], u).diagonal()
    again = covariance_of([first, first], u).diagonal()
    torch.testing.assert_close(again, 4 * alone, rtol=1e-6, atol=0)  # of a sum of two: 2^2
    apart = covariance_of([first, other], u).diagonal()
    ratio = apart / (alone + covariance_of([other], u).diagonal())
    torch.testing.assert_close(ratio, torch.ones(3, dtype=torch.float64), rtol=0.1, atol=0)
    # The precision of u: unchanged by repetition, doubled by fresh sequences.
    repeated = match([first, first]).precision / match([first]).precision
    torch.testing.assert_close(repeated, torch.ones(3, 3, dtype=torch.float64), rtol=1e-4, atol=0)
    gain = match([first, other]).precision.diagonal() / match([first]).precision.diagonal()
    assert ((gain > 1.5) & (gain < 2.6)).all(), gain


def test_a_round_with_large_gradients_does_not_drown_the_others() -> None:
    """Each round's quadratic is over the trace of its own A, whatever the gradients' unit."""
    means = normal(3, SIZE, seed=5)
    for unit in (1, 100):
        rounds = [a_round(means, SHARES[:3], 1), a_round(unit * means, SHARES[:3], 2)]
        assert float(match(rounds).gram.trace()) == pytest.approx(2)


def test_the_posterior_of_the_evidence_is_as_wide_as_its_error() -> None:
    """Over repetitions of the experiment, ``(u - truth)' Lambda (u - truth)`` is chi^2 of K."""
    means, u = normal(3, SIZE, seed=6), torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    distances = []
    for seed in range(1, 201):
        found = match([a_round(means, u, seed, count=60, effect=1.0, each=3)])
        deviation = torch.linalg.solve(found.precision, found.linear) - u
        distances.append(float(deviation @ found.precision @ deviation))
    mean = sum(distances) / len(distances)
    assert 2.2 < mean < 4.2, mean  # 3; its standard error is 0.17


def test_the_metric_shrinks_the_directions_that_vary_most() -> None:
    """``sqrt(tau / (lambda + tau))`` in direction of each eigenvalue, tau = 3 means of them."""
    deviations = torch.tensor([10.0, 1.0, 0.1])
    rows = torch.cat([torch.diag(deviations), -torch.diag(deviations)])  # mean 0
    metric = Metric([Sample(rows, torch.arange(6))])
    values = 2 * deviations.square() / 5
    tau = RIDGE * values.mean()
    expected = (tau / (values + tau)).sqrt()
    torch.testing.assert_close(metric(torch.eye(3)), torch.diag(expected), rtol=1e-4, atol=1e-5)
    assert float(expected[0]) < 0.72
    assert float(expected[2]) > 0.9999


def test_both_ways_to_the_metric_agree() -> None:
    """With fewer sequences than numbers the eigenvalues come from the other product; directions
    that the sample knows nothing of are left as they are."""
    low = normal(7, 5, seed=1).float()
    few = Sample(torch.nn.functional.pad(low, (0, 3)), torch.arange(7))  # 7 rows, 8 numbers
    assert len(few.gradients) <= few.gradients.shape[1]
    many = Sample(low, torch.arange(7))
    assert len(many.gradients) > many.gradients.shape[1]
    # The mean of the known eigenvalues is over 7 in one case, over 5 in the other.
    left = Metric([few], ridge=7 * RIDGE)(torch.eye(8))
    right = Metric([many], ridge=5 * RIDGE)(torch.eye(5))
    torch.testing.assert_close(left[:5, :5], right, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(left[5:, 5:], torch.eye(3), rtol=1e-4, atol=1e-5)


def test_the_metric_knows_what_is_within_domains_alone() -> None:
    """How far apart two domains are is what is looked for: it is not shrunk."""
    apart = torch.tensor([100.0, 0.0, 0.0])
    noise = torch.tensor([[0.0, 1.0, 0.0], [0.0, -1.0, 0.0]])
    metric = Metric(
        [Sample(noise + apart, torch.arange(2)), Sample(noise - apart, torch.arange(2))]
    )
    torch.testing.assert_close(metric(apart), apart)
    assert float(metric(torch.tensor([0.0, 1.0, 0.0]))[1]) < 0.95
    shrunk = metric.of(Sample(apart[None], torch.tensor([3])))
    torch.testing.assert_close(shrunk.gradients[0], apart)
    assert shrunk.documents.tolist() == [3]


def test_what_cannot_be_matched_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one round, actual none"):
        match([])
    zero = torch.zeros(2, SIZE, dtype=torch.float64)
    with pytest.raises(ValueError, match="finite and not all 0"):
        match([round_evidence([exact(m) for m in zero], exact(zero[0]))])
    means = torch.eye(2, SIZE, dtype=torch.float64)
    good = round_evidence([exact(m) for m in means], exact(means[0]))
    held_out = round_evidence([exact(m) for m in means], exact(means[0] / 0))
    with pytest.raises(ValueError, match="finite, actual products with NaN or infinity"):
        match([held_out])  # and not as a target that is explained
    for much in (0.0, float("inf")):
        with pytest.raises(ValueError, match="Expected importance > 0, finite, actual"):
            match([good], [much])


def test_the_prior_of_a_target_that_is_not_made_of_the_domains_is_less_sparse() -> None:
    eye = torch.eye(2, dtype=torch.float64)
    for explained, expected in ((0.8, CONCENTRATIONS), (0.7, WITHOUT_SPARSEST)):
        optimum = torch.tensor([explained**0.5, 0.0], dtype=torch.float64)
        found = Matching(
            gram=eye,
            cross=optimum,
            covariance=eye,
            linear=optimum,
            precision=eye,
            optimum=optimum,
            target=1.0,
        )
        assert found.unexplained == pytest.approx(1 - explained)
        assert found.concentrations == expected
    assert set(WITHOUT_SPARSEST) < set(CONCENTRATIONS)


def test_a_model_that_has_learned_equal_weights_adds_no_amount_of_all_domains() -> None:
    """The gradients of many domains then sum to 0, and their noise asks for more of all of them."""
    means = 3 * normal(120, 80, seed=4)
    means -= means.mean(0)
    shares = torch.zeros(120).double()
    shares[:3] = torch.tensor([0.5, 0.3, 0.2]).double()
    rounds = [a_round(means, shares, seed, count=8) for seed in (5, 6)]
    found = match(rounds)
    free = least(square_root(found.gram), found.cross)
    assert float(free.sum()) > 1.5
    assert found.scale == pytest.approx(1)
    apart = (found.weights - shares).abs().sum() / 2
    assert float(apart) < 0.5 * float((free / free.sum() - shares).abs().sum() / 2)
