"""A report as text and as a page: the same in both, and no name breaks out of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import ClassVar

import pytest
from report_runs import (
    HOSTILE,
    outlook_of,
    write_fit,
    write_json,
    write_matching,
    write_search,
    write_seeds,
)

from bydore_pyro.errors import RunFolderError
from bydore_pyro.files.run_folder import RunFolder
from bydore_pyro.report.page import (
    Section,
    add_html_report,
    comparison_sections,
    comparison_text,
    html_report,
    report_text,
    run_sections,
)
from bydore_pyro.report.run import read_run
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
    assert not {tag for tag, _ in page.tags} & {"script", "img", "a", "b"}
    assert {name for _, attrs in page.tags for name in attrs if name.startswith("on")} == set()
    assert [tag for tag, _ in page.tags].count("h1") == 1
    return page


@pytest.mark.parametrize("write", [write_search, write_matching])
def test_page_and_text_tell_the_same_verdicts(write: Callable[..., Path], tmp_path: Path) -> None:
    folder = write(tmp_path / "run")
    text, page = " ".join(report_text(folder).split()), checked(html_report([folder]))
    found = verdicts_of(read_run(folder))
    assert found
    for verdict in found:
        told = f"{verdict.question} {verdict.answer}. {verdict.figures}"
        assert f"{verdict.level} {told}" in text
        assert told in page.text
    assert "bydore export" in page.text
    assert "In pictures the mouse" in page.text
    assert "In pictures" not in text
    assert "Lines: the weights" not in text
    checked(html_report([write_matching(tmp_path / "hostile", HOSTILE)]))


def test_several_runs_have_one_page(tmp_path: Path) -> None:
    case, fit = write_search(tmp_path / "case", verified=True), write_fit(tmp_path / "fit")
    seeds = write_seeds(tmp_path / "seeds")
    page = checked(html_report([case, fit, seeds]))
    assert f"total variation from {case}" in page.text
    runs, _ = comparison_sections([read_run(seeds)])
    assert isinstance(runs, Section)
    assert runs.blocks[-1].header == ("", "seed 0", "seed 1")


def test_an_answer_tells_the_losses_first_and_those_of_a_given_mixture(tmp_path: Path) -> None:
    folder = write_matching(tmp_path / "answer")
    metrics = json.loads((folder / "metrics.json").read_text())
    metrics |= {"outlook": outlook_of(), "measured_anew": ["web"]}
    write_json(folder / "metrics.json", metrics)
    write_json(folder / "forecast.json", outlook_of(better=(0.05, 0.05)))
    titles = [one.title for one in run_sections(read_run(folder), drawn=False)]
    assert titles[:3] == ["What it will do", "What the given mixture will do", "The mixture"]
    text, page = report_text(folder), checked(html_report([folder]))
    assert text.index("this mixture") < text.index("the given mixture") < text.index("weight")
    for told in (" ".join(text.split()), page.text):
        assert "Is it better than uniform? Yes. Expected difference -0.200 nats per token" in told
        assert "Is it better than uniform? No." in told
        assert "the search did not know their text: web." in told
    assert [tag for tag, _ in page.tags].count("svg") == 4
    assert "none is better on one of them" in page.text


def test_several_runs_are_one_text(tmp_path: Path) -> None:
    runs = [write_search(tmp_path / "a", verified=True), write_fit(tmp_path / "b")]
    lines = comparison_text(runs).splitlines()
    assert [line for line in lines if line.split()[:1] == ["method"]] != []
    assert not any("Next:" in line or line.startswith("good ") for line in lines)
    write_json(runs[0] / "metrics.json", {"stopped": "disk full", "steps": 7})
    with pytest.raises(RunFolderError, match="stopped after 7 steps"):
        comparison_text(runs)


def test_everything_but_the_weights_may_be_missing_or_damaged(tmp_path: Path) -> None:
    folder = write_search(tmp_path / "run")
    names = [path.name for path in folder.iterdir() if path.name != "mixture.json"]
    for name in names:
        (folder / name).write_bytes(b"damaged")
    page = checked(html_report([folder]))
    assert page.text.count("Could not be read") == len(names)
    for name in names:
        (folder / name).unlink()
    assert "The mixture" in checked(html_report([folder])).text
    with pytest.raises(ValueError, match="Expected the folders of runs"):
        html_report([])


def test_a_stopped_run_says_so(tmp_path: Path) -> None:
    folder = write_search(tmp_path / "run")
    write_json(folder / "metrics.json", {"stopped": "disk <full>", "steps": 7})
    page = checked(html_report([folder]))
    assert "Not finished. run stopped: disk <full>" in page.text
    with pytest.raises(RunFolderError, match=r"stopped after 7 steps \(disk <full>\)"):
        report_text(folder)
    (folder / "mixture.json").unlink()
    with pytest.raises(
        RunFolderError, match=r"stopped after 7 steps .*: bydore search --resume .*run goes on"
    ):
        report_text(folder)


def test_names_and_paths_are_harmless(tmp_path: Path) -> None:
    folder = tmp_path / "<img src=x onerror=alert(1)>"
    write_search(folder, HOSTILE, verified=True, stopped="</main><script>1</script>\ud800")
    other = write_fit(tmp_path / "'\"; rm -rf", "</td><b>", HOSTILE)
    for folders in ([folder], [folder, other]):
        text = html_report(folders)
        page = checked(text)
        assert "<img src=x onerror=alert(1)>" in page.text
        assert "window.hacked=1" in page.text
        assert "{{ 7 * 7 }}" in page.text
        for name in ("<script", "<svg onload", "<b>bold", "\u202e", "\x00"):
            assert name not in text
        assert [tag for tag, _ in page.tags].count("svg") == (2 if len(folders) == 1 else 0)
        text.encode()


def test_a_report_lies_beside_the_run(tmp_path: Path) -> None:
    folder = RunFolder(write_search(tmp_path / "run"), resume=True)
    assert add_html_report(folder) == f"In a browser: {tmp_path / 'run' / 'report.html'}"
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "The mixture" in page
    # Of several processes one writes.
    (tmp_path / "run" / "report.html").unlink()
    add_html_report(RunFolder(tmp_path / "run", writes=False))
    assert not (tmp_path / "run" / "report.html").exists()
