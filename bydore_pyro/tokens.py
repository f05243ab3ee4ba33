"""Text to tokens: a byte-level BPE tokenizer trained on the corpus, and token arrays, cached."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from bydore_pyro.corpus import CorpusConfig, SourceFile, TextCorpus, build_corpus
from bydore_pyro.errors import DataError
from bydore_pyro.files import appearing_folder
from bydore_pyro.rows import RowConfig
from bydore_pyro.sources import list_sources

__all__ = ["END_OF_TEXT", "TokenCorpus", "TokenizerConfig", "load_tokens"]

log = logging.getLogger(__name__)

END_OF_TEXT = "<|endoftext|>"
SMALLEST_ENVIRONMENT_DOMAIN = 500_000  # bytes
CACHE_VERSION = 2


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """The tokenizer that is trained on the training text."""

    vocabulary: int = field(
        default=2048, metadata={"help": "Tokens of the byte-level BPE tokenizer."}
    )

    def __post_init__(self) -> None:
        if not 257 <= self.vocabulary <= 2**17:
            raise ValueError(f"Expected vocabulary in [257, 131072], actual {self.vocabulary}")


@dataclass(frozen=True)
class TokenCorpus:
    """Tokens by domain and split, one array each; documents end with `END_OF_TEXT`.

    `tokenizer` is the tokenizer's file (the format of `tokenizers` and of
    `PreTrainedTokenizerFast(tokenizer_file=...)`), `sha256` the hash of the text.
    """

    train: dict[str, np.ndarray]
    validation: dict[str, np.ndarray]
    tokenizer: Path
    vocabulary: int
    manifest: dict = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The domains, sorted."""
        return tuple(self.train)

    @property
    def sha256(self) -> str:
        """The hash of the manifest: two runs with the same hash saw the same text."""
        return self.manifest["sha256"]


def load_tokens(
    data: str,
    corpus: CorpusConfig | None = None,
    tokenizer: TokenizerConfig | None = None,
    rows: RowConfig | None = None,
    *,
    needed: Iterable[str] = (),
    cache: Path | None = None,
    progress: Callable[[str], None] = log.info,
) -> TokenCorpus:
    """Reads, tokenizes and caches the named data.

    Args:
        data: What `bydore_pyro.sources.list_sources` takes: ``"environment"``, a folder of domains,
            a list of domains, ``"pile:FOLDER"``.
        corpus: How documents are made.
        tokenizer: How large the vocabulary is.
        rows: The columns of files of rows.
        needed: Domains that must be among the data's; checked before anything is read.
        cache: Where tokens are kept; ``$XDG_CACHE_HOME/bydore_pyro`` when None.
        progress: Told what is going on, line by line.

    Raises:
        DataError: When the data does not exist, lacks a needed domain, or a domain of a folder has
            no usable document.
    """
    corpus, tokenizer = corpus or CorpusConfig(), tokenizer or TokenizerConfig()
    rows = rows or RowConfig()
    sources = list_sources(data, rows, progress)
    for name in needed:
        if name not in sources:
            known = ", ".join(sorted(sources))
            raise DataError(f"Expected a domain of the data ({known}), found '{name}'")
    folder = (cache or default_cache()) / _key(data, sources, corpus, tokenizer, rows)
    if folder.is_dir():
        try:
            return _read(folder)
        except PermissionError:
            raise
        except Exception as error:  # tokenizers raises nothing narrower
            progress(f"cached tokens in {folder} are damaged ({error}): building them again")
            shutil.rmtree(folder, ignore_errors=True)
    progress(f"reading text: {data}")
    text = build_corpus(sources, corpus, origin=data)
    if data == "environment":
        text = _drop_small(text, corpus.domain_megabytes * 1e6)
        for name, size in text.manifest["left_out_as_too_small"].items():
            progress(f"left out, for it has only {size / 1e6:.2f} MB: {name}")
    else:
        _refuse_empty(text)
    progress(f"training a tokenizer and encoding {len(text.names)} domains")
    with appearing_folder(folder) as aside:
        _write(aside, text, tokenizer)
    return _read(folder)


def default_cache() -> Path:
    """Returns the user's cache folder for this package."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "bydore_pyro"


def _key(
    data: str,
    sources: dict[str, list[SourceFile]],
    corpus: CorpusConfig,
    tokenizer: TokenizerConfig,
    rows: RowConfig,
) -> str:
    """A hash of every candidate file's name, size and time, and of all options."""
    digest = hashlib.sha256(
        json.dumps([CACHE_VERSION, data, asdict(corpus), asdict(tokenizer), asdict(rows)]).encode()
    )
    for domain in sorted(sources):
        for source in sorted(sources[domain], key=lambda s: s.name):
            status = source.path.stat()
            line = f"{domain}\0{source.name}\0{status.st_size}\0{status.st_mtime_ns}\n"
            digest.update(line.encode())
    return digest.hexdigest()[:16]


def _drop_small(text: TextCorpus, cap: float) -> TextCorpus:
    sizes = {name: text.manifest["domains"][name]["bytes"] for name in text.names}
    smallest = min(SMALLEST_ENVIRONMENT_DOMAIN, cap)
    small = {name: size for name, size in sizes.items() if size < smallest}
    manifest = {**text.manifest, "left_out_as_too_small": small}
    return TextCorpus(
        {name: documents for name, documents in text.train.items() if name not in small},
        {name: documents for name, documents in text.validation.items() if name not in small},
        manifest,
    )


def _refuse_empty(text: TextCorpus) -> None:
    for name in text.names:
        if not text.train[name]:
            raise DataError(
                f"Expected training text in every domain, found none usable in domain '{name}' "
                f"of {text.manifest['origin']}: {text.manifest['domains'][name]}"
            )


def _write(folder: Path, text: TextCorpus, config: TokenizerConfig) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocabulary,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((d for name in text.names for d in text.train[name]), trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    end = tokenizer.token_to_id(END_OF_TEXT)
    dtype = np.uint16 if tokenizer.get_vocab_size() <= 2**16 else np.uint32
    for split, domains in (("train", text.train), ("validation", text.validation)):
        for name, documents in domains.items():
            encoded = tokenizer.encode_batch_fast(documents, add_special_tokens=False)
            arrays = [np.array([*e.ids, end], dtype=dtype) for e in encoded]
            tokens = np.concatenate(arrays) if arrays else np.empty(0, dtype)
            np.save(folder / f"{name}.{split}.npy", tokens, allow_pickle=False)
    (folder / "manifest.json").write_text(json.dumps(text.manifest, indent=1))


def _read(folder: Path) -> TokenCorpus:
    from tokenizers import Tokenizer

    manifest = json.loads((folder / "manifest.json").read_text())
    left_out = manifest.get("left_out_as_too_small", {})
    names = sorted(name for name in manifest["domains"] if name not in left_out)

    def arrays(split: str) -> dict[str, np.ndarray]:
        found = {
            name: np.load(folder / f"{name}.{split}.npy", mmap_mode="r", allow_pickle=False)
            for name in names
        }
        for name, array in found.items():
            if array.ndim != 1 or array.dtype not in (np.uint16, np.uint32):
                raise DataError(f"Expected tokens, found {array.dtype}{array.shape} for '{name}'")
        return found

    tokenizer = folder / "tokenizer.json"
    vocabulary = Tokenizer.from_file(str(tokenizer)).get_vocab_size()
    return TokenCorpus(arrays("train"), arrays("validation"), tokenizer, vocabulary, manifest)
