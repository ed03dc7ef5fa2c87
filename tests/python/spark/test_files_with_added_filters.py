"""Files with added filters have the same rows in every reader, and let Spark and DuckDB skip row groups."""

import math
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.parquet_java import java_bits, java_filters, write

import parsieve as ps

pytestmark = pytest.mark.spark

GROUPS, ROWS = 4, 2000
# Every row group has values from the whole interval, so that only a filter can exclude it.
KEYS = {number: [GROUPS * row + number for row in range(ROWS)] for number in range(GROUPS)}


def interleaved(path: Path, **options: Any) -> Path:
    keys = [key for number in range(GROUPS) for key in KEYS[number]]
    columns = {
        "k": pa.array(keys, pa.int64()),
        "s": pa.array([f"key {key:06}" for key in keys]),
        "d": pa.array([key * 1000 for key in keys], pa.decimal128(12, 2)),
        "t": pa.array([key * 1_000_003 for key in keys], pa.timestamp("us", "UTC")),
        "load": pa.array([f"load of {key}" for key in keys]),
    }
    pq.write_table(pa.table(columns), path, row_group_size=ROWS, use_dictionary=False, **options)
    return path


def spoil(path: Path, row_groups: set[int]) -> None:
    """Overwrite the pages of whole row groups. A reader of one of them fails, or returns wrong rows."""
    metadata = pq.read_metadata(path)
    with path.open("r+b") as file:
        for number in row_groups:
            for column in range(metadata.num_columns):
                chunk = metadata.row_group(number).column(column)
                file.seek(chunk.data_page_offset)
                file.write(b"\xff" * chunk.total_compressed_size)


def test_every_reader_sees_the_same_rows_and_schema(spark: Any, tmp_path: Path) -> None:
    """Spark wrote the file, with a checksum file, and with columns of all types, including nested ones."""
    path = write(spark, tmp_path / "t", {}, {})
    checksum = path.with_name(f".{path.name}.crc")
    assert checksum.exists()

    def everywhere() -> list[Any]:
        in_spark = spark.read.parquet(str(path))
        with duckdb.connect() as connection:
            in_duckdb = connection.sql(f"FROM read_parquet('{path}')").to_arrow_table()
        in_polars = pl.read_parquet(path)
        return [pq.read_table(path), in_duckdb, in_polars, in_polars.schema, in_spark.schema, in_spark.collect()]

    before = everywhere()
    report = ps.add_filters(path, columns=["long", "string", "decimal38", "instant", "list.list.element", "struct.y"])
    assert len(report.added) == 6 * len(pq.read_metadata(path).to_dict()["row_groups"])
    assert not checksum.exists(), "Hadoop refuses a file whose checksum is stale"
    after = everywhere()
    for old, new in zip(before, after, strict=True):
        assert old.equals(new) if hasattr(old, "equals") else old == new
    assert len(after[-1]) == 1000
    ps.drop_filters(path)
    assert everywhere()[0].equals(before[0])


def test_spark_refuses_a_stale_checksum_file(spark: Any, tmp_path: Path) -> None:
    """This is why parsieve removes the checksum file: if it is restored, Spark fails."""
    path = write(spark, tmp_path / "t", {}, {})
    checksum = path.with_name(f".{path.name}.crc")
    stale = checksum.read_bytes()
    ps.add_filters(path, columns="long")
    assert spark.read.parquet(str(path)).where("long > 0").count() == 1000
    checksum.write_bytes(stale)
    with pytest.raises(Exception, match=r"[Cc]hecksum"):
        spark.read.parquet(str(path)).selectExpr("sum(long)").collect()


# SQL conditions for the key 4 n + 2, which is only in row group 2. Spark pushes each of them to parquet-java.
CONDITIONS = {
    "k": "k = {key}",
    "s": "s = 'key {key:06}'",
    "k in": "k IN ({key}, {key})",
}


def keyed(name: str) -> tuple[int, str]:
    """Return a key of row group 2 that the filters of all other row groups exclude."""
    return 4 * 1234 + 2, CONDITIONS[name].format(key=4 * 1234 + 2)


@pytest.mark.parametrize("name", CONDITIONS)
def test_spark_skips_row_groups_by_added_filters(spark: Any, tmp_path: Path, name: str) -> None:
    path = interleaved(tmp_path / "t.parquet")
    ps.add_filters(path, columns=["k", "s"], fpp=0.0001)
    key, condition = keyed(name)
    spoil(path, {0, 1, 3})
    assert [row.load for row in spark.read.parquet(str(path)).where(condition).collect()] == [f"load of {key}"]
    ps.drop_filters(path)
    with pytest.raises(Exception, match=r"(?i)parquet|decode|corrupt|snappy|malformed"):
        spark.read.parquet(str(path)).where(condition).collect()


def test_spark_finds_equal_numbers_with_other_bytes(spark: Any, tmp_path: Path) -> None:
    """Spark looks up only the bytes of the literal: not those of the other zero, nor those of other NaNs."""
    path = tmp_path / "t.parquet"
    reals = [-0.0, -math.nan, *map(float, range(2, 500))]
    columns = {"d": pa.array(reals), "f": pa.array(reals, pa.float32()), "s": [{"x": real} for real in reals]}
    pq.write_table(pa.table(columns), path, use_dictionary=False, write_statistics=False)
    ps.add_filters(path, columns=["d", "f", "s.x"], fpp=0.0001)
    frame = spark.read.parquet(str(path))
    for column in ("d", "f", "s.x"):
        for literal in ("0", "-0", "'NaN'", "2"):
            found = frame.where(f"{column} = CAST({literal} AS {'FLOAT' if column == 'f' else 'DOUBLE'})")
            assert found.count() == 1, (column, literal)


@pytest.mark.parametrize("name", ["k", "s"])
def test_duckdb_skips_row_groups_by_added_filters(tmp_path: Path, name: str) -> None:
    path = interleaved(tmp_path / "t.parquet")
    ps.add_filters(path, columns=["k", "s"], fpp=0.0001)
    key, condition = keyed(name)
    spoil(path, {0, 1, 3})
    query = f"SELECT load FROM read_parquet('{path}') WHERE {condition}"
    with duckdb.connect() as connection:
        assert connection.execute(query).fetchall() == [(f"load of {key}",)]
    ps.drop_filters(path)
    with duckdb.connect() as connection, pytest.raises(duckdb.Error):
        connection.execute(query).fetchall()


def test_parquet_java_reads_added_filters(spark: Any, tmp_path: Path) -> None:
    path = interleaved(tmp_path / "t.parquet")
    ps.add_filters(path, columns=["k", "s", "d", "t"])
    with ps.open_filters(path) as filters:
        read = list(java_filters(spark, path))
        assert len(read) == 4 * GROUPS
        for number, name, theirs in read:
            assert java_bits(spark, theirs) == bytes(memoryview(filters.filter(number, name)))  # type: ignore[arg-type]
    for number, name, theirs in read:
        if name == "k":
            # Pass hashes, since Java would get keys below 2**31 as ints, which have other hashes.
            hashes = ps.hash_column(pa.array(KEYS[number], pa.int64())).cast(pa.int64(), safe=False)
            assert all(theirs.findHash(one) for one in hashes.to_pylist())
