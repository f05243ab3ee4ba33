"""The paper's own search, Algorithm 1: linear evidence, one step at a time, SVI with our ELBO."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
