"""A mixture on its way into a trainer's format: pruned, or as it is.

What becomes of another tokenizer's tokens is shown by `tests/cli/test_export.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bydore_pyro.export.formats import ExportConfig
from bydore_pyro.export.inputs import InputConfig, Inputs, read_inputs
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.utils.errors import DataError

DOREMI = ExportConfig(to="doremi")


def test_pruned_domains_are_left_out_by_name(tmp_path: Path) -> None:
    names, weights = ("birds", "digits", "greek", "upper"), (0.5, 0.3, 0.2, 0.0)
    hdi = ((0.3, 0.7), (0.2, 0.4), (0.1, 0.24), (0.0, 0.01))
    place = tmp_path / "mixture.json"
    place.write_text(Mixture(names=names, weights=weights, hdi=hdi).to_json())
    found = read_inputs(str(place), DOREMI, InputConfig(prune=True))
    assert found.mixture.weights == pytest.approx((0.625, 0.375, 0.0, 0.0))
    told = "Pruned, the whole interval below equal shares: greek, upper."
    assert (found.notes, found.lengths) == ([told], None)
    whole = Mixture(names=names, weights=weights, notes=("Nothing like it was run.",))
    place.write_text(whole.to_json())
    given = read_inputs(str(place), DOREMI, InputConfig())
    assert given == Inputs(mixture=whole, lengths=None, notes=[*whole.notes])
    with pytest.raises(DataError, match="intervals to prune, found none"):
        read_inputs(str(place), DOREMI, InputConfig(prune=True))


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
