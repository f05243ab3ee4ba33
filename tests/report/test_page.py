"""The HTML page of runs as a file: what it holds, and that no name breaks out of it."""

from __future__ import annotations

import base64
import gzip
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import ClassVar

import pytest
from plotly.offline import get_plotlyjs
from report_runs import (
    HOSTILE,
    NAMES,
    mixture_with_intervals,
    write_fit,
    write_json,
    write_matching,
    write_search,
    write_seeds,
)

from bydore_pyro.report.page import add_html_report, html_report, packed_library, templates
from bydore_pyro.utils.errors import DataError, RunFolderError
from bydore_pyro.utils.run_folder import RunFolder

SECTIONS = (
    *("What was asked", "The mixture", "How it was learned", "Is it to be believed?"),
    *("What it is worth", "What it cost", "The data", "How to use it"),
)


class Page(HTMLParser):
    """Reads a page: its tags, texts and scripts; what is not closed is told."""

    VOID: ClassVar = {"meta", "link", "br", "line", "img"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: dict[str, str] = {}
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
        if self.open and self.open[-1] == "script":
            self.scripts[self.tags[-1][1].get("id") or ""] = data
        elif self.open and self.open[-1] != "style":
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
    assert page.attributes("href") == ["data:,"]
    assert {name for _, attrs in page.tags for name in attrs if name.startswith("on")} == set()
    figures = page.attributes("data-figure")
    assert set(figures) <= set(page.scripts)
    for name, content in page.scripts.items():
        if name not in ("", "plotly"):
            json.loads(content)
    assert [tag for tag, _ in page.tags].count("h1") == 1
    return page


def test_a_case_tells_everything(tmp_path: Path) -> None:
    page = checked(html_report([write_search(tmp_path / "case", verified=True)]))
    for heading in SECTIONS:
        assert heading in page.text
    for told in (
        "code 0.460", "0.306 to 0.689", "3.2500", "PSIS k-hat 4.50", "3.0 plain trainings",
        "d" * 64, "max_epochs not given", "47", "bydore export", "bydore train", "weighting",
        "c" * 40,
        "94 % intervals; thick: the middle half", "as long as the search itself; --target_tokens",
    ):  # fmt: skip
        assert told in page.text
    assert page.attributes("data-figure") == [
        "figure-weights", "figure-trajectory", "figure-losses",
    ]  # fmt: skip


def test_a_search_by_matching_tells_of_its_rounds(tmp_path: Path) -> None:
    page = checked(html_report([write_matching(tmp_path / "run")]))
    for told in (
        "What each round found", "rounds 1 to 3", "settled after 350 steps", "The scale is 1.06",
        "Does the mixture hold on fresh text?", "gradient matching in 3 rounds",
        "near the median; the intervals are the posterior's", "mean after each round",
        "Points: measured in a round.", "as long as --steps are",
    ):  # fmt: skip
        assert told in page.text
    assert page.attributes("data-figure") == [
        "figure-weights", "figure-rounds", "figure-trajectory", "figure-losses",
    ]  # fmt: skip
    checked(html_report([write_matching(tmp_path / "hostile", HOSTILE)]))


def test_captions_tell_what_is_drawn(tmp_path: Path) -> None:
    folder = write_search(tmp_path / "run")
    capped = mixture_with_intervals().capped(dict.fromkeys(NAMES, 0.4))
    (folder / "mixture.json").write_text(capped.to_json())
    page = checked(html_report([folder]))
    assert "within the cap; hollow: free of it. Thin lines: 94 % intervals" in page.text
    assert "deviations are those of the uncapped weights." in page.text
    many = write_search(tmp_path / "many", [f"domain {i:03d}" for i in range(50)])
    assert checked(html_report([many])).text.count("The 40 largest of 50.") == 3
    bare = checked(html_report([write_fit(tmp_path / "fit")]))
    assert "Diamonds: weights, as shares of the training tokens. Click" in bare.text
    assert "Epochs: how often" not in bare.text


def test_every_kind_of_run_has_its_page(tmp_path: Path) -> None:
    fit = write_fit(tmp_path / "fit")
    page = checked(html_report([fit]))
    assert "How it was learned" not in page.text
    assert "There are no intervals" in page.text
    seeds = write_seeds(tmp_path / "seeds")
    page = checked(html_report([seeds]))
    assert "Would another seed find the same?" in page.text
    assert "overconfident: law" in page.text
    page = checked(html_report([write_search(tmp_path / "case", verified=True), fit, seeds]))
    assert "4 runs compared" in page.text
    assert "total variation from case" in page.text
    drawn = [attrs for tag, attrs in page.tags if tag == "svg" and attrs["class"] == "interval"]
    assert len(drawn) == 4 * len(NAMES)


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
    (folder / "mixture.json").unlink()
    with pytest.raises(RunFolderError, match="Expected a run in"):
        html_report([folder])
    with pytest.raises(ValueError, match="Expected the folders of runs"):
        html_report([])


def test_a_stopped_run_says_so(tmp_path: Path) -> None:
    folder = write_search(tmp_path / "run")
    write_json(folder / "metrics.json", {"stopped": "disk <full>", "steps": 7})
    page = checked(html_report([folder]))
    assert "This run has not finished. It stopped: disk <full>" in page.text


def test_names_and_paths_are_harmless(tmp_path: Path) -> None:
    folder = tmp_path / "<img src=x onerror=alert(1)>"
    write_search(folder, HOSTILE, verified=True, stopped="</main><script>1</script>")
    other = write_fit(tmp_path / "'\"; rm -rf", "</td><b>", HOSTILE)
    for folders in ([folder], [folder, other]):
        text = html_report(folders)
        page = checked(text)
        assert "<img src=x onerror=alert(1)>" in page.text
        assert "window.hacked=1" in page.text
        assert "{{ 7 * 7 }}" in page.text
        for name in ("<script>window", "<svg onload", "<b>bold", "\u202e", "\x00"):
            assert name not in re.sub(r'<script type="text/plain".*?</script>', "", text)
        # No more scripts than figures and, with figures, the frame's three: none of the names'.
        figures = len(page.attributes("data-figure"))
        assert text.count("<script") == (figures + 3 if figures else 0)
        text.encode()


def test_a_lone_surrogate_does_not_stop_the_writing(tmp_path: Path) -> None:
    folder = write_search(tmp_path / "run")
    config = json.loads((folder / "config.json").read_text())
    config["run"]["data"] = "\ud800"
    write_json(folder / "config.json", config)
    assert "\ufffd" in html_report([folder]).encode().decode()


def test_a_report_lies_beside_the_run(tmp_path: Path) -> None:
    folder = RunFolder(write_search(tmp_path / "run"), resume=True)
    assert add_html_report(folder) == f"In a browser: {tmp_path / 'run' / 'report.html'}"
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert page == html_report([tmp_path / "run"])
    assert len(page.encode()) < 2_300_000
    # Of several processes one writes.
    (tmp_path / "run" / "report.html").unlink()
    add_html_report(RunFolder(tmp_path / "run", writes=False))
    assert not (tmp_path / "run" / "report.html").exists()


def test_a_search_does_not_fail_for_want_of_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = RunFolder(write_search(tmp_path / "run"), resume=True)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "plotly", None)
        with pytest.raises(
            DataError, match=r"package plotly.* pip install 'bydore-pyro\[report\]'"
        ):
            html_report([folder.path])
        assert add_html_report(folder).startswith("No report.html: Expected the package plotly")
    monkeypatch.setattr(RunFolder, "write_text", lambda *_: 1 / 0)
    assert add_html_report(folder) == "No report.html: ZeroDivisionError: division by zero"
    assert "No report.html" in caplog.text


def test_the_same_run_gives_the_same_page(tmp_path: Path) -> None:
    folder = write_search(tmp_path / "run", NAMES)
    assert html_report([folder]) == html_report([folder])


def test_the_library_is_plotlys_own(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = packed_library()
    assert gzip.decompress(base64.b64decode(packed)).decode() == get_plotlyjs()
    assert len(packed) < 2_200_000
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match="jinja2"):
        templates()


def test_what_templates_show_is_cleaned_and_escaped() -> None:
    template = templates().from_string("{{ text }}{% set mine = '<br>' %}{{ mine|safe }}")
    assert template.render(text="<b>\u202e'\"") == "&lt;b&gt;\ufffd&#39;&#34;<br>"
    content = {"</script>": ["<!--", "&", "\u2028", 1.5, None]}
    template = templates().from_string("{{ content|tojson }}")
    text = template.render(content=content)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == content
    with pytest.raises(ValueError, match="not JSON compliant"):
        template.render(content=float("nan"))
