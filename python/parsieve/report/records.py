"""Show the figures of benchmark records on one page, in the order of the records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from parsieve.report.figures import Chart, Figure, Series, Unit
from parsieve.report.page import render

KINDS = ("bars", "dots", "lines")
# Units for which less is better, and the name of a contender that is a theoretical bound.
COSTS = ("seconds", "bytes", "files", "bits per row")
BOUND = "optimum"
# The factor by which two runs on one machine may differ.
NOISE = 1.1


def page_of_records(paths: Sequence[Path]) -> str:
    """Return one page with the figures of some records, which are JSON files as `benches/` writes them.

    >>> import json, tempfile
    >>> chart = {"title": "Files read", "says": "Of two.", "kind": "bars", "categories": ["a"], "unit": "files"}
    >>> chart["series"] = [{"name": "Sieve", "values": [1], "ours": True}]
    >>> path = Path(tempfile.mkdtemp()) / "record.json"
    >>> _ = path.write_text(json.dumps({"date": "2026-01-31", "figures": [chart]}))
    >>> "Files read" in page_of_records([path])
    True
    """
    figures: list[Figure] = []
    facts: dict[str, str] = {}
    for path in paths:
        record = _read(path)
        figures += figures_of(path, record)
        # Records in different folders may have the same name.
        is_unique = sum(other.stem == path.stem for other in paths) == 1
        facts[path.stem if is_unique else str(path)] = _facts(record)
    says = (
        "Measured with and without parsieve. A gap means not measured. Figures also show where an index does not help."
    )
    return render("What skipping saves", says, figures, facts)


def figures_of(path: Path, record: Mapping[str, Any]) -> list[Figure]:
    """Return the figures of a record that was read from `path`."""
    how = str(record.get("how", ""))
    return [_figure(path, at, figure, how) for at, figure in enumerate(record["figures"])]


def losses(chart: Chart) -> list[str]:
    """Return a sentence for each contender that is better than ours by more than 10%.

    >>> shown = [Series("Bloom", [0.0, 2.0]), Series("Sieve", [1.0, 1.0], ours=True), Series("optimum", [0, 0])]
    >>> losses(Chart("dots", ["no such key", "one key"], shown, "files"))
    ['Better than Sieve: Bloom (no such key).']
    """
    if chart.unit not in COSTS:
        return []
    sentences = []
    for our in (series for series in chart.series if series.ours):
        for other in (series for series in chart.series if not series.ours and series.name != BOUND):
            places = [
                category
                for category, mine, theirs in zip(chart.categories, our.values, other.values, strict=True)
                if mine is not None and theirs is not None and mine > theirs * NOISE
            ]
            if places:
                sentences.append(f"Better than {our.name}: {other.name} ({'; '.join(places)}).")
    return sentences


def _read(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not a record of measurements: {path}: {error}") from None
    if not isinstance(record, dict) or not isinstance(record.get("figures"), list):
        raise ValueError(f'not a record with figures: {path} has no list "figures"')
    return record


def _figure(path: Path, at: int, data: Any, how: str) -> Figure:
    where = f"{path}, figure {at}"
    try:
        series = [
            Series(
                str(entry["name"]),
                [None if value is None else float(value) for value in entry["values"]],
                bool(entry.get("ours", False)),
            )
            for entry in data["series"]
        ]
        unit: Unit = data.get("unit", "")
        if data["kind"] not in KINDS or unit not in get_args(Unit):
            raise ValueError(f"kind {data['kind']!r} or unit {unit!r} is unknown")
        chart = Chart(
            data["kind"], [str(name) for name in data["categories"]], series, unit, str(data.get("category", ""))
        )
        notes = [*(str(note) for note in data.get("notes", ())), *losses(chart)]
        return Figure(str(data["title"]), str(data["says"]), chart, str(data.get("how", how)), notes)
    except KeyError as error:
        raise ValueError(f"{where}: {error} is missing") from None
    except (TypeError, AttributeError, ValueError, OverflowError) as error:
        raise ValueError(f"{where}: {error}") from None


def _facts(record: Mapping[str, Any]) -> str:
    """Return one line about a record: date, machine, commit and packages."""
    machine = record.get("machine") if isinstance(record.get("machine"), dict) else {}
    packages = record.get("packages") if isinstance(record.get("packages"), dict) else {}
    facts = [
        str(record.get("date", "")),
        f"{machine['cores']} cores of {machine.get('cpu', '?')}" if machine and "cores" in machine else "",
        f"commit {str(record['commit'])[:10]}" if "commit" in record else "",
        ", ".join(f"{name} {version}" for name, version in (packages or {}).items()),
    ]
    return "; ".join(filter(None, facts))
