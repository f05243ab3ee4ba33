"""Lists of entries and trees of groups, planted."""

from __future__ import annotations

from typing import Any

import pytest

from bydore_pyro.mixture.entries import has_numbers, weights_of_entries

TREE = [
    {
        "name": "web",
        "proportion": 0.7,
        "mixture": [
            {"name": "cc", "proportion": 0.9},
            {"name": "news", "proportion": 0.1},
        ],
    },
    {"name": "code", "proportion": 0.3},
]


def test_a_tree_is_multiplied_out() -> None:
    expected = {"web/cc": pytest.approx(0.63), "web/news": pytest.approx(0.07), "code": 0.3}
    assert weights_of_entries(TREE, "the list").weights == expected
    by_name = {"web": {"weight": 0.7, "cc": {"weight": 0.9}, "news": {"weight": 0.1}}, "code": 0.3}
    assert weights_of_entries(by_name, "mix").weights == expected, "as olmix writes it"
    percent = {"web": {"weight": 0.7, "mix": {"cc": 90, "news": 10}}, "code": 0.3}
    assert weights_of_entries(percent, "mix").weights == expected


def test_a_group_that_does_not_sum_to_one_is_named_and_not_spread() -> None:
    tree = [{**TREE[0], "mixture": [{"name": "cc", "proportion": 0.66}]}, TREE[1]]
    message = r"the group 'web' that sums to 0.66 instead of 1 \(cc 0.66\): its rest is not spread"
    with pytest.raises(ValueError, match=message):
        weights_of_entries(tree, "the list")


def test_names_are_what_tells_entries_apart() -> None:
    given: list[dict[str, Any]] = [
        {"name": "default", "path": "org/law", "subset": "x", "weight": 60},
        {"name": "default", "path": "org/web", "weight": "20.4"},
        {"_missing_categories": ["code"]},
    ]
    found = weights_of_entries(given, "blend")
    assert found.weights == {"law": 60, "web": "20.4"}
    assert found.cut == "by their paths without 'org/'"
    assert found.remarks == ("left out as no domain: _missing_categories",)
    both = [{"name": "a", "path": "x/1", "weight": 1}, {"name": "b", "path": "x/2", "weight": 1}]
    found = weights_of_entries(both, "blend")
    assert [*found.weights] == ["a", "b"]
    assert found.others == (("path", ("x/1", "x/2")),)
    subsets = [{"path": "hub", "name": name, "weight": 1} for name in ("a", "a")]
    subsets[0]["path"] = "other"
    subsets.append({"path": "hub", "name": "b", "weight": 2})
    assert [*weights_of_entries(subsets, "x").weights] == ["other/a", "hub/a", "hub/b"]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([{"name": "a"}], "no 'weight' in entry 1, but 'name'"),
        ([{"weight": 1}], "no 'domain' in entry 1, but 'weight'"),
        ([{"name": "a", "weight": 1, "share": 1}], "'weight' and 'share' in entry 1: keep one"),
        (
            [{"name": "a", "weight": 1}, {"name": "b", "epochs": 2}],
            "numbers of epochs and of tokens",
        ),
        ([{"name": "a", "weight": 1}, {"path": "b", "weight": 1}], "no key that names all entries"),
        ([{"name": "a", "weight": 1}, 3], "entries beside others in x"),
        ([{"name": "a", "weight": "x", "mix": {"b": 1}}], "'x' instead of a number as the weight"),
    ],
)
def test_what_is_no_list_of_weights(entries: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        weights_of_entries(entries, "x")


def test_units_are_in_the_keys() -> None:
    for key, unit in {"repetitions": "epochs", "fraction": "documents", "share": "tokens"}.items():
        assert weights_of_entries([{"name": "a", key: 1}], "x").unit == unit
    assert has_numbers([{"name": "a", "weight": 1}])
    assert has_numbers({"a": {"weight": 1}})
    assert not has_numbers([{"path": "a", "type": "chat"}])
