"""Errors that a user can cause and mend; the command line shows each as one line, exit code 2."""

from __future__ import annotations

__all__ = ["DataError", "NonFiniteError", "RunFolderError"]


class DataError(ValueError):
    """The text, the tokens or the domains are not what the run needs."""


class RunFolderError(ValueError):
    """An output folder cannot be used."""


class NonFiniteError(ArithmeticError):
    """A loss, signal, hypergradient or posterior parameter is NaN or infinite."""
