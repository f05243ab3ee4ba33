"""``python -m bydore_pyro`` is ``bydore``."""

from bydore_pyro.cli import main

if __name__ == "__main__":
    main()
