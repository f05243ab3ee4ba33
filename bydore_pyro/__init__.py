"""ByDoRe on Pyro: a posterior over the shares of text domains in a pre-training mixture.

Names are imported from their rooms when they are first used, so that this import stays light.
"""

import lazy_loader

__version__ = "0.3.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
