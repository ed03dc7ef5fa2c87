"""The record of a bench: what was measured, when, on which machine, and the command that measures it again."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import parsieve

ROOT = Path(__file__).resolve().parents[2]
HOW = {
    "python": "make develop .venv/stamp-bench && .venv/bin/python",
    "spark": "make develop .venv-spark/stamp-bench-spark && PYTHONPATH=python .venv-spark/bin/python",
}


def series(name: str, values: list[float | None], ours: bool = False) -> dict[str, Any]:
    """One contender of a figure, as `parsieve report` reads it."""
    return {"name": name, "values": values, "ours": ours}


def save(
    kind: str,
    cases: list[dict[str, Any]],
    packages: Iterable[str],
    figures: list[dict[str, Any]] | None = None,
    by: str = "python",
) -> None:
    """Write `benches/results/KIND-BY-DATE.json`; with figures, `parsieve report` makes a page of it."""
    changed = _output("git", "status", "--porcelain", "--", ":!benches/results")
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    record = {
        "date": date,
        "commit": _output("git", "rev-parse", "HEAD") + ("+" if changed else ""),
        "how": " ".join([HOW[by], *sys.argv]),
        "python": platform.python_version(),
        "packages": {"parsieve": parsieve.__version__} | {name: version(name) for name in packages},
        "machine": {
            "cpu": _cpu(),
            "cores": os.cpu_count(),
            "kernel": platform.release(),
            "load_at_end": os.getloadavg(),
        },
        "cases": cases,
    }
    if figures is not None:
        record["figures"] = figures
    path = ROOT / "benches" / "results" / f"{kind}-{by}-{date}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(f"\nbenches/results/{path.name}")


def filesystem(folder: Path) -> str:
    """The kind of filesystem that a folder lies on."""
    return _output("stat", "--file-system", "--format=%T", str(folder))


def _output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.processor())
