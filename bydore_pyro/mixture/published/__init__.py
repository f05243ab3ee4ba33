"""What others published: the Pile's names and weights, and the paper's benchmark scores.

Where each file comes from, and what is wrong with it, stands in the `README.md` beside this file.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from importlib import resources

__all__ = [
    *("PILE_COLUMN", "PILE_DOMAINS", "PILE_WITHDRAWN"),
    *("average_score", "benchmark_scores", "pile_weights"),
]

# The Pile's domains by their names in its public copies (Gao et al., arXiv 2101.00027).
PILE_COLUMN = "meta.pile_set_name"  # where a row names its domain

# Public name: short name, as in RegMix's tables of weights (arXiv 2407.01492).
PILE_DOMAINS = {
    "ArXiv": "arxiv",
    "DM Mathematics": "dm_mathematics",
    "Enron Emails": "enron_emails",
    "EuroParl": "europarl",
    "FreeLaw": "freelaw",
    "Github": "github",
    "Gutenberg (PG-19)": "gutenberg_pg_19",
    "HackerNews": "hackernews",
    "NIH ExPorter": "nih_exporter",
    "PhilPapers": "philpapers",
    "Pile-CC": "pile_cc",
    "PubMed Abstracts": "pubmed_abstracts",
    "PubMed Central": "pubmed_central",
    "StackExchange": "stackexchange",
    "USPTO Backgrounds": "uspto_backgrounds",
    "Ubuntu IRC": "ubuntu_irc",
    "Wikipedia (en)": "wikipedia_en",
}
# Of the original 22; rows of theirs are passed over.
PILE_WITHDRAWN = ("Books3", "BookCorpus2", "OpenSubtitles", "OpenWebText2", "YoutubeSubtitles")
CASES = (1, 2)
NO_TASKS = ("Overall Avg", "FLOPs cost")  # rows of the tables
METHODS = {"Doremi": "DoReMi", "Ours": "ByDoRe"}  # as they are called elsewhere


def pile_weights() -> dict[str, dict[str, float]]:
    """Returns the Pile's published weights: column, then domain's short name, then weight.

    The columns are `human`, `doremi`, `regmix` and `token_share`. They are as published, and the
    first two sum to 0.787 and 0.815: what the five withdrawn domains had is missing.
    """
    rows = _rows("pile_weights.csv")
    columns = [column for column in rows[0] if column != "domain"]
    return {column: {row["domain"]: float(row[column]) for row in rows} for column in columns}


def benchmark_scores(case: int) -> dict[str, dict[str, float]]:
    """Returns the paper's scores of 1B models: method, then task, then score in percent.

    Args:
        case: 1 (all 17 domains) or 2 (trained on GitHub and Enron Emails).

    Raises:
        ValueError: When there is no such case.
    """
    if case not in CASES:
        raise ValueError(f"Expected case 1 or 2, actual {case!r}")
    scores: dict[str, dict[str, float]] = {}
    for row in _rows(f"case{case}.csv"):
        task = row.pop("Task")
        if task not in NO_TASKS:
            for method, score in row.items():
                scores.setdefault(METHODS.get(method, method), {})[task] = float(score)
    return scores


def average_score(scores: Mapping[str, float]) -> float:
    """Returns the mean over tasks of a method's scores, in percent.

    Raises:
        ValueError: When there are none.
    """
    if not scores:
        raise ValueError("Expected scores of at least one task, found none")
    return math.fsum(scores.values()) / len(scores)


def _rows(name: str) -> list[dict[str, str]]:
    text = resources.files(__name__).joinpath(name).read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))
