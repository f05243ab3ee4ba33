"""Files that appear whole or not at all, kept work, locks on folders, records, hashes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
