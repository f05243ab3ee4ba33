"""Case 2: two unlike domains, neither of them the validation's."""

from __future__ import annotations

from cases import case_main

ABOUT = """Case 2, after the paper's: train on two unlike domains only (Python source and licences;
GitHub and Enron Emails, as in the paper, with --data pile:FOLDER), with the same validation set as
Case 1."""
DOMAINS = ["python", "licences"]
PILE = {"domains": ["github", "enron_emails"], "validation": ["pile_cc"]}

if __name__ == "__main__":
    case_main("case2", ABOUT, PILE, domains=DOMAINS)
