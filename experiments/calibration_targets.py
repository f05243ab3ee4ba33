"""Targets of known shares out of pools of sketches, and the evidence that a search has of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from calibration_pools import Pools
from plants import draw_plant
from torch import Tensor

from bydore_pyro.core import Matching, MeasuredRound, Metric, Sample, match, measured_round

KINDS = ("prior", "sparse")
REGIMES = ("same documents", "other documents")
DESIGNS = ("in its shares", "by documents")
COUNTINGS = ("by document", "by sequence", "shares known")


@dataclass(frozen=True)
class Target:
    """A validation set of known shares.

    Attributes:
        kind: Of `KINDS`: from the prior, ``Dirichlet(1)``, or as `plants.py` draws.
        regime: Of `REGIMES`.
        design: Of `DESIGNS`: as many sequences of each domain as its share says; or whole documents
            at random, a sequence from each domain as likely as its share says.
        shares: As they were drawn ``(K,)``.
        counts: Sequences of every domain ``(K,)``.
        matchings: By counting, the evidence of all rounds. With "shares known", which no search
            can do, the target's sequences scatter about the means of their domains, not about
            their common mean.
        rounds: That "by document" and "by sequence" were matched from.
        moments: By counting, ``r'B^-1 r / K`` of the moments ``r = c - A p`` at the truth: about 1
            where ``B`` tells how large they are.
    """

    kind: str
    regime: str
    design: str
    shares: np.ndarray
    counts: np.ndarray
    matchings: Mapping[str, Matching]
    rounds: Sequence[MeasuredRound]
    moments: Mapping[str, float]

    @property
    def truth(self) -> np.ndarray:
        """The shares of the sequences that were taken, or by documents those drawn of ``(K,)``."""
        return self.counts / self.counts.sum() if self.design == DESIGNS[0] else self.shares


@dataclass(frozen=True)
class Round:
    """One checkpoint in its metric, with some of its sequences measured and others to choose from.

    Attributes:
        measured: A sample of every domain.
        base: What was measured, of some validation set.
        means: The domains' mean gradients ``(K, S)``, float32.
        pools: By regime, of every domain, the sequences that targets are made of.
    """

    measured: Sequence[Sample]
    base: MeasuredRound
    means: Tensor
    pools: Mapping[str, Sequence[Sample]]

    def of_target(self, regime: str, chosen: Sequence[np.ndarray]) -> MeasuredRound:
        """Returns the round of another validation set: of every domain, rows of its pool."""
        target = chosen_of(self.pools[regime], chosen)
        mean = target.gradients.mean(0)
        return dataclasses.replace(
            self.base,
            products=tuple(
                torch.cat([old[:, :-1], (one.gradients @ mean)[:, None]], 1)
                for old, one in zip(self.base.products, self.measured, strict=True)
            ),
            held_out=target.gradients @ self.means.T,
            held_out_documents=target.documents,
            target=0.0,  # of the share that is not explained alone, which nobody asks for
        )


def chosen_of(pools: Sequence[Sample], chosen: Sequence[np.ndarray]) -> Sample:
    """Returns rows of every domain's pool as one sample, documents of domains told apart."""
    gradients, documents, before = [], [], 0
    for pool, rows in zip(pools, chosen, strict=True):
        gradients.append(pool.gradients[rows])
        documents.append(before + pool.documents[rows])
        before += int(pool.documents.max()) + 1
    return Sample(torch.cat(gradients), torch.cat(documents))


def split(checkpoints: Sequence[Pools], each: int, kept: int, seed: int) -> list[Round]:
    """Measures some sequences of every domain at each checkpoint, others at every one.

    What is left are the targets' same documents; at least a third of the domain's sequences, if it
    has less than `kept` and `each` ask for.

    Args:
        checkpoints: In order.
        each: Sequences of every domain that a round measures.
        kept: Sequences of every domain that no round measures.
        seed: Of the choice.
    """
    rng = np.random.default_rng([seed, 1])
    names = list(checkpoints[0].sketches["measured"])
    parts: dict[str, list[np.ndarray]] = {}
    for name in names:
        order = rng.permutation(len(checkpoints[0].sketches["measured"][name]))
        left = max(1, min(kept, len(order) // 3))
        size = min(each, (len(order) - left) // len(checkpoints))
        parts[name] = np.split(order, [left, *(left + size * (1 + np.arange(len(checkpoints))))])

    def sample(pools: Pools, side: str, name: str, rows: np.ndarray) -> Sample:
        return Sample(pools.sketches[side][name][rows], pools.documents[side][name][rows])

    rounds = []
    for number, pools in enumerate(checkpoints):
        measured = [sample(pools, "measured", name, parts[name][1 + number]) for name in names]
        metric = Metric(measured)
        measured = [metric.of(one) for one in measured]
        same = [metric.of(sample(pools, "measured", name, parts[name][0])) for name in names]
        other = [
            metric.of(Sample(pools.sketches["held_out"][name], pools.documents["held_out"][name]))
            for name in names
        ]
        rounds.append(
            Round(
                measured=measured,
                base=measured_round(measured, same[0]),
                means=torch.stack([one.gradients.mean(0) for one in measured]),
                pools=dict(zip(REGIMES, (same, other), strict=True)),
            )
        )
    return rounds


def shares_of(kind: str, names: Sequence[str], number: int) -> np.ndarray:
    """Returns the shares of target `number` ``(K,)``."""
    if kind == "prior":
        return np.random.default_rng([20261122, number]).dirichlet(np.ones(len(names)))
    plant = draw_plant(names, number)
    shares = np.array([plant.get(name, 0.0) for name in names])
    return shares / shares.sum()


def counts_of(shares: np.ndarray, available: np.ndarray, most: int) -> np.ndarray:
    """Returns as many sequences of each domain ``(K,)`` as a search would take, none twice."""
    taken = shares > 0
    limit = int(min(most, (available[taken] / shares[taken]).min()))
    counts = np.minimum(np.round(shares * limit).astype(int), available)
    if not counts.any():  # so little text that no share makes up a sequence
        counts[shares.argmax()] = 1
    return counts


def documents_of(
    shares: np.ndarray, pools: Sequence[Sample], most: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Draws whole documents until there are `most` sequences, or a domain has no other left.

    A domain is drawn as often as makes its sequences as likely as its share says.

    Returns:
        Rows of every domain's pool.
    """
    places = [[np.flatnonzero(p.documents == d) for d in p.documents.unique()] for p in pools]
    sizes = np.array([np.mean([len(rows) for rows in own]) for own in places])
    orders = [list(rng.permutation(len(own))) for own in places]
    chosen: list[list[np.ndarray]] = [[] for _ in pools]
    total = 0
    while total < most:
        k = int(rng.choice(len(shares), p=shares / sizes / (shares / sizes).sum()))
        if not orders[k]:
            break
        chosen[k].append(places[k][orders[k].pop()])
        total += len(chosen[k][-1])
    return [np.concatenate(rows) if rows else np.empty(0, int) for rows in chosen]


def targets_of(
    rounds: Sequence[Round], names: Sequence[str], numbers: Sequence[int], most: int
) -> Iterator[Target]:
    """Makes targets and matches them.

    Args:
        rounds: Of one split.
        names: The domains.
        numbers: Of the targets, of each kind.
        most: Sequences of a target.
    """
    cells = [(KINDS[0], DESIGNS[0]), (KINDS[1], DESIGNS[0]), (KINDS[0], DESIGNS[1])]
    for place, (kind, design) in enumerate(cells):
        for number in numbers:
            shares = shares_of(kind, names, number)
            for regime in REGIMES:
                rng = np.random.default_rng([20261123, number, place, REGIMES.index(regime)])
                pools = rounds[0].pools[regime]
                if design == DESIGNS[0]:
                    available = np.array([len(p.documents) for p in pools])
                    counts = counts_of(shares, available, most)
                    both = zip(available, counts, strict=True)
                    chosen = [rng.choice(total, count, replace=False) for total, count in both]
                else:
                    chosen = documents_of(shares, pools, most, rng)
                yield matched(kind, regime, design, shares, rounds, chosen)


def matched(
    kind: str,
    regime: str,
    design: str,
    shares: np.ndarray,
    rounds: Sequence[Round],
    chosen: Sequence[np.ndarray],
) -> Target:
    """Returns a target with its evidence, counted in every way."""
    counts = np.array([len(rows) for rows in chosen])
    measured = [one.of_target(regime, chosen) for one in rounds]
    of = torch.repeat_interleave(torch.arange(len(counts)), torch.from_numpy(counts))
    matchings = {
        COUNTINGS[0]: match(measured),
        COUNTINGS[1]: match(measured, by_document=False),
        COUNTINGS[2]: match([_about_own_domain(one, of) for one in measured]),
    }
    target = Target(kind, regime, design, shares, counts, matchings, measured, {})
    truth = torch.from_numpy(target.truth)
    moments = {}
    for name, found in matchings.items():
        by_sequence = name == COUNTINGS[1]
        covariance = found.covariance_by_sequence if by_sequence else found.covariance
        residual = found.cross - found.gram @ truth
        moments[name] = float(residual @ torch.linalg.solve(covariance, residual)) / len(counts)
    return dataclasses.replace(target, moments=moments)


def _about_own_domain(measured: MeasuredRound, domain: Tensor) -> MeasuredRound:
    """The round without the scatter between domains of the target's sequences, its mean kept."""
    products = measured.held_out.double()
    domain = torch.unique(domain, return_inverse=True)[1]
    sums = torch.zeros(int(domain.max()) + 1, products.shape[1], dtype=products.dtype)
    means = sums.index_add(0, domain, products) / torch.bincount(domain)[:, None]
    return dataclasses.replace(measured, held_out=products - means[domain] + products.mean(0))
