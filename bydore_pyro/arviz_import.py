"""The one place that knows ArviZ's version: below 1.0 (1.x needs Python 3.12, other objects)."""

from __future__ import annotations

import warnings
from types import ModuleType

__all__ = ["import_arviz"]


def import_arviz() -> ModuleType:
    """Imports ArviZ without its announcement of its own refactoring.

    Raises:
        ImportError: When ArviZ is 1.0 or later, whose objects this package does not write.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning, module="arviz")
        import arviz

    if int(arviz.__version__.split(".")[0]) >= 1:
        raise ImportError(f"Expected arviz < 1, found {arviz.__version__}: pip install 'arviz<1'")
    return arviz
