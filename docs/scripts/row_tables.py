"""Turns the record of `benches/python/rows.py` into Markdown tables: the time that rows take, and the targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from measured_tables import Record, Records, as_table

NO_ROWS = "There is no record yet. Run `benches/python/rows.py --save` to create it."
CHECK = "freshness check"


def _milliseconds(parts: dict[str, float] | None) -> str:
    if parts is None:
        return "-"
    total = sum(parts.values())
    digits = 0 if total >= 100 else 1 if total >= 10 else 2
    return f"{total:,.{digits}f}"


def _count(rows: float) -> str:
    return f"{rows:,.0f}" if rows >= 100 or rows == int(rows) else f"{rows:.1f}"


def _cases(record: Record, name: str) -> list[dict[str, Any]]:
    return [case for case in record.data["cases"] if case["case"] == name]


def times(records: Records) -> str:
    """Return the median milliseconds of each contender and kind of question, with a table for each lake."""
    record = records.get("rows-python")
    if record is None:
        return NO_ROWS
    parts = []
    for lake in _cases(record, "lake"):
        cases = [case for case in _cases(record, "rows") if case["layout"] == lake["layout"]]
        names = dict.fromkeys(name for case in cases for name in case["milliseconds"])
        title = f"{lake['layout']}: {lake['rows']:,} rows, {lake['files']} files"
        heads = [title, *(f"{case['kind']} ({_count(case['rows'])})" for case in cases)]
        lines = [[name, *(_milliseconds(case["milliseconds"].get(name)) for case in cases)] for name in names]
        parts.append(as_table(heads, lines))
    about = (
        "Medians in milliseconds; the mean number of rows of an answer is in parentheses. A time of parsieve is that "
    )
    about += f"of the plan, which includes the {CHECK}, and of its rows."
    return "\n\n".join([*parts, f"{about} {record.source}"])


def targets(records: Records) -> str:
    """Return each target, the measurement, and whether it is met."""
    record = records.get("rows-python")
    if record is None:
        return NO_ROWS
    lines = []
    for target in (target for case in _cases(record, "targets") for target in case["targets"]):
        bound = f"{'≥' if target['is_least'] else '≤'} {target['target']:g} {target['unit']}"
        measured = "-" if target["measured"] is None else f"{target['measured']:,.3g}"
        lines.append([target["what"], target["layout"], bound, measured, target["verdict"]])
    return f"{as_table(['target', 'lake', 'bound', 'measured', ''], lines)}\n\n{record.source}"


SECTIONS: dict[str, Callable[[Records], str]] = {"rows": times, "row-targets": targets}
