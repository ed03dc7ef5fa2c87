"""Writes what README.md and docs/evaluation.md say in numbers: from the newest records of benches/results, not by hand.

A page has `<!-- measured NAME -->`, what this program writes for that name, and `<!-- end of measured -->`.

    measured.py            write them anew, after a bench has saved a record
    measured.py --check    name the pages that would change, and fail if there are any
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
PAGES = (ROOT / "README.md", ROOT / "docs" / "evaluation.md")
NAME = re.compile(r"(?P<kind>.+)-\d{4}-\d{2}-\d{2}")
MARKED = re.compile(r"(<!-- measured (?P<name>[\w-]+) -->\n).*?(<!-- end of measured -->\n)", re.DOTALL)


def newest(folder: Path = RESULTS) -> dict[str, Record]:
    """The last record of each kind: what its file's name says before the date."""
    found: dict[str, Record] = {}
    for path in sorted(folder.glob("*.json")):
        named = NAME.fullmatch(path.stem)
        if named:
            found[named["kind"]] = Record(path.name, json.loads(path.read_text(encoding="utf-8")))
    return found


def filled(text: str, records: Mapping[str, Record]) -> str:
    """A page with all its sections written from records."""
    return MARKED.sub(lambda mark: f"{mark[1]}{SECTIONS[mark['name']](records).strip()}\n{mark[3]}", text)


def main() -> int:
    """Write the pages, or tell which would change."""
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
