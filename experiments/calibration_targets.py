"""Targets of known shares out of pools of sketches, and the evidence that a search has of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from plants import draw_plant
from torch import Tensor

from bydore_pyro.core import Matching, Metric, RoundEvidence, Sample, match, round_evidence

KINDS = ("prior", "sparse")
REGIMES = ("same documents", "other documents")
DESIGNS = ("in its shares", "by documents")
COUNTINGS = ("by document", "by sequence", "shares known")

# Of one checkpoint, sketches by side and domain. The measured side is text of the training
# documents that was never trained on, the other the store's validation side.
SIDES = ("measured", "held_out")
Pools = Mapping[str, Mapping[str, Sample]]


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
    """

    kind: str
    regime: str
    design: str
    shares: np.ndarray
    counts: np.ndarray
    matchings: Mapping[str, Matching]

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
    base: RoundEvidence
    means: Tensor
    pools: Mapping[str, Sequence[Sample]]

    def of_target(self, regime: str, chosen: Sequence[np.ndarray]) -> RoundEvidence:
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
    parts: list[list[np.ndarray]] = []  # by domain: what is left, and what every round measures
    for pool in checkpoints[0]["measured"].values():
        order = rng.permutation(len(pool.documents))
        left = max(1, min(kept, len(order) // 3))
        size = min(each, (len(order) - left) // len(checkpoints))
        parts.append(np.split(order, [left, *(left + size * (1 + np.arange(len(checkpoints))))]))
    rounds = []
    for number, pools in enumerate(checkpoints):
        own = list(zip(pools["measured"].values(), parts, strict=True))

        def rows(part: int, own: list[tuple[Sample, list[np.ndarray]]] = own) -> list[Sample]:
            return [Sample(p.gradients[at[part]], p.documents[at[part]]) for p, at in own]

        measured = rows(1 + number)
        metric = Metric(measured)
        measured, same, other = (
            [metric.of(one) for one in samples]
            for samples in (measured, rows(0), pools["held_out"].values())
        )
        rounds.append(
            Round(
                measured=measured,
                base=round_evidence(measured, same[0]),
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


def in_its_shares(
    shares: np.ndarray, pools: Sequence[Sample], most: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Draws as many sequences of each domain as a search would take, none twice.

    Returns:
        Rows of every domain's pool.
    """
    available = np.array([len(pool.documents) for pool in pools])
    taken = shares > 0
    limit = int(min(most, (available[taken] / shares[taken]).min()))
    counts = np.minimum(np.round(shares * limit).astype(int), available)
    if not counts.any():  # so little text that no share makes up a sequence
        counts[shares.argmax()] = 1
    both = zip(available, counts, strict=True)
    return [rng.choice(total, count, replace=False) for total, count in both]


def by_documents(
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
        draw = in_its_shares if design == DESIGNS[0] else by_documents
        for number in numbers:
            shares = shares_of(kind, names, number)
            for regime in REGIMES:
                rng = np.random.default_rng([20261123, number, place, REGIMES.index(regime)])
                chosen = draw(shares, rounds[0].pools[regime], most, rng)
                counts = np.array([len(rows) for rows in chosen])
                of = torch.repeat_interleave(torch.arange(len(counts)), torch.from_numpy(counts))
                measured = [one.of_target(regime, chosen) for one in rounds]
                found = match(measured)
                known = match([about_own_domain(one, of) for one in measured])
                counted = (found, by_sequence(found, measured), known)
                ways = dict(zip(COUNTINGS, counted, strict=True))
                yield Target(kind, regime, design, shares, counts, ways)


def by_sequence(found: Matching, rounds: Sequence[RoundEvidence]) -> Matching:
    """Returns the evidence as if every sequence were a witness of its own."""
    alone = [
        dataclasses.replace(
            one,
            documents=tuple(torch.arange(len(of)) for of in one.documents),
            held_out_documents=torch.arange(len(one.held_out_documents)),
        )
        for one in rounds
    ]
    own = match(alone)
    return dataclasses.replace(found, linear=own.linear, precision=own.precision)


def about_own_domain(measured: RoundEvidence, domain: Tensor) -> RoundEvidence:
    """The round without the scatter between domains of the target's sequences, its mean kept."""
    products = measured.held_out.double()
    domain = torch.unique(domain, return_inverse=True)[1]
    sums = torch.zeros(int(domain.max()) + 1, products.shape[1], dtype=products.dtype)
    means = sums.index_add(0, domain, products) / torch.bincount(domain)[:, None]
    return dataclasses.replace(measured, held_out=products - means[domain] + products.mean(0))
