"""Rounds of gradient evidence on a model, and the posterior of the weights that they lead to.

1. `measure`: gradients of every domain's text at the parameters that the model has now
2. `evidence_of`: their evidence for one target
3. `bydore_pyro.core.match`: the evidence of all rounds
4. `exact_posterior`: draws from its posterior; `MatchingPosterior` starts them with a guide

A measurement knows no target: `bydore ask` needs another target's gradients alone. ``measured-1``
and so on, in a run's folder, hold the model's parameters at the round, the sketches of every
domain's gradients in float16, and the documents that they come from. Files are hashed.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from bydore_pyro.core import (
    MOST_EXACT,
    Inference,
    InferenceConfig,
    Matching,
    MeasuredRound,
    Metric,
    MixtureGuide,
    PriorNetwork,
    Sample,
    corrected_draws,
    exact_draws,
    guide_draws,
    guide_fit,
    infer_and_refine,
    measured_round,
    mixture_model,
)
from bydore_pyro.data import Domains
from bydore_pyro.proxy import GradientSketch, ShardedSketch
from bydore_pyro.search.state import check_finite
from bydore_pyro.utils import DataError, appearing_folder, read_tree, run_pieces, write_tree

if TYPE_CHECKING:
    import arviz

__all__ = [
    "MatchingPosterior",
    "Measurement",
    "evidence_of",
    "exact_posterior",
    "keep_measurement",
    "measure",
    "read_measurements",
    "sample_of",
    "sampled",
]

FORMAT = "bydore_pyro.measurement/1"
WEIGHED = 4000  # draws of the guide whose k-hat is told
# Chains that begin near the optimum: how many, and which share of a flat draw sets them apart.
CHAINS, APART, END = 400, 0.1, 1e-9


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What one round measured of the domains.

    Attributes:
        step: Steps of the model before it.
        parameters: Of the model, by name.
        samples: A sample of each domain, in the order of the search.
        losses: Of the domains ``(K,)``, nats per token; NaN where a sample was known.
        hashes: Of the domains' text, by name, in the same order; empty before it is kept.
    """

    step: int
    parameters: Mapping[str, Tensor]
    samples: tuple[Sample, ...]
    losses: Tensor
    hashes: Mapping[str, str] = field(default_factory=dict)


def sample_of(
    sketch: GradientSketch | ShardedSketch,
    batch: Tensor,
    documents: np.ndarray,
    step: int,
    name: str,
) -> tuple[Sample, float]:
    """Measures gradients at a model's parameters: of sequences ``(n, T)`` of documents ``(n,)``.

    Returns:
        The sample, and the sequences' mean loss, nats per token.

    Raises:
        NonFiniteError: When a loss or a gradient is NaN or infinite; it tells the step and whose.
    """
    sketches, losses = sketch(batch, "gradients")
    check_finite("signal", losses, step, [name] * len(losses))
    check_finite("gradient", sketches.sum(1), step, [name] * len(losses))
    return Sample(sketches, torch.from_numpy(sketch.witnesses(documents))), float(losses.mean())


def measure(
    sketch: GradientSketch | ShardedSketch,
    domains: Domains,
    most: int,
    step: int,
    known: Mapping[str, Sample] | None = None,
    cluster: str | None = None,
) -> Measurement:
    """Measures a round of all domains at the parameters that a model has now.

    Args:
        sketch: Of the model's gradients.
        domains: Whose sequences that were kept aside are measured.
        most: Sequences of each domain, as far as it has them.
        step: Of the model.
        known: Samples that need not be measured, by domain.
        cluster: Where a domain is a piece, see `bydore_pyro.utils.pieces`.

    Raises:
        NonFiniteError: See `sample_of`.
    """
    kept = dict(zip(domains.names, domains.measurable().tolist(), strict=True))
    found = {name: (sample, float("nan")) for name, sample in (known or {}).items()}
    anew = [name for name in domains.names if name not in found]
    pieces = [(name, *domains.measure_batch(name, min(most, kept[name]))) for name in anew]
    found |= dict(zip(anew, sampled(sketch, pieces, step, cluster), strict=True))
    samples, losses = zip(*(found[name] for name in domains.names), strict=True)
    theta = sketch.model.parameters
    return Measurement(step=step, parameters=theta, samples=samples, losses=torch.tensor(losses))


def sampled(
    sketch: GradientSketch | ShardedSketch,
    pieces: Sequence[tuple[str, Tensor, np.ndarray]],
    step: int,
    cluster: str | None = None,
) -> list[tuple[Sample, float]]:
    """Returns samples of names, sequences ``(n, T)`` and documents ``(n,)``, and their mean losses,
    nats per token; as `sample_of`, on a cluster as for `measure`."""
    on_gpu = any(parameter.is_cuda for parameter in sketch.model.parameters.values())
    one = partial(_piece, _counting_anew(sketch), step)
    found = dict(run_pieces(one, pieces, cluster, gpus=int(on_gpu)))
    measured = [found[number] for number in range(len(pieces))]
    for *_, spent in measured:
        sketch.model.cost.add(spent)
    # A copy lies where torch lays its own: sums of products depend on the address modulo 16.
    return [(Sample(z.clone(), documents), loss) for z, documents, loss, _ in measured]


def _piece(
    sketch: GradientSketch | ShardedSketch,
    step: int,
    piece: tuple[str, Tensor, np.ndarray],
    _: object,
) -> tuple[Tensor, Tensor, float, dict[str, Any]]:
    """A domain's gradients, their documents, mean loss, and what they cost."""
    name, batch, documents = piece
    own = _counting_anew(sketch)
    sample, loss = sample_of(own, batch, documents, step, name)
    return sample.gradients, sample.documents, loss, own.model.cost.report()["parts"]


def _counting_anew(sketch: GradientSketch | ShardedSketch) -> GradientSketch | ShardedSketch:
    own = copy.copy(sketch)
    own.model = sketch.model.counting_anew()
    return own


def evidence_of(
    domains: Sequence[Sample], target: Sample, metric: Metric | None = None
) -> MeasuredRound:
    """Returns the evidence of a round for a target, in the metric of the round's domains, which
    may be given."""
    metric = metric or Metric(domains)
    return measured_round([metric.of(sample) for sample in domains], metric.of(target))


def exact_posterior(
    found: Matching,
    names: Sequence[str],
    start: Tensor | None = None,
    *,
    chains: int = 4,
    draws: int = 1000,
    seed: int = 0,
) -> arviz.InferenceData:
    """Draws from the posterior of the evidence of rounds (`bydore_pyro.core.exact_draws`).

    Args:
        found: The evidence, of K domains.
        names: Of the domains.
        start: Where chains begin, ``u = s w`` ``(C, K)``; near the optimum when None.
        chains: That the draws are told as.
        draws: Of each of these.
        seed: Of the draws.

    Returns:
        A group `posterior`: weights ``w`` and scale ``s``; its attribute `corrected` tells whether
        the chains stood still.
    """
    if start is None:
        ones = torch.ones(CHAINS, len(names), dtype=torch.float64)
        flat = torch._sample_dirichlet(ones, torch.Generator().manual_seed(seed))
        start = max(found.scale, END) * ((1 - APART) * found.weights + APART * flat) + END
    exact = exact_draws(
        *(found.linear[None], found.precision[None], start[None]),
        concentrations=found.concentrations,
        draws=-(-chains * draws // len(start)),
        seed=seed,
    )
    count = chains * draws
    posterior = _labelled(exact.weights[0, :count], exact.scale[0, :count], names, chains)
    posterior["posterior"].attrs.update(corrected=int(exact.settled))
    return posterior


def _labelled(w: Tensor, s: Tensor, names: Sequence[str], chains: int) -> arviz.InferenceData:
    import arviz

    sites = {"w": w.numpy().reshape(chains, -1, len(names)), "s": s.numpy().reshape(chains, -1)}
    return arviz.from_dict(sites, dims={"w": ["domain"]}, coords={"domain": list(names)})


class MatchingPosterior:
    """The Gamma-Dirichlet posterior with a free scale: `MixtureGuide`, fitted by `infer`.

    Args:
        num_domains: K.
        seed: Of its first weights, and of the draws.
        steps: Of SVI, at most; those of `InferenceConfig` when None.
    """

    def __init__(self, num_domains: int, seed: int, steps: int | None = None) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            prior = PriorNetwork(num_domains, link="exp").double()
        self.guide = MixtureGuide(prior, scale=True)
        config = InferenceConfig(seed=seed)
        self.config = config if steps is None else dataclasses.replace(config, steps=steps)

    def learn(self, signals: Tensor, found: Matching) -> Inference:
        """Fits the guide by SVI, then to exact draws, given the domains' losses ``(K,)`` in nats
        per token and the evidence."""
        return infer_and_refine(
            self.guide,
            *(signals.double(), found.linear, found.precision),
            concentrations=found.concentrations,
            config=self.config,
        )

    def posterior(
        self,
        signals: Tensor,
        found: Matching,
        names: Sequence[str],
        *,
        chains: int = 4,
        draws: int = 1000,
        seed: int = 0,
    ) -> arviz.InferenceData:
        """Draws from the posterior of what was learned from: exactly, from where the guide draws;
        of more than 128 domains the guide's draws, put right by importance weights
        (`bydore_pyro.core.corrected_draws`). Attributes tell the guide's k-hat, and whether the
        draws are the posterior's."""
        signals, prior = signals.double(), found.concentrations
        arguments: Any = (signals, found.linear, 1.0, found.precision, prior)
        if len(names) <= MOST_EXACT:
            given: Any = {"num_samples": WEIGHED, "seed": seed}
            fit = guide_fit(mixture_model, self.guide, *arguments, **given)
            start = guide_draws(self.guide, signals, seed)
            data = exact_posterior(found, names, start, chains=chains, draws=draws, seed=seed)
        else:
            given = {"num_draws": chains * draws, "seed": seed}
            drawn = corrected_draws(mixture_model, self.guide, *arguments, **given)
            fit, sites = drawn.fit, drawn.sites
            data = _labelled(sites["weights"], sites["scale"], names, chains)
            data["posterior"].attrs.update(corrected=int(drawn.corrected))
        data["posterior"].attrs.update(
            khat=fit.khat, effective_draws=fit.effective_draws, weighed_draws=fit.draws
        )
        return data


def keep_measurement(
    folder: Path, number: int, measurement: Measurement, belongs: Mapping[str, Any]
) -> None:
    """Writes what a round measured, whole or not at all; what is there stays.

    Args:
        folder: The run's.
        number: Of the round, from 1.
        measurement: What it measured.
        belongs: What it belongs to, plain values; `domains` holds the hashes of their text.
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
        write_tree(aside, tree, {"format": FORMAT, **belongs})


def read_measurements(folder: Path, belongs: Mapping[str, Any]) -> list[Measurement]:
    """Reads what the rounds of a search measured, in their order.

    Args:
        folder: The run's.
        belongs: As `keep_measurement` was told. The text of domains may have changed since:
            whoever reads compares `Measurement.hashes`.

    Raises:
        DataError: When there are none, one is damaged, or belongs to another run.
    """
    found: list[Measurement] = []
    while (path := folder / f"measured-{len(found) + 1}").is_dir():
        try:
            header, tree = read_tree(path)
        except ValueError as error:
            raise DataError(f"Expected what a round measured in {path}: {error}") from None
        for name, value in {"format": FORMAT, **belongs}.items():
            if name != "domains" and header.get(name) != value:
                raise DataError(f"Expected {name} {value!r} in {path}, found {header.get(name)!r}")
        columns = (tree["sketches"], tree["largest"], tree["documents"])
        found.append(
            Measurement(
                step=tree["step"],
                parameters=tree["parameters"],
                samples=tuple(Sample(s.float() * m, d) for s, m, d in zip(*columns, strict=True)),
                losses=torch.as_tensor(tree["losses"]),
                hashes=header["domains"],
            )
        )
    if not found:
        raise DataError(
            f"Expected a finished search by matching with its measured-1, found none in {folder}"
        )
    return found
