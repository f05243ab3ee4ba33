"""How a target model is trained: the options, by name."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from bydore_pyro import terminal
from bydore_pyro.command_line import Checked, number_of_tokens, option


@dataclass(frozen=True, kw_only=True)
class TargetConfig(Checked):
    """How a target model is trained.

    Raises:
        ValueError: When an option is out of its range, or `tokens` is no number.
    """

    tokens: str = option(
        "1B", "Length of the run in tokens, such as 25B; rounded up to whole steps."
    )
    sequence_length: int = option(2048, "Tokens in a sequence.", least=2, below=2**31)
    target_batch_sequences: int = option(
        512, "Sequences per step of the optimiser, over all processes.", least=1, below=2**31
    )
    device_batch_sequences: int = option(
        8,
        "Maximum number of sequences that a device processes at once; gradients are accumulated"
        " over as many such batches as a step needs.",
        least=1,
        below=2**31,
    )
    learning_rate: float = option(4e-4, "Step size after the warm-up.", above=0)
    warmup_share: float = option(
        0.01, "Share of the steps that are a linear warm-up.", least=0, most=1
    )
    weight_decay: float = option(
        0.1, "Decoupled weight decay of matrices (AdamW).", least=0, most=1e6
    )
    max_gradient_norm: float = option(1.0, "Norm at which gradients are clipped.", above=0)
    device: Literal["cuda", "cpu", "auto"] = option(
        "cuda", "'cuda', 'cpu', or 'auto': a GPU if there is one."
    )
    precision: Literal["bfloat16", "float32"] = option(
        "bfloat16",
        "Precision of the computation on a GPU; weights and optimiser stay in float32. A CPU "
        "always computes in float32.",
    )
    torch_compile: bool = option(True, "Use torch.compile on a GPU.")
    liger: bool = option(True, "Use liger-kernel's fused kernels on a GPU, if installed.")
    activation_checkpointing: bool = option(False, "Recompute activations instead of storing them.")
    max_epochs: float = option(
        4.0,
        "Maximum number of times that the text of a domain may be read: tokens of --tokens by "
        "tokens of its text, as bydore search counts.",
        above=0,
    )
    other_tokenizer: bool = option(
        False, "Accept weights that are shares of another tokenizer's tokens."
    )
    loader_workers: int = option(
        2,
        "Number of processes per device that read ahead; 0 reads in the training process.",
        least=0,
        most=64,
    )
    log_every: int = option(10, "Steps between two logged losses.", least=1, below=2**31)
    save_every: int = option(1000, "Steps between two checkpoints.", least=1, below=2**31)
    report_to: str = option(
        "none",
        "Where losses are reported too: 'tensorboard', 'wandb' or another that transformers knows.",
    )
    seed: int = option(
        0, "Seed of the model and of the order of the sequences.", least=0, below=2**31
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        number_of_tokens(self.tokens)

    @property
    def on_gpu(self) -> bool:
        """Whether it is trained on a GPU."""
        return self.device == "cuda" or (
            self.device == "auto" and terminal.device_named("auto").type == "cuda"
        )

    @property
    def steps(self) -> int:
        """Steps of the optimiser."""
        batch = self.target_batch_sequences * self.sequence_length
        return math.ceil(number_of_tokens(self.tokens) / batch)
