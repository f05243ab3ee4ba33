"""How do the slopes of the law of losses move as a run gets longer, and what is an answer worth?

One long search a seed is read at every halving of its length. The law of three readings in a row is
that of a run as long as the last of them: at a constant rate a run's beginning is a shorter run.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import leave, markdown, run_main, searched, with_error
from decisions import QUESTIONS, shares_of
from torch import Tensor

from bydore_pyro.ask import ask
from bydore_pyro.command_line import Checked, option
from bydore_pyro.errors import DataError
from bydore_pyro.law import Goal, LawDraws, best_mixture, carried, fit_law, losses_of
from bydore_pyro.proxy import Cost
from bydore_pyro.setup import Options, QuestionConfig, begin_run

ABOUT = """Search on all domains, long, one run a seed, and fit the law of losses at several moments
of each run. Reported is how the slopes at one length resemble those at longer ones, and how much
lower than on the targets' own shares the later law holds the loss on the earlier one's answers."""
WINDOW = 3  # readings of a law
DRAWS = 400


@dataclass(frozen=True, kw_only=True)
class DriftConfig(Checked):
    """How much is run."""

    target_seeds: int = option(3, "Number of searches.", least=1, most=100)


@dataclass(frozen=True, kw_only=True)
class DriftOptions(Options):
    """The options of a search, and how many."""

    drift: DriftConfig


def drift_of(path: Path) -> list[dict[str, float]]:
    """Returns, by pairs of a finished search's lengths, how its law moves from one to the other."""
    answer = ask(path, QuestionConfig(validation=["all"]), path / "trials").answer
    if answer.forecast is None:
        raise DataError(f"Expected a search that has read its losses in {path}, found none")
    known = answer.forecast.known
    laws = []
    for end in range(WINDOW, len(known.losses) + 1):
        read = slice(end - WINDOW, end)
        given = (known.tokens[read], known.losses[read], known.transfer)
        laws.append(fit_law(*given, range(known.losses.shape[1])).draws(DRAWS, 0))
    targets = targets_on(answer.names)
    return [
        {"from": short.runs.length, "to": long.runs.length, **apart(short, long, targets)}
        for at, short in enumerate(laws)
        for long in laws[at + 1 :]
    ]


def apart(short: LawDraws, long: LawDraws, targets: Sequence[Tensor]) -> dict[str, float]:
    """Returns what a law has in common with a later one, and what its answers are worth by that.

    Keys: `kept` the correlation of log S, `spread` and `change` the standard deviation and mean of
    its change; `answer`, `composition` (nothing kept) and `own` the mean loss over targets of the
    law's answers, carried, of nothing but the composition and of the later law's own answers, less
    that on the targets' own shares, nats per token.
    """
    slopes = torch.stack([law.slope.log().mean(0) for law in (short, long)])
    moved = slopes[1] - slopes[0]
    laws = {
        "answer": carried(short, long.runs.length),
        "composition": dataclasses.replace(
            short, slope=short.slope.mean(1, keepdim=True).expand_as(short.slope)
        ),
        "own": long,
    }
    gains = {}
    for name, law in laws.items():
        made = [best_mixture(law, Goal(composition=one[None])).weights for one in targets]
        both = [
            losses_of(long, torch.stack([w, one])).mean(0) @ one
            for w, one in zip(made, targets, strict=True)
        ]
        gains[name] = float(np.mean([float(one[0] - one[1]) for one in both]))
    return {
        "kept": float(torch.corrcoef(slopes)[0, 1]),
        "spread": float(moved.std()),
        "change": float(moved.mean()),
        **gains,
    }


def targets_on(names: Sequence[str]) -> list[Tensor]:
    """Returns the shares of the domains in each covered target of `decisions.QUESTIONS`."""
    found = []
    for name, asked in QUESTIONS.items():
        shares = shares_of(name, dict.fromkeys(names, 1.0))
        if asked.drop or asked.objective != "mean" or not set(shares) <= set(names):
            continue
        found.append(torch.tensor([shares.get(one, 0.0) for one in names]).double())
    return found


def table(results: Mapping[str, Sequence[Mapping[str, float]]], step: int) -> str:
    """Returns pairs of lengths as Markdown: means over the seeds, with standard errors."""
    header = [
        *("from step", "to step", "correlation of log S", "sd of its change", "its mean"),
        *("gain of the answer", "of nothing but the composition", "of the later law"),
    ]
    rows = []
    for pair in zip(*results.values(), strict=True):
        cells = []
        for part in ("kept", "spread", "change", "answer", "composition", "own"):
            form = ".2f" if part in ("kept", "spread", "change") else ".4f"
            cells.append(with_error([one[part] for one in pair], form))
        rows.append([*(str(round(pair[0][end] / step)) for end in ("from", "to")), *cells])
    return markdown(header, rows)


def drift(options: DriftOptions, resume: Path | None) -> None:
    """Searches and fits; leaves a run folder, a table."""
    folder = begin_run(options, "drift", resume)
    if resume is None:
        folder.write_config("drift", options.as_dict())
    results: dict[str, Any] = {}
    cost = Cost()
    for seed in range(options.run.seed, options.run.seed + options.drift.target_seeds):
        path = folder.path / f"seed-{seed}"
        searched(options, path, seed, ["all"])
        results[str(seed)] = drift_of(path)
        cost.add(json.loads((path / "metrics.json").read_text("utf-8"))["search"]["parts"])
    leave(folder, options, {"pairs": results}, cost, table(results, options.batch_tokens))


if __name__ == "__main__":
    run_main(
        *(drift, "drift", ABOUT, DriftOptions),
        resumable=True,
        smoke={"rounds": 5, "steps": 32, "target_seeds": 1},
        steps=2560,
        rounds=7,
        batch_sequences=16,
    )
