"""A question: its evidence, of which only what is not known is measured, and its answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from bydore_pyro.analysis import mixture_of_draws
from bydore_pyro.core import (
    Matching,
    Metric,
    exact_draws,
    match,
    measured_round,
    members_of,
    pooled,
)
from bydore_pyro.data import Domains
from bydore_pyro.mixture import Mixture
from bydore_pyro.proxy import Cost, GradientSketch, Proxy
from bydore_pyro.runs.inputs import hashes_of, language_model, largest_weights
from bydore_pyro.runs.options import Options
from bydore_pyro.runs.trials import Trials, for_run, trial_plan
from bydore_pyro.search import Measurement, RunLength, run_of_length, sample_of
from bydore_pyro.utils import DataError

if TYPE_CHECKING:
    import arviz

__all__ = ["Question", "TargetAnswer"]

CHAINS, DRAWS = 400, 10  # of a posterior, and of each chain
APART = 0.1  # share of a flat draw in where a chain begins
END = 1e-9


@dataclass(frozen=True)
class TargetAnswer:
    """What one target is made of; ``G`` groups of domains, as many as domains where none is merged.

    Attributes:
        name: Of the target.
        matching: The evidence of all rounds, of groups.
        composition: Draws of ``u = s w`` of groups ``(D, G)``.
        posterior: Draws of the domains' weights to train on.
        mixture: The weights, with intervals, within the caps that were asked for.
        settled: Whether the chains stood still.
        trials: None where none were made.
    """

    name: str
    matching: Matching
    composition: Tensor
    posterior: arviz.InferenceData
    mixture: Mixture
    settled: bool
    trials: Trials | None = None


def _groups(names: Sequence[str], merged: Sequence[str]) -> list[list[int]]:
    """Returns the places of the domains in each group, in the order of their first."""
    joined = [entry.split("+") for entry in merged]
    named = [name for group in joined for name in group]
    for name in named:
        if name not in names:
            raise DataError(f"Expected a domain of {', '.join(names)} in --merge, found '{name}'")
    if len(set(named)) < len(named) or any(len(group) < 2 for group in joined):
        raise DataError(f"Expected --merge A+B, each domain once, found {' '.join(merged)}")
    joined += [[name] for name in names if name not in named]
    groups = [sorted(map(names.index, group)) for group in joined]
    if len(groups) < 2:
        raise DataError(f"Expected at least two weights after --merge, found {len(groups)}")
    return sorted(groups)


class Question:
    """A question to a search.

    Args:
        options: Of the search, with the question's domains, run length, caps and trials.
        merged: Domains that share one weight, as A+B.
        asked: The text and the validation set of each target, by its name.
        out: A folder for finished trial runs.

    Raises:
        DataError: When what is merged is not in the data, or too little is left.
    """

    def __init__(
        self, options: Options, merged: Sequence[str], asked: Mapping[str, Domains], out: Path
    ) -> None:
        self.options, self.merged, self.asked, self.out = options, merged, asked, out
        self.domains = next(iter(asked.values()))
        names, train = self.domains.names, self.domains.corpus.train
        self.sizes = [len(train[name]) for name in names]
        self.groups = _groups(names, merged)
        self.members = members_of(self.groups, self.sizes)
        self.hashes = hashes_of(self.domains)

    def anew(self, kept: Measurement) -> list[str]:
        """Returns the domains whose text is not what was measured."""
        return [name for name, text in self.hashes.items() if kept.hashes.get(name) != text]

    def evidence(self, kept: Sequence[Measurement]) -> dict[str, Matching]:
        """Measures every target, and domains that are not known, at every round's proxy."""
        from tqdm import tqdm

        options, search = self.options, self.options.search
        model = language_model(options, self.domains.corpus.vocabulary, options.run.seed)
        proxy = Proxy(model, options.proxy)
        sketch = GradientSketch(proxy, search.sketch_size, options.run.seed)
        rounds: dict[str, list[Any]] = {name: [] for name in self.asked}
        new = self.anew(kept[0])
        places = [self.domains.names.index(name) for name in new]
        each = search.sequences_of_round(self.domains.num_domains)
        counts = np.minimum(each, self.domains.measurable())[places]
        total = sum(len(one.validation) for one in self.asked.values()) + int(counts.sum())
        with tqdm(total=len(kept) * total, unit="sequence", desc="targets", mininterval=0.5) as bar:
            for one in kept:
                _set(proxy, one)
                samples = dict(zip(one.hashes, one.samples, strict=True))
                for name, count in zip(new, counts.tolist(), strict=True):
                    batch, documents = self.domains.measure_batch(name, count)
                    samples[name], _ = sample_of(sketch, batch, documents, one.step, name)
                    bar.update(count)
                own = [samples[name] for name in self.domains.names]
                metric = Metric(own)
                grouped = [
                    pooled([metric.of(own[k]) for k in group], [self.sizes[k] for k in group])
                    for group in self.groups
                ]
                for name, target in self.asked.items():
                    documents = target.validation_documents
                    held_out, _ = sample_of(sketch, target.validation, documents, one.step, name)
                    rounds[name].append(measured_round(grouped, metric.of(held_out)))
                    bar.update(len(target.validation))
        return {name: match(found) for name, found in rounds.items()}

    def answer(self, name: str, found: Matching) -> TargetAnswer:
        """Draws from the posterior, decides, and makes the trials that were asked for."""
        w, s, settled = _draws(found)
        names = ["+".join(self.domains.names[k] for k in group) for group in self.groups]
        posterior = _data(w, s, names)
        run, trials, cost = self._run(), None, Cost()
        plan = trial_plan(self.options, self.asked[name], self.out / "trials")
        if plan is not None:
            trials = plan.tried(found, posterior, run, cost)
        posterior = for_run(posterior, found, run, trials)
        if self.merged:
            decided = torch.from_numpy(posterior["posterior"]["w"].values.copy())
            scale = torch.from_numpy(posterior["posterior"]["s"].values.copy())
            shape = (-1, len(self.groups))
            posterior = _data(
                decided.reshape(shape) @ self.members, scale.ravel(), self.domains.names
            )
        posterior["posterior"].attrs.update(corrected=int(settled))
        corpus = self.domains.corpus
        mixture = mixture_of_draws(
            posterior, tokenizer=corpus.tokenizer_sha256, data_sha256=corpus.sha256
        )
        most = largest_weights(self.options, self.domains)
        if trials is not None:
            mixture = dataclasses.replace(mixture, notes=(trials.note(),))
        mixture = mixture if most is None else mixture.capped(most)
        return TargetAnswer(name, found, w * s[:, None], posterior, mixture, settled, trials)

    def _run(self) -> RunLength | None:
        """The run that the weights are for; of a group the text of its domains together."""
        if self.options.run.target_tokens is None:
            return None
        run = run_of_length(self.domains, self.options.run_tokens)
        rates = torch.stack([1 / (1 / run.rates[group]).sum() for group in self.groups])
        return dataclasses.replace(run, rates=rates)


def _set(proxy: Proxy, measured: Measurement) -> None:
    """Gives a proxy the parameters that it had at a round."""
    for name, value in proxy.parameters.items():
        kept = measured.parameters.get(name)
        if kept is None or kept.shape != value.shape:
            raise DataError(
                f"Expected the proxy that was measured, found another: its {name} is "
                f"{tuple(value.shape)}"
            )
        value.copy_(kept)


def _draws(found: Matching) -> tuple[Tensor, Tensor, bool]:
    """Returns draws of weights ``(D, G)`` and scale ``(D,)``, by chains that begin near the
    optimum, and whether these stood still."""
    generator = torch.Generator().manual_seed(0)
    ones = torch.ones(CHAINS, len(found.optimum)).double()
    flat = torch._sample_dirichlet(ones, generator)
    begun = max(found.scale, END) * ((1 - APART) * found.weights + APART * flat) + END
    drawn = exact_draws(
        *(found.linear[None], found.precision[None], begun[None]),
        concentrations=found.concentrations,
        draws=DRAWS,
    )
    return drawn.weights[0], drawn.scale[0], drawn.settled


def _data(w: Tensor, s: Tensor, names: Sequence[str]) -> arviz.InferenceData:
    import arviz

    return arviz.from_dict(
        {"w": w.numpy().reshape(4, -1, len(names)), "s": s.numpy().reshape(4, -1)},
        dims={"w": ["domain"]},
        coords={"domain": list(names)},
    )
