"""Weights in trainers' own files, at least in those that `bydore export` writes.

| content | trainer |
|---|---|
| `names` and `interleave_datasets`, `probabilities` | Hugging Face `datasets` |
| `streams`, each with `proportion` | MosaicML streaming |
| lines of a weight and a prefix, or a list of both in turn | Megatron-LM, NeMo |
| a list of prefixes and one of weights, alone or as `blend` | Megatron Bridge |
| `dataset_folder` and `dataset_weights`, alone or in one of `data_stages` | nanotron |
| `sources`, each with `source_name` and `target_ratio` | OLMo-core |
| `train_weights`, also as one stage | levanter |
| `train`, whose names begin with `train_`, or are paths | RegMix |
| `train_domain_weights` | DoReMi |
| a list of entries with `domain` and `weight` | olmix |

A name is what stands there. Four things are cut off, always from all names, and `Listed.cut` says
which: the folder that all paths share, Megatron's `_text_document`, RegMix's `train_`, and what the
Pile's public copies and RegMix add to the Pile's own names. The Python modules for torchtitan and
LitGPT are not read.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from bydore_pyro import files
from bydore_pyro.errors import listed
from bydore_pyro.mixture.published import PILE_DOMAINS

# YAML 1.1 misses 5e-06.
NUMBER = re.compile(r"[-+]?([0-9]+(_[0-9]+)*\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
LINE = re.compile(rf"({NUMBER.pattern})\s+(\S+)")
NOTHING = ("", "~", "null", "Null", "NULL")  # of YAML, as text
SHOWN = 3  # names in a message
EXAMPLE = (
    "a file of weights holds names and numbers, such as {web: 0.7, law: 0.3}, or a table with the "
    "columns domain and weight"
)
TRAIN = "train_"  # RegMix's, before the name of a domain
OF_PILE = ("the_pile_", "unzip_")  # RegMix's, before the Pile's names
OF_MEGATRON = ("_text_document", "_text_sentence")  # of `preprocess_data.py`, by its default key
OF_PUBLIC_PILE = "Pile-CC"  # a name that the Pile's public copies alone have


class Listed(NamedTuple):
    """What a file says of domains.

    Attributes:
        weights: By name, as they stand in the file: numbers, text, or what cannot be a weight.
        declared: Whether the file's layout says that these are weights and all names domains.
        cut: What was cut off the names, in words; empty where they stand so in the file.
    """

    weights: dict[str, Any]
    declared: bool = True
    cut: str = ""


def blend_of(text: str) -> Listed | None:
    """Reads weights and prefixes from lines of text; None if the text is none such."""
    found = [LINE.fullmatch(line.strip()) for line in text.splitlines() if line.strip()]
    lines = [line for line in found if line is not None]
    if not lines or len(lines) < len(found):
        return None
    return _of_paths([line.groups()[-1] for line in lines], [line[1] for line in lines])


def trainers_weights(found: Any) -> Listed | None:
    """Returns the weights of a trainer's file; None where it has none of the layouts above.

    Raises:
        ValueError: When it has several layouts, several stages, not a weight for each domain, or
            lacks what belongs to its layout.
    """
    if isinstance(found, list):
        return _of_list(found)
    if not isinstance(found, dict):
        return None
    places = [key for key in LAYOUTS if isinstance(found.get(key), dict | list)]
    if not places:
        return None
    if len(places) > 1:
        raise ValueError(f"weights in {' and in '.join(map(repr, places))}: keep one of them")
    return LAYOUTS[places[0]](found)


def _of_list(found: list[Any]) -> Listed:
    if found and all(isinstance(one, dict) for one in found):
        places = [f"entry {number}" for number in range(1, len(found) + 1)]
        pairs = [
            (_at(one, "domain", place), _at(one, "weight", place))
            for one, place in zip(found, places, strict=True)
        ]
        return Listed(_paired(*zip(*pairs, strict=True)), declared=False)
    if len(found) == 2 and all(isinstance(one, list) for one in found):
        return _of_paths(*found)
    if not found or len(found) % 2:
        raise ValueError(f"a list of {len(found)} instead of weights and paths in turn")
    return _of_paths(found[1::2], found[::2])


def _of_datasets(found: Mapping[str, Any]) -> Listed:
    weights = _at(found["interleave_datasets"], "probabilities", "interleave_datasets")
    return Listed(_paired(_sequence(found, "names"), weights))


def _of_streaming(found: Mapping[str, Any]) -> Listed:
    streams = _mapping(found["streams"], "streams")
    pairs = [(n, _at(stream, "proportion", f"stream {n!r:.60}")) for n, stream in streams.items()]
    return Listed(dict(pairs))


def _of_olmo_core(found: Mapping[str, Any]) -> Listed:
    pairs = [
        [_at(one, key, f"entry {number} of sources") for key in ("source_name", "target_ratio")]
        for number, one in enumerate(_sequence(found, "sources"), 1)
    ]
    return Listed(_paired([name for name, _ in pairs], [ratio for _, ratio in pairs]))


def _of_stages(found: Mapping[str, Any]) -> Listed:
    stage = _only(_sequence(found, "data_stages"))
    dataset = _at(_at(stage, "data", "data_stages"), "dataset", "data of data_stages")
    return _of_nanotron(_mapping(dataset, "dataset of data_stages"))


def _of_nanotron(found: Mapping[str, Any]) -> Listed:
    return _of_paths(_sequence(found, "dataset_folder"), _sequence(found, "dataset_weights"))


def _of_levanter(found: Mapping[str, Any]) -> Listed:
    weights = found["train_weights"]
    if isinstance(weights, list):
        stage = _only(weights)
        if not isinstance(stage, list) or len(stage) != 2:
            raise ValueError(f"{_shown(stage)} instead of a step and weights")
        weights = stage[1]
    return Listed(_mapping(weights, "train_weights"))


def _of_regmix(found: Mapping[str, Any]) -> Listed:
    weights = found["train"]
    if isinstance(weights, list):  # Megatron's blends by split
        return _of_list(weights)
    names, cut = names_of_prefixes([*weights])
    return Listed(_paired(names, [*weights.values()]), cut=cut)


def _of_doremi(found: Mapping[str, Any]) -> Listed:
    weights = _mapping(found["train_domain_weights"], "train_domain_weights")
    if OF_PUBLIC_PILE not in weights:
        return Listed(weights)
    short = [PILE_DOMAINS.get(name, name) for name in weights]
    return Listed(_paired(short, [*weights.values()]), cut="by the short names of the Pile")


def _of_blend(found: Mapping[str, Any]) -> Listed:
    return _of_list(_sequence(found, "blend"))


LAYOUTS: dict[str, Callable[[Mapping[str, Any]], Listed]] = {
    "interleave_datasets": _of_datasets,
    "streams": _of_streaming,
    "sources": _of_olmo_core,
    "data_stages": _of_stages,
    "dataset_folder": _of_nanotron,
    "train_weights": _of_levanter,
    "train": _of_regmix,
    "train_domain_weights": _of_doremi,
    "blend": _of_blend,
}


def _only(stages: Sequence[Any]) -> Any:
    if len(stages) != 1:
        raise ValueError(
            f"a schedule of {len(stages)} stages instead of one mixture: give one stage alone"
        )
    return stages[0]


def _at(value: Any, key: str, place: str) -> Any:
    found = _mapping(value, place)
    if key not in found:
        keys = listed([f"'{one}'" for one in found], SHOWN) or "nothing"
        raise ValueError(f"no '{key}' in {place}, but {keys}: {EXAMPLE}")
    return found[key]


def _mapping(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{_shown(value)} instead of a mapping under {place}")
    return value


def _sequence(found: Mapping[str, Any], key: str) -> list[Any]:
    value = found.get(key)
    if not isinstance(value, list):
        raise ValueError(f"{_shown(value)} instead of a list under '{key}'")
    return value


def _shown(value: Any) -> str:
    return "nothing" if value in (None, *NOTHING) else reprlib.repr(value)


def _paired(names: Sequence[Any], weights: Any) -> dict[str, Any]:
    if not isinstance(weights, list | tuple):
        raise ValueError(f"{_shown(weights)} instead of a list of weights")
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"{reprlib.repr(name)} instead of a name in quotes")
    if len(names) != len(weights):
        raise ValueError(f"{len(names)} domains and {len(weights)} weights")
    return files.unique_keys(list(zip(names, weights, strict=True)))


def _of_paths(paths: Sequence[Any], weights: Sequence[Any]) -> Listed:
    names, cut = names_of_paths(paths)
    if all(NUMBER.fullmatch(path) for path in paths):
        raise ValueError("numbers in place of paths beside the weights")
    return Listed(_paired(names, weights), cut=cut)


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
