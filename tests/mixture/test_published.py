"""Published figures: complete, as printed, and told where the print is wrong."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from bydore_pyro.mixture import published
from bydore_pyro.mixture.pile import PILE_DOMAINS
from bydore_pyro.mixture.published import (
    PileDomain,
    average_score,
    benchmark_scores,
    misprinted_averages,
    pile_domains,
    pile_weights,
    printed_averages,
    printed_flops,
)

TABLES = Path(__file__).parents[3] / "shared" / "tables"
FOLDER = Path(published.__file__).parent
METHODS = {
    1: ["Human", "Pile-CC", "DoReMi", "RegMix", "AutoScale", "MDE", "ByDoRe"],
    2: ["Human", "DoReMi", "RegMix", "AutoScale", "MDE", "ByDoRe"],
}


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_weights_are_those_of_the_seventeen_domains_and_not_normalised() -> None:
    weights = pile_weights()
    sums = {"human": 0.7868, "doremi": 0.8148, "regmix": 1.0, "token_share": 1.0}
    assert list(weights) == list(sums)
    for column, total in sums.items():
        assert {*weights[column]} == {*PILE_DOMAINS.values()}
        assert sum(weights[column].values()) == pytest.approx(total, abs=1e-9)
        assert all(weight > 0 for weight in weights[column].values())
    # What the paper's text says of them.
    assert round(weights["regmix"]["pile_cc"], 2) == 0.87
    assert round(weights["regmix"]["wikipedia_en"], 2) == 0.02
    assert round(weights["doremi"]["pile_cc"], 2) == 0.61
    assert round(weights["doremi"]["wikipedia_en"], 2) == 0.07


def test_domains() -> None:
    domains = pile_domains()
    assert {*domains} == {*PILE_DOMAINS.values()}
    assert isinstance(domains["github"], PileDomain)
    assert domains["github"].component == "GitHub"
    sizes = [domain.size_gib for domain in domains.values()]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) == pytest.approx(940.83)
    assert all(domain.description.endswith(".") for domain in domains.values())


@pytest.mark.parametrize("case", [1, 2])
def test_scores_are_of_thirteen_tasks(case: int) -> None:
    scores = benchmark_scores(case)
    assert list(scores) == METHODS[case]
    tasks = list(scores["Human"])
    assert len(tasks) == 13
    assert all(list(of_method) == tasks for of_method in scores.values())
    assert not {task for task in tasks if "vg" in task or "FLOP" in task}
    assert all(0 < s < 100 for of_method in scores.values() for s in of_method.values())
    assert list(printed_averages(case)) == METHODS[case]


def test_averages_that_the_rows_do_not_give() -> None:
    """The three of the documentation, and no other."""
    first, second = misprinted_averages(1), misprinted_averages(2)
    assert {*first} == {"ByDoRe"}
    assert first["ByDoRe"] == (48.50, pytest.approx(48.14, abs=0.005))
    assert {*second} == {"AutoScale", "DoReMi"}
    assert second["AutoScale"] == (35.45, pytest.approx(35.30, abs=0.005))
    assert second["DoReMi"] == (38.18, pytest.approx(38.17, abs=0.005))
    averages = {m: average_score(scores) for m, scores in benchmark_scores(1).items()}
    assert max(averages, key=lambda method: averages[method]) == "RegMix"
    text = misprinted_averages.__doc__ or ""
    readme = (FOLDER / "README.md").read_text()
    for printed, computed in (*first.values(), *second.values()):
        for place in (text, readme):
            assert f"{printed:.2f}" in place
            assert f"{computed:.2f}" in place


def test_best_marks_that_are_misplaced() -> None:
    """What the README says of them; human weights and Pile-CC alone are not automated."""
    scores = benchmark_scores(1)
    automated = ("DoReMi", "RegMix", "AutoScale", "MDE", "ByDoRe")
    for task, method, score in (("LAMBADA", "RegMix", 34.35), ("OpenBookQA", "DoReMi", 30.13)):
        assert max(automated, key=lambda m: scores[m][task]) == method
        assert scores[method][task] == score


def test_flops_are_those_of_the_methods_that_search() -> None:
    assert [*printed_flops(1)] == ["DoReMi", "RegMix", "AutoScale", "MDE", "ByDoRe"]
    assert printed_flops(1)["RegMix"] == pytest.approx(512 * 6 * 1e6 * 1e9, rel=1e-3)
    assert printed_flops(1)["ByDoRe"] == pytest.approx(10 * 6 * 1e6 * 0.4e9)
    assert printed_flops(2)["ByDoRe"] == 1.44e16


def test_what_is_not_there_is_refused() -> None:
    for reader in (benchmark_scores, printed_averages, misprinted_averages, printed_flops):
        with pytest.raises(ValueError, match="case 1 or 2, actual 3"):
            reader(3)
    with pytest.raises(ValueError, match="at least one task"):
        average_score({})


def test_files_are_the_tables_that_they_were_taken_from() -> None:
    if not TABLES.is_dir():
        pytest.skip("the tables that the files were taken from are not here")
    for name in ("pile_weights.csv", "pile_domains.csv", "case1.csv", "case2.csv"):
        ours, theirs = rows(FOLDER / name), rows(TABLES / name)
        kept = [{column: row[column] for column in theirs[0]} for row in ours]
        assert kept == theirs, name


def test_the_readme_names_every_file() -> None:
    readme = (FOLDER / "README.md").read_text()
    files = {path.name for path in FOLDER.glob("*.csv")}
    assert len(files) == 4
    assert all(f"`{name}`" in readme for name in files)
