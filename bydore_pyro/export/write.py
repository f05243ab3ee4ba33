"""Writes a mixture to a trainer's file: the shares that it wants, rounded, and notes on them."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bydore_pyro import data, files
from bydore_pyro.command_line import warn_idle
from bydore_pyro.errors import DataError, RunFolderError, expecting, listed
from bydore_pyro.export.formats import (
    FORMATS,
    UNIT_OF,
    ExportConfig,
    Share,
    as_stage,
    levanter_block,
    regmix_keys,
    with_meaning,
)
from bydore_pyro.export.shares import converted, rounded, tokens_per_byte
from bydore_pyro.mixture import (
    MOST_SHOWN,
    Exposure,
    Mixture,
    Supply,
    exposures_of,
    mixture_from,
    names_of_paths,
    names_of_prefixes,
    notes_on,
    numbers_of_unit,
    require_epochs,
    supply_from,
    token_shares,
)

DIGITS = 6  # of the weights
DIGITS_OF_DOCUMENTS = 9  # a domain of long ones may have a tiny share of them
FEW = 10  # names in a note
ROUNDING = 1e-5  # of six digits
OF_RUNS = ("mixture.json", "given_mixture.json")  # the mixtures in a run's folder
PATHS_ALONE = ("megatron", "nemo", "nanotron", "trl", "axolotl", "megatron-bridge")  # no names


@dataclass(frozen=True, kw_only=True)
class Exported:
    """A trainer's file, and notes on it.

    Attributes:
        text: Of the file.
        shares: What it gives each domain, of what the trainer draws; in decimals they sum to 1.
            Of epochs, the shares of tokens that they come to.
        notes: What the user must know, a line each.
        exposures: What a run of `tokens` reads of each domain; empty without that length.
    """

    text: str
    shares: dict[str, float]
    notes: tuple[str, ...]
    exposures: tuple[Exposure, ...] = ()


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
    store = None if config.data is None else data.open_store(Path(config.data))
    mixture = mixture_from(source) if store is None else data.read_mixture(source, store)
    notes, factors = list(mixture.notes), dict[str, float]()
    if config.drawn in ("documents", "epochs"):
        if config.tokenizer is not None:
            warnings.warn(
                "tokenizer has no effect where documents are drawn: shares of documents do not "
                "depend on the tokenizer",
                stacklevel=2,
            )
    elif config.tokenizer is not None:
        mixture, factors = _carried(mixture, source, Path(config.tokenizer), store, notes)
    if config.tokens is None:
        warn_idle(config, ("repeat", "sequence_length"), "no tokens")
        if config.domain_tokens and UNIT_OF[config.drawn] == "tokens":
            warnings.warn("domain_tokens has no effect with no tokens", stacklevel=2)
    supply = _supply(mixture, source, config, store, factors)
    found = export(mixture, config, supply)
    return dataclasses.replace(found, notes=(*notes, *found.notes))


def _supply(
    mixture: Mixture,
    source: str,
    config: ExportConfig,
    store: data.TokenStore | None,
    factors: Mapping[str, float],
) -> dict[str, Supply] | None:
    """Returns what there is of the mixture's domains: the user's own rows for a trainer that draws
    these, else the tokens, times factors between tokenizers; sizes that are given count first. None
    where nothing is known."""
    index, names = store.index if store else index_of_run(Path(source)), _weighted(mixture)
    found: dict[str, Supply] | None = None
    if index is not None and (config.drawn in ("documents", "epochs") or config.tokens is not None):
        tokenizer = mixture.tokenizer if config.tokenizer else index["tokenizer_sha256"]
        mixture.check(index["domains"], tokenizer or "", source)
        if config.drawn == "documents":
            found = data.supply_of_rows(index, names)
        elif config.drawn == "epochs":
            found = data.supply_of(index, names)
        else:
            found = data.supply_of_text(index, names)
        found = {n: one._replace(tokens=one.tokens * factors.get(n, 1)) for n, one in found.items()}
    if not config.domain_tokens:
        return found
    sizes = supply_from(config.domain_tokens, mixture.names)
    counted = found or {}
    return counted | {n: one.with_documents_of(counted.get(n)) for n, one in sizes.items()}


def _weighted(mixture: Mixture) -> list[str]:
    return [name for name, weight in mixture.as_dict().items() if weight > 0]


def index_of_run(source: Path) -> dict[str, Any] | None:
    """Returns what a run noted of its text, by its folder or one of its mixtures; None where there
    is no run or it noted nothing.

    Raises:
        RunFolderError: When what it noted is damaged.
    """
    folder = source.parent if source.name in OF_RUNS else source
    path = folder / "manifest.json"
    if not path.is_file():
        return None
    with expecting(f"Expected a run's manifest, found {path}:", as_error=RunFolderError):
        content = files.read_json(path)
        needed = {key: content[key] for key in ("domains", "tokenizer_sha256")}
        stated = {n: float(count) for n, count in content.get(data.DOMAIN_TOKENS, {}).items()}
        more = {key: content.get(key, {}) for key in (data.UNITS, "pools")}
        return needed | more | {data.DOMAIN_TOKENS: stated}


def _carried(
    mixture: Mixture, source: str, folder: Path, store: data.TokenStore | None, notes: list[str]
) -> tuple[Mixture, dict[str, float]]:
    """Returns the mixture for another tokenizer, converted where there is text, else as it is; and
    how many of its tokens are one of the old tokenizer's, where that was measured."""
    data.load_encoder(folder)  # so that a folder without one is named as such
    sha256 = data.tokenizer_sha256(folder)
    if mixture.tokenizer == sha256:
        notes.append(f"The weights are shares of the tokens of {folder} already.")
        return mixture, {}
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
        return mixture, {}
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
    return new, {name: after / before for name, (before, after) in measured.items()}


def export(
    mixture: Mixture, config: ExportConfig, supply: Mapping[str, Supply] | None = None
) -> Exported:
    """Writes a mixture in a trainer's format.

    Args:
        mixture: Shares of tokens.
        config: Which format, and how.
        supply: What there is of each domain, as the trainer has it: rows, where it draws these.

    Raises:
        DataError: When the format needs a prefix, tokens per document or the sizes of domains and
            there are none; when a name or path cannot stand in it; or when the run reads a domain
            more often than `repeat` or the trainer allows.

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
    wanted, notes = _wanted(mixture.as_dict(), config, supply)
    numbers, digits = _rounded(wanted, config)
    shares = token_shares(numbers, UNIT_OF[config.drawn], supply or {})
    notes += _notes_on_small(wanted, numbers, config, digits)
    exposures = exposures_of(shares, config.tokens, supply or {}) if config.tokens else ()
    notes += _notes_on_exposures(exposures, config)
    kept = {name: number for name, number in numbers.items() if number > 0 or form.keeps_zeros}
    places, epochs = config.places(kept), {one.name: one.epochs for one in exposures}
    listed = [
        Share(name=name, weight=number, paths=places[name], epochs=epochs.get(name))
        for name, number in kept.items()
    ]
    if config.to == "regmix" and config.paths is None:  # files of those without weight lie there
        regmix_keys([Share(name=name, weight=0, paths=(config.path(name),)) for name in shares])
    notes += _note_on_names(listed, config.to)
    text = form.write(listed, config.drawn)
    if config.from_step is not None:
        text = as_stage(config.to, text, config.from_step)
    given = {name: shares[name] for name in kept} if config.drawn == "epochs" else kept
    return Exported(
        text=with_meaning(text, form), shares=given, notes=tuple(notes), exposures=exposures
    )


def _wanted(
    weights: dict[str, float], config: ExportConfig, supply: Mapping[str, Supply] | None
) -> tuple[dict[str, float], list[str]]:
    """Returns the numbers that the trainer wants, not yet rounded, and how they were made."""
    others = [] if config.samples else FORMATS[config.to].draws[1:]
    notes = [f"Where it draws {other}: --samples {other}." for other in others]
    unit = UNIT_OF[config.drawn]
    if unit == "tokens":
        draws = "counts tokens" if config.drawn == "tokens" else "draws sequences of one length"
        return weights, [f"Per token: {config.to} {draws}.", *notes]
    if supply is None and unit == "documents":
        raise DataError(
            f"Expected tokens per document, because {config.to} draws documents, found none: give "
            "--data STORE, or --samples sequences if yours are packed to one length"
        )
    numbers = numbers_of_unit(weights, unit, supply or {}, config.tokens or math.nan)
    known = {name: (supply or {})[name] for name, weight in weights.items() if weight > 0}
    if unit == "epochs":
        sizes = listed([f"{name} {of.tokens:,.0f}" for name, of in known.items()], FEW)
        about = (
            f"Epochs: {config.to} wants to know how often a domain is read, so its tokens in the "
            f"run were divided by those that there are ({sizes})."
        )
        return numbers, [about]
    means = listed(
        [f"{n} {of.length:.1f}, of {of.documents:,.0f} {of.kind}" for n, of in known.items()], FEW
    )
    about = (
        f"Per document: {config.to} draws whole rows or files, so shares of tokens were divided by "
        f"the mean tokens of yours ({means})."
    )
    return numbers, [about, *notes]


def _rounded(numbers: Mapping[str, float], config: ExportConfig) -> tuple[dict[str, float], int]:
    """Returns numbers as they stand in the file, and the decimals of shares. Epochs, which have no
    sum, keep six digits."""
    if config.drawn == "epochs":
        return {name: float(f"{number:.6g}") for name, number in numbers.items()}, DIGITS
    digits = DIGITS_OF_DOCUMENTS if config.drawn == "documents" else DIGITS
    return rounded(numbers, digits), digits


def _notes_on_exposures(exposures: Sequence[Exposure], config: ExportConfig) -> list[str]:
    """Returns notes on what a run reads, after checking that it may.

    Raises:
        DataError: When it reads a domain too often.
    """
    form, whole = FORMATS[config.to], UNIT_OF[config.drawn] != "tokens"
    over = [one for one in exposures if (one.epochs or 0) > form.most_epochs * (1 + ROUNDING)]
    if over:
        most = max(over, key=lambda one: one.epochs or 0)
        room = 0.995 * (config.tokens or 0) * form.most_epochs / (most.epochs or 1)
        raise DataError(
            f"Expected at most {form.most_epochs:g} epoch of each domain, since {config.to} reads "
            f"none again, found {most.epochs:.3g} of '{most.name}': --tokens {room:.3g} fits"
        )
    require_epochs(exposures, config.repeat)
    return notes_on(exposures, None if whole else config.sequence_length)


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
