"""A finished search as files and figures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from test_search import state_of

from bydore_pyro.command_line import parse_options
from bydore_pyro.commands.search_command import SearchOptions
from bydore_pyro.data.store import TokenStore
from bydore_pyro.diagnostics import jitter
from bydore_pyro.mixture import Mixture
from bydore_pyro.run_folder import RunFolder
from bydore_pyro.search import run_search
from bydore_pyro.search_config import SearchConfig
from bydore_pyro.search_results import (
    Found,
    peak_memory_megabytes,
    run_epochs,
    search_metrics,
    write_search,
)


@pytest.mark.parametrize("learner", ["bayesian", "point"])
def test_what_was_found_is_written_and_told(
    learner: str, corpus: TokenStore, tmp_path: Path
) -> None:
    state = state_of(corpus, SearchConfig(steps=6, guide_warmup=1, learner=learner))
    list(run_search(state))
    given = ["--sequence_length", "32", "--target_tokens", "5000", "--device", "cpu"]
    options = parse_options(given, "test", "", SearchOptions)
    found = write_search(state, options, RunFolder(tmp_path / "run"))
    assert isinstance(found, Found)
    assert (found.summary is None) == (learner == "point")
    assert Mixture.from_json(tmp_path / "run" / "mixture.json") == found.mixture
    assert (tmp_path / "run" / "posterior.nc").exists() == (learner == "bayesian")

    metrics = search_metrics(options, found)
    means = np.stack([record.mean for record in state.records])
    assert metrics["steps"] == 6
    assert metrics["jitter_second_half"] == jitter(means[3:])
    assert list(metrics["last_weights"].values()) == means[-1].tolist()
    assert ("guide_fit" in metrics) == (learner == "bayesian")
    assert metrics["search"]["tokens"] == sum(state.proxy.cost.tokens.values())
    assert {"versions", "commit", "seed", "device"} <= set(metrics)
    json.dumps(metrics, allow_nan=False)

    tokens = {
        name: n * state.domains.sequence_length for name, n in state.domains.sequences().items()
    }
    for name, times in run_epochs(options, state.domains, found.mixture).items():
        assert times == pytest.approx(found.mixture.as_dict()[name] * 5000 / tokens[name])


def test_memory_is_counted_in_megabytes() -> None:
    held = np.ones(20_000_000)
    assert peak_memory_megabytes() > held.nbytes / 2**20
