"""The contenders of the bench of rows, and a race between them: interleaved, with the same rows from each."""

from __future__ import annotations

import inspect
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import row_worker
from row_lakes import Layout, Question

import parsieve as ps

ROOT = Path(__file__).resolve().parents[2]
CHECK, PLAN, OURS, LOOKUP = "freshness check", "plan", "to_arrow", "lookup"
# The parts of the freshness check.
FILES, INDEX = "new files", "new index"
POLARS, DUCKDB, ALONE = "to_polars", "to_duckdb", "DuckDB alone"
SCAN, SCAN_ALL = "pyarrow's scan", "pyarrow's scan, no predicate"
EARLIER, OLD, LANCE = "to_arrow, earlier reader", "version 0.1", "Lance + BTREE"
FILTERED, EXACT, EXACT_COLD = "floor: files known, row filter", "floor: exact rows", "floor: exact rows, footers read"
EXACT_TWO, ALL_TWO = "floor: exact rows, two threads", "floor: all rows, two threads"

# Seconds by the part of the work that they were spent on, and the rows: as a table, or their number and sums.
Parts = dict[str, float]
Rows: TypeAlias = pa.Table | tuple[int, list[int]] | None
Contender = Callable[[Question], tuple[Parts, Rows]]


class Worker:
    """A process that replies to each line of JSON with another."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send a request, and return the reply."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the process {self._process.args!r} ended"
        reply: dict[str, Any] = json.loads(line)
        return reply

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def floors(features: str, smoke: bool) -> Worker:
    """Build and start the floors: `benches/rows/main.rs`. They need no features, but cargo may have built some.

    A smoke run uses the dependencies of the Rust tests, which are not optimized.
    """
    chosen = ["--features", features] if features else []
    command = "test" if smoke else "bench"
    return Worker(["cargo", command, "--locked", "--quiet", *chosen, "--bench", "rows", "--", "serve"])


def worker(table: Path, index: Path, columns: Sequence[str] = (), site: Path | None = None) -> Worker:
    """Start a process that answers questions with this parsieve, or with the one in a folder of packages."""
    packages = Path(ps.__file__).parents[1] if site is None else site.resolve()
    process = Worker(
        [sys.executable, "-W", "ignore", str(Path(__file__).with_name("row_worker.py"))],
        {"PYTHONPATH": str(packages)},
    )
    reply = process.ask(table=str(table), index=str(index), columns=list(columns))
    assert Path(reply["from"]).is_relative_to(packages), reply
    return process


class Ours:
    """parsieve with a table that is open and has planned before."""

    def __init__(self, table: ps.Table, connection: duckdb.DuckDBPyConnection, earlier: str | None) -> None:
        """`earlier` is a variable of the environment and its value that select an earlier reader: `NAME=VALUE`."""
        self._table = table
        self._connection = connection
        self._earlier = earlier

    def contenders(self) -> dict[str, Contender]:
        """Return the contenders by name. Each except the lookup makes its own plan."""
        result: dict[str, Contender] = {
            CHECK: self._check,
            OURS: self._reads(lambda plan: plan.to_arrow(**row_worker.arrow_arguments())),
            POLARS: self._reads(lambda plan: plan.to_polars().collect().to_arrow()),
            DUCKDB: self._reads(lambda plan: plan.to_duckdb(self._connection).to_arrow_table()),
        }
        if "reader" in inspect.signature(ps.Plan.to_arrow).parameters:
            result[EARLIER] = self._reads(lambda plan: plan.to_arrow(reader="pyarrow"))
        elif self._earlier is not None:
            result[EARLIER] = self._reads(self._read_as_before)
        return result

    def lookups(self) -> dict[str, Contender]:
        """Return the contender of many keys that needs no plan, if this version has it."""
        return {LOOKUP: self._look_up} if hasattr(self._table, "lookup") else {}

    def _check(self, question: Question) -> tuple[Parts, Rows]:
        start = time.perf_counter()
        self._table.opened.lake.snapshot()
        checked = time.perf_counter()
        self._table.opened.index.refresh()
        return {FILES: checked - start, INDEX: time.perf_counter() - checked}, None

    def _reads(self, read: Callable[[Any], pa.Table]) -> Contender:
        def run(question: Question) -> tuple[Parts, Rows]:
            start = time.perf_counter()
            plan = self._table.plan(question.where)
            planned = time.perf_counter()
            rows = read(plan)
            return {PLAN: planned - start, "rows": time.perf_counter() - planned}, rows

        return run

    def _read_as_before(self, plan: Any) -> pa.Table:
        assert self._earlier is not None
        name, _, value = self._earlier.partition("=")
        os.environ[name] = value
        try:
            return plan.to_arrow()
        finally:
            del os.environ[name]

    def _look_up(self, question: Question) -> tuple[Parts, Rows]:
        table: Any = self._table
        start = time.perf_counter()
        rows = table.lookup("request", pa.array(question.keys)).table
        return {"rows": time.perf_counter() - start}, rows


def duckdb_alone(layout: Layout, connection: duckdb.DuckDBPyConnection) -> Contender:
    """Return DuckDB with a view of the lake."""
    view = f"lake_{layout.rows_of_a_file}"
    connection.execute(f"CREATE OR REPLACE VIEW {view} AS FROM read_parquet('{layout.folder}/*.parquet')")
    return timed(lambda question: connection.sql(f"FROM {view} WHERE {question.where}").to_arrow_table())


def lance_alone(dataset: Any) -> Contender:
    """Return Lance with its own data and indexes."""
    return timed(lambda question: dataset.to_table(filter=question.where))


def pyarrow_scans(layout: Layout) -> dict[str, Contender]:
    """Return pyarrow's scans of everything and of many keys."""

    def expression(question: Question) -> Any:
        return pads.field("request").isin(list(question.keys)) if question.keys else pads.field("user") > 0

    return {SCAN: timed(lambda question: pads.dataset(layout.folder).to_table(filter=expression(question)))}


def pyarrow_everything(layout: Layout) -> dict[str, Contender]:
    """Return pyarrow's scan without a predicate, which only the question about everything may use."""
    return {SCAN_ALL: timed(lambda question: pads.dataset(layout.folder).to_table())}


def old_version(process: Worker) -> Contender:
    """Return another version of parsieve, in a separate process."""

    def run(question: Question) -> tuple[Parts, Rows]:
        reply = process.ask(where=question.where)
        return {PLAN: reply["plan"], "rows": reply["rows"]}, (reply["num_rows"], reply["sums"])

    return run


def floor_contenders(process: Worker, layout: Layout, names: Sequence[str]) -> dict[str, Contender]:
    """Return some of the floors by name."""

    def contender(threads: int, footers: str, rows: str | None) -> Contender:
        def run(question: Question) -> tuple[Parts, Rows]:
            files = layout.all_files() if rows == "all" else layout.known(question.rows)
            reply = process.ask(files=files, rows=rows or question.predicate, threads=threads, footers=footers)
            return {"rows": reply["seconds"]}, (reply["rows"], reply["sums"])

        return run

    ways = {
        FILTERED: contender(1, "held", None),
        EXACT: contender(1, "held", "exact"),
        EXACT_COLD: contender(1, "read", "exact"),
        EXACT_TWO: contender(2, "held", "exact"),
        ALL_TWO: contender(2, "held", "all"),
    }
    return {name: ways[name] for name in names}


def timed(read: Callable[[Question], pa.Table]) -> Contender:
    """Return a contender that reads the rows in one step."""

    def run(question: Question) -> tuple[Parts, Rows]:
        start = time.perf_counter()
        rows = read(question)
        return {"rows": time.perf_counter() - start}, rows

    return run


def race(
    contenders: Mapping[str, Contender], questions: Sequence[Question], schema: pa.Schema, repeats: int
) -> dict[str, Any]:
    """Ask every contender every question, alternately, and return medians in milliseconds by contender and part.

    The first question is asked once more before the clock counts. The order of the contenders rotates. Each question is
    asked `repeats` times, and the time of its fastest answer counts.
    """
    seconds: dict[str, list[Parts]] = {name: [] for name in contenders}
    names = list(contenders)
    for number, question in enumerate([questions[0], *questions]):
        fastest: dict[str, Parts] = {}
        expected: Rows = None
        for turn in range(repeats):
            start = (number + turn) % len(names)
            for name in names[start:] + names[:start]:
                parts, rows = contenders[name](question)
                fastest[name] = min(parts, fastest.get(name, parts), key=lambda parts: sum(parts.values()))
                if rows is not None:
                    expected = _checked(name, question, _normal(rows, schema), expected)
                del rows
        for name, parts in fastest.items() if number else ():
            seconds[name].append(parts)
    return {
        "kind": questions[0].kind,
        "questions": len(questions),
        "repeats": repeats,
        "rows": statistics.fmean(len(question.rows) for question in questions),
        "milliseconds": {
            name: {part: round(statistics.median(parts[part] for parts in all_parts) * 1e3, 4) for part in all_parts[0]}
            for name, all_parts in seconds.items()
        },
    }


def _normal(rows: pa.Table | tuple[int, list[int]], schema: pa.Schema) -> pa.Table | tuple[int, list[int]]:
    """Return rows with the lake's types, in the order of their ids, which are unique."""
    if isinstance(rows, tuple):
        return rows
    table = rows.select(schema.names).cast(schema)
    return table if table.num_rows > 1_000_000 else table.sort_by("request").combine_chunks()


def _checked(name: str, question: Question, rows: Any, expected: Rows) -> Rows:
    """Fail if rows do not answer the question, or differ from the rows of earlier contenders.

    Returns the rows to compare with next: a table, if there is one.
    """
    where = question.where[:80]
    num_rows = rows.num_rows if isinstance(rows, pa.Table) else rows[0]
    assert num_rows == len(question.rows), f"{name}: {num_rows} rows of {len(question.rows)} for {where}"
    if isinstance(rows, pa.Table) and isinstance(expected, pa.Table):
        if rows.num_rows > 1_000_000:
            same = rows.num_rows == expected.num_rows and pc.sum(rows["user"]) == pc.sum(expected["user"])
        else:
            same = rows.equals(expected)
    else:
        same = expected is None or _same_sums(_sums(rows), _sums(expected))
    assert same, f"{name}: other rows for {where}"
    return rows if expected is None or isinstance(rows, pa.Table) else expected


def _sums(rows: Any) -> tuple[int, list[int]]:
    return (rows.num_rows, row_worker.sums(rows)) if isinstance(rows, pa.Table) else rows


def _same_sums(left: tuple[int, list[int]], right: tuple[int, list[int]]) -> bool:
    """Return whether two answers have as many rows and the same sums. Very large tables have no sums."""
    return left[0] == right[0] and (not left[1] or not right[1] or left[1] == right[1])


@contextmanager
def closing(*workers: Worker | None) -> Iterator[None]:
    """Close processes at the end."""
    try:
        yield
    finally:
        for process in workers:
            if process is not None:
                process.close()
