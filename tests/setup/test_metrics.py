"""A finished search in figures."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from method_options import WITHHELD, options_for

from bydore_pyro.files import plain, read_as
from bydore_pyro.files.run_folder import RunFolder
from bydore_pyro.proxy.measured_model import Cost
from bydore_pyro.search.matching import search
from bydore_pyro.setup.domains import load_domains
from bydore_pyro.setup.metrics import (
    common_metrics,
    learning_of,
    peak_memory_megabytes,
    results_of,
    run_epochs,
)
from bydore_pyro.setup.record import Metrics


def test_what_was_found_is_told(store: Path, tmp_path: Path) -> None:
    options = options_for(store, *WITHHELD, "--target_tokens", "5000", "--check_sequences", "4")
    domains = load_domains(options)
    found = search(options, domains, RunFolder(tmp_path), "test")
    matching, drawn = found.answer.evidence
    metrics, cost, told = found.metrics, found.proxy.cost, found.metrics.matching
    common = plain(common_metrics(options, domains, found.answer, cost))
    differ = {name for name, value in common.items() if plain(metrics)[name] != value}
    assert differ <= {"search", "peak_memory_megabytes"}
    assert metrics.mixture_sha256 == found.mixture.sha256
    assert metrics.search.tokens <= cost.spent().tokens == sum(cost.tokens.values())
    assert metrics.guide_fit == drawn.fit
    assert metrics.trials == found.answer.tried
    assert [one.step for one in told.rounds] == [3, 6]
    assert told.unexplained == matching.unexplained
    assert told.draws == drawn.convergence
    assert told.draws.rhat is not None
    assert list(told.check.slopes) == list(told.rounds[-1].weights) == list(domains.names)
    assert told.check.sequences == domains.checked == dict.fromkeys(domains.names, 4)
    assert read_as(Metrics, tmp_path / "metrics.json") == metrics
    for name, times in run_epochs(options, domains, found.mixture).items():
        once = domains.sequences()[name] * 32
        assert times == pytest.approx(found.mixture.as_dict()[name] * 5000 / once)


def test_results_carry_their_origin(text: Path) -> None:
    options = options_for(text, "--seed", "3", "--out", "x", "--cache", "y")
    cost = Cost()
    with cost.part("train"):
        cost.count("train", 5, 7.0)
    found = results_of({"found": 1}, options, 3, cost, ("scipy",))
    assert list(found) == ["found", "seed", "config", "cost", "versions", "commit"]
    assert (found["found"], found["seed"], found["config"]["run"]["seed"]) == (1, 3, 3)
    assert found["config"]["search"] == options.as_dict()["search"]
    assert not {"out", "cache"} & set(found["config"]["run"]), "it tells no places"
    assert found["cost"] == cost.report()
    assert "scipy" in found["versions"]
    assert json.loads(json.dumps(found)) == found


def test_memory_is_counted_in_megabytes() -> None:
    held = np.ones(20_000_000)
    assert peak_memory_megabytes() > held.nbytes / 2**20


@pytest.mark.parametrize(("gained", "learned"), [(0.0, False), (0.09, False), (0.11, True)])
def test_a_proxy_has_learned_when_it_beats_a_uniform_prediction(
    gained: float, learned: bool
) -> None:
    uniform = math.log(280)
    found = learning_of(uniform - gained, 280)
    assert found.validation_loss == uniform - gained
    assert (found.warning == "") == learned
    of_another = learning_of(uniform, 280, checkpoint=True).warning
    assert "the model has not learned" in of_another
