"""Two stores as one: the domains of both, read and hashed as each of them is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tiny import ALPHABETS, write_domains

from bydore_pyro.cli.main import main
from bydore_pyro.data.joined import joined_stores
from bydore_pyro.data.store import open_store
from bydore_pyro.utils.errors import DataError


@pytest.fixture(scope="module")
def more(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a new domain, and one that is named like one of the first."""
    folder = tmp_path_factory.mktemp("more")
    text = write_domains(folder / "text", {"0": ALPHABETS["upper"], "b": ALPHABETS["digits"]}, 20)
    given = ["--tokenizer", str(store / "tokenizer"), "--processes", "0"]
    main(["prepare", "--data", str(text), "--out", str(folder / "store"), *given])
    return folder / "store"


def test_a_domain_of_the_same_name_is_replaced(store: Path, more: Path) -> None:
    first, second = open_store(store), open_store(more)
    both = joined_stores(first, second)
    assert both.names == ("0", "a", "b", "c")
    for name, origin in (("0", second), ("a", first), ("b", second), ("c", first)):
        np.testing.assert_array_equal(both.train[name], origin.train[name])
        np.testing.assert_array_equal(both.validation[name], origin.validation[name])
        np.testing.assert_array_equal(both.train_documents[name], origin.train_documents[name])
        assert both.index["domains"][name] == origin.index["domains"][name]
    assert both.sha256 not in (first.sha256, second.sha256)
    assert joined_stores(first, second).sha256 == both.sha256


def test_a_file_that_changes_is_noticed_in_either(store: Path, more: Path) -> None:
    both = joined_stores(open_store(store), open_store(more))
    place = more / "train" / "b.bin"
    before = place.read_bytes()
    try:
        place.write_bytes(before[::-1])
        with pytest.raises(DataError, match=r"b\.bin"):
            both.taken("train", "b", lambda: both.train["b"][:4])
        both.taken("train", "a", lambda: both.train["a"][:4])
    finally:
        place.write_bytes(before)


def test_tokens_of_another_tokenizer_are_refused(store: Path, tmp_path: Path) -> None:
    text = write_domains(tmp_path / "text", {"d": "qrst", "e": "wxyz"}, 20)
    out = str(tmp_path / "store")
    main(["prepare", "--data", str(text), "--out", out, "--vocabulary", "270", "--processes", "0"])
    with pytest.raises(DataError, match=r"Expected tokens of the tokenizer in .* --tokenizer"):
        joined_stores(open_store(store), open_store(Path(out)))
