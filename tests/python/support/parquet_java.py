"""Write files with Spark, and read filters with its parquet-java, for the tests on Spark."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROWS = 1000
# SQL for each column, computed from `id`. The values of `long` exceed an int, so that py4j passes them to Java as long.
COLUMNS = {
    "long": "id * 1000003 + 1099511627776",
    "int": "CAST(id * 1000003 - 500000000 AS INT)",
    "short": "CAST(id - 500 AS SHORT)",
    "byte": "CAST(id % 200 - 100 AS BYTE)",
    "float": "CAST(id / 8 - 7 AS FLOAT)",
    "double": "CAST(id / 3 - 7 AS DOUBLE)",
    "string": "IF(id % 10 = 0, NULL, concat('ü', id))",
    "binary": "CAST(concat('b', id) AS BINARY)",
    "date": "date_add(DATE '1969-01-01', CAST(id AS INT))",
    "instant": "timestamp_micros(id * 1000003001 - 400000000000)",
    "local": "CAST(timestamp_micros(id * 1000003001 - 400000000000) AS TIMESTAMP_NTZ)",
    "decimal9": "CAST(id / 8 - 50 AS DECIMAL(9, 3))",
    "decimal18": "CAST(id / 8 - 50 AS DECIMAL(18, 3))",
    "decimal38": "CAST(id / 8 - 50 AS DECIMAL(38, 3))",
    "list": "IF(id % 7 = 0, NULL, array(id, -id))",
    "struct": "named_struct('x', id, 'y', concat('s', id))",
    "map": "map(concat('m', id), id)",
    "flag": "id % 2 = 0",
}


def write(spark: Any, folder: Path, settings: dict[str, str], options: dict[str, str]) -> Path:
    """Write one file with all columns and several row groups, and return its path.

    Dictionaries are disabled, because parquet-java writes no filter for a chunk that has a dictionary.
    """
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        rows = spark.range(0, ROWS, 1, 1).selectExpr(*(f"{values} AS {name}" for name, values in COLUMNS.items()))
        options = {"parquet.enable.dictionary": "false", "parquet.block.size": "65536"} | options
        rows.write.options(**options).parquet(str(folder))
    finally:
        for name in settings:
            spark.conf.unset(name)
    [path] = folder.glob("*.parquet")
    return path


def java_filters(spark: Any, path: Path, properties: Any = None) -> Iterator[tuple[int, str, Any]]:
    """Yield the row group, column and `BlockSplitBloomFilter` of each filter, as parquet-java reads it."""
    java = spark._jvm
    parquet = java.org.apache.parquet
    file = parquet.hadoop.util.HadoopInputFile.fromPath(
        java.org.apache.hadoop.fs.Path(str(path)), spark._jsc.hadoopConfiguration()
    )
    options = parquet.ParquetReadOptions.builder()
    if properties is not None:
        options = options.withDecryption(properties)
    reader = parquet.hadoop.ParquetFileReader.open(file, options.build())
    try:
        for number, block in enumerate(reader.getRowGroups()):
            filters = reader.getBloomFilterDataReader(block)
            for chunk in block.getColumns():
                if (filter := filters.readBloomFilter(chunk)) is not None:
                    yield number, chunk.getPath().toDotString(), filter
    finally:
        reader.close()


def java_bits(spark: Any, filter: Any) -> bytes:
    out = spark._jvm.java.io.ByteArrayOutputStream()
    filter.writeTo(out)
    return bytes(out.toByteArray())
