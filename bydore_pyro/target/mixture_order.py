"""Which domain each sequence of a run comes from, so that shares hold at every point.

Domain ``k``'s quota after ``n`` sequences is ``Q_k(n) = n w_k`` (in stages: the sum of the stages'
parts). Its ``j``-th sequence may come at the first ``n`` with ``Q_k(n + 1) > j - 1`` and must have
come before the first ``n`` with ``Q_k(n) >= j``. Sequences in these windows, one at a time, the
earliest deadline first, keep

    |count_k(n) - Q_k(n)| < 1        for every domain k and every n.

Such an order exists: serving each domain at its rate fills every window, in fractions, and a
fractional matching of unit jobs and slots on a line of windows has an integral one. Where one
exists, taking the earliest deadline first finds one.

All numbers are integers: a share is rounded to parts in 2^44 (which moves a quota by less than
1e-5 sequences in 150 billion tokens), so that every machine finds the same order.

References:
    Tijdeman, "The chairman assignment problem", Discrete Mathematics 32 (1980).
    Baruah, Cohen, Plaxton and Varvel, "Proportionate progress", Algorithmica 15 (1996), section 3.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from heapq import heappop, heappush

import numpy as np

from bydore_pyro.target.mixture_schedule import MixtureSchedule

__all__ = ["MixtureOrder"]

PARTS = 2**44  # of a share; times CHUNK it must stay far below 2^63
CHUNK = 2**16  # sequences whose order is found at once
NEVER = 2**50  # a deadline that no run reaches
KEPT = 4  # chunks in memory


class MixtureOrder:
    """The domain of every sequence of a run, and its place among the domain's own.

    The order depends on the schedule alone. It is found chunk by chunk; how often each domain has
    come is kept at the chunks' borders, so that memory hardly grows with the run. A chunk is found
    from the one before it: the first look at a late one finds all before it.

    Args:
        schedule: The mixtures; domains are numbered in the order of its `names`.
        sequences: Length of the run.

    Raises:
        ValueError: When there are fewer sequences than stages, or more than 2^40.
    """

    def __init__(self, schedule: MixtureSchedule, sequences: int) -> None:
        if not len(schedule.ends) <= sequences <= 2**40:
            raise ValueError(
                f"Expected a sequence for each of {len(schedule.ends)} stages and at most 2^40, "
                f"actual {sequences}"
            )
        self.names = schedule.names
        self.sequences = sequences
        self._rates = [_parts(row) for row in schedule.weights]  # M x (K,), sums are PARTS
        self._starts = [0, *(round(end * sequences) for end in schedule.ends)]
        # Quotas times PARTS at the stages' starts and at the end; as Python's integers, unbounded.
        quotas = [[0] * len(self.names)]
        for rates, length in zip(self._rates, np.diff(self._starts).tolist(), strict=True):
            quotas.append([q + length * r for q, r in zip(quotas[-1], rates.tolist(), strict=True)])
        self._quotas = quotas
        self._counts = [np.zeros(len(self.names), np.int64)]  # at the chunks' borders
        self._chunk = lru_cache(maxsize=KEPT)(self._find_chunk)

    def __len__(self) -> int:
        """Sequences of the run."""
        return self.sequences

    def locate(self, n: int) -> tuple[int, int]:
        """Returns the number of the domain of sequence `n`, and how many of it came before.

        Raises:
            IndexError: When the run has no such sequence.
        """
        if not 0 <= n < self.sequences:
            raise IndexError(f"Expected a sequence in [0, {self.sequences}), actual {n}")
        number, at = divmod(n, CHUNK)
        found = self._chunk(number)
        domain = int(found[at])
        return domain, int(self._counts[number][domain] + np.count_nonzero(found[:at] == domain))

    def counts(self, n: int) -> np.ndarray:
        """Returns how many of the first `n` sequences each domain has ``(K,)``."""
        number, at = divmod(n, CHUNK)
        before = self._border(number)
        return before + self._tally(self._chunk(number)[:at]) if at else before.copy()

    def quotas(self, n: int) -> np.ndarray:
        """Returns ``Q_k(n)`` ``(K,)``, what is asked of each domain after `n` sequences."""
        stage = self._stage(n)
        rates = self._rates[stage].tolist()
        base = self._quotas[stage]
        behind = n - self._starts[stage]
        return np.array([(q + behind * r) / PARTS for q, r in zip(base, rates, strict=True)])

    def _stage(self, n: int) -> int:
        """The stage that sequence `n` lies in; the last one behind the run's end."""
        return min(max(0, bisect_left(self._starts, n + 1) - 1), len(self._rates) - 1)

    def _border(self, number: int) -> np.ndarray:
        """How often each domain has come at the start of a chunk ``(K,)``."""
        while len(self._counts) <= number:
            self._find_chunk(len(self._counts) - 1)
        return self._counts[number]

    def _tally(self, domains: np.ndarray) -> np.ndarray:
        return np.bincount(domains, minlength=len(self.names)).astype(np.int64)

    def _find_chunk(self, number: int) -> np.ndarray:
        """The domains of a chunk's sequences ``(C,)``."""
        counts, found = self._border(number), []
        n, end = number * CHUNK, min((number + 1) * CHUNK, self.sequences)
        while n < end:
            stop = min(end, self._starts[self._stage(n) + 1])
            found.append(self._find_run(n, stop, counts))
            counts = counts + self._tally(found[-1])
            n = stop
        if len(self._counts) == number + 1:
            self._counts.append(counts)
        return np.concatenate(found)

    def _find_run(self, start: int, stop: int, counts: np.ndarray) -> np.ndarray:
        """The domains of sequences from `start` to `stop`, which lie in one stage and one chunk."""
        stage = self._stage(start)
        rates = self._rates[stage]
        length = stop - start
        behind = start - self._starts[stage]
        quotas = [q + behind * int(r) for q, r in zip(self._quotas[stage], rates, strict=True)]
        whole = np.array([q // PARTS for q in quotas])  # so that what follows fits into int64
        rest = np.array([q % PARTS for q in quotas])
        last = whole - (-(rest + length * rates) // PARTS)  # the last job that `stop` releases
        jobs = last - counts  # (K,), not negative: no count is ahead by 1
        domain = np.repeat(np.arange(len(counts)), jobs)
        first = np.cumsum(jobs) - jobs
        job = np.arange(len(domain)) - first[domain] + counts[domain] + 1
        with np.errstate(divide="ignore"):  # where the rate is 0 every such job is old and endless
            ahead, own = (job - whole[domain]) * PARTS - rest[domain], rates[domain]
            release = np.where(own > 0, (ahead - PARTS) // np.maximum(own, 1), 0)
            deadline = np.where(own > 0, -(-ahead // np.maximum(own, 1)), NEVER)
        for place in np.flatnonzero(deadline > length):  # in a later stage; one a domain at most
            deadline[place] = self._deadline(int(domain[place]), int(job[place])) - start
        order = np.argsort(release, kind="stable")
        keys = deadline * len(counts) + domain  # ties go to the domain that is named first
        taken = _earliest_first(release[order].tolist(), keys[order].tolist(), length)
        return (np.array(taken) % len(counts)).astype(np.uint16)

    def _deadline(self, domain: int, job: int) -> int:
        """The first ``n`` at which the quota reaches `job`."""
        wanted = job * PARTS
        stage = bisect_left(self._quotas, wanted, key=lambda quotas: quotas[domain]) - 1
        stage = min(stage, len(self._rates) - 1)
        rate = int(self._rates[stage][domain])
        if rate == 0:
            return NEVER
        return self._starts[stage] - (self._quotas[stage][domain] - wanted) // rate


def _parts(weights: np.ndarray) -> np.ndarray:
    """Weights ``(K,)`` as parts that sum to `PARTS`; the largest rests are rounded up."""
    exact = weights * PARTS
    parts = np.floor(exact).astype(np.int64)
    short = PARTS - int(parts.sum())
    parts[np.argsort(parts - exact, kind="stable")[: max(0, short)]] += 1
    parts[parts.argmax()] += PARTS - int(parts.sum())  # what rounding of the sum left
    return parts


def _earliest_first(releases: Sequence[int], keys: list[int], slots: int) -> list[int]:
    """Fills each slot with the smallest key that is released; `releases` grow.

    This loop is all that a run's order costs.
    """
    waiting: list[int] = []
    taken = []
    place, upcoming = 0, releases[0]
    releases = [*releases[1:], NEVER]
    for slot in range(slots):
        while upcoming <= slot:
            heappush(waiting, keys[place])
            upcoming = releases[place]
            place += 1
        taken.append(heappop(waiting))
    return taken
