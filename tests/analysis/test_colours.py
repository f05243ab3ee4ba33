"""The colours: seen on white, told apart, and a domain's own in any company."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from bydore_pyro.analysis.colours import PALETTE, domain_colours
from bydore_pyro.data.environment import KINDS
from bydore_pyro.mixture.published import PILE_DOMAINS


def oklab(colour: str) -> np.ndarray:
    """Returns lightness and two opponent colours (Ottosson 2020)."""
    c = np.array(to_rgb(colour))
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    cones = [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
    opponents = [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
    return np.array(opponents) @ np.cbrt(np.array(cones) @ linear)


def test_colours_can_be_told_apart_and_seen_on_white() -> None:
    values = [oklab(colour) for colour in PALETTE]
    distances = [float(np.linalg.norm(a - b)) for a, b in itertools.combinations(values, 2)]
    assert min(distances) > 0.1, "about twice what lies between Matplotlib's blue and a shade of it"
    assert all(lightness < 0.85 for lightness, _, _ in values)


@pytest.mark.parametrize("names", [list(KINDS), list(PILE_DOMAINS), list(PILE_DOMAINS.values())])
def test_known_domains_keep_their_colours_in_any_company(names: list[str]) -> None:
    whole = domain_colours(names)
    assert len(set(whole.values())) == len(names)
    for some in (names[:1], names[3:7], ["own", *names[::2], "another"]):
        colours = domain_colours(some)
        assert len(set(colours.values())) == len(some)
        for name in set(some) & set(names):
            assert colours[name] == whole[name]


def test_the_pile_has_the_same_colours_under_both_kinds_of_names() -> None:
    public = domain_colours(list(PILE_DOMAINS))
    short = domain_colours(list(PILE_DOMAINS.values()))
    assert all(public[name] == short[key] for name, key in PILE_DOMAINS.items())


def test_other_domains_take_what_is_left_whatever_their_order() -> None:
    names = [f"d{i:02}" for i in range(len(PALETTE))]
    colours = domain_colours(names)
    assert len(set(colours.values())) == len(PALETTE)
    assert domain_colours(names[::-1]) == colours
    mixed = domain_colours(["python", "arxiv", *names[:17]])
    assert len(set(mixed.values())) == 19
    many = domain_colours([f"d{i:03}" for i in range(70)])
    assert len(many) == 70
