"""What every run begins with: options, then domains, model and question; and its record."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
