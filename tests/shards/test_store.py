"""Shards are a store: its domains, sides and documents, and a search that finds the same."""

from __future__ import annotations

import json
import os
import pickle
import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray
from quick import PROXY
from shard_writers import EVERY, WRITERS
from tiny import assert_same_text, documents_of, lines_told, row, unparted, write_lines
from training_runs import same_bits, weights_in

from bydore_pyro.cli.main import main
from bydore_pyro.command_line.command_line import parse_options
from bydore_pyro.data.documents import CorpusConfig
from bydore_pyro.data.store import SIDES, TokenStore, open_store
from bydore_pyro.data.tokenizer import TokenizerConfig, load_encoder
from bydore_pyro.data.variants import cut_store, with_validation_file
from bydore_pyro.errors import DataError
from bydore_pyro.setup.domains import load_domains
from bydore_pyro.setup.options import SMOKE, Options
from bydore_pyro.shards.formats import READERS
from bydore_pyro.shards.store import open_shards
from bydore_pyro.training.order import MixtureDataset

END = 0


def write_shards(store: Path, folder: Path, kind: str, shards: int = 2) -> Path:
    """A folder a domain, each with folders of its sides, which hold so many shards."""
    opened = unparted(open_store(store))
    for name in opened.names:
        for side in ("train", "validation"):
            documents = documents_of(getattr(opened, side)[name])
            (folder / name / side).mkdir(parents=True)
            for number in range(shards):
                start, stop = (len(documents) * n // shards for n in (number, number + 1))
                WRITERS[kind](folder / name / side / f"part-{number}", documents[start:stop])
    return folder


def opened(data: str, store: Path, cache: Path, *told: str, **more: object) -> TokenStore:
    """Opens shards, and checks what is told."""
    tokenizer = TokenizerConfig(tokenizer=str(store / "tokenizer"))
    with lines_told() as lines:
        found = open_shards(data, None, tokenizer, cache=cache, **more)
    for line in told:
        assert any(line in one for one in lines), lines
    return found


@pytest.mark.parametrize("kind", EVERY)
def test_shards_hold_what_the_store_holds(kind: str, store: Path, tmp_path: Path) -> None:
    own = open_store(store)
    folder = write_shards(store, tmp_path / "shards", kind)
    found = opened(f"{kind}:{folder}", store, tmp_path, "3 domains, 12 shards")
    assert found.names == own.names
    assert found.tokenizer_sha256 == own.tokenizer_sha256
    assert found.vocabulary == own.vocabulary
    for side in SIDES:
        for name in own.names:
            assert_same_text(getattr(found, side)[name], getattr(own, side)[name])
    for side in ("train", "validation"):
        entry = found.index["domains"]["a"][side]
        for key in ("tokens", "documents", "independent_documents"):
            assert entry[key] == own.index["domains"]["a"][side][key]
    assert opened(f"{kind}:{folder}", store, tmp_path).sha256 == found.sha256 != own.sha256


def test_a_search_on_shards_is_the_one_on_the_store(store: Path, tmp_path: Path) -> None:
    """Bit for bit: weights, intervals and every draw of the posterior."""
    folder = write_shards(store, tmp_path / "shards", "megatron")
    runs = {}
    for data in (str(store), f"megatron:{folder}"):
        runs[data] = out = tmp_path / f"run-{len(runs)}"
        given = ["--smoke", "--data", data, "--validation", "a", "--proxy", str(PROXY)]
        given += ["--tokenizer", str(store / "tokenizer")] if data != str(store) else []
        main(["search", *given, "--out", str(out), "--cache", str(tmp_path / "cache")])
    mixtures = [json.loads((run / "mixture.json").read_text()) for run in runs.values()]
    for mixture in mixtures:
        del mixture["data_sha256"]
    assert mixtures[0] == mixtures[1]
    one, other = (
        xarray.load_dataset(run / "posterior.nc", group="posterior") for run in runs.values()
    )
    assert one.identical(other.assign_attrs(one.attrs))


def test_a_training_on_shards_is_the_one_on_the_store(store: Path, tmp_path: Path) -> None:
    """Bit for bit, also after it was resumed."""
    folder = write_shards(store, tmp_path / "shards", "megatron")
    shards = ["--data", f"megatron:{folder}", "--tokenizer", str(store / "tokenizer")]
    given = ["--smoke", "--mixture", "natural", "--model", str(PROXY)]
    for out, data in (("own", ["--data", str(store)]), ("other", shards)):
        main(["train", *given, *data, "--out", str(tmp_path / out)])
    own, before = (weights_in(tmp_path / out / "model") for out in ("own", "other"))
    assert same_bits(before, own)
    shutil.rmtree(tmp_path / "other/model")
    shutil.rmtree(tmp_path / "other/checkpoints/checkpoint-8")
    main(["train", "--resume", str(tmp_path / "other")])
    assert same_bits(weights_in(tmp_path / "other/model"), own)
    dataset = MixtureDataset(opened(f"megatron:{folder}", store, tmp_path), ["a"], 32)
    copy = pickle.loads(pickle.dumps(dataset))  # as in a process that is spawned
    assert torch.equal(copy[0, 3]["input_ids"], dataset[0, 3]["input_ids"])


def test_the_last_documents_are_held_out(store: Path, tmp_path: Path) -> None:
    whole = write_shards(store, tmp_path / "shards", "nanotron", 3)
    for name in "abc":
        (whole / name / "validation").rename(whole / name / "more")
    told = "the last documents are held out, since no name holds out a shard: a, b, c"
    found = unparted(opened(f"nanotron:{whole}", store, tmp_path, told))
    for name in "abc":
        train, held_out = found.train[name], found.validation[name]
        assert (len(train), len(held_out)) == (train.ends[-1], held_out.ends[-1])
        size = len(train) + len(held_out)
        assert 0.05 < len(held_out) / size <= 0.1
        tokens = np.concatenate([np.asarray(train), np.asarray(held_out)])
        np.testing.assert_array_equal(
            np.flatnonzero(tokens == END) + 1,
            np.concatenate([train.ends, held_out.ends + len(train)]),
        )
    half = open_shards(
        f"nanotron:{whole}",
        CorpusConfig(validation_fraction=0.5),
        TokenizerConfig(tokenizer=str(store / "tokenizer")),
        cache=tmp_path,
    )
    assert half.sha256 != found.sha256
    assert 0.4 < len(unparted(half).validation["a"]) / size < 0.6


def test_what_the_files_do_not_tell_is_said(store: Path, tmp_path: Path) -> None:
    folder = write_shards(store, tmp_path / "shards", "nanotron")
    line = "warning: the shards name the tokenizer some/gpt, not "
    found = opened(f"nanotron:{folder}", store, tmp_path, line)
    for path in folder.rglob("*.metadata"):
        about = path.read_text().replace("some/gpt", f"some/\x1b[2Jgpt{'x' * 3000}")
        path.write_text(about)
    cut = f"the shards name the tokenizer some/\\x1b[2Jgpt{'x' * 48}, not "
    opened(f"nanotron:{folder}", store, tmp_path, cut)
    for path in folder.rglob("*.index"):
        path.unlink()
    line = "reading all of the shards that do not tell where documents end"
    more = f"documents end where end-of-text stands ({END}): a, b, c"
    again = opened(f"nanotron:{folder}", store, tmp_path, line, more)
    np.testing.assert_array_equal(again.train["a"].ends, found.train["a"].ends)
    dolma = write_shards(store, tmp_path / "dolma", "dolma", 1)
    for path in dolma.rglob("*.npy"):
        tokens = np.fromfile(path, "<u2")
        np.where(tokens == END, 5, tokens).astype("<u2").tofile(path)
    line = f"warning: documents do not end with end-of-text ({END}): a"
    opened(f"dolma:{dolma}", store, tmp_path, line)
    for path in dolma.rglob("*.csv.gz"):
        path.unlink()
    line = f"warning: no end-of-text ({END}) divides documents; --separator names another token: a"
    opened(f"dolma:{dolma}", store, tmp_path, line)


def test_a_store_of_shards_is_cut_and_joined_like_others(store: Path, tmp_path: Path) -> None:
    folder = write_shards(store, tmp_path / "shards", "megatron")
    found, own = opened(f"megatron:{folder}", store, tmp_path), open_store(store)
    for seed in (None, 0):
        one, other = (cut_store(each, {"a": 900}, seed) for each in (found, own))
        np.testing.assert_array_equal(one.train["a"], other.train["a"])
    rows = [row("abcde", number) for number in range(40)]
    exam = with_validation_file(found, write_lines(tmp_path / "exam.jsonl", rows))
    assert exam.names == ("a", "b", "c", "exam")
    assert exam.validation["exam"].dtype == own.validation["a"].dtype


def test_a_file_that_changes_while_it_is_read_is_told(store: Path, tmp_path: Path) -> None:
    folder = write_shards(store, tmp_path / "shards", "dolma")
    found = opened(f"dolma:{folder}", store, tmp_path)
    found.read("train", "b", np.arange(5))
    path = folder / "b" / "train" / "part-1.npy"
    np.fromfile(path, "<u2")[::-1].tofile(path)
    with pytest.raises(DataError, match=r"part-1\.npy not to change while it is read"):
        found.require_unchanged()
    assert opened(f"dolma:{folder}", store, tmp_path).sha256 != found.sha256


def test_a_tokenizer_with_another_end_of_text_is_another(store: Path, tmp_path: Path) -> None:
    folder = write_shards(store, tmp_path / "shards", "dolma", 1)
    found = opened(f"dolma:{folder}", store, tmp_path)
    (tmp_path / "changed").mkdir()
    shutil.copytree(store / "tokenizer", tmp_path / "changed" / "tokenizer")
    config = tmp_path / "changed" / "tokenizer" / "tokenizer_config.json"
    config.write_text(config.read_text().replace("<|endoftext|>", "a"))
    line = "warning: documents do not end with end-of-text"
    other = opened(f"dolma:{folder}", tmp_path / "changed", tmp_path, line)
    assert other.tokenizer != found.tokenizer
    assert load_encoder(other.tokenizer)[1] != load_encoder(found.tokenizer)[1]


def test_what_is_refused(store: Path, tmp_path: Path) -> None:
    folder = write_shards(store, tmp_path / "shards", "dolma", 1)
    data = f"dolma:{folder}"
    with pytest.raises(DataError, match=r"Expected --tokenizer, whose tokens are in dolma:.*none"):
        open_shards(data, cache=tmp_path)
    with pytest.raises(DataError, match=r"a domain of the data \(a, b, c\), found 'z'"):
        opened(data, store, tmp_path, needed=["z"])
    path = folder / "a" / "train" / "part-0.npy"
    tokens = np.fromfile(path, "<u2")
    tokens[-7] = 999
    tokens.tofile(path)
    with pytest.raises(
        DataError, match=r"below 280, .* found 999 at position .*part-0\.npy"
    ) as error:
        opened(data, store, tmp_path)
    assert "\n" not in str(error.value)


def test_tokens_that_are_met_later_are_checked_too(store: Path, tmp_path: Path) -> None:
    folder = write_shards(store, tmp_path / "shards", "dolma", 1)
    path = folder / "a" / "train" / "part-0.npy"
    found = opened(f"dolma:{folder}", store, tmp_path)
    vocabulary = load_encoder(found.tokenizer)[0].get_vocab_size()
    assert vocabulary == found.vocabulary == 280
    met = replace(found.train["a"], tokens=np.array([281], np.uint16))
    with pytest.raises(DataError, match="Expected tokens below 280"):
        replace(found, train={"a": met}).read("train", "a", slice(None))
    assert path.is_file()


def tokens_in(store: TokenStore) -> dict[str, int]:
    return {name: sum(len(getattr(store, side)[name]) for side in SIDES) for name in store.names}


def named(path: Path, name: str) -> Path:
    """A copy of a file or folder beside it, under another name."""
    other = path.with_name(name)
    shutil.copytree(path, other) if path.is_dir() else shutil.copy(path, other)
    return other


def test_a_last_chunk_that_is_filled_up_holds_no_documents(store: Path, tmp_path: Path) -> None:
    """TinyLlama fills a chunk with the separator: three times as many as there are tokens."""
    own, folder = open_store(store), tmp_path / "shards"
    folder.mkdir()
    for name in own.names:
        text = own.train[name]
        filled = [*documents_of(text), np.full(3 * len(text), END, "<u2")]
        WRITERS["litpkds"](folder / f"train_{name}_0000000000", filled)
    size = len(own.train["a"])
    line = f"documents end where end-of-text stands ({END}): a, b, c"
    found = opened(f"litpkds:{folder}/train_*_*", store, tmp_path, line, f"{3 * size:,}")
    assert tokens_in(found) == {name: len(own.train[name]) for name in own.names}
    found = unparted(found)
    held_out = found.validation["a"]
    assert 0.05 < len(held_out) / size <= 0.1
    assert (np.asarray(held_out) == END).mean() < 0.1
    assert len(found.train["a"].ends) + len(held_out.ends) == len(own.train["a"].ends)


def test_what_no_document_divides_is_held_out_by_position(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Documents behind a beginning token, or none; a token of the user's divides them again."""
    own, folder = open_store(store), tmp_path / "shards"
    folder.mkdir()
    for name in own.names:
        tokens = np.asarray(own.train[name]).copy()
        tokens[tokens == END] = 270
        WRITERS["llmc"](folder / f"{name}_train_0", [tokens])
    data = f"llmc:{folder}/*_train_*"
    told = (
        "the last tokens are held out, since no document ends near there: a, b, c",
        f"warning: no end-of-text ({END}) divides documents; --separator names another token: a",
    )
    found = opened(data, store, tmp_path, *told)
    for name in own.names:
        size = len(own.train[name])
        assert len(found.validation[name]) == size - int(0.9 * size)
        assert found.train[name].ends.tolist() == [int(0.9 * size)]
    asked = TokenizerConfig(tokenizer=str(store / "tokenizer"), separator=270)
    with lines_told() as lines:
        again = open_shards(data, None, asked, cache=tmp_path)
    assert not any("by position" in line or "warning" in line for line in lines)
    count = sum(len(getattr(again, side)["a"].ends) for side in SIDES)
    assert count >= len(own.train["a"].ends)
    with pytest.raises(
        DataError, match=r"Expected a separator below 280, .* 4294967295, .* found 280"
    ):
        open_shards(data, None, replace(asked, separator=280), cache=tmp_path)
    with pytest.raises(SystemExit):  # a training reads shards as the search did
        main(
            [
                "train",
                "--mixture",
                "natural",
                "--data",
                data,
                "--out",
                str(tmp_path / "out"),
                "--tokenizer",
                str(store / "tokenizer"),
                "--separator",
                "280",
            ]
        )
    assert "Expected a separator below 280" in capsys.readouterr().err


def test_a_width_that_no_file_tells_is_found(store: Path, tmp_path: Path) -> None:
    folder = write_shards(store, tmp_path / "shards", "dolma", 1)
    for path in folder.rglob("*.csv.gz"):
        path.unlink()
    for path in folder.rglob("*.npy"):
        np.fromfile(path, "<u2").astype("<u4").tofile(path)
    found, own = opened(f"dolma:{folder}", store, tmp_path), open_store(store)
    np.testing.assert_array_equal(found.train["b"], own.train["b"])


def without_index(store: Path, folder: Path, dtype: str = "<u2", shards: int = 1) -> Path:
    """Shards of dolma without their index, of tokens of a type."""
    write_shards(store, folder, "dolma", shards)
    for path in folder.rglob("*.csv.gz"):
        path.unlink()
    for path in folder.rglob("*.npy"):
        np.fromfile(path, "<u2").astype(dtype).tofile(path)
    return folder


@pytest.mark.parametrize("width", [4, 8])
def test_the_width_that_was_found_is_said(width: int, store: Path, tmp_path: Path) -> None:
    """And no token counts twice."""
    folder, own = without_index(store, tmp_path / "shards", f"<u{width}"), open_store(store)
    line = f"tokens read as {width} bytes each, since no file says it: a, b, c"
    found = opened(f"dolma:{folder}", store, tmp_path, line)
    for name in own.names:
        assert_same_text(found.train[name], own.train[name])
    np.fromfile(folder / "a/train/part-0.npy", f"<u{width}").astype("<u2").tofile(
        folder / "a/train/part-0.npy"
    )
    line = f"warning: shards of a domain have tokens of 2, {width} bytes: a"
    (folder / "a/train/part-1.npy").write_bytes((folder / "b/train/part-0.npy").read_bytes())
    opened(f"dolma:{folder}", store, tmp_path, line)


def test_masks_beside_tokens_are_left_out_and_counted(store: Path, tmp_path: Path) -> None:
    folder, own = write_shards(store, tmp_path / "shards", "dolma"), open_store(store)
    ones = np.ones(999, "<u2")
    for name in ("a/train/part-0.mask.npy", "b/loss_mask/part-0.npy", "c/train/seg_ids_0.npy"):
        (folder / name).parent.mkdir(exist_ok=True)
        ones.tofile(folder / name)
    names = "train/part-0.mask.npy, loss_mask/part-0.npy, train/seg_ids_0.npy"
    line = f"files left out, no text of their own: 3: {names}"
    found = opened(f"dolma:{folder}", store, tmp_path, line)
    for name in own.names:
        assert_same_text(found.train[name], own.train[name])
    ones.tofile(folder / "a/train/weighed.npy")
    for path in (folder / "a").rglob("*.csv.gz"):
        path.unlink()
    with pytest.raises(DataError, match=r"found only 0 and 1, as in a mask: .*weighed\.npy"):
        opened(f"dolma:{folder}", store, tmp_path)


def test_a_set_of_shards_that_is_not_whole(store: Path, tmp_path: Path) -> None:
    folder = write_shards(store, tmp_path / "shards", "nanotron")
    place = folder / "a/train"
    for ending in (".ds", ".ds.index", ".ds.metadata"):
        shutil.copy(place / f"part-1{ending}", place / f"part-3{ending}")
    line = "warning: numbers between those of other shards are missing: a: part-2.ds"
    opened(f"nanotron:{folder}", store, tmp_path, line)
    (place / "part-3.ds.index").unlink()
    message = r"every shard of 'a', as .*index, found no .*a/train/part-3\.ds\.index"
    with pytest.raises(DataError, match=message):
        opened(f"nanotron:{folder}", store, tmp_path)


def test_a_shard_that_ends_within_a_document_is_reported(store: Path, tmp_path: Path) -> None:
    """Also one alone that lost its index; not where tokens are cut into shards as a rule."""
    line = "warning: shards that end within a document, as if they were cut: b: part-0."
    for kind in ("dolma", "nanogpt"):
        folder = write_shards(store, tmp_path / kind, kind, 1)
        place = next((folder / "b/train").glob("part-0.[nb]*"))
        place.write_bytes(place.read_bytes()[:-6])
        for path in (folder / "b").rglob("*.csv.gz"):
            path.unlink()
        opened(f"{kind}:{folder}", store, tmp_path, line)
    folder = write_shards(store, tmp_path / "llmc", "llmc", 1)
    for path in (folder / "b").rglob("*.bin"):
        tokens = np.fromfile(path, "<u2")[512:]
        WRITERS["llmc"](path, [tokens[:-3]])
    with lines_told() as lines:
        opened(f"llmc:{folder}", store, tmp_path)
    assert not any("within a document" in line for line in lines)


@pytest.mark.parametrize(("dtype", "divider"), [("<u2", 2**16 - 1), ("<i4", 2**32 - 1)])
def test_a_divider_beyond_the_vocabulary_is_read_as_end_of_text(
    dtype: str, divider: int, store: Path, tmp_path: Path
) -> None:
    folder, own = without_index(store, tmp_path / "shards", dtype), open_store(store)
    for path in folder.rglob("*.npy"):
        tokens = np.fromfile(path, dtype)
        tokens[tokens == END] = np.array([-1]).astype(dtype)
        tokens.tofile(path)
    message = (
        rf"below 280, .* found {divider} at position \d+ \(-1 as a signed number, by which some "
        rf"writers divide documents: --separator {divider} reads it as end-of-text\): .*part-0"
    )
    with pytest.raises(DataError, match=message):
        opened(f"dolma:{folder}", store, tmp_path)
    config = TokenizerConfig(tokenizer=str(store / "tokenizer"), separator=divider)
    found = open_shards(f"dolma:{folder}", None, config, cache=tmp_path)
    for name in own.names:
        assert_same_text(found.train[name], own.train[name])


SPLITS_OF = ("training", "eval"), ("train-0", "validation_small")


@pytest.mark.parametrize(("train", "held_out"), SPLITS_OF)
def test_sides_by_other_names(train: str, held_out: str, store: Path, tmp_path: Path) -> None:
    folder, own = write_shards(store, tmp_path / "shards", "mds"), open_store(store)
    for name in own.names:
        (folder / name / "train").rename(folder / name / train)
        (folder / name / "validation").rename(folder / name / held_out)
    told = f"held out by their names, beside a train: a: {held_out}, b: {held_out}"
    found = opened(f"mds:{folder}", store, tmp_path, told)
    np.testing.assert_array_equal(found.validation["a"], own.validation["a"])
    assert len(found.train["a"]) == len(own.train["a"])


@pytest.mark.parametrize("kind", EVERY)
def test_which_splits_are_left_out_is_said(kind: str, store: Path, tmp_path: Path) -> None:
    """The files that belong to a shard of a test split are no files without a shard."""
    folder, own = write_shards(store, tmp_path / "shards", kind), unparted(open_store(store))
    for name in own.names:
        (folder / name / "validation").rename(folder / name / "test")
    (folder / "c" / "train").rename(folder / "c" / "more")
    told = "no train beside it): c: test", f"files left out, test split: 4: {folder}/a/test/"
    found = unparted(opened(f"{kind}:{folder}", store, tmp_path, *told))
    for name, sides in (("a", ["train"]), ("c", ["train", "validation"])):
        size = len(found.train[name]) + len(found.validation[name])
        assert size == sum(len(getattr(own, side)[name]) for side in sides)


def test_a_split_and_a_part_of_it_are_not_both_read(store: Path, tmp_path: Path) -> None:
    folder = write_shards(store, tmp_path / "shards", "mds")
    named(folder / "a" / "train", "train_small")
    with pytest.raises(DataError, match="Expected one of train and train_small, which may be"):
        opened(f"mds:{folder}", store, tmp_path)


TWICE = [
    ("dolma", lambda f: named(f / "a/train/part-0.npy", "labels_mask_part-0.npy"), "no text of th"),
    ("nanotron", lambda f: named(f / "a/train/part-0.ds", "part-0_unshuffled.ds"), "no text of th"),
    (
        "datasets",
        lambda f: named(next((f / "a/train/part-0").glob("*.arrow")), "cache-1.arrow"),
        "no text of their own: 1: part-0/cache-1.arrow",
    ),
    ("mds", lambda f: merged(f / "a/train"), "parts of what is read whole: 2: index.json"),
    ("litdata", lambda f: (f / "a/README.md").write_text("x"), "no shards: 1: README.md"),
    ("megatron", lambda f: (f / "a/.ipynb_checkpoints").mkdir(), "3 domains, 12 shards"),
]


def merged(folder: Path) -> None:
    """An index of all shards in the folders below, as `merge_index` leaves it beside theirs."""
    shards = []
    for index in sorted(folder.glob("*/index.json")):
        for shard in json.loads(index.read_text())["shards"]:
            shard["raw_data"]["basename"] = f"{index.parent.name}/{shard['raw_data']['basename']}"
            shards.append(shard)
    (folder / "index.json").write_text(json.dumps({"shards": shards, "version": 2}))


@pytest.mark.parametrize(("kind", "more", "line"), TWICE)
def test_nothing_is_read_twice(
    kind: str, more: Callable[[Path], object], line: str, store: Path, tmp_path: Path
) -> None:
    """What programs leave beside shards: the same tokens come out, and it is told."""
    folder, own = write_shards(store, tmp_path / "shards", kind), open_store(store)
    more(folder)
    found = opened(f"{kind}:{folder}", store, tmp_path, line)
    for name in own.names:
        np.testing.assert_array_equal(found.train[name], own.train[name])
        np.testing.assert_array_equal(found.validation[name], own.validation[name])


def test_levanters_parts_and_the_whole(store: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorstore")
    folder, own = write_shards(store, tmp_path / "shards", "levanter", 1), open_store(store)
    home = folder / "a" / "train" / "part-0"
    shutil.copytree(home, home / "shard_0")
    line = "files left out, parts of what is read whole"
    found = opened(f"levanter:{folder}", store, tmp_path, line)
    np.testing.assert_array_equal(found.train["a"], own.train["a"])
    shutil.rmtree(home / "input_ids")
    with pytest.raises(
        DataError, match=r"belong to a whole shard, found .*shard_ledger.json alone"
    ):
        opened(f"levanter:{folder}", store, tmp_path)


def linked(path: Path, to: str) -> None:
    path.unlink()
    path.symlink_to(to)


LOST = [
    (lambda f: linked(f / "a/train/part-0.idx", "none"), "found a link that leads nowhere.*idx"),
    (lambda f: linked(f / "a/train/part-0.idx", "part-1.idx"), "numbers of 2 bytes|every file"),
    (lambda f: linked(f / "a/train/part-0.bin", "part-1.bin"), "numbers of 2 bytes|every file"),
    (lambda f: (f / "d").mkdir(), "found an empty folder: .*shards/d"),
    (lambda f: (f / "d").symlink_to("none"), "found a link that leads nowhere.*shards/d"),
    (lambda f: (f / "a/train/2.idx").mkdir(), "found an empty folder: .*2.idx"),
    (lambda f: os.mkfifo(f / "a/train/2.idx"), "or a pipe: .*2.idx"),
    (lambda f: (f / "a/train/part-0.idx").unlink(), "found .*part-0.bin alone"),
    (lambda f: [p.unlink() for p in (f / "a").rglob("*.idx")], "found none in .*shards/a"),
    (lambda f: (f / "d").symlink_to("a"), "every file of tokens once"),
]


@pytest.mark.parametrize(("damage", "message"), LOST)
def test_no_shard_is_lost_or_doubled_in_silence(
    damage: Callable[[Path], object], message: str, store: Path, tmp_path: Path
) -> None:
    folder = write_shards(store, tmp_path / "shards", "megatron")
    damage(folder)
    with pytest.raises(DataError, match=message) as error:
        opened(f"megatron:{folder}", store, tmp_path)
    assert "\n" not in str(error.value)


def test_a_linked_folder_is_followed(store: Path, tmp_path: Path) -> None:
    folder = write_shards(store, tmp_path / "shards", "megatron")
    (folder / "b/train").rename(tmp_path / "elsewhere")
    (folder / "b/train").symlink_to(tmp_path / "elsewhere")
    found = opened(f"megatron:{folder}", store, tmp_path, "3 domains, 12 shards")
    assert tokens_in(found)["b"] > 0


def test_empty_shards_and_copies_are_told(store: Path, tmp_path: Path) -> None:
    folder, own = write_shards(store, tmp_path / "shards", "litpkds"), open_store(store)
    WRITERS["litpkds"](folder / "a/train/part-2", [np.empty(0, "<u2")])
    line = "empty shards, left out: a: part-2.bin"
    found = opened(f"litpkds:{folder}", store, tmp_path, line)
    np.testing.assert_array_equal(found.train["a"], own.train["a"])
    named(folder / "b/train/part-0.bin", "part-9.bin")
    line = "warning: shards with the same content as another: "
    opened(f"litpkds:{folder}", store, tmp_path, line)


def test_a_pattern_may_name_folders_of_any_depth(store: Path, tmp_path: Path) -> None:
    folder, own = write_shards(store, tmp_path / "shards", "dolma"), open_store(store)
    found = opened(f"dolma:{folder}/*/**/*.npy", store, tmp_path, "3 domains, 12 shards")
    np.testing.assert_array_equal(found.validation["c"], own.validation["c"])
    deep = opened(f"dolma:{folder.parent}/**/part-*.npy", store, tmp_path, "3 domains, 12 shards")
    assert deep.names == ("shards/a", "shards/b", "shards/c")


PAGE = (Path(__file__).parents[2] / "docs" / "shards.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```text\n(.*?)```\s+```sh\n(bydore .*?)\n```", PAGE, re.S)


def kind_of(command: str) -> str:
    """The format that an example's command names."""
    return re.findall(r"--data '?(\w+):", command)[0]


def test_the_page_has_an_example_of_every_format() -> None:
    assert [kind_of(command) for _, command in EXAMPLES] == [*READERS]


@pytest.mark.parametrize(
    ("files", "command"),
    [pytest.param(*EXAMPLES[n], id=p.values[0], marks=p.marks) for n, p in enumerate(EVERY)],
)
def test_the_examples_of_the_page_run(
    files: str, command: str, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files that it shows are among those of the format, and its command reads them."""
    monkeypatch.chdir(tmp_path)
    own, words = open_store(store), shlex.split(command.replace("TOKENIZER", f"{store}/tokenizer"))
    kind = kind_of(command)
    texts = iter([documents_of(own.train[n]) for n in "ab"] * 9)
    for place in files.split():
        for ending in READERS[kind].endings:
            if place.endswith(ending):
                path = Path(place.removesuffix(ending))
                path.parent.mkdir(parents=True, exist_ok=True)
                WRITERS[kind](path.parent if kind == "datasets" else path, next(texts))
    assert all(Path(place).is_file() for place in files.split())
    given = [*words[2:], "--smoke", "--proxy", str(PROXY), "--cache", "cache"]
    domains = load_domains(parse_options(given, "", "", Options, smoke=SMOKE))
    assert domains.names == ("legal", "web")


def test_bad_shards_end_a_search_in_one_line(
    store: Path, tmp_path: Path, refused: Callable[..., str]
) -> None:
    folder = write_shards(store, tmp_path / "shards", "megatron")
    (folder / "a" / "train" / "part-0.bin").unlink()
    given = ["--data", f"megatron:{folder}", "--validation", "a", "--smoke"]
    given += ["--tokenizer", str(store / "tokenizer"), "--cache", str(tmp_path / "cache")]
    told = refused("search", *given, "--out", tmp_path / "run")
    assert told.endswith("No such file or directory")
    assert not (tmp_path / "run").exists()
