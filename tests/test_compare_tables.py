"""Wins, ties and losses of a comparison on made-up losses whose answers are known by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import compare_tables as tables
import numpy as np
import pytest
from compare_targets import Target, posed
from scipy.stats import ttest_rel

from bydore_pyro.command_line.command_line import parse_options
from bydore_pyro.data.store import TokenStore
from bydore_pyro.setup.options import Options


def test_of_two_mixtures_the_test_is_that_of_pairs() -> None:
    rng = np.random.default_rng(0)
    own, other, more = (rng.normal(size=n).tolist() for n in (5, 5, 7))
    for second in (other, more):  # the seeds that both have
        found = tables.verdicts({"bydore": own, "mde": second})["mde"]
        expected = ttest_rel(second[:5], own)
        assert found.difference / found.standard_error == pytest.approx(expected.statistic)
        assert found.p == pytest.approx(expected.pvalue)
    assert tables.verdicts({"bydore": [5.0], "mde": other}) == {}, "one model tells no spread"


def test_the_noise_of_many_mixtures_is_that_of_their_blocks() -> None:
    rng = np.random.default_rng(1)
    effect, seed = rng.normal(size=(40, 1)), rng.normal(size=20)
    losses = effect + seed + 0.1 * rng.normal(size=(40, 20))
    named = {f"m{i}": row.tolist() for i, row in enumerate(losses)}
    found = tables.verdicts({**named, "again": named["m1"]}, "m0")
    for one in found.values():
        assert one.standard_error == pytest.approx(0.1 * np.sqrt(2 / 20), rel=0.1)
    assert found["m1"].difference == pytest.approx(float(effect[1, 0] - effect[0, 0]), abs=0.1)
    assert found["again"] == found["m1"], "an equal mixture tells nothing new"


def test_holm_is_by_hand() -> None:
    np.testing.assert_allclose(tables.holm([0.01, 0.04, 0.03, 0.5]), [0.04, 0.09, 0.09, 0.5])
    rng = np.random.default_rng(2)
    wrong = [min(tables.holm(rng.random(30).tolist())) < 0.05 for _ in range(2000)]
    assert 0.035 < np.mean(wrong) < 0.065, "one table in twenty calls any different"


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
        ([5.0, 5.1, 5.5], "tie"),  # one seed alone: 0.1 ± 0.1
    ],
)
def test_a_win_or_a_loss_is_unlikely_by_chance(other: list[float], word: str) -> None:
    assert tables.verdicts({"bydore": [5.0, 5.1, 5.2], "mde": other})["mde"].word == word


def test_losses_and_counts_of_all_targets() -> None:
    def result(**losses: list[float]) -> dict:
        names = [label for label in losses if label != "own_shares"]
        methods = {label: {"weights": {label: 1.0}} for label in names}
        return {"methods": methods, "losses": losses, "validation": {"a": 1.0}}

    first = result(bydore=[1.0, 1.1], regmix=[2.0, 2.1], uniform=[0.9, 1.0], own_shares=[0.1, 0.1])
    targets = {"first": first, "both": result(bydore=[2.0, 2.002], uniform=[2.25, 2.25])}
    found = tables.standings(targets)
    behind = {"bydore": (0.1 + 0) / 2, "regmix": 1.1, "uniform": (0 + 0.249) / 2}
    assert found["behind"] == pytest.approx(behind)
    words = {m: {t: v["word"] for t, v in own.items()} for m, own in found["verdicts"].items()}
    assert words == {"regmix": {"first": "win"}, "uniform": {"first": "loss", "both": "win"}}
    assert found["count"] == {"win": 2, "tie": 0, "loss": 1}
    text = tables.standings_table(targets, found)
    assert "| uniform | **0.950** | 2.250 | 0.125 |" in text


def test_where_text_is_scarce_methods_are_told_the_length_of_the_run(corpus: TokenStore) -> None:
    options = parse_options(
        ["--steps", "10", "--batch_sequences", "4", "--sequence_length", "32"], "", "", Options
    )
    plain = Target(validation={"birds": 1.0})
    told, cut = posed(options, corpus, replace(plain, scarce=3))
    assert told.question.target_tokens == 10 * 4 * 32
    assert 0 < len(cut.train["birds"]) <= 3 * 32 < len(corpus.train["birds"])
    assert len(cut.train["greek"]) == len(corpus.train["greek"])
    assert posed(options, corpus, plain)[0].question.target_tokens is None


RESULTS = Path(__file__).parents[1] / "figures" / "results"


@pytest.mark.parametrize("name", ["compare", "compare-budget4", "compare-seed1", "compare-web"])
def test_the_tables_that_the_docs_show_are_those_of_the_results(name: str) -> None:
    path = RESULTS / f"{name}.json"
    targets = json.loads(path.read_text(encoding="utf-8"))["targets"]
    parts = [tables.target_table(name, result) for name, result in targets.items()]
    parts.append(tables.standings_table(targets, tables.standings(targets)))
    assert path.with_suffix(".md").read_text(encoding="utf-8") == "\n".join(parts)


@pytest.mark.parametrize(
    ("name", "targets"),
    [
        ("compare", "planted, dense, all 13 domains, three withheld domains"),
        ("compare-web", "Pile-CC withheld (real text)"),
    ],
)
def test_the_readme_counts_what_the_files_hold(name: str, targets: str) -> None:
    found = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["targets"]
    count = tables.standings(found)["count"]
    page = (RESULTS.parents[1] / "README.md").read_text(encoding="utf-8")
    assert f"| {targets} | {count['win']} | {count['tie']} | {count['loss']} |" in page
