"""The processes that share a search's batches, through Accelerate.

Every process draws the same batches, computes its share of their rows, and learns the same weights;
gradients are summed and losses gathered, so that a search on N processes is the search on one but
for the order in which numbers are added.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from bydore_pyro.errors import require


def number_of_processes() -> int:
    """Returns how many processes `torchrun` or `accelerate` started, 1 if neither did."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def _leave() -> None:
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


class Parallel:
    """This process's part of the work: all of it unless `torchrun` or `accelerate` started several.

    Args:
        cpu: Whether the processes compute on the CPU, where there are several.
        alone: Whether this process does all of the work although there are others, which do other
            work.

    Raises:
        DataError: When several processes were started and Accelerate is not installed.
    """

    def __init__(self, *, cpu: bool = True, alone: bool = False) -> None:
        self.count, self.index = (1 if alone else number_of_processes()), 0
        self._accelerator = None
        if self.count > 1:
            self._accelerator = require("accelerate", "target").Accelerator(cpu=cpu)
            self.index = self._accelerator.process_index
            atexit.register(_leave)  # without it, Gloo's threads abort some processes at their end

    def wait(self) -> None:
        """Returns when every process has come here."""
        if self._accelerator is not None:
            self._accelerator.wait_for_everyone()

    def agree(self, text: str) -> str:
        """Gives all processes the first process's text."""
        if self._accelerator is None:
            return text
        utils = require("accelerate.utils", "target")
        return str(utils.broadcast_object_list([text])[0])

    def largest(self, value: int) -> int:
        """Gives all processes the largest of their values."""
        if self._accelerator is None:
            return value
        own = torch.tensor([value], device=self._accelerator.device)
        return int(self._accelerator.gather(own).max())

    @property
    def is_main(self) -> bool:
        """Whether this process writes and prints."""
        return self.index == 0

    def own(self, rows: Tensor) -> Tensor:
        """Returns this process's share of the rows; the first rows fill the last shares up."""
        if self.count == 1:
            return rows
        each = -(-len(rows) // self.count)
        places = torch.arange(self.index * each, (self.index + 1) * each, device=rows.device)
        return rows[places % len(rows)]

    def own_factors(self, factors: Tensor) -> Tensor:
        """Returns this process's share of the rows' factors, 0 for those that fill up."""
        if self.count == 1:
            return factors
        each = -(-len(factors) // self.count)
        padded = nn.functional.pad(factors, (0, each * self.count - len(factors)))
        return padded[self.index * each : (self.index + 1) * each]

    def gather(self, own: Tensor, rows: int) -> Tensor:
        """Returns the values of all rows, in order, from all processes; without gradients."""
        if self._accelerator is None:
            return own
        return self._accelerator.gather(own.detach().contiguous())[:rows]

    def sum(self, tensors: Iterable[Tensor]) -> list[Tensor]:
        """Returns tensors summed over the processes."""
        if self._accelerator is None:
            return list(tensors)
        return [self._accelerator.reduce(tensor, reduction="sum") for tensor in tensors]
