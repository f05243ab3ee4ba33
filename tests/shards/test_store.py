"""Shards are a store: its domains, sides and documents, and a search that finds the same."""

from __future__ import annotations

import json
import pickle
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray
from quick import PROXY
from shard_writers import EVERY, WRITERS, documents_of
from tiny import row, write_lines
from training_runs import same_bits, weights_in

from bydore_pyro.cli.main import main
from bydore_pyro.cli.search import SearchOptions
from bydore_pyro.data.documents import CorpusConfig
from bydore_pyro.data.store import TokenStore, open_store
from bydore_pyro.data.tokenizer import TokenizerConfig, load_encoder
from bydore_pyro.data.variants import cut_store, with_validation_file
from bydore_pyro.runs.domains import load_domains
from bydore_pyro.runs.options import SMOKE
from bydore_pyro.shards.formats import READERS
from bydore_pyro.shards.store import open_shards
from bydore_pyro.training.order import MixtureDataset
from bydore_pyro.utils.command_line import parse_options
from bydore_pyro.utils.errors import DataError

END = 0


def write_shards(store: Path, folder: Path, kind: str, shards: int = 2) -> Path:
    """A folder a domain, each with folders of its sides, which hold so many shards."""
    opened = open_store(store)
    for name in opened.names:
        for side in ("train", "validation"):
            ends = getattr(opened, f"{side}_documents")[name]
            documents = documents_of(getattr(opened, side)[name], ends)
            (folder / name / side).mkdir(parents=True)
            for number in range(shards):
                start, stop = (len(documents) * n // shards for n in (number, number + 1))
                WRITERS[kind](folder / name / side / f"part-{number}", documents[start:stop])
    return folder


def opened(data: str, store: Path, cache: Path, *told: str, **more: object) -> TokenStore:
    """Opens shards, and checks what is told."""
    lines: list[str] = []
    tokenizer = TokenizerConfig(tokenizer=str(store / "tokenizer"))
    found = open_shards(data, None, tokenizer, cache=cache, progress=lines.append, **more)
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
    for part in ("train", "validation", "train_documents", "validation_documents"):
        for name in own.names:
            of_own, of_found = getattr(own, part)[name], getattr(found, part)[name]
            np.testing.assert_array_equal(np.asarray(of_found), of_own)
    for side in ("train", "validation"):
        entry = found.index["domains"]["a"][side]
        for key in ("tokens", "documents", "independent_documents"):
            assert entry[key] == own.index["domains"]["a"][side][key]
    assert opened(f"{kind}:{folder}", store, tmp_path).sha256 == found.sha256 != own.sha256


def test_a_search_on_shards_is_the_one_on_the_store(store: Path, tmp_path: Path) -> None:
    """Bit for bit: weights, intervals, trajectory and every draw of the posterior."""
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
    for name in ("posterior.nc", "trajectory.nc"):
        group = "posterior" if name == "posterior.nc" else None
        one, other = (xarray.load_dataset(run / name, group=group) for run in runs.values())
        assert one.identical(other.assign_attrs(one.attrs)), name


def test_a_training_on_shards_is_the_one_on_the_store(store: Path, tmp_path: Path) -> None:
    """Bit for bit, with a live mixture, also gone on with."""
    folder = write_shards(store, tmp_path / "shards", "megatron")
    shards = ["--data", f"megatron:{folder}", "--tokenizer", str(store / "tokenizer")]
    live = ["--smoke", "--mixture", "natural", "--live", "--validation", "a"]
    for out, data in (("own", ["--data", str(store)]), ("other", shards)):
        main(["train", *live, *data, "--out", str(tmp_path / out)])
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
    told = "held out, as no shards are: the last documents, 10%: a, b, c"
    found = opened(f"nanotron:{whole}", store, tmp_path, told)
    for name in "abc":
        train, held_out = found.train[name], found.validation[name]
        ends = found.train_documents[name], found.validation_documents[name]
        assert (len(train), len(held_out)) == (ends[0][-1], ends[1][-1])
        size = len(train) + len(held_out)
        assert 0.05 < len(held_out) / size <= 0.1
        tokens = np.concatenate([np.asarray(train), np.asarray(held_out)])
        np.testing.assert_array_equal(
            np.flatnonzero(tokens == END) + 1, np.concatenate([ends[0], ends[1] + len(train)])
        )
    half = open_shards(
        f"nanotron:{whole}",
        CorpusConfig(validation_fraction=0.5),
        TokenizerConfig(tokenizer=str(store / "tokenizer")),
        cache=tmp_path,
        progress=lambda line: None,
    )
    assert half.sha256 != found.sha256
    assert 0.4 < len(half.validation["a"]) / size < 0.6


def test_what_the_files_do_not_tell_is_said(store: Path, tmp_path: Path) -> None:
    folder = write_shards(store, tmp_path / "shards", "nanotron")
    line = "warning: the shards name the tokenizer some/gpt, not "
    found = opened(f"nanotron:{folder}", store, tmp_path, line)
    for path in folder.rglob("*.index"):
        path.unlink()
    line = "reading all of the shards that do not tell where documents end"
    more = f"documents end where end-of-text stands ({END}): a, b, c"
    again = opened(f"nanotron:{folder}", store, tmp_path, line, more)
    np.testing.assert_array_equal(again.train_documents["a"], found.train_documents["a"])
    dolma = write_shards(store, tmp_path / "dolma", "dolma", 1)
    for path in dolma.rglob("*.npy"):
        tokens = np.fromfile(path, "<u2")
        np.where(tokens == END, 5, tokens).astype("<u2").tofile(path)
    line = f"warning: documents do not end with end-of-text ({END}): a"
    opened(f"dolma:{dolma}", store, tmp_path, line)
    for path in dolma.rglob("*.csv.gz"):
        path.unlink()
    opened(f"dolma:{dolma}", store, tmp_path, line)


def test_a_store_of_shards_is_cut_and_joined_like_others(store: Path, tmp_path: Path) -> None:
    folder = write_shards(store, tmp_path / "shards", "megatron")
    found, own = opened(f"megatron:{folder}", store, tmp_path), open_store(store)
    for seed in (None, 0):
        one, other = (cut_store(each, {"a": 900}, seed) for each in (found, own))
        np.testing.assert_array_equal(np.asarray(one.train["a"]), other.train["a"])
    rows = [row("abcde", number) for number in range(40)]
    exam = with_validation_file(found, write_lines(tmp_path / "exam.jsonl", rows))
    assert exam.names == ("a", "b", "c", "exam")
    assert exam.validation["exam"].dtype == own.validation["a"].dtype


def test_a_file_that_changes_while_it_is_read_is_told(store: Path, tmp_path: Path) -> None:
    folder = write_shards(store, tmp_path / "shards", "dolma")
    found = opened(f"dolma:{folder}", store, tmp_path)
    take = found.train["b"]
    found.taken("train", "b", lambda: take[np.arange(5)])
    path = folder / "b" / "train" / "part-1.npy"
    np.fromfile(path, "<u2")[::-1].tofile(path)
    with pytest.raises(DataError, match=r"part-1\.npy not to change while it is read"):
        found.taken("train", "b", lambda: take[np.arange(5)])
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
        open_shards(data, cache=tmp_path, progress=print)
    with pytest.raises(DataError, match=r"a domain of the data \(a, b, c\), found 'z'"):
        opened(data, store, tmp_path, needed=["z"])
    path = folder / "a" / "train" / "part-0.npy"
    tokens = np.fromfile(path, "<u2")
    tokens[-7] = 999
    tokens.tofile(path)
    with pytest.raises(DataError, match=r"tokens below 280, .* found 999: .*part-0\.npy") as error:
        opened(data, store, tmp_path)
    assert "\n" not in str(error.value)


def test_tokens_that_are_met_later_are_checked_too(store: Path, tmp_path: Path) -> None:
    folder = write_shards(store, tmp_path / "shards", "dolma", 1)
    path = folder / "a" / "train" / "part-0.npy"
    found = opened(f"dolma:{folder}", store, tmp_path)
    vocabulary = load_encoder(found.tokenizer)[0].get_vocab_size()
    assert vocabulary == found.vocabulary == 280
    with pytest.raises(DataError, match="Expected tokens below 280"):
        found.taken("train", "a", lambda: np.array([281], np.uint16))
    assert path.is_file()


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
    texts = iter([documents_of(own.train[n], own.train_documents[n]) for n in "ab"] * 9)
    for place in files.split():
        for ending in READERS[kind].endings:
            if place.endswith(ending):
                path = Path(place.removesuffix(ending))
                path.parent.mkdir(parents=True, exist_ok=True)
                WRITERS[kind](path.parent if kind == "datasets" else path, next(texts))
    assert all(Path(place).is_file() for place in files.split())
    given = [*words[2:], "--smoke", "--proxy", str(PROXY), "--cache", "cache"]
    domains = load_domains(parse_options(given, "", "", SearchOptions, smoke=SMOKE))
    assert domains.names == ("law", "web")
