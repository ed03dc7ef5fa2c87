"""Ask an engine the same random query twice: on a table of parsieve, and on the rows of the table in memory."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads

import parsieve as ps
from support import formats, frame_queries, sql_queries

# A query by its seed, on parsieve's table if true, or on the rows in memory. Returns the rows.
Ask = Callable[[str, bool], Any]
INDEXED = ["id", "number", "text"]


def random_table(random_: random.Random, place: Path, format_: str, *, indexed: bool) -> ps.Table:
    """Write a table in a format, with an index or without."""
    table = ps.Table(formats.FORMATS[format_](place, frame_queries.random_files(random_, 8), 10))
    if indexed:
        table.build_index(INDEXED, unit=random_.choice(("file", "row_group")), progress=False)
    return table


def all_rows(table: ps.Table) -> pa.Table:
    """Return the rows of the table in its order."""
    return table.plan().to_arrow(frame_queries.SCHEMA.names)


def ask_duckdb(table: ps.Table) -> Ask:
    """Query DuckDB, with a table in DuckDB as the oracle."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    names = ", ".join(frame_queries.SCHEMA.names)
    connection.register("dataset", table.dataset())
    connection.register("memory", all_rows(table))
    connection.execute(f"CREATE VIEW ours AS SELECT {names} FROM dataset; CREATE TABLE own AS FROM memory")

    def ask(seed: str, ours: bool) -> Any:
        query = sql_queries.random_query(random.Random(seed), "ours" if ours else "own")
        return repr(connection.sql(query).to_arrow_table().to_pylist())

    return ask


def ask_datafusion(table: ps.Table) -> Ask:
    """Ask DataFusion, with a dataset of pyarrow as the oracle: NaN has no order in datasets."""
    context = datafusion.SessionContext()
    context.register_dataset("ours", table.dataset())
    context.register_dataset("own", pads.dataset(all_rows(table)))

    def ask(seed: str, ours: bool) -> Any:
        batches = context.sql(sql_queries.random_query(random.Random(seed), "ours" if ours else "own")).collect()
        return repr(pa.Table.from_batches(batches).to_pylist()) if batches else "[]"

    return ask


def ask_polars(frame: pl.LazyFrame, memory: pl.LazyFrame) -> Ask:
    """Ask Polars, with rows in memory as the oracle."""
    names = frame_queries.SCHEMA.names

    def ask(seed: str, ours: bool) -> Any:
        random_ = random.Random(seed)
        query, engine = frame_queries.random_query(random_), random_.choice(("in-memory", "streaming"))
        rows = query(frame.select(names) if ours else memory).collect(engine=engine)  # type: ignore[call-overload]
        return rows.schema, repr(rows.rows())

    return ask


def ask_pyarrow(table: ps.Table) -> Ask:
    """Ask pyarrow, with a dataset in memory as the oracle."""
    names = frame_queries.SCHEMA.names
    datasets = {True: table.dataset(), False: pads.dataset(all_rows(table))}

    def ask(seed: str, ours: bool) -> Any:
        random_ = random.Random(seed)
        condition = frame_queries.random_expression(random_)
        columns = random_.choice((names, random_.sample(names, 2), []))
        if not columns:
            return datasets[ours].count_rows(filter=condition)
        return repr(datasets[ours].to_table(columns=columns, filter=condition).to_pylist())

    return ask


ENGINES: dict[str, Callable[[ps.Table], Ask]] = {
    "duckdb": ask_duckdb,
    "datafusion": ask_datafusion,
    "polars": lambda table: ask_polars(ps.scan_polars(table), pl.DataFrame(pl.from_arrow(all_rows(table))).lazy()),
    # Polars passes conditions on to datasets, in which NaN has no order. So the oracle is a dataset, too.
    "polars dataset": lambda table: ask_polars(
        pl.scan_pyarrow_dataset(table.dataset()), pl.scan_pyarrow_dataset(pads.dataset(all_rows(table)))
    ),
    "pyarrow": ask_pyarrow,
}


def differences(engine: str, table: ps.Table, seed: str, count: int) -> list[str]:
    """Ask some queries, and return those with other rows."""
    ask = ENGINES[engine](table)
    different = []
    for number in range(count):
        query = f"{seed} {number}"
        actual, expected = _answer(ask, query, True), _answer(ask, query, False)
        # DataFusion fails if a dataset of pyarrow has no fragment for a filter. Then there is nothing to compare with.
        if actual != expected and not isinstance(expected, Exception):
            different.append(f"{engine}, query {query!r}: {actual} instead of {expected}")
    return different


def _answer(ask: Ask, seed: str, ours: bool) -> Any:
    try:
        return ask(seed, ours)
    except Exception as error:
        # DataFusion raises plain exceptions.
        return error
