"""Explain a plan in words, and as data for `json.dumps`."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.plan.record import PlanRecord
from parsieve.plan.results.reading import choose_reading
from parsieve.wording import count, size

# Names of files that are listed before the rest is counted.
SHOWN = 5
_FORMATS = {"parquet": "Parquet", "delta": "Delta", "iceberg": "Iceberg", "hudi": "Hudi"}
# What each format calls a state of a table.
_STATES = {"delta": "version", "iceberg": "snapshot", "hudi": "instant"}


def explain(record: PlanRecord) -> str:
    """Explain a plan in plain words."""
    lines = [str(record.expr), _table(record), "", *_stages(record)]
    lines.extend(f"  no evidence for {question}: {reason}" for question, reason in record.unanswered.items())
    total = len(record.snapshot.slices)
    lines.append(f"kept {len(record.kept)} of {count(total, 'file')}{_sizes(record)}{_row_groups(record)}")
    if record.num_rows is not None and record.num_rows[0] < record.num_rows[1]:
        kept_rows, rows = record.num_rows
        lines.append(f"  rows to read: {kept_rows:,} of {rows:,}, in the files whose row groups are known")
    if record.kept:
        lines.append(f"  rows: {choose_reading(record)}")
    for evidence, number in Counter(skip.evidence for skip in record.skips).most_common():
        lines.append(f"skipped {count(number, 'file')} by {evidence}")
    for skip in record.skips[:SHOWN]:
        lines.append(f"  {skip.path}: {skip.proof}")
    lines.extend(_rest(len(record.skips), SHOWN))
    lines.extend(_false_positives(record))
    too_short = "only three or more fixed characters in a row can skip files"
    lines.extend(f"not used: {text} ({too_short})" for text in record.unused_texts)
    lines.extend(doubts(record))
    lines.append(f"read for this plan: {size(record.cost.bytes_fetched)} in {count(record.cost.requests, 'request')}")
    return "\n".join(lines)


def doubts(record: PlanRecord) -> list[str]:
    """Explain which files are kept in doubt, and which parts of the predicate were ignored."""
    lines = []
    by_reason: dict[str, list[str]] = {}
    for keep in record.keeps:
        for reason in keep.doubt:
            by_reason.setdefault(reason, []).append(keep.path)
    if by_reason:
        lines.append(f"in doubt, so kept: {count(sum(bool(keep.doubt) for keep in record.keeps), 'file')}")
    # Reasons that name a file or a place in it differ from file to file.
    reasons = sorted(by_reason.items(), key=lambda pair: len(pair[1]), reverse=True)
    for reason, paths in reasons[:SHOWN]:
        shown = SHOWN if len(by_reason) == 1 else 2
        lines.append(f"  {reason}:")
        lines.extend(f"    {path}" for path in paths[:shown])
        lines.extend(f"  {line}" for line in _rest(len(paths), shown))
    if len(reasons) > SHOWN:
        lines.append(f"  … and {count(len(reasons) - SHOWN, 'more reason')}")
    lines.extend(f"in doubt: {note}" for note in record.notes[:SHOWN])
    if len(record.notes) > SHOWN:
        lines.append(f"in doubt: {count(len(record.notes) - SHOWN, 'more problem')}")
    effect = "All files are kept." if record.excludes_nothing else "It excludes no files."
    lines.extend(f"ignored: {part.text} ({part.reason}). {effect}" for part in record.unknown[:SHOWN])
    if len(record.unknown) > SHOWN:
        lines.append(f"ignored: {count(len(record.unknown) - SHOWN, 'more condition')}")
    return lines


def to_dict(record: PlanRecord) -> dict[str, Any]:
    """Return a plan as data for programs."""
    expected, reading = record.expected_false_positives, choose_reading(record)
    paths = record.paths()
    return {
        "predicate": str(record.expr),
        "format": record.lake.format,
        "table": record.lake.uri,
        "snapshot": record.snapshot.id,
        "files": list(paths.values()),
        "row_groups": {path: record.groups_to_read(number) for number, path in paths.items()},
        "row_ranges": {path: record.row_ranges.get(number) for number, path in paths.items()},
        "reads_pages": {"to_arrow": reading.by_pages, "engines": reading.for_engines},
        "doubts": {keep.path: list(keep.doubt) for keep in record.keeps if keep.doubt},
        "notes": list(record.notes),
        "skipped": [{"path": skip.path, "evidence": skip.evidence, "proof": skip.proof} for skip in record.skips],
        "not_understood": [{"text": part.text, "reason": part.reason} for part in record.unknown],
        "stages": [
            {"evidence": stage.evidence, "unit": stage.unit, "asked": stage.asked, "kept": stage.kept}
            for stage in record.stages
        ],
        "expected_waste": expected,
        "expected_waste_if_absent": None if expected is None else len(record.kept),
        "bytes_fetched": record.cost.bytes_fetched,
        "requests": record.cost.requests,
    }


def _table(record: PlanRecord) -> str:
    form, state = record.lake.format, record.snapshot.id
    name = "current state" if state is None else f"{_STATES.get(form, 'state')} {state}"
    return f"{_FORMATS.get(form, form)} table {record.lake.uri} ({name})"


def _stages(record: PlanRecord) -> list[str]:
    of_files = [stage for stage in record.stages if stage.unit == "file"]
    # The first stage is the predicate itself, which excludes files only if it is never true.
    first, *others = of_files
    stages = of_files if first.asked != first.kept else others
    lines = [f"  {stage.evidence}: kept {stage.kept} of {count(stage.asked, 'file')}" for stage in stages]
    if record.num_opened is not None:
        lines.append(f"  footers of {count(record.num_opened, 'file')} ({record.cost.files} read for this plan):")
        for stage in record.stages:
            if stage.unit == "row group":
                lines.append(f"    {stage.evidence}: kept {stage.kept} of {count(stage.asked, 'row group')}")
    if record.cost.not_opened:
        lines.append(
            f"  footers of {count(record.cost.not_opened, 'more file')}: not worth reading, "
            "judging by the files already read (row_groups=True reads them)"
        )
    return lines


def _false_positives(record: PlanRecord) -> list[str]:
    expected, kept = record.expected_false_positives, len(record.kept)
    if expected is None or not kept:
        return []
    exists, missing = {
        "key": ("if the key exists", "if it does not"),
        "keys": ("if the keys exist", "if none does"),
        "rows": ("if any row matches", "if none does"),
    }[record.target]
    every = f"all {kept:,}" if kept > 1 else "1"
    return [
        f"estimated false positives: {expected:.1f} of {count(kept, 'file')} {exists}, {every} {missing} "
        "(index rounding, Bloom filter collisions)"
    ]


def _rest(number: int, shown: int) -> list[str]:
    return [f"  … and {number - shown:,} more"] if number > shown else []


def _sizes(record: PlanRecord) -> str:
    sizes = record.snapshot.slices.size
    if sizes.null_count:
        return ""
    total, kept = pc.sum(sizes).as_py(), pc.sum(sizes.take(pa.array(record.kept, pa.int64()))).as_py()
    return f", {size(kept or 0, of=total or 0)}"


def _row_groups(record: PlanRecord) -> str:
    kept_files = set(record.kept)
    asked = sum(row_groups.total for number, row_groups in record.row_groups.items() if number in kept_files)
    kept = sum(len(row_groups.kept) for row_groups in record.row_groups.values())
    return f"; in the opened files {kept} of {count(asked, 'row group')}" if asked else ""
