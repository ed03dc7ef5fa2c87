"""Write the figures in README.md and some pages of docs/ from the newest records in benches/results.

A page has `<!-- measured NAME -->`, the text that this program writes for that name, and `<!-- end of measured -->`.

    measured.py            update the pages, after a benchmark has saved a record
    measured.py --check    list the pages that would change, and fail if there are any
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

import long_run_tables
import measured_tables
import row_tables
import scale_tables
import sieve_tables
from measured_tables import Record

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benches" / "results"
PAGES = (
    *(ROOT / name for name in ("README.md", "docs/testing.md")),
    *(ROOT / "docs" / "measurements" / f"{name}.md" for name in ("layouts", "rows", "conditions", "engines", "speed")),
)
NAME = re.compile(r"(?P<kind>.+)-\d{4}-\d{2}-\d{2}")
MARKED = re.compile(r"(<!-- measured (?P<name>[\w-]+) -->\n).*?(<!-- end of measured -->\n)", re.DOTALL)
WIDTH = 120
SECTIONS = measured_tables.SECTIONS | sieve_tables.SECTIONS | row_tables.SECTIONS | scale_tables.SECTIONS
SECTIONS |= long_run_tables.SECTIONS


def newest(folder: Path = RESULTS) -> dict[str, Record]:
    """Return the newest record of each kind; the kind is the part of the file name before the date.

    The ledger of long runs has no date.
    """
    records: dict[str, Record] = {}
    for path in sorted(folder.glob("*.json")):
        match = NAME.fullmatch(path.stem)
        if match:
            records[match["kind"]] = Record(path.name, json.loads(path.read_text(encoding="utf-8")))
    ledger = folder / f"{long_run_tables.LEDGER}.jsonl"
    if ledger.exists():
        lines = ledger.read_text(encoding="utf-8").splitlines()
        records[long_run_tables.LEDGER] = Record(ledger.name, {"runs": [json.loads(line) for line in lines]})
    return records


def filled(text: str, records: Mapping[str, Record]) -> str:
    """Return a page with the text of all its sections replaced."""
    return MARKED.sub(lambda mark: f"{mark[1]}{wrapped(SECTIONS[mark['name']](records).strip())}\n{mark[3]}", text)


def wrapped(text: str) -> str:
    """Wrap the paragraphs of a text; rows of tables and pictures stay on one line."""
    return "\n".join(
        line
        if line.startswith(("|", "!["))
        else textwrap.fill(line, WIDTH, break_long_words=False, break_on_hyphens=False)
        for line in text.split("\n")
    )


def main() -> int:
    """Update the pages, or list the pages that would change."""
    records = newest()
    changed = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if (new := filled(text, records)) != text:
            changed.append(page.relative_to(ROOT).as_posix())
            if "--check" not in sys.argv:
                page.write_text(new, encoding="utf-8")
    print(*changed, sep="\n")
    return int(bool(changed) and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
