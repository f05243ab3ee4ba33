"""Relative errors of g under every rule and precision, against float64.

A proxy is trained for some steps in float32; then g is computed on the same batches, along the same
direction, in forward mode in float64 (the reference) and by every rule in every precision.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "experiments"))

import torch
from common import markdown, run_main
from torch import Tensor
from torch.func import functional_call

from bydore_pyro.core import Parameters, balanced_step, finite_difference, forward_mode, step_size
from bydore_pyro.proxy import Proxy
from bydore_pyro.runs import Options, language_model, load_domains
from bydore_pyro.utils import provenance, tell

ABOUT = __doc__
BATCHES = 5


@contextmanager
def precision(name: str, device: torch.device) -> Iterator[None]:
    """Runs the block in float32, with TF32 products, or in bfloat16 by autocast."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if name == "TF32" else "highest")
    try:
        with torch.autocast(device.type, torch.bfloat16, enabled=name == "bfloat16"):
            yield
    finally:
        torch.set_float32_matmul_precision(before)


def losses_of(model: torch.nn.Module, batch: Tensor, sequences: int, theta: Parameters) -> Tensor:
    """Returns the domains' mean losses ``(K,)`` in the precision that is set."""
    logits = functional_call(model, dict(theta), kwargs={"input_ids": batch}).logits[:, :-1]
    wide = torch.promote_types(logits.dtype, torch.float32)
    losses = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1).to(wide), batch[:, 1:].flatten(), reduction="none"
    )
    return losses.view(-1, sequences * (batch.shape[1] - 1)).mean(1)


def measure(options: Options) -> None:
    """Trains, measures and prints a Markdown table."""
    domains = load_domains(options)
    sequences = options.search.signal_sequences
    proxy = Proxy(language_model(options, domains.corpus.vocabulary, 0), options.proxy)
    even = dict.fromkeys(domains.names, -(-options.search.batch_sequences // len(domains.names)))
    for step in range(options.search.steps):
        loss = proxy.step(domains.train_batch(even)).mean()
        if step % 20 == 0:
            tell(f"step {step}: {loss:.3f}")
    exact_model = copy.deepcopy(proxy.model).double()
    names = ["float32", *(["TF32"] if options.device.type == "cuda" else []), "bfloat16"]
    errors: dict[tuple[str, str], list[float]] = {}
    own: list[float] = []
    for _ in range(BATCHES):
        batch = domains.signal_batch(sequences)
        held_out = domains.validation_batch(options.search.validation_batch)
        _, direction = proxy.gradient(held_out, "validation")
        theta = {name: p.clone() for name, p in proxy.parameters.items()}

        def wide(tensors: Parameters) -> dict[str, Tensor]:
            return {name: t.double() for name, t in tensors.items()}

        def exactly(shown: Parameters, batch: Tensor = batch) -> Tensor:
            return losses_of(exact_model, batch, sequences, shown)

        def ours(shown: Parameters, batch: Tensor = batch) -> Tensor:
            return losses_of(proxy.model, batch, sequences, shown)

        _, reference = forward_mode(exactly, wide(theta), wide(direction), 1.0)
        for name in names:
            with precision(name, options.device):
                balanced, estimate = balanced_step(
                    ours, theta, direction, 1.0, step_size(theta, direction, "paper")
                )
                found = {
                    rule: finite_difference(ours, theta, direction, 1.0, epsilon)[1]
                    for rule, epsilon in (
                        ("paper", step_size(theta, direction, "paper")),
                        ("darts", step_size(theta, direction, "darts")),
                        ("auto", balanced),
                    )
                }
                found["forward mode"] = forward_mode(ours, theta, direction, 1.0)[1]
            if name == "float32":
                own.append(estimate)
            for rule, g in found.items():
                error = (g.double() - reference).norm() / reference.norm()
                errors.setdefault((rule, name), []).append(float(error))
    rows = [
        [rule, *(f"{sorted(errors[rule, name])[BATCHES // 2]:.1e}" for name in names)]
        for rule in ("paper", "darts", "auto", "forward mode")
    ]
    print(markdown(["rule", *names], rows))
    print(f"The automatic rule's own estimate in float32: {sorted(own)[BATCHES // 2]:.1e}")
    print(f"Medians of {BATCHES} batches after {options.search.steps} steps on {options.device}.")
    print(provenance())


if __name__ == "__main__":
    run_main(measure, "hypergradient", ABOUT, steps=150)
