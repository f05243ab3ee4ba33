"""The tokenizer: any of Hugging Face's, or a byte-level BPE trained on the corpus."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bydore_pyro.utils import DataError, one_line, option, require_fields

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = [
    "END_OF_TEXT",
    "TokenizerConfig",
    "load_encoder",
    "save_tokenizer",
    "tokenizer_sha256",
    "train_tokenizer",
]

END_OF_TEXT = "<|endoftext|>"
FILE = "tokenizer.json"


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """The tokenizer."""

    tokenizer: str | None = option(
        None,
        "Hugging Face tokenizer: a folder or a hub name. Default: a byte-level BPE, trained on "
        "the training text.",
    )
    vocabulary: int = option(
        2048, "Size of the vocabulary, if a tokenizer is trained.", least=257, most=2**17
    )
    tokenizer_megabytes: float = option(
        32.0,
        "MB of text on which a tokenizer is trained, equally many of each domain.",
        above=0,
        most=1e4,
    )

    def __post_init__(self) -> None:
        require_fields(self)


def train_tokenizer(texts: Iterable[str], vocabulary: int, folder: Path) -> None:
    """Trains a byte-level BPE and writes it as `AutoTokenizer.from_pretrained(folder)` reads it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END_OF_TEXT)
    fast.save_pretrained(str(folder))


def save_tokenizer(name: str, folder: Path) -> None:
    """Loads a Hugging Face tokenizer, without running code that comes with it, and writes it.

    Raises:
        DataError: When there is none, it has no `tokenizers` backend, or no end-of-text token.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    except Exception as error:  # transformers raises whatever it met
        raise DataError(
            f"Expected a tokenizer's folder or hub name, found '{name}': {one_line(error)}"
        ) from None
    if not tokenizer.is_fast:
        raise DataError(f"Expected a tokenizer with a {FILE}, found '{name}' without")
    if tokenizer.eos_token is None:
        raise DataError(f"Expected a tokenizer with an end-of-text token, found '{name}' without")
    tokenizer.save_pretrained(str(folder))


def load_encoder(folder: Path) -> tuple[Tokenizer, int]:
    """Returns the tokenizer that encodes documents, and the token that ends one.

    Special tokens that stand in the text as words are encoded as words; nothing is cut or padded.

    Raises:
        DataError: When the folder holds no tokenizer that can be read.
    """
    import json

    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(folder / FILE))
        config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        end = config["eos_token"]
        token = tokenizer.token_to_id(end if isinstance(end, str) else end["content"])
        if token is None:
            raise ValueError(f"no token {end}")
    except Exception as error:  # tokenizers raises nothing narrower
        raise DataError(f"Expected a tokenizer in {folder}, found: {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer, token


def tokenizer_sha256(folder: Path) -> str:
    """Returns the hash of the tokenizer's file: two with the same hash give the same tokens."""
    return hashlib.sha256((folder / FILE).read_bytes()).hexdigest()
