"""The page of figures that the benches' newest records hold, made when the documents are built."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from parsieve.report.records import page_of_records

RESULTS = Path(__file__).resolve().parents[2] / "benches" / "results"
DATE = len("-2026-01-31.json")


def newest() -> list[Path]:
    """The last record of each kind that has figures, in the order of their names."""
    kinds: dict[str, Path] = {}
    for path in sorted(RESULTS.glob("*.json")):
        if "figures" in json.loads(path.read_text(encoding="utf-8")):
            kinds[path.name[:-DATE]] = path
    return list(kinds.values())


def on_files(files: Files, *, config: Any) -> Files:
    """What MkDocs asks before it renders: one page more."""
    files.append(File.generated(config, "figures.html", content=page_of_records(newest())))
    return files
