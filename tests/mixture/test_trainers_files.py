"""Weights in trainers' own files are read as they are meant."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from mutations import replaced, require_one_line

from bydore_pyro.errors import DataError
from bydore_pyro.mixture.listed import Listed
from bydore_pyro.mixture.names import names_of_paths, names_of_prefixes
from bydore_pyro.mixture.trainers_files import blend_of, trainers_weights
from bydore_pyro.mixture.units import Supply
from bydore_pyro.mixture.weights_files import mixture_from, numbers_of

WEIGHTS = {"law": 0.3, "web": 0.7}
FILES = {
    "megatron": "0.3 /data/law_text_document\n\n 7e-1\t/data/web_text_document\n",
    "megatron's splits": '{"train": ["0.3", "/d/law", "0.7", "/d/web"], "valid": ["/d/law"]}',
    "nemo": '["0.3", "/data/law", "0.7", "/data/web"]',
    "nemo, a list of lines": "- 30\n- /data/law\n- 70.\n- /data/web\n",
    "megatron bridge": "blend:\n- [/d/law, /d/web]\n- [0.3, 0.7]\n",
    "megatron bridge's pair": '[["/d/law", "/d/web"], [0.3, 0.7]]',
    "nanotron": "dataset_folder: [/x/law/, /x/web/]\ndataset_weights: [0.3, 0.7]",
    "nanotron's stage": "data_stages:\n- data: {dataset: {dataset_folder: [a/law, a/web], "
    "dataset_weights: [0.3, 0.7]}}",
    "datasets": '{"names": ["law", "web"], "interleave_datasets": {"probabilities": [0.3, 0.7]}}',
    "streaming": "streams: {law: {local: a, proportion: 0.3}, web: {proportion: 0.7}}",
    "olmo-core": "sources:\n- {source_name: law, target_ratio: 0.3, paths: [x]}\n"
    "- {source_name: web, target_ratio: 0.7}",
    "olmix": '[{"domain": "law", "weight": 0.3}, {"domain": "web", "weight": 0.7}]',
    "levanter": "train_weights: {law: 0.3, web: 0.7}\nmixture_block_size: 2048",
    "levanter's stage": "train_weights:\n- [100, {law: 0.3, web: 0.7}]",
    "levanter, as TOML": "mixture_block_size = 2048\n[train_weights]\nlaw = 0.3\nweb = 0.7\n",
    "regmix": "train: {/x/law: 0.3, /x/web: 0.7}\nvalid: {}",
    "megatron in one line": "30 /d/law 70 /d/web\n",
    "megatron's option": "--data-path 0.3 /d/law \\\n  0.7 /d/web\n",
    "megatron's option in a script": "#!/bin/sh\ntorchrun pretrain.py --lr 1 \\\n  --data-path "
    "30 d/law \\\n 70 d/web --split 99,1,0\n",
    "megatron, a configuration": "model: {size: 3}\ndata: {data_path: 30 d/law 70 d/web, s: 5}",
    "megatron bridge, a configuration": "dataset:\n  blend: [[/d/law, /d/web], [0.3, 0.7]]\n"
    "  split: '99,1,0'\nsteps: 100",
    "nemo's splits": "data_prefix:\n  train: [30, /d/law, 70, /d/web]\n  validation: [1.0, /d/law]",
    "nanotron, a configuration": "general: {run: y}\ndata_stages:\n- data:\n    dataset:\n"
    "      dataset_folder: [/d/law, /d/web]\n      dataset_weights: [0.3, 0.7]\n    seed: 4\n"
    "  start_training_step: 1\nmodel: {}",
    "nanotron, before": "dataset_path: {/d/law: 0.3, /d/web: 0.7}",
    "torchtitan": "[training]\nsteps = 9\n[[training.data_stages]]\n"
    'dataset_folders = ["/d/law", "/d/web"]\ndataset_weights = [0.3, 0.7]\n',
    "gpt-neox": '{"train-data-paths": ["/d/law", "/d/web"], "train-data-weights": [0.3, 0.7], '
    '"valid-data-weights": [0.5, 0.4]}',
    "llama-factory": "stage: pt\ndataset: law,web\ninterleave_probs: 0.3,0.7",
    "llm-foundry, a configuration": "max_seq_len: 2048\ntrain_loader:\n  dataset:\n    streams:\n"
    "      law: {local: /l/law, proportion: 0.3}\n      web: {local: /l/web, proportion: 0.7}\n"
    "eval_loader:\n  dataset: {streams: {law: {local: x, proportion: 1}}}",
    "levanter, a configuration": "data:\n  configs: {law: {cache_dir: a}, web: {cache_dir: b}}\n"
    "  train_weights: {law: 0.3, web: 0.7}\ntrainer: {num_train_steps: 100}",
    "olmo-core, a configuration": "dataset:\n  source_mixture_config:\n    source_list:\n"
    "      sources:\n      - {source_name: law, target_ratio: 0.3}\n"
    "      - {source_name: web, target_ratio: 0.7}\n    requested_tokens: 1000",
    "automodel": "domain_mixture:\n- {name: law, sampling_weight: 0.3, objective_weight: 1.0}\n"
    "- {name: web, sampling_weight: 0.7, objective_weight: 0.5}",
    "modelopt": "sources:\n- {hf_dataset: o/law, weight: 30}\n- {hf_dataset: o/web, weight: 70}",
    "a blend beside comments": '{"blend": [{"name": "law", "path": "p/1", "weight": 30}, {"name": '
    '"web", "path": "p/2", "weight": 70}], "_missing_categories": {"code": 3}}',
    "entries by name": "law: {weight: 0.3, note: old}\nweb: {weight: 0.7}",
    "a list that nobody calls so": '{"entries": [{"name": "law", "weight": 30}, {"name": "web", '
    '"weight": 70}], "_missing_categories": {"code": 3}, "seed": 4}',
    "two places that agree": "a: {weights: {law: 0.3, web: 0.7}}\nb: {mix: {law: 0.3, web: 0.7}}",
    "weights beside settings that are called so": "train: {lr: 0.1, epochs: 3, batch_size: 8}\n"
    "data: {mixture: {law: 0.3, web: 0.7}}\n",
    "regmix's, by no prefix": "train: {law: 0.3, web: 0.7}\nvalid: {law: 1}",
    "regmix's, without valid": "model_name: x\ntrain: {law: 0.3, web: 0.7}",
    "doremi": '{"train_domain_weights": {"law": 0.3, "web": 0.7}, "eval_domain_weights": {}}',
}


@pytest.mark.parametrize("trainer", FILES)
@pytest.mark.filterwarnings("ignore:.* the weights sum to 100; they were normalised")
def test_a_trainers_file(trainer: str, tmp_path: Path) -> None:
    (tmp_path / "weights").write_text(FILES[trainer])
    assert mixture_from(tmp_path / "weights").as_dict() == WEIGHTS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: {weights: {b: 1}}\nc: {mix: {d: 1}}", "weights in 'a.weights' and in 'c.mix': keep o"),
        ('{"phase0_weights": {"a": 1}, "phase1_weights": {"a": 1}}', "a schedule of 2 stages"),
        (
            "mixture:\n- {name: a, proportion: 1, mixture: {b: 0.66}}",
            "the group 'a' that sums to 0.66",
        ),
        (
            "dataset_mixer: {a: 0.5, b: 2000}",
            "parts of data sets beside numbers of rows in d",
        ),
        ("run --data-path 1 a --data-path 1 b", "--data-path twice: keep one of them"),
        ("run --data-path 1 a 2 --lr 3", "3 words instead of weights and prefixes in turn"),
        (
            "one: [{name: a, weight: 1}]\ntwo: [{name: b, weight: 1}]",
            "weights in 'one' and in 'two': keep one of them",
        ),
        (
            "data: {mixture: {a: 1}}\nlater: {data: {mixture: {a: 0.5, b: 0.5}}}",
            "weights in 'data.mixture' and in 'later.data.mixture': keep one of them",
        ),
        ("data_path: 30 /a x /b", "'x' instead of a number as the weight of '/b'"),
        ("train_weights:\n- [0, {a: 1}]\n- [9, {a: 1}]", "a schedule of 2 stages instead of one"),
        ("dataset_folder: [a]\ndataset_weights: [0.5, 0.5]", "1 domains and 2 weights"),
        ("dataset_folder: [a]\n", "nothing instead of a list under 'dataset_weights'"),
        ("sources:\n- {source_name: a}", "no 'target_ratio' in entry 1 of sources, but 'source_na"),
        ('["0.5", "/a", "0.5", "/a"]', "found 'a' twice"),
        ("[1, 2]", "no paths beside the weights"),
        ('[1, "/a", 2]', "a list of 3 instead of weights and paths in turn"),
        ("data_stages: [{data: {dataset: null}}]", "nothing instead of a mapping under dataset"),
        ("streams: {a: {proportion: 0.5}, b: {local: x}}", "no 'proportion' in stream 'b'"),
        (
            "train_weights: {a: 1}\nstreams: {b: {proportion: 1}}",
            "'streams' and in 'train_weights'",
        ),
        ("- {domain: a}", "no 'weight' in entry 1, but 'domain'"),
        ('{"interleave_datasets": {"probabilities": [1]}}', "nothing instead of a list under 'nam"),
        ("train: {epochs: 3, warm: 0.1}\nmodel: {dim: 3}", "'train', 'model' with more than a n"),
        ("train: {lr: 0.4, a: 0.6}\nvalid: {a: 1}", "'train', 'valid' with more than a number"),
        ("data: {weights_of: {a: 1}}\nmodel: {x: 1}", "'data', 'model' with more than a number"),
    ],
)
def test_what_is_not_one_mixture_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "weights").write_text(text)
    with pytest.raises(DataError, match=message) as error:
        mixture_from(tmp_path / "weights")
    assert "\n" not in str(error.value)


SHARED = [
    (
        ["/d/law_text_document", "/d/lab_text_document"],
        ["law", "lab"],
        "'/d/' and '_text_document'",
    ),
    (["/d/web.en", "/d/law.en"], ["web.en", "law.en"], "'/d/'"),
    (["a_x", "b_x"], ["a_x", "b_x"], ""),
    (["/data/a_text_document"], ["a"], "'/data/' and '_text_document'"),
    (["s3://b/web", "s3://b/web/law"], ["web", "web/law"], "'s3://b/'"),
    (["_text_document", "a_text_document"], ["_text_document", "a_text_document"], ""),
]


@pytest.mark.parametrize(("paths", "names", "cut"), SHARED)
def test_only_what_is_certain_is_cut_from_paths_and_it_is_said(
    paths: list[str], names: list[str], cut: str
) -> None:
    assert names_of_paths(paths) == (names, f"by their paths without {cut}" if cut else "")


@pytest.mark.parametrize(
    ("prefixes", "names", "cut"),
    [
        (["train_law", "train_web"], ["law", "web"], "without 'train_'"),
        (["train_law", "web"], ["train_law", "web"], ""),
        (["train_the_pile_github"], ["github"], "without 'train_' and 'the_pile_'"),
        (["/x/law__", "/x/web__"], ["law__", "web__"], "by their paths without '/x/'"),
        ([], [], ""),
    ],
)
def test_regmixs_prefixes_are_cut_where_all_have_them(
    prefixes: list[str], names: list[str], cut: str
) -> None:
    assert names_of_prefixes(prefixes) == (names, cut)


def test_what_is_none_is_left_to_others() -> None:
    assert blend_of("words here\n0.5 a\n") is None
    assert blend_of("- 30\n- /a\n") is None, "a list of YAML"
    assert blend_of("") is None
    assert trainers_weights({"a": 1}) is None
    assert trainers_weights({"train": 0.5, "sources": 0.5}) is None, "domains of such names"
    assert trainers_weights("words") is None
    assert trainers_weights({"train_weights": {"a": 1}}) == Listed({"a": 1})


def test_numbers_may_have_underscores(tmp_path: Path) -> None:
    for name, text in (
        ("a.yaml", "web: 60_000_000_000\nlaw: 5"),
        ("a.csv", "domain,weight\nweb,60_000_000_000\nlaw,5\n"),
    ):
        (tmp_path / name).write_text(text)
        assert numbers_of(tmp_path / name) == {"web": 6e10, "law": 5}
    (tmp_path / "a.yaml").write_text("web: 6__0\n")
    with pytest.raises(DataError, match="instead of a number"):
        numbers_of(tmp_path / "a.yaml")


# ---- every value of every layout replaced: a mixture or one line, never a traceback


def contents() -> Iterator[Any]:
    for text in FILES.values():
        try:
            found = yaml.safe_load(text)
        except yaml.YAMLError:
            continue
        if isinstance(found, dict | list):
            yield found


@pytest.mark.filterwarnings("ignore:.* the weights sum to")
@pytest.mark.parametrize("content", [*contents()], ids=json.dumps)
def test_any_value_may_be_anything(content: Any, tmp_path: Path) -> None:
    path, read, refused = tmp_path / "weights.json", 0, []
    for changed in replaced(content):
        path.write_text(json.dumps(changed))
        try:
            mixture = mixture_from(path)
        except DataError as error:
            refused.append(str(error))
        else:
            read += 1
            assert math.fsum(mixture.weights) == pytest.approx(1)
            assert all(isinstance(name, str) and name for name in mixture.names)
    assert min(read, len(refused)) > 0
    require_one_line(refused, path)


# ---- files whose numbers are no shares of tokens

THERE = {"law": Supply(1000, 10, "rows"), "web": Supply(3000, 10, "rows")}
OF_OTHER_UNITS = {
    "streaming's repetitions": ("streams: {law: {repeat: 3}, web: {repeat: 1}}", 0.5),
    "megatron bridge's fine-tuning": (
        "dataset:\n  source: [{path_or_dataset: org/law}, {path_or_dataset: org/web}]\n"
        "  source_weights: [3, 1.0]",
        0.5,
    ),
    "axolotl": (
        "base_model: x\ndatasets: [{path: o/law, weight: 0.9}, {path: o/web, weight: 0.3}]",
        0.5,
    ),
    "trl": ("datasets:\n- {path: o/law, fraction: 0.3}\n- {path: o/web, fraction: 0.3}", 0.25),
    "alignment handbook": ("dataset_mixer: {law: 1.0, web: 0.5}", 0.4),
    "alignment handbook's list": (
        "dataset_mixture:\n  datasets: [{id: o/law, weight: 1}, {id: o/web, weight: 0.5}]",
        0.4,
    ),
    "open-instruct's rows": ("dataset_mixer: {law: 600, web: 200}", 0.5),
    "rows, as exported": (
        "# the weights are shares of documents.\nlaw: 1\nweb: 1",
        0.25,
    ),
}


@pytest.mark.parametrize("trainer", OF_OTHER_UNITS)
def test_epochs_and_documents_become_tokens_by_counts_or_are_refused(
    trainer: str, tmp_path: Path
) -> None:
    text, law = OF_OTHER_UNITS[trainer]
    (tmp_path / "weights").write_text(text)
    found = mixture_from(tmp_path / "weights", supply=THERE, names=["law", "web"])
    assert found.as_dict() == {"law": pytest.approx(law), "web": pytest.approx(1 - law)}
    with pytest.raises(DataError, match=r"instead of .*tokens.*bydore weights FILE --data STORE"):
        mixture_from(tmp_path / "weights")


@pytest.mark.parametrize("trainer", OF_OTHER_UNITS)
def test_any_value_of_these_may_be_anything(trainer: str, tmp_path: Path) -> None:
    path, read, refused = tmp_path / "weights.json", 0, []
    for changed in replaced(yaml.safe_load(OF_OTHER_UNITS[trainer][0])):
        path.write_text(json.dumps(changed))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                mixture = mixture_from(path, supply=THERE, names=["law", "web"])
        except DataError as error:
            refused.append(str(error))
        else:
            read += 1
            assert math.fsum(mixture.weights) == pytest.approx(1)
    assert refused
    assert not any("\n" in line or "Traceback" in line for line in refused)
