"""A search: rounds of measurements, the posterior, trial runs, the answer."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
