"""A live mixture in `bydore train`: when rounds are due, their cost, and the limits of text."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from bydore_pyro.answer import plot_rounds
from bydore_pyro.data import Domains, TokenStore
from bydore_pyro.live.live_mixture import LEVEL, LiveMixture
from bydore_pyro.measure import by_name
from bydore_pyro.mixture import Mixture
from bydore_pyro.proxy import Parallel
from bydore_pyro.runs import MatchingRecord, Metrics, RoundRecord, spent
from bydore_pyro.training import MEASURING, TargetConfig
from bydore_pyro.utils import (
    DataError,
    Interrupted,
    RunFolder,
    expecting,
    plain,
    read_tree,
    tell,
    write_tree,
)

FOLDER = "live"  # in a checkpoint
BEGINNING = 8  # the first round is after this part of the run, a quarter and a half follow
FEWEST, MOST, MOST_TARGET = 8, 64, 512  # sequences of a round
TARGET = 0.25  # share of a round's sequences that are the target's
NOTE = "The weights at the end of a training that moved them; before, it read other mixtures."
AHEAD = 2  # steps that the Trainer reads ahead, beside its workers


class LiveTraining:
    """The mixture of one training (`bydore_pyro.training.Schedule`).

    Rounds are due after an eighth of the run, a quarter, and a half. Loaders read ahead: the
    weights of a round hold from ``2 + 2 workers`` steps after it on, the same steps on any number
    of processes. No text is read more than `max_epochs` times: no weight is larger than what is
    left of its domain allows for the rest of the run.

    Args:
        store: The text, with the target's held-out text.
        shares: Of the target, by domain.
        start: Weights by domain before the first round.
        config: How the model is trained.
        share: Of the training's sequences, that measuring may add; more where it does not reach for
            8 of each domain a round.
        level: See `LiveMixture`.
        parallel: The processes that share the measuring.

    Raises:
        DataError: When the run is too short for a round, or see `Domains` and `LiveMixture`.
    """

    def __init__(
        self,
        store: TokenStore,
        shares: Mapping[str, float],
        start: Mapping[str, float],
        config: TargetConfig,
        share: float,
        *,
        level: float = LEVEL,
        parallel: Parallel | None = None,
    ) -> None:
        self._config = config
        first = max(1, config.steps // BEGINNING)
        self.lag = AHEAD + 2 * config.loader_workers
        rounds = sum(first * 2**n + self.lag < config.steps for n in range(config.steps))
        if not rounds:
            raise DataError(
                f"Expected a run of more than {first + self.lag} steps for --live, found "
                f"{config.steps}"
            )
        count = sum(1 for tokens in store.train.values() if len(tokens))
        sequences = config.steps * config.target_batch_sequences
        each, target = sequences_of_round(share * sequences / rounds, count)
        domains = Domains(
            store,
            shares,
            sequence_length=config.sequence_length,
            validation_sequences=target,
            minimal_validation=FEWEST,
            measured=each * rounds,
            seed=config.seed,
            device="cuda" if config.on_gpu else "cpu",
        )
        self.names, self.measured = domains.names, each * rounds
        self.target = domains.validation
        self.mixture = LiveMixture(
            domains,
            start,
            first=first,
            sequences=each,
            level=level,
            seed=config.seed,
            parallel=parallel,
        )
        self.belongs: Mapping[str, Any] = {
            "rounds": rounds,
            "sequences": each,
            "lag": self.lag,
            "target": dict(domains.validation_shares),
            "target_sequences": len(domains.validation),
            "level": level,
            "max_epochs": config.max_epochs,
        }
        self._sequences = count * each + len(domains.validation)  # of a round
        self.share = rounds * self._sequences / sequences
        tell(
            f"--live: {rounds} rounds of {each} sequences of each domain and "
            f"{len(domains.validation)} of the target, {self.share:.1%} of the training's sequences"
        )

    def weights_of(self, step: int) -> np.ndarray:
        """Returns the weights ``(K,)`` of a step, counted from 0."""
        return self.mixture.before(step - self.lag)

    def after_step(self, model: nn.Module, step: int) -> dict[str, float]:
        """Measures if a round is due and was not measured yet; returns what to log then, by name.

        Raises:
            Interrupted: See `stop_if_asked`; the round is as if it had not begun.
        """
        rounds = self.mixture.rounds
        measured = bool(rounds) and rounds[-1].step >= step
        if measured or not self.mixture.due(step) or step + self.lag >= self._config.steps:
            return {}
        batch, before = self._config.target_batch_sequences, self.mixture.cost.report()["seconds"]
        state = self.mixture.state()
        try:
            found = self.mixture.measure(model, step, self._most(step))
        except Interrupted:
            self.mixture.restore(state)
            raise
        seconds = self.mixture.cost.report()["seconds"] - before
        largest = sorted(self.mixture.weights.items(), key=lambda item: -item[1])[:3]
        tell(
            f"step {step}: the mixture {'moves' if found.moved else 'stays'} (another teaches more "
            f"with probability {found.better:.2f}; {found.unexplained:.0%} of the target stays "
            f"unexplained), measured in {seconds:.1f} s; now "
            + ", ".join(f"{name} {weight:.3f}" for name, weight in largest)
        )
        return {
            **{f"weight/{name}": weight for name, weight in self.mixture.weights.items()},
            "live/validation_loss": found.validation_loss,
            "live/unexplained": found.unexplained,
            MEASURING: self._sequences * len(self.mixture.rounds) / (batch * step),
        }

    def _most(self, step: int) -> np.ndarray:
        """The largest weights ``(K,)`` with which the rest reads no text too often."""
        batch, steps = self._config.target_batch_sequences, self._config.steps
        begins = step + self.lag  # what is read until then is known
        changes = [0, *(one.step + self.lag for one in self.mixture.rounds), begins]
        read = batch * sum(
            (end - begin) * self.weights_of(begin) for begin, end in itertools.pairwise(changes)
        )
        room = self._config.max_epochs * self.mixture.domains.trained() - read
        return np.maximum(room, 0) / (batch * (steps - begins))

    def record(self) -> dict[str, Any]:
        """Returns what the rounds cost and found, as plain values: `live`, and the fields that the
        record of a search has too (`bydore_pyro.runs.Metrics`)."""
        cost, rounds = self.mixture.cost, self.mixture.rounds
        found = [
            RoundRecord(
                step=one.step,
                sequences=len(self.names) * self.mixture.sequences,
                weights=by_name(self.names, one.weights),
                alone=by_name(self.names, one.found),
                better=one.better,
                moved=one.moved,
                unexplained=one.unexplained,
                validation_loss=one.validation_loss,
            )
            for one in rounds
        ]
        matching = MatchingRecord(rounds=tuple(found), unexplained=rounds[-1].unexplained)
        record = Metrics(method="live", search=spent(cost), matching=matching)
        return {**plain(record), "live": {**cost.report(), "share_of_sequences": self.share}}

    def leave(self, folder: RunFolder) -> None:
        """Writes `mixture.json`, the weights at the end with the last round's intervals; `live.nc`,
        all rounds for ArviZ; and `live.png`, the weights by step."""
        rounds, corpus = self.mixture.rounds, self.mixture.domains.corpus
        last = rounds[-1]
        mixture = Mixture(
            names=self.names,
            weights=tuple(last.weights.tolist()),
            standard_deviation=tuple(last.draws.std((0, 1)).tolist()),
            hdi=tuple(zip(last.low.tolist(), last.high.tolist(), strict=True)),
            tokenizer=corpus.tokenizer_sha256,
            data_sha256=corpus.sha256,
            notes=(NOTE,),
        )
        folder.write_text("mixture.json", mixture.to_json() + "\n")
        folder.write_posterior("live.nc", self.mixture.posterior())
        figure = plot_rounds(
            self.names,
            [one.step for one in rounds],
            np.stack([self.weights_of(0), *(one.weights for one in rounds)]),
            np.stack([[one.low, one.high] for one in rounds]),
            self._config.steps,
        )
        folder.write_figure("live.png", figure)

    def save(self, checkpoint: Path) -> None:
        """Writes into a checkpoint what the next round depends on."""
        folder = checkpoint / FOLDER
        folder.mkdir()
        write_tree(folder, self.mixture.state(), {})

    def load(self, checkpoint: Path) -> None:
        """Goes on from the files that `save` wrote.

        Raises:
            DataError: When it is damaged.
        """
        with expecting(f"Expected a live mixture in {checkpoint}:", ValueError):
            self.mixture.restore(read_tree(checkpoint / FOLDER)[1])


def sequences_of_round(budget: float, num_domains: int) -> tuple[int, int]:
    """Returns how many sequences of each domain and of the target a round may measure.

    Args:
        budget: Sequences of a round; it is exceeded where it does not reach for 8 of each domain.
        num_domains: K.
    """
    each = math.floor((1 - TARGET) * budget / num_domains)
    target = math.floor(TARGET * budget)
    fewest = FEWEST * 4
    return min(max(each, FEWEST), MOST), min(max(target, fewest), MOST_TARGET)
