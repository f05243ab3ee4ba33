"""Exports through the trainers' own readers, where they are installed: the shares that come out.

`datasets` is in test_export.py. Nothing else here needs the others, and some ask for older packages
than the tested ones: install them into an environment of their own, with `pip install --no-deps`.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from bydore_pyro.export.formats import ExportConfig
from bydore_pyro.export.write import export
from bydore_pyro.mixture.mixture import Mixture

pytestmark = pytest.mark.filterwarnings("ignore")  # theirs

WEIGHTS = {"web": 0.612, "law": 0.25, "code": 0.137, "rare": 0.001, "none": 0.0}
MIXTURE = Mixture(names=tuple(WEIGHTS), weights=tuple(WEIGHTS.values()))
DRAWN = {name: weight for name, weight in WEIGHTS.items() if weight > 0}


def reader(name: str, package: str) -> ModuleType:
    """Returns a trainer's module, or skips the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return import_module(name)
        except ImportError as error:
            pytest.skip(f"needs {package}: {error}")


def text_for(to: str, prefix: Path | None = None) -> str:
    return export(MIXTURE, ExportConfig(to=to, prefix=prefix and str(prefix))).text


def assert_shares(counts: dict[str, int], expected: dict[str, float], tolerance: float) -> None:
    assert {*counts} == {*expected}
    for name, count in counts.items():
        assert count / sum(counts.values()) == pytest.approx(expected[name], abs=tolerance)


def test_streaming_draws_the_proportions(tmp_path: Path) -> None:
    streaming = reader("streaming", "mosaicml-streaming")
    for number, name in enumerate(DRAWN):
        with streaming.MDSWriter(out=str(tmp_path / name), columns={"domain": "str"}) as out:
            for _ in range(100 + 50 * number):
                out.write({"domain": name})
    streams = yaml.safe_load(text_for("streaming", tmp_path))["streams"]
    mixed = streaming.StreamingDataset(
        streams=[streaming.Stream(**stream) for stream in streams.values()],
        epoch_size=4000,
        batch_size=1,
        shuffle=True,
    )
    assert_shares(Counter(sample["domain"] for sample in mixed), DRAWN, 1 / 4000)


@pytest.mark.parametrize("to", ["megatron", "nemo"])
def test_megatron_blends(to: str) -> None:
    utils = reader("megatron.core.datasets.utils", "megatron-core")
    helpers = reader("megatron.core.datasets.helpers", "megatron-core")
    builder = reader("megatron.core.datasets.blended_megatron_dataset_builder", "megatron-core")
    text = text_for(to, Path("/data"))
    prefixes, weights = utils.get_blend_from_list(
        text.split() if to == "megatron" else json.loads(text)
    )
    assert prefixes == [f"/data/{name}" for name in DRAWN]
    assert weights == [*DRAWN.values()]
    size, normalised = 10_000, utils.normalize(weights)
    index, sample = np.zeros(size, np.int16), np.zeros(size, np.int64)
    helpers.build_blending_indices(index, sample, normalised, len(weights), size, False)
    counts = Counter(prefixes[i].removeprefix("/data/") for i in index)
    assert_shares(counts, DRAWN, 2 / size)
    built = builder._get_size_per_split_per_dataset(normalised, [size], surplus=0.005)
    assert all(counts[name] <= most for name, (most,) in zip(DRAWN, built, strict=True))


def test_olmo_core_selects_the_ratios(tmp_path: Path) -> None:
    source_mixture = reader("olmo_core.data.source_mixture", "ai2-olmo-core")
    for name in DRAWN:
        (tmp_path / name).mkdir()
        tokens = np.memmap(tmp_path / name / "0.npy", np.uint16, "w+", shape=(1_000_000,))
        tokens.flush()
    path = tmp_path / "mix.yaml"
    path.write_text(text_for("olmo-core", tmp_path))
    sources = source_mixture.SourceMixtureList.from_yaml(path)
    sources.validate()
    for source in sources.sources:
        source.validate()
    config = source_mixture.SourceMixtureDatasetConfig(
        source_list=sources,
        requested_tokens=1_024_000,
        global_batch_size=1024,
        render_tables=False,
        quiet=True,
    )
    found = config.build(npdtype=np.uint16, sequence_length=64)
    counts = {s.name: sum(p.tokens for p in s.path_tokens) for s in found.sources}
    assert_shares(counts, DRAWN, 1e-4)


class Endless(torch.utils.data.IterableDataset):
    """Gives its name, as a packed source of torchtitan's gives sequences."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __iter__(self) -> Iterator[str]:
        while True:
            yield self.name

    def state_dict(self) -> dict:
        return {}

    def load_state_dict(self, state: dict) -> None:
        del state


def weights_of(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    exec(compile(text, "exported", "exec"), found)
    return found


def test_torchtitan_draws_the_weights() -> None:
    interleaved = reader("torchtitan.hf_datasets.interleaved", "torchtitan 0.3")
    texts = reader("torchtitan.hf_datasets.text_datasets", "torchtitan 0.3")
    weights = weights_of(text_for("torchtitan"))["WEIGHTS"]
    sources = [texts.HFDataSource(dataset=name, weight=w) for name, w in weights.items()]
    config = texts.InterleavedHuggingFaceTextDataLoader.Config(sources=sources)
    mixed = interleaved.InterleavedDataset(
        [Endless(source.dataset) for source in config.sources],
        [source.weight for source in config.sources],
        seed=config.seed,
    )
    assert_shares(Counter(islice(mixed, 20_000)), DRAWN, 0.015)


def test_litgpt_streams_the_weights(tmp_path: Path) -> None:
    litdata = reader("litdata", "litdata")
    writer = reader("litdata.streaming.writer", "litdata")
    block = 8
    for number, name in enumerate(DRAWN):
        (tmp_path / name).mkdir()
        cache = writer.BinaryWriter(
            str(tmp_path / name), chunk_size=1024, item_loader=litdata.TokensLoader(block)
        )
        for item in range(400):
            cache.add_item(item, torch.full((64,), number))
        cache.done()
        cache.merge(1)
    found = weights_of(text_for("litgpt", tmp_path))
    mixed = found["train_dataset"](block)
    names = [*found["PATHS"]]
    counts = Counter(names[int(tokens[0])] for tokens in islice(mixed, 3000))
    assert_shares(counts, DRAWN, 0.03)
