"""A live mixture finds what was planted on the model that trains on it, and moves only if sure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from processes import on_two_processes
from tiny import Bigram, random_store
from torch.distributed.fsdp import fully_shard

from bydore_pyro.data.domains import Domains
from bydore_pyro.live.live_mixture import LiveMixture, LiveRound
from bydore_pyro.proxy.parallel import Parallel
from bydore_pyro.utils.errors import DataError, NonFiniteError

PLANTED = {"a": 0.6, "b": 0.4}
SEQUENCES = 40


def domains_of(
    seed: int = 0, measured: int = 200, target: str | None = None, documents: int = 100
) -> Domains:
    return Domains(
        random_store(tokens=12800, documents=documents),
        PLANTED if target is None else {target: 1.0},
        sequence_length=32,
        validation_sequences=200,
        measured=measured,
        seed=seed,
    )


def live_of(**options: Any) -> LiveMixture:
    return LiveMixture(domains_of(), **{"first": 5, "sequences": SEQUENCES, **options})


def trained(live: LiveMixture, model: torch.nn.Module, steps: range) -> None:
    """A training loop of anybody's, on SGD without a state."""
    for step in steps:
        batch = live.batch(8)
        logits = model(batch)
        loss = torch.nn.functional.cross_entropy(
            logits[:, :-1].flatten(0, 1), batch[:, 1:].flatten()
        )
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= 0.3 * parameter.grad
        if live.due(step):
            live.measure(model, step)


def test_the_planted_mixture_is_found_while_the_model_trains() -> None:
    live = live_of()
    trained(live, Bigram(24, 0), range(1, 21))
    assert [one.step for one in live.rounds] == [5, 10, 20]
    last, truth = live.rounds[-1], np.array([0.6, 0.4, 0, 0])
    assert 0.5 * np.abs(last.found - truth).sum() < 0.1
    assert ((last.low <= truth + 1e-3) & (truth <= last.high + 0.01)).all()
    assert live.rounds[0].moved
    assert live.rounds[0].better > 0.99
    told = live.posterior()
    assert told["posterior"]["domain"].values.tolist() == ["a", "b", "c", "d"]
    assert told["constant_data"]["step"].values.tolist() == [5, 10, 20]
    assert {"gradients", "matching"} == set(live.cost.report()["parts"])


def test_weights_stay_where_the_evidence_does_not_ask_for_more() -> None:
    """Equal shares of the target: the present weights are as good as any that are found."""
    domains = Domains(
        random_store(tokens=12800, documents=100),
        dict.fromkeys("abcd", 1.0),
        sequence_length=32,
        validation_sequences=200,
        measured=200,
    )
    live = LiveMixture(domains, first=1, sequences=SEQUENCES, level=0.95)
    found = live.measure(Bigram(24, 0), 1)
    assert not found.moved
    assert found.better < 0.95
    np.testing.assert_array_equal(found.weights, np.full(4, 0.25))


def test_with_level_1_the_weights_stay() -> None:
    found = [live_of(level=level).measure(Bigram(24, 0), 1) for level in (0.9, 1.0)]
    assert [one.better > 0.9 for one in found] == [True, True]
    assert [one.moved for one in found] == [True, False]


def test_weights_stay_where_the_domains_explain_next_to_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As if no mixture were like the target: what is found is told, and not taken."""
    monkeypatch.setattr("bydore_pyro.live.live_mixture.NOTHING", 0.0)
    found = live_of().measure(Bigram(24, 0), 1)
    assert found.better > 0.9
    assert found.found[0] > 0.4
    assert not found.moved
    np.testing.assert_array_equal(found.weights, np.full(4, 0.25))


def test_rounds_are_due_at_every_doubling() -> None:
    live = live_of(first=3)
    assert [step for step in range(1, 50) if live.due(step)] == [3, 6, 12, 24, 48]


def test_batches_follow_the_weights_within_a_sequence() -> None:
    live = live_of(start={"a": 0.55, "c": 0.45})
    assert live.weights == pytest.approx({"a": 0.55, "b": 0, "c": 0.45, "d": 0})
    for _ in range(7):
        assert live.batch(5).shape == (5, 32)
    taken = np.array(live.state()["order"][1])
    assert np.abs(taken - 35 * np.array([0.55, 0, 0.45, 0])).max() < 1


def test_measuring_leaves_the_model_as_it_was() -> None:
    live, model = live_of(), Bigram(24, 0)
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    live.measure(model, 5)
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)


def test_an_old_round_counts_as_far_as_the_newest_agrees() -> None:
    """The target changes between two rounds: what is found is what the newest alone finds."""
    live, fresh, model = live_of(), live_of(), Bigram(24, 0)
    other = domains_of(target="c")
    changed, live.domains = live.domains, other
    live.measure(model, 5)
    changed.restore(other.state())
    fresh.domains.restore(other.state())
    live.domains = changed
    found, alone = live.measure(model, 10).found, fresh.measure(model, 10).found
    np.testing.assert_allclose(found, alone, atol=0.02)


def test_a_run_that_was_broken_off_goes_on_with_the_same_bits() -> None:
    whole, model = live_of(), Bigram(24, 0)
    trained(whole, model, range(1, 13))
    first, half = live_of(), Bigram(24, 0)
    trained(first, half, range(1, 8))
    second, other = live_of(), Bigram(24, 1)
    second.restore(first.state())
    other.load_state_dict(half.state_dict())
    trained(second, other, range(8, 13))
    for left, right in zip(whole.rounds, second.rounds, strict=True):
        for name in LiveRound.__annotations__:
            np.testing.assert_array_equal(getattr(left, name), getattr(right, name))
    torch.testing.assert_close(whole.batch(8), second.batch(8), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"first": 0}, "Expected first >= 1, a whole number, actual 0"),
        ({"first": 1.5}, "Expected first >= 1, a whole number, actual 1.5"),
        ({"sequences": 1}, "Expected sequences >= 2, a whole number, actual 1"),
        ({"sequences": 2.5}, "Expected sequences >= 2, a whole number, actual 2.5"),
        ({"sketch_size": 0}, "Expected sketch_size >= 1, a whole number, actual 0"),
        ({"level": float("nan")}, "Expected 0 <= level <= 1, actual nan"),
        ({"level": 1.1}, "Expected 0 <= level <= 1, actual 1.1"),
        ({"start": {"cats": 1.0}}, "found 'cats'"),
        ({"start": {"a": -1.0, "b": 2.0}}, "Expected weights >= 0"),
        ({"start": {"a": 0.0}}, "Expected weights >= 0"),
    ],
)
def test_numbers_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, DataError), match=message):
        live_of(**options)


def test_without_text_kept_aside_nothing_is_measured() -> None:
    with pytest.raises(ValueError, match="measured > 0"):
        LiveMixture(domains_of(measured=0), first=1)


@pytest.mark.parametrize(
    ("model", "step", "most", "message"),
    [
        (torch.nn.Identity(), 6, None, "parameters that require gradients, found none"),
        (
            Bigram(24).requires_grad_(False),
            6,
            None,
            "parameters that require gradients, found none",
        ),
        (Bigram(24), 5, None, "Expected step >= 6, a whole number, actual 5"),
        (Bigram(24), 4, None, "Expected step >= 6, a whole number, actual 4"),
        (Bigram(24), 6.5, None, "Expected step >= 6, a whole number, actual 6.5"),
        (Bigram(24), 6, float("nan"), "Expected the largest weights of 4 domains.*actual nan"),
        (Bigram(24), 6, [1, 1, 1, float("nan")], "Expected the largest weights of 4 domains"),
        (Bigram(24), 6, [1, 1, 1, -1], "Expected the largest weights of 4 domains"),
        (Bigram(24), 6, [0, 0, 0, 0], "Expected the largest weights of 4 domains"),
        (Bigram(24), 6, [1, 1, 1], "Expected the largest weights of 4 domains"),
    ],
)
def test_what_cannot_be_measured_is_refused_and_changes_nothing(
    measured: LiveMixture, model: torch.nn.Module, step: int, most: Any, message: str
) -> None:
    positions = measured.domains.state()["positions"]
    with pytest.raises(ValueError, match=message):
        measured.measure(model, step, most)
    assert measured.domains.state()["positions"] == positions
    assert len(measured.rounds) == 1


@pytest.fixture(scope="module")
def measured() -> LiveMixture:
    live = live_of()
    live.measure(Bigram(24, 0), 5)
    return live


@pytest.mark.parametrize("step", ["measure", "read_target", "match", "draw_posterior"])
def test_a_round_that_fails_leaves_nothing_behind(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it fails, what follows has the bits of a mixture that has not failed."""
    live, twin = live_of(), live_of()
    for one in (live, twin):
        trained(one, Bigram(24, 0), range(1, 6))
    model = Bigram(24, 1)
    with monkeypatch.context() as patch:

        def fail(*_: Any, **__: Any) -> None:
            raise NonFiniteError("it failed")

        patch.setattr(f"bydore_pyro.live.live_mixture.{step}", fail)
        with pytest.raises(NonFiniteError, match="it failed"):
            live.measure(model, 10)
    assert [one.step for one in live.rounds] == [5]
    states = [{**one.state(), "cost": None} for one in (live, twin)]
    assert content_of(states[0]) == content_of(states[1])
    found, expected = live.measure(model, 10), twin.measure(model, 10)
    np.testing.assert_array_equal(found.draws, expected.draws)
    np.testing.assert_array_equal(found.weights, expected.weights)


def content_of(value: Any) -> Any:
    """Plain values in place of arrays and tensors, which are compared bit by bit."""
    if isinstance(value, dict):
        return {key: content_of(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [content_of(one) for one in value]
    if isinstance(value, np.ndarray | torch.Tensor):
        return np.asarray(value).tobytes()
    return value


def test_a_batch_has_a_sequence() -> None:
    with pytest.raises(ValueError, match="Expected size >= 1, a whole number, actual 0"):
        live_of().batch(0)


def test_what_is_handed_out_is_read_only(measured: LiveMixture) -> None:
    arrays = [live_of().present, measured.present, measured.before(1), measured.before(5)]
    arrays += [
        value for value in vars(measured.rounds[0]).values() if isinstance(value, np.ndarray)
    ]
    assert len(arrays) == 9
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9
    kept = measured.state()["rounds"][0]["weights"]
    kept[0] = 9  # a state is the caller's
    assert measured.present.sum() == pytest.approx(1)


def test_a_state_of_other_domains_is_refused(measured: LiveMixture) -> None:
    """Measurements go by position: another order is another mixture too."""
    state, fresh = measured.state(), live_of()
    nameless = {name: value for name, value in state.items() if name != "names"}
    for other, found in (
        ({**state, "names": ["a", "b", "d", "c"]}, "a, b, d, c"),
        ({**state, "names": ["a", "b"]}, "a, b"),
        (nameless, "no names"),
    ):
        with pytest.raises(ValueError, match=f"state of the domains a, b, c, d, found {found}$"):
            fresh.restore(other)
    assert not fresh.rounds
    fresh.restore(state)
    np.testing.assert_array_equal(fresh.present, measured.present)


def test_a_model_that_diverged_is_told() -> None:
    live, model = live_of(), Bigram(24, 0)
    with torch.no_grad():
        next(model.parameters()).fill_(float("nan"))
    model.train()
    with pytest.raises(NonFiniteError, match="Step 5"):
        live.measure(model, 5)
    assert model.training
    assert not live.rounds


def test_two_processes_that_share_a_models_parameters_find_the_same(tmp_path: Path) -> None:
    """Of text whose documents are a sequence each: two measured at once are one witness."""

    def work(rank: int) -> None:
        domains = domains_of(documents=400)
        live = LiveMixture(domains, first=5, sequences=SEQUENCES, parallel=Parallel())
        model = fully_shard(Bigram(24, 0))
        trained(live, model, range(1, 11))
        np.save(f"found-{rank}.npy", live.rounds[-1].weights)

    on_two_processes(work, tmp_path)
    first, second = (np.load(tmp_path / f"found-{rank}.npy") for rank in (0, 1))
    np.testing.assert_array_equal(first, second)
    assert 0.5 * np.abs(first - [0.6, 0.4, 0, 0]).sum() < 0.1, "by rounds after 5 and 10 steps"
