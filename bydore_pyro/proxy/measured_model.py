"""A language model's losses and gradients, and what they cost; nothing is trained. No Pyro here."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from bydore_pyro import core, data, files
from bydore_pyro.errors import NonFiniteError
from bydore_pyro.proxy.language_model import TokenLosses
from bydore_pyro.proxy.parallel import Parallel


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one part of a method cost: tokens that models read, FLOPs, wall-clock seconds."""

    tokens: files.Number
    flops: files.Number
    seconds: files.Number


@dataclass(frozen=True, kw_only=True)
class Spent(Part):
    """What a method cost in all, and by part; as results and `metrics.json` keep it."""

    parts: Mapping[str, Part]


@dataclass
class Cost:
    """Counts the tokens that models read, FLOPs and seconds, by part of a method."""

    tokens: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    flops: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Adds the block's wall-clock seconds to part `name`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - start

    def count(self, name: str, tokens: int, flops: float) -> None:
        """Adds `tokens` read by a model and the `flops` of its passes over them to part `name`."""
        self.tokens[name] += tokens
        self.flops[name] += flops

    def add(self, parts: Mapping[str, Mapping[str, Any]], prefix: str = "") -> None:
        """Adds the `parts` of another counter's report, with a prefix before their names."""
        for name, spent in parts.items():
            self.count(prefix + name, int(spent["tokens"]), spent["flops"])
            self.seconds[prefix + name] += spent["seconds"]

    def spent(self) -> Spent:
        """Returns the totals and the parts; seconds are rounded to milliseconds."""
        return Spent(
            tokens=sum(self.tokens.values()),
            flops=sum(self.flops.values()),
            seconds=round(sum(self.seconds.values()), 3),
            parts={
                name: Part(
                    tokens=self.tokens.get(name, 0),
                    flops=self.flops.get(name, 0.0),
                    seconds=round(self.seconds.get(name, 0.0), 3),
                )
                for name in {**self.seconds, **self.tokens}
            },
        )

    def report(self) -> dict[str, Any]:
        """Returns what was spent as plain JSON values."""
        return asdict(self.spent())


class MeasuredModel:
    """A causal language model (``input_ids (B, T) -> logits (B, T, V)``) that is measured.

    It is set to evaluation: dropout would make perturbed losses differ by its masks.

    Args:
        model: The model; called with `input_ids`, it returns an object with `logits`, or logits.
        cost: The counter that every pass adds to; a new one when None.
        parallel: The processes that share the rows of every batch; this one alone when None.
        precision: Of losses and gradients, but for those that are always in float32.
        liger: Whether to use liger-kernel's fused loss for gradients on a GPU, if it is installed.
    """

    def __init__(
        self,
        model: nn.Module,
        cost: Cost | None = None,
        parallel: Parallel | None = None,
        precision: Literal["float32", "bfloat16"] = "float32",
        *,
        liger: bool = True,
    ) -> None:
        self._losses = TokenLosses(model, liger=liger)
        self.model = model.eval()
        self.parallel = parallel or Parallel(alone=True)
        self.cost = cost or Cost()
        self.precision = precision
        self._flops_per_token = _forward_flops_per_token(model)

    def counting_anew(self) -> MeasuredModel:
        """Returns the same model with a new cost counter, and without the state of a training."""
        own = MeasuredModel(self.model, None, self.parallel, self.precision)
        own._losses = self._losses
        return own

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The model's trainable parameters by name, detached; they share the model's memory."""
        return {n: p.detach() for n, p in self.model.named_parameters() if p.requires_grad}

    def losses(
        self,
        batch: Tensor,
        part: str,
        theta: core.Parameters | None = None,
        *,
        weights: Tensor | None = None,
        **options: Any,
    ) -> Tensor:
        """Returns the loss of each sequence ``(B,)``; as `token_losses`.

        It is the sum of its tokens' losses by weights ``(B, T - 1)``; without weights their mean,
        nats per token.
        """
        return data.weighted(self.token_losses(batch, part, theta, **options), weights)

    def token_losses(
        self,
        batch: Tensor,
        part: str,
        theta: core.Parameters | None = None,
        *,
        full_precision: bool = False,
        passes: int = 1,
    ) -> Tensor:
        """Returns the loss of each token from the second on ``(B, T - 1)``, nats.

        Args:
            batch: Token ids ``(B, T)``.
            part: The part of the cost counter to charge.
            theta: Parameters to use instead of the model's own, which stay untouched.
            full_precision: Compute in float32 whatever the training's precision: rounding would
                swamp differences of losses.
            passes: What it costs, in forward passes: 3 where derivatives are carried along.
        """
        self._charge(part, batch, passes)
        named = {f"language_model.{name}": value for name, value in (theta or {}).items()}
        with self._precision(batch.device, full_precision):
            own = functional_call(self._losses, named, (self.parallel.own(batch),))
        return self.parallel.gather(own, len(batch))

    def own_losses(self, batch: Tensor, part: str, passes: int = 3) -> Tensor:
        """Returns the token losses ``(b, T - 1)`` of this process's rows of a batch ``(B, T)``, to
        take a gradient of; charges `passes` forward passes."""
        self._charge(part, batch, passes)
        with self._precision(batch.device, full=False):
            return self._losses(self.parallel.own(batch))

    def _charge(self, part: str, batch: Tensor, passes: int) -> None:
        """Counts a forward pass over a whole batch as 1, with a backward pass or a tangent as 3."""
        tokens = batch.numel()
        self.cost.count(part, tokens, passes * tokens * self._flops_per_token(batch.shape[1]))

    @contextmanager
    def _precision(self, device: torch.device, full: bool) -> Iterator[None]:
        """Runs the block in the training's precision, or in float32 proper (not TF32)."""
        if not full:
            enabled = self.precision == "bfloat16"
            with torch.autocast(device.type, torch.bfloat16, enabled=enabled):
                yield
            return
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")
        try:
            with torch.autocast(device.type, enabled=False):
                yield
        finally:
            torch.set_float32_matmul_precision(before)

    def gradient(
        self, batch: Tensor, part: str, only: str | None = None, weights: Tensor | None = None
    ) -> tuple[float, dict[str, Tensor]]:
        """Returns the mean of the sequences' losses, as `losses` has them (nats per token, or in
        the unit of the weights), and its gradient by parameter name.

        With `only` of the one parameter of that name: one near the loss costs less than a backward
        pass, and is counted as one forward pass more.
        """
        named = {n: p for n, p in self.model.named_parameters() if p.requires_grad}
        named = named if only is None else {only: named[only]}
        losses = self.own_losses(batch, part, passes=3 if only is None else 2)
        own = None if weights is None else self.parallel.own(weights)
        loss = self._mean(data.weighted(losses, own), torch.ones(len(batch)))
        gradients = self.parallel.sum(torch.autograd.grad(loss, list(named.values())))
        (whole,) = self.parallel.sum([loss.detach()])
        return whole.item(), dict(zip(named, gradients, strict=True))

    def sequence_gradients(
        self, batch: Tensor, part: str, weights: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Returns the gradient of each sequence's loss ``(b, P)`` and the losses ``(b,)``, as
        `losses` has them.

        Of this process's rows of a batch ``(B, T)``, in float32, in the order of `parameters`. One
        pass for all sequences, by `torch.func`; a single one takes torch's ordinary way.
        """
        from torch.nn.attention import SDPBackend, sdpa_kernel

        self._charge(part, batch, passes=3)
        own = self.parallel.own(batch)
        weights = None if weights is None else self.parallel.own(weights)
        trained = {n: p for n, p in self._losses.named_parameters() if p.requires_grad}

        def loss(parameters: core.Parameters, row: Tensor, of_tokens: Tensor | None) -> Tensor:
            losses = functional_call(self._losses, dict(parameters), (row[None],))
            return data.weighted(losses, of_tokens).mean()

        with self._precision(batch.device, full=True):
            if len(own) == 1:
                value = data.weighted(self._losses(own), weights).mean()
                found = torch.autograd.grad(value, list(trained.values()))
                return torch.cat([g.flatten() for g in found])[None], value.detach()[None]
            # The fused kernels of attention have no rule for a batch of gradients.
            with sdpa_kernel(SDPBackend.MATH):
                values = {n: p.detach() for n, p in trained.items()}
                rows = (None, 0, None if weights is None else 0)
                of_each = torch.func.vmap(torch.func.grad_and_value(loss), rows)
                gradients, losses = of_each(values, own, weights)
        return torch.cat([gradients[n].detach().flatten(1) for n in trained], 1), losses.detach()

    def _mean(self, own: Tensor, factors: Tensor) -> Tensor:
        """This process's summand of the mean over the batch of factors times losses."""
        return (own * self.parallel.own_factors(factors).to(own.device)).sum() / len(factors)

    @torch.no_grad()
    def evaluate(self, batch: Tensor, part: str, chunk: int = 64) -> float:
        """Returns the mean loss over sequences ``(N, T)``, nats per token."""
        return self.evaluate_tokens(batch, part, chunk).mean().item()

    @torch.no_grad()
    def evaluate_tokens(self, batch: Tensor, part: str, chunk: int = 64, **options: Any) -> Tensor:
        """Returns every token's loss ``(N, T - 1)`` over sequences ``(N, T)``, nats; for the
        options see `token_losses`."""
        pieces = batch.split(chunk)
        return torch.cat([self.token_losses(piece, part, **options) for piece in pieces])


def _forward_flops_per_token(model: nn.Module) -> Callable[[int], float]:
    """Returns a function of ``T``: FLOPs of a forward pass, per token, the unembedding included.

    Two for each weight of a matrix (not of an embedding's table) and, for attention's two products,
    ``4 T width`` a layer (as executed, without the saving that causality allows).
    """
    linear = sum(
        parameter.numel()
        for module in model.modules()
        if not isinstance(module, nn.Embedding)
        for parameter in module.parameters(recurse=False)
        if parameter.dim() >= 2
    )
    config = getattr(model, "config", None)
    attention = 4 * getattr(config, "num_hidden_layers", 0) * getattr(config, "hidden_size", 0)
    return lambda length: 2 * linear + attention * length


def check_finite(what: str, values: Tensor, step: int, names: Any) -> None:
    """Refuses NaN and infinity.

    Args:
        what: The values are.
        values: ``(n,)``.
        step: Of the search.
        names: The domain of each.

    Raises:
        NonFiniteError: Names the step, the first such domain and the value.
    """
    bad = ~torch.isfinite(values)
    if bad.any():
        index = int(bad.nonzero()[0])
        option = "guide_learning_rate" if what.startswith("posterior") else "learning_rate"
        raise NonFiniteError(
            f"Step {step}: the {what} of domain '{names[index]}' is {values[index].item()}; "
            f"a smaller --{option} may help"
        )
