"""Models that a question names are checked before anything is read, and loaded as they are."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from method_options import options_for
from own_models import models_of_branches
from quick import PROXY
from safetensors.torch import load_file, save_file
from training_runs import tiny_shape
from transformers import AutoModelForCausalLM

from bydore_pyro import core
from bydore_pyro.data.domains import Domains
from bydore_pyro.errors import DataError
from bydore_pyro.fit import MethodOptions
from bydore_pyro.measure.models import Model
from bydore_pyro.proxy.language_model import build_language_model
from bydore_pyro.proxy.measured_model import Cost
from bydore_pyro.setup.domains import load_domains
from bydore_pyro.setup.models import loader_of, models_of, models_record, models_words
from bydore_pyro.setup.record import ModelRecord, ModelsRecord


class Given(NamedTuple):
    """Two models of a store's tokenizer, and the options of a run on it."""

    options: MethodOptions
    domains: Domains
    places: list[str]


@pytest.fixture(scope="module")
def given(store: Path, measured_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Given:
    out = tmp_path_factory.mktemp("models")
    options = options_for(store, "--proxy", str(PROXY), "--validation", "a")
    places = models_of_branches(measured_run, store, out)[:2]
    return Given(options, load_domains(options), [str(place) for place in places])


def test_models_are_loaded_as_hugging_face_reads_them(given: Given, tmp_path: Path) -> None:
    """Another architecture, with a padded vocabulary, too."""
    options, domains, places = given
    config = tiny_shape()
    config.vocab_size = domains.corpus.vocabulary + 24
    torch.manual_seed(0)
    other = AutoModelForCausalLM.from_config(config)
    other.save_pretrained(tmp_path / "other")
    found = models_of(options, domains.corpus, [*places, str(tmp_path / "other")])
    assert [one.folder for one in found] == [*places, str(tmp_path / "other")]
    assert len({one.sha256 for one in found}) == 3
    cost = Cost()
    load = loader_of(options, domains.corpus.vocabulary, cost)
    tokens = domains.targets["a"].tokens[:3]
    for one in found:
        losses = load(one).losses(tokens, "responses")
        plain = AutoModelForCausalLM.from_pretrained(one.folder).eval()
        with torch.no_grad():
            by_hand = [plain(input_ids=row[None], labels=row[None]).loss for row in tokens]
        assert torch.allclose(losses, torch.stack(by_hand), atol=1e-5)
    assert cost.tokens["responses"] == 3 * tokens.numel()


def test_a_model_without_a_tokenizer_is_told_and_counts(
    given: Given, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options, domains, places = given
    bare = shutil.copytree(places[1], tmp_path / "bare")
    (bare / "tokenizer.json").unlink()
    first, second = models_of(options, domains.corpus, [places[0], str(bare)])
    assert f"{bare} has no tokenizer.json" in capsys.readouterr().err
    again = models_of(options, domains.corpus, places)
    assert [one.sha256 for one in again] == [first.sha256, second.sha256], "the weights are hashed"


def test_models_that_cannot_be_read_are_refused(given: Given, store: Path, tmp_path: Path) -> None:
    options, domains, places = given

    def changed(name: str, change: Callable[[Path], object]) -> str:
        folder = shutil.copytree(places[1], tmp_path / name)
        change(folder)
        return str(folder)

    def of_config(**values: object) -> Callable[[Path], object]:
        def write(folder: Path) -> None:
            config = json.loads((folder / "config.json").read_text())
            (folder / "config.json").write_text(json.dumps(config | values))

        return write

    def of_weights(folder: Path) -> None:
        weights = load_file(folder / "model.safetensors")
        weights["lm_head.weight"][0] = torch.nan
        save_file(weights, folder / "model.safetensors", {"format": "pt"})

    def of_tokens(folder: Path) -> None:
        tokens = json.loads((folder / "tokenizer.json").read_text())
        vocabulary = tokens["model"]["vocab"]
        vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
        (folder / "tokenizer.json").write_text(json.dumps(tokens))

    (tmp_path / "empty").mkdir()
    small = build_language_model(PROXY, domains.corpus.vocabulary - 1)
    small.save_pretrained(tmp_path / "small")
    for place, message in (
        (str(tmp_path / "none"), "Expected the folder of a model for --models, found none: "),
        (str(tmp_path / "empty"), "Expected the configuration of a causal language model"),
        (str(store), "Expected the configuration of a causal language model"),
        (changed("copy", lambda folder: None), "found the same in "),
        (changed("shape", of_config(hidden_size=32)), "of shape .*, of which config.json makes"),
        (changed("short", of_config(max_position_embeddings=8)), "Expected sequence_length <= 8"),
        (changed("nan", of_weights), "NaN or infinity in lm_head.weight"),
        (changed("tokens", of_tokens), "found another in .*: the token "),
        (
            changed(
                "pickle",
                lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"),
            ),
            "as safetensors, found: ",
        ),
        (str(tmp_path / "small"), r"the text's \d+ tokens, found \d+ in "),
    ):
        with pytest.raises(DataError, match=message):
            models_of(options, domains.corpus, [*places, place])


def test_what_is_recorded_of_models() -> None:
    """Two of three say the same; behind a branch, of the domains that the question is about."""
    rows = torch.tensor([[0.3, 1.0, 2.0, 0.1], [0.1, 0.2, 0.4, 1.0], [0.9, 0.2, 0.4, 1.0]]).double()
    noise = 0.02 * torch.randn(4, 40, 4, generator=torch.Generator().manual_seed(0)).double()
    samples = [
        core.Sample(own + row, torch.arange(40)) for own, row in zip(noise[:3], rows, strict=True)
    ]
    target = core.Sample(rows[0] + noise[3], torch.arange(40))
    read = [Model(folder=f"/m/{name}", sha256=name * 64) for name in "wxyz"]

    def record_of(responses: core.Responses | None) -> ModelsRecord:
        rounds = [SimpleNamespace(responses=None), SimpleNamespace(responses=responses)]
        given: Any = SimpleNamespace(names=("a", "b", "c"), rounds=rounds)
        return models_record(read, given)

    assert record_of(core.Responses(tuple(samples), target, 3)) == ModelsRecord(
        read=tuple(ModelRecord(folder=f"/m/{name}", sha256=name * 12) for name in "wxyz"),
        equations=2,
        domains=3,
        directions=2,
        alike=(("b", "c"),),
    )
    assert record_of(None) == ModelsRecord()
    assert record_of(core.Responses(tuple(samples), target)) == ModelsRecord()


def test_what_is_said_of_models() -> None:
    one, *others = (ModelRecord(folder=f"/m/{name}", sha256=name) for name in "xyz")
    record = ModelsRecord(read=(one, *others), equations=2, domains=12, directions=2)
    assert models_words(ModelsRecord(), tested=True) == ""
    assert models_words(record, tested=True) == (
        "3 models count as 2 branches: from /m/x to /m/y, /m/z. They separate 2 directions of 12 "
        "domains."
    )
    alike = ModelsRecord(
        read=(one, others[0]), equations=1, domains=4, directions=1, alike=(("a", "b"), ("c", "d"))
    )
    assert models_words(alike, tested=False) == (
        "2 models count as 1 branch: from /m/x to /m/y. They separate 1 direction of 4 domains. "
        "They do not tell apart: a, b; c, d. They are too few to say what is unexplained: the "
        "gradients say it."
    )
