"""Case 2: two unlike domains, neither of them the validation's."""

from __future__ import annotations

from common import case
from options import run_main

ABOUT = """Case 2, after the paper's: train on two unlike domains only (Python source and licences;
the paper's are GitHub and Enron Emails), with the same validation set as Case 1."""

if __name__ == "__main__":
    domains = ["python", "licences"]
    run_main(lambda options: case("case2", options), "case2", ABOUT, domains=domains, steps=250)
