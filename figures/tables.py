"""The study's tables as Markdown and as LaTeX (booktabs).

Reads the tables of the experiments (`NAME.md` in `results/`), writes `tables.md` and `tables.tex`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from study_figure import figure_options

from bydore_pyro.utils import DataError, appearing_file, one_line_errors

TITLES = {
    "compare": "Every method on one budget",
    "probabilistic": "The posterior beside points on the simplex",
    "scheduling": "The four scheduling strategies",
    "plants": "Planted mixtures",
    "calibration": "Calibration of the intervals",
    "assumptions": "A tenth of the tokens and all of them",
}
SPECIAL = {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
           "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
           "±": r"$\pm$"}  # fmt: skip


def main() -> None:
    """Reads, writes, prints where."""
    options = figure_options("tables", __doc__ or "", "")
    with one_line_errors("tables"):
        found = tables_in(options.results)
        markdown = "\n".join(f"## {title}\n\n{text}" for title, text in found.items())
        latex = "\n".join(latex_of(title, text) for title, text in found.items())
        for name, content in (("tables.md", f"# Tables\n\n{markdown}"), ("tables.tex", latex)):
            with appearing_file(options.folder / name) as aside:
                aside.write_text(content, encoding="utf-8")
            print(options.folder / name)


def tables_in(folder: Path) -> dict[str, str]:
    """Returns the tables' Markdown by title, headings one level deeper.

    Raises:
        DataError: When the folder lacks one of them.
    """
    found = {}
    for name, title in TITLES.items():
        path = folder / f"{name}.md"
        if not path.is_file():
            raise DataError(f"Expected {path.name} of experiments/{name}.py in {folder}")
        lines = path.read_text(encoding="utf-8").splitlines()
        found[title] = "\n".join(f"#{x}" if x.startswith("#") else x for x in lines) + "\n"
    return found


def latex_of(title: str, text: str) -> str:
    """Returns the tables of a Markdown text as LaTeX; what stands around them becomes captions."""
    parts, words = [], [title]
    for block in blocks(text.splitlines()):
        if not block[0].startswith("|"):
            words += [line.lstrip("#- ").strip() for line in block if line.strip()]
            continue
        header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in block)
        caption = escaped(". ".join(words))
        parts.append(tabular(caption, header, rows))
        words = [title]
    return "\n".join(parts)


def blocks(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yields runs of lines that are a table, and runs that are not."""
    block: list[str] = []
    for line in lines:
        if block and line.startswith("|") != block[0].startswith("|"):
            yield block
            block = []
        block.append(line)
    if block:
        yield block


def tabular(caption: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns one LaTeX table; columns whose cells are numbers are set to the right."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(header)
    sides = "".join("r" if all(map(is_number, column)) else "l" for column in columns)
    body = [" & ".join(escaped(cell) for cell in row) + r" \\" for row in rows]
    return "\n".join(
        [
            r"\begin{table}[ht]", r"\centering", rf"\caption{{{caption}}}", r"\small",
            rf"\begin{{tabular}}{{{sides}}}", r"\toprule",
            " & ".join(escaped(cell) for cell in header) + r" \\", r"\midrule", *body,
            r"\bottomrule", r"\end{tabular}", r"\end{table}", "",
        ]
    )  # fmt: skip


def is_number(cell: str) -> bool:
    """Whether a cell holds a number, a share, a mean with its deviation, or nothing."""
    return not cell.strip("0123456789.,+-±% e")


def escaped(text: str) -> str:
    """Returns text in which LaTeX reads no commands."""
    return "".join(SPECIAL.get(letter, letter) for letter in text)


if __name__ == "__main__":
    main()
