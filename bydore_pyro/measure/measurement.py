"""A measurement: gradients of every domain's text at the parameters of a model. It knows no target.

``measured-1`` and so on, in a run's folder, hold the model's parameters, the sketches of every
domain's gradients in float16, and the documents that they come from. Files are hashed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bydore_pyro import core, data, files, proxy
from bydore_pyro.errors import DataError
from bydore_pyro.pieces import run_pieces

FORMAT, MEASURED = "bydore_pyro.measurement/4", "measured"
DELAY = 2.0  # seconds; a round that is over by then shows no bar of its own


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What was measured of the domains at one step of a model.

    Attributes:
        step: Steps of the model before it.
        parameters: Of the model, by name; as `measure` returns them they share its memory.
        samples: A sample of each domain, by name, as float16 keeps it.
        held_out: Losses on held-out text by domain (`read_losses`), nats per token; empty where
            nothing was read.
        hashes: Of the domains' text, by name; empty before it is kept.
        sha256: Of its file; "" before it is kept.
        folder: Where it is kept; None before.
    """

    step: int
    parameters: Mapping[str, Tensor]
    samples: Mapping[str, core.Sample]
    held_out: Mapping[str, float] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    sha256: str = ""
    folder: Path | None = None


def sample_of(
    sketch: proxy.GradientSketch,
    batch: Tensor,
    documents: np.ndarray,
    step: int,
    name: str,
    done: Callable[[int], object] = lambda count: None,
) -> core.Sample:
    """Measures gradients at a model's parameters: of sequences ``(n, T)`` of documents ``(n,)``;
    tells how many more are `done`.

    Raises:
        NonFiniteError: When a loss or a gradient is NaN or infinite; it names the step and whose.
    """
    sketches, losses = sketch(batch, "gradients", done)
    proxy.check_finite("loss", losses, step, [name] * len(losses))
    proxy.check_finite("gradient", sketches.sum(1), step, [name] * len(losses))
    return core.Sample(sketches, torch.from_numpy(documents))


def measure(
    sketch: proxy.GradientSketch,
    domains: data.Domains,
    sequences: int,
    step: int,
    known: Mapping[str, core.Sample] | None = None,
    cluster: str | None = None,
) -> Measurement:
    """Measures all domains at the parameters that a model has now.

    Args:
        sketch: Of the model's gradients.
        domains: Whose sequences that were kept aside are measured.
        sequences: How many of each domain, as far as it has them.
        step: Of the model.
        known: Samples that need not be measured, by domain.
        cluster: Where a domain is a piece, see `bydore_pyro.pieces`.

    Raises:
        NonFiniteError: See `sample_of`.
    """
    kept = dict(zip(domains.names, domains.measurable().tolist(), strict=True))
    found = dict(known or {})
    anew = [name for name in domains.names if name not in found]
    pieces = [(name, *domains.measure_batch(name, min(sequences, kept[name]))) for name in anew]
    found |= dict(zip(anew, sampled(sketch, pieces, step, cluster), strict=True))
    theta = sketch.model.parameters
    return Measurement(
        step=step,
        parameters=theta,
        samples={name: found[name] for name in domains.names},
    )


def set_parameters(model: proxy.MeasuredModel, measured: Measurement) -> None:
    """Gives a model the parameters at which a measurement was made.

    Raises:
        DataError: When it is another model.
    """
    for name, value in model.parameters.items():
        kept = measured.parameters.get(name)
        if kept is None or kept.shape != value.shape:
            raise DataError(
                f"Expected the model that was measured, found another: its {name} is "
                f"{tuple(value.shape)}"
            )
        value.copy_(kept)


def sampled(
    sketch: proxy.GradientSketch,
    pieces: Sequence[tuple[str, Tensor, np.ndarray]],
    step: int,
    cluster: str | None = None,
) -> list[core.Sample]:
    """Measures several names, each with sequences ``(n, T)`` of documents ``(n,)``; as `sample_of`,
    on a cluster as for `measure`."""
    on_gpu = any(parameter.is_cuda for parameter in sketch.model.parameters.values())
    one = partial(_piece, _counting_anew(sketch), step)
    sizes = [len(batch) for _, batch, _ in pieces]
    about: Any = {"label": "gradients", "sizes": sizes, "unit": "sequence", "delay": DELAY}
    found = dict(run_pieces(one, pieces, cluster, gpus=int(on_gpu), **about))
    measured = [found[number] for number in range(len(pieces))]
    for *_, spent in measured:
        sketch.model.cost.add(spent)
    return [thawed(*frozen(core.Sample(z, at))) for z, at, _ in measured]


def _piece(
    sketch: proxy.GradientSketch,
    step: int,
    piece: tuple[str, Tensor, np.ndarray],
    done: Callable[[int], object],
) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """A domain's gradients, their documents, and what they cost."""
    name, batch, documents = piece
    own = _counting_anew(sketch)
    sample = sample_of(own, batch, documents, step, name, done)
    return sample.gradients, sample.documents, own.model.cost.report()["parts"]


def _counting_anew(sketch: proxy.GradientSketch) -> proxy.GradientSketch:
    own = copy.copy(sketch)
    own.model = sketch.model.counting_anew()
    return own


def frozen(sample: core.Sample) -> tuple[Tensor, float, Tensor]:
    """Returns what is kept of a sample: its sketches as shares of the largest number, float16; that
    number; the documents."""
    largest = float(sample.gradients.abs().max()) or 1.0
    return (sample.gradients / largest).half(), largest, sample.documents


def thawed(sketches: Tensor, largest: float, documents: Tensor) -> core.Sample:
    """Returns the sample of which `frozen` has kept so much."""
    return core.Sample(sketches.float() * largest, documents)


def keep_measurement(
    folder: Path, number: int, measurement: Measurement, belongs: Mapping[str, Any]
) -> Measurement:
    """Writes a measurement, whole or not at all; an existing one stays. Returns it as kept.

    Args:
        folder: The run's.
        number: Of the round, from 1.
        measurement: What it measured.
        belongs: What it belongs to, plain values; `domains` holds the hashes of their text.

    Raises:
        RunFolderError: When there is one of another run.
    """
    kept = files.Kept(folder / f"{MEASURED}-{number}", _key(belongs))
    kept.get_or(
        lambda: {
            "step": measurement.step,
            "parameters": dict(measurement.parameters),
            "held_out": dict(measurement.held_out),
            "domains": dict(belongs["domains"]),
            "samples": {name: frozen(sample) for name, sample in measurement.samples.items()},
        }
    )
    return replace(measurement, folder=kept.folder, sha256=data.file_sha256(kept.file))


def read_measurements(folder: Path, belongs: Mapping[str, Any]) -> list[Measurement]:
    """Reads the measurements of a search, in the order of its rounds, up to the first that is
    missing or damaged. Nothing is changed.

    Args:
        folder: The run's.
        belongs: As `keep_measurement` got it. The text of domains may have changed since:
            whoever reads compares `Measurement.hashes`.

    Raises:
        RunFolderError: When one belongs to another run.
    """
    return [
        Measurement(
            step=tree["step"],
            parameters=tree["parameters"],
            samples={name: thawed(*sample) for name, sample in tree["samples"].items()},
            held_out=tree["held_out"],
            hashes=tree["domains"],
            sha256=data.file_sha256(kept.file),
            folder=kept.folder,
        )
        for kept, tree in files.kept_series(folder, MEASURED, _key(belongs), writes=False)
    ]


def _key(belongs: Mapping[str, Any]) -> dict[str, Any]:
    own = {name: value for name, value in belongs.items() if name != "domains"}
    return {"format": FORMAT, **own}
