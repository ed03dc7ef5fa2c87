"""The cards of tables, plans, lookups, advice and reports. They read nothing but what these objects already have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.predicate.expressions.expression import index_name
from parsieve.report.card import Cell, card, cells_of, line, listing, picture
from parsieve.wording import count, size

if TYPE_CHECKING:
    from parsieve.filters.check import Finding
    from parsieve.filters.open import FileFilters
    from parsieve.filters.report import RewriteReport
    from parsieve.index.advice import Advice
    from parsieve.plan.lookup import LookupResult
    from parsieve.plan.order.ordered_plan import OrderedPlan
    from parsieve.plan.plan import Plan
    from parsieve.plan.record import PlanRecord
    from parsieve.table import Table

# How many files, columns or problems a card lists.
SHOWN = 5


def card_of(thing: object) -> str:
    """Return an object of parsieve as HTML.

    >>> from parsieve.index import DropReport
    >>> "dropped id" in card_of(DropReport(("id",), 9, 10_500_000))
    True
    """
    draw: Callable[[Any], str] = _CARDS.get(type(thing).__name__, _report)
    return draw(thing)


def _plan(plan: Plan) -> str:
    return card("Plan", str(plan.record.expr), _of_record(plan.record))


def _ordered_plan(plan: OrderedPlan) -> str:
    order = [text.strip().removeprefix("order: ") for text in plan.order_lines()]
    return card("Plan", str(plan.record.expr), [*_of_record(plan.record), line("order", "; ".join(order))])


def _of_record(record: PlanRecord) -> list[str]:
    from parsieve.plan.results.reading import choose_reading

    total, kept = len(record.snapshot.slices), record.kept
    doubted = [number for number in kept if record.doubts.get(number)]
    says = f"reads {len(kept):,} of {count(total, 'file')}{_bytes(record)}"
    says += f", {len(doubted):,} of them in doubt" if doubted else ""
    narrowed = [stage for stage in record.stages if stage.kept < stage.asked]
    folder = record.lake.uri.rstrip("/")
    names = [record.name(number).removeprefix(f"{folder}/") for number in kept[:SHOWN]]
    reasons = dict.fromkeys([*record.notes, *(reason for number in doubted for reason in record.doubts[number])])
    doubts = list(reasons)
    ignored = [f"{part.text} ({part.reason})" for part in record.unknown]
    return [
        picture(cells_of(total, kept, doubted), says),
        line("table", folder.rpartition("/")[2]),
        line("result", says),
        *(line(stage.evidence, f"kept {stage.kept:,} of {count(stage.asked, stage.unit)}") for stage in narrowed),
        line("rows", str(choose_reading(record)) if kept else ""),
        line("in doubt, so read", _few(doubts)),
        line("ignored", _few(ignored)),
        line("planning read", f"{size(record.cost.bytes_fetched)} in {count(record.cost.requests, 'request')}"),
        listing("files to read", names, len(kept) - len(names)),
    ]


def _few(texts: list[str]) -> str:
    """Join some texts, and count the rest."""
    more = [f"… and {len(texts) - SHOWN:,} more"] if len(texts) > SHOWN else []
    return "; ".join([*texts[:SHOWN], *more])


def _bytes(record: PlanRecord) -> str:
    sizes = record.snapshot.slices.size
    if sizes.null_count:
        return ""
    kept = pc.sum(sizes.take(pa.array(record.kept, pa.int64()))).as_py() or 0
    return f" ({size(kept, of=pc.sum(sizes).as_py() or 0)})"


def _lookup(result: LookupResult) -> str:
    missing = result.missing.slice(0, SHOWN).to_pylist()
    body = [
        line("result", f"{count(len(result), 'row')} in {count(result.table.num_columns, 'column')}"),
        line("without a row", f"{count(len(result.missing), 'key')}" if missing else ""),
        *_of_record(result.plan.record),
        listing("missing keys", [str(key) for key in missing], len(result.missing) - len(missing)),
    ]
    return card("Lookup", ", ".join(result.table.schema.names), body)


def _table(table: Table) -> str:
    snapshot, view = table.opened.last_snapshot, table.opened.index.loaded
    body = [line("folder", table.uri)]
    if snapshot is not None:
        fields = [f"{field.name}: {field.type}" for field in snapshot.schema]
        body.append(line("files", f"{len(snapshot.slices):,}"))
        body.append(listing(count(len(fields), "column"), fields[:50], max(0, len(fields) - 50)))
    if view is not None:
        named = view.named(None if snapshot is None else snapshot.schema)
        names = [index_name(path) for path in named.commit.indexed]
        body.append(line("index", ", ".join(names) or "none"))
    return card("Table", table.format, body)


def _advice(advice: Advice) -> str:
    reads = {
        "with min/max statistics": advice.minmax_reads,
        "with a Bloom index": advice.bloom_reads,
        "with a Sieve index": advice.sieve_reads,
    }
    total = max(advice.slices, 1)
    body = [line("why", advice.why)]
    for name, files in reads.items():
        says = f"a key reads {files:.1f} of {count(advice.slices, 'file')}"
        body.append(line(name, says) + picture(_bar(files / total), says))
    sizes = f"Sieve {size(advice.sieve_bytes)}, Bloom {size(advice.bloom_bytes)}"
    if advice.text is not None:
        sizes = f"{advice.text.kind} {size(advice.text.num_bytes)}"
    body.append(line("size on disk", sizes))
    body.append(line("sampled", f"{advice.sampled:,} of {count(advice.slices, 'file')}"))
    return card(f"Advice: {advice.recommendation}", advice.column, body)


def _bar(share: float) -> list[Cell]:
    """Return a bar of 40 cells."""
    filled = min(40, max(0, round(40 * share)))
    return [Cell(1, 1, 0)] * filled + [Cell(1, 0, 0)] * (40 - filled)


def _report(report: Any) -> str:
    """Show any report by its summary."""
    first, *others = str(report).splitlines() or [""]
    left_out = getattr(report, "left_out", ())
    body = [line("did", first), *(line("note", note) for note in getattr(report, "notes", ()) or ())]
    if left_out:
        body.append(
            listing(
                f"{count(len(left_out), 'file')} left out",
                [str(file) for file in left_out[:SHOWN]],
                max(0, len(left_out) - SHOWN),
            )
        )
    elif not getattr(report, "notes", ()):
        body += [line("also", other) for other in others[:SHOWN]]
    if hasattr(report, "files_unchanged"):
        read, rest = report.files_read, report.files_unchanged + report.files_renewed
        says = f"read {read:,} of {count(read + rest, 'file')}"
        body.insert(0, picture(cells_of(read + rest, range(read), ()), says))
    name = type(report).__name__.removesuffix("Report") or "Report"
    return card(name, ", ".join(getattr(report, "columns", ())), body)


def _rewrite(report: RewriteReport) -> str:
    first, *reasons = str(report).splitlines()
    by_column = Counter(str(added.column) for added in report.added)
    body = [
        line("did", first),
        line("written", "yes" if report.written else "no"),
        *(line(column, count(number, "filter")) for column, number in by_column.most_common(SHOWN)),
        listing("why", reasons[:50], max(0, len(reasons) - 50)),
    ]
    return card("Filters", report.path, body)


def _filters(filters: FileFilters) -> str:
    ranges = filters.ranges()
    by_column = Counter(str(place.column) for place in ranges)
    total = sum(place.length or 0 for place in ranges)
    groups, columns = filters.num_row_groups, len(filters.columns)
    says = f"{count(len(ranges), 'filter')} in {count(groups, 'row group')} of {count(columns, 'column')}"
    shown = [f"{column}: {number:,} of {count(groups, 'row group')}" for column, number in by_column.most_common(50)]
    body = [
        line("found", f"{says}, {size(total)}"),
        line("written by", filters.created_by or "unknown"),
        listing("columns with filters", shown, max(0, len(by_column) - len(shown))),
    ]
    return card("Bloom filters", "encrypted file" if filters.encrypted else "", body)


def _finding(finding: Finding) -> str:
    body = [line("problem", finding.text), line("file", finding.path or "")]
    return card(f"Finding: {finding.kind}", f"{finding.column}, row group {finding.row_group}", body)


_CARDS: dict[str, Callable[[Any], str]] = {
    "Plan": _plan,
    "OrderedPlan": _ordered_plan,
    "LookupResult": _lookup,
    "Table": _table,
    "Advice": _advice,
    "RewriteReport": _rewrite,
    "FileFilters": _filters,
    "Finding": _finding,
}
