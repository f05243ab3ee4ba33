"""Python modules with a mixture's shares, for the trainers whose data is configured in Python."""

from __future__ import annotations

from collections.abc import Sequence

from bydore_pyro.export.shares import UNITS, Samples, Share

__all__ = ["for_litgpt", "for_torchtitan"]


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
