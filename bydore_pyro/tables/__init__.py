"""Regression on tables of finished runs: their losses, and the mixture that they propose."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
