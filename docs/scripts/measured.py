"""Write the tables of README.md, docs/evaluation.md and docs/speed.md from the newest records of benches/results.

On a page, a table is between `<!-- measured NAME -->` and `<!-- end of measured -->`.

    measured.py            write the tables, after a bench has saved a record
    measured.py --check    print the pages that would change, and fail if there are any
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from measured_tables import SECTIONS, Record

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benches" / "results"
PAGES = (ROOT / "README.md", ROOT / "docs" / "evaluation.md", ROOT / "docs" / "speed.md")
NAME = re.compile(r"(?P<kind>.+)-\d{4}-\d{2}-\d{2}")
MARKED = re.compile(r"(<!-- measured (?P<name>[\w-]+) -->\n).*?(<!-- end of measured -->\n)", re.DOTALL)


def newest(folder: Path = RESULTS) -> dict[str, Record]:
    """Return the newest record of each kind; the kind is the part of a file's name before the date."""
    found: dict[str, Record] = {}
    for path in sorted(folder.glob("*.json")):
        named = NAME.fullmatch(path.stem)
        if named:
            found[named["kind"]] = Record(path.name, json.loads(path.read_text(encoding="utf-8")))
    return found


def filled(text: str, records: Mapping[str, Record]) -> str:
    """Return a page with all its tables written from records."""
    return MARKED.sub(lambda mark: f"{mark[1]}{SECTIONS[mark['name']](records).strip()}\n{mark[3]}", text)


def main() -> int:
    """Write the pages, or print those that would change."""
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
