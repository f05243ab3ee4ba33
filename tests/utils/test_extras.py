"""What a missing package says."""

from __future__ import annotations

import sys

import pytest

from bydore_pyro.utils.errors import DataError
from bydore_pyro.utils.extras import require


def test_a_package_that_is_there_is_imported() -> None:
    assert require("json.decoder", "report").JSONDecoder


@pytest.mark.parametrize(
    ("module", "package"), [("sklearn.linear_model", "scikit-learn"), ("plotly", "plotly")]
)
def test_a_missing_one_tells_how_to_install_it(
    module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(DataError, match=rf"package {package}, found none .*pyro\[some\]'") as error:
        require(module, "some")
    assert "\n" not in str(error.value)
