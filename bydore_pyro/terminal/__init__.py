"""What a command shares with its machine: lines on the terminal, requests to stop, devices."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
