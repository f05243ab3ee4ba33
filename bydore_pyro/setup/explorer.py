"""What the page on a run needs to try other weights: `explorer.safetensors`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor

from bydore_pyro import answer, data, files
from bydore_pyro.setup.options import Options
from bydore_pyro.setup.question import weights_in

EXPLORER = "explorer.safetensors"
LINEAR = "Linear evidence reads no losses of the domains."
TOO_FEW = (
    "The law of losses needs losses of all these domains, read twice or more of runs that trained "
    "on their text. This run has none of some domain, or too few."
)


def leave_explorer(
    folder: files.RunFolder,
    options: Options,
    domains: data.Domains,
    question: answer.Question,
    found: answer.Answer,
    given: Mapping[str, Tensor] | None = None,
) -> None:
    """Writes what the page on a run needs (`bydore_pyro.answer.explorer_of`).

    Args:
        folder: Of the run.
        options: Of the run.
        domains: The text.
        question: What was asked.
        found: The answer.
        given: Other mixtures ``(K,)`` to compare with, beside those of the question.
    """
    question = replace(question, references={**question.references, **(given or {})})
    page, numbers = answer.explorer_of(
        question,
        weights_in(found.mixture, domains),
        found.forecast,
        sizes=domains.most_weights(1.0, 1.0),
        tokens=options.run_tokens,
        reason=LINEAR if options.run.evidence == "linear" else TOO_FEW,
    )
    folder.write_tensors(EXPLORER, numbers, page)
