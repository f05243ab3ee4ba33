"""Gradients for many targets at once: every domain's text, sketched at one proxy's checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from bydore_pyro.data import Domains, TokenStore
from bydore_pyro.proxy import GradientSketch, Proxy, train_on_mixture
from bydore_pyro.runs import Options, domains_of, language_model
from bydore_pyro.utils import RunFolder, appearing_file

SIDES = ("measured", "held_out")
SKETCHING = "sketching.json"  # what it cost, by part


@dataclass(frozen=True)
class Pools:
    """Sketches of one checkpoint, by domain.

    Attributes:
        sketches: By side, `SIDES`, and domain: ``(n, S)``. The measured side is text of the
            training documents that was never trained on, the other the store's validation side.
        documents: The number of each one's document ``(n,)``.
    """

    sketches: Mapping[str, Mapping[str, Tensor]]
    documents: Mapping[str, Mapping[str, Tensor]]


def sequences_of(
    options: Options, corpus: TokenStore, counts: Mapping[str, int]
) -> tuple[Domains, dict[str, dict[str, tuple[Tensor, Tensor]]]]:
    """Returns the domains, and by side and domain the sequences and their documents.

    Args:
        options: Data, lengths, seed.
        corpus: The tokens.
        counts: The most sequences of each side.
    """
    seed, most = options.run.seed, counts["measured"]
    domains = domains_of(options, corpus, seed, measured=most)
    found: dict[str, dict[str, tuple[Tensor, Tensor]]] = {side: {} for side in SIDES}
    for name, available in zip(domains.names, domains.measurable().tolist(), strict=True):
        batch, documents = domains.measure_batch(name, min(most, available))
        found["measured"][name] = batch, torch.from_numpy(documents)
        held_out = Domains(
            corpus,
            {name: 1.0},
            names=domains.names,
            sequence_length=options.run.sequence_length,
            validation_sequences=counts["held_out"],
            minimal_validation=1,
            seed=seed,
            device=options.device,
        )
        documents = held_out.validation_documents
        found["held_out"][name] = held_out.validation, torch.from_numpy(documents)
    return domains, found


def pools_of(
    options: Options, corpus: TokenStore, counts: Mapping[str, int], folder: RunFolder
) -> list[Pools]:
    """Trains a proxy on equal weights and sketches all sequences at every step that is measured.

    A checkpoint whose sketches lie in the folder is not sketched again.
    """
    domains, found = sequences_of(options, corpus, counts)
    documents = {s: {n: d for n, (_, d) in rows.items()} for s, rows in found.items()}
    paths = {step: folder.path / f"sketches-{step}.pt" for step in options.search.measured_steps}
    if not all(path.exists() for path in (*paths.values(), folder.path / SKETCHING)):
        folder.write_json(SKETCHING, _sketch(options, domains, found, paths))
    # Only tensors, which `weights_only` reads.
    loaded: list[Any] = [torch.load(path, weights_only=True) for path in paths.values()]
    return [Pools(sketches, documents) for sketches in loaded]


def _sketch(
    options: Options,
    domains: Domains,
    found: Mapping[str, Mapping[str, tuple[Tensor, Tensor]]],
    paths: Mapping[int, Path],
) -> dict[str, Any]:
    """Trains, and writes the sketches of the steps whose files are missing; returns the cost."""
    seed, config = options.run.seed, options.search
    proxy = Proxy(language_model(options, domains.corpus.vocabulary, seed), options.proxy)
    sketch = GradientSketch(proxy, config.sketch_size, seed)
    equal = dict.fromkeys(domains.names, 1 / domains.num_domains)
    training = train_on_mixture(
        domains, proxy, equal, max(paths), config.batch_sequences, seed=seed
    )
    bar = tqdm(training, total=max(paths), desc="training", unit="step", mininterval=0.5)
    for step, _ in enumerate(bar, 1):
        if step not in paths or paths[step].exists():
            continue
        bar.set_description(f"sketching at step {step}")
        with proxy.cost.part("gradients"):
            sketches = {
                side: {name: sketch(batch, "gradients")[0] for name, (batch, _) in rows.items()}
                for side, rows in found.items()
            }
        with appearing_file(paths[step]) as aside:
            torch.save(sketches, aside)
    return proxy.cost.report()["parts"]
