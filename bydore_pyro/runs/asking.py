"""Questions to a search that has been made: another target, other domains, a given mixture.

The rounds of the search have measured the domains. A target needs nothing but its own gradients at
the proxies of the rounds, and so does a domain that was added or whose text has changed.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

import numpy as np
import torch
from torch import Tensor

from bydore_pyro.analysis import mixture_of_draws
from bydore_pyro.core import (
    Matching,
    Metric,
    best_for_mean,
    best_for_worst,
    central_weights,
    exact_draws,
    given_away,
    match,
    measured_round,
    members_of,
    pooled,
)
from bydore_pyro.data import Domains
from bydore_pyro.mixture import Mixture
from bydore_pyro.proxy import Cost, GradientSketch, Proxy
from bydore_pyro.runs.inputs import (
    belongs_of,
    domains_of,
    hashes_of,
    language_model,
    largest_weights,
    load_domains,
)
from bydore_pyro.runs.options import Options
from bydore_pyro.runs.trials import Trials, for_run, trial_plan
from bydore_pyro.search import (
    Measurement,
    RunLength,
    read_measurements,
    run_of_length,
    sample_of,
)
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
        ValueError: When an option is out of its range, a target stands twice, or options exclude
            each other.
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
    add: list[str] = option(
        [],
        "Token stores (bydore prepare --tokenizer, the run's) whose domains are to be trained on "
        "too. A domain of the same name replaces the run's.",
    )
    merge: list[str] = option(
        [], "Domains that are to share one weight, each in proportion to its text, as A+B."
    )
    mixture: str | None = option(
        None,
        "Mixture to judge: a run's folder, a file of weights, or a published mixture.",
    )
    target_tokens: Tokens | None = option(
        None, "Length in tokens of the run that the weights are for, as for bydore search.", above=0
    )
    max_epochs: float | None = option(
        None, "With --target_tokens: most readings of a domain's text, as for bydore search.",
        above=0,
    )  # fmt: skip
    trials: int = option(
        0, "Trial runs, as for bydore search, of the answer for one target.", least=0, most=100
    )
    validation_sequences: int = option(
        256, "Maximum number of sequences of a target that are measured.", least=16
    )
    data: str | None = option(
        None,
        "Where the run's text lies now. Domains whose text has changed are measured anew. "
        "Default: where it lay.",
    )

    def __post_init__(self) -> None:
        require_fields(self)
        if len(set(self.validation)) < len(self.validation):
            raise ValueError(f"Expected different targets, found {' '.join(self.validation)}")
        if self.max_epochs is not None and self.target_tokens is None:
            raise ValueError("Expected --target_tokens with --max_epochs, found none")
        for name in ("mixture", "trials"):
            if self.merge and getattr(self, name):
                raise ValueError(f"Expected --merge or --{name}, found both")
        if self.each and self.trials:
            raise ValueError("Expected --each or --trials, found both: trials are for one target")


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


@dataclass(frozen=True)
class Asked:
    """The answers of a question.

    Attributes:
        options: Those of the search, with the question's domains and validation set.
        domains: The text.
        targets: One answer each.
        anew: The domains that were measured for this question.
        members: Share of each group's weight that a domain has ``(G, K)``.
    """

    options: Options
    domains: Domains
    targets: tuple[TargetAnswer, ...]
    anew: tuple[str, ...]
    members: Tensor


def ask(run: Path, config: AskConfig, out: Path) -> Asked:
    """Answers a question from what a search has measured.

    Args:
        run: The search's folder.
        config: The question.
        out: A folder for finished trial runs.

    Raises:
        DataError: When the folder is no search's that kept its measurements, or see
            `load_domains`.
    """
    options = _options_of_run(run, config)
    whole = load_domains(options, config.add)
    kept = read_measurements(run, belongs_of(options, whole))
    names = _remaining(whole.names, config.drop)
    entries = options.run.validation
    targets = [[entry] for entry in entries] if config.each else [list(entries)]
    run_options = dataclasses.replace(options.run, domains=names)
    chosen = dataclasses.replace(options, run=run_options)
    asked = {
        ", ".join(entry.partition("=")[0] for entry in target): domains_of(
            dataclasses.replace(chosen, run=dataclasses.replace(run_options, validation=target)),
            *(whole.corpus, options.run.seed),
            measured=options.search.measured_sequences(len(names)),
        )
        for target in targets
    }
    question = _Question(chosen, config, asked, out)
    evidence = question.evidence(kept)
    answers = [question.answer(name, found) for name, found in evidence.items()]
    domains = next(iter(asked.values()))
    return Asked(chosen, domains, tuple(answers), tuple(question.anew(kept[0])), question.members)


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
        max_epochs=config.max_epochs,
        validation_sequences=config.validation_sequences,
        data=config.data or options.run.data,
        log="none",
    )
    search = dataclasses.replace(options.search, trials=config.trials)
    return dataclasses.replace(options, run=own, search=search)


def _remaining(names: Sequence[str], dropped: Sequence[str]) -> list[str]:
    for name in dropped:
        if name not in names:
            raise DataError(f"Expected a domain of the run ({', '.join(names)}), found '{name}'")
    left = [name for name in names if name not in dropped]
    if len(left) < 2:
        raise DataError(f"Expected at least two domains after --drop, found {len(left)}")
    return left


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


class _Question:
    """A question to a search: its domains, groups of them, and targets."""

    def __init__(
        self, options: Options, config: AskConfig, asked: dict[str, Domains], out: Path
    ) -> None:
        self.options, self.config, self.asked, self.out = options, config, asked, out
        self.domains = next(iter(asked.values()))
        names, train = self.domains.names, self.domains.corpus.train
        self.sizes = [len(train[name]) for name in names]
        self.groups = _groups(names, config.merge)
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
        if self.config.merge:
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
        if self.config.target_tokens is None:
            return None
        run = run_of_length(self.domains, self.config.target_tokens)
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
    return inference_data(
        {"w": w.numpy().reshape(4, -1, len(names)), "s": s.numpy().reshape(4, -1)},
        {"w": ["domain"]},
        {"domain": list(names)},
    )


def compromise(asked: Asked, objective: str) -> Tensor:
    """Returns one mixture of groups ``(G,)`` for several targets: for their mean, or the worst."""
    shares = [one.composition / one.composition.sum(1, keepdim=True) for one in asked.targets]
    u = torch.stack([central_weights(draws) for draws in shares])
    found = best_for_mean if objective == "mean" else best_for_worst
    return found(asked.targets[0].matching.gram, u)


def shortfall(target: TargetAnswer, weights: Tensor) -> np.ndarray:
    """Returns which share in [0, 1] a mixture leaves of what the best one explains of a target.

    Args:
        target: The answer.
        weights: Of the mixture, of groups ``(G,)``.

    Returns:
        The median, and the ends of a 94 % interval, ``(3,)``, of draws of the posterior.
    """
    lost = given_away(target.matching.gram, target.composition, weights.double())
    return np.quantile(lost.numpy(), [0.5, 0.03, 0.97])
