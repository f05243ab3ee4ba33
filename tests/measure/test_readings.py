"""What models lose on held-out text of every domain: read alike everywhere, kept, and guarded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from searches import domains_of
from tiny import Bigram

from bydore_pyro.data.held_out import held_out_stream
from bydore_pyro.data.store import TokenStore
from bydore_pyro.errors import DataError
from bydore_pyro.measure.readings import (
    READ,
    READINGS,
    Reading,
    read_losses,
    read_readings,
    readings_text,
)
from bydore_pyro.proxy.config import ProxyConfig
from bydore_pyro.proxy.proxy import Proxy

ROWS = [
    Reading(of="the search after 3 steps", tokens={"a": 1.5, "b": 2.0}, losses={"a": 3.25}),
    Reading(of="trial 1", tokens={"a": 0.0, "b": 7.0}, losses={"a": 3.0, "b": 0.1 + 0.2}),
    Reading(of="check", tokens={"a": 7.0}, losses={"a": 2.0}, run="0a1b", targets={"quiz": 0.5}),
]


def test_every_domain_is_read_on_its_first_held_out_sequences(corpus: TokenStore) -> None:
    """The same for every model and target, by the seed."""
    proxy = Proxy(Bigram(corpus.vocabulary), ProxyConfig())
    domains = domains_of(corpus, greek=1.0)
    found = read_losses(proxy, domains)
    assert tuple(found) == domains.names
    for name, loss in found.items():
        stream = held_out_stream(corpus, name, 32, 0)
        sequences = stream.read(0, min(READ, stream.count)).astype(np.int64)
        logits = proxy.model(torch.from_numpy(sequences)).detach()[:, :-1].flatten(0, 1)
        targets = torch.from_numpy(sequences[:, 1:]).flatten()
        expected = float(torch.nn.functional.cross_entropy(logits, targets))
        assert loss == pytest.approx(expected, rel=1e-5)
    assert proxy.cost.tokens["read"] > 0
    assert read_losses(proxy, domains_of(corpus, birds=1.0)) == found
    assert read_losses(proxy, domains_of(corpus, seed=1)) != found


def test_the_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"found none or others: .*losses\.json"):
        read_readings(tmp_path)
    (tmp_path / READINGS).write_text(readings_text(ROWS))
    assert read_readings(tmp_path) == tuple(ROWS), "to the last bit"
    assert readings_text(ROWS).count('"run"') == 1, "the search's own are as they were"


def test_a_table_that_was_changed_is_refused(tmp_path: Path) -> None:
    text = readings_text(ROWS)
    for changed in (text.replace("3.25", "2.25"), text[:-20]):
        (tmp_path / READINGS).write_text(changed)
        with pytest.raises(DataError, match="Expected the losses that a run has written"):
            read_readings(tmp_path)
