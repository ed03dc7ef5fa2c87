"""Compares `spark.read.format("parsieve")` with `pss.read`, in one PySpark 4.1 session. See `benches/README.md`.

    make develop .venv-spark4/stamp-spark4
    PYTHONPATH=python .venv-spark4/bin/python benches/spark/source.py --rows 4000000

Both run alternately and return the same rows. Each time includes the whole query, with `load` or `read`.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import parsieve as ps
import parsieve.spark as pss


def main() -> None:
    """Write a table, query it both ways, and print the seconds and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        hidden = {"spark.ui.showConsoleProgress": False}
        spark = pss.session(master="local[2]", memory="1g", lakes=[], warehouse=f"{folder}/warehouse", config=hidden)
        pss.register(spark)
        table = f"{folder}/t"
        columns = [
            "id",
            f"(id * 2654435761) % {options.rows} AS k",
            "concat('name ', id % 1000) AS name",
            "id / 2 AS x",
        ]
        spark.range(0, options.rows, 1, 16).selectExpr(*columns).write.parquet(table)
        # A file that was just written has no token yet, and an index would not cover it.
        time.sleep(0.1)
        ps.open_table(table).build_index("k", kind="sieve", progress=False)
        for name, condition, loaded_columns, select in [
            ("all columns", None, None, ["sum(k)", "max(name)", "sum(x)", "sum(id)"]),
            ("one column", None, "k BIGINT", ["sum(k)"]),
            ("a point", "k = 77", None, ["*"]),
        ]:
            pair = _read(spark, table, condition, select), _load(spark, table, condition, loaded_columns, select)
            _compare(name, pair, options.rounds)
        spark.stop()


def _read(spark: Any, table: str, where: str | None, select: list[str]) -> Callable[[], list[Any]]:
    return lambda: pss.read(spark, table, where).selectExpr(*select).collect()


def _load(spark: Any, table: str, where: str | None, columns: str | None, select: list[str]) -> Callable[[], list[Any]]:
    def load() -> list[Any]:
        reader = spark.read.format("parsieve")
        reader = reader if where is None else reader.option("where", where)
        reader = reader if columns is None else reader.schema(columns)
        return list(reader.load(table).selectExpr(*select).collect())

    return load


def _compare(name: str, pair: tuple[Callable[[], list[Any]], Callable[[], list[Any]]], rounds: int) -> None:
    read, load = pair
    # The first run of each warms up Java.
    assert sorted(map(str, read())) == sorted(map(str, load()))
    seconds: list[tuple[float, float]] = []
    for _ in range(rounds):
        start = time.perf_counter()
        read()
        middle = time.perf_counter()
        load()
        seconds.append((middle - start, time.perf_counter() - middle))
    ratios = [theirs / ours for ours, theirs in seconds]
    medians = [statistics.median(times) for times in zip(*seconds, strict=True)]
    print(
        f"{name}: read {medians[0]:.2f} s, format {medians[1]:.2f} s, ratio {statistics.median(ratios):.2f} "
        f"({min(ratios):.2f} to {max(ratios):.2f})"
    )


if __name__ == "__main__":
    main()
