"""Hooks of mkdocs: they add `figures/` to the site, and the help of each command to its page."""

import os
import re
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from unittest.mock import patch

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from bydore_pyro.cli.main import main

FIGURES = Path(__file__).resolve().parents[1] / "figures"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds every picture as `figures/NAME.png`, every result as `figures/results/NAME`."""
    results = [p for p in (FIGURES / "results").rglob("*") if p.suffix in (".json", ".md")]
    for path in sorted([*FIGURES.glob("*.png"), *results]):
        name = path.relative_to(FIGURES.parent).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replaces `{{ bydore COMMAND --help-all }}` by the help of the command.

    Links to `../figures/` are right in a clone; in the site they become `figures/`.
    """
    markdown = markdown.replace("](../figures/", "](figures/")
    return re.sub(r"\{\{ bydore (\w+) --help-all \}\}", lambda match: _help(match[1]), markdown)


def _help(command: str) -> str:
    text = StringIO()
    with patch.dict(os.environ, COLUMNS="100"), redirect_stdout(text), suppress(SystemExit):
        main([command, "--help-all"])
    return f"```text\n{text.getvalue().rstrip()}\n```"
