"""A small language model trained under weights: losses, gradients, sketches, cost, processes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
