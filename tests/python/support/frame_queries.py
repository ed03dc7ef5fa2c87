"""Random Polars queries, with filters that parsieve understands and filters that it does not."""

from __future__ import annotations

import datetime as dt
import functools
import math
import operator
import random
from collections.abc import Callable
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

ROWS = 40
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("number", pa.int32()),
        pa.field("real", pa.float64()),
        pa.field("text", pa.string()),
        pa.field("flag", pa.bool_()),
        pa.field("time", pa.timestamp("us", "UTC")),
        pa.field("day", pa.date32()),
    ]
)
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
REALS = [math.nan, -0.0, 0.0, 1.5, -7.25, math.inf, 9999999.979999999]
TEXTS = ["", "a", "ab", "abc", "b", "ä", "%", "a_b"]


def random_files(random_: random.Random, count: int) -> list[pa.Table]:
    """Return the files of a table. Each has a narrow range of ids, and other values from short lists."""
    return [_file(random_, number) for number in range(count)]


def _file(random_: random.Random, number: int) -> pa.Table:
    def column(draw: Callable[[], Any]) -> list[Any]:
        return [None if random_.random() < 0.1 else draw() for _ in range(ROWS)]

    columns = {
        "id": list(range(number * ROWS, (number + 1) * ROWS)),
        "number": column(lambda: random_.randrange(-5, 5)),
        "real": column(lambda: random_.choice(REALS)),
        "text": column(lambda: random_.choice(TEXTS)),
        "flag": column(lambda: random_.random() < 0.5),
        "time": column(lambda: START + dt.timedelta(minutes=random_.randrange(1000))),
        "day": column(lambda: dt.date(2026, 1, 1) + dt.timedelta(days=random_.randrange(40))),
    }
    return pa.table(columns, SCHEMA)


def random_filter(random_: random.Random, depth: int = 2) -> pl.Expr:
    """Return a condition."""
    if depth and random_.random() < 0.6:
        parts = [random_filter(random_, depth - 1) for _ in range(random_.choice((2, 2, 3)))]
        combined = functools.reduce(random_.choice((operator.and_, operator.or_)), parts)
        return ~combined if random_.random() < 0.3 else combined
    return random_.choice(_LEAVES)(random_)


_COMPARE = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
_LEAVES: list[Callable[[random.Random], pl.Expr]] = [
    lambda r: r.choice(_COMPARE)(pl.col("id"), r.randrange(400)),
    lambda r: pl.col("id").is_in(sorted(r.sample(range(400), r.randrange(1, 5)))),
    lambda r: pl.col("id").is_between(r.randrange(200), r.randrange(400), closed=r.choice(("both", "left", "none"))),
    lambda r: r.choice(_COMPARE)(pl.col("number"), r.randrange(-6, 6)),
    lambda r: pl.col("number").is_in([1, None]),
    lambda r: r.choice(_COMPARE)(pl.col("real"), r.choice(REALS)),
    lambda r: pl.col("real").is_nan(),
    lambda r: r.choice(_COMPARE)(pl.col("text"), r.choice(TEXTS)),
    lambda r: pl.col("text").str.starts_with(r.choice(("a", "ab", ""))),
    lambda r: pl.col("flag"),
    lambda r: pl.col(r.choice(SCHEMA.names)).is_null(),
    lambda r: r.choice(_COMPARE)(pl.col("time"), START + dt.timedelta(minutes=r.randrange(1000))),
    lambda r: r.choice(_COMPARE)(pl.col("day"), dt.date(2026, 1, r.randrange(1, 31))),
    lambda r: pl.col("text").eq_missing(r.choice([*TEXTS, None])),
    # parsieve does not understand the others.
    lambda r: pl.col("number") + pl.col("id") > r.randrange(400),
    lambda r: pl.col("text").str.contains("b"),
    lambda r: pl.col("text").str.len_chars() > r.randrange(4),
    lambda r: pl.col("time").dt.hour() == r.randrange(24),
    lambda r: pl.col("id") % 7 == r.randrange(7),
]

Query = Callable[[pl.LazyFrame], pl.LazyFrame]


def random_query(random_: random.Random) -> Query:
    """Return a query. Its rows have one order only."""
    condition, other = random_filter(random_), random_filter(random_, 1)
    columns = random_.sample(SCHEMA.names, random_.randrange(1, len(SCHEMA.names)))
    size, start = random_.randrange(1, 60), random_.randrange(100)
    queries: list[Query] = [
        lambda frame: frame.filter(condition),
        lambda frame: frame.filter(condition).select(columns),
        lambda frame: frame.select(columns),
        lambda frame: frame.filter(condition).head(size),
        lambda frame: frame.head(size).filter(condition),
        lambda frame: frame.filter(condition).slice(start, size),
        lambda frame: frame.filter(condition).tail(size),
        lambda frame: frame.filter(condition).select(pl.len()),
        lambda frame: frame.with_row_index().filter(condition).select("index", *columns),
        lambda frame: frame.filter(condition).filter(other).select(*columns[::-1]),
        lambda frame: frame.filter(condition).sort("id", descending=True).head(size),
        lambda frame: frame.filter(condition).group_by("text").agg(pl.col("id").sum(), pl.len()).sort("text"),
        lambda frame: frame.filter(condition).join(frame.filter(other).select("id"), on="id").sort("id"),
        lambda frame: frame.filter(condition).join(frame.select("id", "number"), on="id", how="left").sort("id"),
        lambda frame: pl.concat([frame.filter(condition), frame.filter(other)]).sort("id", maintain_order=True),
        lambda frame: frame.filter(condition).with_columns(next=pl.col("id") + 1).filter(pl.col("next") > start),
        lambda frame: frame.filter(pl.col("id") == pl.col("id").max()),
    ]
    return random_.choice(queries)


_ARROW_LEAVES: list[Callable[[random.Random], pc.Expression]] = [
    lambda r: r.choice(_COMPARE)(pc.field("id"), r.randrange(400)),
    lambda r: pc.field("id").isin(r.sample(range(400), r.randrange(1, 5))),
    lambda r: r.choice(_COMPARE)(pc.field("number"), r.randrange(-6, 6)),
    lambda r: pc.field("number").isin([1, None]),
    lambda r: r.choice(_COMPARE)(pc.field("real"), r.choice(REALS)),
    lambda r: pc.field("real").is_null(nan_is_null=r.random() < 0.5),
    lambda r: pc.is_nan(pc.field("real")),
    lambda r: r.choice(_COMPARE)(pc.field("text"), r.choice(TEXTS)),
    lambda r: pc.starts_with(pc.field("text"), r.choice(("a", "ab", ""))),
    lambda r: pc.field("flag"),
    lambda r: pc.field(r.choice(SCHEMA.names)).is_valid(),
    lambda r: r.choice(_COMPARE)(pc.field("time"), START + dt.timedelta(minutes=r.randrange(1000))),
    lambda r: r.choice(_COMPARE)(pc.field("day"), dt.date(2026, 1, r.randrange(1, 31))),
    # DuckDB writes IN so.
    lambda r: pc.if_else(pc.field("number").is_valid(), pc.field("number").isin([-1, 3]), pa.scalar(None, pa.bool_())),
    # parsieve does not understand the others.
    lambda r: pc.field("number") + pc.field("id") > r.randrange(400),
    lambda r: pc.match_substring(pc.field("text"), "b"),
    lambda r: pc.if_else(pc.field("flag"), pc.field("id") < 90, pc.field("id") > 200),
]


def random_expression(random_: random.Random, depth: int = 2) -> pc.Expression:
    """Return a condition in pyarrow's language."""
    if depth and random_.random() < 0.6:
        parts = [random_expression(random_, depth - 1) for _ in range(random_.choice((2, 2, 3)))]
        combined = functools.reduce(random_.choice((operator.and_, operator.or_)), parts)
        return ~combined if random_.random() < 0.3 else combined
    return random_.choice(_ARROW_LEAVES)(random_)
