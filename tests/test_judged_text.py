"""What judges finished models is read by nothing else, and nothing else judges them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from processes import Run
from tiny import Bigram, make_problem, row, write_lines

from bydore_pyro.data.held_out import held_out_stream
from bydore_pyro.data.scored import together
from bydore_pyro.data.store import TokenStore
from bydore_pyro.methods.mixmin import fit_mixmin
from bydore_pyro.proxy.proxy import Proxy
from bydore_pyro.proxy.scheduling import train_on_mixture
from bydore_pyro.trials.proxy_runs import train_mixtures

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from common import FRESH_SEED, JUDGED, fresh_models, judged_loss
from fastmix import FastMixConfig, fit_fastmix

ROOT = Path(__file__).parents[1]
TARGET = {"birds": 0.7, "digits": 0.3}


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The sides of the stores whose tokens a test has read."""
    sides, sound = set[str](), TokenStore.read

    def noted(store: TokenStore, side: str, *rest: object) -> np.ndarray:
        sides.add(side)
        return sound(store, side, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(TokenStore, "read", noted)
    return sides


def test_judged_text_is_read_by_no_target_no_trial_and_no_rival(
    corpus: TokenStore, tmp_path: Path, read: set[str]
) -> None:
    """Every token that is read goes through `TokenStore.read`."""
    problem = make_problem(corpus, tmp_path, steps=8)
    domains = problem.domains(0)
    domains.signal_batch(2)
    domains.train_batch({"birds": 3})
    train_mixtures(problem, np.array([[0.7, 0.1, 0.1, 0.1]]), 5, "trials")
    fit_mixmin(problem)
    fit_fastmix(problem, FastMixConfig())
    assert read == {"train", "validation"}
    fresh_models(problem, {"birds": {"birds": 1.0}}, 1, "x")
    assert read == {"train", "validation", "judged"}


def test_judged_text_is_named_by_no_code_that_does_not_judge() -> None:
    """In the package its side is known to the stores alone."""
    named = [
        path.relative_to(ROOT / "bydore_pyro").as_posix()
        for path in (ROOT / "bydore_pyro").rglob("*.py")
        if re.search(r"""["']judged["']|\.judged\b""", path.read_text("utf-8"))
    ]
    assert sorted(named) == ["data/held_out.py", "data/store.py"]


@pytest.mark.parametrize("seed", [0, 4])
def test_judged_text_apart_all_methods_read_the_target_of_the_search(
    corpus: TokenStore, tmp_path: Path, seed: int
) -> None:
    """Sequence by sequence, for one seed; another seed's are others."""
    problem = make_problem(corpus, tmp_path, target=TARGET, seed=seed, validation_sequences=40)
    searched = together(problem.domains(seed).targets.values())[0]
    evaluated = [
        held_out_stream(corpus, name, 32, seed).first(count)
        for name, count in problem.evaluated.items()
    ]
    assert problem.evaluated == {"birds": 28, "digits": 12}
    assert torch.equal(torch.cat(evaluated), searched)
    other = together(problem.domains(seed + 1).targets.values())[0]
    assert not torch.equal(other, searched)
    assert problem.evaluation_steps() == pytest.approx(40 / (3 * 8))
    (run,) = train_mixtures(problem, np.full((1, 4), 0.25), 2, "x")
    assert {name: len(rows) for name, rows in run.token_losses().items()} == problem.evaluated


def test_judged_text_is_what_fresh_models_are_read_on(corpus: TokenStore, tmp_path: Path) -> None:
    """Against a model that is trained by hand and read on all of it, domain by domain."""
    problem = make_problem(corpus, tmp_path, target=TARGET, steps=10)
    found = fresh_models(problem, {"even": {"birds": 3.0, "digits": 3.0}}, 2, "x")["even"]
    for number, run in enumerate(found):
        seed = problem.seed + FRESH_SEED + number
        proxy = Proxy(Bigram(corpus.vocabulary, seed), problem.proxy, decay_steps=10)
        domains, weights = problem.domains(seed), {"birds": 0.5, "digits": 0.5}
        list(train_on_mixture(domains, proxy, weights, 10, problem.batch_sequences, seed=seed))
        expected = 0.0
        for name, share in TARGET.items():
            rows = np.asarray(corpus.judged[name], np.int64)
            rows = rows[: len(rows) // 32 * 32].reshape(-1, 32)
            assert 0 < len(rows) < JUDGED
            expected += share * proxy.evaluate(torch.from_numpy(rows), "evaluate")
        assert judged_loss(proxy, domains) == pytest.approx(expected, rel=1e-5)
        assert run.target_loss(TARGET) == pytest.approx(expected, rel=1e-5)
    few = held_out_stream(corpus, "birds", 32, 0, "judged").read(0, 3).astype(np.int64)
    alone = problem.domains(0)
    alone.validation_shares = {"birds": 1.0}
    loss = proxy.evaluate(torch.from_numpy(few), "evaluate")
    assert judged_loss(proxy, alone, 3) == pytest.approx(loss, rel=1e-6)


@pytest.mark.parametrize("script", ["case1", "scheduling"])
def test_judged_text_is_asked_for_before_anything_long_begins(
    script: str, tmp_path: Path, cache: Path, run_here: Run
) -> None:
    """A file of rows has none: all of it is the user's target."""
    path = write_lines(tmp_path / "exam.jsonl", [row("exam", i) for i in range(30)])
    given = ("--smoke", "--cache", str(cache), "--out", str(tmp_path / "run"), "--steps", "20")
    done = run_here(script, *given, "--validation", str(path), "--domains", "python", "text")
    assert done.returncode == 2
    message = "Expected judged text (every third held-out document) of at least 32 tokens in 'exam'"
    assert message in done.stderr.splitlines()[-1]
