"""The options of `bydore check`: which mixtures are trained, how often and how long."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Self

from bydore_pyro import pieces
from bydore_pyro.command_line import Checked, TokenCount, option
from bydore_pyro.setup.places import NATURAL, absolute, mixture_anywhere

RESULT = "answer"  # in place of a mixture's source: the one that the search found


@dataclass(frozen=True, kw_only=True)
class CheckConfig(Checked):
    """How a search's predictions are checked.

    Raises:
        ValueError: When an option is out of its range, no mixture is named, or one twice.
    """

    mixture: list[str] = option(
        [RESULT],
        "Mixtures on which the proxy is trained: 'answer' (the run's own), 'natural', 'uniform', or"
        " a run's folder, a file of weights, a published mixture.",
    )
    baseline: str = option(
        NATURAL, "Mixture from which differences are taken; the proxy is trained on it too."
    )
    seeds: int = option(
        2, "Trainings on each mixture. Their seeds follow the run's.", least=1, most=1000
    )
    tokens: TokenCount | None = option(
        None,
        "Length of each training in tokens, such as 4e6 or 0.4B. Losses are predicted for the "
        "length of the search. Default: that length.",
        above=0,
    )
    decay: bool = option(
        False,
        "Let the step size fall linearly to zero. Losses are predicted for a constant one, as in "
        "the search.",
    )
    data: str | None = option(
        None,
        "Where the run's text lies now. It must not have changed. Default: the original place.",
    )
    cluster: str | None = option(None, pieces.CLUSTER)
    out: str | None = option(
        None, "Folder of the trained proxies and of the results. Default: checks in RUN."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.mixture:
            raise ValueError("Expected a mixture to train on (--mixture), found none")
        for source in self.mixture:
            if self.mixture.count(source) > 1:
                raise ValueError(f"Expected every mixture once, found '{source}' twice")

    @property
    def sources(self) -> tuple[str, ...]:
        """The mixtures that the proxy is trained on, the baseline last unless it is named."""
        return tuple(dict.fromkeys((*self.mixture, self.baseline)))

    def anywhere(self) -> Self:
        """Returns options whose files and folders are found from any working directory."""

        def found(source: str) -> str:
            return source if source == RESULT else mixture_anywhere(source)

        return dataclasses.replace(
            self,
            mixture=[found(source) for source in self.mixture],
            baseline=found(self.baseline),
            data=self.data and absolute(self.data),
        )
