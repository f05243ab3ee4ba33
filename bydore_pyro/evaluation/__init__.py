"""A trained model's scores on 13 benchmarks, by lm-eval, and its loss on any text."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
