"""Questions to a search that has been made: another target, other domains, a given mixture.

The rounds of the search have measured the domains. A target needs nothing but its own gradients at
the proxies of the rounds.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

import numpy as np
import torch
from torch import Tensor

from bydore_pyro.core import (
    Matching,
    Metric,
    Sample,
    best_for_mean,
    best_for_worst,
    central_weights,
    exact_draws,
    given_away,
    match,
    measured_round,
)
from bydore_pyro.data import Domains
from bydore_pyro.proxy import GradientSketch, Proxy
from bydore_pyro.runs.inputs import belongs_of, domains_of, language_model, load_domains
from bydore_pyro.runs.options import Options
from bydore_pyro.runs.trials import for_run
from bydore_pyro.search import Measurement, read_measurements, run_of_length
from bydore_pyro.utils import DataError, Tokens, inference_data, option, options_of, require_fields

if TYPE_CHECKING:
    import arviz

__all__ = ["AskConfig", "Asked", "TargetAnswer", "ask", "compromise", "shortfall"]

CHAINS, DRAWS = 400, 10  # of a posterior, and of each chain
APART = 0.1  # share of a flat draw in where a chain begins
END = 1e-9


@dataclass(frozen=True, kw_only=True)
class AskConfig:
    """What is asked of a search.

    Raises:
        ValueError: When an option is out of its range, or a target stands twice.
    """

    validation: list[str] = option(
        [],
        "Target, as for bydore search: domains of the data as NAME or NAME=SHARE, or files of "
        "rows. Default: the run's own.",
    )
    each: bool = option(
        False, "Take each of --validation for a target of its own, and find a compromise."
    )
    objective: Literal["mean", "worst"] = option(
        "mean", "With --each: nearest to the targets in the mean, or to the worst of them."
    )
    drop: list[str] = option([], "Domains of the run that are not to be trained on.")
    mixture: str | None = option(
        None,
        "Mixture to judge: a run's folder, a file of weights, or a published mixture.",
    )
    target_tokens: Tokens | None = option(
        None, "Length in tokens of the run that the weights are for, as for bydore search.", above=0
    )
    validation_sequences: int = option(
        256, "Maximum number of sequences of a target that are measured.", least=16
    )
    data: str | None = option(None, "Where the run's text lies now. Default: where it lay.")

    def __post_init__(self) -> None:
        require_fields(self)
        if len(set(self.validation)) < len(self.validation):
            raise ValueError(f"Expected different targets, found {' '.join(self.validation)}")


@dataclass(frozen=True)
class TargetAnswer:
    """What one target is made of.

    Attributes:
        name: Of the target.
        matching: The evidence of all rounds.
        composition: Draws of ``u = s w (D, K)``.
        posterior: Draws of the mixture to train on.
        settled: Whether the chains stood still.
    """

    name: str
    matching: Matching
    composition: Tensor
    posterior: arviz.InferenceData
    settled: bool

    @property
    def weights(self) -> Tensor:
        """The mixture to train on ``(K,)``."""
        w = self.posterior["posterior"]["w"].values
        return central_weights(torch.from_numpy(w.reshape(-1, w.shape[-1]).copy()))


@dataclass(frozen=True)
class Asked:
    """The answers of a question.

    Attributes:
        options: Those of the search, with the question's domains and validation set.
        domains: The text.
        targets: One answer each.
    """

    options: Options
    domains: Domains
    targets: tuple[TargetAnswer, ...]


def ask(run: Path, config: AskConfig) -> Asked:
    """Answers a question from what a search has measured.

    Raises:
        DataError: When the folder is no search's that kept its measurements, its text is not the
            one that was measured, or see `load_domains`.
    """
    options = _options_of_run(run, config)
    whole = load_domains(options)
    kept = read_measurements(run, belongs_of(options, whole))
    names = _remaining(whole.names, config.drop)
    entries = options.run.validation
    targets = [[entry] for entry in entries] if config.each else [list(entries)]
    chosen = dataclasses.replace(options, run=dataclasses.replace(options.run, domains=names))
    asked = {
        ", ".join(entry.partition("=")[0] for entry in target): domains_of(
            dataclasses.replace(chosen, run=dataclasses.replace(chosen.run, validation=target)),
            whole.corpus,
            options.run.seed,
        )
        for target in targets
    }
    places = [whole.names.index(name) for name in names]
    evidence = _evidence(options, kept, places, asked)
    domains = next(iter(asked.values()))
    answers = [_answer(name, found, domains, config) for name, found in evidence.items()]
    return Asked(chosen, domains, tuple(answers))


def _options_of_run(run: Path, config: AskConfig) -> Options:
    """Returns the options of a search, with the question's target."""
    try:
        parts = json.loads((run / "config.json").read_text(encoding="utf-8"))
        options = options_of({part: parts[part] for part in get_type_hints(Options)}, Options)
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise DataError(f"Expected a search's folder, found {run}: {error}") from None
    own = dataclasses.replace(
        options.run,
        validation=list(config.validation or options.run.validation),
        target_tokens=None if config.target_tokens is None else [config.target_tokens],
        validation_sequences=config.validation_sequences,
        data=config.data or options.run.data,
        log="none",
    )
    return dataclasses.replace(options, run=own)


def _remaining(names: Sequence[str], dropped: Sequence[str]) -> list[str]:
    for name in dropped:
        if name not in names:
            raise DataError(f"Expected a domain of the run ({', '.join(names)}), found '{name}'")
    left = [name for name in names if name not in dropped]
    if len(left) < 2:
        raise DataError(f"Expected at least two domains after --drop, found {len(left)}")
    return left


def _evidence(
    options: Options,
    kept: Sequence[Measurement],
    places: Sequence[int],
    asked: Mapping[str, Domains],
) -> dict[str, Matching]:
    """Measures every target at every round's proxy, and matches."""
    from tqdm import tqdm

    domains = next(iter(asked.values()))
    model = language_model(options, domains.corpus.vocabulary, options.run.seed)
    proxy = Proxy(model, options.proxy)
    sketch = GradientSketch(proxy, options.search.sketch_size, options.run.seed)
    rounds: dict[str, list[Any]] = {name: [] for name in asked}
    total = len(kept) * sum(len(one.validation) for one in asked.values())
    with tqdm(total=total, desc="targets", unit="sequence", mininterval=0.5) as bar:
        for one in kept:
            _set(proxy, one)
            samples = [one.samples[place] for place in places]
            metric = Metric(samples)
            samples = [metric.of(sample) for sample in samples]
            for name, own in asked.items():
                sketches, _ = sketch(own.validation, "gradients")
                documents = torch.from_numpy(own.validation_documents)
                held_out = metric.of(Sample(sketches, documents))
                rounds[name].append(measured_round(samples, held_out))
                bar.update(len(sketches))
    return {name: match(found) for name, found in rounds.items()}


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


def _answer(name: str, found: Matching, domains: Domains, config: AskConfig) -> TargetAnswer:
    """Draws from the posterior, by chains that begin near the optimum."""
    size = domains.num_domains
    generator = torch.Generator().manual_seed(0)
    flat = torch._sample_dirichlet(torch.ones(CHAINS, size).double(), generator)
    begun = max(found.scale, END) * ((1 - APART) * found.weights + APART * flat) + END
    drawn = exact_draws(
        *(found.linear[None], found.precision[None], begun[None]),
        concentrations=found.concentrations,
        draws=DRAWS,
    )
    w, s = drawn.weights[0], drawn.scale[0]
    posterior = inference_data(
        {"w": w.numpy().reshape(4, -1, size), "s": s.numpy().reshape(4, -1)},
        {"w": ["domain"]},
        {"domain": list(domains.names)},
    )
    posterior["posterior"].attrs.update(corrected=int(drawn.settled))
    run = None if config.target_tokens is None else run_of_length(domains, config.target_tokens)
    posterior = for_run(posterior, found, run, None)
    return TargetAnswer(name, found, w * s[:, None], posterior, drawn.settled)


def compromise(targets: Sequence[TargetAnswer], objective: str) -> Tensor:
    """Returns one mixture ``(K,)`` for several targets: for their mean, or for the worst."""
    u = torch.stack([central_weights(_shares(one)) for one in targets])
    found = best_for_mean if objective == "mean" else best_for_worst
    return found(targets[0].matching.gram, u)


def shortfall(target: TargetAnswer, weights: Tensor) -> np.ndarray:
    """Returns which share in [0, 1] a mixture leaves of what the best one explains of a target.

    Args:
        target: The answer.
        weights: Of the mixture ``(K,)``.

    Returns:
        The median, and the ends of a 94 % interval, ``(3,)``, of draws of the posterior.
    """
    lost = given_away(target.matching.gram, target.composition, weights.double())
    return np.quantile(lost.numpy(), [0.5, 0.03, 0.97])


def _shares(target: TargetAnswer) -> Tensor:
    return target.composition / target.composition.sum(1, keepdim=True)
