"""``bydore weights``: what weights mean for a run, ours or anybody's."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

from bydore_pyro import files, terminal
from bydore_pyro.command_line import (
    Checked,
    TokenCount,
    one_line_errors,
    option,
    parse_options,
    warn_idle,
)
from bydore_pyro.errors import listed
from bydore_pyro.mixture import (
    GOOD_EPOCHS,
    MOST_EPOCHS,
    SEQUENCE_LENGTH,
    UNITS,
    Mixture,
    Supply,
    exposures_csv,
    exposures_of,
    exposures_table,
    longest_run,
    mixture_from,
    notes_on,
    require_epochs,
    supply_from,
)

COMMON = ("tokens", "data", "domain_tokens", "repeat", "unit", "sequence_length", "out")
SHEET = ".csv"
SHOWN = 10  # names in a line


@dataclass(frozen=True, kw_only=True)
class WeightsConfig(Checked):
    """The weights, the run and what there is to read.

    Raises:
        ValueError: When an option is out of its range, or the unit is unknown.
    """

    file: str = option(
        MISSING,
        "Weights of any kind: a trainer's file, a run's folder, a table, published:doremi.",
        positional="FILE",
    )
    tokens: TokenCount | None = option(
        None,
        "Length of the run, such as 10B: shows what it reads of every domain, in tokens, epochs "
        "and documents. Default: the shares alone.",
        above=0,
    )
    data: str | None = option(
        None,
        "Token store: its names are matched, and it says how much there is of each domain. "
        "Default: of a run's folder, what the run noted of its text.",
    )
    domain_tokens: list[str] = option(
        [],
        "Tokens that there are of each domain: a file, such as 'web: 1.3T', perhaps with "
        "documents, or NAME=TOKENS. They count before those of --data.",
    )
    repeat: float = option(
        MOST_EPOCHS,
        "How many times the run may read a domain: with --tokens, weights that repeat one more "
        "often are refused, after they are shown.",
        above=0,
    )
    unit: str | None = option(
        None,
        "What the numbers of the file are of: 'tokens', 'documents' or 'epochs'. Default: what the "
        "file says, or the trainer that it is made for.",
    )
    sequence_length: int = option(
        SEQUENCE_LENGTH,
        "Tokens in a sequence of the run, by which domains are named of which none is drawn.",
        least=1,
    )
    out: str | None = option(
        None, "File for the weights as shares of tokens, mixture.json; with .csv for the table."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unit is not None and self.unit not in UNITS:
            raise ValueError(f"Expected a unit ({', '.join(UNITS)}), found '{self.unit}'")
        if self.tokens is None:
            warn_idle(self, ("repeat", "sequence_length"), "no tokens")
        if self.out is not None and self.out.endswith(SHEET) and self.tokens is None:
            raise ValueError(f"Expected --tokens for a table, found none with --out {self.out}")


@dataclass(frozen=True, kw_only=True)
class WeightsOptions:
    """All options of `bydore weights`."""

    weights: WeightsConfig


@one_line_errors("bydore weights")
def weights_command(arguments: Sequence[str]) -> None:
    """Shows what weights of any file mean for a run. It prints the share, tokens, epochs and
    documents of every domain."""
    about = weights_command.__doc__ or ""
    options = parse_options(arguments, "bydore weights", about, WeightsOptions, common=COMMON)
    config = options.weights
    if config.out is not None:
        files.require_new_file(Path(config.out))
    mixture, supply = _read(config)
    shares = mixture.as_dict()
    exposures = exposures_of(shares, config.tokens or 1.0, supply)
    table = exposures_table(exposures)
    if config.tokens is None:
        rows = [row[:2] for row in table.rows]
        table = terminal.Table(header=table.header[:2], rows=rows)
    sys.stdout.write(f"{table.as_text()}\n")
    notes = notes_on(exposures, config.sequence_length) if config.tokens else []
    for note in (*mixture.notes, *notes):
        terminal.tell(note)
    for epochs in (1, int(GOOD_EPOCHS)):
        if (longest := longest_run(shares, supply, epochs)) is not None:
            often = "once" if epochs == 1 else f"{epochs} times"
            terminal.tell(
                f"The longest run that reads no domain more than {often} has {longest[0]:,.0f} "
                f"tokens, because of '{longest[1]}'."
            )
    if config.tokens is not None:
        require_epochs(exposures, config.repeat)
    if config.out is not None:
        text = exposures_csv(exposures) if config.out.endswith(SHEET) else mixture.to_json() + "\n"
        with files.appearing_file(Path(config.out)) as aside:
            aside.write_text(text, encoding="utf-8")


def _read(config: WeightsConfig) -> tuple[Mixture, dict[str, Supply]]:
    """Returns the weights, and what text there is of their domains as far as it is known."""
    from bydore_pyro import data, export

    names: tuple[str, ...] = ()
    rows: dict[str, Supply] = {}
    text: dict[str, Supply] = {}
    if config.data is not None:
        index: Any = data.open_store(Path(config.data)).index
    else:
        index = export.index_of_run(Path(config.file))
    if index is not None:
        known = [name for name in index["domains"] if name not in index.get("pools", {})]
        rows, text = data.supply_of(index, known), data.supply_of_text(index, known)
        names = tuple(text)  # targets have nothing to train on
    if config.domain_tokens:
        given = supply_from(config.domain_tokens, names)
        names = names or tuple(given)
        rows |= {name: one.with_documents_of(rows.get(name)) for name, one in given.items()}
        text |= {name: one.with_documents_of(text.get(name)) for name, one in given.items()}
    unit = next((unit for unit in UNITS if unit == config.unit), None)
    mixture = mixture_from(config.file, names=names, supply=rows, unit=unit)
    if unknown := [name for name in mixture.names if names and name not in names]:
        terminal.tell(f"Not among the domains of the data: {listed(unknown, SHOWN)}.")
    return mixture, text
