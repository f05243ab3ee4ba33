"""What others published of the Pile: its domains' names, and weights for them.

Where the weights come from stands in the `README.md` beside this file.
"""

from __future__ import annotations

import csv
from importlib import resources

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


def pile_weights() -> dict[str, dict[str, float]]:
    """Returns the Pile's published weights: column, then domain's short name, then weight.

    The columns are `human`, `doremi`, `regmix` and `token_share`. They are as published, and the
    first two sum to 0.787 and 0.815: what the five withdrawn domains had is missing.
    """
    text = resources.files(__name__).joinpath("pile_weights.csv").read_text("utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    columns = [column for column in rows[0] if column != "domain"]
    return {column: {row["domain"]: float(row[column]) for row in rows} for column in columns}
