"""What a search answers for a run: caps, repeated text, and trials of the length of a step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import arviz
import numpy as np
import pytest
import torch
import xarray
from bydore_pyro.runs.answers import (
    FIRST,
    NOISE,
    Answer,
    RunLength,
    TrialPlan,
    Trials,
    answer_of,
    composition_of,
    for_run,
    mixture_for_run,
    next_length,
    plain_problem,
    run_of,
    trial_plan,
)
from bydore_pyro.search.matching import MatchingSearch
from bydore_pyro.search.search import load_checkpoint, run_search, save_checkpoint
from scipy.stats import norm
from searches import MATCHING, state_of

from bydore_pyro.cli.main import main
from bydore_pyro.cli.search import SearchOptions
from bydore_pyro.core.matching import Matching
from bydore_pyro.core.point import central_weights, run_mixture
from bydore_pyro.data.store import TokenStore
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.mixture.repetition import effective_shares
from bydore_pyro.runs.domains import load_domains
from bydore_pyro.runs.options import SMOKE, Options
from bydore_pyro.utils.command_line import parse_options
from bydore_pyro.utils.files import read_tree

VALIDATION = {"birds": 0.5, "greek": 0.5}


def options_of(*given: str) -> SearchOptions:
    usual = ["--sequence_length", "32", "--device", "cpu"]
    return parse_options([*usual, *given], "test", "", SearchOptions)


@pytest.fixture(scope="module")
def finished(corpus: TokenStore, tmp_path_factory: pytest.TempPathFactory) -> MatchingSearch:
    state = state_of(corpus, MATCHING, validation=VALIDATION)
    list(run_search(state))
    save_checkpoint(state, tmp_path_factory.getbasetemp() / "finished")
    assert isinstance(state, MatchingSearch)
    return state


def test_a_run_knows_how_often_text_is_read(finished: MatchingSearch) -> None:
    domains = finished.domains
    held = {name: count * 32 for name, count in domains.sequences().items()}
    tokens = str(3 * min(held.values()))
    run = run_of(options_of("--target_tokens", tokens, "--repetition_constant", "2"), domains)
    assert isinstance(run, RunLength)
    expected = [3.0 * min(held.values()) / held[name] for name in domains.names]
    torch.testing.assert_close(run.rates, torch.tensor(expected, dtype=torch.float64))
    alone = torch.eye(4, dtype=torch.float64)
    weights = alone[int(run.rates.argmax())]
    assert run.repeats(weights)
    assert run.repeats(alone), "of several mixtures one does"
    assert not run.repeats(weights / 4)
    torch.testing.assert_close(run.effective(weights), effective_shares(weights, run.rates, 2.0))
    assert run_of(options_of(), domains) is None


def test_text_that_is_read_again_and_caps(finished: MatchingSearch) -> None:
    held = sum(finished.domains.sequences().values()) * 32
    plain, short, long, capped = (
        answer_of(finished, options_of(*given), None)
        for given in (
            (),
            ("--target_tokens", "100"),
            ("--target_tokens", str(4 * held)),
            ("--target_tokens", str(4 * held), "--max_epochs", "6"),
        )
    )
    assert isinstance(plain, Answer)
    assert short.mixture == plain.mixture, "a run that reads no text twice"
    assert "a repetition constant of 4, a small proxy's" in long.mixture.notes[0]
    assert long.mixture.weights == capped.mixture.free_weights != plain.mixture.weights
    drawn = long.posterior["posterior"]["w"].values.reshape(-1, 4)
    np.testing.assert_allclose(
        long.mixture.weights, central_weights(torch.from_numpy(drawn)), atol=1e-12
    )
    slower = options_of("--target_tokens", str(4 * held), "--repetition_constant", "15")
    other = mixture_for_run(long.posterior, slower, finished.domains, None)
    assert "constant of 15" in other.notes[0]
    assert "small proxy" not in other.notes[0]


def test_a_search_that_was_killed_finds_the_same_bits(
    finished: MatchingSearch, corpus: TokenStore, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whoever is killed while the weights are inferred goes on from the last step."""
    again = state_of(corpus, MATCHING, validation=VALIDATION)
    load_checkpoint(again, tmp_path_factory.getbasetemp() / "finished", print)
    options = options_of("--target_tokens", "2e5")
    left, right = (answer_of(state, options, None) for state in (finished, again))
    assert left.mixture == right.mixture
    assert left.posterior["posterior"].equals(right.posterior["posterior"])


def trials_of(*losses: float, first_weights: tuple[float, ...] = (0.5, 0.4, 0.3)) -> Trials:
    mixtures = [Mixture(names=("a", "b"), weights=(w, 1 - w)) for w in first_weights]
    return Trials(10, FIRST[: len(losses)], tuple(mixtures[: len(losses)]), losses)


@pytest.mark.parametrize("gap", [0.0, 0.01, 0.05])
def test_of_two_lengths_the_better_is_so_by_a_known_probability(gap: float) -> None:
    first, second = trials_of(5.0, 5.0 + gap).probabilities
    assert first == pytest.approx(norm.cdf(gap / (NOISE * 2**0.5)), abs=0.01)
    assert first + second == pytest.approx(1)


def test_lengths_that_lead_to_the_same_mixture_are_one_choice() -> None:
    """Beside one other of the same loss they have a half together, not two thirds."""
    found = trials_of(5.0, 5.0, 5.0, first_weights=(0.5, 0.4, 0.4))
    assert found.probabilities == pytest.approx((0.5, 0.5, 0.0), abs=0.01)


def test_further_lengths_close_in_on_the_best() -> None:
    assert next_length([1.0, 0.5, 0.25], [5.0, 4.9, 5.2]) == pytest.approx(0.5**0.5)
    assert next_length([1.0, 0.5, 0.25], [5.3, 4.9, 5.2]) == pytest.approx(0.125**0.5)
    assert next_length([1.0, 0.5, 0.25], [5.3, 5.2, 5.1]) == 0.125, "half of the smallest"
    assert next_length([1.0, 0.5, 0.25], [4.9, 5.2, 5.1]) == pytest.approx(0.5**0.5)
    lengths, best = list(FIRST), 0.4
    for _ in range(8):
        lengths.append(next_length(lengths, [abs(np.log(x / best)) for x in lengths]))
    assert min(abs(x - best) for x in lengths) < 0.02


def test_there_are_none_by_linear_evidence_or_with_too_little_text(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def plan(*given: str) -> TrialPlan | None:
        usual = ["--smoke", "--data", str(store), "--validation", "a", *given]
        options = parse_options(usual, "x", "", Options, smoke=SMOKE)
        domains = load_domains(options)
        assert plain_problem(options, domains, tmp_path).names == domains.names
        return trial_plan(options, domains, tmp_path)

    usual = plan("--steps", "100")
    assert usual is not None
    assert (usual.count, usual.steps) == (2, 60)
    for given in (["--trials", "0"], ["--evidence", "linear"]):
        assert plan(*given) is None
    assert plan("--target_tokens", "9e9") is None
    assert "no trial runs: Expected at least one sequence of" in capsys.readouterr().err


def test_a_search_with_trials_leaves_their_losses_and_goes_on_with_them(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after its trials, before it has written what they say, it trains none again."""
    out = tmp_path / "run"
    given = ["--smoke", "--data", str(store), "--validation", "a", "--trials", "4"]
    main(["search", *given, "--out", str(out)])
    metrics = json.loads((out / "metrics.json").read_text())
    tried = metrics["trials"]["tried"]
    assert [one["length"] for one in tried[:3]] == list(FIRST)
    assert len(tried) == 4
    assert metrics["search"]["parts"]["trial_train"]["flops"] > 0
    drawn = xarray.load_dataset(out / "posterior.nc", engine="h5netcdf", group="posterior")
    assert set(np.unique(drawn["length"])) <= {one["length"] for one in tried}
    share = {one["length"]: float((drawn["length"] == one["length"]).mean()) for one in tried}
    for one in tried:
        assert share[one["length"]] == pytest.approx(one["probability"], abs=0.12)
    mixture = (out / "mixture.json").read_bytes()
    finished = sorted((out / "trials").glob("*/tree.json"))
    assert len(finished) == len({str(one["weights"]) for one in tried})
    stamps = [path.stat().st_mtime_ns for path in finished]
    assert all(read_tree(path.parent) for path in finished)
    (out / "metrics.json").unlink()
    (out / "mixture.json").unlink()
    main(["search", "--resume", str(out)])
    assert (out / "mixture.json").read_bytes() == mixture
    assert [path.stat().st_mtime_ns for path in finished] == stamps


def matched() -> Matching:
    """Evidence of three domains that cover the target."""
    gram, optimum = torch.diag(torch.tensor([1.0, 2.0, 3.0])).double(), torch.tensor([0.6, 0.4, 0])
    eye = torch.eye(3, dtype=torch.float64)
    return Matching(
        gram=gram, cross=gram @ optimum.double(), covariance=eye, covariance_by_sequence=eye,
        linear=gram @ gram @ optimum.double(), precision=gram @ gram, optimum=optimum.double(),
        target=1.0,
    )  # fmt: skip


def test_text_that_was_read_before_teaches_as_much_less() -> None:
    """A run of two halves: what the second one gains is what the whole gains beyond the first."""
    given: Any = {"tokens": 1.0, "repetition_constant": 4.0, "rates": torch.tensor([3.0, 1.0])}
    fresh = RunLength(**given, before=torch.zeros(2))
    first, second = torch.tensor([0.6, 0.4]), torch.tensor([0.5, 0.5])
    later = RunLength(**given, before=first)
    whole = fresh.effective(first + second) - fresh.effective(first)
    torch.testing.assert_close(later.effective(second), whole)
    assert later.effective(second)[0] < fresh.effective(second)[0]
    assert later.repeats(torch.tensor([0.1, 0.9]))
    assert not later.repeats(torch.tensor([0.0, 0.5]))


def test_each_draw_takes_its_length_by_chance_and_else_stays() -> None:
    draws = np.random.default_rng(0).dirichlet([6, 4, 1], (4, 500))
    posterior = arviz.from_dict(
        {"w": draws, "s": np.ones((4, 500))},
        dims={"w": ["domain"]},
        coords={"domain": ["a", "b", "c"]},
    )
    weights, scale = composition_of(posterior)
    np.testing.assert_array_equal(weights, draws.reshape(-1, 3))
    assert scale.tolist() == [1.0] * 2000
    assert for_run(posterior, matched(), None, None) is posterior
    given: Any = {"tokens": 1.0, "repetition_constant": 1.0}
    never = RunLength(**given, rates=torch.full((3,), 0.5), before=torch.zeros(3))
    assert for_run(posterior, matched(), never, None) is posterior
    found = for_run(posterior, matched(), None, trials_of(5.0, 5.01, 5.5))
    lengths, pushed = (found["posterior"][name].values for name in ("length", "w"))
    assert pushed.shape == (4, 50, 3)
    first = lengths == 1
    assert 0.5 < first.mean() < 0.8
    np.testing.assert_array_equal(pushed[first], draws[:, :50][first])
    expected = run_mixture(
        matched(), torch.from_numpy(draws[:, :50][~first]), torch.ones(int((~first).sum())), 0.5
    )
    np.testing.assert_allclose(pushed[~first], expected, atol=1e-12)
    np.testing.assert_array_equal(found["posterior"]["composition"], draws[:, :50])
