"""A mixture whose weights are measured on the model that trains on it; no proxy.

Nothing in gradient matching needs a proxy: the parameters may be the target model's own, at any
step. A round measures the gradients of a few sequences of every domain, which are never trained on,
and of the validation set. The posterior of all rounds' evidence then says which mixture teaches
most now, and how surely. The weights move only if the new mixture probably teaches more::

    P(given_away(u, new) < given_away(u, present)) >= level,    u ~ posterior

and if the domains explain a twentieth of the target or more: less is no reason to move. Older
rounds count as far as the newest one agrees with them (`bydore_pyro.core.importance_of`).

The posterior says what teaches most *now*, which is not always what is best for the rest of a run:
in runs of 160 steps live weights were as good as the match of a proxy in the mean of eight targets,
and on six of them worse than a mixture that trial runs chose.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from bydore_pyro.answer import CHAINS, interval_of_draws
from bydore_pyro.core import (
    RoundEvidence,
    central_weights,
    draw_posterior,
    given_away,
    importance_of,
    match,
)
from bydore_pyro.data import Domains, check_needed
from bydore_pyro.measure import measure, read_target
from bydore_pyro.mixture import within_bounds
from bydore_pyro.proxy import (
    Cost,
    GradientSketch,
    MeasuredModel,
    Parallel,
    ShardedSketch,
    is_sharded,
)
from bydore_pyro.training import MixtureState, begin, next_batch
from bydore_pyro.utils import listed

if TYPE_CHECKING:
    import arviz

LEVEL = 0.5  # probability from which on weights move
KEPT = 5  # every so many draws are kept
NOTHING = 0.95  # unexplained share of a target from which on no mixture is like it


@dataclass(frozen=True, kw_only=True)
class LiveRound:
    """What one round found; arrays are ``(K,)``, shares of the training tokens, and read-only.

    Attributes:
        step: Steps of the model before it.
        weights: To train on from now.
        found: By the posterior; the same as `weights` where these moved.
        low, high: Ends of the 94 % intervals of the posterior.
        better: Probability that `found` teaches more than the weights before.
        moved: Whether the weights moved.
        unexplained: Share of the target's gradient that no mixture explains.
        validation_loss: Nats per token.
        draws: Of the posterior ``(4, D, K)``, float32.
    """

    step: int
    weights: np.ndarray
    found: np.ndarray
    low: np.ndarray
    high: np.ndarray
    better: float
    moved: bool
    unexplained: float
    validation_loss: float
    draws: np.ndarray

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)


class LiveMixture:
    """The mixture of a model's training, measured on the model while it trains.

    A training loop of your own::

        live = LiveMixture(domains, first=100)
        for step in range(1, steps + 1):
            batch = live.batch(size)  # (size, T); or `live.weights` for a loader of your own
            ...  # train on it
            if live.due(step):
                live.measure(model, step)

    Rounds lie close together early and apart later: after `first` steps, then after twice as many,
    and so on.

    Args:
        domains: The text, whose validation set is the target; with ``measured > 0``, sequences
            that are kept aside.
        start: Weights by domain before the first round; equal ones when None.
        first: Steps before the first round.
        sequences: Of each domain in a round, as far as it has them.
        level: Probability in [0, 1] from which on the weights move; with 1 they stay.
        sketch_size: Numbers of a gradient's sketch.
        seed: Of the sketches' signs and of the posterior's draws.
        parallel: The processes that share the measuring; this one alone when None.

    Raises:
        ValueError: When a number is out of its range, or no sequences are kept aside.
        DataError: When a start names another domain.
    """

    def __init__(
        self,
        domains: Domains,
        start: Mapping[str, float] | None = None,
        *,
        first: int,
        sequences: int = 24,
        level: float = LEVEL,
        sketch_size: int = 4096,
        seed: int = 0,
        parallel: Parallel | None = None,
    ) -> None:
        _require_whole("first", first, 1)
        _require_whole("sequences", sequences, 2)
        _require_whole("sketch_size", sketch_size, 1)
        if not 0 <= level <= 1:
            raise ValueError(f"Expected 0 <= level <= 1, actual {level}")
        domains.measurable()
        self.domains, self.cost, self.sequences = domains, Cost(), sequences
        self._first, self._level = first, level
        self._sketch_size, self._seed, self._parallel = sketch_size, seed, parallel
        self._start = np.full(domains.num_domains, 1 / domains.num_domains)
        if start is not None:
            check_needed(start, domains.names)
            given = np.array([start.get(name, 0.0) for name in domains.names])
            if not (np.isfinite(given).all() and (given >= 0).all() and given.sum() > 0):
                raise ValueError(f"Expected weights >= 0, not all 0, actual {dict(start)}")
            self._start = given / given.sum()
        self._start.setflags(write=False)
        self._order: MixtureState = begin(domains.num_domains)
        self._sketch: GradientSketch | ShardedSketch | None = None
        self._measured: list[RoundEvidence] = []
        #: What every round found.
        self.rounds: list[LiveRound] = []

    @property
    def present(self) -> np.ndarray:
        """The present weights ``(K,)``, read-only; they sum to 1."""
        return self.rounds[-1].weights if self.rounds else self._start

    @property
    def weights(self) -> dict[str, float]:
        """The present weights by domain; they sum to 1."""
        return dict(zip(self.domains.names, self.present.tolist(), strict=True))

    def before(self, step: int) -> np.ndarray:
        """Returns the weights ``(K,)`` after so many steps or fewer, by the rounds until then."""
        known = [one.weights for one in self.rounds if one.step <= step]
        return known[-1] if known else self._start

    def batch(self, size: int) -> Tensor:
        """Draws a training batch ``(size, T)`` by error diffusion: after every step each domain has
        its share to within a sequence.

        Raises:
            ValueError: When `size` is below 1.
        """
        _require_whole("size", size, 1)
        counts, self._order = next_batch(self._order, self.present, size)
        return self.domains.train_batch(dict(zip(self.domains.names, counts.tolist(), strict=True)))

    def due(self, step: int) -> bool:
        """Whether a round is due after so many steps: `first`, twice as many, and so on."""
        times, rest = divmod(step, self._first)
        return rest == 0 and times >= 1 and times & (times - 1) == 0

    def measure(self, model: nn.Module, step: int, most: np.ndarray | None = None) -> LiveRound:
        """Measures a round on the model, which does not change; the weights may move.

        Args:
            model: A causal language model, ``input_ids (B, T) -> logits (B, T, V)``.
            step: Steps that it has taken, more than before the last round.
            most: The largest weights that are allowed ``(K,)``; any when None.

        Raises:
            NonFiniteError: When a loss or a gradient is not finite.
            ValueError: When the model has no parameters that are trained, the step is not behind
                the last round's, or `most` holds other numbers; see also
                `bydore_pyro.proxy.ShardedSketch`.
        """
        _require_whole("step", step, self.rounds[-1].step + 1 if self.rounds else 0)
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise ValueError("Expected a model with parameters that require gradients, found none")
        if most is not None:
            most = _caps(most, self.domains.num_domains)
        domains, training = self.domains, model.training
        try:
            with self.cost.part("gradients"):
                sketch = self._sketch_of(model)
                measured = measure(sketch, domains, self.sequences, step)
                target = read_target(sketch, measured, domains)
        finally:
            model.train(training)
        with self.cost.part("matching"):
            self._measured.append(target.evidence)
            found = match(self._measured, importance=importance_of(self._measured))
            drawn = draw_posterior(found, seed=self._seed)
            w, new = drawn.weights, central_weights(drawn.weights)
            if most is not None:
                none = np.zeros(len(most))
                new = torch.from_numpy(within_bounds(new.numpy()[None], none, most)[0])
            present = torch.tensor(self.present)
            gained = given_away(found.gram, w, new) < given_away(found.gram, w, present)
            better = float(gained.double().mean())
        explains = found.unexplained < NOTHING
        moved = explains and self._level < 1 and better >= self._level
        low, high = interval_of_draws(w.numpy()).T
        draws = w.unflatten(0, (CHAINS, -1)).numpy()
        self.rounds.append(
            LiveRound(
                step=step,
                weights=new.numpy() if moved else self.present,
                found=new.numpy(),
                low=low,
                high=high,
                better=better,
                moved=moved,
                unexplained=found.unexplained,
                validation_loss=target.loss,
                draws=draws[:, ::KEPT].astype(np.float32),
            )
        )
        return self.rounds[-1]

    def posterior(self) -> arviz.InferenceData:
        """Returns all rounds for ArviZ.

        `posterior` holds the draws ``w (chain, draw, round, domain)``; `constant_data` the step of
        each round, its `weights`, and `better`, `moved`, `unexplained`, `validation_loss`.

        Raises:
            ValueError: Before the first round.
        """
        import arviz

        if not self.rounds:
            raise ValueError("Expected at least one round, actual none")
        constant = {
            name: np.array([getattr(one, name) for one in self.rounds])
            for name in ("step", "weights", "better", "moved", "unexplained", "validation_loss")
        }
        by_round = {name: ["round"] for name in constant}
        return arviz.from_dict(
            posterior={"w": np.stack([one.draws for one in self.rounds], axis=2)},
            constant_data=constant,
            dims={"w": ["round", "domain"], **by_round, "weights": ["round", "domain"]},
            coords={
                "domain": list(self.domains.names),
                "round": np.arange(1, len(self.rounds) + 1),
            },
        )

    def _sketch_of(self, model: nn.Module) -> GradientSketch | ShardedSketch:
        """Returns the sketch of a model's gradients, with the same signs in all rounds."""
        if self._sketch is None or self._sketch.model.model is not model:
            measured = MeasuredModel(model, self.cost, self._parallel)
            kind = ShardedSketch if is_sharded(model) else GradientSketch
            self._sketch = kind(measured, self._sketch_size, self._seed)
        model.eval()
        return self._sketch

    def state(self) -> dict[str, Any]:
        """Returns what the next batch and the next round depend on: plain values and arrays."""
        return {
            "names": list(self.domains.names),
            "order": list(self._order),
            "domains": self.domains.state(),
            "measured": [vars(one) for one in self._measured],
            "rounds": [copy.deepcopy(vars(one)) for one in self.rounds],
            "cost": self.cost.report()["parts"],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes on from a `state` of the same domains and options.

        Raises:
            ValueError: When it is of other domains, or of these in another order.
        """
        if (names := state.get("names")) != list(self.domains.names):
            found = "no names" if names is None else listed(names)
            raise ValueError(
                f"Expected a state of the domains {listed(self.domains.names)}, found {found}"
            )
        self._order = MixtureState(*state["order"])
        self.domains.restore(state["domains"])
        self._measured = [RoundEvidence(**one) for one in state["measured"]]
        self.rounds = [LiveRound(**one) for one in state["rounds"]]
        self.cost = Cost()
        self.cost.add(state["cost"])
        self._sketch = None


def _require_whole(name: str, value: object, least: int) -> None:
    if not isinstance(value, Integral) or value < least:
        raise ValueError(f"Expected {name} >= {least}, a whole number, actual {value}")


def _caps(most: np.ndarray, num_domains: int) -> np.ndarray:
    """Checks the largest weights that are allowed ``(K,)``; infinity allows any. Where they leave
    no whole mixture, their proportions decide."""
    caps = np.asarray(most, np.float64)
    if caps.shape != (num_domains,) or not (caps >= 0).all() or not caps.sum() > 0:
        raise ValueError(
            f"Expected the largest weights of {num_domains} domains, >= 0 and not all 0, actual "
            f"{most}"
        )
    return np.minimum(caps / min(1.0, float(caps.sum())), 1.0)
