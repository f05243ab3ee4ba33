"""A live mixture in `transformers.Trainer`: a data set follows it, a callback measures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info
from transformers import TrainerCallback

from bydore_pyro.live.live_mixture import LiveMixture


class LiveDataset(IterableDataset[dict[str, Tensor]]):
    """Sequences of a live mixture without end, as `input_ids` and `labels` ``(T,)``.

    The Trainer reads one micro-batch ahead, so new weights hold from the next but one on. Workers
    would read further ahead, each in an order of its own.

    Args:
        live: Its weights are followed.

    Raises:
        ValueError: When a worker of a loader reads; `dataloader_num_workers` must be 0.
    """

    def __init__(self, live: LiveMixture) -> None:
        self.live = live

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        if get_worker_info() is not None:
            raise ValueError("Expected dataloader_num_workers=0 with a LiveDataset, found workers")
        while True:
            (tokens,) = self.live.batch(1).cpu()
            yield {"input_ids": tokens, "labels": tokens}


class LiveCallback(TrainerCallback):
    """Measures the Trainer's model where a round is due.

    Args:
        live: Its `first` round is after so many steps of the optimiser.
    """

    def __init__(self, live: LiveMixture) -> None:
        self.live = live

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Measures after the step, but not after the last."""
        if self.live.due(state.global_step) and state.global_step < state.max_steps:
            self.live.measure(model, state.global_step)
