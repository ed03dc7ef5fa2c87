"""Lets every test import `oracle`, the independent model, and `disk`, the one that forgets, beside this file."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
