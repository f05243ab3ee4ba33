"""How a target model is trained: the options, by name."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from bydore_pyro.utils import number_of_tokens, require_finite

__all__ = ["TargetConfig"]


MOST_WORKERS = 64  # for each device


@dataclass(frozen=True, kw_only=True)
class TargetConfig:
    """How a target model is trained."""

    tokens: str = field(
        default="1B",
        metadata={"help": "Length of the run in tokens, such as 25B; rounded up to whole steps."},
    )
    sequence_length: int = field(default=2048, metadata={"help": "Tokens in a sequence."})
    target_batch_sequences: int = field(
        default=512,
        metadata={"help": "Sequences of an optimiser's step, of all processes together."},
    )
    device_batch_sequences: int = field(
        default=8,
        metadata={
            "help": "Most sequences that a device takes at once; gradients are accumulated over "
            "as many such batches as make up a step."
        },
    )
    learning_rate: float = field(default=4e-4, metadata={"help": "Step size after warm-up."})
    final_learning_rate: float = field(
        default=0.1, metadata={"help": "Where the cosine ends, as a share of --learning_rate."}
    )
    warmup_share: float = field(
        default=0.01, metadata={"help": "Share of the steps that warm up linearly."}
    )
    weight_decay: float = field(
        default=0.1, metadata={"help": "Decoupled decay of matrices (AdamW)."}
    )
    max_gradient_norm: float = field(
        default=1.0, metadata={"help": "Norm that a step's gradient is clipped to."}
    )
    device: str = field(default="cuda", metadata={"help": "'cuda' or 'cpu'."})
    precision: Literal["bfloat16", "float32"] = field(
        default="bfloat16",
        metadata={
            "help": "Of the computation on a GPU; weights and optimiser stay in float32. A CPU "
            "computes in float32."
        },
    )
    torch_compile: bool = field(default=True, metadata={"help": "torch.compile, on a GPU."})
    liger: bool = field(
        default=True, metadata={"help": "liger-kernel's fused kernels, on a GPU, if installed."}
    )
    fsdp: bool = field(
        default=False,
        metadata={
            "help": "Split parameters, gradients and optimiser among the processes (FSDP2) instead "
            "of a copy in each (DDP)."
        },
    )
    activation_checkpointing: bool = field(
        default=False, metadata={"help": "Compute activations again instead of keeping them."}
    )
    max_epochs: float = field(
        default=4.0, metadata={"help": "How many times the text of a domain may be read."}
    )
    other_tokenizer: bool = field(
        default=False,
        metadata={"help": "Take weights that are shares of another tokenizer's tokens."},
    )
    loader_workers: int = field(
        default=2,
        metadata={"help": "Processes that read ahead, for each device; 0 reads in its own."},
    )
    log_every: int = field(default=10, metadata={"help": "Steps between two logged losses."})
    save_every: int = field(default=1000, metadata={"help": "Steps between two checkpoints."})
    kept_checkpoints: int = field(default=2, metadata={"help": "Newest checkpoints that stay."})
    log: Literal["none", "tensorboard"] = field(
        default="tensorboard", metadata={"help": "'tensorboard' writes its event files."}
    )
    seed: int = field(default=0, metadata={"help": "Of the model and of the sequences' order."})

    def __post_init__(self) -> None:
        require_finite(self)
        number_of_tokens(self.tokens)
        least = {"sequence_length": 2, "loader_workers": 0}
        least |= dict.fromkeys(("target_batch_sequences", "device_batch_sequences"), 1)
        least |= dict.fromkeys(("log_every", "save_every", "kept_checkpoints"), 1)
        for name, smallest in least.items():
            if not smallest <= getattr(self, name) < 2**31:
                raise ValueError(f"Expected {name} >= {smallest}, actual {getattr(self, name)}")
        if self.loader_workers > MOST_WORKERS:
            raise ValueError(
                f"Expected loader_workers <= {MOST_WORKERS}, actual {self.loader_workers}"
            )
        for name in ("learning_rate", "max_gradient_norm", "max_epochs"):
            if not getattr(self, name) > 0:
                raise ValueError(f"Expected {name} > 0, actual {getattr(self, name)}")
        for name in ("final_learning_rate", "warmup_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"Expected {name} in [0, 1], actual {getattr(self, name)}")
        if not 0 <= self.weight_decay <= 1e6:
            raise ValueError(f"Expected weight_decay in [0, 1e6], actual {self.weight_decay}")
        if self.precision not in ("bfloat16", "float32"):
            raise ValueError(
                f"Expected precision 'bfloat16' or 'float32', actual {self.precision!r}"
            )
        if self.device not in ("cuda", "cpu"):
            raise ValueError(f"Expected device 'cuda' or 'cpu', actual {self.device!r}")
        if self.fsdp and self.device == "cpu":
            raise ValueError("Expected device 'cuda' with fsdp, actual 'cpu'")
        if self.log not in ("none", "tensorboard"):
            raise ValueError(f"Expected log 'none' or 'tensorboard', actual {self.log!r}")
        if not 0 <= self.seed < 2**31:
            raise ValueError(f"Expected seed in [0, 2**31), actual {self.seed}")

    @property
    def steps(self) -> int:
        """Steps of the optimiser."""
        batch = self.target_batch_sequences * self.sequence_length
        return math.ceil(number_of_tokens(self.tokens) / batch)

    @property
    def sequences(self) -> int:
        """Sequences of the run, a whole number of batches."""
        return self.steps * self.target_batch_sequences
