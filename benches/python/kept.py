"""What a bench of many steps has measured so far: who starts it again goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Kept:
    """What was measured so far, in a file that is replaced whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def once(self, name: str, measure: Callable[[], Any]) -> Any:
        """The result of a step, taken now if it was not before."""
        if name not in self.found:
            begun = time.perf_counter()
            self.found[name] = measure()
            passing = self.path.with_suffix(".new")
            passing.write_text(json.dumps(self.found, indent=1))
            passing.replace(self.path)
            print(f"{name}: {time.perf_counter() - begun:.1f} s", flush=True)
        return self.found[name]
