"""The page's own forecasts are the package's; what one does with its sliders."""

from __future__ import annotations

import base64
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
from browser import dom, driven
from planted_laws import planted
from report_runs import HOSTILE, write_fit, write_search
from torch import Tensor
from torch.distributions import Dirichlet

from bydore_pyro.answer.explorer import explorer_of
from bydore_pyro.answer.fitting import Target, forecast_of
from bydore_pyro.answer.forecast import Forecast, RunLosses
from bydore_pyro.answer.question import Question
from bydore_pyro.errors import DataError
from bydore_pyro.files.run_folder import RunFolder
from bydore_pyro.law.goal import Goal
from bydore_pyro.mixture.weights_files import mixture_from
from bydore_pyro.report.explorer import (
    BY_HAND,
    NO_LAW,
    Explored,
    coded,
    explored,
    explorer_words,
    script,
    script_hash,
    without_law,
)
from bydore_pyro.report.page import html_report
from bydore_pyro.report.run import read_run
from bydore_pyro.setup.explorer import EXPLORER

UNIT = "bits per byte"


def names_of(count: int) -> tuple[str, ...]:
    return tuple(f"d{k}" for k in range(count))


@cache
def planted_forecast(
    count: int, others: int = 0, targets: int = 2, known: bool = False
) -> Forecast:
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
    natural = torch.arange(1, count + 1).double()
    references = {
        "uniform": torch.ones(count).double() / count,
        "natural": natural / natural.sum(),
    }
    usual: dict[str, Any] = {"references": references, "baseline": "natural", "goal": Goal()}
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
    page, numbers = explorer_of(asked, weights, forecast, sizes=sizes, tokens=1e6, **given)
    RunFolder(run, resume=True).write_tensors(EXPLORER, numbers, page)
    path = run / "report.html"
    path.write_text(html_report(run), encoding="utf-8")
    return path


def mixtures(count: int, number: int = 10) -> Tensor:
    with torch.random.fork_rng():
        torch.manual_seed(2)
        return Dirichlet(torch.full((count,), 0.5)).sample((number,)).double()


# What a reader does and sees.
READ = """
const all = (what) => [...document.querySelectorAll(what)];
const one = (what) => document.querySelector(what);
const row = (name) => all("[data-domain]").find((each) => each.dataset.domain === name);
const set = (input, value, kinds) => {
    input.value = value;
    for (const kind of kinds) input.dispatchEvent(new Event(kind));
};
const slider = (name) => row(name).querySelector("[type=range]");
const slide = (name, share) => set(slider(name), share ** 0.5, ["input", "change"]);
const lock = (name) => row(name).querySelector("[type=checkbox]").click();
const press = (mixture) => one(`[data-mixture="${mixture}"]`).click();
const go = (address) => {
    location.hash = address;
    dispatchEvent(new HashChangeEvent("hashchange"));
};
const shown = () => Object.fromEntries(all("[data-text]").map((each) =>
    [each.dataset.text, [...each.querySelectorAll("data")].map((cell) => Number(cell.value))]));
const said = () => one(".said").textContent;
const warned = () => one(".warnings").textContent;
// What would be downloaded.
const file = () => {
    let text = null;
    const [Own, click] = [Blob, HTMLAnchorElement.prototype.click];
    window.Blob = class extends Own {
        constructor(parts, given) {
            super(parts, given);
            text = parts[0];
        }
    };
    HTMLAnchorElement.prototype.click = () => {};
    one("[data-move=download]").click();
    [window.Blob, HTMLAnchorElement.prototype.click] = [Own, click];
    return text;
};
const weights = () => JSON.parse(file()).weights;
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
    found = act(
        page, f"return {json.dumps(addresses)}.map((each) => {{ go(each); return shown(); }});"
    )
    forecast = replace(forecast, worst=worst)
    for row, own in zip(rows, found, strict=True):
        assert_same(own, shown_of(forecast, row, asked.references["natural"]))


def small(folder: Path, **given: Any) -> tuple[Path, Forecast, Question]:
    forecast = planted_forecast(3)
    goal = {name: given.pop(name) for name in ("at_least", "at_most") if name in given}
    asked = question(3, goal=Goal(**goal))
    return page_of(folder / "run", asked, forecast, **given), forecast, asked


def test_a_slider_takes_the_others_along_but_for_those_that_are_locked(tmp_path: Path) -> None:
    page, _, _ = small(tmp_path)
    found = act(
        page,
        """
        press("uniform");
        slide("d0", 0.5);
        const first = weights();
        lock("d1");
        slide("d0", 0.7);
        const locked = weights();
        slide("d0", 0.9);
        const most = weights();
        slide("d0", 0);
        const none = weights();
        slide("d0", 0.25);
        lock("d0");
        lock("d2");
        slide("d2", 1);
        return [first, locked, most, none, weights(), said()];
        """,
    )
    *moved, told = found
    for own, expected in zip(
        moved,
        [(0.5, 0.25, 0.25), (0.7, 0.25, 0.05), (0.75, 0.25, 0), (0, 0.25, 0.75), (0.25, 0.25, 0.5)],
        strict=True,
    ):
        np.testing.assert_allclose([own[f"d{k}"] for k in range(3)], expected, atol=1e-9)
    assert told == "d2 is locked."


def test_a_reader_comes_back_to_a_mixture_of_ones_own(tmp_path: Path) -> None:
    page, _, asked = small(tmp_path)
    found = act(
        page,
        """
        const disabled = one("[data-mixture=mine]").disabled;
        const answer = weights();
        slide("d0", 0.2);
        const own = weights();
        press("natural");
        const natural = weights();
        const pressed = all("[aria-pressed=true]").map((each) => each.textContent);
        press("mine");
        const again = weights();
        press("the answer");
        return [disabled, own, natural, pressed, again, answer, weights()];
        """,
    )
    disabled, own, natural, pressed, again, first, last = found
    assert disabled
    assert own == again != natural
    assert [*natural.values()] == pytest.approx(asked.references["natural"].tolist())
    assert pressed == ["natural"]
    answer = mixture_from(str(page.parent)).as_dict()
    assert first == last == pytest.approx(answer)


def test_the_address_holds_the_mixture(tmp_path: Path) -> None:
    page, _, _ = small(tmp_path)
    body = "slide('d2', 0.123456); return [location.hash, weights(), shown()];"
    address, weights, table = act(page, body)
    assert address.startswith("#d0=")
    again, read = act(page, "return [weights(), shown()];", address)
    assert again == pytest.approx(weights, abs=1e-6)
    for text, values in table.items():
        assert read[text] == pytest.approx(values, abs=1e-5)
    body = "return [weights(), said()];"
    weights, told = act(page, body, "#d1=0.3,d0=.3,other=.2,d2=much,%E0%A4%A")
    assert weights == {"d0": 0.5, "d1": 0.5, "d2": 0}
    assert told == (
        "The address names 3 that are no weight of a domain here: other=.2, d2=much, %E0%A4%A. "
        "The others count."
    )
    _, told = act(page, body, "#d1=0.3,d0=0.1")
    assert told == "The weights of the address sum to 0.4; they count in proportion."
    weights, told = act(page, body, "#d1=-1")
    assert weights == pytest.approx(mixture_from(str(page.parent)).as_dict())
    assert told.endswith("None is left.")


def test_epochs_are_those_of_the_length_that_is_typed_in(tmp_path: Path) -> None:
    page, _, _ = small(tmp_path, sizes={"d0": 1e6, "d1": 2e5})
    found = act(
        page,
        """
        const epochs = () => all(".epochs").map((each) => each.textContent);
        const length = one("[type=text]");
        go("d0=.5,d1=.25,d2=.25");
        const first = [length.value, epochs(), warned()];
        set(length, "4M", ["input"]);
        const longer = [epochs(), warned()];
        set(length, "4 m", ["input"]);
        const small = epochs();
        set(length, "four", ["input"]);
        return [first, longer, small, epochs(), length.classList.contains("wrong")];
        """,
    )
    first, longer, small_letter, none, wrong = found
    unknown = "The size of 1 domain is not known: no epochs."
    assert first == ["1M", ["0.50", "1.25", ""], unknown]
    assert longer == [["2.00", "5.00", ""], f"Read more than 4 times: d1 5.00.{unknown}"]
    assert small_letter == longer[0]
    assert none == ["", "", ""]
    assert wrong


def test_broken_bounds_are_named(tmp_path: Path) -> None:
    bounds = {"at_least": [0.1, 0.0, 0.0], "at_most": [1.0, 0.4, 1.0]}
    page, _, _ = small(
        tmp_path, **{n: torch.tensor(b, dtype=torch.double) for n, b in bounds.items()}
    )
    found = act(
        page,
        """
        go("d0=.1,d1=.4,d2=.5");
        const none = warned();
        go("d0=.05,d1=.45,d2=.5");
        return [none, warned(), all(".row.broken").map((each) => each.dataset.domain)];
        """,
    )
    assert "Bounds" not in found[0]
    assert found[1].startswith(
        "Bounds are broken: d0 has 5.0 %, at least 10 % was asked for, "
        "d1 has 45 %, at most 40 % was asked for."
    )
    assert found[2] == ["d0", "d1"]


def test_what_lies_beyond_the_runs_is_named(tmp_path: Path) -> None:
    page, forecast, _ = small(tmp_path)
    body = """
    const far = () => all("[data-text]").filter((each) => each.querySelector(".beyond").textContent)
        .map((each) => each.dataset.text);
    return %s.map((each) => { go(each); return [warned(), far()]; });
    """
    law = forecast.draws
    measured = law.ratio(law.runs.amounts_of(forecast.known.tokens)).mean(0)
    rows = torch.tensor([[1.0, 0, 0], [0, 0, 1], [0.3, 0.3, 0.4], [0, 1, 0]]).double()
    addresses = [",".join(f"d{k}={w}" for k, w in enumerate(row)) for row in rows.tolist()]
    given = law.ratio(law.runs.amounts_of(forecast.length * rows)).mean(0)
    beyond = (given > 2 * measured.amax(0)) | (2 * given < measured.amin(0))
    assert beyond.any()
    assert not beyond.all()
    for (told, far), own in zip(act(page, body % json.dumps(addresses)), beyond, strict=True):
        names = [f"d{k}" for k in range(3) if own[k]]
        assert bool(names) == ("Beyond what was measured" in told) == bool(far)
        assert all(name in told for name in names)


def smallest(forecast: Forecast, start: Tensor, limits: Mapping[str, float]) -> np.ndarray:
    """The nearest mixture on which targets lose at most so much, by another library."""
    from scipy.optimize import minimize

    places = [[*forecast.importance].index(name) for name in limits]

    def room(weights: np.ndarray) -> np.ndarray:
        losses = forecast.losses(torch.from_numpy(weights)[None]).mean((0, 1))
        return np.array([*limits.values()]) - losses[places].numpy()

    at = start.numpy()
    return minimize(
        lambda w: ((w - at) ** 2 / at).sum(),
        at,
        bounds=[(1e-9, 1.0)] * len(at),
        constraints=[
            {"type": "eq", "fun": lambda w: w.sum() - 1},
            {"type": "ineq", "fun": room},
        ],
        options={"ftol": 1e-12, "maxiter": 500},
    ).x


@pytest.mark.parametrize("count", [3, 13])
def test_lower_is_the_smallest_step_that_does(count: int, tmp_path: Path) -> None:
    forecast, asked = planted_forecast(count), question(count)
    page = page_of(tmp_path / "run", asked, forecast)
    uniform, natural = asked.references["uniform"], asked.references["natural"]
    before = {name: one.loss for name, one in forecast.expected(uniform).items()}
    held = {name: one.loss for name, one in forecast.expected(natural).items()}
    found = act(
        page,
        """
        press("uniform");
        one("[data-lower=quiz]").click();
        const lower = [weights(), said()];
        press("uniform");
        one("[data-text=text] [type=checkbox]").click();
        one("[data-lower=quiz]").click();
        const both = [weights(), said()];
        press("uniform");
        one("[data-move=no-worse]").click();
        return [lower, both, [weights(), said()]];
        """,
    )
    by = {3: 0.01, 13: 0.005}[count]  # the largest of those that it tries that any mixture reaches
    loss = before["quiz"]
    wanted = (
        {"quiz": loss - by},
        {"quiz": loss - by, "text": held["text"]},
        {"text": held["text"]},
    )
    for (weights, told), limits in zip(found, wanted, strict=True):
        own = torch.tensor([*weights.values()], dtype=torch.double)
        losses = forecast.losses(own[None]).mean((0, 1))
        for place, name in enumerate(forecast.importance):
            assert float(losses[place]) < limits.get(name, np.inf) + 1e-5, told
        best = smallest(forecast, uniform, limits)
        np.testing.assert_allclose(own, best, atol=1e-3)
        start = uniform.numpy()
        lengths = [((one - start) ** 2 / start).sum() for one in (own.numpy(), best)]
        assert lengths[0] == pytest.approx(lengths[1], rel=0.01, abs=1e-9)
    assert found[0][1] == f"quiz: lower by {by} {UNIT}."
    assert found[1][1] == f"quiz: lower by {by} {UNIT} and the ticked no worse than on natural."
    assert found[2][1] == "The ticked targets are no worse than on natural."


def test_a_step_leaves_locks_and_bounds_or_says_that_there_is_none(tmp_path: Path) -> None:
    page, _, _ = small(tmp_path, at_most=torch.tensor([1.0, 0.34, 1.0]).double())
    found = act(
        page,
        """
        press("uniform");
        lock("d0");
        one("[data-lower=quiz]").click();
        const first = [weights(), said()];
        lock("d1");
        press("uniform");
        one("[data-lower=quiz]").click();
        const second = [weights(), said()];
        one("[data-move=no-worse]").click();
        return [first, second, said()];
        """,
    )
    (first, _), (second, told), none = found
    assert first["d0"] == pytest.approx(1 / 3)
    assert first["d1"] <= 0.34 + 1e-9
    assert second == pytest.approx(dict.fromkeys(second, 1 / 3))
    assert told == f"Found no step that lowers quiz by 0.001 {UNIT}."
    assert none == "Tick the targets that shall be no worse than on natural."


def test_the_mixture_that_is_shown_is_read_as_any_other(tmp_path: Path) -> None:
    pools = {"d1": {"small": 0.25, "tiny/one": 0.75}}
    page = page_of(tmp_path / "run", question(3, pools=pools), planted_forecast(3))
    text = act(page, "go('d0=.5,d1=.4,d2=.1'); return file();")
    path = tmp_path / "mixture.json"
    path.write_text(text)
    found = mixture_from(str(path))
    own = {"d0": 0.5, "small": 0.1, "tiny/one": 0.3, "d2": 0.1}
    assert found.as_dict() == pytest.approx(own)
    run = mixture_from(str(page.parent))
    assert (found.tokenizer, found.data_sha256) == (run.tokenizer, run.data_sha256)
    assert found.hdi is found.standard_deviation is found.free_weights is None
    assert found.notes == (*run.notes, BY_HAND)


def test_without_a_law_the_composition_is_shown_with_the_reason(tmp_path: Path) -> None:
    runs = {"searched": page_of(tmp_path / "run", question(3), None, reason="No reason.")}
    fit = write_fit(tmp_path / "fit")
    (fit / "report.html").write_text(html_report(fit), encoding="utf-8")
    runs["fitted"] = fit / "report.html"
    for page, reason in zip(runs.values(), ("No reason.", NO_LAW), strict=True):
        name = next(iter(mixture_from(str(page.parent)).names))
        body = f"slide('{name}', 0.5); return [weights(), one('.reason').textContent];"
        weights, told = act(page, body)
        assert weights[name] == pytest.approx(0.5)
        assert told == f"No losses are forecast. {reason}"


def test_names_cannot_do_anything(tmp_path: Path) -> None:
    names = (*HOSTILE, "__proto__", "constructor", "10", "2", "a=b,c")
    count = len(names)
    forecast = replace(planted_forecast(count), names=names)
    hostile = dict(zip(("__proto__", HOSTILE[0]), (0.5, 0.5), strict=True))
    units = dict(zip(hostile, ("nats", UNIT), strict=True))
    forecast = replace(forecast, importance=hostile, units=units)
    page = page_of(tmp_path / "run", question(count, names), forecast)
    share = 1 / count
    address = "#" + ",".join(f"{quote(name, safe='')}={share!r}" for name in names)
    body = (
        "return [window.hacked ?? null, file(), said(), location.hash, all('[data-text]').length];"
    )
    hacked, text, told, _, texts = act(page, body, address)
    assert hacked is None
    assert texts == 3
    assert told == ""
    path = tmp_path / "mixture.json"
    path.write_text(text)
    assert mixture_from(str(path)).as_dict() == pytest.approx(dict.fromkeys(names, share))


def test_no_script_runs_but_the_pages_own(tmp_path: Path) -> None:
    page, _, _ = small(tmp_path)
    text = page.read_text(encoding="utf-8")
    added = "<script>document.body.append('another ran')</script></body>"
    page.write_text(text.replace("</body>", added), encoding="utf-8")
    found = dom(page)
    assert 'data-domain="d0"' in found
    assert "another ran" not in found.replace(added.removesuffix("</body>"), "")
    assert found.count("another ran") == 1


def test_many_domains_fold_by_folder_and_can_be_searched(tmp_path: Path) -> None:
    names = [f"{group}/topic-{k}" for group in ("web", "code") for k in range(30)]
    names += ["lonely", "alone"]
    page = page_of(tmp_path / "run", question(len(names), names), None, reason="-")
    found = act(
        page,
        """
        const groups = all("[data-group]").map((each) => each.dataset.group);
        const before = all("[data-domain]").length;
        go("web/topic-0=.6,code/topic-0=.3,alone=.1");
        set(one('[data-group="web"] [type=range]'), 0.8 ** (1 / 3), ["input"]);
        const moved = weights();
        set(one("[type=search]"), "Topic-2", ["input"]);
        const matches = all("[data-domain]").map((each) => each.dataset.domain);
        return [groups, before, moved, matches, one(".domains p").textContent];
        """,
    )
    groups, before, moved, matches, told = found
    assert groups == ["web", "code", "other domains"]
    assert before == 0, "rows are made when they are looked at"
    assert {name: share for name, share in moved.items() if share} == pytest.approx(
        {"web/topic-0": 0.8, "code/topic-0": 0.15, "alone": 0.05}
    )
    assert matches == [name for name in names if "topic-2" in name][:20]
    assert told == "20 of 22 matches"


@pytest.mark.slow
def test_a_thousand_domains_answer_at_once(tmp_path: Path) -> None:
    page = page_of(tmp_path / "run", question(1000), planted_forecast(1000))
    body = """
    const times = [];
    for (let n = 0; n < 30; n++) {
        const begun = performance.now();
        set(slider("d0"), 0.3 + n / 100, ["input"]);
        times.push(performance.now() - begun);
    }
    return times.sort((one, other) => one - other)[15];
    """
    assert act(page, body) < 50


def test_of_many_numbers_some_draws_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, _, _ = small(tmp_path)
    assert "draws" not in page.read_text(encoding="utf-8").split("<script")[0].lower()
    monkeypatch.setattr("bydore_pyro.answer.explorer.MOST_NUMBERS", 2_000)
    page, _, _ = small(tmp_path / "few")
    record = read_run(page.parent)
    law = explored(record).content["law"]
    assert 0 < law["left_out"] < law["draws"]
    kept = law["draws"] - law["left_out"]
    assert f"The page holds {kept} of the law" in page.read_text(encoding="utf-8")
    assert act(page, "return shown();").keys() == {"text", "quiz", "all targets"}


def test_a_page_has_the_numbers_bit_for_bit() -> None:
    values = np.array([[1.5, -0.0], [np.float32(0.1), 3e-39]], dtype=np.float32)
    read = np.frombuffer(base64.b64decode(coded(values)), "<f4")
    assert read.tobytes() == values.tobytes()
    assert script_hash().startswith("sha256-")
    assert "forecastOf" in script()
    assert "</" not in script(), "it would end the element that holds it"


def test_what_stands_by_name_is_in_one_order(tmp_path: Path) -> None:
    forecast = planted_forecast(3)
    pools = {"d1": {"10": 0.25, "2": 0.75}}
    page = page_of(tmp_path / "run", question(3, pools=pools), forecast, {"d2": 5.0, "d0": 3.0})
    record = read_run(page.parent)
    found = explored(record)
    assert isinstance(found, Explored)
    assert found.content["names"] == ["d0", "d1", "d2"]
    assert found.content["sizes"] == [3.0, None, 5.0]
    assert found.content["leaves"][1] == [("10", 0.25), ("2", 0.75)]
    assert [name for name, _ in found.content["mixtures"]] == ["uniform", "natural", "the answer"]
    assert found.content["law"]["targets"] == ["text", "quiz"]
    assert found.content["law"]["units"] == ["nats per token", UNIT]
    assert "after 1 M tokens" in explorer_words(record)


def test_a_law_of_other_domains_is_refused(tmp_path: Path) -> None:
    page, _, _ = small(tmp_path)
    write_search(page.parent, ("d0", "d1", "other"))
    told = r"Expected explorer.safetensors of the domains of mixture.json in .*run, found other"
    with pytest.raises(DataError, match=told):
        html_report(page.parent)


def test_without_a_law_sizes_are_those_of_the_text(tmp_path: Path) -> None:
    record = read_run(write_fit(tmp_path / "run"))
    assert [*without_law(record).references] == ["uniform"]
    text = {"code": {"tokens": 10, "in_all": {"tokens": 300}}, "law": {"tokens": 100}}
    sizes = {**text, "prose": {"tokens": 100}, "web": {"tokens": 500}}
    index = {"domains": {name: {"train": train} for name, train in sizes.items()}}
    found = without_law(replace(record, index=index))
    assert found.sizes == {"code": 300, "law": 100, "prose": 100, "web": 500}
    assert found.references["natural"] == {"code": 0.3, "law": 0.1, "prose": 0.1, "web": 0.5}
    assert found.reason == NO_LAW
    assert "94 %" not in explorer_words(record)


def test_a_fit_by_a_search_has_the_searchs_law(tmp_path: Path) -> None:
    page, _, _ = small(tmp_path)
    run = page.parent
    (run / "search").mkdir()
    (run / EXPLORER).rename(run / "search" / EXPLORER)
    assert explored(read_run(run)).content["law"]["targets"] == ["text", "quiz"]
