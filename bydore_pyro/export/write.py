"""Writes a mixture to a trainer's file: the shares that it wants, rounded, and notes on them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bydore_pyro import data, files
from bydore_pyro.errors import DataError, RunFolderError, expecting, listed
from bydore_pyro.export.formats import (
    FORMATS,
    ExportConfig,
    Share,
    as_stage,
    levanter_block,
    regmix_keys,
)
from bydore_pyro.export.shares import (
    DocumentLength,
    converted,
    document_shares,
    rounded,
    tokens_per_byte,
    tokens_per_document,
)
from bydore_pyro.mixture import (
    MOST_SHOWN,
    Mixture,
    mixture_from,
    names_of_paths,
    names_of_prefixes,
)

DIGITS = 6  # of the weights
DIGITS_OF_DOCUMENTS = 9  # a domain of long ones may have a tiny share of them
FEW = 10  # names in a note
OF_RUNS = ("mixture.json", "given_mixture.json")  # the mixtures in a run's folder
PATHS_ALONE = ("megatron", "nemo", "nanotron")  # whose files have no names


@dataclass(frozen=True, kw_only=True)
class Exported:
    """A trainer's file, and notes on it.

    Attributes:
        text: Of the file.
        shares: What it gives each domain; in decimals they sum to 1.
        notes: What the user must know, a line each.
    """

    text: str
    shares: dict[str, float]
    notes: tuple[str, ...]


def export_from(source: str, config: ExportConfig) -> Exported:
    """Reads a mixture and writes it in a trainer's format.

    Args:
        source: A run's folder, a file of weights or a published mixture, see `mixture_from`.
        config: Which format, and for which tokenizer.

    Raises:
        DataError: When there is no such mixture, the store is another's, or see `export`.
        RunFolderError: When the run's manifest is damaged.

    Warns:
        UserWarning: When an option has no effect, or the weights are shares of another tokenizer's
            tokens.
    """
    mixture, lengths = mixture_from(source), None
    notes = list(mixture.notes)
    store = None if config.data is None else data.open_store(Path(config.data))
    if config.drawn == "documents":
        index = store.index if store else _manifest(Path(source))
        if index is not None:
            mixture.check(index["domains"], index["tokenizer_sha256"], source)
            lengths = tokens_per_document(index, _weighted(mixture))
        if config.tokenizer is not None:
            warnings.warn(
                "tokenizer has no effect where documents are drawn: shares of documents do not "
                "depend on the tokenizer",
                stacklevel=2,
            )
    elif config.tokenizer is not None:
        mixture = _carried(mixture, source, Path(config.tokenizer), store, notes)
    elif store is not None:
        warnings.warn(
            f"data has no effect: {config.to} takes shares of tokens as they are", stacklevel=2
        )
    found = export(mixture, config, lengths)
    return Exported(text=found.text, shares=found.shares, notes=(*notes, *found.notes))


def _weighted(mixture: Mixture) -> list[str]:
    return [name for name, weight in mixture.as_dict().items() if weight > 0]


def _manifest(source: Path) -> dict[str, Any] | None:
    """Returns what a run noted of its text, by its folder or one of its mixtures; None where there
    is no run or it noted nothing."""
    folder = source.parent if source.name in OF_RUNS else source
    path = folder / "manifest.json"
    if not path.is_file():
        return None
    with expecting(f"Expected a run's manifest, found {path}:", as_error=RunFolderError):
        content = files.read_json(path)
        needed = {key: content[key] for key in ("domains", "tokenizer_sha256")}
        return {**needed, data.UNITS: content.get(data.UNITS, {})}


def _carried(
    mixture: Mixture, source: str, folder: Path, store: data.TokenStore | None, notes: list[str]
) -> Mixture:
    """Returns the mixture for another tokenizer: converted where there is text, else as it is."""
    data.load_encoder(folder)  # so that a folder without one is named as such
    sha256 = data.tokenizer_sha256(folder)
    if mixture.tokenizer == sha256:
        notes.append(f"The weights are shares of the tokens of {folder} already.")
        return mixture
    if store is None:
        whose = "a tokenizer that it does not name"
        if mixture.tokenizer is not None:
            whose = f"another tokenizer ({mixture.tokenizer[:12]})"
        warnings.warn(
            f"{source}: the weights are shares of the tokens of {whose}, not of those of {folder} "
            f"({sha256[:12]}): for that tokenizer they are another mixture of text; --data STORE "
            "converts them",
            stacklevel=3,
        )
        return mixture
    if mixture.tokenizer is None:
        warnings.warn(f"{source} does not name its tokenizer; the store's is assumed", stacklevel=3)
    elif mixture.tokenizer != store.tokenizer_sha256:
        raise DataError(
            f"Expected a store of the mixture's tokenizer ({mixture.tokenizer[:12]}), found "
            f"{store.tokenizer_sha256[:12]} in {store.folder}"
        )
    measured = tokens_per_byte(store, folder, _weighted(mixture))
    new = converted(mixture, measured, folder)
    notes.append(f"Converted to shares of the tokens of {folder}, by tokens per byte:")
    before, after = mixture.as_dict(), new.as_dict()
    ordered = sorted(measured, key=lambda name: -after[name])
    for name in ordered[:MOST_SHOWN]:
        old, anew = measured[name]
        line = f"  {name}: {old:.4f} -> {anew:.4f}, weight {before[name]:.6f} -> {after[name]:.6f}"
        notes.append(line)
    if len(ordered) > MOST_SHOWN:
        notes.append(f"  and {len(ordered) - MOST_SHOWN} domains of less weight")
    return new


def export(
    mixture: Mixture, config: ExportConfig, lengths: Mapping[str, DocumentLength] | None = None
) -> Exported:
    """Writes a mixture in a trainer's format.

    Args:
        mixture: Shares of tokens.
        config: Which format, and how.
        lengths: Of the documents that the trainer draws, by domain, where the shares are of those.

    Raises:
        DataError: When the format needs a prefix or tokens per document and there are none, or a
            name or path cannot stand in it.

    Warns:
        UserWarning: When an option has no effect in the format.
    """
    form = FORMATS[config.to]
    if form.paths == "needed" and config.prefix is None and config.paths is None:
        raise DataError(
            f"Expected --prefix for {config.to}, a folder or a template such as "
            "/data/{domain}, or --paths, found none"
        )
    if form.paths == "unused" and (config.prefix or config.paths) is not None:
        warnings.warn(f"prefix has no effect in {config.to}, which has no paths", stacklevel=2)
    weights, notes = _wanted(mixture.as_dict(), config, lengths)
    digits = DIGITS_OF_DOCUMENTS if config.drawn == "documents" else DIGITS
    shares = rounded(weights, digits)
    notes += _notes_on_small(weights, shares, config, digits)
    kept = {name: share for name, share in shares.items() if share > 0 or form.keeps_zeros}
    places = config.places(kept)
    listed = [Share(name=name, weight=w, paths=places[name]) for name, w in kept.items()]
    if config.to == "regmix" and config.paths is None:  # files of those without weight lie there
        regmix_keys([Share(name=name, weight=0, paths=(config.path(name),)) for name in shares])
    notes += _note_on_names(listed, config.to)
    text = form.write(listed, config.drawn)
    if config.from_step is not None:
        text = as_stage(config.to, text, config.from_step)
    return Exported(text=text, shares=kept, notes=tuple(notes))


def _wanted(
    weights: dict[str, float], config: ExportConfig, lengths: Mapping[str, DocumentLength] | None
) -> tuple[dict[str, float], list[str]]:
    others = [] if config.samples else FORMATS[config.to].draws[1:]
    notes = [f"Where it draws {other}: --samples {other}." for other in others]
    if config.drawn != "documents":
        draws = "counts tokens" if config.drawn == "tokens" else "draws sequences of one length"
        return weights, [f"Per token: {config.to} {draws}.", *notes]
    if lengths is None:
        raise DataError(
            f"Expected tokens per document, because {config.to} draws documents, found none: give "
            "--data STORE, or --samples sequences if yours are packed to one length"
        )
    known = {name: lengths[name] for name, weight in weights.items() if weight > 0}
    means = listed(
        [f"{n} {of.tokens:.1f}, of {of.number:,} {of.kind}" for n, of in known.items()], FEW
    )
    about = (
        f"Per document: {config.to} draws whole rows or files, so shares of tokens were divided by "
        f"the mean tokens of yours ({means})."
    )
    return document_shares(weights, {n: of.tokens for n, of in known.items()}), [about, *notes]


def _notes_on_small(
    weights: Mapping[str, float], shares: Mapping[str, float], config: ExportConfig, digits: int
) -> list[str]:
    form = FORMATS[config.to]
    verb = "Kept at 0" if form.keeps_zeros else "Dropped"
    none = [n for n in shares if weights[n] == 0]
    tiny = [n for n in shares if shares[n] == 0 < weights[n]]
    small = [n for n in shares if 0 < shares[n] < form.smallest]
    block, never = levanter_block([*shares.values()]), list[str]()
    if config.to == "levanter":
        never = [n for n in shares if shares[n] > 0 and int(shares[n] * block) == 0]
    reasons = {
        f"{verb}, having no weight": none,
        f"{verb}, rounded to 0 in units of {10.0**-digits:.{digits}f}": tiny,
        f"Below {form.smallest:.2g}, {form.caution}": small,
        f"Never sampled, since {block} samples are shared out at once": never,
    }
    return [f"{reason}: {listed(names, FEW)}." for reason, names in reasons.items() if names]


def _note_on_names(shares: Sequence[Share], to: str) -> list[str]:
    """Returns what domains are called by a reader of a file that holds their paths alone, where
    that is not their names."""
    paths, names = [share.path for share in shares], [share.name for share in shares]
    if to == "regmix":
        read, _ = names_of_prefixes(regmix_keys(shares))
    elif to in PATHS_ALONE:
        read, _ = names_of_paths(paths)
    else:
        return []
    changed = [f"'{b}' for '{a}'" for a, b in zip(names, read, strict=True) if a != b]
    if not changed:
        return []
    return [f"The file has paths, no names: bydore reads it back with {listed(changed, 3)}."]
