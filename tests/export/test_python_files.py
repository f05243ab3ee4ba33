"""The Python that is written runs, and hands the trainer's own classes what they document."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from bydore_pyro.export.python_files import for_litgpt, for_torchtitan
from bydore_pyro.export.shares import Share

WEIGHTS = {"web": 0.75, 'it\'s "law"\\': 0.25}
SHARES = [Share(name=n, weight=w, path=f"/data/{n}") for n, w in WEIGHTS.items()]


def namespace_of(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    exec(compile(text, "exported", "exec"), found)
    assert found["__doc__"]
    return found


def stand_in(monkeypatch: pytest.MonkeyPatch, module: str, *names: str) -> None:
    """Stands in for a trainer's module: classes that keep their arguments."""
    made = ModuleType(module)
    for name in names:
        setattr(made, name, lambda name=name, **given: SimpleNamespace(kind=name, **given))
    parts = module.split(".")
    for end in range(1, len(parts)):
        monkeypatch.setitem(sys.modules, ".".join(parts[:end]), ModuleType(parts[end - 1]))
    monkeypatch.setitem(sys.modules, module, made)


@pytest.mark.parametrize("samples", ["sequences", "documents"])
def test_torchtitan_packs_as_the_weights_want_it(
    monkeypatch: pytest.MonkeyPatch, samples: Any
) -> None:
    names = ("ConcatThenSplitPackingConfig", "DatasetMixConfig", "WeightedDataset")
    stand_in(monkeypatch, "torchtitan.components.data", *names)
    found = namespace_of(for_torchtitan(SHARES, samples))
    assert found["WEIGHTS"] == WEIGHTS
    mix = found["mixed"]({name: f"config of {name}" for name in [*WEIGHTS, "other"]})
    if samples == "documents":
        assert mix.kind == "ConcatThenSplitPackingConfig"
        mix = mix.dataset
        children = [weighted.dataset for weighted in mix.datasets]
    else:
        packed = [weighted.dataset for weighted in mix.datasets]
        assert {p.kind for p in packed} == {"ConcatThenSplitPackingConfig"}
        children = [p.dataset for p in packed]
    assert mix.kind == "DatasetMixConfig"
    assert children == [f"config of {name}" for name in WEIGHTS]
    assert [weighted.weight for weighted in mix.datasets] == [*WEIGHTS.values()]


def test_litgpt_combines_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("CombinedStreamingDataset", "StreamingDataset", "TokensLoader")
    stand_in(monkeypatch, "litdata.streaming", *names)
    combined = namespace_of(for_litgpt(SHARES, "sequences"))["train_dataset"](2049, seed=3)
    assert combined.weights == (0.75, 0.25)
    assert combined.seed == 3
    assert combined.iterate_over_all is False  # litdata refuses weights with True
    assert [d.input_dir for d in combined.datasets] == [s.path for s in SHARES]
    assert {d.item_loader.block_size for d in combined.datasets} == {2049}
