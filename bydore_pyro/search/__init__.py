"""ByDoRe's search, by gradient matching in rounds or by linear evidence (Algorithm 1)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
