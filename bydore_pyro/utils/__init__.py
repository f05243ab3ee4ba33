"""Errors, atomic files, optional packages, checks of options, the terminal; nothing of mixtures."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
