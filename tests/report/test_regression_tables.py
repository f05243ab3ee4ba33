"""What a regression tells of itself as text."""

from __future__ import annotations

from bydore_pyro.report.regression_tables import columns, regression_parts


def test_columns_are_aligned_and_safe_for_a_terminal() -> None:
    lines = columns(("name", "loss"), [["a\x1b[1m", "1.5"], ["long name", "12"]]).splitlines()
    assert lines[0] == ""
    assert "\x1b" not in "".join(lines)
    assert len({len(line) for line in lines[1:]}) == 1


def test_only_what_is_known_is_told() -> None:
    assert regression_parts({}) == []
    rows = [
        {"mixture": f"m{i}", "rank": i + 1, "predicted": 1.0, "low": None, "high": None,
         "better_than_prior": None, "nearest_run": 0.1}
        for i in range(25)
    ]  # fmt: skip
    (told,) = regression_parts({"predictions": rows})
    assert "m19" in told
    assert "m20" not in told
    assert "5 more in predictions.csv" in told
    disagree = {
        "runs": 8, "spearman_x100": -50.0, "slope": -0.1,
        "weights": {"mean": 1.0, "interval": [0.5, 1.5]},
        "prior": {"mean": 1.0, "interval": [0.5, 1.5]}, "probability": 0.4,
    }  # fmt: skip
    (told,) = regression_parts({"scale_up": disagree})
    assert "the scales do not agree" in told
