"""The Pile's domains by their names in its public copies (Gao et al., arXiv 2101.00027)."""

from __future__ import annotations

__all__ = ["PILE_COLUMN", "PILE_DOMAINS", "PILE_WITHDRAWN"]

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
