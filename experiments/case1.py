"""Case 1: all domains; the validation set is held-out text of one of them."""

from __future__ import annotations

from functools import partial

from cases import CaseOptions, case
from common import run_main
from paper_scale import PAPER

ABOUT = """Case 1, after the paper's: search the weights of all domains for a validation set drawn
from held-out docstrings (the paper's, and that of --data pile:FOLDER, is drawn from Pile-CC), then
train fresh models on the learned weights, on uniform weights and on the validation's own domain
alone, and compare."""
PILE = {"validation": ["pile_cc"]}

if __name__ == "__main__":
    run_main(
        partial(case, "case1"),
        "case1",
        ABOUT,
        CaseOptions,
        pile=PILE,
        presets={"--scale=paper": PAPER},
        resumable=True,
        steps=250,
    )
