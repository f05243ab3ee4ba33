"""Language models from configurations: shapes, places, and what is refused."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from bydore_pyro.proxy.language_model import build_language_model, model_source, read_model_config
from bydore_pyro.utils.errors import DataError, familiar_errors

MODELS = Path(__file__).parents[2] / "models"


def test_the_shipped_models_have_the_stated_shapes() -> None:
    small = build_language_model(MODELS / "proxy-tiny", 2048).config
    assert (small.num_hidden_layers, small.hidden_size) == (2, 128)
    large = build_language_model(MODELS / "proxy-1m", 2048).config
    shape = (large.num_hidden_layers, large.hidden_size, large.num_attention_heads)
    assert shape == (2, 256, 8)
    assert large.intermediate_size == 512
    assert large.max_position_embeddings == 2048
    assert large.vocab_size == 2048
    assert not large.tie_word_embeddings


def test_the_models_folder_is_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Path(model_source("models/proxy-tiny")) == MODELS / "proxy-tiny"
    (tmp_path / "models" / "proxy-tiny").mkdir(parents=True)
    assert model_source("models/proxy-tiny") == "models/proxy-tiny", "what lies here comes first"
    assert model_source("owner/name") == "owner/name"


def test_missing_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"found '.*nowhere'"):
        build_language_model(tmp_path / "nowhere", 50)
    (tmp_path / "config.json").write_text('{"model_type": "no-such-architecture"}')
    with pytest.raises(DataError, match=r"config\.json"):
        build_language_model(tmp_path, 50)
    for content in (
        '{"model_type": "vit"}',
        "null",
        "{",
        '{"model_type": "llama", "hidden_size": 0}',
    ):
        (tmp_path / "config.json").write_text(content)
        with pytest.raises(DataError, match="causal language model"):
            build_language_model(tmp_path, 50)
    (tmp_path / "config.json").write_text('{"model_type": "vit"}')
    with pytest.raises(DataError, match=r"causal language model: .*vit is none"):
        read_model_config(tmp_path)
    assert read_model_config(MODELS / "proxy-1m").max_position_embeddings == 2048


def test_code_that_comes_with_a_model_is_not_run(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    (tmp_path / "code.py").write_text(f"open({str(trap)!r}, 'w')")
    for kind in ("llama", "unheard-of"):
        entries = {"AutoConfig": "code.C", "AutoModelForCausalLM": "code.M"}
        content = {"model_type": kind, "auto_map": entries, "num_hidden_layers": 1}
        (tmp_path / "config.json").write_text(json.dumps({**content, "hidden_size": 32}))
        with contextlib.suppress(DataError):
            build_language_model(tmp_path, 50)
        assert not trap.exists()


def test_no_configuration_is_blamed_for_want_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: object, **__: object) -> None:
        raise ImportError("tokenizers.abi3.so: failed to map segment from shared object")

    monkeypatch.setattr("transformers.AutoConfig.from_pretrained", load)
    with pytest.raises(OSError, match="Expected enough memory"), familiar_errors():
        read_model_config("models/proxy-tiny")
