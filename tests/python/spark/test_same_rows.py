"""Plans of files that parquet-java writes, with random settings, return the rows that pyarrow reads, bit for bit."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.rows import cases, core_reads
from support.rows.tables import random_rows

pytestmark = pytest.mark.spark

FOLDERS = 8
PLANS = 25
LIST = pa.list_(pa.field("element", pa.int64()))
TYPES = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.float32()]
TYPES += [pa.float64(), pa.string(), pa.binary(), pa.bool_(), pa.date32(), pa.timestamp("us", "UTC")]
TYPES += [pa.timestamp("us"), pa.decimal128(9, 2), pa.decimal128(18, 4), pa.decimal128(38, 10), LIST]
TYPES += [pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.string())]))]), pa.map_(pa.string(), LIST)]


def write(spark: Any, folder: Path, random_: random.Random) -> None:
    """Copy random rows with Spark, so that parquet-java writes them."""
    fields = [pa.field(f"c{number}", random_.choice(TYPES)) for number in range(random_.randrange(2, 8))]
    source = f"{folder}-source"
    rows = random_rows(pa.schema(fields), random_, random_.choice((0, 30, 500, 3000)))
    pq.write_table(rows, source)
    int96 = random_.random() < 0.3
    settings = {
        "spark.sql.parquet.outputTimestampType": "INT96"
        if int96
        else random_.choice(("TIMESTAMP_MICROS", "TIMESTAMP_MILLIS")),
        "spark.sql.parquet.writeLegacyFormat": random_.choice(("true", "false")),
        "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    }
    options = {
        "compression": random_.choice(("none", "snappy", "gzip", "zstd", "lz4_raw")),
        "parquet.writer.version": random_.choice(("v1", "v2")),
        "parquet.enable.dictionary": random_.choice(("true", "false")),
        "parquet.page.size": random_.choice(("100", "2000", "1048576")),
        "parquet.page.row.count.limit": random_.choice(("5", "100", "20000")),
        "parquet.block.size": random_.choice(("2000", "134217728")),
        "parquet.block.row.count.limit": random_.choice(("50", "1048576")),
        "parquet.bloom.filter.enabled": random_.choice(("true", "false")),
        "parquet.page.write-checksum.enabled": random_.choice(("true", "false")),
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        frame = spark.read.parquet(source)
        frame.repartition(random_.choice((1, 2))).write.options(**options).parquet(str(folder))
    finally:
        for name in settings:
            spark.conf.unset(name)


def test_plans_of_files_of_parquet_java_return_the_rows_that_pyarrow_reads(spark: Any, tmp_path: Path) -> None:
    outcomes: list[cases.Outcome] = []
    for number in range(FOLDERS):
        random_ = random.Random(number)
        folder = tmp_path / str(number) / "table"
        folder.parent.mkdir()
        write(spark, folder, random_)
        # Spark's names of files are random, and the first file defines the schema.
        for place, path in enumerate(sorted(folder.glob("*.parquet"), key=lambda path: path.name[:11])):
            path.rename(folder / f"{place}.parquet")
        outcomes += cases.check_folder(cases.Folder.of(folder, "parquet-java"), random_, PLANS)
        for path in folder.glob("*.parquet") if core_reads.RowFile is not None else ():
            reads = core_reads.check_file(str(path), random_, "parquet-java", 6)
            assert not any(read.mismatch for read in reads), [read.mismatch for read in reads]
    mismatches = [outcome for outcome in outcomes if outcome.result == cases.MISMATCH]
    assert not mismatches, "\n".join(outcome.detail for outcome in mismatches[:5])
    assert sum(outcome.num_rows > 0 for outcome in outcomes) > FOLDERS * PLANS / 4
