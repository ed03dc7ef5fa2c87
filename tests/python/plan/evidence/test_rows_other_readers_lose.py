"""Cases in which other readers silently lose rows: plans keep each of these files."""

from __future__ import annotations

import datetime as dt
import math
import os
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from support import footer_edit as footer

import parsieve as ps

UTC = dt.UTC


def write(folder: Path, column: Any, **options: Any) -> str:
    path = str(folder / "part-0.parquet")
    table = pa.table({"x": column})
    pq.write_table(table, path, **options)
    return path


def keeps(path: str, where: Any, **options: Any) -> bool:
    """Return whether a plan keeps the only file."""
    return ps.open_table(path).plan(where, **options).files == [path]


def test_the_footer_editor_alone_changes_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, pa.array([1, 2, None]))
    before = Path(path).read_bytes()
    footer.edit(path, lambda metadata: None)
    assert pq.read_table(path).equals(pq.read_table(pa.BufferReader(before)))
    assert pq.read_metadata(path).row_group(0).column(0).statistics.max == 2
    assert not keeps(path, "x = 3")
    assert keeps(path, "x = 2")


@pytest.mark.parametrize("where", ["x > 100", "x >= 100", "x != 1.5", "x = 'nan'", "x NOT IN (1.5, 7)"])
def test_rows_with_nan_outside_the_statistics_are_kept(tmp_path: Path, where: str) -> None:
    # Writers ignore NaN in minima and maxima.
    path = write(tmp_path, pa.array([1.5, math.nan, 1.5]))
    assert pq.read_metadata(path).row_group(0).column(0).statistics.max == 1.5
    plan = ps.open_table(path).plan(where)
    assert plan.files == [path]
    for rows in (plan.to_arrow()["x"].to_pylist(), plan.to_polars().collect()["x"].to_list()):
        assert len(rows) == 1
        assert math.isnan(rows[0])
    with duckdb.connect() as con:
        assert len(plan.to_duckdb(con).fetchall()) == 1


def test_nan_keeps_no_file_if_it_cannot_match(tmp_path: Path) -> None:
    path = write(tmp_path, pa.array([1.5, math.nan]))
    assert not keeps(path, [("x", ">", 100.0)])
    assert not keeps(path, "x < 1")
    assert not keeps(path, "x > 100 AND x < 200")


@pytest.mark.parametrize("where", ["f <= 0.1", "f < 1", "f >= 0 AND f <= 0.1", "f BETWEEN -1 AND 0.5", "NOT f > 0.1"])
def test_nan_rows_are_filtered_although_the_maximum_matches(tmp_path: Path, where: str) -> None:
    """DuckDB alone returns NaN rows if the file's maximum satisfies the condition."""
    path = tmp_path / "part-0.parquet"
    pq.write_table(pa.table({"f": [0.0, 0.1, math.nan]}), path)
    with duckdb.connect() as con:
        duckdb_count = con.execute(f"SELECT count(*) FROM read_parquet('{path}') WHERE {where}").fetchall()
    plan = ps.open_table(str(tmp_path)).plan(where)
    expected = [0.0, 0.1]
    assert sorted(plan.to_arrow()["f"].to_pylist()) == expected
    assert sorted(plan.to_polars().collect()["f"].to_list()) == expected
    with duckdb.connect() as con:
        assert sorted(value for (value,) in plan.to_duckdb(con).fetchall()) == expected, duckdb_count


def test_bounds_that_are_nan_are_ignored(tmp_path: Path) -> None:
    nan = struct.pack("<d", math.nan)
    path = write(tmp_path, pa.array([1.5, math.nan, 9.0]))
    for lower, upper in ((nan, nan), (struct.pack("<d", 1.5), nan), (nan, struct.pack("<d", 1.5))):
        footer.set_bounds(path, lower, upper)
        assert keeps(path, "x = 9")


def test_missing_and_invalid_null_counts_are_ignored(tmp_path: Path) -> None:
    path = write(tmp_path, pa.array([1, None]))
    footer.set_bounds(path, struct.pack("<q", 1), struct.pack("<q", 1), NULL_COUNT=None)
    assert keeps(path, "x IS NULL")
    assert ps.open_table(path).plan("x IS NULL").to_arrow().num_rows == 1
    # A null count above the number of values is invalid too.
    footer.set_bounds(path, struct.pack("<q", 1), struct.pack("<q", 1), NULL_COUNT=(footer.I64, 3))
    assert keeps(path, "x IS NULL")
    assert keeps(path, "x IS NOT NULL")
    footer.set_bounds(path, struct.pack("<q", 1), struct.pack("<q", 1), NULL_COUNT=(footer.I64, -1))
    assert keeps(path, "x IS NULL")


def test_truncated_string_bounds_keep_their_rows(tmp_path: Path) -> None:
    long = "a" * 100 + "z"
    path = write(tmp_path, pa.array(["a", long]))
    # A truncated and incremented maximum is a valid bound, but not a value of the column.
    footer.set_bounds(path, b"a", b"a" * 63 + b"b", MAX_EXACT=(2, False))
    assert keeps(path, f"x = '{long}'")
    assert keeps(path, f"x LIKE '{'a' * 90}%'")
    assert keeps(path, f"x <> '{'a' * 63}b'")
    assert not keeps(path, "x > 'b'")


def test_empty_bounds_are_ignored(tmp_path: Path) -> None:
    path = write(tmp_path, pa.array(["b", "c"]))
    footer.set_bounds(path, b"", b"")
    assert keeps(path, "x = 'c'")


@pytest.mark.parametrize("as_integer", [False, True])
def test_bounds_of_fixed_length_decimals_are_signed(tmp_path: Path, as_integer: bool) -> None:
    values = [Decimal("-1.50"), Decimal("2.25")]
    path = write(tmp_path, pa.array(values, pa.decimal128(5, 2)), store_decimal_as_integer=as_integer)
    assert not keeps(path, "x > 3")
    assert not keeps(path, "x < -2")
    assert keeps(path, "x = -1.5")
    assert keeps(path, "x = 2.250")
    if not as_integer:
        # A writer that compares bytes as unsigned swaps the bounds.
        negative, positive = ((int(value * 100)).to_bytes(3, signed=True) for value in values)
        footer.set_bounds(path, positive, negative)
        assert keeps(path, "x = -1.5")
        assert keeps(path, "x = 2.25")


def test_bounds_of_narrow_and_unsigned_integers(tmp_path: Path) -> None:
    path = write(tmp_path, pa.array([0, 200, 255], pa.uint8()))
    assert keeps(path, "x = 200")
    assert keeps(path, "x > -1")
    assert not keeps(path, "x = -56")
    assert not keeps(path, "x = 456")
    wide = write(tmp_path, pa.array([1, 2**64 - 1], pa.uint64()))
    assert keeps(wide, f"x = {2**64 - 1}")
    # A writer that compares them as signed swaps the bounds.
    footer.set_bounds(wide, struct.pack("<Q", 2**64 - 1), struct.pack("<Q", 1))
    assert keeps(wide, "x = 5") is keeps(wide, f"x = {2**64 - 1}") is True


def test_old_statistics_of_unsigned_integers_and_bytes_are_ignored(tmp_path: Path) -> None:
    for column, lower, upper, where in (
        (pa.array([1, 2**32 - 1], pa.uint32()), struct.pack("<I", 2**32 - 1), struct.pack("<I", 1), f"x = {2**32 - 1}"),
        (pa.array(["a", "é"]), "é".encode(), b"a", "x = 'é'"),
        (pa.array(["a", "é"]), b"a", b"a", "x = 'é'"),
    ):
        path = write(tmp_path, column)
        footer.set_bounds(path, None, None, OLD_MIN=(footer.BINARY, lower), OLD_MAX=(footer.BINARY, upper))
        assert keeps(path, where)


def test_old_statistics_of_signed_types_are_used_if_the_writer_is_known(tmp_path: Path) -> None:
    path = write(tmp_path, pa.array([5, 7], pa.int32()))
    old = {"OLD_MIN": (footer.BINARY, struct.pack("<i", 5)), "OLD_MAX": (footer.BINARY, struct.pack("<i", 7))}
    footer.set_bounds(path, None, None, **old)

    def keeps_if_written_by(writer: bytes | None) -> bool:
        def change(metadata: footer.Struct) -> None:
            metadata.pop(footer.COLUMN_ORDERS, None)
            metadata.pop(footer.CREATED_BY, None)
            if writer is not None:
                metadata[footer.CREATED_BY] = (footer.BINARY, writer)

        footer.edit(path, change)
        return keeps(path, "x = 9")

    assert not keeps_if_written_by(b"parquet-mr version 1.8.0 (build x)")
    assert keeps_if_written_by(b"unknown")
    assert keeps_if_written_by(None)


def test_statistics_without_a_column_order_are_ignored(tmp_path: Path) -> None:
    path = write(tmp_path, pa.array(["a", "b"]))

    def remove_orders(metadata: footer.Struct) -> None:
        del metadata[footer.COLUMN_ORDERS]

    footer.edit(path, remove_orders)
    assert keeps(path, "x = 'z'")


def test_both_zeros_match_bounds_of_either_sign(tmp_path: Path) -> None:
    path = write(tmp_path, pa.array([0.0, -0.0]))
    for lower, upper in ((0.0, -0.0), (-0.0, -0.0), (0.0, 0.0)):
        footer.set_bounds(path, struct.pack("<d", lower), struct.pack("<d", upper))
        for where in ("x = 0", "x = -0.0", "x >= 0", "x <= -0.0", "x IN (-0.0, 5)", [("x", "=", -0.0)]):
            assert keeps(path, where), (lower, upper, where)
            assert ps.open_table(path).plan(where).to_arrow().num_rows == 2


def test_bounds_of_int96_are_ignored(tmp_path: Path) -> None:
    moments = pa.array([dt.datetime(2020, 1, 1), dt.datetime(2021, 1, 1)], pa.timestamp("ns"))
    path = write(tmp_path, moments, use_deprecated_int96_timestamps=True)
    footer.set_bounds(path, b"\0" * 12, b"\0" * 12)
    assert keeps(path, "x = '2021-01-01'")


def test_old_dates_of_legacy_calendars_are_kept(tmp_path: Path) -> None:
    old = pa.array([dt.date(1500, 1, 1), dt.date(1500, 1, 10)])
    path = write(tmp_path, old)
    # pyarrow always writes the proleptic Gregorian calendar.
    assert not keeps(path, "x = '1500-01-11'")

    def keeps_if_written_by(writer: bytes, pairs: dict[bytes, bytes]) -> bool:
        def change(metadata: footer.Struct) -> None:
            metadata[footer.CREATED_BY] = (footer.BINARY, writer)
            listed = [{1: (footer.BINARY, key), 2: (footer.BINARY, value)} for key, value in pairs.items()]
            metadata[footer.KEY_VALUES] = (footer.LIST, (footer.STRUCT, listed))

        footer.edit(path, change)
        return keeps(path, "x = '1500-01-11'")

    mr = b"parquet-mr version 1.13.1"
    assert keeps_if_written_by(mr, {})
    assert keeps_if_written_by(mr, {b"org.apache.spark.version": b"2.4.8"})
    legacy = {b"org.apache.spark.version": b"3.5.0", b"org.apache.spark.legacyDateTime": b""}
    assert keeps_if_written_by(mr, legacy)
    assert not keeps_if_written_by(mr, {b"org.apache.spark.version": b"3.5.0"})


def test_files_with_narrower_types_are_kept(tmp_path: Path) -> None:
    for narrow, wide, value in (
        (pa.int8(), pa.int64(), 5),
        (pa.float32(), pa.float64(), 1.5),
        (pa.decimal128(5, 2), pa.decimal128(12, 4), Decimal("1.50")),
        (pa.timestamp("ms"), pa.timestamp("us"), dt.datetime(2026, 1, 1)),
    ):
        folder = tmp_path / str(narrow).replace("/", "_")
        folder.mkdir()
        pq.write_table(pa.table({"x": pa.array([value], wide)}), folder / "a.parquet")
        pq.write_table(pa.table({"x": pa.array([value], narrow)}), folder / "b.parquet")
        table = ps.open_table(str(folder))
        assert table.schema.field("x").type == wide
        plan = table.plan([("x", "=", value)])
        assert len(plan.files) == 2
        assert plan.to_arrow().num_rows == 2


def test_literals_without_a_zone_exclude_nothing_without_timezone(tmp_path: Path) -> None:
    moments = pa.array([dt.datetime(2026, 1, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    path = write(tmp_path, moments)
    # True in Madrid, where it is two o'clock, and false in Greenwich. The session's time zone decides.
    where = "x >= '2026-01-01 01:30:00'"
    with pytest.warns(ps.ParsieveWarning, match="pass timezone="):
        plan = ps.open_table(path).plan(where)
    assert plan.files == [path]
    assert "timezone=" in plan.explain()
    with pytest.raises(ps.UnsupportedError, match="timezone="):
        plan.to_arrow()
    assert keeps(path, where, timezone="Europe/Madrid")
    assert not keeps(path, where, timezone="UTC")


def test_rewrites_within_a_tick_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "part-0.parquet"
    table = ps.open_table(str(tmp_path))
    for value in range(40):
        # The files have the same size and often the same timestamps.
        pq.write_table(pa.table({"x": pa.array([value], pa.int64())}), path)
        assert table.plan(f"x = {value}").files == [str(path)], value


def test_a_rewrite_with_the_old_mtime_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "part-0.parquet"
    pq.write_table(pa.table({"x": pa.array([1], pa.int64())}), path)
    old = path.stat()
    table = ps.open_table(str(tmp_path))
    assert table.plan("x = 2").files == []
    pq.write_table(pa.table({"x": pa.array([2], pa.int64())}), path)
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))
    assert table.plan("x = 2").files == [str(path)]


def test_partition_values_override_columns_of_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "x=7"
    folder.mkdir()
    pq.write_table(pa.table({"x": pa.array([1], pa.int64()), "y": [1]}), folder / "a.parquet")
    table = ps.open_table(str(tmp_path))
    assert table.plan("x = 7").to_arrow().num_rows == 1
    assert table.plan("x = 1").files == []


def test_a_file_with_names_that_differ_in_case_only_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1], "ID": [2]}), path)
    assert keeps(str(path), '"ID" = 1')


def test_files_with_damaged_footers_are_kept_and_explained(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"PAR1 no footer at all, but long enough")
    plan = ps.open_table(str(tmp_path)).plan("x = 5")
    assert plan.files == [str(tmp_path / "b.parquet")]
    assert "footer cannot be read" in plan.explain()


def test_decimals_in_the_order_of_their_bytes_are_found(tmp_path: Path) -> None:
    # parquet-java 1.8 ordered decimals by their bytes, so that -56, which is part of 2.00, was less than 1.00.
    path = write(tmp_path, pa.array([Decimal("1.00"), Decimal("2.00"), Decimal("3.00")], pa.decimal128(25, 2)))

    def change(metadata: footer.Struct) -> None:
        metadata[footer.CREATED_BY] = (footer.BINARY, b"parquet-mr version 1.8.2")
        metadata.pop(footer.COLUMN_ORDERS)
        for bounds in footer.statistics(metadata):
            bounds.clear()
            bounds[footer.OLD_MIN] = (footer.BINARY, (200).to_bytes(11, "big"))
            bounds[footer.OLD_MAX] = (footer.BINARY, (300).to_bytes(11, "big"))
            bounds[footer.NULL_COUNT] = (footer.I64, 0)

    footer.edit(path, change)
    one = pc.field("x") == Decimal("1.00")
    assert pads.dataset(path).count_rows(filter=one) == 0
    with duckdb.connect() as connection:
        assert connection.execute(f"SELECT count(*) FROM '{path}' WHERE x = 1.00").fetchall() == [(0,)]
    table = ps.open_table(path)
    plan = table.plan("x = 1")
    assert plan.files == [path]
    assert plan.to_arrow().num_rows == plan.to_arrow(columns=[]).num_rows == 1
    assert plan.to_dataset().to_table().num_rows == table.dataset().to_table(filter=one).num_rows == 1
    assert plan.to_dataset().count_rows() == 1
    assert ps.open_table(path).plan().to_dataset().count_rows(filter=one) == 1
    assert table.dataset().count_rows(filter=one) == 1
    assert plan.to_duckdb().fetchall() == [(Decimal("1.00"),)]
    assert plan.to_polars().collect().height == 1
    written = tmp_path / "delta"
    write_deltalake(str(written), pa.table({"x": pa.array([Decimal("1.00")], pa.decimal128(25, 2))}))
    [file], [log] = written.glob("*.parquet"), written.glob("_delta_log/*.json")
    size = file.stat().st_size
    footer.edit(file, change)
    log.write_text(log.read_text().replace(f'"size":{size}', f'"size":{file.stat().st_size}'))
    assert ps.open_table(str(written)).plan("x < 2").to_duckdb().fetchall() == [(Decimal("1.00"),)]
