"""Weights of any file for the domains of a store: by its names and its counts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bydore_pyro.data.pools import pools_of
from bydore_pyro.data.store import TokenStore
from bydore_pyro.data.supply import supply_of
from bydore_pyro.mixture import Mixture, mixture_from


def read_mixture(
    source: str | Path, store: TokenStore, names: Sequence[str] | None = None
) -> Mixture:
    """Returns the mixture that a source stands for, for a store: its domains are called as there,
    and its numbers of documents or epochs become shares of tokens by what there is of each domain.

    Args:
        source: What `mixture_from` takes.
        store: The text.
        names: The domains that are asked about; the domains of a pool among them stand for it. All
            of the store when None.

    Raises:
        DataError: See `mixture_from`. The mixture may have domains that the store does not have:
            `Mixture.check` refuses them.
        RunFolderError: See `mixture_from`.
    """
    pools = pools_of(store)
    wanted = store.names if names is None else names
    known = [one for name in wanted for one in pools.get(name, [name])]
    return mixture_from(source, names=known, supply=supply_of(store.index, known))
