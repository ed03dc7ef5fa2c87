"""A MkDocs hook that adds a page with the figures of the newest benchmark records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from parsieve.report.records import page_of_records

RESULTS = Path(__file__).resolve().parents[2] / "benches" / "results"
DATE_LENGTH = len("-2026-01-31.json")


def newest() -> list[Path]:
    """Return the newest record of each kind that has figures, sorted by name."""
    kinds: dict[str, Path] = {}
    for path in sorted(RESULTS.glob("*.json")):
        if "figures" in json.loads(path.read_text(encoding="utf-8")):
            kinds[path.name[:-DATE_LENGTH]] = path
    return list(kinds.values())


def on_files(files: Files, *, config: Any) -> Files:
    """Add the generated page to the files that MkDocs renders."""
    files.append(File.generated(config, "measurements/figures.html", content=page_of_records(newest())))
    return files
