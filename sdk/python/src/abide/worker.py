"""`python -m abide.worker module:app` is `abide-worker module:app`."""

import sys

from .cli import main
from .session import Worker

__all__ = ["Worker"]

if __name__ == "__main__":
    sys.exit(main())
