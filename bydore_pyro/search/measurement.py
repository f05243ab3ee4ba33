"""What a round measured, kept: a question about another target needs that target's gradients alone.

``measured-1`` and so on, in the run's folder, hold the proxy at the round, the sketches of every
domain's gradients in float16, and the documents that they come from. Files are hashed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bydore_pyro.core import Sample
from bydore_pyro.proxy import GradientSketch
from bydore_pyro.search.search import check_finite
from bydore_pyro.utils import DataError, appearing_folder, read_tree, write_tree

__all__ = ["Measurement", "keep_measurement", "read_measurements", "sample_of"]

FORMAT = "bydore_pyro.measurement/1"


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What one round measured.

    Attributes:
        step: Steps of the proxy before it.
        parameters: Of the proxy, by name.
        samples: A sample of each domain, in the order of the search.
        losses: Of the domains ``(K,)``, nats per token.
        hashes: Of the domains' text, by name, in the same order; empty before it is kept.
    """

    step: int
    parameters: Mapping[str, Tensor]
    samples: tuple[Sample, ...]
    losses: Tensor
    hashes: Mapping[str, str] = field(default_factory=dict)


def sample_of(
    sketch: GradientSketch, batch: Tensor, documents: np.ndarray, step: int, name: str
) -> tuple[Sample, float]:
    """Measures the gradients of sequences at a proxy's parameters.

    Args:
        sketch: Of that proxy.
        batch: Sequences ``(n, T)``.
        documents: The number of each one's document ``(n,)``.
        step: Of the proxy, for an error's text.
        name: What the sequences are of, for an error's text.

    Returns:
        The sample, and the sequences' mean loss, nats per token.

    Raises:
        NonFiniteError: When a loss or a gradient is NaN or infinite.
    """
    sketches, losses = sketch(batch, "gradients")
    check_finite("signal", losses, step, [name] * len(losses))
    check_finite("gradient", sketches.sum(1), step, [name] * len(losses))
    return Sample(sketches, torch.from_numpy(documents)), float(losses.mean())


def keep_measurement(
    folder: Path, number: int, measurement: Measurement, run: Mapping[str, Any]
) -> None:
    """Writes what a round measured, whole or not at all; what is there stays.

    Args:
        folder: The run's.
        number: Of the round, from 1.
        measurement: What it measured.
        run: What it belongs to, plain values; `domains` holds the hashes of their text.
    """
    path = folder / f"measured-{number}"
    if path.is_dir():
        return
    largest = [float(sample.gradients.abs().max()) or 1.0 for sample in measurement.samples]
    tree = {
        "step": measurement.step,
        "parameters": dict(measurement.parameters),
        "losses": measurement.losses,
        "largest": largest,
        "sketches": [
            (sample.gradients / most).half()
            for sample, most in zip(measurement.samples, largest, strict=True)
        ],
        "documents": [sample.documents for sample in measurement.samples],
    }
    with appearing_folder(path) as aside:
        write_tree(aside, tree, {"format": FORMAT, **run})


def read_measurements(folder: Path, run: Mapping[str, Any]) -> list[Measurement]:
    """Reads what the rounds of a search measured, in their order.

    Args:
        folder: The run's.
        run: What they must belong to, as `keep_measurement` was told. The text of domains may
            have changed since: whoever reads compares `Measurement.hashes`.

    Raises:
        DataError: When there are none, one is damaged, or belongs to another run.
    """
    found: list[Measurement] = []
    while (path := folder / f"measured-{len(found) + 1}").is_dir():
        try:
            header, tree = read_tree(path)
        except ValueError as error:
            raise DataError(f"Expected what a round measured in {path}: {error}") from None
        expected = {"format": FORMAT, **run}
        for name, value in expected.items():
            if name != "domains" and header.get(name) != value:
                raise DataError(f"Expected {name} {value!r} in {path}, found {header.get(name)!r}")
        samples = tuple(
            Sample(sketch.float() * most, documents)
            for sketch, most, documents in zip(
                tree["sketches"], tree["largest"], tree["documents"], strict=True
            )
        )
        found.append(
            Measurement(
                step=tree["step"],
                parameters=tree["parameters"],
                samples=samples,
                losses=torch.as_tensor(tree["losses"]),
                hashes=header["domains"],
            )
        )
    if not found:
        raise DataError(
            f"Expected a finished search by matching with its measured-1, found none in {folder}"
        )
    return found
