"""Gradients for many targets at once: sketches of every domain's text at one proxy's checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from bydore_pyro.data.store import TokenStore
from bydore_pyro.domains import Domains
from bydore_pyro.files import appearing_file
from bydore_pyro.gradients import GradientSketch
from bydore_pyro.options import Options
from bydore_pyro.proxy import Proxy
from bydore_pyro.run_data import domains_of
from bydore_pyro.run_folder import RunFolder
from bydore_pyro.scheduling import systematic_counts

SIDES = ("measured", "held_out")


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
    seed, config = options.run.seed, options.search
    proxy = Proxy(options.language_model(corpus.vocabulary, seed), options.proxy)
    sketch = GradientSketch(proxy, config.sketch_size, seed)
    weights = torch.full((domains.num_domains,), 1 / domains.num_domains, dtype=torch.float64)
    generator = torch.Generator().manual_seed(seed)
    documents = {s: {n: d for n, (_, d) in rows.items()} for s, rows in found.items()}
    pools = []
    bar = tqdm(total=config.trained_steps, desc="training", unit="step", mininterval=0.5)
    for step in range(1, config.trained_steps + 1):
        shared = systematic_counts(weights, config.batch_sequences, generator).tolist()
        proxy.step(domains.train_batch(dict(zip(domains.names, shared, strict=True))))
        bar.update()
        if step not in config.measured_steps:
            continue
        path = folder.path / f"sketches-{step}.pt"
        if not path.exists():
            bar.set_description(f"sketching at step {step}")
            sketches = {
                side: {name: sketch(batch, "gradients")[0] for name, (batch, _) in rows.items()}
                for side, rows in found.items()
            }
            with appearing_file(path) as aside:
                torch.save(sketches, aside)
        loaded: Any = torch.load(path, weights_only=True)
        pools.append(Pools(loaded, documents))
        if step == config.measured_steps[-1]:
            break
    bar.close()
    return pools
