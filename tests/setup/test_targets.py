"""What targets are made of, and which runs a forecast rests on."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from method_options import options_for
from quick import PROXY

from bydore_pyro.data.domains import Domains
from bydore_pyro.fit import MethodOptions
from bydore_pyro.measure.measurement import Measurement, read_measurements
from bydore_pyro.measure.readings import Reading, read_readings
from bydore_pyro.proxy.gradients import GradientSketch
from bydore_pyro.proxy.measured_model import Cost
from bydore_pyro.proxy.proxy import Proxy
from bydore_pyro.search.trials import answered
from bydore_pyro.setup.domains import belongs_of, language_model, load_domains
from bydore_pyro.setup.question import question_of
from bydore_pyro.setup.targets import (
    Targets,
    _noise_between_seeds,
    forecasts,
    search_readings,
    targets_are_domains,
    targets_of,
)


class Read(NamedTuple):
    """Targets that were read where the search has measured."""

    options: MethodOptions
    domains: Domains
    kept: list[Measurement]
    targets: Targets


def read_of(store: Path, run: Path, *validation: str) -> Read:
    given = ("--proxy", str(PROXY), "--steps", "40", "--round_sequences", "32")
    options = options_for(store, *given, "--validation", *validation)
    domains = load_domains(options)
    kept = read_measurements(run, belongs_of(options, domains))
    proxy = Proxy(language_model(options, domains.corpus.vocabulary, 0), options.proxy)
    sketch = GradientSketch(proxy, options.search.sketch_size, 0)
    return Read(options, domains, kept, targets_of(sketch, kept, domains, 0))


@pytest.fixture(scope="module")
def both(store: Path, measured_run: Path) -> Read:
    return read_of(store, measured_run, "a=3", "b=1")


def test_the_searchs_own_run_is_read_on_its_way(measured_run: Path, both: Read) -> None:
    options, domains, kept, _ = both
    found = search_readings(options, kept)
    assert found == list(read_readings(measured_run)), "as the search wrote them"
    assert [one.of for one in found] == [f"the search after {n} steps" for n in (20, 40)]
    for one, steps in zip(found, (20, 40), strict=True):
        each = steps * options.batch_tokens / 3
        assert one.tokens == pytest.approx(dict.fromkeys(domains.names, each))
    assert all(found[1].losses[name] < found[0].losses[name] for name in domains.names)


def test_each_of_several_targets_is_made_of_its_own(both: Read) -> None:
    targets = both.targets
    assert targets.importance == {"a": 0.75, "b": 0.25}
    for place, draws in enumerate(targets.compositions.values()):
        assert float(draws.mean(0)[place]) > 0.9, "each has a domain of its own"
    assert 0.1 < float(targets.drawn.weights.mean(0)[1]) < 0.5, "together they are of both"
    assert all(share < 0.4 for share in targets.unexplained)
    losses = torch.tensor([[one.parts[name].loss for name in "ab"] for one in targets.rounds])
    torch.testing.assert_close(targets.losses, losses.double())


def test_of_all_domains_it_is_known_what_they_are_made_of(store: Path, measured_run: Path) -> None:
    """No target is read by itself, and what was read of them decides nothing."""
    options, domains, kept, targets = read_of(store, measured_run, "all")
    assert all(one.parts == {} for one in targets.rounds)
    assert [*targets.compositions] == [*domains.names]
    made = torch.cat([*targets.compositions.values()])
    assert torch.equal(made, torch.eye(3).double())
    assert targets.unexplained == [0.0, 0.0, 0.0]
    forecast = targets.forecast(search_readings(options, kept), 0)
    assert forecast is not None
    losses = torch.tensor([[one.held_out[name] for name in domains.names] for one in kept])
    torch.testing.assert_close(forecast.known.of_targets, losses.double())
    assert not forecast.scatter.any()


def test_naming_every_domain_asks_for_all_of_them(store: Path, measured_run: Path) -> None:
    """By their shares; each is made of itself, in whatever order they are named."""
    read = read_of(store, measured_run, "c=2", "a", "b")
    targets = read.targets
    assert targets_are_domains(read.domains)
    assert targets.importance == {"c": 0.5, "a": 0.25, "b": 0.25}
    made = torch.cat([*targets.compositions.values()])
    assert torch.equal(made, torch.eye(3).double()[[2, 0, 1]])
    assert targets.losses is None


def test_a_forecast_rests_on_the_readings(both: Read) -> None:
    options, domains, kept, targets = both
    readings = search_readings(options, kept)
    forecast = targets.forecast(readings, 0)
    assert forecast is not None
    assert forecast.length == pytest.approx(40 * options.batch_tokens)
    uniform = torch.full((3,), 1 / 3).double()
    found = forecast.expected(uniform)
    assert found["a"].loss == pytest.approx(float(targets.losses[-1, 0]), abs=1e-4)
    assert found["domain a"].loss == pytest.approx(readings[-1].losses["a"], abs=0.1)
    trial = Reading(
        of="trial 1",
        tokens={"a": 40.0 * options.batch_tokens, "b": 0.0, "c": 0.0},
        losses={name: readings[-1].losses[name] + 1 for name in domains.names},
    )
    more = targets.forecast([*readings, trial], 0)
    assert more is not None
    assert len(more.known.losses) == 3
    assert len(more.known.of_targets) == 2
    alone = torch.eye(3).double()[0]
    assert more.expected(alone)["domain b"].loss != found["domain b"].loss


def test_targets_are_told_and_answered(both: Read) -> None:
    """Without a plan no trial is run, and what the search has read stays as it is."""
    options, domains, kept, targets = both
    readings = search_readings(options, kept)
    records = targets.records()
    assert [*records] == ["a", "b"]
    for name, one in records.items():
        mean = targets.compositions[name].mean(0)
        assert list(one.composition.values()) == pytest.approx(mean.tolist())
        assert all(one.low[n] <= one.composition[n] <= one.high[n] for n in domains.names)
    assert [one.unexplained for one in records.values()] == targets.unexplained
    asked, cost = question_of(options, domains), Cost()
    answer, known = answered(asked, targets, readings, None, cost, seed=0)
    assert known == readings
    assert known is not readings, "the caller's list stays its own"
    assert answer.tried is None
    assert answer.outlook is not None
    assert answer.outlook.importance == {"a": 0.75, "b": 0.25}
    assert cost.seconds["law"] > 0
    assert len(readings) == 2
    alone, _ = answered(asked, targets, [], None, Cost(), seed=0)
    assert alone.forecast is None
    assert (float(alone.draws[:, 2].mean()) < 0.2) == (answer.mixture.weights[2] < 0.2)


def test_nothing_is_forecast_of_what_no_run_has_read(both: Read) -> None:
    options, domains, kept, targets = both
    readings = search_readings(options, kept)
    assert targets.forecast(readings[:1], 0) is None
    assert targets.forecast([], 0) is None
    assert forecasts(domains.names, readings)
    assert not forecasts([*domains.names, "new"], readings)
    for part in ("losses", "tokens"):
        less = {name: value for name, value in getattr(readings[0], part).items() if name != "b"}
        lacking = dataclasses.replace(readings[0], **{part: less})
        assert targets.forecast([lacking, readings[1]], 0) is None


def test_noise_is_measured_on_runs_that_differ_in_their_seeds_alone() -> None:
    """A check's runs of one mixture, of this target; trials have one seed."""

    def reading(tokens: float, loss: float, run: str = "r", name: str = "x") -> Reading:
        given = {"of": "a check", "tokens": {"a": tokens, "b": 9.0}, "losses": {"a": 1.0}}
        return Reading(**given, run=run, changes={name: loss} if run else {})

    runs = [reading(1.0, 2.0), reading(1.0, 2.2), reading(3.0, 5.0), reading(3.0, 5.2)]
    others = [reading(1.0, 99.0, run=""), reading(1.0, 7.0, name="y")]
    found = _noise_between_seeds("x", [*runs, *others])
    assert found is not None
    assert (found.deviation, found.runs) == (pytest.approx(0.1 * 2**0.5), 4)
    assert _noise_between_seeds("y", [*runs, *others]) is None
    assert [*runs[0].on({"x", "z"}).changes] == ["x"]
    assert runs[0].on(()).changes == {}
