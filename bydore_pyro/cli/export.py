"""``bydore export``: a mixture in a trainer's own format."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path

from bydore_pyro import files, terminal
from bydore_pyro.command_line import Checked, one_line_errors, option, parse_options
from bydore_pyro.export import FORMATS, ExportConfig, export_from
from bydore_pyro.mixture import exposures_csv, exposures_table

# What `--help` lists; `--help-all` adds the others.
COMMON = (
    *("to", "prefix", "paths", "out", "tokens", "samples", "data", "domain_tokens", "tokenizer"),
    "from_step",
)
DOMAINS = ".domains.csv"  # behind the name of the file: what a run reads of each domain


@dataclass(frozen=True, kw_only=True)
class FileConfig(Checked):
    """Which mixture is written, and where the file goes."""

    run: str = option(
        MISSING,
        "A run's folder, a file of weights, or a published mixture such as published:doremi.",
        positional="RUN",
    )
    out: str | None = option(None, "File to write. Default: standard output.")


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """All options of `bydore export`."""

    export: ExportConfig
    file: FileConfig


@one_line_errors("bydore export")
def export_command(arguments: Sequence[str]) -> None:
    """Writes a mixture in a trainer's format. With --tokens, it also shows what a run reads of
    every domain."""
    about = export_command.__doc__ or ""
    options = parse_options(arguments, "bydore export", about, ExportOptions, common=COMMON)
    config, out = options.export, options.file.out
    table = None if out is None or config.tokens is None else Path(out + DOMAINS)
    for place in (out, table):
        if place is not None:
            files.require_new_file(Path(place))
    found = export_from(options.file.run, config)
    if out is None:
        sys.stdout.write(found.text)
    else:
        with files.appearing_file(Path(out)) as aside:
            aside.write_text(found.text, encoding="utf-8")
    if table is not None:
        with files.appearing_file(table) as aside:
            aside.write_text(exposures_csv(found.exposures), encoding="utf-8")
    if found.exposures:
        for line in exposures_table(found.exposures).as_text().splitlines():
            terminal.tell(line)
    for note in found.notes:
        terminal.tell(note)
    form, step = FORMATS[config.to], config.from_step
    use = form.use if step is None else form.stage.replace("{step}", str(step))
    place = out or "FILE"
    use = use.replace("'{file}'", repr(place)).replace("{file}", shlex.quote(place))
    terminal.tell(f"Next: {use}")
