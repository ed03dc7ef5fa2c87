"""Explain a plan in words, and as data for `json.dumps`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.plan.evidence.candidates import Sieving
from parsieve.plan.evidence.questions import Among, Begins, Constant, Question, Within, leaves
from parsieve.predicate.expr import unknowns
from parsieve.wording import count, size

if TYPE_CHECKING:
    from parsieve.plan.plan import Plan

# Names of files that are listed before the rest is counted.
SHOWN = 5
_FORMATS = {"parquet": "Parquet", "delta": "Delta", "iceberg": "Iceberg", "hudi": "Hudi"}
# What each format calls a state of a table.
_STATES = {"delta": "version", "iceberg": "snapshot", "hudi": "instant"}


def explain(plan: Plan) -> str:
    """Explain a plan in plain words."""
    lines = [str(plan._expr), _table(plan), "", *_stages(plan)]
    lines.extend(f"  no evidence for {question}: no min/max statistics, index or filter" for question in _silent(plan))
    total = len(plan._snapshot.slices)
    lines.append(f"kept {len(plan.kept)} of {count(total, 'file')}{_sizes(plan)}{_groups(plan)}")
    for evidence, number in Counter(skip.evidence for skip in plan.skipped).most_common():
        lines.append(f"skipped {count(number, 'file')} by {evidence}")
    for skip in plan.skipped[:SHOWN]:
        lines.append(f"  {skip.path}: {skip.proof}")
    lines.extend(_rest(len(plan.skipped), SHOWN))
    lines.extend(_false_positives(plan))
    lines.extend(doubts(plan))
    lines.append(f"read for this plan: {size(plan.bytes_fetched)} in {count(plan.requests, 'request')}")
    return "\n".join(lines)


def expected_false_positives(plan: Plan) -> tuple[float | None, int | None]:
    """Estimate how many kept files hold no matching row, if the predicate's values exist and if they do not.

    Both are None if the evidence cannot estimate false positives.
    """
    waste = plan._files.expected_waste()
    return (None, None) if waste is None else (min(waste, float(len(plan.kept))), len(plan.kept))


def doubts(plan: Plan) -> list[str]:
    """Explain which files are kept in doubt, and which parts of the predicate were ignored."""
    lines = []
    by_reason: dict[str, list[str]] = {}
    for keep in plan.kept:
        for reason in keep.doubt:
            by_reason.setdefault(reason, []).append(keep.path)
    if by_reason:
        lines.append(f"in doubt, so kept: {count(sum(bool(keep.doubt) for keep in plan.kept), 'file')}")
    for reason, paths in by_reason.items():
        shown = SHOWN if len(by_reason) == 1 else 2
        lines.append(f"  {reason}:")
        lines.extend(f"    {path}" for path in paths[:shown])
        lines.extend(f"  {line}" for line in _rest(len(paths), shown))
    lines.extend(f"in doubt: {note}" for note in plan._notes)
    effect = "All files are kept." if plan._files.tree == Constant(True) else "It excludes no files."
    lines.extend(f"ignored: {part.text} ({part.reason}). {effect}" for part in unknowns(plan._expr))
    return lines


def to_dict(plan: Plan) -> dict[str, Any]:
    """Return a plan as data for programs."""
    expected_waste, expected_waste_if_absent = expected_false_positives(plan)
    stages = [
        {"evidence": one.name, "unit": "file", "asked": one.asked, "kept": one.kept} for one in plan._files.stages
    ]
    if plan._groups is not None:
        stages += [
            {"evidence": one.name, "unit": "row group", "asked": one.asked, "kept": one.kept}
            for one in plan._groups[0].stages
        ]
    return {
        "predicate": str(plan._expr),
        "format": plan._lake.format,
        "table": plan._lake.uri,
        "snapshot": plan._snapshot.id,
        "files": plan.files,
        "row_groups": plan.row_groups,
        "doubts": {keep.path: list(keep.doubt) for keep in plan.kept if keep.doubt},
        "notes": plan._notes,
        "skipped": [skip._asdict() for skip in plan.skipped],
        "not_understood": [{"text": part.text, "reason": part.reason} for part in unknowns(plan._expr)],
        "stages": stages,
        "expected_waste": expected_waste,
        "expected_waste_if_absent": expected_waste_if_absent,
        "bytes_fetched": plan.bytes_fetched,
        "requests": plan.requests,
    }


def _table(plan: Plan) -> str:
    form, state = plan._lake.format, plan._snapshot.id
    known = "current state" if state is None else f"{_STATES.get(form, 'state')} {state}"
    return f"{_FORMATS.get(form, form)} table {plan._lake.uri} ({known})"


def _stages(plan: Plan) -> list[str]:
    first, *others = plan._files.stages
    stages = [*([first] if first.asked != first.kept else []), *others]
    lines = [f"  {stage.name}: kept {stage.kept} of {count(stage.asked, 'file')}" for stage in stages]
    if plan._groups is not None:
        lines.append(f"  footers of {count(len(plan._opened), 'file')} ({plan._cost.files} read for this plan):")
        for stage in plan._groups[0].stages:
            lines.append(f"    {stage.name}: kept {stage.kept} of {count(stage.asked, 'row group')}")
    if plan._cost.not_opened:
        lines.append(
            f"  footers of {count(plan._cost.not_opened, 'more file')}: not worth reading, "
            "judging by the files already read (row_groups=True reads them)"
        )
    return lines


def _silent(plan: Plan) -> list[Question]:
    """Return the comparisons that no evidence answered."""
    sievings = _sievings(plan)
    questions = leaves(plan._files.tree) if plan.kept else ()
    return [question for question in questions if not any(question in one.heard for one in sievings)]


def _sievings(plan: Plan) -> list[Sieving]:
    return [plan._files] if plan._groups is None else [plan._files, plan._groups[0]]


def _false_positives(plan: Plan) -> list[str]:
    present, absent = expected_false_positives(plan)
    if present is None or not absent:
        return []
    keys = [one for one in leaves(plan._files.tree) if isinstance(one, Among | Begins | Within)]
    if len(keys) == 1 and isinstance(keys[0], Among) and len(keys[0].values) == 1:
        exists, missing = "if the key exists", "if it does not"
    elif all(isinstance(one, Among) for one in keys):
        exists, missing = "if the keys exist", "if none does"
    else:
        exists, missing = "if any row matches", "if none does"
    every = f"all {absent:,}" if absent > 1 else "1"
    return [
        f"estimated false positives: {present:.1f} of {count(absent, 'file')} {exists}, {every} {missing} "
        "(index rounding, Bloom filter collisions)"
    ]


def _rest(number: int, shown: int) -> list[str]:
    return [f"  … and {number - shown:,} more"] if number > shown else []


def _sizes(plan: Plan) -> str:
    sizes = plan._snapshot.slices.size
    if sizes.null_count:
        return ""
    kept = pc.sum(sizes.take(pa.array(plan._kept, pa.int64()))).as_py()
    return f", {size(kept or 0)} of {size(pc.sum(sizes).as_py() or 0)}"


def _groups(plan: Plan) -> str:
    kept_files = set(plan._kept)
    asked = sum(len(units) for number, (units, _) in plan._opened.items() if number in kept_files)
    kept = sum(len(groups) for _, groups in plan._opened.values())
    return f"; in the opened files {kept} of {count(asked, 'row group')}" if asked else ""
