"""Records of benchmarks: the results, the date, the machine, and the command to repeat the measurement."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
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
    """Return one contender of a figure, in the form that `parsieve report` reads."""
    return {"name": name, "values": values, "ours": ours}


def save(
    kind: str,
    cases: list[dict[str, Any]],
    packages: Iterable[str],
    figures: list[dict[str, Any]] | None = None,
    by: str = "python",
) -> None:
    """Write `benches/results/KIND-BY-DATE.json`. `parsieve report` makes a page of a record with figures."""
    changed = output("git", "status", "--porcelain", "--", ":!benches/results")
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    record = {
        "date": date,
        "commit": output("git", "rev-parse", "HEAD") + ("+" if changed else ""),
        "how": " ".join([HOW[by], *map(without_folders, sys.argv)]),
        "python": platform.python_version(),
        "packages": {"parsieve": parsieve.__version__} | {name: version(name) for name in packages},
        "machine": {
            "cpu": cpu(),
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


def without_folders(argument: str) -> str:
    """Return an argument of the command line as it would be in the repository; folders of this machine have no name."""
    option, equals, value = argument.rpartition("=")
    path = Path(value)
    if path.is_absolute():
        value = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else "FOLDER"
    return option + equals + value


def filesystem(folder: Path) -> str:
    """Return the type of the filesystem that contains a folder."""
    return output("stat", "--file-system", "--format=%T", str(folder))


def output(*command: str) -> str:
    """Return the output of a command, run in the repository; an empty string if it fails."""
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def cpu() -> str:
    """Return the name of the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next(
        (line.partition(": ")[2] for line in lines if line.startswith("model name")),
        output("sysctl", "-n", "machdep.cpu.brand_string") or platform.processor(),
    )


class SavedSteps:
    """The results of a benchmark's steps, in a JSON file, so that an interrupted run can resume."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def once(self, name: str, measure: Callable[[], Any]) -> Any:
        """Return the saved result of a step; if there is none, run the step and save its result."""
        if name not in self.results:
            start = time.perf_counter()
            self.results[name] = measure()
            temporary = self.path.with_suffix(".new")
            temporary.write_text(json.dumps(self.results, indent=1))
            temporary.replace(self.path)
            print(f"{name}: {time.perf_counter() - start:.1f} s", flush=True)
        return self.results[name]
