"""Records of measurements as one page: the figures that each record holds as data, in the order of the records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from parsieve.report.figures import Chart, Figure, Series, Unit
from parsieve.report.page import render

KINDS = ("bars", "dots", "lines")
# Units of which less is better, and a contender that nobody can beat.
COSTS = ("seconds", "bytes", "files", "bits per row")
BOUND = "optimum"
# Two runs on one machine differ by so much.
NOISE = 1.1


def page_of_records(paths: Sequence[Path]) -> str:
    """One page with the figures of some records: files of JSON as `benches/` writes them.

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
        # Records of one name may lie in two folders.
        alone = sum(other.stem == path.stem for other in paths) == 1
        facts[path.stem if alone else str(path)] = _facts(record)
    says = (
        "Measured with and without parsieve; what was not measured is a gap. Where an index spares nothing, it says so."
    )
    return render("What skipping spares", says, figures, facts)


def figures_of(path: Path, record: Mapping[str, Any]) -> list[Figure]:
    """The figures of a record that was read from `path`."""
    how = str(record.get("how", ""))
    return [_figure(path, at, one, how) for at, one in enumerate(record["figures"])]


def losses(chart: Chart) -> list[str]:
    """Where another contender does better than ours by more than a tenth: a sentence for each of them.

    >>> shown = [Series("Bloom", [0.0, 2.0]), Series("Sieve", [1.0, 1.0], ours=True), Series("optimum", [0, 0])]
    >>> losses(Chart("dots", ["no such key", "one key"], shown, "files"))
    ['Better than Sieve: Bloom (no such key).']
    """
    if chart.unit not in COSTS:
        return []
    told = []
    for our in (series for series in chart.series if series.ours):
        for other in (series for series in chart.series if not series.ours and series.name != BOUND):
            places = [
                category
                for category, mine, theirs in zip(chart.categories, our.values, other.values, strict=True)
                if mine is not None and theirs is not None and mine > theirs * NOISE
            ]
            if places:
                told.append(f"Better than {our.name}: {other.name} ({'; '.join(places)}).")
    return told


def _read(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not a record of measurements: {path}: {error}") from None
    if not isinstance(record, dict) or not isinstance(record.get("figures"), list):
        raise ValueError(f'not a record with figures: {path} has no list "figures"')
    return record


def _figure(path: Path, at: int, one: Any, how: str) -> Figure:
    where = f"{path}, figure {at}"
    try:
        series = [
            Series(
                str(of["name"]),
                [None if value is None else float(value) for value in of["values"]],
                bool(of.get("ours", False)),
            )
            for of in one["series"]
        ]
        unit: Unit = one.get("unit", "")
        if one["kind"] not in KINDS or unit not in get_args(Unit):
            raise ValueError(f"kind {one['kind']!r} or unit {unit!r} is not known")
        chart = Chart(
            one["kind"], [str(name) for name in one["categories"]], series, unit, str(one.get("category", ""))
        )
        notes = [*(str(note) for note in one.get("notes", ())), *losses(chart)]
        return Figure(str(one["title"]), str(one["says"]), chart, str(one.get("how", how)), notes)
    except KeyError as error:
        raise ValueError(f"{where}: {error} is missing") from None
    except (TypeError, AttributeError, ValueError, OverflowError) as error:
        raise ValueError(f"{where}: {error}") from None


def _facts(record: Mapping[str, Any]) -> str:
    """One line for a record: when, on what, of which commit."""
    machine = record.get("machine") if isinstance(record.get("machine"), dict) else {}
    packages = record.get("packages") if isinstance(record.get("packages"), dict) else {}
    told = [
        str(record.get("date", "")),
        f"{machine['cores']} cores of {machine.get('cpu', '?')}" if machine and "cores" in machine else "",
        f"commit {str(record['commit'])[:10]}" if "commit" in record else "",
        ", ".join(f"{name} {version}" for name, version in (packages or {}).items()),
    ]
    return "; ".join(one for one in told if one)
