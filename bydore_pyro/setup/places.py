"""Places that options name: made absolute, so that a run can be resumed from any folder."""

from __future__ import annotations

from pathlib import Path

from bydore_pyro import data, shards

NATURAL = "natural"
KNOWN = ("uniform", NATURAL)  # mixtures without a file


def absolute(place: str) -> str:
    """Returns the absolute path of what is there; a name of anything else stays."""
    kind, _, inside = place.partition(":")
    if Path(place.removesuffix(data.TREE)).exists():
        return str(Path(place).absolute())
    if data.is_remote(inside):
        return place
    if inside and (shards.names_shards(place) or (kind == "pile" and Path(inside).exists())):
        return f"{kind}:{Path(inside).absolute()}"
    return place


def mixture_anywhere(source: str) -> str:
    """Returns a mixture's source; its file or folder is found from any working directory."""
    return source if source in KNOWN else absolute(source)
