"""A run: its options, text, record, answers to questions, resuming; every method by its name."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
