"""A user's own table and queries as figures: what each plan reads, by min/max alone and by all evidence."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import parsieve as ps
from parsieve.report.figures import Cells, Chart, Figure, Series, Verdict
from parsieve.report.page import render


def page_of_plans(table: ps.Table, queries: Sequence[Any], day: dt.date) -> str:
    """One page about what some queries of a table read.

    >>> import datetime, tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
    >>> folder = tempfile.mkdtemp()
    >>> for part in range(3):
    ...     pq.write_table(pa.table({"id": [part]}), f"{folder}/part-{part}.parquet")
    >>> page = page_of_plans(ps.open_table(folder), ["id = 1"], datetime.date(2026, 1, 31))
    >>> "reads 1 of 3 files" in page
    True
    """
    plans = [table.plan(query) for query in queries]
    figures = [_cells(str(query), plan) for query, plan in zip(queries, plans, strict=True)]
    reads = [Series("files read", [float(len(plan.kept)) for plan in plans], ours=True)]
    reads.append(Series("files skipped", [float(len(plan.skipped)) for plan in plans]))
    chart = Chart("bars", [str(query) for query in queries], reads, "files", "query")
    figures.append(Figure("Files by query", "How many files each query reads, and how many it is spared.", chart))
    facts = {
        "table": table.uri,
        "format": table.format,
        "indexed": ", ".join(table.index_stats()) or "nothing",
        "parsieve": ps.__version__,
        "date": day.isoformat(),
    }
    return render("What these queries read", "Each skip is proven; what is in doubt is read.", figures, facts)


def _cells(query: str, plan: ps.Plan) -> Figure:
    found: dict[str, Verdict] = {one.path: "doubted" if one.doubt else "kept" for one in plan.kept}
    found |= {one.path: "skipped" for one in plan.skipped}
    evidence: dict[str, int] = {}
    for skip in plan.skipped:
        evidence[skip.evidence] = evidence.get(skip.evidence, 0) + 1
    doubts = dict.fromkeys(doubt for keep in plan.kept for doubt in keep.doubt)
    notes = [f"{count:,} skipped by {name}" for name, count in sorted(evidence.items(), key=lambda one: -one[1])]
    notes += [f"in doubt: {doubt}" for doubt in list(doubts)[:5]]
    notes.append(f"the plan read {plan.bytes_fetched:,} bytes of files in {plan.requests:,} requests")
    return Figure(
        query, "Each cell is a file.", Cells([("this plan", [found[path] for path in sorted(found)])]), notes=notes
    )
