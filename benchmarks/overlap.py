"""How long it takes to find targets in training text, and which copies are found.

    python benchmarks/overlap.py --gigabytes 1 4 --documents 200 10000

The text is the Python source of this environment: tokens of two bytes, of a tokenizer of 8,192,
which are repeated until they are as large as asked. The targets are passages of 60 words that are
not in it. It prints how long the comparison takes, beside reading the tokens once, block by block.

Then passages of the text are changed in ways that leave their words as they are. It prints how many
are found by runs of 13 words, as the package does, and by runs of 13 tokens, which is simpler. Of
passages of other files it prints how many are found: copied functions, and licences.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from bydore_pyro.data import Text, TokenStore, find_overlap, load_encoder
from bydore_pyro.data.overlap import BLOCK, COVERED, RUN
from bydore_pyro.data.tokenizer import encode, train_tokenizer

DTYPE, VOCABULARY, WORDS = np.dtype("<u2"), 8192, 60
CHANGES: dict[str, Callable[[str], str]] = {
    "none": str,
    "every space is a line break": lambda text: "\n".join(text.split()),
    "upper case": str.upper,
    "without commas and full stops": lambda text: text.replace(",", "").replace(".", ""),
}


def source_texts(megabytes: float) -> list[str]:
    """Returns so many MB of the Python files of this environment, in an order of a seed."""
    folder = Path(np.__file__).parents[1]
    paths = sorted(folder.rglob("*.py"))
    found, size = [], 0.0
    for i in np.random.default_rng(0).permutation(len(paths)):
        text = paths[i].read_text(encoding="utf-8", errors="ignore")[:20_000]
        if len(text.split()) > 3 * WORDS:
            found.append(text)
            size += len(text)
        if size > megabytes * 1e6:
            break
    return found


class Corpus:
    """Texts as tokens.

    Args:
        folder: Where the tokenizer goes.
        texts: That are trained on.
    """

    def __init__(self, folder: Path, texts: Sequence[str]) -> None:
        self.folder, self.texts = folder, texts
        train_tokenizer(texts[:300], VOCABULARY, folder / "tokenizer")
        self._encoder = load_encoder(folder / "tokenizer")
        self.text = self.encoded(texts)

    def encoded(self, texts: Sequence[str]) -> Text:
        """Returns texts as a text."""
        tokens, lengths = encode(*self._encoder, DTYPE, list(texts))
        return Text(tokens, np.cumsum(lengths))

    def store(self, gigabytes: float | None = None) -> TokenStore:
        """Returns a store of one domain, whose text is repeated, in a file."""
        text = self.text
        if gigabytes is not None:
            times = max(1, round(gigabytes * 1e9 / DTYPE.itemsize / len(text)))
            path = self.folder / "tokens.bin"
            with path.open("wb") as file:
                for _ in range(times):
                    np.asarray(text).tofile(file)
            ends = (text.ends + len(text) * np.arange(times)[:, None]).ravel()
            text = Text(np.memmap(path, DTYPE, "r"), ends)
        index = {"vocabulary": VOCABULARY, "dtype": DTYPE.str}
        return TokenStore(self.folder, {"source": text}, {}, index)


def passage(text: str, rng: np.random.Generator) -> str:
    """Returns words of a text that follow one another, as they stand in it."""
    words = list(re.finditer(r"\S+", text))
    begin = int(rng.integers(len(words) - WORDS))
    return text[words[begin].start() : words[begin + WORDS].start()]


def speed(corpus: Corpus, gigabytes: float, targets: Text) -> str:
    """Returns what the comparison takes, beside reading."""
    store = corpus.store(gigabytes)
    size = len(store.train["source"])
    start = time.perf_counter()
    for begin in range(0, size, BLOCK):
        store.read("train", "source", slice(begin, begin + BLOCK))
    reading, start = time.perf_counter() - start, time.perf_counter()
    of_processor = time.process_time()
    find_overlap(store, {"exam": targets})
    seconds = time.perf_counter() - start
    of_processor = time.process_time() - of_processor
    gigabytes = size * DTYPE.itemsize / 1e9
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return (
        f"{gigabytes:.2f} GB, {len(targets.ends):,} documents: {seconds:.1f} s, "
        f"{60 * gigabytes / seconds:.1f} GB per minute with {os.cpu_count()} cores; "
        f"{60 * gigabytes / of_processor:.1f} GB per minute of one core; "
        f"{seconds / reading:.0f} times the time of reading ({reading:.2f} s); "
        f"peak memory {memory:.2f} GB"
    )


def found_by_tokens(corpus: Corpus, texts: Sequence[str], sources: Sequence[int]) -> int:
    """Returns how many texts have at least half of their tokens in runs of 13 tokens that the
    document has from which each was taken."""
    found, targets = 0, corpus.encoded(texts)
    for start, end, source in zip(targets.starts, targets.ends, sources, strict=True):
        own = np.asarray(targets[start : end - 1])
        there = corpus.text[corpus.text.starts[source] : corpus.text.ends[source]]
        known = {run.tobytes() for run in np.lib.stride_tricks.sliding_window_view(there, RUN)}
        covered = np.zeros(len(own), bool)
        for begin in range(len(own) - RUN + 1):
            if own[begin : begin + RUN].tobytes() in known:
                covered[begin : begin + RUN] = True
        found += bool(covered.mean() >= COVERED)
    return found


def planted(corpus: Corpus, others: Sequence[str], count: int) -> str:
    """Returns how many changed passages are found, a line for each change."""
    rng, store = np.random.default_rng(1), corpus.store()
    sources = rng.integers(len(corpus.texts), size=count).tolist()
    passages = [passage(corpus.texts[i], rng) for i in sources]
    lines = []
    for name, change in CHANGES.items():
        texts = [change(text) for text in passages]
        found = find_overlap(store, {"exam": corpus.encoded(texts)})
        by_words = found.standing["exam"].get("source", np.zeros(count, bool)).sum()
        by_tokens = found_by_tokens(corpus, texts, sources)
        lines.append(
            f"passages found of {count}, change: {name}: {by_words} by words, {by_tokens} by tokens"
        )
    texts = [passage(text, rng) for text in others[:count]]
    found = find_overlap(store, {"exam": corpus.encoded(texts)})
    here = found.standing["exam"].get("source", np.zeros(len(texts), bool)).sum()
    return "\n".join([*lines, f"passages of other files found: {here} of {len(texts)}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--gigabytes", type=float, nargs="*", default=[1.0])
    parser.add_argument("--documents", type=int, nargs="*", default=[200, 10_000])
    parser.add_argument("--planted", type=int, default=300)
    parser.add_argument("--megabytes", type=float, default=20.0, help="Text that is repeated.")
    options = parser.parse_args()
    texts = source_texts(1.2 * options.megabytes)
    held_out = len(texts) // 6
    with tempfile.TemporaryDirectory() as folder:
        corpus = Corpus(Path(folder), texts[held_out:])
        rng = np.random.default_rng(2)
        for documents in options.documents:
            picked = rng.integers(held_out, size=documents)
            targets = corpus.encoded([passage(texts[i], rng) for i in picked])
            for gigabytes in options.gigabytes:
                print(speed(corpus, gigabytes, targets), flush=True)
        print(planted(corpus, texts[:held_out], options.planted))


if __name__ == "__main__":
    main()
