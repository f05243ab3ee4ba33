"""The probabilistic core, on torch, Pyro and SciPy alone: distribution, guide, evidence, ELBO."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
