"""``python -m bydore_pyro`` is ``bydore``."""

from bydore_pyro.cli.main import main

if __name__ == "__main__":
    main()
