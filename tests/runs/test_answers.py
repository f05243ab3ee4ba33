"""What a search answers, for runs of several lengths too, and the same after a kill."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from searches import MATCHING, state_of

from bydore_pyro.cli.search import SearchOptions
from bydore_pyro.core.point import central_weights
from bydore_pyro.data.store import TokenStore
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.mixture.weights_files import length_file, mixture_for
from bydore_pyro.runs.answers import Answer, answers_of, guide_record, length_record
from bydore_pyro.runs.results import search_metrics, write_search
from bydore_pyro.search.matching import MatchingSearch
from bydore_pyro.search.search import load_checkpoint, run_search, save_checkpoint
from bydore_pyro.utils.command_line import parse_options
from bydore_pyro.utils.run_folder import RunFolder

VALIDATION = {"birds": 0.5, "greek": 0.5}


def options_of(*given: str) -> SearchOptions:
    usual = ["--sequence_length", "32", "--device", "cpu"]
    return parse_options([*usual, *given], "test", "", SearchOptions)


@pytest.fixture(scope="module")
def finished(corpus: TokenStore, tmp_path_factory: pytest.TempPathFactory) -> MatchingSearch:
    state = state_of(corpus, MATCHING, validation=VALIDATION)
    list(run_search(state))
    save_checkpoint(state, tmp_path_factory.getbasetemp() / "lengths")
    assert isinstance(state, MatchingSearch)
    return state


def test_several_lengths_leave_a_mixture_each(finished: MatchingSearch, tmp_path: Path) -> None:
    held = min(finished.domains.sequences().values()) * 32
    lengths = [float(held * times) for times in (20, 0.5)]
    options = options_of("--target_tokens", *map(str, lengths))
    found = write_search(finished, options, RunFolder(tmp_path / "run"))
    assert [run.tokens for run, _ in found.lengths] == lengths
    assert all(isinstance(one, Answer) for one in found.answers)
    long, short = (mixture_for(tmp_path / "run", tokens) for tokens in lengths)
    assert (long, short) == tuple(one.mixture for one in found.answers)
    assert Mixture.from_json(tmp_path / "run" / "mixture.json") == long, "the first that is named"
    assert long.hdi is not None
    assert "a repetition constant of 4, a small proxy's" in long.notes[0]
    # A run in which no text is read twice is one without a length, to the last bit.
    plain = write_search(finished, options_of(), RunFolder(tmp_path / "plain"))
    assert short == plain.mixture
    assert not plain.lengths
    assert {p.name for p in (tmp_path / "run").iterdir()} == {
        *(p.name for p in (tmp_path / "plain").iterdir()),
        *map(length_file, lengths),
    }
    metrics = search_metrics(options, found)
    assert search_metrics(options_of(), plain).lengths == ()
    first = metrics.lengths[0]
    assert first == length_record(*found.lengths[0], finished, dict(metrics.run_epochs))
    assert found.posterior is not None
    assert first.guide_fit == guide_record(found.posterior) == metrics.guide_fit
    assert first.weights == long.as_dict()
    assert max(first.epochs.values()) > 4
    assert all(first.low[n] <= w <= first.high[n] for n, w in first.weights.items())


def test_a_cap_can_stand_beside(finished: MatchingSearch) -> None:
    held = sum(finished.domains.sequences().values()) * 32
    options = options_of("--target_tokens", str(4 * held), "--max_epochs", "6")
    (found,), trials = answers_of(finished, options, None)
    assert trials is None
    free = found.mixture.free_weights
    assert free is not None
    assert found.posterior is not None
    drawn = found.posterior["posterior"]["w"].values.reshape(-1, len(free))
    np.testing.assert_allclose(free, central_weights(torch.from_numpy(drawn)), atol=1e-12)
    slower = options_of("--target_tokens", str(4 * held), "--repetition_constant", "15")
    (other,), _ = answers_of(finished, slower, None)
    assert "constant of 15" in other.mixture.notes[0]
    assert "small proxy" not in other.mixture.notes[0]
    assert other.mixture.free_weights != free


def test_a_search_that_was_killed_finds_the_same_bits(
    finished: MatchingSearch, corpus: TokenStore, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whoever is killed while the lengths are inferred goes on from the last step."""
    again = state_of(corpus, MATCHING, validation=VALIDATION)
    load_checkpoint(again, tmp_path_factory.getbasetemp() / "lengths", print)
    assert isinstance(again, MatchingSearch)
    options = options_of("--target_tokens", "2e5")
    ((left,), _), ((right,), _) = (answers_of(s, options, None) for s in (finished, again))
    assert left.run is not None
    assert left.run.repeats
    assert left.mixture == right.mixture
    assert left.posterior is not None
    assert left.posterior["posterior"].equals(right.posterior["posterior"])
