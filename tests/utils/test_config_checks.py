"""The checks that configurations share."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from bydore_pyro.proxy.proxy import ProxyConfig
from bydore_pyro.search.config import SearchConfig
from bydore_pyro.utils.config_checks import require_fields, require_finite, warn_idle


@dataclass
class Config:
    name: str = "x"
    count: int = 1
    rate: float = 0.5
    kind: Literal["round", "square"] = "round"
    place: str | None = None


@pytest.mark.parametrize("rate", [float("nan"), float("inf"), -float("inf")])
def test_numbers_must_be_finite(rate: float) -> None:
    require_finite(Config())
    with pytest.raises(ValueError, match="Expected a finite rate"):
        require_finite(Config(rate=rate))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": float("nan")}, "Expected a finite rate, actual nan"),
        ({"kind": "flat"}, "Expected kind one of 'round', 'square', actual 'flat'"),
        ({"name": ""}, "Expected a value for --name, found an empty one"),
        ({"place": ""}, "Expected a value for --place, found an empty one"),
    ],
)
def test_fields_are_what_their_types_promise(options: dict[str, Any], message: str) -> None:
    require_fields(Config())
    with pytest.raises(ValueError, match=message):
        require_fields(Config(**options))


def test_an_option_without_effect_warns_where_it_was_set() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_idle(Config(count=2), ("rate", "name"), "reason")
    with pytest.warns(UserWarning, match="count has no effect with that reason"):
        warn_idle(Config(count=2), ("count", "rate"), "that reason")


@pytest.mark.parametrize(
    "options",
    [
        {"learner": "point", "kl": "bound"},
        {"learner": "exponentiated", "moment": "ratio"},
        {"hypergradient": "forward_mode", "epsilon_rule": "paper"},
        {"tolerance_window": 7},
        {"sketch_size": 64},
        {"train_share": 0.5},
    ],
)
def test_a_search_warns_of_idle_options(options: dict) -> None:
    with pytest.warns(UserWarning, match=f"{list(options)[-1]} has no effect with"):
        SearchConfig(evidence="linear", **options)


@pytest.mark.parametrize(
    "options", [{"signal_sequences": 2}, {"kl_weight": 0.1}, {"average_from": 0.2}, {"kl": "bound"}]
)
def test_what_algorithm_1_is_told_means_nothing_to_gradient_matching(options: dict) -> None:
    with pytest.warns(
        UserWarning, match=f"{next(iter(options))} has no effect with evidence matching"
    ):
        SearchConfig(**options)


def test_a_proxy_warns_of_an_idle_decay() -> None:
    with pytest.warns(UserWarning, match="weight_decay has no effect with optimizer sgd"):
        ProxyConfig(optimizer="sgd", weight_decay=0.3)
