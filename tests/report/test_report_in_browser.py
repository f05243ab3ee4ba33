"""The HTML report in a real browser, headless, from disk: it loads, it answers, nothing overflows.

Needs Playwright, and Chromium as Debian packages it (`apt install chromium`).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from report_runs import HOSTILE, write_fit, write_matching, write_search, write_seeds

from bydore_pyro.report.page import html_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
PHONE, DESKTOP = 390, 1440
# Where a domain's line is at a step, in the window's pixels, scrolled to.
PLACE = """([figure, key, step]) => {
    const element = document.querySelector(`[data-figure=figure-${figure}]`);
    element.scrollIntoView({block: "center"});
    const {xaxis, yaxis} = element._fullLayout, box = element.getBoundingClientRect();
    const line = element.data.find((t) => t.mode === "lines" && t.meta.keys?.includes(key));
    return [box.x + xaxis._offset + xaxis.l2p(line.x[step]),
            box.y + yaxis._offset + yaxis.l2p(line.y[step])];
}"""
# What is as opaque as at first, by its keys.
LIT = """(figure) => document.querySelector(`[data-figure=figure-${figure}]`).data
    .filter((t) => t.meta.keys?.length && (t.opacity ?? 1) === 1).map((t) => t.meta.keys)"""
# What reaches beyond the window, but for what scrolls in a box of its own.
BEYOND = """() => {
    const wide = document.documentElement.scrollWidth > innerWidth ? ["the page"] : [];
    for (const element of document.querySelectorAll("body *")) {
        if (element.closest(".scroll, pre, svg, .chips bdi, .js-plotly-plot")) continue;
        const box = element.getBoundingClientRect();
        if (box.right > innerWidth + 1 || box.left < -1) wide.push(element.outerHTML.slice(0, 80));
    }
    for (const element of document.querySelectorAll(".scroll, pre, .main-svg")) {
        const box = element.getBoundingClientRect();
        if (box.right > innerWidth + 1) wide.push(element.outerHTML.slice(0, 80));
    }
    return wide;
}"""
DRAWN = """!document.querySelector(".canvas")
    || document.documentElement.dataset.figures === "drawn\""""
RESIZED = """() => [...document.querySelectorAll(".js-plotly-plot")].every(
    (figure) => Math.abs(figure._fullLayout.width - figure.clientWidth) < 2)"""
# Words of a figure that are cut off at its edge.
CUT = """() => [...document.querySelectorAll(".js-plotly-plot")].flatMap((figure) => {
    const frame = figure.getBoundingClientRect();
    return [...figure.querySelectorAll(".main-svg text")].filter((word) => {
        const box = word.getBoundingClientRect();
        return box.width && (box.left < frame.left - 1 || box.right > frame.right + 1);
    }).map((word) => word.textContent);
})"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: apt install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reports by kind."""
    folder = tmp_path_factory.mktemp("runs")
    hostile = folder / "<img src=x onerror=window.hacked=1>"
    runs = {
        "case": [write_search(folder / "case", verified=True)],
        "hostile": [write_search(hostile, HOSTILE, verified=True)],
        "matching": [write_matching(folder / "<b>matching</b>", HOSTILE)],
        "fit": [write_fit(folder / "fit", "doremi")],
        "seeds": [write_seeds(folder / "seeds", 3)],
    }
    runs["several"] = [*runs["case"], *runs["fit"], *runs["hostile"], *runs["seeds"]]
    for name, folders in runs.items():
        (folder / f"{name}.html").write_text(html_report(folders), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in runs}


@pytest.fixture(scope="module")
def heard() -> dict[str, list[str]]:
    """What pages have said and asked for."""
    return {"said": [], "asked": []}


@pytest.fixture(scope="module")
def open_page(
    browser: Browser, pages: dict[str, Path], heard: dict[str, list[str]]
) -> Callable[[str], Page]:
    """Opens a report; each once, as it takes a second or two."""

    @cache
    def open_page(name: str) -> Page:
        page = browser.new_context(viewport={"width": DESKTOP, "height": 844}).new_page()
        page.on("console", lambda message: heard["said"].append(message.text))
        page.on("pageerror", lambda error: heard["said"].append(str(error)))
        page.on("dialog", lambda dialog: heard["said"].append(dialog.message))
        page.on("request", lambda request: heard["asked"].append(request.url))
        page.goto(pages[name].as_uri())
        page.wait_for_function(DRAWN)
        return page

    return open_page


@pytest.fixture
def opened(
    open_page: Callable[[str], Page], heard: dict[str, list[str]]
) -> Iterator[Callable[..., Page]]:
    """Opens reports; at the end there must have been no error and no request."""
    yield open_page
    assert heard["said"] == []
    assert all(url.startswith("file:") and url.endswith(".html") for url in heard["asked"])


@pytest.mark.parametrize("name", ["case", "hostile", "matching", "fit", "seeds", "several"])
def test_it_loads_and_nothing_overflows(opened: Callable[..., Page], name: str) -> None:
    page = opened(name)
    for element in page.query_selector_all("details"):
        element.evaluate("e => { e.open = true; }")
    figures = page.query_selector_all(".canvas")
    assert bool(figures) == (name not in ("seeds", "several"))
    assert all(figure.query_selector(".main-svg") for figure in figures)
    for width in (DESKTOP, PHONE):
        page.set_viewport_size({"width": width, "height": 844})
        page.wait_for_function(RESIZED)
        assert page.evaluate(BEYOND) == []
        assert page.evaluate(CUT) == []
    page.set_viewport_size({"width": DESKTOP, "height": 844})
    assert page.evaluate("window.hacked") is None


def test_a_domain_of_the_table_is_singled_out_everywhere(opened: Callable[..., Page]) -> None:
    page = opened("case")
    row = page.locator("tr[data-key]", has_text="law")
    row.get_by_role("button").click()
    key = row.get_attribute("data-key")
    for figure in ("weights", "trajectory", "losses"):
        assert {tuple(keys) for keys in page.evaluate(LIT, figure)} == {(key,)}
    assert "chosen" in (row.get_attribute("class") or "").split()
    assert page.locator("tr.faded").count() == 3
    assert page.locator(f".chips [data-key={key}]").get_attribute("aria-pressed") == "true"
    assert page.locator("#chosen span").inner_text().startswith("law: weight 0.2757")
    band = "document.querySelector('[data-figure=figure-trajectory]').data.at(-1).x.length"
    assert page.evaluate(band) == 120  # there and back
    page.keyboard.press("Escape")
    assert not page.locator("#chosen").is_visible()
    assert page.locator("tr.faded").count() == page.evaluate(band) == 0
    assert len(page.evaluate(LIT, "losses")) == 4


def test_names_are_shown_as_they_are(opened: Callable[..., Page]) -> None:
    page = opened("hostile")
    names = page.locator("tr[data-key] th").all_inner_texts()
    assert "</script><script>window.hacked=1</script>" in names
    assert '<img src=x onerror="window.hacked=1">' in names
    assert "%{x} $x^2$ <b>bold</b> &amp; {{ 7 * 7 }}" in names
    ticks = page.locator("[data-figure=figure-weights] .ytick text").all_text_contents()
    assert "</script><script>…" in ticks
    key = page.locator("tr[data-key]", has_text="%{x}").get_attribute("data-key")
    page.mouse.move(*page.evaluate(PLACE, ["trajectory", key, 50]))
    hover = page.locator(".hoverlayer .hovertext")
    hover.wait_for()
    assert "%{x} $x^2$ <b>bold</b> &amp; {{ 7 * 7 }}" in (hover.text_content() or "")
    assert page.title() == "<img src=x onerror=window.hacked=1>: weights of 8 domains"
    assert page.evaluate("window.hacked") is None


def test_without_scripts_the_tables_tell_everything(
    browser: Browser, pages: dict[str, Path]
) -> None:
    page = browser.new_page(java_script_enabled=False)
    page.goto(pages["case"].as_uri())
    assert page.get_by_text("The page's script draws this figure").first.is_visible()
    assert page.get_by_text("0.306 to 0.689").first.is_visible()
    page.close()
