"""The question of a run: bounds, references, the run, and what is refused at once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from method_options import options_for
from tiny import write_lines

from bydore_pyro.data.domains import Domains
from bydore_pyro.data.supply import supply_of
from bydore_pyro.errors import DataError
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.setup.domains import load_domains
from bydore_pyro.setup.metrics import run_epochs
from bydore_pyro.setup.places import KNOWN
from bydore_pyro.setup.question import (
    bounds_of,
    consumed_tokens,
    mixture_for,
    question_of,
    run_of,
    weights_in,
    weights_of,
)


@pytest.fixture(scope="module")
def three(store: Path) -> Domains:
    return load_domains(options_for(store))


def test_bounds_are_shares_by_name(store: Path, three: Domains) -> None:
    def bounds(*given: str) -> object:
        return bounds_of(options_for(store, *given), three, {})

    both = ("--at_least", "a=0.1", "b=0", "--at_most", "c=0.5")
    assert bounds(*both) == ({"a": 0.1, "b": 0.0}, {"a": 1.0, "b": 1.0, "c": 0.5})
    assert bounds() == ({}, None)
    room = ("--at_most", "a=.2", "b=.7", "c=.1")  # .9999999999999999 as floating point adds
    assert bounds(*room) == ({}, {"a": 0.2, "b": 0.7, "c": 0.1})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("--at_least d=0.1", "'d'"),
        ("--at_least a=0.5 --at_most a=0.4", "found 0.5 and 0.4 of 'a'"),
        ("--at_least a=0.6 b=0.6", "found 1.2 and 3"),
        ("--at_most a=0.2 b=0.2 c=0.2", "found 0 and 0.6"),
        (
            "--max_epochs 1 --target_tokens 1e5 --at_least a=.9",
            r"within --max_epochs, found a=0\.9 where 1 epochs are 0",
        ),
    ],
)
def test_bounds_that_no_mixture_meets_are_refused(
    store: Path, three: Domains, given: str, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        question_of(options_for(store, *given.split()), three)


def test_text_caps_weights_and_what_was_read_counts(
    store: Path, three: Domains, tmp_path: Path
) -> None:
    given = ("--max_epochs", "2", "--target_tokens", "9000")
    most = question_of(options_for(store, *given), three).most
    assert most is not None
    for name, count in three.sequences().items():
        assert most[name] == pytest.approx(min(1, 2 * count * 32 / 9000))
    assert question_of(options_for(store), three).most is None
    read = write_lines(tmp_path / "read.json", [{"a": 12_000}])
    later = options_for(store, *given, "--consumed", str(read))
    assert consumed_tokens(later, three) == {"a": 12_000, "b": 0, "c": 0}
    left = 2 * three.sequences()["a"] * 32 / 9000 - 12_000 / 9000
    assert question_of(later, three).most == {**most, "a": pytest.approx(min(1, left))}


def test_a_run_knows_how_often_text_is_read(store: Path, three: Domains, tmp_path: Path) -> None:
    read = write_lines(tmp_path / "read.json", [{"a": 900}])
    given = ("--target_tokens", "9000", "--repetition_constant", "2", "--consumed", str(read))
    run = question_of(options_for(store, *given), three).run
    assert run is not None
    assert (run.tokens, run.repetition_constant) == (9000, 2)
    held = [count * 32 for count in three.sequences().values()]
    torch.testing.assert_close(run.rates, torch.tensor([9000 / n for n in held]).double())
    assert run.before.tolist() == [0.1, 0, 0]
    assert run_of(options_for(store), three, {}) is None


def test_references_are_what_everybody_knows_and_the_baseline(
    store: Path, three: Domains, tmp_path: Path
) -> None:
    usual = question_of(options_for(store), three)
    assert [*usual.references] == [*KNOWN]
    assert usual.goal.baseline is None, "no target is held to it"
    torch.testing.assert_close(weights_of("uniform", three), torch.full((3,), 1 / 3).double())
    sizes = torch.tensor([three.corpus.size(name) for name in three.names]).double()
    torch.testing.assert_close(weights_of("natural", three), sizes / sizes.sum())
    path = write_lines(tmp_path / "mine.json", [{"a": 0.75, "c": 0.25}])
    given = ("--objective", "none_worse", "--baseline", str(path))
    found = question_of(options_for(store, *given), three)
    assert [*found.references] == [*KNOWN, "baseline"]
    assert found.goal.baseline is found.references["baseline"]
    assert found.goal.baseline.tolist() == [0.75, 0, 0.25]
    mixture = Mixture(names=("c", "a"), weights=(0.25, 0.75))
    assert weights_in(mixture, three).tolist() == [0.75, 0, 0.25]


def test_a_baseline_may_be_a_trainers_configuration(
    store: Path, three: Domains, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "levanter.yaml"
    path.write_text("data:\n  train_weights: {org/a: 0.75, C: 0.25}\ntrainer: {seed: 3}\n")
    assert weights_of(str(path), three).tolist() == [0.75, 0, 0.25]
    assert mixture_for(str(path), three).names == ("a", "c")
    said = capsys.readouterr().err
    assert "the weights are those in 'data.train_weights'; no other key is read" in said
    assert "domains are called as in the data: 'a' for 'org/a', 'c' for 'C'" in said
    assert "it names 2 of the data's 3 domains; without weight: b" in said
    path.write_text("streams: {a: {repeat: 2}, b: {repeat: 2}, c: {repeat: 2}}")
    there = supply_of(three.corpus.index, three.names)
    sizes = torch.tensor([there[name].tokens for name in three.names]).double()
    torch.testing.assert_close(weights_of(str(path), three), sizes / sizes.sum())


def test_what_is_stated_of_the_corpus_counts(store: Path) -> None:
    stated = ("--domain_tokens", "a=1M", "b=3M", "c=4M", "--target_tokens", "8M")
    options = options_for(store, *stated, "--max_epochs", "2")
    domains = load_domains(options)
    assert weights_of("natural", domains).tolist() == [0.125, 0.375, 0.5]
    read = consumed_tokens(options, domains)
    assert bounds_of(options, domains, read)[1] == {"a": 0.25, "b": 0.75, "c": 1.0}
    run = run_of(options, domains, read)
    assert run is not None
    torch.testing.assert_close(run.rates, torch.tensor([8, 8 / 3, 2]).double())
    found = Mixture(names=("a", "b", "c"), weights=(0.25, 0.25, 0.5))
    assert run_epochs(options, domains, found) == pytest.approx({"a": 2, "b": 2 / 3, "c": 1})
    with pytest.raises(DataError, match=r"--domain_tokens of every domain, found none of c$"):
        load_domains(options_for(store, "--domain_tokens", "a=1M", "b=3M", "books=1B"))


def test_a_question_holds_all_of_it(store: Path, three: Domains) -> None:
    options = options_for(
        store,
        "--objective",
        "none_worse",
        "--baseline",
        "uniform",
        "--tolerance",
        "0.1",
        "--probability",
        "0.8",
        "--at_least",
        "a=0.1",
        "--at_most",
        "b=0.5",
    )
    asked = question_of(options, three)
    goal = asked.goal
    assert (goal.objective, goal.tolerance, goal.probability) == ("none_worse", 0.1, 0.8)
    assert asked.least == {"a": 0.1, "b": 0.0, "c": 0.0}
    assert asked.most == {"a": 1.0, "b": 0.5, "c": 1.0}
    torch.testing.assert_close(goal.baseline, torch.full((3,), 1 / 3).double())
