"""The first screen of a page says what the tables below it say."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter
from report_runs import NAMES, matching_of, metrics_of, outlook_of, record_of

from bydore_pyro.report.summary import Lead, cost_sentence, lead
from bydore_pyro.setup.record import TargetRecord
from bydore_pyro.targets.told import Told


def told_beside_natural(**changed: Any) -> dict[str, Any]:
    return outlook_of(baseline="natural", **changed)


def lines(**metrics: Any) -> dict[str, str]:
    found = lead(record_of(metrics=metrics_of(**metrics)))
    assert isinstance(found, Lead)
    return dict(found.rows)


def test_what_a_run_cost_is_a_sentence() -> None:
    told = "Found by search: 6.0 s, 3.00e+09 FLOPs, on cpu, 1 thread, peak memory 0.6 GB."
    assert cost_sentence(record_of()) == told
    assert cost_sentence(record_of(metrics={})) == "Found by search: at no cost."


def test_a_run_is_told_in_six_lines() -> None:
    found = lines(outlook=told_beside_natural())
    terms = ["Train on", "It will reach", "Compute", "How surely", "It costs", "Collect"]
    assert [*found] == terms
    assert found["Compute"].startswith("natural weights would train ")
    assert found["Train on"] == (
        "code 46 %, law 28 %, prose 17 %, web 9.9 %, as shares of the training tokens."
    )
    assert found["It will reach"] == (
        "5.000 nats per token on all targets, 0.100 lower than on natural weights (two single "
        "runs: -0.400 to +0.200), after 15,360 tokens. 2 of 2 targets fall; no changes are decided."
    )
    assert found["How surely"].startswith("It is better than natural with probability 40 %")
    assert "reads code 0.50 times, no domain more often." in found["It costs"]
    assert found["Collect"] == "Nothing that was measured asks for other text."


def test_a_run_without_a_forecast_says_less() -> None:
    assert [*lines()] == ["Train on", "How surely", "It costs"]
    assert [*dict(lead(record_of(metrics={})).rows)] == ["Train on", "It costs"]


def test_bad_verdicts_stand_before_careful_ones() -> None:
    told = lines(matching=matching_of(unexplained=0.9), outlook=told_beside_natural())["How surely"]
    assert "Against it: Do the domains cover the target? Hardly." in told
    assert "Careful:" not in told or told.index("Against it") < told.index("Careful")


def test_what_to_collect_is_text_that_runs_out_or_that_no_domain_has() -> None:
    worth = dict(zip(NAMES, (0.001, 0.02, 0.003, 0.00001), strict=True))
    told = lines(outlook=told_beside_natural(worth_of_text=worth))["Collect"]
    assert told == (
        "A tenth more text lowers the loss in nats per token most of law (0.0200), prose (0.0030), "
        "code (0.0010)."
    )
    targets = TypeAdapter(dict[str, TargetRecord]).dump_python(
        {"quiz": TargetRecord(unexplained=0.8), "law": TargetRecord(unexplained=0.1)}
    )
    told = lines(outlook=told_beside_natural(), targets=targets)["Collect"]
    assert told == "Text like that of quiz (80 % unexplained): no mixture has it."


def test_what_was_asked_has_the_sizes_of_tasks() -> None:
    targets = TypeAdapter(dict[str, TargetRecord]).dump_python(
        {"quiz": TargetRecord(task=Told(questions=1200)), "law": TargetRecord()}
    )
    assert lines(targets=targets)["Asked"].startswith("quiz (1,200 questions), law; 4 domains")
