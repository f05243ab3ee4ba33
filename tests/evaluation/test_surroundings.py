"""What surrounds lm-eval: the network, templates, random states and its noise."""

from __future__ import annotations

import logging
import random
import sys
from types import SimpleNamespace

import datasets
import huggingface_hub.constants
import numpy as np
import pytest
import torch

from bydore_pyro.evaluation.surroundings import (
    TaskLog,
    kept_random_state,
    network,
    quiet,
    replaced,
    sandboxed_templates,
)


def test_random_states_are_given_back() -> None:
    def draw() -> tuple[float, float, float]:
        return random.random(), np.random.rand(), torch.rand(()).item()  # noqa: NPY002

    states = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    expected = draw()
    random.setstate(states[0])
    np.random.set_state(states[1])  # noqa: NPY002
    torch.set_rng_state(states[2])
    with kept_random_state():
        random.seed(3)
        np.random.seed(3)  # noqa: NPY002
        torch.manual_seed(3)
    assert draw() == expected


def test_quiet_counts_what_it_does_not_print(capfd: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("lm_eval")
    before = logger.level, logger.propagate, list(logger.handlers)
    with quiet() as log:
        logging.getLogger("lm_eval.models.huggingface").warning(
            "Combined length of context (9) exceeds model's maximum length (8)."
        )
        logging.getLogger("lm_eval.api.task").warning("something else")
        print("a progress bar", file=sys.stderr)
    assert isinstance(log, TaskLog)
    assert log.cut == 1
    assert (logger.level, logger.propagate, list(logger.handlers)) == before
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""


def test_templates_cannot_reach_python() -> None:
    from jinja2.exceptions import SecurityError, UndefinedError
    from lm_eval.utils import apply_template

    escape = "{{ question.__class__.__mro__[1].__subclasses__() | length }}"
    assert int(apply_template(escape, {"question": "x"})) > 100  # what lm-eval alone allows
    with sandboxed_templates():
        with pytest.raises(SecurityError):
            apply_template(escape, {"question": "x"})
        with pytest.raises(SecurityError):
            apply_template("{{ cycler.__init__.__globals__.os }}", {})
        with pytest.raises(UndefinedError):
            apply_template("{{ nothing }}", {})
        assert apply_template("{{ a.split(' ')[:-1] | join('-') }}\n", {"a": "b c d"}) == "b-c\n"
        assert apply_template("{{ a | regex_replace('b', 'x') }}", {"a": "abb"}) == "axx"
    assert int(apply_template(escape, {"question": "x"})) > 100


def test_replaced() -> None:
    owner = SimpleNamespace(value=1)
    with pytest.raises(KeyError), replaced(owner, "value", 2):
        assert owner.value == 2
        raise KeyError
    assert owner.value == 1
    with pytest.raises(AttributeError), replaced(owner, "other", 2):
        pass


def test_an_unreachable_hub_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not for half a minute, with retries, for every task."""
    tried = []

    class Session:
        def head(self, url: str, timeout: float) -> None:
            tried.append(timeout)
            if len(tried) < 2:
                raise ConnectionError("Couldn't reach it")

    def offline() -> set[bool]:
        return {datasets.config.HF_HUB_OFFLINE, huggingface_hub.constants.HF_HUB_OFFLINE}

    for module in (datasets.config, huggingface_hub.constants):
        monkeypatch.setattr(module, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.utils, "get_session", Session)
    with network(allowed=True):
        assert offline() == {True}
    with network(allowed=True):
        assert offline() == {False}
        assert not datasets.config.HF_UPDATE_DOWNLOAD_COUNTS
    assert len(tried) == 2
    assert max(tried) < 5
    with network(allowed=False):
        assert offline() == {True}
    assert offline() == {False}
    assert len(tried) == 2
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)  # the user's own word
    with network(allowed=True):
        assert offline() == {True}
    assert len(tried) == 2
