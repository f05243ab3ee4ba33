"""Case 1: all domains; the validation set is held-out text of one of them."""

from __future__ import annotations

from cases import case_main

ABOUT = """Case 1, after the paper's: search the weights of all domains for a validation set drawn
from held-out docstrings (the paper's, and that of --data pile:FOLDER, is drawn from Pile-CC), by
the paper's Algorithm 1 and by gradient matching; then train fresh models on both mixtures, on
uniform weights and on the validation's own domain alone, and compare. With --evidence linear
Algorithm 1 is run alone."""
PILE = {"validation": ["pile_cc"]}

if __name__ == "__main__":
    case_main("case1", ABOUT, PILE)
