"""`python -m parsieve`: the command line."""

import sys

from parsieve.cli import main

if __name__ == "__main__":
    sys.exit(main())
