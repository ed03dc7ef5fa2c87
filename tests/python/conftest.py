"""Lets every test import `oracle`, the independent model beside this file."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
