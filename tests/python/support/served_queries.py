"""Ask pyiceberg and Spark the same random conditions twice: on a table of the server, and on all rows of the table."""

from __future__ import annotations

import math
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg import expressions
from pyiceberg.expressions.visitors import bind
from pyiceberg.io.pyarrow import expression_to_pyarrow
from pyiceberg.transforms import BucketTransform, IdentityTransform, TruncateTransform

import parsieve as ps
from parsieve.server.app import local_app
from parsieve.server.settings import Limits
from parsieve.server.sql_catalog import LocalCatalog
from support import frame_queries, serving, sql_queries

# The types of pyiceberg do not describe positional arguments.
ie: Any = expressions
_FILES = 8
_INDEXED = ["id", "number", "text"]
# pyiceberg's REST client refuses partitions of null, so it writes partitions of a column without nulls.
_TRANSFORMS: list[Any] = [BucketTransform(3), TruncateTransform(50), IdentityTransform()]
_SPARK_PARTITIONS = [
    "bucket(3, id)",
    "truncate(50, id)",
    "text",
    "truncate(1, text)",
    "days(day)",
    "flag",
    "hours(time)",
]


@contextmanager
def pyiceberg_table(random_: random.Random, folder: Path) -> Iterator[Callable[[str, int], list[str]]]:
    """Write a random table with pyiceberg and serve it. Yield a function that returns the differences of a seed."""
    catalog = serving.sql_catalog(folder)
    table = catalog.create_table("shop.t", schema=frame_queries.SCHEMA)
    files = frame_queries.random_files(random_, _FILES)
    # Some files have a wide range of ids, so that statistics cannot exclude them.
    if random_.random() < 0.5:
        files = _interleaved(files)
    covered = random_.choice((0, _FILES - 2, _FILES))
    for number, rows in enumerate(files):
        if number and random_.random() < 0.15:
            _change_partitions(random_, table)
        table.append(rows)
        if number + 1 == covered:
            _build_index(random_, catalog.load_table("shop.t"))
        if random_.random() < 0.3:
            table.delete(ie.In("id", set(random_.sample(range(_FILES * frame_queries.ROWS), 9))))
    rows = table.scan().to_arrow()
    limits = Limits(page_size=random_.choice((1, 3, 2000)))
    with serving.running(local_app(LocalCatalog(catalog), limits)) as uri:
        served = serving.client(uri).load_table("shop.t")

        def differences(seed: str, count: int) -> list[str]:
            different = []
            for number in range(count):
                condition = _condition(random.Random(f"{seed} {number}"))
                actual = _ids(served.scan(condition).to_arrow())
                expected = _ids(rows.filter(expression_to_pyarrow(bind(table.schema(), condition, True))))
                if actual != expected:
                    alone = _ids(catalog.load_table("shop.t").scan(condition).to_arrow())
                    different += _difference(f"{seed} {number}: {condition}", actual, expected, alone)
            return different

        yield differences
    catalog.close()


def _difference(query: str, actual: list[str], expected: list[str], alone: list[str]) -> list[str]:
    """Return the difference between the rows of a query and the expected rows as a text, if there is one.

    Readers of Iceberg lose rows of their own: by the statistics of row groups, pyarrow loses NaN, and Java loses zeros
    with the other sign. So the rows that the engine finds without the server suffice. So does the same error.
    """
    if actual == alone or set(alone) <= set(actual) <= set(expected):
        return []
    return [f"{query}: {actual} instead of {expected}; without the server {alone}"]


def _interleaved(files: list[pa.Table]) -> list[pa.Table]:
    rows = pa.concat_tables(files)
    return [rows.take(list(range(start, len(rows), len(files)))) for start in range(len(files))]


def _change_partitions(random_: random.Random, table: Any) -> None:
    with table.update_spec() as update:
        for field in table.spec().fields:
            update.remove_field(field.name)
        if random_.random() < 0.8:
            # Identity writes a file for each id.
            transform = random_.choices(_TRANSFORMS, (10, 10, 1))[0]
            update.add_field("id", transform, f"part_{len(table.specs())}")


def _build_index(random_: random.Random, table: Any) -> None:
    columns = random_.sample(_INDEXED, random_.randrange(1, 4))
    ps.open_table(table).build_index(columns, unit=random_.choice(("file", "row_group")), progress=False)


def _ids(rows: pa.Table) -> list[str]:
    return sorted(map(repr, rows.to_pylist()))


def _condition(random_: random.Random, depth: int = 2) -> expressions.BooleanExpression:
    if depth and random_.random() < 0.6:
        left, right = (_condition(random_, depth - 1) for _ in range(2))
        conditions: list[expressions.BooleanExpression] = [ie.And(left, right), ie.Or(left, right), ie.Not(left)]
        return random_.choice(conditions)
    return random_.choice(_LEAVES)(random_)


_COMPARE = [
    ie.EqualTo,
    ie.NotEqualTo,
    ie.LessThan,
    ie.LessThanOrEqual,
    ie.GreaterThan,
    ie.GreaterThanOrEqual,
]
# pyiceberg reads NaN as IsNaN, and writes infinity as null, which the server refuses.
_REALS = [value for value in frame_queries.REALS if math.isfinite(value)]
_TEXTS = frame_queries.TEXTS
_LEAVES: list[Callable[[random.Random], expressions.BooleanExpression]] = [
    lambda r: r.choice(_COMPARE)("id", r.randrange(400)),
    lambda r: r.choice((ie.In, ie.NotIn))("id", {r.randrange(400) for _ in range(r.randrange(1, 6))}),
    lambda r: r.choice(_COMPARE)("number", r.randrange(-6, 6)),
    lambda r: r.choice((ie.In, ie.NotIn))("number", {-3, 4}),
    lambda r: r.choice(_COMPARE)("real", r.choice(_REALS)),
    lambda r: r.choice((ie.In, ie.NotIn))("real", set(r.sample(_REALS, 2))),
    lambda r: r.choice((ie.IsNaN, ie.NotNaN))("real"),
    lambda r: r.choice(_COMPARE)("text", r.choice(_TEXTS)),
    lambda r: r.choice((ie.In, ie.NotIn))("text", set(r.sample(_TEXTS, 3))),
    lambda r: r.choice((ie.StartsWith, ie.NotStartsWith))("text", r.choice(_TEXTS)),
    lambda r: r.choice((ie.EqualTo, ie.NotEqualTo))("flag", r.random() < 0.5),
    lambda r: r.choice((ie.IsNull, ie.NotNull))(r.choice(frame_queries.SCHEMA.names)),
    lambda r: r.choice(_COMPARE)("time", f"2026-01-01T{r.randrange(17):02}:{r.randrange(60):02}:00+00:00"),
    lambda r: r.choice(_COMPARE)("day", f"2026-01-{r.randrange(1, 31):02}"),
]


@contextmanager
def spark_table(spark: Any, random_: random.Random, folder: Path) -> Iterator[Callable[[str, int], list[str]]]:
    """Write a random table with Spark and serve it. Yield a function that returns the differences of a seed."""
    files = frame_queries.random_files(random_, _FILES)
    files = _interleaved(files) if random_.random() < 0.5 else files
    name = f"iceberg.shop.t{random_.randrange(1 << 60)}"
    partition = f"PARTITIONED BY ({random_.choice(_SPARK_PARTITIONS)})" if random_.random() < 0.4 else ""
    columns = "id BIGINT, number INT, real DOUBLE, text STRING, flag BOOLEAN, time TIMESTAMP, day DATE"
    spark.sql(
        f"CREATE TABLE {name} ({columns}) USING iceberg {partition} TBLPROPERTIES ('write.delete.mode' = "
        f"'merge-on-read', 'format-version' = '{random_.choice((2, 3))}', 'write.distribution-mode' = 'none', "
        f"'read.split.open-file-cost' = '1')"
    )
    catalog = serving.sql_catalog(folder)
    covered = random_.choice((0, _FILES - 2, _FILES))
    for number, rows in enumerate(files):
        pq.write_table(rows, folder / f"{number}.parquet")
        frame = spark.read.parquet(f"{folder}/{number}.parquet")
        if random_.random() < 0.3:
            spark.sql(f"DELETE FROM {name} WHERE id % {random_.randrange(5, 30)} = {random_.randrange(5)}")
        frame.coalesce(1).writeTo(name).append()
        if number + 1 == covered:
            catalog.register_table("shop.first", _metadata(spark, name))
            _build_index(random_, catalog.load_table("shop.first"))
    catalog.register_table("shop.t", _metadata(spark, name))
    memory = spark.table(name).coalesce(1).cache()
    memory.createOrReplaceTempView("memory")
    memory.count()
    served = f"c{random_.randrange(1 << 60)}"
    limits = Limits(page_size=random_.choice((1, 3, 2000)))
    with serving.running(local_app(LocalCatalog(catalog), limits)) as uri:
        spark.conf.set(f"spark.sql.catalog.{served}", "org.apache.iceberg.spark.SparkCatalog")
        spark.conf.set(f"spark.sql.catalog.{served}.type", "rest")
        spark.conf.set(f"spark.sql.catalog.{served}.uri", uri)

        def differences(seed: str, count: int) -> list[str]:
            conditions = {
                f"{seed} {number}": _spark_condition(random.Random(f"{seed} {number}")) for number in range(count)
            }
            actual, expected = (_spark_rows(spark, t, conditions) for t in (f"{served}.shop.t", "memory"))
            suspects = {
                query: condition
                for query, condition in conditions.items()
                if sorted(actual[query]) != sorted(expected[query])
            }
            alone = _spark_rows(spark, name, suspects)
            return [
                text
                for query, condition in suspects.items()
                for text in _difference(f"{query}: {condition}", actual[query], expected[query], alone[query])
            ]

        yield differences
    memory.unpersist()
    spark.sql(f"DROP TABLE {name}")
    catalog.close()


def _metadata(spark: Any, name: str) -> str:
    rows: Iterable[Any] = spark.sql(f"SELECT file FROM {name}.metadata_log_entries ORDER BY timestamp").collect()
    return str(list(rows)[-1].file)


def _spark_condition(random_: random.Random) -> str:
    # The server refuses infinite numbers, which Iceberg's JSON does not have.
    condition = sql_queries.random_condition(random_).replace("CAST('Infinity' AS DOUBLE)", "1e200")
    return condition.replace("TIMESTAMPTZ", "TIMESTAMP")


def _spark_rows(spark: Any, table: str, conditions: dict[str, str]) -> dict[str, list[str]]:
    """Return the rows of each condition, by its name. A query of Spark has many conditions."""
    rows: dict[str, list[str]] = defaultdict(list)
    names = list(conditions)
    for start in range(0, len(names), 50):
        # Without a name for the table, Spark takes WHERE (flag) for the names of a table and of its columns.
        queries = (
            f"SELECT '{name}' AS name, t.* FROM {table} AS t WHERE {conditions[name]}"
            for name in names[start : start + 50]
        )
        try:
            answers = spark.sql(" UNION ALL ".join(queries)).collect()
        except Exception:
            # Iceberg fails if a text in a partition of null is compared with a prefix. Find the conditions.
            answers = []
            for name in names[start : start + 50]:
                rows[name] = _rows_or_error(spark, table, conditions[name], name)
        for row in answers:
            rows[row.name].append(repr(row))
    return rows


def _rows_or_error(spark: Any, table: str, condition: str, name: str) -> list[str]:
    try:
        return [
            repr(row)
            for row in spark.sql(f"SELECT '{name}' AS name, t.* FROM {table} AS t WHERE {condition}").collect()
        ]
    except Exception as error:
        kind = re.search(r"java[a-zA-Z.]*(Error|Exception)", str(error))
        return [type(error).__name__ if kind is None else kind[0]]
