"""Models that one already has: a base, and others that went on from it, read as branches are.

The response of a text is the fall of its loss from the base to each of the others, by forward
passes alone. So models may be of any size and architecture. They are loaded one at a time. What
each lost on a text is kept in the run's folder, in ``models``: the next question about this text
does not read it again. See `bydore_pyro.core.responses`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bydore_pyro import core, data, files, proxy
from bydore_pyro.errors import DataError
from bydore_pyro.measure.branches import losses_of
from bydore_pyro.measure.measurement import DELAY

MODELS = "models"
FORMAT = "bydore_pyro.model_losses/1"
SURE = 0.99  # probability up to which differences of the domains' responses may be noise


@dataclass(frozen=True, kw_only=True)
class Model:
    """A trained model.

    Attributes:
        folder: Hugging Face's, with safetensors.
        sha256: Of its configuration and its weights.
    """

    folder: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class ModelResponses:
    """How texts respond to models: by how much their losses fall from the first to each other.

    Attributes:
        domains: Of sequences of each domain ``(n, M)``, nats per token, with their documents.
        targets: Of the documents of each target, likewise, in its unit.
    """

    domains: Mapping[str, core.Sample]
    targets: Mapping[str, core.Sample]

    @property
    def count(self) -> int:
        """``M``, the models without the first."""
        return next(iter(self.domains.values())).gradients.shape[1]


@dataclass(frozen=True, kw_only=True)
class Separated:
    """What models tell apart of domains.

    Attributes:
        directions: How many directions of the domains' responses rise above their errors.
        alike: Groups of two or more domains that the models do not tell apart, in order.
    """

    directions: int
    alike: tuple[tuple[str, ...], ...]


def separated(domains: Mapping[str, core.Sample]) -> Separated:
    """Returns what M models tell apart of K domains.

    Of the domains' mean responses ``R (K, M)`` in units of their error, ``R Sigma^(-1/2)``, with
    ``Sigma`` the covariance of a domain's mean, by document, in the mean over domains:

    - the directions are those of the singular values above ``sqrt(K) + sqrt(M)``, which errors
      alone have;
    - in a group the difference of any two means may be an error (0.99 of chi-square).

    Args:
        domains: Responses of sequences of each domain ``(n, M)``, by name.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.stats import chi2

    values = [one.gradients.double() for one in domains.values()]
    documents = [one.documents for one in domains.values()]
    errors = [
        core.scatter_of_means([own], [of])[0] for own, of in zip(values, documents, strict=True)
    ]
    sizes, vectors = torch.linalg.eigh(torch.stack(errors).mean(0))
    least = 1e-12 * float(sizes[-1]) + 1e-300
    means = torch.stack([own.mean(0) for own in values]) @ vectors / sizes.clamp(min=least).sqrt()
    noise = sum(math.sqrt(size) for size in means.shape)
    most = math.sqrt(2 * chi2.ppf(SURE, means.shape[1]))  # both means have an error
    numbers = fcluster(linkage(means.numpy(), "complete"), most, "distance")
    groups: dict[int, list[str]] = {}
    for name, number in zip(domains, numbers.tolist(), strict=True):
        groups.setdefault(number, []).append(name)
    return Separated(
        directions=int((torch.linalg.svdvals(means) > noise).sum()),
        alike=tuple(tuple(names) for names in groups.values() if len(names) > 1),
    )


def beside(first: core.Sample | None, then: core.Sample) -> core.Sample:
    """Returns responses of the same sequences to branches and, behind them, to models."""
    if first is None:
        return then
    return core.Sample(torch.cat([first.gradients, then.gradients], 1), first.documents)


def responses_to_models(
    models: Sequence[Model],
    load: Callable[[Model], proxy.MeasuredModel],
    texts: Mapping[str, data.Sequences],
    targets: Mapping[str, data.Sequences],
    folder: Path | None = None,
) -> ModelResponses:
    """Reads texts in models, one after the other.

    Args:
        models: M + 1 of them, the base first.
        load: Returns a model as it is to be read.
        texts: Of the domains, by name, in the order of the evidence.
        targets: Of the targets, by name.
        folder: The run's, where losses are kept; None keeps nothing.

    Raises:
        DataError: When a loss is NaN or infinite; names the model.
    """
    from tqdm import tqdm

    tokens = torch.cat([one.tokens for one in texts.values()])
    documents = np.concatenate([one.documents for one in texts.values()])
    # Behind each other: names do not count for what is kept.
    every = [data.Sequences(tokens, documents), *targets.values()]
    shown = tqdm(models, unit="model", desc="models", delay=DELAY, leave=None)
    read = [_losses(one, load, every, folder) for one in shown]
    own, *others = ([one[n] for one in read] for n in range(len(every)))
    sizes = [len(one) for one in texts.values()]
    of_domains = zip(texts.items(), _falls(own).split(sizes), strict=True)
    of_targets = zip(targets.items(), map(_falls, others), strict=True)
    return ModelResponses(
        domains={name: _sample(falls, text) for (name, text), falls in of_domains},
        targets={name: _sample(falls, text) for (name, text), falls in of_targets},
    )


def _falls(losses: Sequence[Tensor]) -> Tensor:
    """By how much losses ``(n,)`` fall from the first model to each other ``(n, M)``."""
    before, *after = losses
    return before[:, None] - torch.stack(after, 1)


def _sample(falls: Tensor, text: data.Sequences) -> core.Sample:
    return core.Sample(falls, torch.from_numpy(text.documents))


def _losses(
    model: Model,
    load: Callable[[Model], proxy.MeasuredModel],
    texts: Sequence[data.Sequences],
    folder: Path | None,
) -> list[Tensor]:
    """Returns the losses of each text's documents ``(n,)`` in a model, or what is kept of them."""
    loaded = cache(lambda: load(model))

    def read(text: data.Sequences) -> dict[str, Tensor]:
        reader = loaded()
        with reader.cost.part("responses"):
            losses = losses_of(reader, text)
        if not bool(losses.isfinite().all()):
            bad = float(losses[~losses.isfinite()][0])
            raise DataError(f"Expected finite losses of the model in {model.folder}, found {bad}")
        return {"losses": losses}

    def kept(text: data.Sequences) -> dict[str, Tensor]:
        if folder is None:
            return read(text)
        key = {"format": FORMAT, "model": model.sha256, "text": text.sha256}
        place = folder / MODELS / files.content_hash(key)[:32]
        writes = os.access(folder, os.W_OK)  # else the next question reads again
        found: dict[str, Tensor] = files.Kept(place, key, replace=True, writes=writes).get_or(
            lambda: read(text)
        )
        return found

    return [kept(text)["losses"] for text in texts]
