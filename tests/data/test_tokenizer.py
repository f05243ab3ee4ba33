"""Tokenizers, trained or any of Hugging Face's, and documents to tokens by them."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tiny import write_domains
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from bydore_pyro.data.documents import CorpusConfig
from bydore_pyro.data.plan import make_plan
from bydore_pyro.data.preparation import prepare
from bydore_pyro.data.tokenizer import (
    END_OF_TEXT,
    TokenizerConfig,
    encode,
    encoding,
    load_encoder,
    other_token,
    pad_token,
    save_tokenizer,
    tokenizer_sha256,
    train_tokenizer,
    vocabulary_of,
)
from bydore_pyro.errors import DataError

TEXTS = [f"the cat {i} sat on the mat, ein Käse für die Katze " * (i % 7) for i in range(60)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer") / "trained"
    train_tokenizer(TEXTS, 280, folder)
    return folder


def words(folder: Path, **special: str) -> Path:
    """A word-level tokenizer of three words, as someone else might have saved it."""
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "b": 2, "</s>": 3}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.enable_truncation(4)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(str(folder))
    return folder


def test_a_trained_tokenizer_is_read_by_transformers(trained: Path) -> None:
    auto = AutoTokenizer.from_pretrained(str(trained))
    assert auto.eos_token == END_OF_TEXT
    encoder, end = load_encoder(trained)
    assert end == auto.eos_token_id
    ids = encoder.encode(TEXTS[1]).ids
    assert ids == auto.encode(TEXTS[1])
    assert encoder.decode(ids) == TEXTS[1]
    assert encoder.get_vocab_size() == len(auto) == 280
    ids = encoder.encode(f"before {END_OF_TEXT} after").ids
    assert end not in ids, "words that look like special tokens are words"
    assert encoder.decode(ids) == f"before {END_OF_TEXT} after"


def test_any_tokenizer_of_hugging_face_is_taken(tmp_path: Path) -> None:
    source = words(tmp_path / "words", eos_token="</s>", unk_token="[UNK]")
    save_tokenizer(str(source), tmp_path / "copy")
    encoder, end = load_encoder(tmp_path / "copy")
    assert end == 3
    assert encoder.encode("a b a b a b").ids == [1, 2, 1, 2, 1, 2], "nothing is cut"


def test_what_is_refused(tmp_path: Path, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"end-of-text token, found '.*' without"):
        save_tokenizer(str(words(tmp_path / "words")), tmp_path / "copy")
    with pytest.raises(DataError, match="a tokenizer's folder or hub name, found 'nobody/nothing'"):
        save_tokenizer("nobody/nothing", tmp_path / "copy")
    words_in_python = SimpleNamespace(is_fast=False)
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", lambda *_, **__: words_in_python)
    with pytest.raises(DataError, match=r"a tokenizer with a tokenizer\.json, found 'a' without"):
        save_tokenizer("a", tmp_path / "copy")
    train_tokenizer(TEXTS[:1], 257, tmp_path / "broken")
    assert tokenizer_sha256(tmp_path / "broken") != tokenizer_sha256(trained)
    (tmp_path / "broken" / "tokenizer.json").write_text("{}")
    with pytest.raises(DataError, match="Expected a tokenizer in"):
        load_encoder(tmp_path / "broken")
    for options in ({"vocabulary": 100}, {"tokenizer": ""}, {"tokenizer_megabytes": 0.0}):
        with pytest.raises(ValueError, match="Expected"):
            TokenizerConfig(**options)  # type: ignore[arg-type]


def test_every_text_ends_with_the_end_of_text(trained: Path) -> None:
    tokenizer, end = load_encoder(trained)
    tokens, lengths = encode(tokenizer, end, np.dtype("<u2"), TEXTS)
    parts = np.split(tokens, np.cumsum(lengths)[:-1])
    assert [p[-1] for p in parts] == [end] * len(TEXTS)
    assert [tokenizer.decode(p[:-1].tolist()) for p in parts] == TEXTS
    assert tokens.dtype == np.uint16
    assert [len(array) for array in encode(tokenizer, end, np.dtype("<u2"), [])] == [0, 0]


@pytest.mark.parametrize("processes", [0, 2])
def test_processes_give_the_same_tokens(trained: Path, processes: int) -> None:
    tokenizer, end = load_encoder(trained)
    batches = [TEXTS[i : i + 7] for i in range(0, 60, 7)]
    with encoding(trained, np.dtype("<u4"), processes) as submit:
        found: list[Future] = [submit(batch) for batch in batches]
        for future, batch in zip(found, batches, strict=True):
            for given, expected in zip(
                future.result(), encode(tokenizer, end, np.dtype("<u4"), batch), strict=True
            ):
                np.testing.assert_array_equal(given, expected)


ORPHANS = """
import os, signal, sys
from pathlib import Path
import numpy as np
from bydore_pyro.data.tokenizer import encoding
if __name__ == "__main__":
    with encoding(Path(sys.argv[1]), np.dtype("<u2"), 2) as submit:
        submit(["text"]).result()
        import multiprocessing
        print(*(child.pid for child in multiprocessing.active_children()), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_workers_end_with_a_killed_parent(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(ORPHANS)
    run = [sys.executable, tmp_path / "program.py", trained]
    done = subprocess.run(run, stdout=subprocess.PIPE, text=True, timeout=60)
    workers = [Path("/proc", number) for number in done.stdout.split()]
    assert workers
    for _ in range(600):
        if not any(worker.exists() for worker in workers):
            return
        time.sleep(0.1)
    pytest.fail("a worker lives on")


def with_hole(folder: Path, end: int) -> Path:
    """A tokenizer of bytes whose end-of-text token lies far behind the others."""
    letters = {letter: i for i, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE({**letters, END_OF_TEXT: end}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END_OF_TEXT)
    fast.save_pretrained(str(folder))
    return folder


@pytest.mark.parametrize(("end", "dtype"), [(5000, "<u2"), (70_000, "<u4")])
def test_ids_may_have_holes(end: int, dtype: str, tmp_path: Path) -> None:
    """The largest token counts, not how many there are: a store of such tokens is searched."""
    folder = with_hole(tmp_path / "tokenizer", end)
    assert vocabulary_of(load_encoder(folder)[0]) == end + 1
    text = write_domains(tmp_path / "text", {"a": "abc", "b": "xyz"}, files=4)
    corpus = CorpusConfig(validation_fraction=0.5, domain_megabytes=0)
    plan = make_plan(str(text), corpus, None, TokenizerConfig(tokenizer=str(folder)))
    store = prepare(plan, tmp_path / "store")
    assert (store.vocabulary, store.index["dtype"]) == (end + 1, dtype)
    found = store.read("train", "a", slice(None))
    assert found.max() == end


def test_the_token_that_fills_up(tmp_path: Path, trained: Path) -> None:
    assert pad_token(trained, load_encoder(trained)[0]) is None
    folder = words(tmp_path / "words", eos_token="</s>", pad_token="b")
    assert pad_token(folder, load_encoder(folder)[0]) == 2


def test_tokens_of_another_number(trained: Path, tmp_path: Path) -> None:
    """Further tokens do not count; a tokenizer of other text, or none, does."""
    more = Tokenizer.from_file(str(trained / "tokenizer.json"))
    more.add_special_tokens(["<pad>"])
    (tmp_path / "more").mkdir()
    more.save(str(tmp_path / "more" / "tokenizer.json"))
    assert other_token(trained, trained) is None
    assert other_token(trained, tmp_path / "more") is None
    assert other_token(tmp_path / "more", trained) == "<pad>"
    train_tokenizer(["zebras quarrel " * 50], 300, tmp_path / "other")
    assert other_token(trained, tmp_path / "other") is not None
    with pytest.raises(DataError, match=r"Expected tokenizers in .*, found: "):
        other_token(trained, tmp_path / "none")
