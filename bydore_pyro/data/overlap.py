"""Documents of targets that stand in training text: found by runs of words that both have.

Compared are runs of 13 words (`words`), as GPT-3 did (arXiv 2005.14165, appendix C). A document of
8 to 12 words, the shortest that GPT-3 compared, is one run of its own length. One that is shorter,
such as "yes", would stand in any text, and is not compared. Runs that more than ten questions of a
target share are its instructions and examples: their words do not count.

A document of a target stands in a training document if at least half of its words that count lie in
runs that the training document has. Tülu 3 (arXiv 2411.15124) calls a test instance contaminated by
a training instance from the same share on. A single run of 13 words is often a quotation, or a
phrase of a licence.

Of a task with choices only the right ones are compared. What begins in one training document and
ends in another is not found. A run of words of more than 2,048 tokens may be missed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TypeVar

import numpy as np

from bydore_pyro import terminal
from bydore_pyro.data.index import sha256_of
from bydore_pyro.data.store import Text, TokenStore, open_store
from bydore_pyro.data.tokenizer import load_encoder
from bydore_pyro.data.tokens import kept
from bydore_pyro.data.words import PRIME, Pieces, as_words, token_bytes
from bydore_pyro.errors import DataError
from bydore_pyro.files import content_hash

T = TypeVar("T")
RUN = 13  # words
SHORTEST = 8  # words of a document that is compared
COVERED = 0.5  # least share of a document's words
SHARED = 10  # most questions that have a run that counts
MOST = 10**9  # training tokens that are read: a minute of a core
BLOCK = 2**16  # tokens that are compared at once: their arrays stay in a processor's cache
BEYOND = 2**11  # tokens that are read before and behind a block, where words and runs go on
SLOTS = 16  # of a table, for each run that is searched for


@dataclass(frozen=True, eq=False)
class Overlap:
    """What targets and training text share.

    Attributes:
        standing: Which questions of each target stand in which domain, booleans ``(q,)`` by target
            and domain; a document of plain text is a question. Domains without any are missing.
        compared: Which questions were long enough to be compared, booleans ``(q,)`` by target.
        training: The training documents in which they stand, by domain: their numbers, ascending.
        share: Of the training text that was compared.
    """

    standing: Mapping[str, Mapping[str, np.ndarray]]
    compared: Mapping[str, np.ndarray]
    training: Mapping[str, np.ndarray]
    share: float = 1.0


def find_overlap(
    store: TokenStore,
    targets: Mapping[str, Text],
    names: Iterable[str] | None = None,
    most: int = MOST,
) -> Overlap:
    """Returns which documents of targets stand in the training text of which domains, and in which
    documents of it. Reads this text once, however many targets there are. Of more than so many
    tokens it reads blocks that are spread evenly: what is found is then a lower bound.

    Args:
        store: Has the training text, and the tokenizer of the targets too.
        targets: Their text by name; some 200 bytes of memory a word.
        names: The domains that are trained on; all of the store when None.
        most: Tokens that are read, about.

    Raises:
        DataError: When the tokenizer cannot be read, or a file was cut.
        Interrupted: When a request to stop has arrived.
    """
    names = store.names if names is None else list(names)
    pieces = Pieces.of_tokenizer(store.tokenizer, store.vocabulary)
    sought = _Sought([_documents(text, pieces) for text in targets.values()])
    width = np.dtype(store.index["dtype"]).itemsize
    standing: dict[str, dict[str, np.ndarray]] = {target: {} for target in targets}
    training: dict[str, np.ndarray] = {}
    done, total = 0, sum(len(store.train[name]) for name in names)
    step = max(1, -(-total // most))  # one block of so many is read
    with terminal.progress_bar("compare with targets") as bar:
        for name in names:
            numbers, documents = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
            found = _compared(store, name, pieces, sought, step)
            for read, (of_training, of_targets) in found:
                numbers.append(of_training)
                documents.append(of_targets)
                bar(width * (done + read), width * total, name)
            done += len(store.train[name])
            if len(own := np.unique(np.concatenate(numbers))):
                training[name] = own
            for target, questions in zip(
                targets, sought.by_target(np.concatenate(documents)), strict=True
            ):
                if questions.any():
                    standing[target][name] = questions
    compared = sought.by_target(np.flatnonzero(sought.needed))
    return Overlap(standing, dict(zip(targets, compared, strict=True)), training, 1 / step)


class StandingIn:
    """Finds the texts in which others stand, such as the texts of targets.

    Args:
        targets: The texts of each target.
    """

    def __init__(self, targets: Iterable[Sequence[str]]) -> None:
        self._sought = _Sought([self._documents(texts) for texts in targets])

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Returns in which texts one or more of the others stand, booleans ``(n,)``."""
        found = np.zeros(len(texts), bool)
        if len(texts):
            documents = self._documents(texts)
            first, run = self._sought.runs_in(documents.words, lambda at: documents.numbers[at])
            found[self._sought.standing(documents.numbers[first], run)[0]] = True
        return found

    @staticmethod
    def _documents(texts: Sequence[str]) -> _Documents:
        words = [as_words(text.encode("utf-8", "surrogatepass")).split() for text in texts]
        # Each process hashes words in a way of its own: all that is compared is hashed in this one.
        hashes = np.fromiter(map(hash, chain.from_iterable(words)), np.int64).view(np.uint64)
        every = np.arange(len(words))
        return _Documents(hashes, np.repeat(every, [*map(len, words)]), every, len(words))


@dataclass(frozen=True, eq=False)
class _Documents:
    """Documents of a target, as words.

    Attributes:
        words: Hashes, of all documents ``(n,)``.
        numbers: The document of each word ``(n,)``, ascending.
        questions: The question of each document ``(D,)``.
        count: Of questions.
    """

    words: np.ndarray
    numbers: np.ndarray
    questions: np.ndarray
    count: int


def _documents(text: Text, pieces: Pieces) -> _Documents:
    """Those of a text; of choices the right ones."""
    words, places = pieces.words(np.asarray(text[: len(text)]), text.starts)
    numbers, questions = np.searchsorted(text.ends, places, "right"), text.questions
    count = int(questions[-1]) + 1 if len(questions) else 0
    if text.answers is not None and text.answers.right is not None:
        right = text.answers.right.astype(bool)
        own = right[numbers]
        words, numbers = words[own], (np.cumsum(right) - 1)[numbers[own]]
        questions = questions[right]
    return _Documents(words, numbers, questions, count)


class _Sought:
    """The runs of words of targets' documents, to be found in other text.

    Args:
        targets: Their documents. All of them are numbered in this order.

    Attributes:
        needed: Of each document ``(D,)``, the words that another text must have of it for it to
            stand there; 0 of one that is not compared.
    """

    def __init__(self, targets: Sequence[_Documents]) -> None:
        sizes, none = [len(target.questions) for target in targets], [np.empty(0, np.int64)]
        before = np.cumsum([0, *sizes])[:-1]
        pairs = list(zip(targets, before, strict=True))
        words = np.concatenate([np.empty(0, np.uint64), *(target.words for target in targets)])
        numbers = np.concatenate(none + [target.numbers + start for target, start in pairs])
        self._counts = [target.count for target in targets]
        self._targets = np.repeat(np.arange(len(targets)), sizes)
        self._questions = np.concatenate(none + [target.questions for target in targets])
        in_each = np.bincount(numbers, minlength=len(self._targets))
        self._lengths = np.where(in_each < SHORTEST, 0, np.minimum(in_each, RUN))
        keys, places = [np.empty(0, np.uint64)], none.copy()
        for length, own in _runs(words, self._all_lengths()):
            first, last = numbers[: len(own)], numbers[length - 1 :]
            inside = (first == last) & (self._lengths[first] == length)
            keys.append(own[inside])
            places.append(np.flatnonzero(inside))
        self._index(np.concatenate(keys), np.concatenate(places), numbers)

    def _all_lengths(self) -> list[int]:
        return [int(length) for length in np.unique(self._lengths) if length]

    def _index(self, keys: np.ndarray, places: np.ndarray, numbers: np.ndarray) -> None:
        """Keeps the runs that count, sorted by their keys, with their places among all words."""
        keys, which = np.unique(keys, return_inverse=True)
        documents = numbers[places]
        of_target = which * max(1, len(self._counts)) + self._targets[documents]
        most = max(1, *self._counts, 1)
        different = np.unique(of_target * most + self._questions[documents]) // most
        shared, count = np.unique(different, return_counts=True)
        counted = ~np.isin(of_target, shared[count > SHARED])
        order = np.flatnonzero(counted)[np.argsort(which[counted], kind="stable")]
        kept, first = np.unique(which[order], return_index=True)
        self._keys, self._first = keys[kept], np.append(first, len(order))
        self._places, self._documents = places[order], documents[order]
        ends = places + self._lengths[documents]
        own = _inside(places[counted], ends[counted], len(numbers))
        own &= ~_inside(places[~counted], ends[~counted], len(numbers))
        self._own = np.append(0, np.cumsum(own))
        counts = np.bincount(numbers[own], minlength=len(self._targets))
        self.needed = COVERED * counts
        bits = max(16, (SLOTS * len(self._keys)).bit_length())
        self._shift = np.uint64(64 - bits)
        self._table = np.zeros(2**bits, bool)
        self._table[self._keys >> self._shift] = True

    def _covered(
        self, texts: np.ndarray, documents: np.ndarray, places: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns how many words of a document lie in runs that a text has, of those that count:
        texts, documents and counts, of runs' texts, documents and places, each run once."""
        order = np.lexsort((places, documents, texts))
        texts, documents, places = texts[order], documents[order], places[order]
        begins = np.ones(len(order), bool)
        begins[1:] = (np.diff(texts) != 0) | (np.diff(documents) != 0)
        ends = places + self._lengths[documents]
        first = places.copy()  # of the words that no run before this one has covered
        first[1:] = np.where(begins[1:], places[1:], np.maximum(places[1:], ends[:-1]))
        new = self._own[ends] - self._own[first]
        groups = np.flatnonzero(begins)
        counts = np.add.reduceat(new, groups) if len(groups) else new
        return texts[groups], documents[groups], counts

    def runs_in(
        self, words: np.ndarray, documents: Callable[[np.ndarray], np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the runs that other text has: where each begins among its words, and its number.

        Args:
            words: Hashes of the other text's ``(n,)``.
            documents: Returns the document of the other text in which words stand, by their places.
        """
        found, numbers = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for length, keys in _runs(words, self._all_lengths()):
            near = np.flatnonzero(self._table[keys >> self._shift])
            place = np.minimum(np.searchsorted(self._keys, keys[near]), len(self._keys) - 1)
            equal = self._keys[place] == keys[near]
            first, place = near[equal], place[equal]
            inside = documents(first) == documents(first + length - 1)
            found.append(first[inside])
            numbers.append(place[inside])
        return np.concatenate(found), np.concatenate(numbers)

    def once(self, texts: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns pairs of a text and the number of a run, each once."""
        count = max(1, len(self._keys))
        pairs = np.unique(texts * count + numbers)
        return pairs // count, pairs % count

    def standing(self, texts: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns which documents stand in which texts, of the numbers of the runs that the texts
        have: pairs of a text and a document."""
        texts, numbers = self.once(texts, numbers)
        counts = self._first[numbers + 1] - self._first[numbers]
        each = np.repeat(np.arange(len(numbers)), counts)
        at = self._first[numbers][each] + np.arange(len(each)) - (np.cumsum(counts) - counts)[each]
        texts, documents, covered = self._covered(
            texts[each], self._documents[at], self._places[at]
        )
        enough = (covered > 0) & (covered >= self.needed[documents])
        return texts[enough], documents[enough]

    def by_target(self, documents: np.ndarray) -> list[np.ndarray]:
        """Returns of each target the questions of some documents, booleans ``(q,)``."""
        found = [np.zeros(count, bool) for count in self._counts]
        for target, own in enumerate(found):
            own[self._questions[documents[self._targets[documents] == target]]] = True
        return found


def _inside(begins: np.ndarray, ends: np.ndarray, count: int) -> np.ndarray:
    """Which of so many words lie between a begin and its end, booleans ``(n,)``."""
    steps = np.bincount(begins, minlength=count + 1) - np.bincount(ends, minlength=count + 1)
    return np.cumsum(steps)[:count] > 0


def _runs(words: np.ndarray, lengths: Iterable[int]) -> Iterator[tuple[int, np.ndarray]]:
    """Yields the hashes of all runs of words ``(n - L + 1,)`` of each length ``L``, up to 15::

    key_i = L P + sum_j h_{i+j} P^j   mod 2^64
    """
    sums = {1: words}
    for size in (2, 4, 8):
        half, other = sums[size // 2], sums[size // 2][size // 2 :]
        sums[size] = half[: len(other)] + other * _power(size // 2)
    for length in lengths:
        if len(words) < length:
            continue
        keys = np.full(len(words) - length + 1, int(PRIME) * length % 2**64, np.uint64)
        place = 0
        for size in (8, 4, 2, 1):
            if length & size:
                keys += sums[size][place : place + len(keys)] * _power(place)
                place += size
        yield length, keys


def _power(exponent: int) -> np.uint64:
    return np.uint64(pow(int(PRIME), exponent, 2**64))


def _compared(
    store: TokenStore, name: str, pieces: Pieces, sought: _Sought, step: int
) -> Iterator[tuple[int, tuple[np.ndarray, np.ndarray]]]:
    """Yields up to which token a domain was read, one block of `step`, and pairs of a training
    document and a document of a target that stands in it."""
    size, ends = len(store.train[name]), store.train[name].ends
    going_on = np.empty(0, np.int64), np.empty(0, np.int64)  # of a document that goes on
    runs_at = partial(_runs_at, store, name, pieces, sought)
    # numpy lets other threads work.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for begin, new in _in_order(pool, runs_at, range(0, size, step * BLOCK)):
            terminal.stop_if_asked()
            end = min(begin + BLOCK, size)
            documents, numbers = map(np.append, going_on, new)
            later = ends[documents] > end
            going_on = sought.once(documents[later], numbers[later])
            yield end, sought.standing(documents[~later], numbers[~later])
    yield size, sought.standing(*going_on)


def _runs_at(
    store: TokenStore, name: str, pieces: Pieces, sought: _Sought, begin: int
) -> tuple[np.ndarray, np.ndarray]:
    """The runs that are searched for and begin in a block of a domain: training documents and
    numbers of runs."""
    ends, low = store.train[name].ends, max(0, begin - BEYOND)
    tokens = store.read("train", name, slice(low, begin + BLOCK + BEYOND))
    before = int(np.searchsorted(ends, low, "right"))
    starts = ends[before : int(np.searchsorted(ends, low + len(tokens)))] - low
    words, places = pieces.words(tokens, starts)

    def document(at: np.ndarray) -> np.ndarray:
        return before + np.searchsorted(starts, places[at], "right")

    first, numbers = sought.runs_in(words, document)
    own = (places[first] >= begin - low) & (places[first] < begin - low + BLOCK)
    return document(first[own]), numbers[own]


def _in_order(
    pool: ThreadPoolExecutor, function: Callable[[int], T], values: Iterable[int]
) -> Iterator[tuple[int, T]]:
    """Yields values and what a function returns for them, a few of which are computed ahead."""
    ahead: deque[tuple[int, Future[T]]] = deque()
    for value in values:
        ahead.append((value, pool.submit(function, value)))
        if len(ahead) > 2 * (os.cpu_count() or 1):
            first, future = ahead.popleft()
            yield first, future.result()
    for first, future in ahead:
        yield first, future.result()


def without_training(store: TokenStore, training: Mapping[str, np.ndarray]) -> TokenStore:
    """Returns a store without some training documents; all other text is the same, and nothing is
    copied.

    The index counts them as ``in_targets_dropped``. The size of all text of a sampled domain is
    estimated anew: as large a share of it is taken to be dropped as of the sample.

    Args:
        store: The text.
        training: Numbers of training documents ``(m,)``, by domain.

    Raises:
        DataError: When nothing of a domain is left.
    """
    if not training:
        return store
    train, domains = {**store.train}, {**store.index["domains"]}
    for name, numbers in training.items():
        text, entry = store.train[name], store.index["domains"][name]
        train[name] = _without(text, numbers)
        if not len(train[name]):
            raise DataError(
                f"Expected training text in '{name}' that does not hold documents of targets, "
                "found none"
            )
        side = entry["train"] | {
            "tokens": len(train[name]),
            "independent_documents": len(train[name].ends),
            "sha256": content_hash([entry["train"]["sha256"], numbers.tolist()]),
            "ends_sha256": hashlib.sha256(train[name].ends.tobytes()).hexdigest(),
        }
        for key, count in _size_of(store, name, numbers).items():
            if key in side:
                side[key] = max(0, side[key] - count)
        if sampled := side.get("in_all"):
            share = len(train[name]) / len(text)
            side["in_all"] = {
                key: None if value is None else round(share * value)
                for key, value in sampled.items()
            }
        dropped = entry.get("in_targets_dropped", 0) + len(numbers)
        domains[name] = {**entry, "train": side, "in_targets_dropped": dropped}
    index = store.index
    sha256 = sha256_of(domains, store.tokenizer_sha256, store.vocabulary, index["dtype"])
    again = store.reopen or partial(open_store, store.folder, verify=False)
    return dataclasses.replace(
        store,
        train=train,
        index={**index, "domains": domains, "sha256": sha256},
        reopen=partial(_reopened, again, training),
    )


def _reopened(reopen: Callable[[], TokenStore], training: Mapping[str, np.ndarray]) -> TokenStore:
    return without_training(reopen(), training)


def _without(text: Text, numbers: np.ndarray) -> Text:
    """A text without some documents. It is read in as many runs as lie between these."""
    sizes = np.diff(text.ends, prepend=0)
    gone = np.zeros(len(sizes), bool)
    gone[numbers] = True
    starts, stops = text.ends[gone] - sizes[gone], text.ends[gone]
    begins, ends = np.append(0, stops), np.append(starts, len(text))
    full = ends > begins
    left = np.cumsum(sizes[~gone]).astype(text.ends.dtype)
    left.flags.writeable = False
    return Text(kept(text.tokens, (begins[full], ends[full])), left, text.files)


def _size_of(store: TokenStore, name: str, numbers: np.ndarray) -> dict[str, int]:
    """The bytes of training documents, and how many documents of the file they are: one that is
    long was cut into several, which all end with the token that ends a text."""
    text, known = store.train[name], token_bytes(store.tokenizer)
    end = load_encoder(store.tokenizer)[1]
    sizes = np.zeros(max(store.vocabulary, len(known)), np.int64)
    sizes[: len(known)] = [len(token or b"") for token in known]
    starts, ends = text.starts[numbers], text.ends[numbers]
    found = {"bytes": 0, "documents": 0}
    for start, stop in zip(starts.tolist(), ends.tolist(), strict=True):
        terminal.stop_if_asked()
        tokens = store.read("train", name, slice(start, stop))
        found["bytes"] += int(sizes[tokens].sum())
        found["documents"] += max(1, int((tokens == end).sum()))
    return found
