"""The options of the proxy's training, and how weights become its batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from bydore_pyro.command_line import Checked, option

LARGEST_STEP = 1e30  # what float32 can still hold with a margin
Strategy = Literal["intra_sampling", "inter_sampling", "intra_weighting", "inter_weighting"]
STRATEGIES: tuple[str, ...] = get_args(Strategy)


@dataclass(frozen=True, kw_only=True)
class ProxyConfig(Checked):
    """How the proxy is trained."""

    learning_rate: float = option(
        6e-3, "Step size eta after the warm-up; 0 trains nothing.", least=0, most=LARGEST_STEP
    )
    weight_decay: float = option(0.1, "Decoupled weight decay (AdamW).", least=0, most=1e6)
    warmup_steps: int = option(20, "Steps of the linear warm-up of eta.", least=0)
    precision: Literal["float32", "bfloat16"] = option(
        "float32",
        "Precision of training; bfloat16 uses autocast. The hypergradient g is always computed "
        "in float32.",
    )
    max_gradient_norm: float = option(1.0, "Norm at which gradients are clipped.", above=0)
    liger: bool = option(
        True, "Use liger-kernel's fused loss for gradients on a GPU, if it is installed."
    )
