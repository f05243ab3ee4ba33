"""Cautions: what makes a result on some text less sure, for the terminal and for the notes."""

from __future__ import annotations

import numpy as np

from bydore_pyro import data, terminal
from bydore_pyro.errors import listed
from bydore_pyro.setup.options import Options
from bydore_pyro.setup.targets import targets_are_domains

CAUTIONS = "cautions"  # in a store's index: of copies, found when a target is read
FEW_DOCUMENTS = 30
FEW_NAMES = 5


def cautions_of(options: Options, domains: data.Domains) -> list[str]:
    """Returns what is to be known of a run's text, a line each; nothing where all is well.

    Documents are the witnesses that intervals rest on, of each target and of each domain. Without
    held-out text of every domain there is no law of losses.
    """
    corpus, found = domains.corpus, [*domains.corpus.index.get(CAUTIONS, ())]
    counts = {name: len(np.unique(one.documents)) for name, one in domains.targets.items()}
    if targets_are_domains(domains) or len(counts) > FEW_DOCUMENTS:
        counts = {"all": sum(counts.values())}
    if few := _few(counts):
        found.append(
            f"documents in the validation set: {few}. With fewer than {FEW_DOCUMENTS} the "
            "intervals may be too narrow for other text of its kind"
        )
    trained = {name: len(corpus.train[name].ends) for name in domains.names}
    if few := _few(trained):
        found.append(
            f"documents of domains: {few}. With fewer than {FEW_DOCUMENTS} what is measured of a "
            "domain is rough"
        )
    length = domains.sequence_length
    lacking = [name for name in domains.names if len(corpus.validation[name]) < length]
    if lacking and options.run.evidence == "matching":
        found.append(
            f"no losses are forecast: fewer than {length} tokens were held out of "
            f"{listed(lacking, FEW_NAMES)}; bydore prepare --validation_fraction holds out more, "
            "and --domains leaves a domain out"
        )
    return found


def tell_cautions(options: Options, domains: data.Domains) -> None:
    """Prints them, but for those that were printed when the targets were read."""
    told = domains.corpus.index.get(CAUTIONS, ())
    for line in cautions_of(options, domains)[len(told) :]:
        terminal.tell(f"warning: {line}")


def _few(counts: dict[str, int]) -> str:
    """Returns the names of those that have few, with their numbers."""
    few = sorted((n, name) for name, n in counts.items() if n < FEW_DOCUMENTS)
    return listed([f"{name} {n}" for n, name in few], FEW_NAMES)
