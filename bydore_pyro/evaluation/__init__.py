"""A trained model's scores on benchmarks, its bits per byte of answers, and its loss on text."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
