"""Lets every test import the independent models beside this file: `oracle`, `predicate_reference` and so on."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
