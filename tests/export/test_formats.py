"""The registry: every format keeps the sum, names its trainer's rules, and refuses odd options."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from bydore_pyro.export.formats import FORMATS, ExportConfig, Format
from bydore_pyro.export.write import export
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.utils.errors import DataError

TRAINERS = (
    *("datasets", "streaming", "megatron", "nemo", "nanotron", "olmo-core", "torchtitan"),
    *("levanter", "litgpt", "regmix", "doremi"),
)


def config_of(to: str, **options: object) -> ExportConfig:
    prefix = None if FORMATS[to].paths == "unused" else "/data/{domain}_"
    return ExportConfig(**{"to": to, "prefix": prefix, **options})


def test_all_trainers_are_there() -> None:
    assert tuple(FORMATS) == TRAINERS
    text = next(f for f in fields(ExportConfig) if f.name == "to").metadata["help"]
    listed = text.removeprefix("The trainer: ").rstrip(".")
    assert listed.replace(" or ", ", ").split(", ") == [*TRAINERS]


@pytest.mark.parametrize("to", TRAINERS)
def test_rules_are_told_with_their_source(to: str) -> None:
    form: Format = FORMATS[to]
    assert "https://" in form.rules
    assert form.rules.startswith("Per ")
    assert "{file}" in form.use
    assert bool(form.smallest) == bool(form.caution)


@pytest.mark.parametrize("to", TRAINERS)
def test_random_mixtures_sum_to_one(to: str) -> None:
    rng = np.random.default_rng(0)
    for digits in (2, 4, 6, 9):
        weights = rng.dirichlet(np.full(30, 0.1))
        weights[:3] = 0
        names = tuple(f"d{i:02}" for i in range(30))
        mixture = Mixture(names=names, weights=tuple(weights / weights.sum()))
        found = export(
            mixture,
            config_of(to, digits=digits, samples=FORMATS[to].draws[-1]),
            dict.fromkeys(names, 7.0),
        )
        assert sum(found.shares.values()) == pytest.approx(1, abs=1e-14)
        kept = [n for n in names if n in found.shares]
        assert FORMATS[to].keeps_zeros == (kept == [*names])
        assert all((name in found.text) == (name in kept) for name in names)
        if not FORMATS[to].keeps_zeros:
            assert min(found.shares.values()) > 0
            assert {*names} - {*kept} == {*found.dropped}
            assert any(found.dropped[0] in note for note in found.notes)


def test_prefixes() -> None:
    assert ExportConfig(to="megatron").path("law") == ""
    assert ExportConfig(to="megatron", prefix="/data/").path("law") == "/data/law"
    assert ExportConfig(to="megatron", prefix="s3://b/{domain}/x").path("law") == "s3://b/law/x"
    assert ExportConfig(to="megatron", prefix="/x/{domain}").path("{0}") == "/x/{0}"
    for name in ("../../etc/x", "a/../../x", "..", "/etc/x"):
        with pytest.raises(DataError, match=f"can be part of a path, found '{name}'"):
            ExportConfig(to="megatron", prefix="/data").path(name)
    with pytest.raises(ValueError, match=r"Expected no braces in prefix but \{domain\}"):
        ExportConfig(to="megatron", prefix="/d/{Domain}")


def test_what_is_drawn() -> None:
    assert ExportConfig(to="datasets").drawn == "documents"
    assert ExportConfig(to="datasets", samples="sequences").drawn == "sequences"
    assert ExportConfig(to="streaming").drawn == "sequences"
    assert ExportConfig(to="olmo-core").drawn == "tokens"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"to": "word"}, r"Expected a format \(datasets, .*, doremi\), found 'word'"),
        ({"to": "megatron", "samples": "documents"}, r"samples \(sequences\) for megatron"),
        ({"to": "datasets", "samples": "x"}, r"samples \(documents, sequences\) for datasets"),
    ],
)
def test_bad_options_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ExportConfig(**options)
