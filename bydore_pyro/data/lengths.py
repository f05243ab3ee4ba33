"""How long a user's own rows and files are: what a trainer draws that samples whole documents.

A store holds texts of bounded length, without copies. Neither their number nor that of its
independent documents, which may be pieces of a file, is the number of a user's rows or files. So
these are counted as they are read, before anything is cut, dropped or left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bydore_pyro.data.documents import SourceFile
from bydore_pyro.data.kinds import is_row_file
from bydore_pyro.data.rows import Row

UNITS = "units"  # the key of the index


class Lengths:
    """Counts of the rows, or files, that were read of each domain, and of the bytes of their text.

    Text that is given as validation text is not counted.

    Args:
        state: What `state` returned, to go on from there.

    Attributes:
        counts: By domain, the number of rows or files and their bytes.
    """

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        state = state or {"counts": {}, "last": [-1, 0]}
        self.counts: dict[str, list[int]] = state["counts"]
        self._last: tuple[int, int] = (state["last"][0], state["last"][1])

    def counted(self, number: int, source: SourceFile) -> Iterator[Row]:
        """Yields the rows of a source and counts each of them once, however often it is read.

        Args:
            number: Of the source; sources are read in this order.
            source: A row is one of the user's where `by_row`; else all of the source is a file.
        """
        for row in source.rows():
            name = source.domain or row.domain
            place = (number, row.number)
            if place > self._last and name and row.text is not None:
                if source.split != "validation":
                    begins = source.by_row or self._last[0] != number
                    found = self.counts.setdefault(name, [0, 0])
                    found[0] += begins
                    found[1] += len(row.text.strip().encode())
                self._last = place
            yield row

    def state(self) -> dict[str, Any]:
        """Returns the counts as plain values."""
        return {"counts": self.counts, "last": [*self._last]}


def units_of(
    sources: Sequence[SourceFile], counts: Mapping[str, Sequence[int]], *, listed: bool
) -> dict[str, dict[str, Any]]:
    """Returns of each domain what its user has, "rows" or "files", their `count` and `bytes`.

    Args:
        sources: All of the data's, before any is cut into parts.
        counts: Of `Lengths`: of a sampled domain what was read of it.
        listed: Whether the text of a text file is all that it holds. Text files are then counted in
            this list, whether they were read or not.

    Returns:
        By domain; one that has rows and text files too is left out, since nobody can say which of
        them a trainer draws.
    """
    of_domain: dict[str | None, list[SourceFile]] = {}
    for source in sources:
        if source.split != "validation":
            of_domain.setdefault(source.domain, []).append(source)
    found = {}
    for name, (count, size) in counts.items():
        own = [*of_domain.get(name, ()), *of_domain.get(None, ())]
        texts = [source for source in own if _is_text(source)]
        rows = sum(source.by_row and not _is_text(source) for source in own)
        if 0 < rows < len(own):
            continue
        if listed and len(texts) == len(own):
            sizes = [source.size for source in texts if source.size]
            count, size = len(sizes), sum(sizes)
        found[name] = {"of": "rows" if rows else "files", "count": count, "bytes": size}
    return found


def _is_text(source: SourceFile) -> bool:
    return source.path is not None and not is_row_file(source.path)
