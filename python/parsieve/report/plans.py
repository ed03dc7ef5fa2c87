"""Show what queries of a table read, by min/max statistics alone and by all evidence."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import parsieve as ps
from parsieve.index.sizes import lookup_bytes, stored_bytes
from parsieve.plan.make import PlanOptions
from parsieve.predicate.bind import bind
from parsieve.predicate.expr import columns
from parsieve.report.figures import Cells, Chart, Figure, Series, Verdict
from parsieve.report.page import render
from parsieve.wording import size

MINMAX, OURS = "by min/max alone", "with all evidence"
# How many doubts to list.
SHOWN = 5


def page_of_plans(table: ps.Table, queries: Sequence[Any], day: dt.date) -> str:
    """Return a page that shows what some queries of a table read.

    >>> import datetime, tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
    >>> folder = tempfile.mkdtemp()
    >>> for part in range(3):
    ...     pq.write_table(pa.table({"id": [part]}), f"{folder}/part-{part}.parquet")
    >>> page = page_of_plans(ps.open_table(folder), ["id = 1"], datetime.date(2026, 1, 31))
    >>> "reads 1 of 3 files" in page, "an index could save little" in page
    (True, True)
    """
    try:
        kinds = table.index_kinds()
        indexed = ", ".join(f"{column} ({kind})" for column, kind in kinds.items()) or "nothing"
    except ps.ParsieveError as error:
        # Plans do not need the index.
        kinds, indexed = {}, str(error)
    pairs = [(by_minmax(table, query), table.plan(query, row_groups=True, on_unknown="ignore")) for query in queries]
    figures = [_cells(str(query), *pair, kinds) for query, pair in zip(queries, pairs, strict=True)]
    reads = [
        Series(MINMAX, [float(len(minmax.kept)) for minmax, _ in pairs]),
        Series(OURS, [float(len(plan.kept)) for _, plan in pairs], ours=True),
    ]
    chart = Chart("bars", [str(query) for query in queries], reads, "files", "query")
    total = len(pairs[0][1].kept) + len(pairs[0][1].skipped) if pairs else 0
    figures.append(Figure("Files by query", f"How many of {total:,} files each query reads.", chart))
    facts = {
        "table": table.uri,
        "format": table.format,
        "indexed": indexed,
        **_sizes(table, kinds),
        "parsieve": ps.__version__,
        "date": day.isoformat(),
    }
    return render("What these queries read", "Each skip is proven. Files in doubt are read.", figures, facts)


def _sizes(table: ps.Table, kinds: Mapping[str, str]) -> dict[str, str]:
    """Return the size of the index, if the table has one."""
    view = table.opened.index.newest() if kinds else None
    if view is None:
        return {}
    stored, lookup = stored_bytes(view.commit), lookup_bytes(view)
    return {"index": f"{size(stored)} on disk, {size(lookup)} read by lookups"}


def by_minmax(table: ps.Table, query: Any) -> ps.Plan:
    """Plan with partition values and min/max statistics only, without the index and without filters.

    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
    >>> folder = tempfile.mkdtemp()
    >>> for part in range(3):
    ...     pq.write_table(pa.table({"id": [part, 100 + part]}), f"{folder}/part-{part}.parquet")
    >>> table = ps.open_table(folder)
    >>> _ = table.build_index("id", kind="sieve")
    >>> len(by_minmax(table, "id = 50").files), len(by_minmax(table, "id = 200").files)
    (3, 0)
    """
    snapshot = table.opened.snapshot()
    options = PlanOptions(use_index=False, use_filters=False)
    return table.opened.plan(bind(query, snapshot.schema), snapshot, options)


def verdicts(plan: ps.Plan) -> list[Verdict]:
    """Return the verdict on each file, in the order of their names.

    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
    >>> folder = tempfile.mkdtemp()
    >>> for part in range(3):
    ...     pq.write_table(pa.table({"id": [part]}), f"{folder}/part-{part}.parquet")
    >>> verdicts(ps.open_table(folder).plan("id = 1"))
    ['skipped', 'kept', 'skipped']
    """
    by_path: dict[str, Verdict] = {keep.path: "doubted" if keep.doubt else "kept" for keep in plan.kept}
    by_path |= {skip.path: "skipped" for skip in plan.skipped}
    return [by_path[path] for path in sorted(by_path)]


def savings(minmax: ps.Plan, plan: ps.Plan, kinds: dict[str, str]) -> str:
    """Return a sentence about how many files index and filters save a query beyond min/max statistics, even if none.

    Args:
        minmax: The plan of `by_minmax`.
        plan: The plan with all evidence.
        kinds: The indexed columns, as returned by `Table.index_kinds`.

    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
    >>> folder = tempfile.mkdtemp()
    >>> for part in range(3):
    ...     pq.write_table(pa.table({"id": [part], "state": ["open"]}), f"{folder}/part-{part}.parquet")
    >>> table = ps.open_table(folder)
    >>> for query in ("id = 1", "state = 'open'"):
    ...     print(savings(by_minmax(table, query), table.plan(query), table.index_kinds()))
    Min/max alone reads 1 of 3 files: an index could save little.
    Min/max alone reads 3 of 3 files, and state has no index; parsieve advise estimates what one would save.
    """
    num_kept, num_by_minmax = len(plan.kept), len(minmax.kept)
    total = num_kept + len(plan.skipped)
    if num_kept < num_by_minmax:
        saved = num_by_minmax - num_kept
        return f"Index and filters save {saved:,} of the {num_by_minmax:,} files that min/max alone reads."
    start = f"Min/max alone reads {num_by_minmax:,} of {total:,} files"
    names = [".".join(column.path) for column in columns(plan.record.expr)]
    indexed = [name for name in names if name in kinds]
    if indexed:
        return f"{start}: the index of {', '.join(indexed)} does not help this query."
    if num_kept < 2 or not names:
        return f"{start}: an index could save little."
    have = "has" if len(names) == 1 else "have"
    return f"{start}, and {', '.join(names)} {have} no index; parsieve advise estimates what one would save."


def _cells(query: str, minmax: ps.Plan, plan: ps.Plan, kinds: dict[str, str]) -> Figure:
    notes = [savings(minmax, plan, kinds)]
    evidence = Counter(skip.evidence for skip in plan.skipped)
    notes += [f"{count:,} skipped by {name}" for name, count in evidence.most_common()]
    doubts = dict.fromkeys([*plan.record.notes, *(doubt for keep in plan.kept for doubt in keep.doubt)])
    notes += [f"in doubt: {doubt}" for doubt in list(doubts)[:SHOWN]]
    if len(doubts) > SHOWN:
        notes.append(f"in doubt for {len(doubts) - SHOWN:,} more reasons")
    requests = "1 request" if plan.requests == 1 else f"{plan.requests:,} requests"
    notes.append(f"the plan read {plan.bytes_fetched:,} bytes in {requests}")
    shows = Cells([(MINMAX, verdicts(minmax)), (OURS, verdicts(plan))])
    return Figure(query, "Each cell is a file.", shows, notes=notes)
