"""The sequences of a run, served exactly in the shares of its mixture."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from bydore_pyro.data import SequenceStream, TokenStore, open_store
from bydore_pyro.target.mixture_order import MixtureOrder
from bydore_pyro.target.mixture_schedule import MixtureSchedule
from bydore_pyro.utils import DataError

__all__ = ["MixtureDataset"]

STREAM = 5  # apart from the streams of a search on the same text


class MixtureDataset(Dataset[dict[str, Tensor]]):
    """Sequence ``n`` of a run: of domain ``order[n]``, at that domain's own next position.

    It depends on `n` and on what is given here, not on what was read before or on who reads: any
    number of processes, started at any point, serve the same run. No sequence of a domain comes
    twice before all have come once.

    Args:
        store: The tokens.
        schedule: The mixture, or the mixtures.
        sequences: Length of the run.
        sequence_length: ``T``, tokens in a sequence.
        seed: Of the order of the sequences within each domain.

    Raises:
        DataError: When a domain that has weight is not in the store or shorter than one sequence.
    """

    def __init__(
        self,
        store: TokenStore,
        schedule: MixtureSchedule,
        sequences: int,
        sequence_length: int,
        seed: int = 0,
    ) -> None:
        for name in schedule.names:
            tokens = len(store.train.get(name, ()))
            if tokens < sequence_length:
                raise DataError(
                    f"Expected at least one sequence of {sequence_length} tokens of domain "
                    f"'{name}', which has weight, found {tokens} tokens"
                )
        self.order = MixtureOrder(schedule, sequences)
        self._streams = [
            SequenceStream(
                store.train[name],
                sequence_length,
                [seed, STREAM, *name.encode()],
                taken=partial(store.taken, "train", name),
            )
            for name in schedule.names
        ]
        self.sequence_length = sequence_length
        self._given = (store.folder, schedule, sequences, sequence_length, seed)

    def __len__(self) -> int:
        """Sequences of the run."""
        return len(self.order)

    def __getitem__(self, n: int) -> dict[str, Tensor]:
        """Returns sequence `n`: `input_ids` and `labels`, both the tokens ``(T,)``."""
        domain, place = self.order.locate(n)
        row = self._streams[domain].read(place, 1)[0]
        tokens = torch.from_numpy(row.astype(np.int64))
        return {"input_ids": tokens, "labels": tokens}

    def epochs(self) -> dict[str, float]:
        """Returns how many times the run reads each domain's text."""
        asked = self.order.quotas(len(self)).tolist()
        return {
            name: count / stream.count
            for name, count, stream in zip(self.order.names, asked, self._streams, strict=True)
        }

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """A process that is spawned opens the store again instead of taking a copy of its text."""
        return _reopened, self._given


def _reopened(folder: Path, *given: Any) -> MixtureDataset:
    return MixtureDataset(open_store(folder, verify=False), *given)
