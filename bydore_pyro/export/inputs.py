"""What is exported: a mixture, where asked for carried over to another tokenizer."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bydore_pyro.data import TokenStore, load_encoder, open_store, tokenizer_sha256
from bydore_pyro.export.formats import ExportConfig
from bydore_pyro.export.shares import tokens_per_document
from bydore_pyro.export.units import converted, tokens_per_byte
from bydore_pyro.mixture import Mixture, mixture_from
from bydore_pyro.utils import DataError, RunFolderError, option, require_fields

__all__ = ["InputConfig", "Inputs", "read_inputs"]


@dataclass(frozen=True, kw_only=True)
class InputConfig:
    """What is done to the mixture first, and what is read beside it.

    Raises:
        ValueError: When an option is out of its range, or `convert_tokens` is given without
            `tokenizer` or without `data`.
    """

    data: str | None = option(
        None,
        "Token store, which supplies tokens per document and the text for --convert_tokens. "
        "Default: the document counts saved with the run.",
    )
    tokenizer: str | None = option(
        None, "Folder of the tokenizer of your training, if it is not that of the search."
    )
    convert_tokens: bool = option(
        False,
        "Convert the weights into shares of that tokenizer's tokens, by the tokens per byte "
        "measured on the store's text.",
    )

    def __post_init__(self) -> None:
        require_fields(self)
        if self.convert_tokens and (self.tokenizer is None or self.data is None):
            found = (
                "only --data" if self.data else "only --tokenizer" if self.tokenizer else "neither"
            )
            raise ValueError(
                f"Expected --tokenizer FOLDER and --data STORE with --convert_tokens, found {found}"
            )


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What `bydore_pyro.export.export` takes.

    Attributes:
        mixture: The weights.
        lengths: Tokens of a document by domain, where documents are drawn and they are known.
        notes: What was done to the weights, a line each.
    """

    mixture: Mixture
    lengths: dict[str, float] | None
    notes: list[str]


def read_inputs(source: str, config: ExportConfig, wanted: InputConfig) -> Inputs:
    """Reads a mixture and makes of it what is to be exported.

    Args:
        source: A run's folder, a file of weights or a published mixture, see `mixture_from`.
        config: The format.
        wanted: For which tokenizer.

    Raises:
        DataError: When there is no such mixture, or the store is another's.
        RunFolderError: When the run's manifest is damaged.

    Warns:
        UserWarning: When an option has no effect, or the weights are shares of another tokenizer's
            tokens.
    """
    mixture = mixture_from(source)
    notes = list(mixture.notes)
    store = None if wanted.data is None else open_store(Path(wanted.data))
    lengths = None
    if config.drawn == "documents":
        index = store.index if store else _manifest(Path(source))
        if index is not None:
            mixture.check(index["domains"], index["tokenizer_sha256"], source)
            lengths = tokens_per_document(index, mixture.as_dict())
        if wanted.tokenizer is not None:
            warnings.warn(
                "tokenizer has no effect where documents are drawn: shares of documents do not "
                "depend on the tokenizer",
                stacklevel=2,
            )
    elif wanted.tokenizer is not None:
        mixture = _carried(mixture, source, wanted, store, notes)
    elif store is not None:
        warnings.warn(
            f"data has no effect: {config.to} takes shares of tokens as they are", stacklevel=2
        )
    return Inputs(mixture=mixture, lengths=lengths, notes=notes)


def _manifest(folder: Path) -> dict[str, Any] | None:
    """Returns what a run noted of its text, None where there is no run or it noted nothing."""
    path = folder / "manifest.json"
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {key: content[key] for key in ("domains", "tokenizer_sha256")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunFolderError(f"Expected a run's manifest, found {path}: {error}") from None


def _carried(
    mixture: Mixture, source: str, wanted: InputConfig, store: TokenStore | None, notes: list[str]
) -> Mixture:
    """Returns the mixture for another tokenizer: converted where that is asked for, else as it is.

    Raises:
        DataError: When the store's tokenizer is not the mixture's.

    Warns:
        UserWarning: When the weights stay shares of another tokenizer's tokens, or it is not known
            of which tokenizer's they are.
    """
    folder = Path(str(wanted.tokenizer))
    load_encoder(folder)  # so that a folder without one is told as such
    sha256 = tokenizer_sha256(folder)
    if mixture.tokenizer == sha256:
        notes.append(f"The weights are shares of the tokens of {folder} already.")
        return mixture
    if store is None or not wanted.convert_tokens:
        whose = "a tokenizer that it does not name"
        if mixture.tokenizer is not None:
            whose = f"another tokenizer ({mixture.tokenizer[:12]})"
        warnings.warn(
            f"{source}: the weights are shares of the tokens of {whose}, not of those of {folder} "
            f"({sha256[:12]}): for that tokenizer they are another mixture of text; "
            "--convert_tokens --data STORE converts them",
            stacklevel=2,
        )
        return mixture
    if mixture.tokenizer is None:
        warnings.warn(f"{source} does not name its tokenizer; the store's is assumed", stacklevel=2)
    elif mixture.tokenizer != store.tokenizer_sha256:
        raise DataError(
            f"Expected a store of the mixture's tokenizer ({mixture.tokenizer[:12]}), found "
            f"{store.tokenizer_sha256[:12]} in {store.folder}"
        )
    names = [name for name, weight in mixture.as_dict().items() if weight > 0]
    measured = tokens_per_byte(store, folder, names)
    new = converted(mixture, measured, folder)
    notes.append(f"Converted to shares of the tokens of {folder}, by tokens per byte:")
    for name in names:
        tokens = measured[name]
        notes.append(
            f"  {name}: {tokens.old:.4f} -> {tokens.new:.4f}, weight "
            f"{mixture.as_dict()[name]:.6f} -> {new.as_dict()[name]:.6f}"
        )
    return new
