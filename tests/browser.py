"""Pages in a headless Chromium, where there is one."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
POLICY = re.compile(r"script-src '[^']*'")
RESULT = re.compile(r'<pre class="result">(.*?)</pre>', re.S)


def dom(page: Path, address: str = "") -> str:
    """Returns a page as it is after its scripts have run; without a browser the test is skipped."""
    if CHROMIUM is None:
        pytest.skip(f"needs one of {', '.join(NAMES)}")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    done = subprocess.run(
        [*command, f"{page.as_uri()}{address}"], capture_output=True, text=True, timeout=300
    )
    return done.stdout


def driven(page: Path, driver: str, address: str = "") -> Any:
    """Returns what a function without arguments returns that is run behind a page's own scripts."""
    text = POLICY.sub("script-src 'unsafe-inline'", page.read_text(encoding="utf-8"))
    shown = f"""<script>{{
        const result = document.createElement("pre");
        result.className = "result";
        try {{ result.textContent = JSON.stringify({{value: ({driver})()}}); }}
        catch (error) {{ result.textContent = JSON.stringify({{error: String(error.stack)}}); }}
        document.body.append(result);
    }}</script></body>"""
    driven_page = page.with_name(f"driven-{page.name}")
    driven_page.write_text(text.replace("</body>", shown), encoding="utf-8")
    found = RESULT.search(dom(driven_page, address))
    assert found is not None, "the page is not whole"
    content = json.loads(unescape(found[1]))
    assert "error" not in content, content["error"]
    return content["value"]
