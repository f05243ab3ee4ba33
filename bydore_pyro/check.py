"""Predictions of a finished search beside what fresh proxies reach: trained, read, added to what it
knows.

::

    forecast of the search       -->  losses predicted for one run on each mixture
    proxies on it, of new seeds  -->  losses measured: their mean and its standard error

The predictions rest on no run of the mixtures that are checked, whenever it was made. Runs as long
as the search, at a constant rate as the search's own, then join its readings: the next question is
answered from them too, and what they lose on tasks says how far these move. The law of losses knows
neither another length nor a rate that decays, so other runs are kept and join nothing.
"""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from bydore_pyro import files, measure, pieces, search, setup, terminal, trials
from bydore_pyro.answer import Expected, Forecast, Outlook
from bydore_pyro.ask import OpenSearch, open_search
from bydore_pyro.data import Domains
from bydore_pyro.errors import DataError, expecting
from bydore_pyro.mixture import GOOD_EPOCHS, by_name
from bydore_pyro.proxy import Cost

CHECKS = "checks"  # in a run's folder: the trained proxies, and the results as JSON
SAME = 1e-10  # by which two mixtures' weights may differ


@dataclass(frozen=True, kw_only=True)
class Compared:
    """What was predicted beside what was measured, in the text's unit.

    Attributes:
        predicted: Of one run: mean and 94 % interval.
        measured: Mean over the seeds.
        standard_error: Of that mean; None of one seed.
        by_seed: What each seed's run measured.
        holds: Whether the interval holds the measured mean.
    """

    predicted: Expected
    measured: files.Number
    standard_error: files.Number | None = None
    by_seed: tuple[files.Number, ...]
    holds: bool


@dataclass(frozen=True, kw_only=True)
class CheckedMixture:
    """A mixture that was trained on.

    Attributes:
        weights: By domain.
        losses: By text, see `bydore_pyro.answer.Outlook`.
        differences: Of this mixture less the baseline, by text, the runs of a seed paired; none of
            the baseline.
    """

    weights: Mapping[str, files.Number]
    losses: Mapping[str, Compared]
    differences: Mapping[str, Compared] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Check:
    """Predicted and measured losses of mixtures.

    Attributes:
        run: The folder of the search.
        tokens: Length of the trained runs.
        predicted_tokens: Length of the runs that the search predicts, at a constant rate.
        decay: Whether the step size of the trained runs fell to zero.
        seeds: Of the trained runs.
        baseline: The name of the mixture from which differences are taken.
        targets: The names of the targets; of several, of what they are together too.
        units: Of the losses, by text.
        mixtures: By name.
        added: How many of the runs joined the readings of the search now; the others were there, or
            are none.
    """

    run: str
    tokens: files.Number
    predicted_tokens: files.Number
    decay: bool = False
    seeds: tuple[int, ...]
    baseline: str
    targets: tuple[str, ...]
    units: Mapping[str, str]
    mixtures: Mapping[str, CheckedMixture]
    added: int = 0

    @property
    def as_predicted(self) -> bool:
        """Whether the runs are such as the search predicts: of its length, at a constant rate."""
        return not self.decay and self.tokens == self.predicted_tokens

    @property
    def name(self) -> str:
        """What the results are called: a hash of what was trained and compared."""
        weights = {name: dict(one.weights) for name, one in self.mixtures.items()}
        asked = [weights, self.tokens, self.decay, list(self.seeds), self.baseline]
        return files.content_hash(asked)[:12]

    def held(self, kind: str, targets: bool) -> tuple[int, int]:
        """Returns how many intervals hold what was measured, and how many there are.

        Args:
            kind: "losses" or "differences".
            targets: Whether those of the targets are counted; else those of the domains.
        """
        held = [
            one.holds
            for mixture in self.mixtures.values()
            for text, one in getattr(mixture, kind).items()
            if (text in self.targets) == targets
        ]
        return sum(held), len(held)


@dataclass(frozen=True, kw_only=True)
class _Options(setup.Options):
    """What a check rests on: the options of the search, and its own."""

    check: setup.CheckConfig


def check(run: Path, config: setup.CheckConfig | None = None) -> Check:
    """Trains the proxy of a search on mixtures and compares its losses with the predicted ones.

    Finished proxies are kept, and the same call trains none again. It writes the results as JSON
    (`results_file`), and adds the runs to the readings of the search, each once.

    Args:
        run: The folder of a search by matching.
        config: Which mixtures, how often and how long.

    Raises:
        DataError: When the folder is no search's that predicts losses, the text has changed, or a
            mixture is none of its domains.
        Interrupted: On Ctrl-C or SIGTERM; what was trained is kept.
        NonFiniteError: When a loss is NaN or infinite; proxies that were finished before are kept.
        RunFolderError: When the search has not ended, its folder cannot be written to, or another
            process writes to it.
    """
    config = config or setup.CheckConfig()
    pieces.join_cluster(config.cluster)
    opened = _opened(run, config)
    options, domains, seed = opened.options, opened.domains, opened.options.run.seed
    folder = files.RunFolder(run, resume=True, writes=setup.processes(options).is_main)
    weights = {
        name: _rounded(setup.weights_of(str(run) if name == setup.RESULT else name, domains))
        for name in config.sources
    }
    # What is checked is not predicted from itself.
    others = [one for one in opened.readings if not _is_check_of(one, weights, domains.names)]
    opened = dataclasses.replace(opened, readings=others)
    opened.require_forecast("the mixtures")

    cost = Cost()
    problem = _problem(opened, checks_folder(run, config), config.cluster, cost)
    steps = options.search.steps
    if config.tokens is not None:
        steps = math.ceil(config.tokens / problem.batch_tokens)
    length = steps * problem.batch_tokens
    _tell_repeated(weights, domains, length)
    targets = opened.targets(cost)
    forecast = targets.forecast(others, seed)
    if forecast is None:
        raise DataError(f"Expected a search that predicts losses, found none in {run}")
    asked = setup.options_in(run).question
    forecast = dataclasses.replace(forecast, worst=asked.objective == "worst")

    seeds = tuple(seed + number for number in range(1, config.seeds + 1))
    planned = {
        (name, one): trials.PlannedRun(
            weights={n: weight for n, weight in by_name(domains.names, own).items() if weight > 0},
            steps=steps,
            seed=one,
            decay=config.decay,
        )
        for one in seeds
        for name, own in weights.items()
    }
    terminal.tell(
        f"next: {len(planned)} runs of {steps:,} steps each, on {len(weights)} mixtures; those "
        f"that are finished are kept in {problem.runs}"
    )
    done = trials.train_runs(problem, [*planned.values()], "check")
    finished = dict(zip(planned, done, strict=True))
    whole = targets.losses is None
    measured = {
        key: _losses_of(one, forecast, domains, whole=whole) for key, one in finished.items()
    }
    of_seeds = {name: [measured[name, one] for one in seeds] for name in weights}
    found = Check(
        run=str(run.absolute()),
        tokens=length,
        predicted_tokens=options.search.steps * problem.batch_tokens,
        decay=config.decay,
        seeds=seeds,
        baseline=config.baseline,
        targets=tuple(text for text in forecast.texts if text not in forecast.of_domains),
        units={text: Outlook(units=forecast.units).unit(text) for text in forecast.texts},
        mixtures=_compared(forecast, weights, of_seeds, config.baseline),
    )
    if found.as_predicted:
        searched = dict(
            zip(forecast.importance, forecast.known.of_targets[-1].tolist(), strict=True)
        )
        new = [
            measure.Reading(
                of=f"check of {name}, seed {one}",
                tokens=by_name(domains.names, length * weights[name]),
                losses=trained.read_losses(domains.names),
                run=trained.folder.name,
                changes={text: measured[name, one][text] - loss for text, loss in searched.items()},
            )
            for (name, one), trained in finished.items()
        ]
        found = dataclasses.replace(found, added=_add_readings(folder, new))
    if folder.writes:
        both = _Options(**vars(options), check=config.anywhere())
        content = setup.results_of(files.plain(found), both, seed, cost)
        with files.appearing_file(results_file(found, config)) as aside:
            aside.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", "utf-8")
    return found


def checks_folder(run: Path, config: setup.CheckConfig) -> Path:
    """Returns where the trained proxies and the results of a check are kept."""
    return Path(config.out) if config.out else run / CHECKS


def results_file(found: Check, config: setup.CheckConfig) -> Path:
    """Returns the file of a check's results: a `Check` as JSON, with its origin."""
    return checks_folder(Path(found.run), config) / f"{found.name}.json"


def _opened(run: Path, config: setup.CheckConfig) -> OpenSearch:
    """Opens a search for its own targets, at its own length and without bounds; its text must be
    that on which it trained."""
    searched = setup.options_in(run)
    if searched.run.checkpoint is not None:
        raise DataError(
            f"Expected the search of a proxy, which can be trained, found that of a checkpoint in "
            f"{run}"
        )
    # What a mixture is asked to be decides nothing of its losses.
    asked = dataclasses.replace(
        searched.question,
        objective="mean",
        at_least=[],
        at_most=[],
        target_tokens=None,
        max_epochs=None,
        baseline=setup.NATURAL,
    )
    opened = open_search(run, asked, setup.AskConfig(data=config.data))
    with expecting(f"Expected the manifest of the search in {run}, found:", Exception):
        before = str(json.loads((run / "manifest.json").read_text(encoding="utf-8"))["sha256"])
    if opened.whole.corpus.sha256 != before:
        raise DataError(
            f"Expected the data of the search in {run} ({before[:12]}), found other data "
            f"({opened.whole.corpus.sha256[:12]})"
        )
    return opened


def _problem(opened: OpenSearch, runs: Path, cluster: str | None, cost: Cost) -> trials.Problem:
    """Returns the problem whose proxies are read on every domain and target as the search was."""
    plain = search.plain_problem(opened.options, opened.domains, runs)
    read = {name: len(text) for name, text in opened.domains.targets.items()}
    own = dataclasses.replace(plain, held_out=read, cluster=cluster, cost=cost)
    return own.read_on_all()


def _rounded(weights: Tensor) -> Tensor:
    """Returns weights ``(K,)`` as they are trained on: a run is known again by them."""
    rounded = weights.round(decimals=search.DIGITS)
    return rounded / rounded.sum()


def _tell_repeated(weights: Mapping[str, Tensor], domains: Domains, tokens: float) -> None:
    """Warns of mixtures that read some text too often: the search predicts what fresh text does."""
    text = domains.most_weights(1.0, tokens)
    once = torch.tensor([text[name] for name in domains.names], dtype=torch.float64)
    for name, own in weights.items():
        epochs = own / once
        most = int(epochs.argmax())
        if float(epochs[most]) > GOOD_EPOCHS:
            terminal.tell(
                f"warning: a run on '{name}' reads the text of '{domains.names[most]}' "
                f"{float(epochs[most]):.1f} times; the prediction is for text that is read once"
            )


def _losses_of(
    run: trials.FinishedRun, forecast: Forecast, domains: Domains, *, whole: bool
) -> dict[str, float]:
    """Returns what a run lost on every text of a forecast, on the sequences that the search read.

    Args:
        run: The trained proxy.
        forecast: It names the texts.
        domains: Of the search.
        whole: Whether the targets are the domains, which are read as such.
    """
    of_domains, tokens = run.read_losses(domains.names), run.token_losses()
    of_targets = []
    for name, text in domains.targets.items():
        if whole:
            of_targets.append(of_domains[name])
            continue
        own = text.to("cpu")
        losses = own.of_sequences(torch.from_numpy(tokens[name][: len(own.tokens)]))
        of_targets.append(float(own.losses(losses).mean()))
    found = [*of_targets, *(of_domains[name] for name in domains.names)]
    if forecast.together is not None:
        counted = [*zip(forecast.importance.values(), of_targets, strict=True)]
        mean = math.fsum(share * loss for share, loss in counted)
        found.append(max(loss for s, loss in counted if s) if forecast.worst else mean)
    return dict(zip(forecast.texts, found, strict=True))


def _compared(
    forecast: Forecast,
    weights: Mapping[str, Tensor],
    measured: Mapping[str, Sequence[Mapping[str, float]]],
    baseline: str,
) -> dict[str, CheckedMixture]:
    """Returns predictions beside measurements, which are one a seed, by mixture."""
    found = {}
    for name, own in weights.items():
        runs, differences = measured[name], {}
        if name != baseline:
            differences = _beside(
                forecast.difference(own, weights[baseline]),
                [
                    {text: run[text] - other[text] for text in run}
                    for run, other in zip(runs, measured[baseline], strict=True)
                ],
            )
        found[name] = CheckedMixture(
            weights=by_name(forecast.names, own),
            losses=_beside(forecast.expected(own), runs),
            differences=differences,
        )
    return found


def _beside(
    predicted: Mapping[str, Expected], measured: Sequence[Mapping[str, float]]
) -> dict[str, Compared]:
    """Returns each text's prediction beside its measurements, one a seed."""
    found = {}
    for text, one in predicted.items():
        by_seed = tuple(run[text] for run in measured)
        mean, error = statistics.fmean(by_seed), None
        if len(by_seed) > 1:
            error = statistics.stdev(by_seed) / math.sqrt(len(by_seed))
        found[text] = Compared(
            predicted=Expected(loss=one.loss, low=one.low, high=one.high),
            measured=mean,
            standard_error=error,
            by_seed=by_seed,
            holds=bool(one.low <= mean <= one.high),
        )
    return found


def _is_check_of(
    reading: measure.Reading, weights: Mapping[str, Tensor], names: Sequence[str]
) -> bool:
    """Whether a reading is of a check's run on one of some mixtures ``(K,)``."""
    if not reading.run:
        return False
    tokens = torch.tensor([reading.tokens.get(name, 0.0) for name in names], dtype=torch.float64)
    shares = tokens / tokens.sum()
    return any(bool((shares - own).abs().max() < SAME) for own in weights.values())


def _add_readings(folder: files.RunFolder, new: Sequence[measure.Reading]) -> int:
    """Adds readings to those of a search, each run once; returns how many."""
    readings = [*measure.read_readings(folder.path)]
    known = {one.run for one in readings if one.run}
    missing = {one.run: one for one in new if one.run not in known}
    if missing:
        text = measure.readings_text([*readings, *missing.values()])
        folder.write_text(measure.READINGS, text)
    return len(missing)
