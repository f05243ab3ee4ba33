"""The contract: what is declared is compared, widths and documents are found, padding is left."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bydore_pyro.errors import DataError
from bydore_pyro.shards import inventory
from bydore_pyro.shards.arrays import numbers
from bydore_pyro.shards.inventory import (
    Claim,
    Inventory,
    Place,
    Shard,
    checked,
    once,
    require_alike,
)
from bydore_pyro.shards.widths import Known

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


def test_documents_that_are_told_are_left_out_where_they_are_padding() -> None:
    assert documents([5, 7, 6, 6, 7], [2, 5]) == [[5, 7], [6, 6, 7]]
    assert documents([5, 7, 7, 7, 6, 7], [2, 3, 4, 6]) == [[5, 7], [6, 7]]
    assert documents([7, 5, 6], [1, 3]) == [[7], [5, 6]]
    assert documents([5, 7, 3, 3, 6, 7], [4, 6]) == [[5, 7], [6, 7]]
    assert documents([3, 3, 6, 7], [2, 4]) == [[6, 7]]
    assert documents([5, 9, 6], [1, 3]) == [[5], [9, 6]], "a document of one token"


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
    with pytest.raises(DataError, match=r"below 400, the vocab.* found 400 at position 1: a.bin"):
        shard([5, 400])
    assert not shard([5, 7], ended=True, claims=[Claim("rows", 2, 2, FILES[1])]).padding


def test_a_number_of_tokens_is_compared_under_the_width_that_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.ds"
    np.arange(8, 58, dtype="<u4").tofile(path)
    for declared, message in ((50, None), (100, "Expected 100 tokens, as a.idx says, found 50: ")):
        found = Inventory(
            tokens=lambda width: numbers(path, f"<u{width}"),
            files=(path,),
            claims=[Claim("tokens", declared, None, FILES[1])],
        )
        if message is None:
            assert checked(found, KNOWN).width == 4
        else:
            with pytest.raises(DataError, match=message):
                checked(found, KNOWN)


def test_what_looks_like_something_else_is_said() -> None:
    assert shard([8, 20, 9, 11] * 8).resembles == ""
    assert shard([*range(8, 90)]).resembles == "positions or numbers of documents"
    assert shard([8, 20, 9, 11] * 8).width is None, "the type says it"


def test_every_token_is_compared_with_the_vocabulary_when_it_is_read(tmp_path: Path) -> None:
    """Few of a large shard are looked at when it is opened."""
    path, tokens = tmp_path / "a.bin", np.full(200_000, 9, "<u2")
    tokens[1::2], tokens[155_554] = 11, 400
    tokens.tofile(path)
    ends = np.array([len(tokens)])
    found = Inventory(tokens=numbers(path, "<u2"), ends=ends, files=(path,))
    text = checked(found, KNOWN)
    assert np.asarray(text[100:102]).tolist() == [9, 11]
    with pytest.raises(DataError, match=r"below 400, .* found 400 at position 155554: .*a.bin"):
        np.asarray(text[150_000:160_000])
    with pytest.raises(DataError, match=r"found 400 at position 155554: .*a.bin"):
        checked(Inventory(tokens=numbers(path, "<u2"), files=(path,)), KNOWN)


def test_all_shards_of_a_domain_have_an_index_or_none(tmp_path: Path) -> None:
    def of(name: str, index: str | None, ends: list[int] | None) -> tuple[Place, Inventory]:
        given = None if ends is None else np.array(ends)
        found = Inventory(
            tokens=np.ones(3, "<u2"),
            ends=given,
            files=FILES,
            index=None if index is None else tmp_path / index,
        )
        return Place(name, "train", tmp_path / "a"), found

    whole, bare = of("law", "0.ds.index", [3]), of("law", "1.ds.index", None)
    require_alike([whole, of("web", "1.ds.index", None), of("law", "0.csv.gz", None)])
    require_alike([bare, of("law", None, [3]), of("law", None, None)])
    for shards in ([whole, bare], [bare, whole]):
        message = r"every shard of 'law', as .*0\.ds\.index, found no .*1\.ds\.index"
        with pytest.raises(DataError, match=message):
            require_alike(shards)


def test_a_last_document_may_be_missing_among_the_ends() -> None:
    assert shard([5, 7, 6, 6], [2], open_end=True).ends.tolist() == [2, 4]
    for tokens in ([5, 7, 6, 7], [5, 7, 6, 7, 6]):
        with pytest.raises(DataError, match="ascend to"):
            shard(tokens, [2], open_end=True)


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
