"""A mixture on its way into a trainer's format, as it is.

What becomes of another tokenizer's tokens is shown by `tests/cli/test_export.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bydore_pyro.export.formats import ExportConfig
from bydore_pyro.export.inputs import InputConfig, Inputs, read_inputs
from bydore_pyro.mixture.mixture import Mixture

DOREMI = ExportConfig(to="doremi")


def test_notes_of_a_mixture_are_passed_on(tmp_path: Path) -> None:
    place = tmp_path / "mixture.json"
    whole = Mixture(names=("a", "b"), weights=(0.5, 0.5), notes=("Nothing like it was run.",))
    place.write_text(whole.to_json())
    given = read_inputs(str(place), DOREMI, InputConfig())
    assert given == Inputs(mixture=whole, lengths=None, notes=[*whole.notes])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data": ""}, "a value for --data"),
        ({"convert_tokens": True}, "with --convert_tokens, found neither"),
        ({"convert_tokens": True, "data": "x"}, "found only --data"),
        ({"convert_tokens": True, "tokenizer": "x"}, "found only --tokenizer"),
    ],
)
def test_options_that_do_not_fit(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        InputConfig(**options)
