"""A search by linear evidence, Algorithm 1, in its run folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from bydore_pyro.algorithm1 import (
    BayesianLearner,
    LinearSearch,
    WeightsLearner,
    averaged_answer,
    search_guide_fit,
    trajectory_of,
)
from bydore_pyro.data import Domains
from bydore_pyro.files import RunFolder
from bydore_pyro.mixture import jitter
from bydore_pyro.setup import (
    Drive,
    Found,
    Options,
    broken_off,
    common_metrics,
    learning_of,
    leave_answer,
    proxy_of,
    question_of,
    tell_cautions,
    write_inputs,
)
from bydore_pyro.terminal import tell

LAST = 10  # losses of small batches that are averaged


def search_by_linear_evidence(
    options: Options,
    domains: Domains,
    folder: RunFolder,
    name: str,
    learner: Callable[[int], WeightsLearner] | None = None,
) -> Found:
    """Runs Algorithm 1 as `bydore_pyro.search.matching` runs a search.

    The steps until it breaks off are written. A `learner` in place of the posterior is made for K
    domains.

    Raises:
        ValueError: When `guide_warmup` leaves no step; and see `search`.
    """
    seed, config = options.run.seed, options.search
    state = LinearSearch.begin(
        domains,
        proxy_of(options, domains),  # nothing is written without
        options.linear,
        steps=config.steps,
        batch_sequences=config.batch_sequences,
        seed=seed,
        learner=None if learner is None else learner(domains.num_domains),
    )
    write_inputs(folder, options, domains.corpus, name)
    tell_cautions(options, domains)
    cost = state.proxy.cost
    drive = Drive(
        folder=folder,
        options=options,
        domains=domains,
        parallel=state.proxy.parallel,
        total=config.steps,
        content=state.content,
    )
    with broken_off(drive, cost):
        if (content := drive.restored()) is not None:
            state.restore(content)
            drive.done = len(state.records)
        try:
            drive.take(_steps(state), lambda done: "")
        finally:
            if state.records and folder.writes:
                folder.write_dataset("trajectory.nc", trajectory_of(state))
        tell("the last step is done; next: the posterior, the answer")
        with cost.part("guide"):
            answer = averaged_answer(state, question_of(options, domains))
        means = np.stack([one.mean for one in state.records])
        losses = tuple(one.validation_loss for one in state.records)
        fit = search_guide_fit(state) if isinstance(state.learner, BayesianLearner) else None
        last = float(np.mean(losses[-LAST:]))
        metrics = common_metrics(
            *(options, domains, answer, cost),
            steps=len(means),
            jitter_second_half=jitter(means[len(means) // 2 :]),
            learning=learning_of(last, domains.corpus.vocabulary),
            fit=fit,
        )
        found = Found(answer, metrics, state.proxy, means, losses)
        leave_answer(folder, answer, metrics)
        if isinstance(state.learner, BayesianLearner) and folder.writes:
            folder.write_tensors("guide.safetensors", state.learner.guide.state_dict())
    return found


def _steps(state: LinearSearch) -> Iterator[str]:
    names = state.domains.names
    while len(state.records) < state.steps:
        record = state.step()
        leading = sorted(zip(-record.mean, names, strict=True))[:3]
        shown = ", ".join(f"{name} {-weight:.2f}" for weight, name in leading)
        yield f"validation {record.validation_loss:.3f}, {shown}"
