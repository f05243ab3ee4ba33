"""What every page of the report shows, and that it is escaped."""

from __future__ import annotations

import base64
import gzip
import json
import sys

import pytest
from plotly.offline import get_plotlyjs

from bydore_pyro.report.drawing import figure_of
from bydore_pyro.report.page_frame import (
    drawn_frame,
    frame,
    packed_library,
    plot,
    script_json,
    templates,
)


def test_json_cannot_end_its_script() -> None:
    content = {"</script>": ["<!--", "&", "\u2028", 1.5, None]}
    text = script_json(content)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == content
    with pytest.raises(ValueError, match="not JSON compliant"):
        script_json(float("nan"))


def test_the_library_is_plotlys_own() -> None:
    packed = packed_library()
    assert gzip.decompress(base64.b64decode(packed)).decode() == get_plotlyjs()
    assert len(packed) < 2_200_000


def test_without_the_packages_of_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    packed_library.cache_clear()
    with pytest.raises(ImportError, match="jinja2"):
        templates()
    with pytest.raises(ImportError, match="plotly"):
        packed_library()


def test_what_templates_show_is_cleaned_and_escaped() -> None:
    template = templates().from_string("{{ text }}{% set mine = '<br>' %}{{ mine|safe }}")
    assert template.render(text="<b>\u202e'\"") == "&lt;b&gt;\ufffd&#39;&#34;<br>"


def test_the_frame() -> None:
    assert frame("title", "below", "")["made_by"] == "Written by bydore-pyro."
    assert "0.1" in frame("title", "below", "0.1")["made_by"]
    assert json.loads(drawn_frame({"d0": "</script>\x00"})["told"]) == {"d0": "</script>\ufffd"}


def test_plots() -> None:
    assert plot("a", "label", None) is None
    shown = plot("a", "label", figure_of([], height=99, xaxis={}, yaxis={}))
    assert shown is not None
    assert (shown["id"], shown["height"]) == ("figure-a", 99)
    assert json.loads(shown["json"])["layout"]["height"] == 99
