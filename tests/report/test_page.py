"""The page on a run: it says what the text says, and no name breaks out of it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import ClassVar

import pytest
from report_runs import (
    HOSTILE,
    outlook_of,
    write_json,
    write_matching,
    write_search,
)

from bydore_pyro.files.run_folder import RunFolder
from bydore_pyro.report.explorer import script_hash
from bydore_pyro.report.page import add_html_report, html_report
from bydore_pyro.report.run import read_run
from bydore_pyro.report.text import report_text
from bydore_pyro.report.verdicts import verdicts_of


@pytest.fixture(autouse=True)
def _quick_searches() -> None:
    """Pages have their pictures here."""


class Page(HTMLParser):
    """Reads a page: its tags and texts; what is not closed is told."""

    VOID: ClassVar = {"meta", "link", "br", "line", "img"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.texts.append(data)

    def attributes(self, name: str) -> list[str]:
        return [attrs[name] or "" for _, attrs in self.tags if name in attrs]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def checked(text: str) -> Page:
    """Returns a page that is sound and loads nothing."""
    page = Page(text)
    assert page.open == []
    ids = page.attributes("id")
    assert len(set(ids)) == len(ids)
    assert not page.attributes("src")
    icon, *used = page.attributes("href")
    clips = [one.removeprefix("url(").removesuffix(")") for one in page.attributes("clip-path")]
    assert icon == "data:,"
    assert {*used, *clips} == {f"#{one}" for one in ids}
    assert not {tag for tag, _ in page.tags} & {"img", "a", "b"}
    scripts = [attrs for tag, attrs in page.tags if tag == "script"]
    assert scripts == [{"type": "application/json"}, {}]
    policy = next(one for one in page.attributes("content") if one.startswith("default-src"))
    assert policy.endswith(f"; script-src '{script_hash()}'")
    assert text.count("<script") == text.count("</script") == 2
    digest = hashlib.sha256(text.split("<script>")[1].split("</script>")[0].encode()).digest()
    assert script_hash() == f"sha256-{base64.b64encode(digest).decode()}"
    assert {name for _, attrs in page.tags for name in attrs if name.startswith("on")} == set()
    assert [tag for tag, _ in page.tags].count("h1") == 1
    return page


@pytest.mark.parametrize("write", [write_search, write_matching])
def test_page_and_text_give_the_same_verdicts(write: Callable[..., Path], tmp_path: Path) -> None:
    folder = write(tmp_path / "run")
    text, page = " ".join(report_text(folder).split()), checked(html_report(folder))
    found = verdicts_of(read_run(folder))
    assert found
    for verdict in found:
        told = f"{verdict.question} {verdict.answer}. {verdict.figures}"
        assert f"{verdict.level} {told}" in text
        assert told in page.text
    assert "bydore export" in page.text
    assert "In pictures the mouse" in page.text
    assert "In pictures" not in text


def test_an_answer_has_the_losses_of_a_given_mixture_too(tmp_path: Path) -> None:
    folder = write_matching(tmp_path / "answer")
    metrics = json.loads((folder / "metrics.json").read_text())
    metrics |= {"outlook": outlook_of(baseline="natural"), "measured_anew": ["web"]}
    write_json(folder / "metrics.json", metrics)
    write_json(folder / "forecast.json", outlook_of(better=(0.05, 0.05)))
    text, page = report_text(folder), checked(html_report(folder))
    assert text.index("the given mixture") < text.index("this mixture") < text.index("weight")
    for told in (" ".join(text.split()), page.text):
        assert "Is it better than uniform? Yes. Expected difference -0.200 nats per token" in told
        assert "Is it better than uniform? No." in told
        assert "the search did not know their text: web." in told
    assert [tag for tag, _ in page.tags].count("svg") == 4


def test_everything_but_the_weights_may_be_missing(tmp_path: Path) -> None:
    folder = write_search(tmp_path / "run")
    for path in folder.iterdir():
        if path.name != "mixture.json":
            path.unlink()
    assert "The mixture" in checked(html_report(folder)).text


def test_names_and_paths_are_harmless(tmp_path: Path) -> None:
    folder = write_search(tmp_path / "<img src=x onerror=alert(1)>", HOSTILE, verified=True)
    for run in (folder, write_matching(tmp_path / "'\"; rm -rf", HOSTILE)):
        text = html_report(run)
        page = checked(text)
        assert "window.hacked=1" in page.text
        assert "{{ 7 * 7 }}" in page.text
        for name in ("<script>window", "<svg onload", "<b>bold", "\u202e", "\x00"):
            assert name not in text
        assert [tag for tag, _ in page.tags].count("svg") == (2 if run == folder else 1)
        text.encode()
    assert "<img src=x onerror=alert(1)>" in checked(html_report(folder)).text


def test_a_page_lies_beside_the_run_and_its_want_ends_nothing(tmp_path: Path) -> None:
    folder = RunFolder(write_search(tmp_path / "run"), resume=True)
    assert add_html_report(folder) == f"In a browser: {tmp_path / 'run' / 'report.html'}"
    page = tmp_path / "run" / "report.html"
    assert "The mixture" in page.read_text(encoding="utf-8")
    # Of several processes one writes.
    page.unlink()
    add_html_report(RunFolder(tmp_path / "run", writes=False))
    assert not page.exists()
    (tmp_path / "run" / "metrics.json").write_text("damaged")
    assert add_html_report(folder).startswith("No report.html: DataError: Expected a valid record")
