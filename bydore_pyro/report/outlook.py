"""What the losses of a mixture are expected to be: tables, verdicts and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from types import MappingProxyType
from typing import TYPE_CHECKING

from bydore_pyro.answer import ANSWER, Outlook, picture_label
from bydore_pyro.errors import listed
from bydore_pyro.mixture import MOST_SHOWN
from bydore_pyro.report.words import Level, Verdict, count, number, percent
from bydore_pyro.terminal import Table, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SURE, UNSURE, AGAINST = 0.9, 0.5, 0.1  # probabilities
SAME = 5e-4  # nats per token, below which a difference is shown as 0.000
FEW_NAMES = 5
NONE: Mapping[str, float] = MappingProxyType({})
COLUMNS = 5  # of panels
OF_PANEL, OF_AXIS = 18, 30  # characters
SELF, JUDGED = "this mixture", "the given mixture"
WITHIN = "within 0.01 nats"  # heads a column
LEAST_PRICE = 5e-5  # nats per token, that is shown
WORDS = {
    "trials": "Trial runs chose the mixture by the losses that they had.",
    "match": "The mixture is the match's whole step, chosen by no trial run. bydore search makes "
    "four by default and may choose another; --trials 4 makes them here too.",
}
LEVELS: dict[str, Level] = {"Yes": "good", "No": "bad", "Open": "careful"}


def outlook_table(outlook: Outlook, label: str = SELF) -> Table:
    """Returns a row a text, targets first: the loss that is expected, and by how much it differs
    from each other mixture's, with 94 % intervals; domains by how much they differ."""
    if ANSWER not in outlook.expected:
        return Table()
    others = list(outlook.differences)
    header = ["nats per token on", label]
    header += [f"than {other}" for other in others]
    rows = []
    for text in _order(outlook):
        one = outlook.expected[ANSWER][text]
        row = [text, f"{number(one.loss)} ({number(one.low)} to {number(one.high)})"]
        for other in others:
            apart = outlook.differences[other][text]
            row.append(f"{apart.loss:+.3f} ({apart.low:+.3f} to {apart.high:+.3f})")
        rows.append(row)
    return Table(
        header=header,
        rows=rows,
        caption="Losses that runs are expected to have, with 94 % intervals for one run",
    )


def _order(outlook: Outlook) -> list[str]:
    """Targets, then their mean, then the domains, those whose losses change most first."""
    texts = list(outlook.expected[ANSWER])
    domains = [text for text in texts if text.startswith("domain ")]
    first = [text for text in texts if text not in domains]
    if {f"domain {name}" for name in outlook.importance} == set(domains):
        first = [text for text in first if text not in outlook.importance]
    reference = next(iter(outlook.differences.values()))
    changed = sorted(domains, key=lambda text: -abs(reference[text].loss))
    return first + changed[: max(0, MOST_SHOWN - len(first))]


def _asks_for_longer(outlook: Outlook) -> bool:
    """Whether the answer is for a longer run than those whose losses are forecast."""
    return outlook.asked > 1.1 * outlook.tokens


def losses_words(outlook: Outlook) -> str | None:
    """Returns for which runs an outlook holds; None where there is none."""
    if ANSWER not in outlook.expected:
        return None
    words = (
        f"These losses are expected of runs of the proxy over {count(outlook.tokens)} tokens at a "
        "constant learning rate, as long as those that were measured"
    )
    if _asks_for_longer(outlook):
        words += (
            f". The answer is for {count(outlook.asked)} tokens: the longer, the less of the "
            "domains' laws it rests on, from four times on only on what the targets are made of"
        )
    return f"{words}."


def _uncovered_words(uncovered: Mapping[str, float], outlook: Outlook) -> str:
    """Returns in a sentence whose losses are guesses, and what may help; "" if no target's are."""
    if not uncovered:
        return ""
    which = ", ".join(f"{percent(share)} of {name}" for name, share in uncovered.items())
    words = f"No mixture of the domains explains {which}, so that its losses are guesses"
    known = [name for name in outlook.importance if name not in uncovered]
    if known:
        words += f", and those of all targets; not those of {listed(known, FEW_NAMES)}"
    return f"{words}. Text of its kind would help (bydore ask --add)" + (
        ", or a question without it (--validation). " if known else ". "
    )


def outlook_verdicts(outlook: Outlook, uncovered: Mapping[str, float] = NONE) -> list[Verdict]:
    """Returns whether the mixture is better than each other one, on all targets together.

    Args:
        outlook: Of the mixture.
        uncovered: What is unexplained of the targets that the domains do not cover, by name.
    """
    guess, found = _uncovered_words(uncovered, outlook), []
    unsure = bool(guess) or outlook.decided in WORDS
    if outlook.decided in WORDS:
        question = "Does the law know what this mixture loses on the target?"
        words = f"{guess}{WORDS[outlook.decided]}"
        found.append(Verdict("careful", question, "Hardly", words))
        guess = "The law hardly knows these losses."
    when = f" after {count(outlook.tokens)} tokens" if _asks_for_longer(outlook) else ""
    for other, differences in outlook.differences.items():
        text = list(differences)[-1 if len(outlook.importance) > 1 else 0]
        apart = differences[text]
        answer = "Yes" if apart.better >= SURE else "No" if apart.better <= AGAINST else "Open"
        figures = (
            f"Expected difference {apart.loss:+.3f} nats per token on {text}. The loss is lower "
            f"with probability {percent(apart.better, SURE, AGAINST)} (decided from "
            f"{percent(SURE)} or up to {percent(AGAINST)}). Two single runs may differ by "
            f"{apart.low:+.3f} to {apart.high:+.3f}. {guess}"
        ).rstrip()
        level: Level = "careful" if unsure else LEVELS[answer]
        if max(abs(one.loss) for one in differences.values()) < SAME:
            level, answer = "careful", f"No, it is as {other}"
            figures = f"On no text do the expected losses differ by {SAME:g} nats per token."
        found.append(Verdict(level, f"Is it better than {other}{when}?", answer, figures))
    if outlook.none_worse is not None:
        found.append(_none_worse(outlook, unsure=unsure))
    return found


def _none_worse(outlook: Outlook, *, unsure: bool) -> Verdict:
    """Judges the probability that no target is worse, by the one that was asked for."""
    held, asked = outlook.none_worse or 0.0, outlook.probability or SURE
    level: Level = "good" if held >= asked else "careful" if held >= UNSURE else "bad"
    figures = (
        f"None is worse by more than {number(outlook.tolerance)} nats in {percent(held, asked)} of "
        f"the draws; {percent(asked)} was asked for."
    )
    return Verdict(
        "careful" if unsure and level == "good" else level,
        "Is no target worse than under the baseline?",
        f"With probability {percent(held, asked)}",
        figures,
    )


def price_columns(outlook: Outlook, names: Sequence[str | None]) -> dict[str, list[str]]:
    """Returns columns of a table of domains: how far each weight may move, the others in
    proportion, until the expected loss is 0.01 nats per token higher; and by how much, in these, a
    tenth more of its text lowers it. A row without a name is empty."""
    columns = {}
    if outlook.freedom:
        ends = {name: f"{number(a)} to {number(b)}" for name, (a, b) in outlook.freedom.items()}
        columns[WITHIN] = [ends.get(name or "", "") for name in names]
    if any(price > LEAST_PRICE for price in outlook.worth_of_text.values()):
        words = {name: number(price, ".4f") for name, price in outlook.worth_of_text.items()}
        columns["10 % more text brings"] = [words.get(name or "", "") for name in names]
    return columns


def bounds_table(outlook: Outlook) -> Table:
    """Returns what each bound costs that holds the answer back, and all of them together."""
    rows = [
        (
            f"{one.domain} {one.side} {one.weight:g}" if one.weight is not None else "all bounds",
            f"{one.costs.loss:+.3f} ({one.costs.low:+.3f} to {one.costs.high:+.3f})",
            {"at least": "costs ", "at most": "brings "}.get(one.side, "")
            + number(one.of_more, ".4f"),
        )
        for one in outlook.bounds
    ]
    whose = ""
    if outlook.decided in WORDS:
        whose = ", of the mixtures that are best by the law, which did not choose the weights"
    return Table(
        header=("bound", "costs in all", "0.01 more of it"),
        rows=rows,
        caption="What each bound costs: the expected loss with it, minus that without it, in nats "
        f"per token{whose}",
    )


def curves_figure(outlook: Outlook) -> Figure | None:
    """Draws each domain's loss over its effective tokens: the law with its interval, and the runs
    that it rests on."""
    curves = outlook.curves
    if not curves:
        return None
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, MaxNLocator

    columns = min(COLUMNS, len(curves))
    rows = -(-len(curves) // columns)
    figure = Figure(figsize=(1.8 * columns, 1.5 * rows + 0.6), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes, (name, curve) in zip(panels, curves.items(), strict=False):
        axes.fill_between(curve.at, curve.low, curve.high, color="0.9", linewidth=0)
        axes.plot(curve.at, curve.loss, color="0.35", gid=f"{visible(name)}: the law")
        for place, loss in zip(curve.runs, curve.losses, strict=True):
            gid = f"{visible(name)}: a run, {loss:.3f} nats per token"
            axes.plot(place, loss, "o", color="C0", markersize=4, gid=gid)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(LogLocator(2, numticks=4))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.minorticks_off()
        axes.set_title(picture_label(name, OF_PANEL), fontsize=9)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[len(curves) :]:
        axes.set_axis_off()
    figure.supxlabel("effective tokens, in those of the longest run on equal weights", fontsize=9)
    figure.supylabel("nats per token", fontsize=9)
    return figure


def frontier_figure(outlook: Outlook) -> Figure | None:
    """Draws the losses of the best mixtures for two or three targets, a panel for each pair, with
    this mixture and the others."""
    pairs = list(combinations(outlook.frontier, 2))
    if not pairs:
        return None
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(9 if len(pairs) > 1 else 5, 3.4), layout="constrained")
    panels = figure.subplots(1, len(pairs), squeeze=False).flat
    for axes, (x, y) in zip(panels, pairs, strict=True):
        style = "-" if len(outlook.frontier) == 2 else "o"
        axes.plot(outlook.frontier[x], outlook.frontier[y], style, color="0.75", markersize=3)
        for place, (name, losses) in enumerate(outlook.expected.items()):
            label = SELF if name == ANSWER else name
            words = f"{label}: {losses[x].loss:.3f} and {losses[y].loss:.3f}"
            shown = {"color": f"C{place}", "label": label, "gid": words}
            axes.plot(losses[x].loss, losses[y].loss, "s", **shown)
        axes.set_xlabel(picture_label(x, OF_AXIS))
        axes.set_ylabel(picture_label(y, OF_AXIS))
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="0.92")
    shown = axes.get_legend_handles_labels()
    figure.legend(*shown, loc="outside upper center", ncols=4, fontsize=9, frameon=False)
    return figure
