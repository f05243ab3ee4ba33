"""Packages that only a part of this one needs."""

from __future__ import annotations

import importlib
from types import ModuleType

from bydore_pyro.utils.errors import DataError

__all__ = ["require"]


def require(module: str, extra: str) -> ModuleType:
    """Imports a module of a package that an extra of this one installs.

    Raises:
        DataError: When it cannot be imported; tells how to install it.
    """
    try:
        return importlib.import_module(module)
    except (ImportError, OSError) as error:  # OSError: a shared library that is missing
        package = {"sklearn": "scikit-learn", "lm_eval": "lm-eval"}
        name = module.partition(".")[0]
        raise DataError(
            f"Expected the package {package.get(name, name)}, found none ({error}): "
            f"pip install 'bydore-pyro[{extra}]'"
        ) from None
