"""Write random Parquet files with Spark, for `row_differences.py --files`.

`.venv-spark/bin/python tests/python/support/programs/spark_files.py FOLDER --count 200 --seed 1` writes files of all
types and codecs, with pages of both versions, of many sizes, and with and without dictionaries and statistics.
"""

from __future__ import annotations

import argparse
import random
import shutil
from pathlib import Path
from typing import Any

# SQL for a value of each type, computed from the number {n}.
TYPES = {
    "byte": "CAST({n} % 256 - 128 AS BYTE)",
    "short": "CAST({n} % 65536 - 32768 AS SHORT)",
    "int": "CAST({n} * 1000003 % 4294967296 - 2147483648 AS INT)",
    "long": "{n} * 1152921504606846 - 2305843009213693952",
    "float": "CASE {n} % 17 WHEN 0 THEN float('NaN') WHEN 1 THEN float('-0.0') ELSE CAST({n} / 8 - 7 AS FLOAT) END",
    "double": "CASE {n} % 17 WHEN 0 THEN double('NaN') WHEN 1 THEN double('-0.0') ELSE double({n}) / 3 - 7 END",
    "string": "repeat(concat('ü', {n}), CAST({n} % 5 AS INT))",
    "binary": "unhex(sha1(CAST({n} AS STRING)))",
    "flag": "{n} % 3 = 0",
    "date": "date_add(DATE '1960-01-01', CAST({n} AS INT))",
    "instant": "timestamp_micros({n} * 1000003001 - 400000000000)",
    "local": "CAST(timestamp_micros({n} * 1000003001 - 400000000000) AS TIMESTAMP_NTZ)",
    "decimal9": "CAST({n} / 8 - 50 AS DECIMAL(9, 3))",
    "decimal18": "CAST({n} / 8 - 50 AS DECIMAL(18, 3))",
    "decimal38": "CAST({n} / 8 - 50 AS DECIMAL(38, 10))",
    "list": "transform(slice(array(1, 2, 3), 1, CAST({n} % 4 AS INT)), x -> IF(x = 2, NULL, x * {n}))",
    "struct": "named_struct('x', {n}, 'y', IF({n} % 5 = 0, NULL, concat('s', {n})))",
    "map": "map(concat('m', {n}), IF({n} % 3 = 0, NULL, {n}))",
    "structs": "array(named_struct('x', CAST({n} AS INT), 'y', array({n}, NULL)), NULL)",
    "deep": "named_struct('x', named_struct('y', IF({n} % 4 = 0, NULL, array(CAST({n} AS DECIMAL(12, 2))))))",
    "nothing": "CAST(NULL AS INT)",
}
ROWS = (0, 1, 20, 300, 1000, 3000, 3000)
NULLS = ("false", "false", "id % 10 = 0", "id % 10 > 0", "id > 100")


def column(random_: random.Random, number: int) -> str:
    """Return SQL for a column of a random type, which may have nulls, few distinct values and runs."""
    order = random_.choice(("id", "id * 7919", "id div 9"))
    value = random_.choice(list(TYPES.values())).format(n=f"({order} % {random_.choice((1, 2, 20, 300, 4000))})")
    return f"IF({random_.choice(NULLS)}, NULL, {value}) AS c{number}"


def settings(random_: random.Random) -> dict[str, str]:
    """Return random settings of Spark's session."""
    return {
        "spark.sql.parquet.outputTimestampType": random_.choice(("INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS")),
        "spark.sql.parquet.writeLegacyFormat": random_.choice(("false", "false", "true")),
    }


def options(random_: random.Random) -> dict[str, Any]:
    """Return random options of parquet-java."""
    return {
        "compression": random_.choice(("snappy", "gzip", "zstd", "uncompressed", "lz4raw")),
        "parquet.writer.version": random_.choice(("v1", "v2")),
        "parquet.enable.dictionary": random_.choice(("true", "false")),
        "parquet.dictionary.page.size": random_.choice((100, 1000, 1 << 20)),
        "parquet.block.size": random_.choice((5000, 40_000, 1 << 27)),
        "parquet.block.size.row.check.min": random_.choice((10, 100)),
        "parquet.page.size": random_.choice((100, 2000, 1 << 20)),
        "parquet.page.size.row.check.min": random_.choice((1, 10, 100)),
        "parquet.page.row.count.limit": random_.choice((1, 10, 300, 20_000)),
        "parquet.page.write-checksum.enabled": random_.choice(("true", "false")),
        "parquet.bloom.filter.enabled": random_.choice(("true", "false")),
        # The default is 1 MiB for each column and row group.
        "parquet.bloom.filter.max.bytes": 1024,
    }


def write(spark: Any, random_: random.Random, path: Path) -> None:
    """Write one file."""
    for name, value in settings(random_).items():
        spark.conf.set(name, value)
    columns = [column(random_, number) for number in range(random_.randrange(1, 7))]
    rows = spark.range(0, random_.choice(ROWS), 1, 1).selectExpr(*columns)
    folder = path.with_suffix("")
    rows.write.options(**options(random_)).parquet(str(folder))
    for part in folder.glob("*.parquet"):
        part.rename(path)
    shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.session.timeZone", "UTC").config("spark.log.level", "ERROR").getOrCreate()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for number in range(arguments.count):
        random_ = random.Random(f"{arguments.seed}/{number}")
        write(spark, random_, arguments.folder / f"{arguments.seed}-{number}.parquet")
    spark.stop()


if __name__ == "__main__":
    main()
