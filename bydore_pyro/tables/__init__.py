"""The law of losses, fitted to tables of finished runs, and the mixture that is best by it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
