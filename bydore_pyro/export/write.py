"""A mixture to a trainer's file: the shares that it wants, rounded, and what the user must know."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bydore_pyro.export.formats import FORMATS, ExportConfig
from bydore_pyro.export.shares import Samples, Share, document_shares, rounded
from bydore_pyro.mixture import Mixture
from bydore_pyro.utils import DataError

if TYPE_CHECKING:
    import datasets

__all__ = ["Exported", "export", "interleave"]


@dataclass(frozen=True, kw_only=True)
class Exported:
    """A trainer's file and what there is to say about it.

    Attributes:
        text: Of the file.
        shares: What it gives each domain; in decimals they sum to 1.
        samples: What the trainer draws by them.
        dropped: Domains that it leaves out.
        notes: What the user must know, a line each.
    """

    text: str
    shares: dict[str, float]
    samples: Samples
    dropped: tuple[str, ...]
    notes: tuple[str, ...]


def export(
    mixture: Mixture, config: ExportConfig, lengths: Mapping[str, float] | None = None
) -> Exported:
    """Writes a mixture in a trainer's format.

    Args:
        mixture: Shares of tokens.
        config: Which format, and how.
        lengths: Mean tokens per document by domain, where the shares are of documents.

    Raises:
        DataError: When the format needs a prefix or tokens per document and there are none, or a
            name or path cannot stand in it.

    Warns:
        UserWarning: When an option has no effect in the format.
    """
    form = FORMATS[config.to]
    if form.paths == "needed" and config.prefix is None:
        raise DataError(
            f"Expected --prefix for {config.to}, a folder or a template such as "
            "/data/{domain}, found none"
        )
    if form.paths == "unused" and config.prefix is not None:
        warnings.warn(f"prefix has no effect in {config.to}, which has no paths", stacklevel=2)
    if config.max_repetition_ratio != 1 and config.to != "olmo-core":
        warnings.warn(f"max_repetition_ratio has no effect in {config.to}", stacklevel=2)
    weights, notes = _wanted(mixture.as_dict(), config, lengths)
    shares = rounded(weights, config.digits)
    notes += _notes_on_small(weights, shares, config)
    kept = {name: share for name, share in shares.items() if share > 0 or form.keeps_zeros}
    text = form.write(
        [
            Share(
                name=name,
                weight=share,
                path=config.path(name),
                repetitions=config.max_repetition_ratio,
            )
            for name, share in kept.items()
        ],
        config.drawn,
    )
    dropped = tuple(name for name in shares if name not in kept)
    return Exported(
        text=text, shares=kept, samples=config.drawn, dropped=dropped, notes=tuple(notes)
    )


def _wanted(
    weights: dict[str, float], config: ExportConfig, lengths: Mapping[str, float] | None
) -> tuple[dict[str, float], list[str]]:
    """Returns shares of what the trainer draws, and the notes on that."""
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
    shares = document_shares(weights, lengths)
    known = ", ".join(f"{name} {lengths[name]:.1f}" for name in weights if weights[name] > 0)
    about = (
        f"Per document: {config.to} draws whole documents, so shares of tokens were divided by the "
        f"mean tokens of a document ({known})."
    )
    return shares, [about, *notes]


def _notes_on_small(
    weights: Mapping[str, float], shares: Mapping[str, float], config: ExportConfig
) -> list[str]:
    """Returns what happens to domains without weight, or with very little of it, by name."""
    form = FORMATS[config.to]
    unit = f"{10.0**-config.digits:.{config.digits}f}"
    verb = "Kept at 0" if form.keeps_zeros else "Dropped"
    reasons = {
        f"{verb}, having no weight": [n for n in shares if weights[n] == 0],
        f"{verb}, rounded to 0 in units of {unit}": [
            n for n in shares if shares[n] == 0 < weights[n]
        ],
        f"Below {form.smallest:.2g}, {form.caution}": [
            n for n in shares if 0 < shares[n] < form.smallest
        ],
    }
    return [f"{reason}: {', '.join(names)}." for reason, names in reasons.items() if names]


def interleave(
    mixture: Mixture,
    sources: Mapping[str, datasets.Dataset | datasets.IterableDataset],
    lengths: Mapping[str, float] | None = None,
    *,
    seed: int = 0,
    stopping_strategy: str = "all_exhausted",
) -> datasets.Dataset | datasets.IterableDataset:
    """Mixes Hugging Face datasets by a mixture, without a file.

    Args:
        mixture: Shares of tokens.
        sources: A dataset for at least each domain with weight.
        lengths: Mean tokens per example by domain (`tokens_per_document(store.index)` where an
            example is a document); None where all examples are of one length.
        seed: Of the draws.
        stopping_strategy: Of `datasets.interleave_datasets`. "all_exhausted" begins a domain anew
            where it ends, so that the shares hold to the end.

    Raises:
        DataError: When a domain with weight has no dataset, or no tokens per example.
    """
    from datasets import interleave_datasets

    weights = mixture.as_dict()
    if lengths is not None:
        weights = document_shares(weights, lengths)
    shares = {name: share for name, share in rounded(weights, 9).items() if share > 0}
    missing = [name for name in shares if name not in sources]
    if missing:
        raise DataError(f"Expected a dataset for each domain, found none for {', '.join(missing)}")
    return interleave_datasets(
        [sources[name] for name in shares],
        probabilities=list(shares.values()),
        seed=seed,
        stopping_strategy=stopping_strategy,
    )
