"""What domains are called: by paths, by prefixes, and by a store that calls them otherwise."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import takewhile
from typing import Any

from bydore_pyro.errors import DataError, listed
from bydore_pyro.mixture.published import PILE_DOMAINS

TRAIN = "train_"  # RegMix's, before the name of a domain
OF_PILE = ("the_pile_", "unzip_")  # RegMix's, before the Pile's names
OF_MEGATRON = ("_text_document", "_text_sentence")  # of `preprocess_data.py`, by its default key
ENDS = re.compile(r"(\.(jsonl?|ndjson|parquet|csv|txt|npy|bin|idx|ds|gz|zst))+$", re.IGNORECASE)
SEPARATORS = "_-./: "


def matched(
    names: Collection[str], known: Collection[str], *, beginnings: bool = True
) -> dict[str, str]:
    """Returns what names are called among known ones, of those that are called otherwise there.

    A name that is known stays. Another stands for the one known name that is equal to it in this
    order: but for upper and lower case, `-` and `_`, and spaces around it; by the last element of
    the path, of either or of both; but for `train_`, `_text_document` and the ends of files; or
    where one of both begins the other, up to a separator, if `beginnings` count.

    Raises:
        DataError: When a name matches two known ones, or two names match the same.
    """
    found: dict[str, str] = {}
    exact = {*names} & {*known}
    for name in names:
        if name in exact:
            continue
        for same in _rules(name, beginnings=beginnings):
            fitting = [one for one in known if one not in exact and same(one)]
            if len(fitting) > 1:
                shown = listed([f"'{one}'" for one in fitting], 3)
                raise DataError(
                    f"Expected names that stand for one domain of the data each, found '{name}', "
                    f"which matches {shown}: write the names of the data"
                )
            if fitting:
                found[name] = fitting[0]
                break
    for name, one in found.items():
        if twice := [other for other in found if other != name and found[other] == one]:
            raise DataError(
                f"Expected names that stand for different domains of the data, found '{name}' and "
                f"'{twice[0]}', which both match '{one}': write the names of the data"
            )
    return found


def _rules(name: str, *, beginnings: bool) -> Iterator[Any]:
    plain, last, bare = _plain(name), _plain(_last(name)), _bare(name)
    yield lambda one: _plain(one) == plain
    yield lambda one: _plain(_last(one)) in (plain, last) or _plain(one) == last
    yield lambda one: _bare(one) == bare
    if beginnings:
        yield lambda one: _begins(bare, _bare(one)) or _begins(_bare(one), bare)


def _plain(name: str) -> str:
    return name.strip().casefold().replace("-", "_")


def _last(name: str) -> str:
    return name.rstrip("/").rsplit("/", 1)[-1]


def _bare(name: str) -> str:
    name = ENDS.sub("", _last(name))
    for end in OF_MEGATRON:
        name = name.removesuffix(end)
    return _plain(name).removeprefix(TRAIN)


def _begins(short: str, long: str) -> bool:
    return bool(short) and long.startswith(short) and long[len(short) :][:1] in tuple(SEPARATORS)


def names_of_paths(paths: Sequence[Any]) -> tuple[list[str], str]:
    """Returns the names of domains that a file has paths of, and in words what was cut off.

    That is the folder that all of them share, and what Megatron's preprocessing adds. Nothing else
    is certain: in ``/data/web.en`` and ``/data/law.en`` the end belongs to the name.

    Raises:
        ValueError: When they are no paths.
    """
    if not paths or not all(isinstance(path, str) for path in paths):
        raise ValueError("no paths beside the weights")
    names = [path.rstrip("/") for path in paths]
    folders = zip(*(name.split("/")[:-1] for name in names), strict=False)
    shared = [own[0] for own in takewhile(lambda own: len({*own}) == 1, folders)]
    folder = "".join(f"{part}/" for part in shared)
    names, cut = [name.removeprefix(folder) for name in names], [folder] if folder else []
    for end in OF_MEGATRON:
        if all(len(name) > len(end) and name.endswith(end) for name in names):
            names, cut = [name.removesuffix(end) for name in names], [*cut, end]
    return names, f"by their paths without {' and '.join(map(repr, cut))}" if cut else ""


def names_of_prefixes(prefixes: Sequence[str]) -> tuple[list[str], str]:
    """Returns the names of domains that RegMix finds the files of by a prefix, and in words what
    was cut off: its `train_`, and before the Pile's names what it calls them more."""
    if prefixes and all("/" in name and not name.startswith(TRAIN) for name in prefixes):
        return names_of_paths(prefixes)
    names, cut = [*prefixes], []
    if names and all(len(name) > len(TRAIN) and name.startswith(TRAIN) for name in names):
        names, cut = [name.removeprefix(TRAIN) for name in names], [TRAIN]
    short, more = names, list[str]()
    for prefix in OF_PILE:
        if short and all(name.startswith(prefix) for name in short):
            short, more = [name.removeprefix(prefix) for name in short], [*more, prefix]
    if {*short} <= {*PILE_DOMAINS.values()}:
        names, cut = short, [*cut, *more]
    return names, f"without {' and '.join(map(repr, cut))}" if cut else ""
