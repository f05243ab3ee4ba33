"""Would several proxies at once, stacked by `torch.func`, be faster than one after another?"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.func import functional_call, grad, stack_module_state, vmap

from bydore_pyro.proxy.proxy import build_language_model, model_source
from bydore_pyro.proxy.token_losses import TokenLosses
from bydore_pyro.utils.command_line import one_line_errors, parse_options

ABOUT = """Compute the gradients of several proxies on a batch of their own each, one proxy after
another and all stacked (torch.func), in turn; print the ratio of the times. A sweep of `bydore fit`
trains one after another; above 1, stacking would be faster."""


@dataclass(frozen=True, kw_only=True)
class StackedConfig:
    """What is stacked."""

    proxies: list[int] = field(
        default_factory=lambda: [2, 4, 8], metadata={"help": "Numbers of proxies in a stack."}
    )
    proxy: str = field(default="models/proxy-tiny", metadata={"help": "Folder of the model."})
    sequences: int = field(default=16, metadata={"help": "Sequences in a proxy's batch."})
    length: int = field(default=128, metadata={"help": "Tokens in a sequence."})
    vocabulary: int = field(default=2048, metadata={"help": "Tokens of the vocabulary."})
    blocks: int = field(default=5, metadata={"help": "Repetitions, of which the median counts."})
    device: str = field(default="cpu", metadata={"help": "'cpu' or 'cuda'."})

    def __post_init__(self) -> None:
        for value in (*self.proxies, self.sequences, self.length - 1, self.vocabulary, self.blocks):
            if value < 1:
                raise ValueError(f"Expected sizes >= 1, actual {value}")


@dataclass(frozen=True, kw_only=True)
class StackedOptions:
    """The options of this benchmark."""

    stacked: StackedConfig


def compare(config: StackedConfig, count: int) -> tuple[float, float]:
    """Returns the medians of the seconds one after another, and stacked."""
    device = torch.device(config.device)
    folder = model_source(config.proxy)
    modules = [
        TokenLosses(build_language_model(folder, config.vocabulary).eval()).to(device)
        for _ in range(count)
    ]
    shape = (count, config.sequences, config.length)
    batches = torch.randint(config.vocabulary, shape, device=device)
    parameters, buffers = stack_module_state(modules)
    skeleton = copy.deepcopy(modules[0])

    def loss(own: dict[str, Tensor], kept: dict[str, Tensor], batch: Tensor) -> Tensor:
        return functional_call(skeleton, (own, kept), (batch,)).mean()

    at_once = vmap(grad(loss))

    def one_after_another() -> None:
        for module, batch in zip(modules, batches, strict=True):
            module.zero_grad()
            module(batch).mean().backward()

    def stacked() -> None:
        at_once(parameters, buffers, batches)

    times: dict[str, list[float]] = {"one": [], "stacked": []}
    for block in range(config.blocks + 1):
        for name, run in (("one", one_after_another), ("stacked", stacked)):
            seconds = timed(run, device)
            if block:  # the first warms up
                times[name].append(seconds)
    return statistics.median(times["one"]), statistics.median(times["stacked"])


def timed(run: Callable[[], None], device: torch.device) -> float:
    """Returns the seconds that a call takes."""
    start = time.perf_counter()
    run()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def main() -> None:
    """Measures every size and prints a line for each."""
    import sys

    with one_line_errors("stacked"):
        config = parse_options(sys.argv[1:], "stacked", ABOUT, StackedOptions).stacked
        for count in config.proxies:
            one, stacked = compare(config, count)
            print(
                f"{count} proxies, {config.sequences} x {config.length} tokens each: one after "
                f"another {one * 1e3:.0f} ms, stacked {stacked * 1e3:.0f} ms; ratio "
                f"{one / stacked:.2f}"
            )


if __name__ == "__main__":
    main()
