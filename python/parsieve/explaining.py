"""A plan in words, and as what `json.dumps` takes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from parsieve.predicate.expr import unknowns
from parsieve.prune.questions import leaves

if TYPE_CHECKING:
    from parsieve.plan import Plan

# Names of files that are written out before the rest is counted.
SHOWN = 5


def explain(plan: Plan) -> str:
    """The plan for people."""
    files, groups = plan._files, plan._groups
    lines = [str(plan._expr), f"on {plan._lake.format} table {plan._lake.uri}, {_state(plan)}", ""]
    for stage in files.stages:
        if stage.asked != stage.kept or stage is not files.stages[0]:
            lines.append(f"  {stage.name}: {_count(stage.asked, 'file')}, {stage.kept} kept")
    if groups is not None:
        opened = len(plan._opened)
        lines.append(f"  footers of {_count(opened, 'file')} ({_count(plan._cost.files, 'footer')} read now):")
        lines.extend(
            f"    {stage.name}: {_count(stage.asked, 'row group')}, {stage.kept} kept" for stage in groups[0].stages
        )
    sievings = [files] if groups is None else [files, groups[0]]
    for question in leaves(files.tree):
        if plan.kept and not any(question in one.heard for one in sievings):
            lines.append(f"  nothing speaks of {question}: no min/max, no index, no filter")
    total = len(plan._snapshot.slices)
    lines.append(f"kept {len(plan.kept)} of {_count(total, 'file')}{_sizes(plan)}{_groups(plan)}")
    for evidence, number in Counter(skip.evidence for skip in plan.skipped).most_common():
        lines.append(f"skipped {_count(number, 'file')} by {evidence}")
    for skip in plan.skipped[:SHOWN]:
        lines.append(f"  {skip.path}: {skip.proof}")
    lines.extend(_rest(len(plan.skipped)))
    waste = files.expected_waste()
    if waste is not None and plan.kept:
        lines.append(f"expected waste: {waste:.1f} of the files kept, by what the index rounds and filters confuse")
    lines.extend(doubts(plan))
    lines.append(f"read for this plan: {_bytes(plan.bytes_fetched)} in {_count(plan.requests, 'request')}")
    return "\n".join(lines)


def doubts(plan: Plan) -> list[str]:
    """What kept files that might have been skipped."""
    lines = []
    doubted = [keep for keep in plan.kept if keep.doubt]
    if doubted:
        lines.append(f"in doubt, and so kept: {_count(len(doubted), 'file')}")
        lines.extend(f"  {keep.path}: {'; '.join(keep.doubt)}" for keep in doubted[:SHOWN])
        lines.extend(_rest(len(doubted)))
    lines.extend(f"in doubt: {note}" for note in plan._notes)
    for part in unknowns(plan._expr):
        lines.append(f"not understood: {part.text!r}, which excludes nothing ({part.reason})")
    return lines


def to_dict(plan: Plan) -> dict[str, Any]:
    """The plan for programs."""
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
        "expected_waste": plan._files.expected_waste(),
        "bytes_fetched": plan.bytes_fetched,
        "requests": plan.requests,
    }


def _state(plan: Plan) -> str:
    return "as it is now" if plan._snapshot.id is None else f"state {plan._snapshot.id}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _rest(number: int) -> list[str]:
    return [f"  … and {number - SHOWN} more"] if number > SHOWN else []


def _sizes(plan: Plan) -> str:
    sizes = [piece.size for piece in plan._snapshot.slices]
    kept = [plan._slice(number).size for number in plan._kept]
    if any(size is None for size in sizes):
        return ""
    return f", {_bytes(sum(size or 0 for size in kept))} of {_bytes(sum(size or 0 for size in sizes))}"


def _groups(plan: Plan) -> str:
    asked = sum(len(units) for number, (units, _) in plan._opened.items() if number in set(plan._kept))
    kept = sum(len(groups) for _, groups in plan._opened.values())
    return f"; in them {kept} of {_count(asked, 'row group')}" if asked else ""


def _bytes(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
