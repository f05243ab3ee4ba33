"""Proxies trained on given mixtures, and what they lose on every domain and target."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
