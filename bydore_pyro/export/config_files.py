"""Files with a mixture's shares, one writer a trainer: configuration, in two cases as Python.

"Sequences" are cut from packed tokens, all of one length: a share of them is a share of tokens,
which is what a mixture's weights are. "Documents" have their own lengths: a share of them is not.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from bydore_pyro.export.shares import UNITS, Samples, Share
from bydore_pyro.utils import DataError

__all__ = [
    "for_datasets",
    "for_doremi",
    "for_levanter",
    "for_litgpt",
    "for_megatron",
    "for_nanotron",
    "for_nemo",
    "for_olmo_core",
    "for_regmix",
    "for_streaming",
    "for_torchtitan",
]

BLOCKS = tuple(2**n for n in range(11, 16))  # levanter's default block of 2048, up to its largest


def _yaml(content: dict[str, Any], samples: Samples) -> str:
    import yaml

    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=1000)
    return f"# bydore export: the weights are shares of {UNITS[samples]}.\n{text}"


def _json(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def for_datasets(shares: Sequence[Share], samples: Samples) -> str:
    """Hugging Face `datasets`: the arguments of `interleave_datasets`, as JSON."""
    return _json(
        {
            "weights_are": f"shares of {UNITS[samples]}",
            "names": [share.name for share in shares],
            "paths": [share.path for share in shares if share.path] or None,
            "interleave_datasets": {
                "probabilities": [share.weight for share in shares],
                "seed": 0,
                "stopping_strategy": "all_exhausted",
            },
        }
    )


def for_streaming(shares: Sequence[Share], samples: Samples) -> str:
    """MosaicML streaming: `streams` by name, for llm-foundry's YAML or `Stream(**stream)`."""
    return _yaml(
        {
            "streams": {
                share.name: {
                    "remote" if "://" in share.path else "local": share.path,
                    "proportion": share.weight,
                }
                for share in shares
            }
        },
        samples,
    )


def _blend(shares: Sequence[Share]) -> list[str]:
    """Weights and prefixes in turn; an odd list would be read as prefixes without weights."""
    return [text for share in shares for text in (f"{share.weight:.12f}".rstrip("0"), share.path)]


def for_megatron(shares: Sequence[Share], samples: Samples) -> str:
    """Megatron-LM: the file of `--data-args-path`, a weight and a prefix a line.

    Raises:
        DataError: When a prefix is empty or has white space, at which Megatron-LM splits the file.
    """
    for share in shares:
        if share.path.split() != [share.path]:
            raise DataError(f"Expected a prefix without white space, found '{share.path}'")
    blend = _blend(shares)
    return "".join(f"{w} {p}\n" for w, p in zip(blend[::2], blend[1::2], strict=True))


def for_nemo(shares: Sequence[Share], samples: Samples) -> str:
    """NeMo: `paths` of `PreTrainingDataModule`, a JSON list of strings that is YAML as well."""
    return _json(_blend(shares))


def for_nanotron(shares: Sequence[Share], samples: Samples) -> str:
    """nanotron: the section `dataset` of a data stage, a Nanoset."""
    folders = [share.path for share in shares]
    weights = [share.weight for share in shares]
    return _yaml({"dataset_folder": folders, "dataset_weights": weights}, samples)


def for_olmo_core(shares: Sequence[Share], samples: Samples) -> str:
    """OLMo-core: a `SourceMixtureList`, for `SourceMixtureList.from_yaml`."""

    def files(path: str) -> str:
        return path if path.endswith(".npy") or "*" in path else f"{path}/*.npy"

    sources = [
        {
            "source_name": share.name,
            "target_ratio": share.weight,
            "paths": [files(share.path)],
            "max_repetition_ratio": share.repetitions,
        }
        for share in shares
    ]
    return _yaml({"sources": sources}, samples)


def for_levanter(shares: Sequence[Share], samples: Samples) -> str:
    """levanter: `train_weights` for the section `data`, by the names in its `configs`."""
    content: dict[str, Any] = {"train_weights": {share.name: share.weight for share in shares}}

    def fits(block: int) -> bool:
        return all(int(s.weight * block) >= 0.9 * s.weight * block for s in shares)

    block = next((size for size in BLOCKS if fits(size)), BLOCKS[-1])
    if block > BLOCKS[0]:
        content["mixture_block_size"] = block
    return _yaml(content, samples)


def for_regmix(shares: Sequence[Share], samples: Samples) -> str:
    """TinyLlama as RegMix trains it: `--data_yaml_file`, weights by the prefixes of files.

    Raises:
        DataError: When a prefix begins another, so that it matches the files of both.
    """
    keys = [share.path or f"train_{share.name}" for share in shares]
    for key in keys:
        longer = [other for other in keys if other != key and other.startswith(key)]
        if longer:
            raise DataError(
                f"Expected a file prefix that matches one domain, found '{key}', which also "
                f"matches '{longer[0]}'; --prefix 'train_{{domain}}_' avoids this"
            )
    train = {key: share.weight for key, share in zip(keys, shares, strict=True)}
    return _yaml({"train": train, "valid": {}}, samples)


def for_doremi(shares: Sequence[Share], samples: Samples) -> str:
    """DoReMi: `--domain_config_path`, weights for training and for evaluation by domain."""
    weights = {share.name: share.weight for share in sorted(shares, key=lambda s: s.name)}
    return _json({"train_domain_weights": weights, "eval_domain_weights": weights})


def for_torchtitan(shares: Sequence[Share], samples: Samples) -> str:
    """torchtitan: a Python module with `WEIGHTS` and the mix of `WeightedDataset`, weights > 0."""
    each, mix = "datasets[name]", "DatasetMixConfig(datasets=weighted)"
    packed = "ConcatThenSplitPackingConfig(dataset={})".format
    if samples == "sequences":
        each = packed(each)
    else:
        mix = packed(mix)
    return f'''"""Weights of domains for torchtitan: shares of {UNITS[samples]}."""

WEIGHTS = {_literal(shares)}


def mixed(datasets):
    """Takes a dataset's configuration by domain, unpacked; returns that of their packed mix."""
    from torchtitan.components.data import (
        ConcatThenSplitPackingConfig,
        DatasetMixConfig,
        WeightedDataset,
    )

    weighted = tuple(
        WeightedDataset(
            dataset={each},
            weight=weight,
        )
        for name, weight in WEIGHTS.items()
    )
    return {mix}
'''


def for_litgpt(shares: Sequence[Share], samples: Samples) -> str:
    """LitGPT: a Python module with the `CombinedStreamingDataset` for a data module's training."""
    paths = "".join(f"    {share.name!r}: {share.path!r},\n" for share in shares)
    return f'''"""Weights of domains for LitGPT: shares of {UNITS[samples]}."""

PATHS = {{
{paths}}}
WEIGHTS = {_literal(shares)}


def train_dataset(block_size, seed=42):
    """Takes a sequence's tokens and one more; returns the dataset for a `StreamingDataLoader`."""
    from litdata.streaming import CombinedStreamingDataset, StreamingDataset, TokensLoader

    datasets = [
        StreamingDataset(
            input_dir=path,
            item_loader=TokensLoader(block_size=block_size),
            shuffle=True,
            drop_last=True,
        )
        for path in PATHS.values()
    ]
    return CombinedStreamingDataset(
        datasets=datasets, seed=seed, weights=tuple(WEIGHTS.values()), iterate_over_all=False
    )
'''


def _literal(shares: Sequence[Share]) -> str:
    return "{\n" + "".join(f"    {s.name!r}: {s.weight!r},\n" for s in shares) + "}"
