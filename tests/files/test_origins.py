"""The origin of a result: versions and the commit."""

from __future__ import annotations

import importlib.metadata

from bydore_pyro.files.origins import provenance, versions


def test_the_origin_names_versions_of_packages() -> None:
    assert set(versions()) == {"torch", "pyro-ppl", "bydore-pyro"}
    found = provenance(["pytest", "none-such"])["versions"]
    assert found["torch"] == importlib.metadata.version("torch")
    assert found["pytest"] == importlib.metadata.version("pytest")
    assert found["none-such"] == "not installed"
