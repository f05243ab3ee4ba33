"""Case 2: two dissimilar domains, neither of them that of the validation set."""

from __future__ import annotations

from cases import case_main

ABOUT = """Case 2, modelled on the paper's: train on two dissimilar domains only (Python source and
licences; GitHub and Enron Emails in the paper, and with --data pile:FOLDER), with the same
validation set as Case 1."""
DOMAINS = ["python", "licences"]
PILE = {"domains": ["github", "enron_emails"], "validation": ["pile_cc"]}

if __name__ == "__main__":
    case_main("case2", ABOUT, PILE, domains=DOMAINS)
