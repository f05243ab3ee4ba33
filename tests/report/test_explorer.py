"""The page's own forecasts are the package's; what one does with its sliders."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
import torch
from browser import dom, driven, needs_browser
from planted_laws import planted
from report_runs import HOSTILE, write_fit, write_search
from torch import Tensor
from torch.distributions import Dirichlet

from bydore_pyro.answer.explorer import Explorer, explorer_of
from bydore_pyro.answer.forecast import Forecast, RunLosses, Target, forecast_of
from bydore_pyro.answer.question import Question
from bydore_pyro.files.run_folder import RunFolder
from bydore_pyro.law.goal import Goal
from bydore_pyro.mixture.weights_files import mixture_from
from bydore_pyro.report.explorer import BY_HAND, NO_LAW, explored
from bydore_pyro.report.page import html_report
from bydore_pyro.report.run import read_run
from bydore_pyro.setup.explorer import EXPLORER

pytestmark = needs_browser
UNIT = "bits per byte"


def names_of(count: int) -> tuple[str, ...]:
    return tuple(f"d{k}" for k in range(count))


@cache
def planted_forecast(count: int, others: int = 0, targets: int = 2, known: bool = False) -> Forecast:
    """A forecast of K domains, from three runs that trained on others too: of text that is made of
    them, and of tasks, that are in part unexplained."""
    tokens, losses, cross = planted(count + others, 3)
    losses = losses[:, :count]
    with torch.random.fork_rng():
        torch.manual_seed(1)
        made = Dirichlet(torch.ones(targets, count)).sample((1 if known else 50,)).double()
    made = made * torch.tensor([1.0, 1.4])[:targets, None]
    of_targets = losses[:3] @ made.mean(0).T + 0.3
    parts: dict[str, Target] = {
        "text": Target(importance=0.5, compositions=made[:, 0]),
        "quiz": Target(
            importance=0.5,
            compositions=made[:, -1],
            unexplained=0.3,
            unit=UNIT,
            per_nat=1.4,
        ),
    }
    if targets == 1:
        parts = {"quiz": replace(parts["quiz"], importance=1.0)}
    runs = RunLosses(
        tokens=1e6 * tokens, losses=losses, transfer=cross[:count], of_targets=of_targets
    )
    return forecast_of(names_of(count), runs, parts)


def question(count: int, names: Sequence[str] = (), **given: Any) -> Question:
    natural = torch.arange(1.0, count + 1).double()
    references = {
        "uniform": torch.full((count,), 1 / count).double(),
        "natural": natural / natural.sum(),
    }
    usual: dict[str, Any] = {"references": references, "goal": Goal()}
    return Question(
        names=tuple(names) or names_of(count), tokenizer="t", data_sha256="d", **usual | given
    )


def page_of(
    folder: Path,
    asked: Question,
    forecast: Forecast | None,
    sizes: Mapping[str, float] | None = None,
    **given: Any,
) -> Path:
    """Writes a run's folder and its page; the answer has the largest weight first."""
    leaves = [leaf for name in asked.names for leaf in asked.pools.get(name, {name: 1.0})]
    run = write_search(folder, leaves)
    weights = torch.tensor(read_run(run).mixture.weights).double()
    if len(leaves) > len(asked.names):
        weights = torch.full((len(asked.names),), 1 / len(asked.names)).double()
    page, numbers = explorer_of(
        asked, weights, forecast, baseline="natural", sizes=sizes, tokens=1e6, **given
    )
    RunFolder(run, resume=True).write_tensors(EXPLORER, numbers, page)
    path = run / "report.html"
    path.write_text(html_report(run), encoding="utf-8")
    return path


def mixtures(count: int, number: int = 10) -> Tensor:
    with torch.random.fork_rng():
        torch.manual_seed(2)
        return Dirichlet(torch.full((count,), 0.5)).sample((number,)).double()


# What a reader does: types weights, whatever was there before, and reads the table.
READ = """
const set = (input, value, kind) => { input.value = value; input.dispatchEvent(new Event(kind)); };
const shown = () => Object.fromEntries([...document.querySelectorAll("[data-text]")].map((row) =>
    [row.dataset.text, [...row.querySelectorAll("data")].map((one) => Number(one.value))]));
const weights = () => Object.fromEntries([...document.querySelectorAll("[data-domain]")].map((row) =>
    [row.dataset.domain, Number(row.querySelector("[type=number]").value) / 100]));
const button = (name) => document.querySelector(`[data-mixture="${name}"]`);
const rowOf = (name) => document.querySelector(`[data-domain="${name}"]`);
const said = () => document.querySelector(".said").textContent;
const warned = () => document.querySelector(".warnings").textContent;
"""


def act(page: Path, body: str, address: str = "") -> Any:
    return driven(page, f"() => {{ {READ} {body} }}", address)


def shown_of(forecast: Forecast, mixture: Tensor, other: Tensor) -> dict[str, list[float]]:
    """What the table shows of a mixture: of the loss and of the difference mean, low and high."""
    texts = [*forecast.importance, *forecast.texts[len(forecast.importance) + len(mixture) :]]
    expected, apart = forecast.expected(mixture), forecast.difference(mixture, other)
    return {
        text: [one.loss, one.low, one.high, two.loss, two.low, two.high]
        for text in texts
        for one, two in [(expected[text], apart[text])]
    }


def assert_same(found: Mapping[str, list[float]], expected: Mapping[str, list[float]]) -> None:
    assert found.keys() == expected.keys()
    for text, values in expected.items():
        np.testing.assert_allclose(found[text], values, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("count", "worst", "given"),
    [
        (3, False, {}),
        (3, True, {"others": 2}),
        (3, False, {"known": True, "targets": 1}),
        (13, False, {}),
        pytest.param(1000, False, {}, marks=pytest.mark.slow),
    ],
)
def test_the_page_forecasts_what_the_package_does(
    count: int, worst: bool, given: dict[str, Any], tmp_path: Path
) -> None:
    forecast = planted_forecast(count, **given)
    asked = question(count, goal=Goal(objective="worst") if worst else Goal())
    page = page_of(tmp_path / "run", asked, forecast)
    rows = mixtures(count)
    addresses = [
        ",".join(f"{name}={share!r}" for name, share in zip(asked.names, row, strict=True))
        for row in rows.tolist()
    ]
    # As a reader who opens ten links.
    body = f"""
    return {json.dumps(addresses)}.map((address) => {{
        location.hash = address;
        dispatchEvent(new HashChangeEvent("hashchange"));
        return shown();
    }});
    """
    found = act(page, body)
    forecast = replace(forecast, worst=worst)
    for row, own in zip(rows, found, strict=True):
        assert_same(own, shown_of(forecast, row, asked.references["natural"]))
