"""Targets that are tasks: questions and their answers, where they come from, what is scored."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
