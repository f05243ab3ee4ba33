"""One colour a domain, the same in all pictures."""

from __future__ import annotations

from collections.abc import Sequence

from bydore_pyro.data import KINDS
from bydore_pyro.mixture import PILE_DOMAINS

__all__ = ["PALETTE", "domain_colours"]

# Matplotlib's ten, then those that lie farthest from all before them in Oklab, colour weighing
# more than lightness, among those that are neither too pale for white paper nor near black.
PALETTE = (
    "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f",
    "#bcbd22", "#17becf", "#0000ff", "#003c00", "#4b005a", "#d200ff", "#a50078", "#b4b4f0",
    "#00e100", "#5a0f00", "#d2b496", "#001e87",
)  # fmt: skip
PLACES = {name: place for place, name in enumerate(sorted(KINDS))}
for _place, _name in enumerate(sorted(PILE_DOMAINS, key=PILE_DOMAINS.__getitem__)):
    PLACES[_name] = PLACES[PILE_DOMAINS[_name]] = _place


def domain_colours(names: Sequence[str]) -> dict[str, str]:
    """Returns a colour (``#rrggbb``) for each name.

    The kinds of the environment's text have colours of their own, and so have the Pile's domains;
    the two share them, and where both stand together the second takes another. Other names take
    the colours that are left, in sorted order; beyond ``len(PALETTE)`` names colours come twice.
    """
    taken: dict[int, str] = {}
    for name in sorted(names):
        if name in PLACES:
            taken.setdefault(PLACES[name], name)
    known = {name: place for place, name in taken.items()}
    free = [place for place in range(len(PALETTE)) if place not in taken]
    others = [name for name in sorted(names) if name not in known]
    for number, name in enumerate(others):
        known[name] = free[number] if number < len(free) else number % len(PALETTE)
    return {name: PALETTE[known[name]] for name in sorted(names)}
