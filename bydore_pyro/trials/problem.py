"""The problem that every method solves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from bydore_pyro import data, measure
from bydore_pyro.errors import DataError
from bydore_pyro.mixture import Mixture
from bydore_pyro.proxy import Cost, ProxyConfig


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Find the weights of ``K`` domains that make a model good on a target.

    Every method gets the same text, proxy, batches, seed, and most FLOPs.

    Args:
        corpus: The tokens.
        names: The domains to train on, ``K`` of them.
        target: The validation set, as shares of domains' held-out text and of tasks, of sum 1.
        build: Makes a language model with fresh weights out of a seed, on its device.
        proxy: How models are trained.
        steps: Of a plain training of the proxy.
        batch_sequences: ``B``, sequences in a training batch.
        sequence_length: ``T``, tokens in a sequence.
        validation_sequences: Most sequences in the validation set.
        seed: Of models, batches and draws.
        budget: Most FLOPs that a method may spend, as a multiple of a plain training of the proxy.
        runs: Folder of finished proxies; methods share them.
        most: Largest weight of each domain, which proposed mixtures keep; None without limits.
        least: Smallest weights of some domains, likewise.
        held_out: Most sequences of domains' held-out text on which every proxy is evaluated; when
            None, those of the validation set.
        side: Which held-out text that is.
        run_tokens: Length of the run that proxies are to repeat text like, in tokens; None where
            they read text as it is, most of it never.
        cluster: Where proxies are trained, see `bydore_pyro.pieces`; here when None.
        cost: What this method spends.
    """

    corpus: data.TokenStore
    names: tuple[str, ...]
    target: Mapping[str, float]
    build: Callable[[int], nn.Module]
    proxy: ProxyConfig
    steps: int
    batch_sequences: int
    sequence_length: int
    validation_sequences: int
    seed: int
    budget: float
    runs: Path
    most: Mapping[str, float] | None = None
    least: Mapping[str, float] = field(default_factory=dict)
    held_out: Mapping[str, int] | None = None
    side: data.HeldOut = "validation"
    run_tokens: float | None = None
    cluster: str | None = None
    cost: Cost = field(default_factory=Cost)

    @property
    def device(self) -> torch.device:
        """Where the models are."""
        return next(self._model.parameters()).device

    @cached_property
    def _model(self) -> nn.Module:
        return self.build(0)

    @property
    def batch_tokens(self) -> int:
        """Tokens in a training batch."""
        return self.batch_sequences * self.sequence_length

    @cached_property
    def evaluated(self) -> dict[str, int]:
        """How many sequences of domains' held-out text, and how many questions of tasks, every
        proxy is evaluated on."""
        length, given = self.sequence_length, self.held_out
        if given is None:
            return data.held_out_counts(self.corpus, self.target, length, self.validation_sequences)
        texts = getattr(self.corpus, self.side)
        sizes = {n: data.held_out_size(texts[n], length) if n in texts else 0 for n in given}
        return {n: min(most, sizes[n]) for n, most in given.items()}

    def evaluated_on(self, name: str) -> data.Sequences:
        """Returns the text of a domain or a task on which every proxy is evaluated."""
        count = self.evaluated[name]
        given = self.corpus, name, self.sequence_length, self.seed
        return data.held_out_sequences(*given, count, self.side)

    def read_on_all(self) -> Problem:
        """Returns the problem with proxies that are read on every domain too, as a search is."""
        length, held_out = self.sequence_length, self.corpus.validation
        all_read = {name: measure.READ for name in self.names if len(held_out[name]) >= length}
        counts = {name: max(count, all_read.get(name, 0)) for name, count in self.evaluated.items()}
        return dataclasses.replace(self, held_out=all_read | counts)

    @cached_property
    def token_shares(self) -> np.ndarray:
        """The natural weights of the domains ``(K,)``, see `TokenStore.natural`."""
        return np.array([*self.corpus.natural(self.names).values()])

    def text_for(self, steps: float) -> dict[str, int] | None:
        """Returns how many tokens of each domain a proxy may read, to repeat them as the run will.

            size of the domain x tokens of the proxy / tokens of the run

        It is given all text (None) without `run_tokens`, and where it is as long as the run.

        Raises:
            DataError: When less than a sequence would be left of a domain.

        References:
            Repetition matched to the target's budget: arXiv 2606.07597.
        """
        if self.run_tokens is None:
            return None
        share = steps * self.batch_sequences * self.sequence_length / self.run_tokens
        if share >= 1:
            return None
        text = {name: int(share * self.corpus.size(name)) for name in self.names}
        for name, left in text.items():
            if left < self.sequence_length:
                raise DataError(
                    f"Expected at least one sequence of {self.sequence_length} tokens of '{name}' "
                    f"for proxies that repeat text as the run does, found {left} tokens: proxies "
                    f"of {steps:.0f} steps are too short for a run of {self.run_tokens:.3g} tokens"
                )
        return text

    def domains(self, seed: int, text: Mapping[str, int] | None = None) -> data.Domains:
        """Returns the domains in the orders of a seed; with `text`, at most so many training tokens
        of each domain, of documents that the seed draws."""
        return data.Domains(
            self.corpus if text is None else data.cut_store(self.corpus, text, seed),
            self.target,
            names=self.names,
            sequence_length=self.sequence_length,
            validation_sequences=self.validation_sequences,
            seed=seed,
            device=self.device,
        )

    @cached_property
    def model_config(self) -> str:
        """The proxy's configuration as JSON."""
        config: Any = getattr(self._model, "config", None)
        return config.to_json_string(use_diff=False) if config is not None else ""

    def evaluation_steps(self) -> float:
        """The cost of one evaluation of a proxy, in training steps (three forward passes each)."""
        return sum(self.evaluated.values()) / (3 * self.batch_sequences)

    def steps_for(self, method: str, runs: float, other: float = 0.0) -> int:
        """Returns how many steps each of a method's proxies may take within the budget.

        Args:
            method: Its name, for the message.
            runs: Plain proxies that it trains and evaluates, all of the same length; a longer one
                counts as more.
            other: What it spends beside, in training steps.

        Raises:
            DataError: When the budget does not reach.
        """
        steps = int((self.budget * self.steps - other - runs * self.evaluation_steps()) / runs)
        if steps < 1:
            need = (runs * (1 + self.evaluation_steps()) + other) / self.steps
            raise DataError(
                f"Expected a budget of at least {need:.2f} plain trainings for {method}, found "
                f"{self.budget:g}"
            )
        return steps

    def mixture(self, weights: np.ndarray) -> Mixture:
        """Returns weights ``(K,)`` of the domains as a mixture of this problem's tokens."""
        shares = np.clip(np.asarray(weights, float), 0, None)
        return Mixture(
            names=self.names,
            weights=tuple((shares / shares.sum()).tolist()),
            tokenizer=self.corpus.tokenizer_sha256,
            data_sha256=self.corpus.sha256,
        )
