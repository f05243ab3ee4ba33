"""``bydore export``: a mixture in a trainer's own format."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bydore_pyro.export import FORMATS, ExportConfig
from bydore_pyro.mixture import Mixture, mixture_for, mixture_from
from bydore_pyro.utils import (
    DataError,
    RunFolderError,
    appearing_file,
    fail,
    one_line_errors,
    parse_options,
    require_new_file,
    tell,
)

if TYPE_CHECKING:
    from bydore_pyro.data import TokenStore

__all__ = ["ExportOptions", "FilesConfig", "export_command"]


@dataclass(frozen=True, kw_only=True)
class FilesConfig:
    """What is done to the mixture first, what is read beside it, and where the file goes."""

    out: str | None = field(default=None, metadata={"help": "File to write; printed if not given."})
    target_tokens: float | None = field(
        default=None,
        metadata={
            "help": "Of a search for runs of several lengths, the one whose weights are meant; the "
            "first if not given."
        },
    )
    prune: bool = field(
        default=False,
        metadata={
            "help": "Leave out the domains whose whole interval lies below the prior's share (for "
            "a search, the uniform share)."
        },
    )
    data: str | None = field(
        default=None,
        metadata={
            "help": "Token store, for tokens per document and for --convert_tokens; a run's own "
            "counts of documents are used if not given."
        },
    )
    tokenizer: str | None = field(
        default=None,
        metadata={"help": "Folder of the tokenizer that you train with, if it is another one."},
    )
    convert_tokens: bool = field(
        default=False,
        metadata={
            "help": "Turn the weights into shares of that tokenizer's tokens, by tokens per byte "
            "measured on the store's text."
        },
    )

    def __post_init__(self) -> None:
        for name in ("out", "data", "tokenizer"):
            if getattr(self, name) == "":
                raise ValueError(f"Expected a value for --{name}, found an empty one")
        if self.convert_tokens and (self.tokenizer is None or self.data is None):
            raise ValueError(
                "Expected --tokenizer FOLDER and --data STORE with --convert_tokens, found only "
                f"{'--data' if self.data else '--tokenizer' if self.tokenizer else 'itself'}"
            )


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """All options of `bydore export`."""

    export: ExportConfig
    files: FilesConfig


def export_command(arguments: Sequence[str]) -> None:
    """Writes a mixture in a trainer's own format: bydore export RUN --to FORMAT. RUN is a run's
    folder, a file of weights, or a published mixture such as published:doremi."""
    name = "bydore export"
    given = list(arguments)
    if not {"-h", "--help"} & {*given} and (not given or given[0].startswith("-")):
        fail(name, f"Expected RUN --to FORMAT, found {' '.join(given) or 'nothing'}")
    run = given.pop(0) if not given[0].startswith("-") else ""
    with one_line_errors(name):
        about = export_command.__doc__ or ""
        options = parse_options(given, name, about, ExportOptions)
        _export(run, options)


def _export(run: str, options: ExportOptions) -> None:
    from bydore_pyro.data import open_store
    from bydore_pyro.export import export, tokens_per_document

    config, files = options.export, options.files
    if files.out is not None:
        require_new_file(Path(files.out))
    length, pruned = files.target_tokens, []
    mixture = mixture_from(run) if length is None else mixture_for(Path(run), length)
    if files.prune:
        below = [name for name, verdict in mixture.verdicts().items() if verdict == "below"]
        against = "equal shares" if mixture.prior is None else "the prior"
        pruned = [f"Pruned, the whole interval below {against}: {', '.join(below) or 'none'}."]
        if mixture.pruning_hurts() and mixture.predicted_loss is not None:
            predicted = mixture.predicted_loss
            warnings.warn(
                f"{run}: pruned, the weights are predicted to be worse, "
                f"{predicted['pruned'][0]:.4f} against {predicted['weights'][0]:.4f} nats per "
                "token; without --prune they stay as they are",
                stacklevel=2,
            )
        mixture = mixture.pruned()
    store = None if files.data is None else open_store(Path(files.data))
    lengths = None
    if config.drawn == "documents":
        index = store.index if store else _manifest(Path(run))
        if index is not None:
            mixture.check(index["domains"], index["tokenizer_sha256"], run)
            lengths = tokens_per_document(index, mixture.as_dict())
        if files.tokenizer is not None:
            warnings.warn(
                "tokenizer has no effect where documents are drawn: shares of documents do not "
                "depend on the tokenizer",
                stacklevel=2,
            )
    elif files.tokenizer is not None:
        mixture = _carried(mixture, run, files, store)
    elif store is not None:
        warnings.warn(
            f"data has no effect: {config.to} takes shares of tokens as they are", stacklevel=2
        )
    found = export(mixture, config, lengths)
    if files.out is None:
        sys.stdout.write(found.text)
    else:
        with appearing_file(Path(files.out)) as aside:
            aside.write_text(found.text, encoding="utf-8")
    for note in (*pruned, *found.notes):
        tell(note)
    tell(f"Next: {FORMATS[config.to].use.replace('{file}', files.out or 'FILE')}")


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


def _carried(mixture: Mixture, run: str, files: FilesConfig, store: TokenStore | None) -> Mixture:
    """Returns the mixture for another tokenizer: converted where that is asked for, else as it is.

    Raises:
        DataError: When the store's tokenizer is not the mixture's.

    Warns:
        UserWarning: When the weights stay shares of another tokenizer's tokens, or it is not known
            of which tokenizer's they are.
    """
    from bydore_pyro.data import load_encoder, tokenizer_sha256
    from bydore_pyro.export import converted, tokens_per_byte

    folder = Path(str(files.tokenizer))
    load_encoder(folder)  # so that a folder without one is told as such
    sha256 = tokenizer_sha256(folder)
    if mixture.tokenizer == sha256:
        tell(f"The weights are shares of the tokens of {folder} already.")
        return mixture
    if store is None or not files.convert_tokens:
        whose = "a tokenizer that it does not name"
        if mixture.tokenizer is not None:
            whose = f"another tokenizer ({mixture.tokenizer[:12]})"
        warnings.warn(
            f"{run}: the weights are shares of the tokens of {whose}, not of those of {folder} "
            f"({sha256[:12]}): for that tokenizer they are another mixture of text; "
            "--convert_tokens --data STORE converts them",
            stacklevel=2,
        )
        return mixture
    if mixture.tokenizer is None:
        warnings.warn(
            f"{run} does not name its tokenizer; the store's is taken for it", stacklevel=2
        )
    elif mixture.tokenizer != store.tokenizer_sha256:
        raise DataError(
            f"Expected a store of the mixture's tokenizer ({mixture.tokenizer[:12]}), found "
            f"{store.tokenizer_sha256[:12]} in {store.folder}"
        )
    wanted = [name for name, weight in mixture.as_dict().items() if weight > 0]
    measured = tokens_per_byte(store, folder, wanted)
    new = converted(mixture, measured, folder)
    tell(f"Converted to shares of the tokens of {folder}, by tokens per byte:")
    for name in wanted:
        tokens = measured[name]
        tell(
            f"  {name}: {tokens.old:.4f} -> {tokens.new:.4f}, weight "
            f"{mixture.as_dict()[name]:.6f} -> {new.as_dict()[name]:.6f}"
        )
    return new
