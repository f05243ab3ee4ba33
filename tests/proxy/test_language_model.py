"""Language models: what is built and refused, and losses in chunks as of all logits at once."""

from __future__ import annotations

import contextlib
import json
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM

from bydore_pyro.errors import DataError
from bydore_pyro.proxy.language_model import (
    TokenLosses,
    build_language_model,
    configuration_of,
    load_language_model,
    load_weights,
    model_source,
    read_model_config,
)

MODELS = Path(__file__).parents[2] / "models"


def test_the_models_folder_is_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Path(model_source("models/proxy-tiny")) == MODELS / "proxy-tiny"
    (tmp_path / "models" / "proxy-tiny").mkdir(parents=True)
    assert model_source("models/proxy-tiny") == "models/proxy-tiny", "what lies here comes first"
    # Also where a folder of the working directory is gone that was called like one of ours.
    for named in ("owner/name", "proxy", "data", "models", "bydore_pyro", "docs"):
        assert model_source(named) == named


def test_missing_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"found '.*nowhere'"):
        build_language_model(tmp_path / "nowhere", 50)
    for content in (
        '{"model_type": "no-such-architecture"}',
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


def test_a_configuration_is_what_its_file_says(tmp_path: Path) -> None:
    written = json.loads((MODELS / "proxy-tiny" / "config.json").read_text())
    assert configuration_of(MODELS / "proxy-tiny") == written
    saved = {**written, "transformers_version": "1.2", "_name_or_path": "elsewhere"}
    (tmp_path / "config.json").write_text(json.dumps(saved))
    assert configuration_of(tmp_path) == written, "who wrote it says nothing of the model"
    with pytest.raises(DataError, match=r"folder with config\.json"):
        configuration_of(tmp_path / "nowhere")


def test_a_trained_model_is_loaded_as_it_is(tmp_path: Path) -> None:
    model: Any = build_language_model(MODELS / "proxy-tiny", 50)
    model.bfloat16().save_pretrained(tmp_path)
    loaded = load_language_model(str(tmp_path), 40)
    for name, value in loaded.state_dict().items():
        assert value.dtype == torch.float32
        assert torch.equal(value, model.state_dict()[name].float())
    with pytest.raises(DataError, match="Expected a model of the text's 60 tokens, found 50"):
        load_language_model(str(tmp_path), 60)
    kept = load_file(tmp_path / "model.safetensors")
    lost = sorted(kept)[0]
    save_file({n: v for n, v in kept.items() if n != lost}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=f"^no weights for {lost}$"):
        load_weights(tmp_path)


@pytest.mark.parametrize(
    ("config", "weights", "told"),
    [
        ({"intermediate_size": 64}, {}, r"mlp.down_proj.weight of shape .128, 344., of which conf"),
        ({}, {"other.weight": torch.zeros(3)}, "found: other.weight, which the model of config"),
    ],
)
def test_weights_that_are_not_those_of_the_configuration(
    config: dict,
    weights: dict[str, Tensor],
    told: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One line, by the weight, and no table of transformers' before it."""
    model: Any = build_language_model(MODELS / "proxy-tiny", 50)
    model.save_pretrained(tmp_path)
    found = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(found | config))
    file = tmp_path / "model.safetensors"
    save_file(load_file(file) | weights, file, {"format": "pt"})
    capsys.readouterr()
    with pytest.raises(DataError, match=told) as error:
        load_language_model(str(tmp_path), 50)
    assert "\n" not in str(error.value)
    assert "LOAD REPORT" not in capsys.readouterr().err


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


SIZES = {"vocab_size": 50, "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2}
IDS = torch.randint(50, (3, 12), generator=torch.Generator().manual_seed(0))


def model(architecture: str, **options: object) -> nn.Module:
    config = AutoConfig.for_model(architecture, **SIZES, intermediate_size=32, **options)
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()


def whole(language_model: nn.Module) -> Tensor:
    logits = language_model(input_ids=IDS).logits[:, :-1]
    losses = nn.functional.cross_entropy(
        logits.flatten(0, 1), IDS[:, 1:].flatten(), reduction="none"
    )
    return losses.view(3, 11).mean(1)


@pytest.mark.parametrize("architecture", ["llama", "gpt2", "gpt_neox"])
@pytest.mark.parametrize("tied", [False, True])
def test_chunks_change_nothing(
    architecture: str, tied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    language_model = model(architecture, tie_word_embeddings=tied)
    expected = whole(language_model)
    expected.sum().backward()
    gradients = {n: p.grad.clone() for n, p in language_model.named_parameters()}
    language_model.zero_grad()
    calls = []
    head = language_model.get_output_embeddings()
    head.register_forward_hook(lambda *_: calls.append(1))
    monkeypatch.setattr("bydore_pyro.proxy.language_model.MAX_LOGITS", 5 * 50)
    losses = TokenLosses(language_model)(IDS).mean(1)
    assert len(calls) >= 8, "36 tokens, five at a time"
    torch.testing.assert_close(losses, expected)
    losses.sum().backward()
    for name, parameter in language_model.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name])
    with torch.no_grad():
        torch.testing.assert_close(TokenLosses(language_model)(IDS).mean(1), expected)


@pytest.mark.parametrize(
    ("liger", "dtype", "used"),
    [(True, torch.float32, True), (False, torch.float32, False), (True, torch.float64, False)],
)
def test_the_fused_kernel_is_used_where_gradients_are_taken(
    liger: bool, dtype: torch.dtype, used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fused = Mock(side_effect=nn.functional.cross_entropy)
    package = SimpleNamespace(LigerCrossEntropyLoss=partial(partial, fused))
    monkeypatch.setitem(sys.modules, "liger_kernel", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "liger_kernel.transformers", package)
    monkeypatch.setattr("bydore_pyro.proxy.language_model.find_spec", lambda name: name)
    monkeypatch.setattr("bydore_pyro.proxy.language_model._on_gpu", lambda logits: True)
    language_model = model("llama").to(dtype)
    expected = whole(language_model)
    losses = TokenLosses(language_model, liger=liger)
    torch.testing.assert_close(losses(IDS).mean(1), expected)
    assert fused.call_count == used
    with torch.no_grad():
        torch.testing.assert_close(losses(IDS).mean(1), expected)
    assert fused.call_count == used
