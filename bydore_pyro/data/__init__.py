"""Text or token shards, a token store made of them, and batches by domain."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
