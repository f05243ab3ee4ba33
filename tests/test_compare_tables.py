"""Wins, ties and losses of a comparison on made-up losses whose answers are known by hand."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr, ttest_rel

from bydore_pyro.data.store import TokenStore
from bydore_pyro.runs.options import Options
from bydore_pyro.utils.command_line import parse_options
from bydore_pyro.utils.errors import DataError

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
import compare_tables as tables
from compare_targets import Target, posed
from scales import finished_comparison, of_methods, options_now, rank_correlation, ranks


def test_the_standard_error_is_that_of_the_pairs_that_there_are() -> None:
    rng = np.random.default_rng(0)
    own, other, more = (rng.normal(size=n).tolist() for n in (5, 5, 7))
    for second in (other, more):
        paired = tables.verdict(own, second)
        assert paired is not None
        expected = ttest_rel(second[:5], own).statistic
        assert paired.difference / paired.standard_error == pytest.approx(expected)


def test_means_are_over_the_seeds_that_all_have() -> None:
    losses = {"bydore": [1.0, 2.0, 9.0], "mde": [2.0, 2.0]}
    assert tables.common_means(losses) == {"bydore": 1.5, "mde": 2.0}
    methods = {label: {"weights": {"a": w, "b": 1 - w}} for label, w in (("bydore", 1), ("mde", 0))}
    found = tables.standings({"t": {"methods": methods, "losses": losses}})
    assert found["behind"] == {"bydore": 0, "mde": 0.5}


def test_equal_mixtures_count_once_and_our_variants_are_no_rivals() -> None:
    methods = {
        "uniform": {"weights": {"a": 0.5, "b": 0.5}},
        "unimax": {"weights": {"a": 0.5, "b": 0.5}},
        "fastmix": {"weights": {"a": 0.505, "b": 0.495}},
        "mde": {"weights": {"a": 0.6, "b": 0.4}},
        **{key: {"weights": {"a": 1.0}} for key in ("bydore", "bydore_linear", "bydore_match")},
    }
    assert tables.rivals(methods) == ["uniform", "mde"]
    losses = {label: [2.0, 2.1] for label in methods} | {"bydore": [1.0, 1.1]}
    found = tables.standings({"t": {"methods": methods, "losses": losses}})
    assert found["count"] == {"win": 2, "tie": 0, "loss": 0}


@pytest.mark.parametrize(
    ("other", "word"),
    [
        ([5.1, 5.2, 5.3], "win"),  # 0.1 better with every seed, though seeds differ by as much
        ([4.9, 5.0, 5.1], "loss"),
        ([5.0, 5.1, 5.2], "tie"),  # the same mixture
        ([5.0, 5.1, 5.5], "tie"),  # one seed alone: 0.1 ± 0.1
    ],
)
def test_a_win_or_a_loss_lies_beyond_two_standard_errors(other: list[float], word: str) -> None:
    found = tables.verdict([5.0, 5.1, 5.2], other)
    assert found is not None
    assert found.word == word
    assert tables.verdict([5.0], other) is None, "one model tells no spread"


def result(losses: dict[str, list[float]], **more: object) -> dict:
    methods = dict.fromkeys(label for label in losses if label != "the target's own shares")
    return {"methods": methods, "losses": losses, "validation": {"a": 1.0}, **more}


def test_losses_and_counts_of_all_targets_and_of_the_worst_of_several() -> None:
    first = result({
        "bydore": [1.0, 1.1], "regmix": [2.0, 2.1],
        "uniform": [0.9, 1.0], "the target's own shares": [0.1, 0.1],
    })  # fmt: skip
    singles = {
        "bydore": {"a": [1.0, 1.0], "b": [3.0, 3.1]},
        "uniform": {"a": [2.0, 2.1], "b": [2.5, 2.4]},
    }
    both = result({"bydore": [2.0, 2.05], "uniform": [2.25, 2.25]}, single_losses=singles)
    targets = {"first": first, "both": both}
    found = tables.standings(targets)
    behind = {"bydore": (0.1 + 0) / 2, "regmix": 1.1, "uniform": (0 + 0.225) / 2}
    assert found["behind"] == pytest.approx(behind)
    words = {m: {t: v["word"] for t, v in own.items()} for m, own in found["verdicts"].items()}
    assert words == {
        "regmix": {"first": "win"},
        "uniform": {"first": "loss", "both": "win", "both, the worst": "loss"},
    }
    assert found["count"] == {"win": 2, "tie": 0, "loss": 1}, "the worst of several counts for none"
    text = tables.standings_table(targets, found)
    assert "| uniform | **0.950** | 2.250 | **2.450** | 0.113 |" in text
    assert "2 wins, 0 ties, 1 losses" in text
    assert "| uniform | loss -0.100 ± 0.000 | win +0.225 ± 0.025 | loss" in text
    assert tables.single_cells("bydore", singles) == ["b 3.050 ± 0.071", "b +0.600"]
    assert tables.worst_of(singles["uniform"]) == [2.5, 2.4]
    alone = {"first": result({"uniform": [1.0]})}
    text = tables.standings_table(alone, tables.standings(alone))
    assert text.count("##") == 1
    assert "| uniform | 1.000 | 0.000 |" in text


def changed(content: dict, *keys: str, value: object = None) -> dict:
    """A copy of nested values in which one is another; without it when that is None."""
    key, *rest = keys
    inner = changed(content[key], *rest, value=value) if rest else value
    return {k: v for k, v in {**content, key: inner}.items() if k != key or inner is not None}


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("steps",), None, "no 'steps'"),
        (("targets",), [3], "found"),
        (("targets", "t", "methods"), {}, "no method for t"),
        (("targets", "t", "methods", "uniform", "weights"), None, "no 'weights'"),
        (("targets", "t", "losses", "uniform"), None, "no 'uniform'"),
        (("targets", "t"), None, "Expected one of the targets of"),
    ],
)
def test_what_is_no_finished_comparison_is_refused_in_one_line(
    tmp_path: Path, keys: tuple[str, ...], value: object, message: str
) -> None:
    config = parse_options([], "", "", Options).as_dict()
    cost = {"tokens": 0, "flops": 0.0, "seconds": 0.0, "parts": {}}
    method = {"weights": {"a": 1.0}, "cost": cost, "jitter_second_half": None}
    target = {
        "validation": {"a": 1.0},
        "methods": {"uniform": method},
        "losses": {"uniform": [1.0]},
    }
    content = {"steps": 3, "targets": {"t": target, "u": target}, "config": config}
    path = tmp_path / "results.json"
    path.write_text(json.dumps(content))
    assert finished_comparison(path, ["t"]) == json.loads(path.read_text())
    path.write_text(json.dumps(changed(content, *keys, value=value)))
    with pytest.raises(DataError, match=message) as refused:
        finished_comparison(path, ["t"])
    assert "\n" not in str(refused.value)


def test_the_rank_correlation_is_scipys_and_its_interval_holds_what_many_samples_find() -> None:
    rng = np.random.default_rng(1)
    shared = rng.normal(size=12)
    first, second = (shared + rng.normal(scale=0.5, size=12).round(1) for _ in range(2))
    value, low, high = rank_correlation(first, second)
    assert value == pytest.approx(spearmanr(first, second).statistic)
    samples = rng.integers(12, size=(400, 12))
    found = [spearmanr(first[own], second[own]).statistic for own in samples]
    np.testing.assert_allclose([low, high], np.quantile(found, [0.03, 0.97]), atol=0.06)
    assert rank_correlation([1, 2, 3, 4], [8, 6, 4, 2])[0] == pytest.approx(-1)
    assert rank_correlation([1, 2], [1, 2]) == (None, None, None)
    assert rank_correlation([1, 1, 1], [1, 2, 3]) == (None, None, None)


def test_scales_tell_what_the_small_models_choice_costs_on_the_large_one() -> None:
    losses = {"t": {"small": {"a": [1.0], "b": [2.0], "c": [3.0]},
                    "large": {"a": [2.5], "b": [2.0], "c": [3.0]}}}  # fmt: skip
    found = ranks(losses, "small")["t"]["large"]
    assert (found["best_small"], found["best_large"], found["behind"]) == ("a", "b", 0.5)
    assert found["spearman"] == pytest.approx(0.5)
    assert (found["pairs"], found["pairs_in_another_order"]) == (3, 1)
    weights = {"a": 0.5, "b": 0.5 + 1e-15, "c": 0.6}
    methods = {label: {"weights": {"x": w, "y": 1 - w}} for label, w in weights.items()}
    own = {"methods": methods, "losses": {"a": [1.0], "b": [1.0], "c": [2.0]}}
    assert of_methods(own) == {"a": [1.0], "c": [2.0]}, "of equal mixtures one"
    assert of_methods(own, ["c", "b"]) == {"c": [2.0], "b": [1.0]}


def test_where_text_is_scarce_methods_are_told_the_length_of_the_run(corpus: TokenStore) -> None:
    options = parse_options(
        ["--steps", "10", "--batch_sequences", "4", "--sequence_length", "32"], "", "", Options
    )
    plain = Target(validation={"birds": 1.0})
    told, cut = posed(options, corpus, replace(plain, scarce=3))
    assert told.run.target_tokens == [10 * 4 * 32]
    assert 0 < len(cut.train["birds"]) <= 3 * 32 < len(corpus.train["birds"])
    assert len(cut.train["greek"]) == len(corpus.train["greek"])
    assert posed(options, corpus, plain)[0].run.target_tokens is None


def test_the_results_that_the_docs_show_can_be_judged_again() -> None:
    kept = Path(__file__).parents[1] / "figures" / "results"
    for path in (kept / "compare.json", kept / "corpus" / "compare.json"):
        found = finished_comparison(path, [])
        finished_comparison(path, list(found["targets"]))
        assert options_now(found["config"]).run.proxy == found["config"]["run"]["proxy"]
        table = tables.standings_table(found["targets"], tables.standings(found["targets"]))
        assert path.with_suffix(".md").read_text(encoding="utf-8").endswith(table)
