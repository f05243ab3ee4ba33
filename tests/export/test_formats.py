"""Every file of configuration, read by the rules that its trainer documents."""

from __future__ import annotations

import ast
import json
import sys
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from bydore_pyro.errors import DataError
from bydore_pyro.export.formats import (
    FORMATS,
    UNIT_OF,
    ExportConfig,
    Format,
    Share,
    as_stage,
    levanter_block,
    regmix_keys,
    with_meaning,
)
from bydore_pyro.export.write import PATHS_ALONE, export
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.mixture.units import Supply
from bydore_pyro.mixture.weights_files import mixture_from

WEIGHTS = {"web": 0.6, "law": 0.25, "no": 0.149999, "2020": 0.000001}  # YAML would change two names
SHARES = [Share(name=n, weight=w, paths=(f"/data/{n}",)) for n, w in WEIGHTS.items()]
PATHS = {f"/data/{name}": weight for name, weight in WEIGHTS.items()}


def test_datasets_gets_arguments() -> None:
    found = json.loads(FORMATS["datasets"].write(SHARES, "documents"))
    assert found["weights_are"] == "shares of documents"
    assert dict(zip(found["names"], found["paths"], strict=True)) == {
        n: f"/data/{n}" for n in WEIGHTS
    }
    arguments = found["interleave_datasets"]
    assert dict(zip(found["names"], arguments["probabilities"], strict=True)) == WEIGHTS
    assert arguments["stopping_strategy"] == "all_exhausted"
    np.random.default_rng(0).choice(4, p=arguments["probabilities"])  # NumPy wants a sum of 1
    bare = json.loads(FORMATS["datasets"].write([Share(name="a", weight=1.0)], "sequences"))
    assert bare["paths"] is None
    assert bare["weights_are"] == "shares of tokens"


def test_streaming_gives_every_stream_a_proportion() -> None:
    remote = Share(name="books", weight=0.5, paths=("s3://bucket/books",))
    text = FORMATS["streaming"].write([*SHARES, remote], "sequences")
    assert text.startswith("# bydore export: the weights are shares of tokens.\n")
    streams = yaml.safe_load(text)["streams"]
    assert streams.pop("books") == {"remote": "s3://bucket/books", "proportion": 0.5}
    assert {n: s["proportion"] for n, s in streams.items()} == WEIGHTS
    assert {n: s["local"] for n, s in streams.items()} == {n: f"/data/{n}" for n in WEIGHTS}


@pytest.mark.parametrize("count", [1, 4])
def test_blends_are_pairs(count: int) -> None:
    """Megatron-LM splits the file at white space, and takes a list of odd length for paths."""
    for blend in (
        FORMATS["megatron"].write(SHARES[:count], "sequences").split(),
        json.loads(FORMATS["nemo"].write(SHARES[:count], "sequences")),
    ):
        assert len(blend) == 2 * count
        assert all(isinstance(text, str) for text in blend)
        pairs = dict(zip(blend[1::2], map(float, blend[::2]), strict=True))
        assert pairs == dict([*PATHS.items()][:count])
        assert not any("e" in weight for weight in blend[::2])


def test_megatron_refuses_white_space() -> None:
    for path in ("/my data/web", ""):
        with pytest.raises(DataError, match="without white space, found"):
            FORMATS["megatron"].write([Share(name="web", weight=1.0, paths=(path,))], "sequences")


def test_nanotron_has_lists_of_one_length() -> None:
    found = yaml.safe_load(FORMATS["nanotron"].write(SHARES, "sequences"))
    assert dict(zip(found["dataset_folder"], found["dataset_weights"], strict=True)) == PATHS


def test_olmo_core_keeps_its_bounds() -> None:
    shares = [*SHARES, Share(name="x", weight=0.5, paths=("/data/x.npy",))]
    shares.append(Share(name="y", weight=0.5, paths=("/data/y/part-*.bin",)))
    *sources, x, y = yaml.safe_load(FORMATS["olmo-core"].write(shares, "tokens"))["sources"]
    assert (x["paths"], y["paths"]) == (["/data/x.npy"], ["/data/y/part-*.bin"])
    ratios = {source["source_name"]: source["target_ratio"] for source in sources}
    assert ratios == WEIGHTS
    assert all(0 < ratio <= 1 for ratio in ratios.values())
    assert np.allclose(sum(ratios.values()), 1.0)
    assert sources[0]["paths"] == ["/data/web/*.npy"]


def test_the_next_stage_begins_at_its_step() -> None:
    """levanter takes a list of pairs of a step and weights; nanotron a list of named stages."""
    mixture = Mixture(names=("a", "b"), weights=(0.75, 0.25))
    given: dict[str, Any] = {"prefix": "/data", "from_step": 20000}
    found = yaml.safe_load(export(mixture, ExportConfig(to="nanotron", **given)).text)
    (stage,) = found["data_stages"]
    assert stage["start_training_step"] == 20000
    assert stage["data"]["dataset"]["dataset_weights"] == [0.75, 0.25]
    text = export(mixture, ExportConfig(to="levanter", from_step=20000)).text
    whole = export(mixture, ExportConfig(to="levanter")).text
    staged = as_stage("levanter", whole, 20000)
    assert text == with_meaning(staged, FORMATS["levanter"])
    assert yaml.safe_load(text)["train_weights"] == [[20000, {"a": 0.75, "b": 0.25}]]
    assert text.startswith("# bydore export: the weights are shares of tokens.")
    text = export(mixture, ExportConfig(to="megatron", **given)).text  # a file a stage
    assert text == export(mixture, ExportConfig(to="megatron", prefix="/data")).text
    others = r"stages \(megatron, nanotron, olmo-core, levanter\) for --from_step, found 'nemo"
    with pytest.raises(ValueError, match=others):
        ExportConfig(to="nemo", **given)


def drawn_by_levanter(text: str) -> dict[str, int]:
    """Sequences in a block: shares of it rounded down, the rest to the largest."""
    found = yaml.safe_load(text)
    block, weights = found.get("mixture_block_size", 2048), found["train_weights"]
    assert block < 65536
    total = sum(weights.values())
    counts = {name: int(weight / total * block) for name, weight in weights.items()}
    counts[max(counts, key=lambda name: counts[name])] += block - sum(counts.values())
    return counts


def test_levanter_draws_the_smallest() -> None:
    def text(**weights: float) -> str:
        shares = [Share(name=n, weight=w) for n, w in weights.items()]
        return FORMATS["levanter"].write(shares, "sequences")

    assert "mixture_block_size" not in text(a=0.5, b=0.5)
    assert drawn_by_levanter(text(a=0.5, b=0.5, zero=0.0)) == {"a": 1024, "b": 1024, "zero": 0}
    assert [levanter_block([1 - w, w]) for w in (0.5, 2e-4, 1e-5)] == [2048, 16384, 32768]
    rng = np.random.default_rng(0)
    for weights in ([0.9998, 0.0002], [0.999, 0.0009, 0.0001], *rng.dirichlet(np.ones(6), 20)):
        given = {f"d{i}": float(w) for i, w in enumerate(weights)}
        counts = drawn_by_levanter(text(**given))
        for name, weight in given.items():
            assert counts[name] / sum(counts.values()) > 0.89 * weight
    assert sum(drawn_by_levanter(text(a=0.999999, b=1e-6)).values()) == 32768
    assert (
        yaml.safe_load(FORMATS["levanter"].write(SHARES, "sequences"))["train_weights"] == WEIGHTS
    )


def test_regmix_comes_back(tmp_path: Path) -> None:
    bare = [Share(name=name, weight=weight) for name, weight in WEIGHTS.items()]
    path = tmp_path / "weights.yaml"
    path.write_text(FORMATS["regmix"].write(bare, "sequences"))
    assert mixture_from(path).as_dict() == WEIGHTS
    found = yaml.safe_load(path.read_text())
    assert found["valid"] == {}  # RegMix deletes the key, so it must be there
    assert all(float(weight) >= 0 for weight in found["train"].values())


def test_regmix_tells_domains_apart_by_prefix() -> None:
    shares = [Share(name=name, weight=0.5) for name in ("law", "law_books")]
    assert fnmatch("train_law_books_1.bin", "train_law*")
    with pytest.raises(DataError, match="'train_law', which also matches 'train_law_books'"):
        FORMATS["regmix"].write(shares, "sequences")
    ended = [Share(name=s.name, weight=s.weight, paths=(f"train_{s.name}-",)) for s in shares]
    assert [*yaml.safe_load(FORMATS["regmix"].write(ended, "sequences"))["train"]] == [
        "train_law-",
        "train_law_books-",
    ]


def test_regmix_tells_them_apart_from_files_of_domains_without_weight() -> None:
    mixture = Mixture(names=("law", "law_hq", "web"), weights=(0.6, 0.0, 0.4))
    with pytest.raises(DataError, match="'train_law', which also matches 'train_law_hq'"):
        export(mixture, ExportConfig(to="regmix"))
    apart = export(mixture, ExportConfig(to="regmix", prefix="train_{domain}__"))
    assert [*yaml.safe_load(apart.text)["train"]] == ["train_law__", "train_web__"]
    assert regmix_keys([Share(name="web", weight=1.0)]) == ["train_web"]


def test_doremi_comes_back_sorted(tmp_path: Path) -> None:
    path = tmp_path / "weights.json"
    zero = Share(name="zero", weight=0.0)
    path.write_text(FORMATS["doremi"].write([*SHARES, zero], "sequences"))
    found = json.loads(path.read_text())
    assert [*found] == ["train_domain_weights", "eval_domain_weights"]
    for weights in found.values():
        assert [*weights] == sorted([*WEIGHTS, "zero"])
    assert mixture_from(path).as_dict() == {**WEIGHTS, "zero": 0.0}


# ---- the Python that is written runs, and hands the trainer's own classes what they document

QUOTED = {"PATHS_LITERAL": 0.75, 'it\'s "law"\\': 0.25}
QUOTED_SHARES = [Share(name=n, weight=w, paths=(f"/data/{n}",)) for n, w in QUOTED.items()]


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
    found = namespace_of(FORMATS["torchtitan"].write(QUOTED_SHARES, samples))
    assert found["WEIGHTS"] == QUOTED
    mix = found["mixed"]({name: f"config of {name}" for name in [*QUOTED, "other"]})
    if samples == "documents":
        assert mix.kind == "ConcatThenSplitPackingConfig"
        mix = mix.dataset
        children = [weighted.dataset for weighted in mix.datasets]
    else:
        packed = [weighted.dataset for weighted in mix.datasets]
        assert {p.kind for p in packed} == {"ConcatThenSplitPackingConfig"}
        children = [p.dataset for p in packed]
    assert mix.kind == "DatasetMixConfig"
    assert children == [f"config of {name}" for name in QUOTED]
    assert [weighted.weight for weighted in mix.datasets] == [*QUOTED.values()]


def test_litgpt_combines_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("CombinedStreamingDataset", "StreamingDataset", "TokensLoader")
    stand_in(monkeypatch, "litdata.streaming", *names)
    combined = namespace_of(FORMATS["litgpt"].write(QUOTED_SHARES, "sequences"))["train_dataset"](
        2049, seed=3
    )
    assert combined.weights == (0.75, 0.25)
    assert combined.seed == 3
    assert combined.iterate_over_all is False  # litdata refuses weights with True
    assert [d.input_dir for d in combined.datasets] == [s.path for s in QUOTED_SHARES]
    assert {d.item_loader.block_size for d in combined.datasets} == {2049}


def config_of(to: str, **options: object) -> ExportConfig:
    prefix = None if FORMATS[to].paths == "unused" else "/data/{domain}_"
    tokens = 30 if "epochs" in FORMATS[to].draws else None  # too few for a domain to be repeated
    return ExportConfig(**{"to": to, "prefix": prefix, "tokens": tokens, **options})


@pytest.mark.parametrize("to", FORMATS)
def test_random_mixtures_sum_to_one(to: str) -> None:
    assert isinstance(FORMATS[to], Format)
    rng = np.random.default_rng(0)
    for _ in range(4):
        weights = rng.dirichlet(np.full(30, 0.1))
        weights[:3] = 0
        names = tuple(f"d{i:02}" for i in range(30))
        mixture = Mixture(names=names, weights=tuple(weights / weights.sum()))
        found = export(
            mixture,
            config_of(to, samples=FORMATS[to].draws[-1]),
            dict.fromkeys(names, Supply(7.0 * 9, 9, "rows")),
        )
        assert sum(found.shares.values()) == pytest.approx(1, abs=1e-14)
        kept = [n for n in names if n in found.shares]
        assert FORMATS[to].keeps_zeros == (kept == [*names])
        assert all((name in found.text) == (name in kept) for name in names)
        if not FORMATS[to].keeps_zeros:
            assert min(found.shares.values()) > 0
            assert any(names[0] in note for note in found.notes)


def test_prefixes() -> None:
    assert ExportConfig(to="megatron").path("law") == ""
    assert ExportConfig(to="megatron", prefix="/data/").path("law") == "/data/law"
    assert ExportConfig(to="megatron", prefix="s3://b/{domain}/x").path("law") == "s3://b/law/x"
    assert ExportConfig(to="megatron", prefix="/x/{domain}").path("{0}") == "/x/{0}"
    for name in ("../../etc/x", "a/../../x", "..", "/etc/x"):
        with pytest.raises(DataError, match=f"can be part of a path, found '{name}'"):
            ExportConfig(to="megatron", prefix="/data").path(name)
    with pytest.raises(ValueError, match=r"Expected no braces in prefix but \{domain\}"):
        ExportConfig(to="megatron", prefix="/d/{Domain}")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"to": "word"}, r"Expected a format \(datasets, .*, megatron-bridge\), found 'word'"),
        ({"to": "axolotl"}, "Expected --tokens for axolotl, which wants epochs, found none"),
        ({"to": "megatron", "samples": "documents"}, r"samples \(sequences\) for megatron"),
        ({"to": "datasets", "samples": "x"}, r"samples \(documents, sequences\) for datasets"),
    ],
)
def test_bad_options_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ExportConfig(**options)


def test_a_domain_may_have_several_paths(tmp_path: Path) -> None:
    """OLMo-core's own file of midtraining has up to five; who takes one refuses more."""
    listing = tmp_path / "paths.yaml"
    listing.write_text("domains: {law: [/a/law, '/b/law/*.npy'], web: /a/web.npy}")
    mixture = Mixture(names=("law", "web"), weights=(0.25, 0.75))
    text = export(mixture, ExportConfig(to="olmo-core", paths=str(listing))).text
    assert [source["paths"] for source in yaml.safe_load(text)["sources"]] == [
        ["/a/law/*.npy", "/b/law/*.npy"],
        ["/a/web.npy"],
    ]
    config = ExportConfig(to="datasets", paths=str(listing), samples="sequences")
    found = json.loads(export(mixture, config).text)
    assert found["paths"] == [["/a/law", "/b/law/*.npy"], "/a/web.npy"]
    assert config.places(["web"]) == {"web": ("/a/web.npy",)}
    with pytest.raises(DataError, match=r"one path of 'law' in .* for megatron, found 2"):
        export(mixture, ExportConfig(to="megatron", paths=str(listing)))
    listing.write_text("domains: {law: /a/law}")
    with pytest.raises(DataError, match=r"paths of 'web' in .* for olmo-core, found 0"):
        export(mixture, ExportConfig(to="olmo-core", paths=str(listing)))
    with pytest.raises(ValueError, match="Expected --prefix or --paths, found both"):
        ExportConfig(to="olmo-core", paths="x", prefix="y")


AWKWARD = (
    ("law", "lab", "web"),
    ("web.en", "law.en"),
    ("a",),
    ("a", "ab", "a_b", "a/b", "a.b", "a-b"),
    ("2020", "1e3", "no", "null", "~", "true", "0x1F", "12:30"),
    ("train", "total", "seed", "sources", "format", "domain", "weight", "WEIGHTS"),
    ("ArXiv", "Github", "arxiv"),
    ("日本語", "ελληνικά", "naïve", "emoji😀", "e\u0301"),
    (
        "two words",
        " lead",
        "tab\there",
        "quote's",
        'double"s',
        "colon: x",
        "#hash",
        "- dash",
        "{b}",
    ),
    ("x" * 300, "comma,name", "back\\slash", "percent%", "semi;colon", "pipe|"),
    ("next\x85line", "next line"),
)


def weights_of_module(text: str) -> dict[str, float]:
    (found,) = (
        node.value
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign | ast.AnnAssign) and "WEIGHTS" in ast.unparse(node)[:8]
    )
    return ast.literal_eval(found)


@pytest.mark.parametrize("prefix", ["/data", "/data/{domain}_text_document", "s3://bucket/x/"])
@pytest.mark.parametrize("names", AWKWARD, ids=lambda names: names[0][:20])
@pytest.mark.parametrize("to", FORMATS)
def test_every_file_is_read_back_with_its_names_and_shares(
    to: str, names: tuple[str, ...], prefix: str, tmp_path: Path
) -> None:
    if to in PATHS_ALONE:  # in these a name is a part of a path
        names = tuple(name for name in names if name.split() == [name])
        if not names:
            return
    rng = np.random.default_rng(0)
    weights = rng.integers(1, 100, len(names)) / 1.0
    mixture = Mixture(names=names, weights=tuple((weights / weights.sum()).tolist()))
    given = None if FORMATS[to].paths == "unused" or to == "regmix" else prefix
    if to == "regmix" and any(a != b and b.startswith(a) for a in names for b in names):
        return  # its trainer cannot tell them apart
    draws = FORMATS[to].draws
    samples = "sequences" if "sequences" in draws else draws[0]
    supply = {name: Supply(100.0 + 7 * k, 5 + k, "rows") for k, name in enumerate(names)}
    config = ExportConfig(to=to, prefix=given, samples=samples, tokens=90)
    found = export(mixture, config, supply)
    (tmp_path / "weights").write_text(found.text, encoding="utf-8")
    if samples in ("documents", "epochs"):
        read = mixture_from(tmp_path / "weights", supply=supply).as_dict()
        assert read == pytest.approx(mixture.as_dict(), abs=2e-6)
        assert not any("reads it back with" in note for note in found.notes)
        return
    if to in ("torchtitan", "litgpt"):
        assert weights_of_module(found.text) == found.shares
    else:
        assert mixture_from(tmp_path / "weights").as_dict() == found.shares
    assert found.shares == pytest.approx(mixture.as_dict(), abs=1e-6)
    assert not any("reads it back with" in note for note in found.notes)


@pytest.mark.parametrize(
    ("to", "names", "prefix", "read"),
    [
        ("megatron", ("web/law", "web/code"), "/data", ("law", "code")),
        ("nemo", ("web/law",), "/data/{domain}", ("law",)),
        ("nanotron", ("law", "web"), "/data/{domain}/train", ("law/train", "web/train")),
        ("regmix", ("law", "law_hq"), "train_{domain}__", ("law__", "law_hq__")),
        ("regmix", ("the_pile_arxiv", "the_pile_github"), None, ("arxiv", "github")),
    ],
)
def test_it_is_said_where_a_file_of_paths_alone_comes_back_with_other_names(
    to: str, names: tuple[str, ...], prefix: str | None, read: tuple[str, ...], tmp_path: Path
) -> None:
    mixture = Mixture(names=names, weights=(1 / len(names),) * len(names))
    found = export(mixture, ExportConfig(to=to, prefix=prefix))
    (tmp_path / "weights").write_text(found.text)
    assert mixture_from(tmp_path / "weights").names == read
    pairs = ", ".join(f"'{b}' for '{a}'" for a, b in zip(names, read, strict=True))
    said = f"The file has paths, no names: bydore reads it back with {pairs}."
    assert found.notes[-1] == said


@pytest.mark.parametrize("to", ["datasets", "streaming", "doremi"])
def test_shares_of_documents_are_not_read_back_as_shares_of_tokens(to: str, tmp_path: Path) -> None:
    prefix = "/data" if FORMATS[to].paths == "needed" else None
    config = ExportConfig(to=to, prefix=prefix, samples="documents")
    mixture = Mixture(names=("law", "web"), weights=(0.5, 0.5))
    lengths = {"law": Supply(1000.0 * 5, 5, "files"), "web": Supply(10.0 * 500, 500, "rows")}
    (tmp_path / "weights").write_text(export(mixture, config, lengths).text)
    with pytest.raises(DataError, match="shares of documents instead of tokens: bydore export"):
        mixture_from(tmp_path / "weights")


# One document of law has 1,000 tokens, of web 400, of code 4,000; a run of 4 billion tokens.
MIXED = Mixture(names=("law", "web", "code"), weights=(0.2, 0.5, 0.3))
THERE = {
    "law": Supply(1e9, 1e6, "rows"),
    "web": Supply(4e9, 1e7, "rows"),
    "code": Supply(2e9, 5e5, "rows"),
}
BY_HAND = {
    "tokens": {"law": 0.2, "web": 0.5, "code": 0.3},
    # 0.2 / 1000, 0.5 / 400 and 0.3 / 4000, divided by their sum, 0.001525.
    "documents": {"law": 0.131148, "web": 0.819672, "code": 0.049180},
    "epochs": {"law": 0.8, "web": 0.5, "code": 0.6},
}


@pytest.mark.parametrize(("to", "draws"), [(n, one) for n, f in FORMATS.items() for one in f.draws])
def test_every_trainers_number_is_in_its_own_unit_and_read_back_as_tokens(
    to: str, draws: str, tmp_path: Path
) -> None:
    config = config_of(to, samples=draws, tokens=4e9)
    found = export(MIXED, config, THERE)
    unit = UNIT_OF[config.drawn]
    numbers = [f"{number:.5g}"[:6] for number in BY_HAND[unit].values()]
    assert all(number in found.text for number in numbers)
    assert [one.epochs for one in found.exposures] == pytest.approx([0.8, 0.5, 0.6], abs=1e-5)
    assert [one.documents for one in found.exposures] == pytest.approx([8e5, 5e6, 3e5], rel=1e-5)
    form = FORMATS[to]
    assert form.number in {"probability", "samples", "token share", "rows", "epochs"}
    if to not in ("datasets", "doremi", "megatron", "nemo"):  # JSON and a list have no comments
        assert f"# Number: {form.number}. {form.means}\n" in found.text
    if to in ("torchtitan", "litgpt"):
        assert weights_of_module(found.text) == found.shares
        return
    (tmp_path / "weights").write_text(found.text)
    read = mixture_from(tmp_path / "weights", names=MIXED.names, supply=THERE)
    assert read.as_dict() == pytest.approx(MIXED.as_dict(), abs=1e-5)
