"""Tokens per second of `train_target`, and the fraction of a GPU's bf16 rate that they are.

Random tokens of two domains are trained on, through the whole of `train_target`: the order of
domains, the reading, the Trainer. The first steps, in which kernels are compiled, do not count.
Every option of a training applies.

A token costs ``6 N + 12 L D T`` FLOPs: ``N`` parameters but the embedding's table, ``L`` layers,
``D`` width, ``T`` tokens in a sequence. Attention counts in full, as in the PaLM paper (arXiv
2204.02311, appendix B); recomputed activations do not count.
"""

from __future__ import annotations

import dataclasses
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bydore_pyro.command_line import Checked, one_line_errors, option, parse_options
from bydore_pyro.data import Text, TokenStore
from bydore_pyro.data.tokenizer import tokenizer_sha256, train_tokenizer
from bydore_pyro.files import provenance
from bydore_pyro.mixture import Mixture
from bydore_pyro.proxy import model_source, number_of_processes
from bydore_pyro.training import TargetConfig, train_target
from bydore_pyro.training.stages import Stages

# Dense bf16 products, TFLOP/s, as the makers state them.
PEAKS = {"H200": 989.4, "H100": 989.4, "A100": 312.0, "B200": 2250.0}
SMOKE = {
    "model": "models/target-tiny",
    "timed_steps": 3,
    "untimed_steps": 1,
    "vocabulary_size": 300,
    "sequence_length": 32,
    "target_batch_sequences": 4,
    "device_batch_sequences": 2,
    "device": "cpu",
    "loader_workers": 0,
}


@dataclass(frozen=True, kw_only=True)
class BenchmarkConfig(Checked):
    """What is measured."""

    model: str = option("models/target-60m", "Folder with config.json, or a hub name.")
    vocabulary_size: int = option(32000, "Tokens of the vocabulary.", least=257, most=2**16)
    untimed_steps: int = option(10, "First steps, which do not count.", least=1)
    timed_steps: int = option(30, "Steps that count.", least=1)
    peak_teraflops: float | None = option(
        None, "The device's bf16 rate, where it is not known.", above=0
    )
    smoke: bool = option(False, "A run of seconds that only shows that all parts work.")


@dataclass(frozen=True, kw_only=True)
class BenchmarkOptions:
    """All options."""

    benchmark: BenchmarkConfig
    target: TargetConfig


def random_store(folder: Path, vocabulary: int, tokens: int) -> TokenStore:
    """Returns a store of random tokens of two domains, in memory."""
    train_tokenizer(["random tokens"], 257, folder / "tokenizer")
    rng = np.random.default_rng(0)
    train, ends = {}, np.array([tokens])
    for name in ("large", "small"):
        train[name] = Text(rng.integers(0, vocabulary, tokens, np.uint16), ends)
    index = {
        "vocabulary": vocabulary,
        "sha256": "random",
        "tokenizer_sha256": tokenizer_sha256(folder / "tokenizer"),
    }
    return TokenStore(folder, train, {}, index)


def measure(options: BenchmarkOptions) -> tuple[dict[str, Any], list[float]]:
    """Trains; returns its metrics and the seconds of each step that counts."""
    from transformers import TrainerCallback

    benchmark, config = options.benchmark, options.target
    steps = benchmark.untimed_steps + benchmark.timed_steps
    tokens = steps * config.target_batch_sequences * config.sequence_length
    config = dataclasses.replace(config, tokens=str(tokens), log_every=steps, save_every=steps)
    ends: list[float] = []

    class Clock(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            if config.on_gpu:
                torch.cuda.synchronize()
            ends.append(time.perf_counter())

    named = Path(model_source(benchmark.model))
    mixture = Mixture(names=("large", "small"), weights=(0.7, 0.3))
    with tempfile.TemporaryDirectory(prefix="bydore-benchmark-") as place:
        metrics = train_target(
            named if named.is_dir() else benchmark.model,
            random_store(Path(place), benchmark.vocabulary_size, tokens),
            Stages.constant(mixture),
            config,
            Path(place) / "run",
            callbacks=[Clock()],
        )
    return metrics, np.diff(ends[benchmark.untimed_steps - 1 :]).tolist()


def report(options: BenchmarkOptions, metrics: dict[str, Any], seconds: Sequence[float]) -> str:
    """Returns the measurement as text."""
    from transformers import AutoConfig

    config = options.target
    named = Path(model_source(options.benchmark.model))
    shape = AutoConfig.from_pretrained(str(named if named.is_dir() else options.benchmark.model))
    matrices = metrics["parameters"] - metrics["embedding_parameters"]
    attention = 12 * shape.num_hidden_layers * shape.hidden_size * config.sequence_length
    flops = 6 * matrices + attention
    batch = config.target_batch_sequences * config.sequence_length
    speed = batch * len(seconds) / sum(seconds)
    device = metrics["device"]
    known = next((peak for name, peak in PEAKS.items() if name in device), None)
    peak = options.benchmark.peak_teraflops or known
    share = f"{speed * flops / peak / 1e12:.1%} of {peak:g}" if peak else "of an unknown rate"
    steps = sorted(seconds)
    memory = (metrics.get("peak_gpu_memory_bytes") or 0) / 2**30
    return (
        f"{options.benchmark.model}: {metrics['parameters']:,} parameters, {device}\n"
        f"{speed:,.0f} tokens per second, {speed * flops / 1e12:.1f} TFLOP/s, {share}\n"
        f"a step of {batch:,} tokens: median {steps[len(steps) // 2]:.3f} s, range {steps[0]:.3f} "
        f"to {steps[-1]:.3f} over {len(steps)} steps; peak GPU memory {memory:.1f} GiB"
    )


def main(arguments: Sequence[str]) -> None:
    """Measures and prints."""
    name = "target"
    with one_line_errors(name):
        if number_of_processes() > 1:
            raise ValueError("Expected one process for this benchmark, found several")
        options = parse_options(arguments, name, __doc__ or "", BenchmarkOptions, smoke=SMOKE)
        print(report(options, *measure(options)))
        print(options)
        print(provenance())


if __name__ == "__main__":
    main(sys.argv[1:])
