"""Case 1: all domains; the validation set is held-out text of one of them."""

from __future__ import annotations

from functools import partial

from cases import CaseOptions, case
from common import run_main

ABOUT = """Case 1, modelled on the paper's: find the weights of all domains for a validation set of
held-out docstrings (Pile-CC in the paper, and with --data pile:FOLDER), by the paper's Algorithm 1
and by gradient matching, and again without their own domain. Then train fresh models on all
answers, on uniform weights and on what --compare names, and compare. With --evidence linear only
Algorithm 1 runs."""
PILE = {"validation": ["pile_cc"]}

if __name__ == "__main__":
    run_main(
        *(partial(case, "case1"), "case1", ABOUT, CaseOptions), pile=PILE, resumable=True, steps=250
    )
