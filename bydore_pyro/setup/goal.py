"""What is asked of a mixture: the options, and the question that they ask of domains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bydore_pyro.answer import Objective
from bydore_pyro.command_line import Checked, option, warn_idle
from bydore_pyro.data import Domains, check_needed, gathered
from bydore_pyro.errors import DataError, distinct
from bydore_pyro.mixture import mixture_from

NATURAL = "natural"
KNOWN = ("uniform", NATURAL)  # mixtures without a file


@dataclass(frozen=True, kw_only=True)
class GoalConfig(Checked):
    """What is asked of a mixture."""

    objective: Objective = option(
        "mean",
        "What the mixture makes small: 'mean', the targets' mean loss by their shares; 'worst', "
        "the loss of the worst target; 'none_worse', the mean, with no target worse than under "
        "--baseline.",
    )
    baseline: str = option(
        "natural",
        "Mixture that the answer is compared with: 'natural' (the domains' own sizes; of a sampled "
        "one, that of all its text), 'uniform', "
        "or a run's folder, a file of weights, a published mixture.",
    )
    tolerance: float = option(
        0.02,
        "With none_worse: nats per token by which a target may be worse than under the baseline.",
        above=0,
    )
    probability: float = option(
        0.9,
        "With none_worse: probability that no target at all is worse by more.",
        above=0,
        below=1,
    )
    at_least: list[str] = option([], "Smallest weights, as NAME=SHARE.")
    at_most: list[str] = option([], "Largest weights, as NAME=SHARE.")

    def __post_init__(self) -> None:
        super().__post_init__()
        _shares_of(self.at_least)
        _shares_of(self.at_most)

    def warn_of_idle(self) -> None:
        """Warns of options that this objective does not ask for."""
        if self.objective != "none_worse":
            warn_idle(self, ("tolerance", "probability"), f"objective {self.objective}")


def _shares_of(entries: Sequence[str]) -> dict[str, float]:
    """Returns NAME=SHARE entries by name."""
    found: dict[str, float] = {}
    for entry in entries:
        name, _, share = entry.rpartition("=")
        try:
            value = float(share)
        except ValueError:
            value = math.nan
        if not name or not 0 <= value <= 1 or name in found:
            raise ValueError(f"Expected each domain once as NAME=SHARE in [0, 1], found '{entry}'")
        found[name] = value
    return found


def bounds_of(config: GoalConfig, domains: Domains) -> tuple[dict[str, float], dict[str, float]]:
    """Returns the smallest weights, and the largest, of the domains that the options name.

    Raises:
        DataError: When a domain is unknown, or no mixture lies within them.
    """
    least, most = _shares_of(config.at_least), _shares_of(config.at_most)
    check_needed([*least, *most], domains.names)
    for name in least.keys() & most.keys():
        if least[name] > most[name]:
            low, high = distinct(least[name], most[name], 6)
            raise DataError(
                f"Expected --at_least up to --at_most, found {low} and {high} of '{name}'"
            )
    needed, room = (  # exact sums: .05 + .55 + .3 + .1 is 1
        math.fsum(least.values()), math.fsum(most.get(name, 1.0) for name in domains.names)
    )  # fmt: skip
    if needed > 1 or room < 1:
        raise DataError(
            "Expected --at_least to sum to at most 1 and --at_most to at least 1, found "
            f"{distinct(1, needed, 6)[1]} and {distinct(1, room, 6)[1]}"
        )
    return least, most


def baseline_name(config: GoalConfig) -> str:
    """Returns what the baseline is called beside the other references."""
    return config.baseline if config.baseline in KNOWN else "baseline"


def references_of(config: GoalConfig, domains: Domains) -> dict[str, Tensor]:
    """Returns the weights ``(K,)`` that an answer is compared with.

    Raises:
        DataError: When the baseline is no mixture of these domains.
    """
    found = {name: weights_of(name, domains) for name in KNOWN}
    if config.baseline not in KNOWN:
        found["baseline"] = weights_of(config.baseline, domains)
    return found


def weights_of(source: str, domains: Domains) -> Tensor:
    """Returns the weights ``(K,)`` of 'uniform', 'natural', or a mixture that `mixture_from` takes.

    Raises:
        DataError: When it is no mixture of these domains.
    """
    if source == NATURAL:
        shares = domains.corpus.natural(domains.names)
        return torch.tensor([*shares.values()], dtype=torch.float64)
    if source in KNOWN:
        return torch.ones(domains.num_domains).double() / domains.num_domains
    given = mixture_from(source)
    members = [name for pool in domains.pools.values() for name in pool]
    given.check({*domains.names, *members}, domains.corpus.tokenizer_sha256, source)
    weights = gathered(given.as_dict(), domains.pools)
    return torch.tensor([weights.get(name, 0.0) for name in domains.names]).double()
