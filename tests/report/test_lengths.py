"""The weights for runs of several lengths, in words, rows and figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from report_runs import NAMES, weights_of, write_matching, write_search

from bydore_pyro.report.drawing import domain_looks
from bydore_pyro.report.lengths import (
    Length,
    advice,
    length_epochs_figure,
    length_table,
    length_weights_figure,
    lengths_in,
    read_often,
)
from bydore_pyro.report.run_page import run_page
from bydore_pyro.report.run_record import read_run
from bydore_pyro.report.text import report_text


def lengths_of(names: tuple[str, ...] = NAMES) -> list[dict[str, Any]]:
    """Two lengths, the longer first, as a run's metrics tell them."""
    found = []
    for tokens, times in ((1e10, 8.0), (1e9, 0.5)):
        weights = weights_of(len(names))[:: 1 if times > 1 else -1]
        found.append(
            {
                "tokens": tokens,
                "weights": dict(zip(names, weights.tolist(), strict=True)),
                "low": dict(zip(names, (weights / 2).tolist(), strict=True)),
                "high": dict(zip(names, (weights * 1.5).tolist(), strict=True)),
                "epochs": dict.fromkeys(names, times),
                "unexplained": 0.25,
            }
        )
    return found


def with_lengths(folder: Path, lengths: Any, **metrics: Any) -> Path:
    content = json.loads((folder / "metrics.json").read_text())
    (folder / "metrics.json").write_text(json.dumps({**content, "lengths": lengths, **metrics}))
    return folder


def test_lengths_are_read_as_far_as_they_are_told() -> None:
    short, long = lengths_in({"lengths": lengths_of()})
    assert isinstance(short, Length)
    assert (short.tokens, long.tokens) == (1e9, 1e10)
    assert long.epochs["law"] == 8
    table = length_table([short, long])
    assert table.header == ("tokens of the run", "1 B", "10 B")
    assert table.rows[0] == ("code", "0.099 (0.5 x)", "0.460 (8.0 x)")
    assert table.rows[-1] == ("unexplained", "25 %", "25 %")
    assert not length_table([short]).rows
    broken = [None, {"tokens": "many"}, {"tokens": 5, "weights": [], "low": {"a": None}}]
    assert [one.weights for one in lengths_in({"lengths": broken})] == [{}]
    assert lengths_in({"lengths": "no"}) == []


def test_advice_names_what_is_read_too_often_and_what_helps() -> None:
    epochs = {"law": 5.0, "code": 9.25, "web": 3.9}
    assert list(read_often(epochs)) == ["code", "law"]
    told = advice(1e9, epochs, by_matching=True, counted=False)
    assert told == (
        "A run of 1,000,000,000 tokens on these weights reads code 9.2 times, law 5.0 times; with "
        "--target_tokens 1000000000 the weights count how little that teaches, --max_epochs caps "
        "it."
    )
    assert "--target_tokens" not in advice(1e9, epochs, by_matching=False, counted=False)
    counted = advice(None, epochs, by_matching=True, counted=True)
    assert counted.endswith("the weights count how little that teaches, --max_epochs caps it.")
    assert advice(1e9, {"web": 3.9}, by_matching=True, counted=False) == ""


def test_a_run_tells_its_lengths_in_text_and_page(tmp_path: Path) -> None:
    folder = write_matching(tmp_path / "run")
    assert "--target_tokens" not in report_text(folder)
    often = {"run_epochs": {**dict.fromkeys(NAMES, 0.5), "law": 6.0}}
    with_lengths(folder, [], **often)
    told = " ".join(report_text(folder).split())
    assert "reads law 6.0 times; with --target_tokens 15360" in told
    with_lengths(folder, lengths_of())
    text = report_text(folder)
    assert "with --target_tokens" not in text
    assert "0.460 (8.0 x)" in text
    record, looks = read_run(folder), domain_looks(NAMES)
    weights, epochs = (f(record, looks) for f in (length_weights_figure, length_epochs_figure))
    assert weights is not None
    assert epochs is not None
    lines = [trace for trace in weights.data if trace.mode == "lines+markers"]
    assert [trace.meta["told"] for trace in lines] == ["code", "web", "law", "prose"]
    assert list(lines[0].x) == [1e9, 1e10]
    assert len(weights.data) == 3 * len(NAMES)  # an interval a length, and the line
    assert list(epochs.data[0].y) == [0.5, 8.0]
    page = run_page(record)
    assert page["lengths"]
    assert page["lengths_table"].rows
    assert any("--target_tokens 10000000000" in line for _, line in page["commands"])
    other = read_run(write_search(tmp_path / "other"))
    assert length_weights_figure(other, looks) is None
    assert not run_page(other)["lengths_table"].rows
