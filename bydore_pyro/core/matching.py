"""Gradient matching: evidence for the mixture whose gradient matches the validation set's.

With ``m_k`` the mean gradient of domain k and ``m`` that of the validation set, in a metric ``W``,
the log-evidence of a virtual step is, to second order (Gauss-Newton)::

    c . u - 1/2 u'Au  =  const - 1/2 || m - sum_k u_k m_k ||^2,   A_jk = <m_j, m_k>, c_k = <m, m_k>

for ``u = s w``: weights ``w`` on the simplex and a free scale ``s``. Where the validation text is
a mixture ``p`` of the domains, ``m = sum_k p_k m_k`` holds at every theta, and ``u = p`` is the
optimum. Its precision is measured: with ``B`` the covariance over documents of the moments
``c - A u``, the evidence is Gaussian in ``u`` with precision ``A B^-1 A`` (the sandwich of the
generalised method of moments).

Arrays in, arrays out: no language model here.

References:
    Killamsetty et al., GRAD-MATCH, arXiv 2103.00123, for single examples;
    Chernozhukov and Hong (2003), An MCMC approach to classical estimation, J. Econometrics 115;
    Mueller (2013), Risk of Bayesian inference in misspecified models, Econometrica 81.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bydore_pyro.core.quadratic import least, least_of, square_root
from bydore_pyro.core.sparse import CONCENTRATIONS, WITHOUT_SPARSEST

__all__ = [
    "Matching",
    "Metric",
    "RoundEvidence",
    "Sample",
    "covariance_of",
    "match",
    "round_evidence",
    "scatter_of_means",
]

MADE_OF_DOMAINS = 0.25  # share that may stay unexplained of a target that is made of the domains
MOST_SCALE = 1.25  # of a target that a mixture of the domains explains
RIDGE = 3.0  # of the metric, in means of the eigenvalues


@dataclass(frozen=True)
class Sample:
    """Gradients of sequences, and the documents that these lie in."""

    gradients: Tensor  # or sketches of them (n, S)
    documents: Tensor  # number of each one's document (n,), integers; equal numbers, one witness


class Metric:
    """``W^(1/2)`` with ``W = (Sigma + tau I)^-1 tau``: gradients that vary most count least.

    ``Sigma`` is the covariance of gradients within domains, pooled: how sequences of one kind
    differ separates no kinds. Few sequences leave most of it unknown; the ridge ``tau``, a
    multiple of the mean of the eigenvalues that are known, keeps ``W`` near ``I`` there.

    References:
        Hansen (1982), Large sample properties of generalized method of moments estimators,
        Econometrica 50: the weights that are efficient.
    """

    def __init__(self, domains: Sequence[Sample], ridge: float = RIDGE) -> None:
        centred = [s.gradients - s.gradients.mean(0) for s in domains]
        deviations = torch.cat(centred)  # (n, S)
        count, size = deviations.shape
        deviations = deviations / math.sqrt(max(count - len(domains), 1))
        if count <= size:  # of the two products of the same eigenvalues, the smaller
            values, vectors = torch.linalg.eigh((deviations @ deviations.T).double())
            values = values.clamp(min=1e-12 * float(values[-1]) + 1e-300)
            directions = deviations.double().T @ (vectors / values.sqrt())  # (S, n)
        else:
            values, directions = torch.linalg.eigh((deviations.T @ deviations).double())
        tau = ridge * values.clamp(min=0).mean()
        self._shrinkage = (1 - (tau / (values.clamp(min=0) + tau)).sqrt()).to(deviations.dtype)
        self._directions = directions.to(deviations.dtype)

    def __call__(self, gradients: Tensor) -> Tensor:
        """Returns ``W^(1/2) z`` for gradients ``(..., S)``."""
        return gradients - ((gradients @ self._directions) * self._shrinkage) @ self._directions.T

    def of(self, sample: Sample) -> Sample:
        """Returns a sample in the metric."""
        return Sample(self(sample.gradients), sample.documents)


@dataclass(frozen=True)
class RoundEvidence:
    """Inner products of one round, all that later steps need; ``n_k`` sequences of domain k.

    Attributes:
        products: For each domain, of its sequences with every domain's mean gradient and, last,
            the validation set's, ``(n_k, K + 1)``. The mean of the own domain leaves out the
            sequence's own document, so that no noise meets itself.
        held_out: Of the validation sequences with every domain's mean gradient, ``(n, K)``.
        target: ``<m, m>``, without the bias of its own noise.
        documents: For each domain ``(n_k,)``.
        held_out_documents: ``(n,)``.
    """

    products: tuple[Tensor, ...]
    held_out: Tensor
    target: float
    documents: tuple[Tensor, ...]
    held_out_documents: Tensor

    @property
    def gram(self) -> Tensor:
        """``A (K, K)``, without the bias of its own noise."""
        gram = torch.stack([products[:, :-1].double().mean(0) for products in self.products])
        return (gram + gram.T) / 2

    @property
    def cross(self) -> Tensor:
        """``c (K,)``."""
        return self.held_out.double().mean(0)


def round_evidence(domains: Sequence[Sample], validation: Sample) -> RoundEvidence:
    """Reduces gradients to the inner products of sequences with mean gradients, in float32."""
    means = torch.stack([sample.gradients.double().mean(0) for sample in domains])  # (K, S)
    target = validation.gradients.double().mean(0)
    both = torch.cat([means, target[None]]).T  # (S, K + 1)
    products = []
    for k, sample in enumerate(domains):
        own = sample.gradients.double() @ both  # (n_k, K + 1)
        own[:, k] = _with_other_documents(sample)
        products.append(own.float())
    return RoundEvidence(
        products=tuple(products),
        held_out=(validation.gradients.double() @ means.T).float(),
        target=_with_other_documents(validation).mean().item(),
        documents=tuple(sample.documents for sample in domains),
        held_out_documents=validation.documents,
    )


def _with_other_documents(sample: Sample) -> Tensor:
    """Products of each sequence with the mean of those of other documents ``(n,)``.

    Where all lie in one document, with the mean of the other sequences. A single sequence has but
    itself: its own noise makes the product too large, and its domain's weight rather too small.
    """
    gradients, place = sample.gradients.double(), _places(sample.documents)
    if len(place) == 1:
        return gradients.square().sum(1)
    if int(place.max()) == 0:
        place = torch.arange(len(place))
    size = torch.bincount(place)[place]  # of the own document, (n,)
    sums = torch.zeros(int(place.max()) + 1, gradients.shape[1], dtype=gradients.dtype)
    sums.index_add_(0, place, gradients)
    others = len(place) - size
    products = gradients @ gradients.sum(0) - (gradients * sums[place]).sum(1)
    # A mean over pairs of different documents: larger documents have fewer partners.
    return products / others.double().mean()


def _places(documents: Tensor) -> Tensor:
    return torch.unique(documents, return_inverse=True)[1]


@dataclass(frozen=True)
class Matching:
    """The evidence of one or several rounds; nats where nothing else is said.

    ``log p(validation | w, s) = linear . (s w) - 1/2 (s w)' precision (s w) + const``

    Attributes:
        gram: ``A (K, K)``, of the rounds together, its trace 1 for each round's weight of 1.
        cross: ``c (K,)``, in the same unit.
        covariance: ``B (K, K)``, of ``c - A u`` at the optimum, counted by document.
        linear: ``A B^-1 c (K,)``.
        precision: ``A B^-1 A (K, K)``.
        optimum: ``u = s w``, the most likely one with ``u >= 0``, ``(K,)``.
        target: ``<m, m>``, in the unit of `cross`, without the bias of its own noise.
        left_out: Where responses were measured, see `bydore_pyro.core.responses.left_out`.
    """

    gram: Tensor
    cross: Tensor
    covariance: Tensor
    linear: Tensor
    precision: Tensor
    optimum: Tensor
    target: float
    left_out: float | None = None

    @property
    def residual(self) -> Tensor:
        """What the target pulls at the domains beyond the optimum and beyond noise ``(K,)``.

        ``r = max(0, 1 - K / chi^2) (c - A u)``, in the unit of `cross`, with
        ``chi^2 = (c - A u)' B^-1 (c - A u)``: 0 where a mixture of the domains explains the target.
        The factor is James and Stein's (1961, Berkeley Symposium 4).
        """
        left = self.cross - self.gram @ self.optimum
        size = max(float(left @ torch.linalg.solve(self.covariance, left)), 1e-300)
        return max(0.0, 1 - len(left) / size) * left

    @property
    def unexplained(self) -> float:
        """Share of the target that no mixture of the domains explains, in [0, 1].

        Of its responses, if they were measured, to branches that the mixture was not fitted to;
        else of its gradient. It is 1 where these do not rise above their noise.
        """
        if self.left_out is not None:
            return self.left_out
        if not self.target > 0:
            return 1.0
        u = self.optimum
        explained = float(2 * u @ self.cross - u @ self.gram @ u)
        return min(1.0, max(0.0, 1 - explained / self.target))

    @property
    def made_of_domains(self) -> bool:
        """Whether a mixture of the domains is like the target."""
        return self.unexplained < MADE_OF_DOMAINS

    @property
    def concentrations(self) -> tuple[float, ...]:
        """Of the prior, no unit; without the sparsest where no mixture is like the target."""
        return CONCENTRATIONS if self.made_of_domains else WITHOUT_SPARSEST

    @property
    def scale(self) -> float:
        """``s >= 0``, the sum of the optimum: 1 where the domains cover the target."""
        return float(self.optimum.sum())

    @property
    def weights(self) -> Tensor:
        """The most likely weights ``(K,)``; uniform where the optimum is 0."""
        if not self.scale > 0:
            return torch.full_like(self.optimum, 1 / len(self.optimum))
        return self.optimum / self.optimum.sum()


def match(rounds: Sequence[RoundEvidence], importance: Sequence[float] | None = None) -> Matching:
    """Adds up the evidence of rounds: each one's quadratic over the trace of its ``A``.

    Errors of a document that several rounds measured are correlated; they are added before they
    are squared. `importance` says what each round counts for, > 0; the same when None.

    Raises:
        ValueError: When there is no round, the gradients are not finite or the domains' are 0, or
            an importance is not above 0 and finite.
    """
    if not rounds:
        raise ValueError("Expected at least one round, actual none")
    shares = _shares(rounds)
    if importance is not None:
        if not all(0 < much < math.inf for much in importance):
            raise ValueError(f"Expected importance > 0, finite, actual {list(importance)}")
        shares = [share * much for share, much in zip(shares, importance, strict=True)]
    gram = torch.stack([a * r.gram for a, r in zip(shares, rounds, strict=True)]).sum(0)
    cross = torch.stack([a * r.cross for a, r in zip(shares, rounds, strict=True)]).sum(0)
    target = float(sum(a * r.target for a, r in zip(shares, rounds, strict=True)))
    if not (cross.isfinite().all() and gram.isfinite().all() and math.isfinite(target)):
        raise ValueError("Expected gradients that are finite, actual products with NaN or infinity")

    def matched(solved: Callable[[Tensor, Tensor], Tensor]) -> Matching:
        at = solved(gram, cross)
        covariance = _covariance(rounds, shares, at)
        inverse = torch.linalg.inv(covariance)
        linear, precision = gram @ inverse @ cross, gram @ inverse @ gram
        precision = (precision + precision.T) / 2
        return Matching(
            gram=gram,
            cross=cross,
            covariance=covariance,
            linear=linear,
            precision=precision,
            optimum=solved(precision, linear),
            target=target,
        )

    found = matched(lambda matrix, vector: least(square_root(matrix), vector))
    if found.scale <= MOST_SCALE:
        return found
    # A model that has learned equal weights has sum_k m_k = 0: any amount of all domains may be
    # added. Where a mixture explains the target, only noise asks for more than that mixture.
    mixture = matched(lambda matrix, vector: least_of(matrix)(vector))
    return mixture if mixture.made_of_domains else found


def covariance_of(rounds: Sequence[RoundEvidence], u: Tensor) -> Tensor:
    """Returns ``B (K, K)`` of rounds at any ``u (K,)``, by document."""
    return _covariance(rounds, _shares(rounds), u)


def _shares(rounds: Sequence[RoundEvidence]) -> list[float]:
    """The rounds' shares of the evidence: one over the trace of ``A`` each."""
    traces = [float(r.gram.diagonal().clamp(min=0).sum()) for r in rounds]
    if not all(0 < trace < float("inf") for trace in traces):
        raise ValueError(f"Expected gradients that are finite and not all 0, actual {traces}")
    return [1 / trace for trace in traces]


def _covariance(rounds: Sequence[RoundEvidence], shares: Sequence[float], u: Tensor) -> Tensor:
    """``B``: covariance of the moments ``c - A u`` at ``u``, from the scatter of the witnesses."""
    total, witnesses = scatter_of_means(
        [share * r.held_out for share, r in zip(shares, rounds, strict=True)],
        [r.held_out_documents for r in rounds],
    )
    total = _shrunk(total, witnesses)  # by itself: domains have many witnesses, a target may not
    for k in range(len(u)):
        influences = []
        for share, r in zip(shares, rounds, strict=True):
            products = share * r.products[k].double()  # (n_k, K + 1)
            influence = -u[k] * products[:, :-1]
            # The own mean gradient stands in the moment itself: its error meets the residual.
            influence[:, k] += products[:, -1] - products[:, :-1] @ u
            influences.append(influence)
        added, count = scatter_of_means(influences, [r.documents[k] for r in rounds])
        total += added  # one at a time: all of 512 domains would be a gigabyte
        witnesses += count
    return _shrunk(total, witnesses) + 1e-12 * total.trace() * torch.eye(len(u)).double()


def _shrunk(covariance: Tensor, witnesses: float) -> Tensor:
    """Returns a covariance nearer to its diagonal: of few witnesses it cannot be inverted."""
    rho = len(covariance) / (len(covariance) + witnesses)
    return (1 - rho) * covariance + rho * torch.diag(covariance.diagonal())


def scatter_of_means(values: Sequence[Tensor], documents: Sequence[Tensor]) -> tuple[Tensor, float]:
    """Returns the covariance ``(K, K)`` of a sum of means, and the effective number of witnesses:
    ``1 / sum h^2``, ``h`` their shares of the sequences.

    Sequences of one document are one witness, also where the document was measured in several
    rounds. Where there is one document alone, sequences are witnesses.

    Args:
        values: Of the sequences, ``(n_r, K)`` a round, whose means over sequences are added up.
        documents: The number of each sequence's document, ``(n_r,)`` a round.
    """
    numbers = torch.cat(list(documents))
    if len(torch.unique(numbers)) > 1:
        place = _places(numbers)
    elif all(torch.equal(d, documents[0]) for d in documents):
        place = torch.arange(len(documents[0])).repeat(len(documents))  # the same sequences again
    else:
        place = torch.arange(len(numbers))
    deviations = torch.cat([(v - v.mean(0)).double() / len(v) for v in values])
    sizes = torch.bincount(place)
    count, shares = len(sizes), sizes / len(place)
    sums = torch.zeros(count, deviations.shape[1]).double().index_add(0, place, deviations)
    return sums.T @ sums * (count / max(count - 1, 1)), 1 / float(shares.square().sum())
