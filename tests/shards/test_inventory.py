"""The contract: what is declared is compared, widths and documents are found, padding is left."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bydore_pyro.shards import inventory
from bydore_pyro.shards.arrays import numbers
from bydore_pyro.shards.inventory import Claim, Inventory, Known, Place, Shard, checked, once
from bydore_pyro.utils.errors import DataError

KNOWN = Known(vocabulary=400, separator=7, pad=3)
FILES = (Path("a.bin"), Path("a.idx"))


def shard(tokens: list[int], ends: list[int] | None = None, **more: object) -> Shard:
    given = None if ends is None else np.array(ends, np.int64)
    return checked(
        Inventory(tokens=np.array(tokens, "<u2"), ends=given, files=FILES, **more), KNOWN
    )


def documents(tokens: list[int], ends: list[int] | None = None) -> list[list[int]]:
    found = shard(tokens, ends)
    whole = np.asarray(found.tokens).tolist()
    assert found.padding == len(tokens) - len(whole)
    return [
        whole[a:b] for a, b in zip([0, *found.ends.tolist()], found.ends.tolist(), strict=False)
    ]


@pytest.mark.parametrize("at_once", [1, 2, 3, 100])
def test_runs_of_separators_and_pads_are_no_documents(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inventory, "AT_ONCE", at_once)
    assert documents([5, 7, 6, 6, 7]) == [[5, 7], [6, 6, 7]]
    assert documents([5, 7, 6]) == [[5, 7], [6]]
    assert documents([7, 5, 7, 6]) == [[7], [5, 7], [6]], "a beginning token is as it was"
    assert documents([5, 7, 7, 7, 7, 6, 7, 7, 7]) == [[5, 7], [6, 7]]
    assert documents([5, 7, 3, 3, 6, 7, 3, 7, 3]) == [[5, 7], [6, 7]]
    assert documents([5, 3, 3]) == [[5]]
    assert documents([3, 3, 3]) == []


def test_what_is_declared_is_compared() -> None:
    for given, message in (
        (
            {"claims": [Claim("rows", 3, 2, FILES[1])]},
            "Expected 3 rows, as a.idx says, found 2: a.b",
        ),
        ({"ended": False}, "Expected a finished shard, found one that is not: a.bin"),
        ({"ends": [3]}, "ascend to 5, the tokens of a.bin, found others up to 3: a.idx"),
        ({"ends": [2, 2, 5]}, "ascend to 5, the tokens of a.bin"),
        ({"ends": []}, "ascend to 5, the tokens of a.bin, found others up to 0"),
        ({"ends": [-1, 5]}, "ascend to 5"),
    ):
        with pytest.raises(DataError, match=message):
            shard([5, 7, 5, 6, 7], **given)
    with pytest.raises(DataError, match=r"tokens below 400, the vocab.* found 400: a.bin"):
        shard([5, 400])
    assert shard([5, 7], ended=True, claims=[Claim("rows", 2, 2, FILES[1])]).files == FILES


def of_width(path: Path, known: Known = KNOWN, widths: tuple[int, ...] = (2, 4)) -> Shard:
    found = Inventory(tokens=lambda w: numbers(path, f"<u{w}"), widths=widths, files=(path,))
    return checked(found, known)


@pytest.mark.parametrize("dtype", ["<u2", "<u4", "<u8"])
@pytest.mark.parametrize("vocabulary", [400, 2**16, 100_000])
def test_the_width_of_tokens_is_the_one_under_which_they_are_tokens(
    dtype: str, vocabulary: int, tmp_path: Path
) -> None:
    path, rng = tmp_path / "a.npy", np.random.default_rng(0)
    tokens = rng.integers(8, min(vocabulary, 2**16 if dtype == "<u2" else vocabulary), 3001)
    tokens.astype(dtype).tofile(path)
    found = of_width(path, Known(vocabulary=vocabulary, separator=7), (2, 4, 8))
    assert found.tokens.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(np.asarray(found.tokens), tokens)


def test_a_file_is_read_once(tmp_path: Path) -> None:
    for name in ("x", "y", "whole", "part", "other"):
        (tmp_path / name).write_text(name)

    def held(place: str, side: str, index: str, *files: str) -> tuple[Place, Inventory]:
        path = tmp_path / index
        given = tuple(tmp_path / name for name in files)
        found = Inventory(tokens=np.ones(1, "<u2"), files=(*given, path) if given else (path,))
        return Place(place, side, path), found

    whole = held("law", "train", "whole", "x", "y")
    assert once([held("law", "train", "part", "x"), whole]) == {tmp_path / "part"}
    assert once([whole, held("web", "train", "other")]) == set()
    for more in (
        [held("web", "train", "part", "x")],
        [held("law", "validation", "part", "x")],
        [held("law", "train", "part", "x", "y")],
        [held("web", "train", "x")],
    ):
        with pytest.raises(DataError, match="every file of tokens once, found one of"):
            once([whole, *more])
    with pytest.raises(DataError, match="every file of tokens once"):
        once([held("law", "train", "whole", "x", "x")])
    (tmp_path / "link").symlink_to(tmp_path / "other")
    with pytest.raises(DataError, match="every file of tokens once"):
        once([held("law", "train", "other"), held("law", "train", "link")])
