"""``bydore ask``: questions to a finished search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bydore_pyro import files, report, setup, terminal
from bydore_pyro.command_line import Checked, one_line_errors, option, parse_options

if TYPE_CHECKING:
    from bydore_pyro.ask import Asked

# What `--help` lists.
COMMON = (
    *("validation", "objective", "baseline", "at_least", "mixture", "against", "drop", "add"),
    *("target_tokens", "out"),
)


@dataclass(frozen=True, kw_only=True)
class AnswerConfig(Checked):
    """Which search is asked, and where the answer goes."""

    run: str = option(MISSING, "Folder of a search by matching.", positional="RUN")
    out: str | None = option(None, "Folder of the answer. Default: runs/ask-<time>.")


@dataclass(frozen=True, kw_only=True)
class AskOptions:
    """All options of `bydore ask`."""

    question: setup.QuestionConfig
    ask: setup.AskConfig
    answer: AnswerConfig


@one_line_errors("bydore ask")
def ask_command(arguments: Sequence[str]) -> None:
    """Answers other questions from what a search has measured. They are other targets, other aims,
    other domains, or what a mixture will lose. Only the gradients of the targets, and of domains
    that are new, are computed."""
    about = ask_command.__doc__ or ""
    options = parse_options(arguments, "bydore ask", about, AskOptions, common=COMMON)
    folder, _ = run_ask(options)
    print(report.report_text(folder.path))


def run_ask(options: AskOptions) -> tuple[files.RunFolder, Asked]:
    """Answers a question and writes the answer's folder with its page.

    Raises:
        DataError: See `bydore_pyro.ask.ask`.
    """
    import dataclasses
    import time
    from contextlib import nullcontext

    from bydore_pyro.ask import GIVEN, ask

    run = Path(options.answer.run)
    options.question.warn_of_idle()
    folder = files.RunFolder(
        Path(options.answer.out or f"runs/ask-{time.strftime('%Y%m%d-%H%M%S')}")
    )
    kept = f"Finished trial runs are kept. Go on with the same command and --out {folder.path}"
    with terminal.told_if_stopped(kept) if options.ask.trials else nullcontext():
        asked = ask(run, options.question, folder.path, options.ask)
    given = {
        "ask": dataclasses.asdict(options.ask.anywhere()),
        "answer": {"of": str(run.absolute())},
    }
    setup.write_text_index(folder, asked.domains.corpus)
    if asked.mixture is not None:
        folder.write_text(GIVEN, asked.mixture.to_json() + "\n")
    folder.write_config("ask", {**asked.options.as_dict(), **given})
    beside = {}
    if asked.mixture is not None:
        beside["the given mixture"] = setup.weights_in(asked.mixture, asked.domains)
    of_run = asked.options, asked.domains, asked.question, asked.answer
    setup.leave_explorer(folder, *of_run, beside)
    setup.leave_answer(folder, asked.answer, asked.metrics)
    if asked.given is not None:
        folder.write_json("forecast.json", files.plain(asked.given))
    terminal.tell(report.add_html_report(folder))
    return folder, asked
