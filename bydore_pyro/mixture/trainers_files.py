"""Weights in trainers' own files: those that `bydore export` writes, and whole configurations.

| what stands somewhere in the file | trainer | unit of the numbers |
|---|---|---|
| `names` and `interleave_datasets`, `probabilities` | Hugging Face `datasets` | as the file says |
| `streams`, each with `proportion` | MosaicML streaming | tokens |
| `streams`, each with `repeat` | MosaicML streaming | epochs |
| weights and prefixes in turn: lines, one line, a list, `blend`, `data_path`, `data_prefix` | \
Megatron-LM, NeMo, Megatron Bridge | tokens |
| two lists of one length, such as `dataset_folder` and `dataset_weights` | nanotron, torchtitan, \
GPT-NeoX, LLaMA-Factory | tokens |
| `source` and `source_weights` | Megatron Bridge, fine-tuning | epochs |
| `sources`, each with `source_name` and `target_ratio` | OLMo-core | tokens |
| `train_weights`, also as one stage | levanter | tokens |
| `train`, whose names begin with `train_`, or are paths; others that sum to 1, or stand beside \
`valid` | RegMix | tokens |
| `train_domain_weights` | DoReMi | tokens |
| `datasets`, each with `fraction` | TRL | documents |
| `datasets`, each with `weight`, in a file with `base_model` | axolotl | epochs |
| `dataset_mixer`, `dataset_mixture` | alignment handbook, open-instruct | epochs |
| `weights`, `mixture`, `mix` and the like: names and numbers, a list or a tree of entries | \
olmix and others | tokens |
| anything else, if it alone is a list of entries | | tokens |

An entry has a name (`name`, `domain`, `path` and others) and a number (`weight`, `proportion` and
others). In a tree it has entries of its own, whose numbers sum to 1.

A name is what stands there. Four things are cut off, always from all names, and `Listed.cut` says
which: the folder that all paths share, Megatron's `_text_document`, RegMix's `train_`, and what the
Pile's public copies and RegMix add to the Pile's own names. The Python modules for torchtitan and
LitGPT are not read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Any, NamedTuple

from bydore_pyro.mixture.entries import ROUNDED, has_numbers, weights_of_entries
from bydore_pyro.mixture.listed import (
    COMMENT,
    NUMBER,
    Listed,
    is_number,
    item,
    looks_like,
    mapping,
    number_of,
    paired,
    sequence,
    shown,
)
from bydore_pyro.mixture.names import TRAIN, names_of_paths, names_of_prefixes
from bydore_pyro.mixture.published import PILE_DOMAINS

OF_PUBLIC_PILE = "Pile-CC"  # a name that the Pile's public copies alone have
#: Sections that are not trained on.
HELD_OUT = re.compile(r"(valid(ation)?|val|eval(uation)?|test|dev|held_?out)([_-].*)?", re.I)
PHASE = re.compile(r"(phase|stage)_?[0-9]+_weights")
OPTION = "--data-path"  # of Megatron-LM
STRUCTURE = re.compile(r"[\[\]{}\"',]|:$|^[-#|]$")  # in the words of JSON, YAML and tables


# ---- text that is neither JSON nor YAML


def blend_of(text: str) -> Listed | None:
    """Reads weights and prefixes in turn, in one line or in lines, or behind `--data-path` in a
    command; None if the text is none such.

    Raises:
        ValueError: When it begins so, and then has a weight that is no number, or no prefix; or
            when a text has that option twice.
    """
    lines = [line.rstrip("\\").split() for line in text.splitlines() if line.strip()]
    if lines and all(len(line) == 2 and NUMBER.fullmatch(line[0]) for line in lines):
        return _of_paths([path for _, path in lines], [weight for weight, _ in lines])
    words = [word for line in lines for word in line]
    if OPTION in words:
        if words.count(OPTION) > 1:
            raise ValueError(f"{OPTION} twice: keep one of them")
        behind = words[words.index(OPTION) + 1 :]
        lines = [words := [*takewhile(lambda word: not word.startswith("-"), behind)]]
    if len(words) < 2 or any(map(STRUCTURE.search, words)) or not NUMBER.fullmatch(words[0]):
        return None
    if len(lines) > 1 and any(len(line) != 2 for line in lines):
        return None
    if len(words) % 2:
        raise ValueError(f"{len(words)} words instead of weights and prefixes in turn")
    for weight, prefix in zip(words[::2], words[1::2], strict=True):
        if not NUMBER.fullmatch(weight):
            raise ValueError(
                f"{weight!r:.60} instead of a number as the weight of {prefix!r:.60}: weights and "
                "prefixes stand in turn"
            )
    return _of_paths(words[1::2], words[::2])


# ---- anywhere in JSON, YAML or TOML


_Reader = Callable[[Mapping[str, Any], str], Listed]  # of the mapping with a key, and the key
#: Returns the keys of a mapping under which weights stand, each with what reads them.
_Finder = Callable[[Mapping[str, Any]], dict[str, _Reader]]


class _Place(NamedTuple):
    """Where weights stand in a file, the mapping with them, and what reads them."""

    name: str
    found: Mapping[str, Any]
    key: str
    reader: _Reader

    def read(self) -> Listed:
        """Returns the weights.

        Raises:
            ValueError: When they lack what belongs to their layout.
        """
        return self.reader(self.found, self.key)


def _layouts_in(found: Mapping[str, Any]) -> dict[str, _Reader]:
    """Finds what trainers call their weights."""
    phases = [key for key in found if isinstance(key, str) and PHASE.fullmatch(key)]
    keys = [key for key, layout in LAYOUTS.items() if layout.accepts(found, key)]
    return dict.fromkeys(phases[:1], _of_phases) | {key: LAYOUTS[key].read for key in keys}


def _lists_in(found: Mapping[str, Any]) -> dict[str, _Reader]:
    """Finds lists of entries with numbers, whatever they are called."""
    keys = [key for key, one in found.items() if isinstance(one, list) and has_numbers(one)]
    return dict.fromkeys(keys, _of_list_called)


def trainers_weights(found: Any) -> Listed | None:
    """Returns the weights of a trainer's file; None where it has none of the layouts above.

    Raises:
        ValueError: When it has several mixtures, several stages, not a weight for each domain, or
            lacks what belongs to its layout.
    """
    if isinstance(found, list):
        return _of_list(found)
    if not isinstance(found, dict):
        return None
    if places := [*_places(found, _layouts_in)]:
        return _read(places)
    entries = [one for name, one in found.items() if not COMMENT.fullmatch(str(name))]
    if entries and all(has_numbers([one]) for one in entries):
        return weights_of_entries(found, "the file")
    if places := [*_places(found, _lists_in)]:
        return _read(places)
    return None


def _read(places: Sequence[_Place]) -> Listed:
    """Returns the weights that stand in places, which must be the same in all of them."""
    read = [place.read() for place in places]
    first, name = read[0], places[0].name
    named = " and in ".join(repr(place.name) for place in places)
    if any((one.weights, one.unit) != (first.weights, first.unit) for one in read):
        raise ValueError(f"weights in {named}: keep one of them")
    remarks = first.remarks
    if len(read) > 1:
        remarks += (f"the same weights stand in {named}",)
    if name != places[0].key:
        remarks += (f"the weights are those in '{name}'; no other key is read",)
    return first._replace(remarks=remarks)


def _places(
    found: Any, finder: _Finder, name: str = "", seen: set[int] | None = None
) -> Iterator[_Place]:
    """Yields where weights stand in a file.

    What is held out, a comment, or weights is not looked into; what an alias names again neither.
    """
    seen = set() if seen is None else seen
    if isinstance(found, list):
        inside = [(f"{name}[{number}]", one) for number, one in enumerate(found)]
    elif isinstance(found, dict):
        dot = "." if name else ""
        known = {
            key: one
            for key, one in found.items()
            if isinstance(key, str) and not (COMMENT.fullmatch(key) or HELD_OUT.fullmatch(key))
        }
        taken = {key: reader for key, reader in finder(found).items() if key in known}
        for key, reader in taken.items():
            yield _Place(f"{name}{dot}{key}", found, key, reader)
        inside = [
            (f"{name}{dot}{key}", one)
            for key, one in known.items()
            if not (key in taken or PHASE.fullmatch(key))
        ]
    else:
        return
    for place, one in inside:
        if isinstance(one, dict | list) and id(one) not in seen:
            seen.add(id(one))
            yield from _places(one, finder, place, seen)


# ---- layouts of trainers


def _of_list(found: list[Any]) -> Listed:
    if found and all(isinstance(one, dict) for one in found):
        return weights_of_entries(found, "the list")
    if len(found) == 2 and all(isinstance(one, list) for one in found):
        return _of_paths(*found)
    if not found or len(found) % 2:
        raise ValueError(f"a list of {len(found)} instead of weights and paths in turn")
    return _of_paths(found[1::2], found[::2])


def _of_datasets(found: Mapping[str, Any], key: str) -> Listed:
    weights = item(found[key], "probabilities", key)
    return Listed(paired(sequence(found, "names"), weights))


def _of_streaming(found: Mapping[str, Any], key: str) -> Listed:
    streams = mapping(found[key], key)
    repeated = all(isinstance(one, dict) and "repeat" in one for one in streams.values())
    number = "repeat" if streams and repeated else "proportion"
    pairs = [(n, item(stream, number, f"stream {n!r:.60}")) for n, stream in streams.items()]
    return Listed(dict(pairs), unit="epochs" if number == "repeat" else "tokens")


def _of_sources(found: Mapping[str, Any], key: str) -> Listed:
    sources = sequence(found, key)
    if not _of_olmo_core(sources):
        return weights_of_entries(sources, key)
    pairs = [
        [item(one, name, f"entry {number} of {key}") for name in ("source_name", "target_ratio")]
        for number, one in enumerate(sources, 1)
    ]
    return Listed(paired([name for name, _ in pairs], [ratio for _, ratio in pairs]))


def _of_olmo_core(sources: Any) -> bool:
    return isinstance(sources, list) and any(
        isinstance(one, dict) and "source_name" in one for one in sources
    )


def _of_stages(found: Mapping[str, Any], key: str) -> Listed:
    stage = _only(sequence(found, key))
    inside = [*_places(stage, _layouts_in, f"{key}[0]")]
    if not inside:
        dataset = item(item(stage, "data", key), "dataset", f"data of {key}")
        raise ValueError(f"no weights in {sorted(mapping(dataset, f'dataset of {key}'))}")
    return _read(inside)._replace(remarks=())


def _of_pairs(found: Mapping[str, Any], key: str) -> Listed:
    """Paths and weights: two lists, one mapping (of nanotron, before), or texts with commas."""
    paths, weights = found[key], found.get(PAIRS[key])
    if isinstance(paths, dict):
        return _of_paths([*paths], [*paths.values()])
    if isinstance(paths, str) and isinstance(weights, str):
        names, numbers = ([one.strip() for one in text.split(",")] for text in (paths, weights))
        return Listed(paired(names, numbers))
    return _of_paths(sequence(found, key), sequence(found, PAIRS[key]))


def _of_bridge(found: Mapping[str, Any], key: str) -> Listed:
    """Megatron Bridge's fine-tuning: data sets, and how often each is read."""
    sources = enumerate(sequence(found, "source"), 1)
    paths = [item(one, "path_or_dataset", f"entry {number} of source") for number, one in sources]
    return _of_paths(paths, sequence(found, key))._replace(unit="epochs")


def _of_levanter(found: Mapping[str, Any], key: str) -> Listed:
    weights = found[key]
    if isinstance(weights, list):
        stage = _only(weights)
        if not isinstance(stage, list) or len(stage) != 2:
            raise ValueError(f"{shown(stage)} instead of a step and weights")
        weights = stage[1]
    return Listed(mapping(weights, key))


def _of_phases(found: Mapping[str, Any], key: str) -> Listed:
    return Listed(mapping(found[_only([one for one in found if PHASE.fullmatch(str(one))])], key))


def _of_regmix(found: Mapping[str, Any], key: str) -> Listed:
    weights = found[key]
    if isinstance(weights, list):  # Megatron's blends by split
        return _of_list(weights)
    names, cut = names_of_prefixes([*weights])
    return Listed(paired(names, [*weights.values()]), cut=cut)


def _of_doremi(found: Mapping[str, Any], key: str) -> Listed:
    weights = mapping(found[key], key)
    if OF_PUBLIC_PILE not in weights:
        return Listed(weights)
    short = [PILE_DOMAINS.get(name, name) for name in weights]
    return Listed(paired(short, [*weights.values()]), cut="by the short names of the Pile")


def _of_blend(found: Mapping[str, Any], key: str) -> Listed:
    if not isinstance(found[key], str):
        return _of_list(sequence(found, key))
    blend = blend_of(found[key])
    if blend is None:
        raise ValueError(f"{shown(found[key])} instead of weights and prefixes in turn")
    return blend


def _of_tuning(found: Mapping[str, Any], key: str) -> Listed:
    """Data sets of axolotl or TRL; of others, which have the same keys, weights are shares."""
    read = weights_of_entries(found[key], key)
    if read.unit != "tokens":
        return read
    if "base_model" in found:
        return read._replace(
            unit="epochs", guess="weights are taken as the parts of data sets that axolotl keeps"
        )
    return read._replace(guess="weights are taken as shares of the tokens, not as axolotl's epochs")


def _of_mixer(found: Mapping[str, Any], key: str) -> Listed:
    """The alignment handbook's and open-instruct's: parts of data sets, or numbers of rows."""
    inside = found[key]
    if isinstance(inside, dict) and has_numbers(inside.get("datasets")):
        inside = inside["datasets"]
    read = Listed(dict(inside)) if _is_plain(inside) else weights_of_entries(inside, key)
    above = [number_of(one, name) > 1 for name, one in read.weights.items()]
    if any(above) and not all(above):
        raise ValueError(f"parts of data sets beside numbers of rows in {key}")
    if all(above):
        return read._replace(unit="documents", guess=f"'{key}' is taken as rows of each data set")
    return read._replace(
        unit="epochs", guess=f"'{key}' is taken as the parts of data sets that are kept"
    )


def _of_any(found: Mapping[str, Any], key: str) -> Listed:
    """Names and numbers, or entries, below a key that means weights."""
    if has_numbers(found[key]):
        return weights_of_entries(found[key], key)
    return Listed(dict(found[key]), declared=False)


def _of_list_called(found: Mapping[str, Any], key: str) -> Listed:
    read = weights_of_entries(found[key], key)
    remark = f"'{key}', the only list of names and numbers, is taken as the weights"
    return read._replace(remarks=(*read.remarks, remark))


# ---- what is taken for a layout


def _nested(found: Mapping[str, Any], key: str) -> bool:
    return isinstance(found.get(key), dict | list)


def _is_plain(value: Any) -> bool:
    """Whether a value has names with numbers, and nothing else but comments."""
    return (
        isinstance(value, dict)
        and any(map(is_number, value.values()))
        and all(is_number(one) for name, one in value.items() if not COMMENT.fullmatch(str(name)))
    )


def _weights(found: Mapping[str, Any], key: str) -> bool:
    value = found.get(key)
    return _is_plain(value) or has_numbers(value)


def _mixer(found: Mapping[str, Any], key: str) -> bool:
    value = found.get(key)
    return _weights(found, key) or (isinstance(value, dict) and has_numbers(value.get("datasets")))


def _sources(found: Mapping[str, Any], key: str) -> bool:
    return has_numbers(found.get(key)) or _of_olmo_core(found.get(key))


def _blend(found: Mapping[str, Any], key: str) -> bool:
    value = found.get(key)
    if isinstance(value, str):
        words = value.split()
        return len(words) > 1 and bool(NUMBER.fullmatch(words[0]))
    if not isinstance(value, list) or not value:
        return False
    pair = len(value) == 2 and all(isinstance(one, list) for one in value)
    return pair or key == "blend" or is_number(value[0])


def _train(found: Mapping[str, Any], key: str) -> bool:
    """Settings of a training are called so, too: weights have names of RegMix, or `valid` beside
    them, or sum to 1 or 100."""
    value = found.get(key)
    if not isinstance(value, dict):
        return _blend(found, key)
    names = [str(name) for name in value]
    if names and all(name.startswith(TRAIN) or "/" in name for name in names):
        return any(map(is_number, value.values()))
    if not _is_plain(value) or any(looks_like("a setting", name) for name in names):
        return False
    if "valid" in found:
        return True
    with suppress(ValueError):
        total = math.fsum(number_of(value[name], name) for name in value if is_number(value[name]))
        return min(abs(total - 1), abs(total / 100 - 1)) <= ROUNDED
    return False


def _pair(found: Mapping[str, Any], key: str) -> bool:
    paths, weights = found.get(key), found.get(PAIRS[key])
    if isinstance(paths, dict):
        return key == "dataset_path" and _is_plain(paths)
    if isinstance(paths, str):
        return isinstance(weights, str)
    return isinstance(paths, list) and (PAIRS[key] in found or key.startswith("dataset_folder"))


class _Layout(NamedTuple):
    """What weights under a key look like, and what reads them."""

    accepts: Callable[[Mapping[str, Any], str], bool]
    read: _Reader


#: Lists of paths, and where the list of their weights stands.
PAIRS = {
    "dataset_folder": "dataset_weights",
    "dataset_folders": "dataset_weights",
    "dataset_path": "dataset_weights",
    "train-data-paths": "train-data-weights",
    "train_data_paths": "train_data_weights",
    "dataset": "interleave_probs",
}
BLENDS = ("blend", "data_path", "data-path", "data_paths", "data_prefix", "paths")
OTHERS = (
    *("weights", "mixture", "mix", "data_mix", "data_mixture", "domain_weights"),
    *("domain_mixture", "sampling_weights", "relative_sizes", "proportions"),
)
LAYOUTS: dict[str, _Layout] = {
    "interleave_datasets": _Layout(_nested, _of_datasets),
    "streams": _Layout(_nested, _of_streaming),
    "sources": _Layout(_sources, _of_sources),
    "data_stages": _Layout(_nested, _of_stages),
    **dict.fromkeys(PAIRS, _Layout(_pair, _of_pairs)),
    "source_weights": _Layout(_nested, _of_bridge),
    "train_weights": _Layout(_nested, _of_levanter),
    "train": _Layout(_train, _of_regmix),
    "train_domain_weights": _Layout(_nested, _of_doremi),
    **dict.fromkeys(BLENDS, _Layout(_blend, _of_blend)),
    "datasets": _Layout(lambda found, key: has_numbers(found.get(key)), _of_tuning),
    **dict.fromkeys(("dataset_mixer", "dataset_mixture"), _Layout(_mixer, _of_mixer)),
    **dict.fromkeys(OTHERS, _Layout(_weights, _of_any)),
}


def _only(stages: Sequence[Any]) -> Any:
    if len(stages) != 1:
        raise ValueError(
            f"a schedule of {len(stages)} stages instead of one mixture: give one stage alone"
        )
    return stages[0]


def _of_paths(paths: Sequence[Any], weights: Sequence[Any]) -> Listed:
    names, cut = names_of_paths(paths)
    if all(NUMBER.fullmatch(path) for path in paths):
        raise ValueError("numbers in place of paths beside the weights")
    return Listed(paired(names, weights), cut=cut)
