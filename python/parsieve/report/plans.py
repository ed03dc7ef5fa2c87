"""A user's own table and queries as figures: what each plan reads, by min/max alone and by all evidence."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import parsieve as ps
from parsieve.index.reports import size_of
from parsieve.index.sizes import lookup_bytes, stored_bytes
from parsieve.plan.make import PlanOptions
from parsieve.predicate.bind import bind
from parsieve.predicate.expr import columns
from parsieve.report.figures import Cells, Chart, Figure, Series, Verdict
from parsieve.report.page import render

MINMAX, OURS = "by min/max alone", "with all evidence"
# Doubts that are written out.
SHOWN = 5


def page_of_plans(table: ps.Table, queries: Sequence[Any], day: dt.date) -> str:
    """One page about what some queries of a table read.

    >>> import datetime, tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
    >>> folder = tempfile.mkdtemp()
    >>> for part in range(3):
    ...     pq.write_table(pa.table({"id": [part]}), f"{folder}/part-{part}.parquet")
    >>> page = page_of_plans(ps.open_table(folder), ["id = 1"], datetime.date(2026, 1, 31))
    >>> "reads 1 of 3 files" in page, "little is left that an index could spare" in page
    (True, True)
    """
    try:
        kinds = table.index_kinds()
        indexed = ", ".join(f"{column} ({kind})" for column, kind in kinds.items()) or "nothing"
    except ps.ParsieveError as error:
        # Plans are made without it.
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
    return render("What these queries read", "Each skip is proven; what is in doubt is read.", figures, facts)


def _sizes(table: ps.Table, kinds: Mapping[str, str]) -> dict[str, str]:
    """How large the index is, if there is one."""
    view = table.opened.index.newest() if kinds else None
    if view is None:
        return {}
    stored, lookup = stored_bytes(view.commit), lookup_bytes(view)
    return {"index": f"{size_of(stored)} on disk, {size_of(lookup)} read by lookups"}


def by_minmax(table: ps.Table, query: Any) -> ps.Plan:
    """The plan that partition values, minima and maxima make, without an index and without filters.

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
    """What becomes of each file, in order of their names.

    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
    >>> folder = tempfile.mkdtemp()
    >>> for part in range(3):
    ...     pq.write_table(pa.table({"id": [part]}), f"{folder}/part-{part}.parquet")
    >>> verdicts(ps.open_table(folder).plan("id = 1"))
    ['skipped', 'kept', 'skipped']
    """
    found: dict[str, Verdict] = {one.path: "doubted" if one.doubt else "kept" for one in plan.kept}
    found |= {one.path: "skipped" for one in plan.skipped}
    return [found[path] for path in sorted(found)]


def spared(minmax: ps.Plan, plan: ps.Plan, kinds: dict[str, str]) -> str:
    """What index and filters spare a query beside min/max, in a sentence; that they spare nothing is said too.

    Args:
        minmax: The plan of `by_minmax`.
        plan: The plan by all evidence.
        kinds: Which columns are indexed, as `Table.index_kinds` tells.

    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
    >>> folder = tempfile.mkdtemp()
    >>> for part in range(3):
    ...     pq.write_table(pa.table({"id": [part], "state": ["open"]}), f"{folder}/part-{part}.parquet")
    >>> table = ps.open_table(folder)
    >>> for query in ("id = 1", "state = 'open'"):
    ...     print(spared(by_minmax(table, query), table.plan(query), table.index_kinds()))
    Min/max alone reads 1 of 3 files: little is left that an index could spare.
    Min/max alone reads 3 of 3 files, and no index of state is there; parsieve advise tells whether one would pay.
    """
    few, all_few = len(plan.kept), len(minmax.kept)
    total = few + len(plan.skipped)
    if few < all_few:
        return f"Index and filters spare {all_few - few:,} of the {all_few:,} files that min/max alone reads."
    begun = f"Min/max alone reads {all_few:,} of {total:,} files"
    asked = [".".join(column.path) for column in columns(plan.record.expr)]
    indexed = [column for column in asked if column in kinds]
    if indexed:
        return f"{begun}: this query is spared nothing by the index of {', '.join(indexed)}."
    if few < 2 or not asked:
        return f"{begun}: little is left that an index could spare."
    return f"{begun}, and no index of {', '.join(asked)} is there; parsieve advise tells whether one would pay."


def _cells(query: str, minmax: ps.Plan, plan: ps.Plan, kinds: dict[str, str]) -> Figure:
    notes = [spared(minmax, plan, kinds)]
    evidence = Counter(skip.evidence for skip in plan.skipped)
    notes += [f"{count:,} skipped by {name}" for name, count in evidence.most_common()]
    doubts = dict.fromkeys([*plan.record.notes, *(doubt for keep in plan.kept for doubt in keep.doubt)])
    notes += [f"in doubt: {doubt}" for doubt in list(doubts)[:SHOWN]]
    requests = "1 request" if plan.requests == 1 else f"{plan.requests:,} requests"
    notes.append(f"the plan read {plan.bytes_fetched:,} bytes in {requests}")
    shows = Cells([(MINMAX, verdicts(minmax)), (OURS, verdicts(plan))])
    return Figure(query, "Each cell is a file.", shows, notes=notes)
