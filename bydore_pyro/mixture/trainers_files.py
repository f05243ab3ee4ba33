"""Weights in trainers' own files, at least in those that `bydore export` writes.

| content | trainer |
|---|---|
| `names` and `interleave_datasets`, `probabilities` | Hugging Face `datasets` |
| `streams`, each with `proportion` | MosaicML streaming |
| lines of a weight and a prefix, or a list of both in turn | Megatron-LM, NeMo |
| `dataset_folder` and `dataset_weights`, alone or in one of `data_stages` | nanotron |
| `sources`, each with `source_name` and `target_ratio` | OLMo-core |
| `train_weights`, also as one stage | levanter |
| a Python module with `WEIGHTS` | torchtitan, LitGPT |

Where a file has only paths, a domain is called by what its path alone has. No module is run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from bydore_pyro.utils import unique_keys

LINE = re.compile(r"([-+0-9.eE]+)\s+(\S+)")


def blend_of(text: str) -> list[str] | None:
    """Reads weights and prefixes in turn from lines of text; None if the text is none such."""
    found = [LINE.fullmatch(line.strip()) for line in text.splitlines() if line.strip()]
    lines = [line for line in found if line is not None]
    if not lines or len(lines) < len(found):
        return None
    return [part for line in lines for part in line.groups()]


def module_weights(text: str) -> dict[str, Any] | None:
    """Returns the literal `WEIGHTS` of a Python module, None if the text is none."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for node in body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "WEIGHTS":
            found = ast.literal_eval(node.value)
            return found if isinstance(found, dict) else None
    return None


def trainers_weights(found: Any) -> Any:
    """Returns weights by name from a trainer's file; other content is returned as it is.

    Raises:
        ValueError: When a file has several stages, or not a weight for each domain.
    """
    if isinstance(found, list) and len(found) % 2 == 0:  # weights and prefixes in turn
        return _paired(names_of_paths(found[1::2]), found[::2])
    if not isinstance(found, dict):
        return found
    if "data_stages" in found:
        found = _only(found["data_stages"])["data"]["dataset"]
    if {"dataset_folder", "dataset_weights"} <= found.keys():
        return _paired(names_of_paths(found["dataset_folder"]), found["dataset_weights"])
    if isinstance(drawn := found.get("interleave_datasets"), dict) and "names" in found:
        return _paired(found["names"], drawn["probabilities"])
    if isinstance(streams := found.get("streams"), dict):
        return {name: stream["proportion"] for name, stream in streams.items()}
    if isinstance(sources := found.get("sources"), list):
        return unique_keys([(one["source_name"], one["target_ratio"]) for one in sources])
    if isinstance(weights := found.get("train_weights"), list):
        return _only(weights)[1]
    return found.get("train_weights", found)


def _only(stages: Sequence[Any]) -> Any:
    if len(stages) != 1:
        raise ValueError(f"a schedule of {len(stages)} stages instead of one mixture")
    return stages[0]


def _paired(names: Sequence[str], weights: Sequence[Any]) -> dict[str, Any]:
    if len(names) != len(weights):
        raise ValueError(f"{len(names)} domains and {len(weights)} weights")
    return unique_keys(list(zip(names, weights, strict=True)))


def names_of_paths(paths: Sequence[Any]) -> list[str]:
    """Returns the part of each path that the others lack: ``law`` and ``web`` of
    ``/data/law_text_document`` and ``/data/web_text_document``.

    Raises:
        ValueError: When they are no paths.
    """
    if not paths or not all(isinstance(path, str) for path in paths):
        raise ValueError("no paths beside the weights")
    if len(paths) == 1:
        return [paths[0].rstrip("/").rpartition("/")[2]]
    begin = "".join(_shared(paths).rpartition("/")[:2])
    rest = [path.removeprefix(begin) for path in paths]
    end = _shared([path[::-1] for path in rest])[::-1]
    cut = re.search(r"[/_.-].*", end)
    return [path.removesuffix(cut[0]) if cut else path for path in rest]


def _shared(texts: Sequence[str]) -> str:
    """What all begin with."""
    letters = takewhile(lambda own: len(set(own)) == 1, zip(*texts, strict=False))
    return "".join(own[0] for own in letters)
