"""Names of domains."""

from __future__ import annotations

from bydore_pyro.errors import DataError


def check_name(name: str) -> None:
    """Refuses a domain's name, or path of names, that files, options or JSON could not carry.

    Raises:
        DataError: When it is no UTF-8, is empty, is longer than 200 bytes, holds '=' or a null
            byte, or has '', '.', '..' or '*' between slashes.
    """
    text = name.encode(errors="replace")
    of_path = {"", ".", "..", "*"}.isdisjoint(name.split("/"))
    if not of_path or len(text) > 200 or text.decode() != name or "=" in name or "\0" in name:
        raise DataError(
            "Expected a domain's name of at most 200 bytes without '=', or a path of such names, "
            f"found {name!r}"
        )


def domain_of(name: str) -> str:
    """Returns what a folder or file calls a domain: of a hive's ``cluster=1``, ``cluster-1``."""
    return name.replace("=", "-")
