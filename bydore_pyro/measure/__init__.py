"""What models show of text: gradients of domains and targets, and losses of proxies on mixtures."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
