"""Branches: what more steps on one domain alone do to a model, and to every text's loss.

After the last measured step each domain gets a branch, from the same parameters and state of the
optimiser. Of many domains each group gets one: domains whose gradients are alike. Branches know no
target. They are kept beside the measurements, in ``branch-1`` and so on, as differences of the
parameters in bfloat16, and read as they are kept. See `bydore_pyro.core.responses`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bydore_pyro import core, data, files, proxy, terminal
from bydore_pyro.errors import NonFiniteError, listed
from bydore_pyro.measure.measurement import Measurement
from bydore_pyro.pieces import run_pieces

FORMAT, BRANCH = "bydore_pyro.branch/1", "branch"
PREFIX = "branch_"  # of what they cost, by part


@dataclass(frozen=True, kw_only=True)
class Branch:
    """A model after more steps on some domains alone, and how all domains respond.

    Attributes:
        domains: On which it trained, equally.
        change: Its parameters less those where it began, by name, bfloat16.
        responses: By how much the losses of sequences of each domain fell ``(n,)``, nats per token.
        documents: Of these sequences ``(n,)``.
        sha256: Of its file; "" before it is kept.
    """

    domains: tuple[str, ...]
    change: Mapping[str, Tensor]
    responses: Mapping[str, Tensor]
    documents: Mapping[str, Tensor]
    sha256: str = ""

    def parameters(self, theta: core.Parameters) -> dict[str, Tensor]:
        """Returns those of the branch, by name, for those where it began."""
        return {n: p + self.change[n].to(p.device, p.dtype) for n, p in theta.items()}


def samples_of(branches: Sequence[Branch]) -> dict[str, core.Sample]:
    """Returns the responses of each domain to M branches ``(n, M)``, by name."""
    return {
        name: core.Sample(torch.stack([one.responses[name] for one in branches], 1), documents)
        for name, documents in branches[0].documents.items()
    }


def groups_of(samples: Mapping[str, core.Sample], most: int) -> list[tuple[str, ...]]:
    """Returns which domains share a branch: each has its own if there are at most so many.

    Of more, those whose mean gradients point the same way are together: groups of the tree of
    average cosines, in the order of their first domains.

    Args:
        samples: Gradients of each domain.
        most: Number of groups, >= 1.
    """
    names = [*samples]
    if len(names) <= most:
        return [(name,) for name in names]
    from scipy.cluster.hierarchy import fcluster, linkage

    means = torch.stack([one.gradients.double().mean(0) for one in samples.values()])
    means = means - means.mean(0)  # what all share separates none
    tree = linkage(means.numpy(), "average", "cosine")
    found: dict[int, list[str]] = {}
    for name, number in zip(names, fcluster(tree, most, "maxclust").tolist(), strict=True):
        found.setdefault(number, []).append(name)
    return [tuple(members) for members in found.values()]


def measure_branches(
    domains: data.Domains,
    trained: proxy.Proxy,
    measured: Measurement,
    *,
    most: int,
    steps: int,
    batch_sequences: int,
    sequences: int,
    seed: int = 0,
    cluster: str | None = None,
    folder: Path | None = None,
    belongs: Mapping[str, Any] | None = None,
) -> list[Branch]:
    """Trains the branches of the last measurement, and reads every domain in each.

    Those that are kept in the folder are not trained again. The model, its optimiser and the order
    of the training text stay as they are.

    Args:
        domains: Where batches come from.
        trained: The model, where it was measured.
        measured: The measurement.
        most: Branches at most, see `groups_of`.
        steps: Of each branch, at a constant rate.
        batch_sequences: Of a step.
        sequences: Of each domain that are read, as far as it has them.
        seed: Of the batches of groups.
        cluster: Where a branch is a piece, see `bydore_pyro.pieces`.
        folder: The run's; None keeps nothing.
        belongs: As for `keep_measurement`.

    Raises:
        NonFiniteError: When a loss of a branch is NaN or infinite; names the branch.
        RunFolderError: When there are branches of another run.
    """
    groups = groups_of(measured.samples, most)
    texts, documents = _texts(domains, sequences, domains.names)
    key = _key(measured, belongs or {})
    parallel, cost = trained.parallel, trained.cost

    def place(number: int) -> files.Kept | None:
        if folder is None:
            return None
        return files.Kept(folder / f"{BRANCH}-{number + 1}", key, writes=parallel.is_main)

    with terminal.deferred():
        start = _Start(
            domains=domains,
            trained=trained,
            texts=texts,
            documents=documents,
            before=losses_of_texts(trained, texts),
            steps=steps,
            batch_sequences=batch_sequences,
            seed=seed,
        )
        found: dict[int, Branch] = {}
        for number in range(len(groups)):
            if (kept := place(number)) is not None and (tree := kept.get()) is not None:
                found[number] = _branch_of(tree, kept)
                cost.add(tree["cost"], PREFIX)
        # The first process looks, for all.
        names = parallel.agree(" ".join(str(n) for n in range(len(groups)) if n not in found))
        missing = [int(number) for number in names.split()]
        about: Any = {"sizes": [steps] * len(missing), "unit": "step", "label": "branches"}
        about |= {"gpus": int(domains.device.type != "cpu")}
        done = run_pieces(start.branch, [groups[number] for number in missing], cluster, **about)
        for piece, tree in done:
            cost.add(tree["cost"], PREFIX)
            if (kept := place(missing[piece])) is not None:
                kept.put(tree)
            found[missing[piece]] = _branch_of(tree, kept)
            terminal.stop_if_asked(parallel.largest)
    return [found[number] for number in range(len(groups))]


def read_branches(folder: Path, measured: Measurement, belongs: Mapping[str, Any]) -> list[Branch]:
    """Reads the branches that a search has kept, up to the first that is missing or damaged.

    Args:
        folder: The search's.
        measured: Its last measurement.
        belongs: As `measure_branches` got it.

    Raises:
        RunFolderError: When one belongs to another run.
    """
    kept = files.kept_series(folder, BRANCH, _key(measured, belongs), writes=False)
    return [_branch_of(tree, one) for one, tree in kept]


def with_domains(
    branches: Sequence[Branch],
    model: proxy.MeasuredModel,
    domains: data.Domains,
    sequences: int,
    anew: Sequence[str],
) -> list[Branch]:
    """Returns branches that have read some domains anew: they had no part in the training.

    Args:
        branches: Of a search.
        model: At the parameters where they began.
        domains: In whose order the responses come; `measure` has drawn what it reads of those.
        sequences: Of each domain that are read.
        anew: The domains to be read.
    """
    texts, documents = _texts(domains, sequences, anew)
    before, theta = losses_of_texts(model, texts), model.parameters
    found = []
    for one in branches:
        after = losses_of_texts(model, texts, one.parameters(theta))
        responses = {**one.responses, **{name: before[name] - after[name] for name in anew}}
        of_each = {**one.documents, **documents}
        found.append(
            replace(
                one,
                responses={name: responses[name] for name in domains.names},
                documents={name: of_each[name] for name in domains.names},
            )
        )
    return found


def _texts(
    domains: data.Domains, sequences: int, names: Sequence[str]
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """What is read of domains: sequences ``(n, T)``, and their documents ``(n,)``."""
    kept = dict(zip(domains.names, domains.measurable().tolist(), strict=True))
    found = {name: domains.measure_batch(name, min(sequences, kept[name])) for name in names}
    texts = {name: text for name, (text, _) in found.items()}
    return texts, {name: torch.from_numpy(documents) for name, (_, documents) in found.items()}


def _key(measured: Measurement, belongs: Mapping[str, Any]) -> dict[str, Any]:
    own = {name: value for name, value in belongs.items() if name != "domains"}
    return {"format": FORMAT, "measurement": measured.sha256, **own}


def _branch_of(tree: Mapping[str, Any], kept: files.Kept | None) -> Branch:
    written = kept is not None and kept.file.exists()
    return Branch(
        domains=tuple(tree["domains"]),
        change=tree["change"],
        responses=tree["responses"],
        documents=tree["documents"],
        sha256=data.file_sha256(kept.file) if kept is not None and written else "",
    )


@dataclass(frozen=True, kw_only=True)
class _Start:
    """Where all branches begin, and what each does."""

    domains: data.Domains
    trained: proxy.Proxy
    texts: Mapping[str, Tensor]
    documents: Mapping[str, Tensor]
    before: Mapping[str, Tensor]
    steps: int
    batch_sequences: int
    seed: int

    def branch(self, group: tuple[str, ...], done: Callable[[int], object]) -> dict[str, Any]:
        """Trains one branch, and returns the tree that is kept of it."""
        own, place = self.trained.copied(), self.domains.state()
        theta = {name: value.clone() for name, value in own.parameters.items()}
        shares = dict.fromkeys(group, 1 / len(group))
        steps = own.steps + self.steps
        training = proxy.train_on_mixture(
            self.domains, own, shares, steps, self.batch_sequences, seed=self.seed
        )
        try:
            for _ in training:
                done(1)
                terminal.stop_if_asked(own.parallel.largest)
        except NonFiniteError as error:
            named = f"The branch on {listed(group, 3)}: {error}; --branches 0 measures none"
            raise NonFiniteError(named) from None
        finally:
            self.domains.restore(place)
        change = {n: (p - theta[n]).bfloat16().cpu() for n, p in own.parameters.items()}
        branch = Branch(domains=group, change=change, responses={}, documents={})
        after = losses_of_texts(own, self.texts, branch.parameters(theta))  # as it is kept
        for name, losses in after.items():
            proxy.check_finite("loss", losses, steps, [name] * len(losses))
        return {
            "domains": list(group),
            "change": change,
            "responses": {name: self.before[name] - after[name] for name in after},
            "documents": dict(self.documents),
            "cost": own.cost.report()["parts"],
        }


def losses_of_texts(
    model: proxy.MeasuredModel,
    texts: Mapping[str, Tensor],
    theta: core.Parameters | None = None,
) -> dict[str, Tensor]:
    """Returns the losses of sequences ``(n, T)`` by name ``(n,)``, nats per token, in float32.

    Args:
        model: The model.
        texts: By name.
        theta: Parameters to use instead of the model's own.
    """
    if not texts:
        return {}
    tokens = torch.cat([*texts.values()])
    losses = losses_of(model, data.Sequences(tokens, np.zeros(len(tokens))), theta)
    sizes = [len(one) for one in texts.values()]
    return dict(zip(texts, map(torch.clone, losses.split(sizes)), strict=True))


def losses_of(
    model: proxy.MeasuredModel, text: data.Sequences, theta: core.Parameters | None = None
) -> Tensor:
    """Returns the losses of a text's documents ``(n,)``, in its unit, in float32, on the CPU.

    Args:
        model: The model.
        text: The text.
        theta: Parameters to use instead of the model's own.

    Raises:
        Interrupted: See `stop_if_asked`; it is asked behind the text.
    """
    tokens = model.evaluate_tokens(text.tokens, "responses", theta=theta, full_precision=True)
    terminal.stop_if_asked(model.parallel.largest)
    return text.losses(text.of_sequences(tokens)).float().cpu()


def responses_of(
    model: proxy.MeasuredModel, branches: Sequence[Branch], text: data.Sequences
) -> Tensor:
    """Returns the responses of a text's documents ``(n, M)``, in its unit: by how much their losses
    fall in each branch.

    Args:
        model: At the parameters where the branches began.
        branches: M of them.
        text: Of a target.
    """
    theta = model.parameters
    before = losses_of(model, text)
    after = [losses_of(model, text, one.parameters(theta)) for one in branches]
    return before[:, None] - torch.stack(after, 1)
