"""Case 2: two dissimilar domains, neither of them that of the validation set."""

from __future__ import annotations

from functools import partial

from cases import CaseOptions, case
from common import run_main

ABOUT = """Case 2, modelled on the paper's: train on two dissimilar domains only (Python source and
licences; GitHub and Enron Emails in the paper, and with --data pile:FOLDER), with the same
validation set as Case 1."""
DOMAINS = ["python", "licences"]
PILE = {"domains": ["github", "enron_emails"], "validation": ["pile_cc"]}

if __name__ == "__main__":
    run_main(
        *(partial(case, "case2"), "case2", ABOUT, CaseOptions),
        pile=PILE,
        resumable=True,
        steps=250,
        domains=DOMAINS,
    )
