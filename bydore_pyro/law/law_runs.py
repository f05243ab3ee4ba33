"""Runs as the law of losses takes them: checked, and in its own units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["LawRuns"]

LEAST_TRANSFER = 0.01  # added to the measured, which may be 0
UNKNOWN_LIKENESS = 0.2
REFERENCE = 1.25  # n_0, in equal shares of the longest run: what others are worth comes on top


@dataclass(frozen=True)
class LawRuns:
    """Runs in the law's own units; `of` makes and checks them.

    Attributes:
        amounts: ``(w / n_0)^rho`` ``(R, K)``.
        losses: ``(R, T)``, of mean 0 a target, in `unit`.
        own: 1 at a target's own domain, else 0, ``(T, K)``.
        transfer: ``S_tk^rho``, 0 at its own domain, ``(T, K)``.
        centre: What a target's losses had as mean ``(T,)``, nats per token.
        unit: Nats per token.
        length: Tokens of the longest run.
        reference: ``n_0``, tokens.
        rho: In (0, 1].
    """

    amounts: Tensor
    losses: Tensor
    own: Tensor
    transfer: Tensor
    centre: Tensor
    unit: Tensor
    length: float
    reference: float
    rho: float

    @property
    def likeness(self) -> float:
        """Mean ``S_tk`` of other domains, above 0, no unit; 0.2 if not measured, or of none."""
        others = self.transfer[self.own < 1] ** (1 / self.rho)
        return float(others.mean()) if len(others) else UNKNOWN_LIKENESS

    @classmethod
    def of(
        cls,
        tokens: Tensor,
        losses: Tensor,
        transfer: Tensor | None = None,
        own: Tensor | Sequence[int] | None = None,
        rho: float = 0.9,
    ) -> LawRuns:
        """Checks and scales runs; for the arguments see `fit_law`.

        Raises:
            ValueError: When an argument is not as described there.
        """
        tokens, losses = torch.as_tensor(tokens).double(), torch.as_tensor(losses).double()
        tables = tokens.dim() == losses.dim() == 2 and len(tokens) == len(losses)
        if not (tables and tokens.shape[1] and losses.shape[1]):
            shapes = f"{tuple(tokens.shape)} and {tuple(losses.shape)}"
            raise ValueError(f"Expected tokens (R, K) and losses (R, T), actual {shapes}")
        if len(tokens) < 2:
            raise ValueError(f"Expected two readings of runs or more, actual {len(tokens)}")
        if not losses.isfinite().all():
            bad = int((~losses.isfinite()).sum())
            raise ValueError(f"Expected finite losses, actual {bad} NaN or infinite")
        _check_tokens(tokens)
        largest = losses.abs().amax().clamp(min=torch.finfo(losses.dtype).tiny)
        deviation = largest * (losses / largest).std(0, unbiased=False)  # squares may not overflow
        constant = deviation <= 1e-9 * losses.abs().amax(0)
        if constant.any():
            bad = int(constant.nonzero()[0])
            raise ValueError(
                f"Expected losses that vary over the runs, actual target {bad}: "
                f"all {float(losses[0, bad]):g}"
            )
        if not 0 < rho <= 1:
            raise ValueError(f"Expected rho in (0, 1], actual {rho}")
        of_own = own_domains(own, losses.shape[1], tokens.shape[1])
        length = float(tokens.sum(1).max())
        reference = REFERENCE * length / tokens.shape[1]
        unit = deviation.median()
        return cls(
            amounts=(tokens / reference) ** rho,
            losses=(losses - losses.mean(0)) / unit,
            own=of_own,
            transfer=scaled_transfer(transfer, of_own) ** rho * (1 - of_own),
            centre=losses.mean(0),
            unit=unit,
            length=length,
            reference=reference,
            rho=rho,
        )

    def amounts_of(self, tokens: Tensor) -> Tensor:
        """Returns what `amounts` are of other runs' tokens, ``(..., K)``.

        Raises:
            ValueError: When they are not of K domains, finite, >= 0 and some in every run.
        """
        tokens, domains = torch.as_tensor(tokens).double(), self.own.shape[1]
        if tokens.dim() == 0 or tokens.shape[-1] != domains:
            raise ValueError(f"Expected tokens (..., {domains}), actual {tuple(tokens.shape)}")
        _check_tokens(tokens)
        return (tokens / self.reference) ** self.rho


def _check_tokens(tokens: Tensor) -> None:
    if not (tokens.isfinite().all() and (tokens >= 0).all() and (tokens.sum(-1) > 0).all()):
        raise ValueError(
            "Expected finite tokens >= 0, some in every run, actual least "
            f"{float(tokens.min()):g}, least sum {float(tokens.sum(-1).min()):g}"
        )


def own_domains(own: Tensor | Sequence[int] | None, targets: int, domains: int) -> Tensor:
    """Returns 1 at each target's own domain, else 0, ``(T, K)``.

    Raises:
        ValueError: When there is not one domain, or -1, for each target, as an integer.
    """
    if own is None:
        own = torch.arange(targets) if targets == domains else torch.full((targets,), -1)
    own = torch.as_tensor(own)
    if own.shape != (targets,) or not torch.isin(own, torch.arange(-1, domains)).all():
        raise ValueError(
            f"Expected {targets} own domains, integers in [-1, {domains - 1}], "
            f"actual {own.tolist()}"
        )
    return (own[:, None] == torch.arange(domains)).double()


def scaled_transfer(transfer: Tensor | None, own: Tensor) -> Tensor:
    """Returns ``S = max(c_tk, 0) / c_tt`` and a little; the same everywhere if not measured.

    Raises:
        ValueError: When the cross products are not finite, ``(T, K)``, with ``c_tt > 0``.
    """
    if transfer is None:
        return torch.full_like(own, UNKNOWN_LIKENESS)
    cross = torch.as_tensor(transfer).double()
    if cross.shape != own.shape or not cross.isfinite().all():
        raise ValueError(
            f"Expected finite transfer (T, K) = {tuple(own.shape)}, actual {tuple(cross.shape)}"
        )
    # A target that is no domain is compared with the domain that is worth most for it.
    at_own = torch.where(own.sum(1) > 0, (cross * own).sum(1), cross.amax(1))
    if not (at_own > 0).all():
        bad = int((at_own <= 0).nonzero()[0])
        raise ValueError(f"Expected c_tt > 0, actual {float(at_own[bad]):g} at target {bad}")
    return cross.clamp(min=0) / at_own[:, None] + LEAST_TRANSFER
