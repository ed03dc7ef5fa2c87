"""Values in Delta's log and the bytes of deletion vectors: read correctly, ignored, or rejected."""

from __future__ import annotations

import copy
import datetime as dt
import json
import math
import os
import random
import shutil
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pyroaring
import pytest
from deltalake import DeltaTable, write_deltalake
from support.models.lake_truth import commit, rows

import parsieve as ps
from parsieve.lake import open_lake
from parsieve.lake.folder import hive


def test_hostile_bitmaps_do_not_allocate_memory() -> None:
    from parsieve.lake.rows import deletion_vectors

    magic = (1681511377).to_bytes(4, "little")
    assert list(deletion_vectors.positions(magic + pyroaring.BitMap64([3, 70_000, 2**33]).serialize(), 2**34)) == [
        3,
        70_000,
        2**33,
    ]
    full_runs = magic + struct.pack("<QIIB", 1, 0, 12347 | 0 << 16, 1) + struct.pack("<HHHHH", 0, 65535, 1, 0, 65535)
    assert len(deletion_vectors.positions(full_runs, 65536)) == 65536
    with pytest.raises(ps.FormatError, match="rows of"):
        deletion_vectors.positions(full_runs, 65535)
    random_ = random.Random(1)
    valid = pyroaring.BitMap64([*range(10_000), *range(100_000, 100_050, 3)])
    valid.run_optimize()
    for _ in range(3000):
        data = bytearray(valid.serialize())
        for _ in range(random_.randrange(1, 4)):
            data[random_.randrange(len(data))] = random_.randrange(256)
        try:
            positions = deletion_vectors.positions(magic + bytes(data[: random_.randrange(len(data) + 1)]), 200_000)
            assert list(positions) == sorted(set(positions))
        except ps.FormatError:
            pass


@pytest.mark.parametrize("step", [1, 2])
def test_bitmaps_with_any_number_of_containers(step: int) -> None:
    from parsieve.lake.rows import deletion_vectors

    magic = (1681511377).to_bytes(4, "little")
    for count in range(20):
        rows = [(number << 16) + low for number in range(count) for low in range(0, 100, step)]
        bitmap = pyroaring.BitMap64(rows)
        # This makes runs of consecutive rows.
        bitmap.run_optimize()
        assert list(deletion_vectors.positions(magic + bitmap.serialize(), 1 << 21)) == rows


def statistics(folder: Path, kind: str, low: Any, high: Any, metadata: dict[str, Any] | None = None) -> tuple[Any, Any]:
    """Return the minimum and maximum that parsieve reads for a column with these statistics in the log."""
    field = {"name": "a", "type": kind, "nullable": True, "metadata": metadata or {}}
    schema = json.dumps({"type": "struct", "fields": [field]})
    meta: dict[str, Any] = {"id": "x", "format": {"provider": "parquet", "options": {}}, "schemaString": schema}
    meta |= {"partitionColumns": [], "configuration": {}, "createdTime": 0}
    stats = f'{{"numRecords":2,"minValues":{{"a":{low}}},"maxValues":{{"a":{high}}},"nullCount":{{"a":0}}}}'
    add = {"path": "f", "partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True, "stats": stats}
    shutil.rmtree(folder / "_delta_log", ignore_errors=True)
    (folder / "_delta_log").mkdir()
    features = {"readerFeatures": ["timestampNtz"], "writerFeatures": ["timestampNtz"]}
    commit(
        folder,
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7} | features},
        {"metaData": meta},
        {"add": add},
    )
    bounds = open_lake(folder).snapshot().statistics(("a",))
    assert bounds is not None
    return bounds.lower[0].as_py(), bounds.upper[0].as_py()


def test_statistics_of_each_type_are_read_safely(tmp_path: Path) -> None:
    utc, milli, minute = dt.UTC, dt.timedelta(milliseconds=1), dt.timedelta(minutes=1)
    moment = dt.datetime(2026, 1, 1, 12, 0, 0, 123000)
    old = dt.datetime(1960, 5, 5, tzinfo=utc)
    cases = [
        ("long", "1", "2", (1, 2)),
        ("long", "1.5", "true", (None, None)),
        ("byte", "-129", "127", (None, 127)),
        # deltalake converts files with unsigned numbers to such tables: 1 and 4294967295.
        ("integer", "1", "-1", (None, None)),
        # In Spark, NaN is the greatest value. JSON has no NaN.
        ("double", "1.0", '"NaN"', (0.9999999999999999, None)),
        ("double", "NaN", "Infinity", (None, None)),
        ("double", '"-Infinity"', '"Infinity"', (-float("inf"), float("inf"))),
        ("double", "0.0", "-0.0", (-5e-324, 5e-324)),
        ("float", "0.1", "0.1", (0.09999999403953552, 0.10000000894069672)),
        ("string", '"abc"', '"abd"', ("abc", "abd")),
        ("string", '"b"', '"a"', (None, None)),
        # Truncated to 32 characters: with each of the two tie-breakers that Spark appends, and without.
        ("string", json.dumps("x" * 32), json.dumps("x" * 32 + "\ufffd"), ("x" * 32, "x" * 31 + "y")),
        ("string", json.dumps("x" * 32), json.dumps("x" * 32 + "\U0010ffff"), ("x" * 32, "x" * 31 + "y")),
        ("string", json.dumps("x" * 32), json.dumps("x" * 32), ("x" * 32, "x" * 31 + "y")),
        # Java compares UTF-16 units, so surrogates sort before U+FFFF.
        ("string", json.dumps("a😀"), json.dumps("a\uffff"), ("a", "b")),
        ("string", json.dumps("a\U00010000"), json.dumps("a\U00010000"), ("a", "b")),
        ("string", '"\\ud83d"', '"\\ud83d"', ("", None)),
        ("date", '"2026-01-01"', '"2026-01-02"', (dt.date(2026, 1, 1), dt.date(2026, 1, 2))),
        ("date", '"1500-01-01"', '"2026-01-02"', (None, dt.date(2026, 1, 2))),
        (
            "timestamp",
            '"2026-01-01T12:00:00.123Z"',
            '"2026-01-01T12:00:00.123Z"',
            (moment.replace(tzinfo=utc) - milli, moment.replace(tzinfo=utc) + milli),
        ),
        (
            "timestamp",
            '"2026-01-01T13:00:00.123+01:00"',
            '"2026-01-01T12:00:00.123"',
            (moment.replace(tzinfo=utc) - minute, None),
        ),
        # In Monrovia, the offset was -00:44:30 until 1972, and in Accra -00:00:52 until 1915. Spark omits the seconds.
        (
            "timestamp",
            '"1960-05-04T23:15:40.000-00:44"',
            '"1960-05-04T23:15:40.000-00:44"',
            (old - dt.timedelta(seconds=80), old + dt.timedelta(seconds=40)),
        ),
        ("timestamp", '"1960-05-05T00:00:00Z"', '"1960-05-05T00:00:00.000Z"', (old - minute, old + minute)),
        (
            "timestamp_ntz",
            '"1960-05-05T00:00:00Z"',
            '"1960-05-05T00:00:00"',
            tuple(old.replace(tzinfo=None) + margin for margin in (-milli, milli)),
        ),
        ("timestamp_ntz", '"2026-01-01 12:00:00.123"', '"2026-01-01T12:00:00.123"', (moment - milli, moment + milli)),
        ("decimal(12,2)", "1.10", "1.2", (Decimal("1.10"), Decimal("1.20"))),
        # delta-rs converts decimals to doubles.
        ("decimal(38,2)", "1e19", "1e19", (Decimal("9999999999999991118.21"), Decimal("10000000000000008881.79"))),
        ("decimal(3,0)", "-1e5", "999", (None, Decimal(999))),
        ("decimal(3,0)", "-1e1000000", "1e9999999999999999999", (None, None)),
        ("double", "-1e9999999999999999999", "1", (None, math.nextafter(1, 2))),
        ("boolean", "false", "true", (False, True)),
        ("binary", '"a"', '"b"', (None, None)),
    ]
    for kind, low, high, expected in cases:
        bounds = statistics(tmp_path, kind, low, high)
        assert bounds == expected, (kind, low, high)
    widened = {"delta.typeChanges": [{"fromType": "float", "toType": "double"}]}
    assert statistics(tmp_path, "double", "0.1", "0.1", widened) == (None, None)


def test_unknown_features_and_types_are_rejected(tmp_path: Path) -> None:
    statistics(tmp_path, "long", 1, 2)
    features = {"readerFeatures": ["somethingNew"], "writerFeatures": ["somethingNew"]}
    commit(tmp_path, {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7} | features})
    assert open_lake(tmp_path).snapshot(0).id == 0
    with pytest.raises(ps.UnsupportedError, match="somethingNew"):
        open_lake(tmp_path).snapshot(1)
    with pytest.raises(ps.UnsupportedError, match="interval"):
        statistics(tmp_path, "interval", 1, 2)
    with pytest.raises(ps.UnsupportedError, match="path or URI"):
        open_lake((fsspec.filesystem("memory"), "/lake"), format="delta")
    # A filesystem object for local files means the same as their path.
    subtree = (pa.fs.SubTreeFileSystem(str(tmp_path), pa.fs.LocalFileSystem()), "")
    assert open_lake(subtree, format="delta").uri.rstrip("/") == str(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_lake(tmp_path / "_delta_log", format="delta").snapshot()


# pyarrow crashes for this type.
_LARGE_SCALE = '{"fields": [{"name": "a", "type": "decimal(5,100000000)"}]}'


@pytest.mark.parametrize(
    ("action", "problem"),
    [
        ({"protocol": 1}, "has 1 as its protocol"),
        ({"metaData": "x"}, "has 'x' as its metaData"),
        ({"protocol": {"minReaderVersion": 3, "readerFeatures": [["x"]]}}, "reader features .* not a list of names"),
        ({"metaData": {"schemaString": '{"fields": []}', "partitionColumns": None}}, "partition columns .* not a list"),
        ({"metaData": {"schemaString": '{"fields": []}', "partitionColumns": [{}]}}, "partitions by {}, which is not"),
        (
            {"metaData": {"schemaString": '{"fields": [{"name": "a", "type": "decimal(5,100000000)"}]}'}},
            "not a valid type",
        ),
        ({"metaData": {"schemaString": '{"fields": [{"name": "a", "type": "decimal(39,0)"}]}'}}, "not a valid type"),
        ({"metaData": {"schemaString": '{"fields": [[]]}', "partitionColumns": []}}, "schema .* violates the protocol"),
    ],
)
def test_malformed_protocols_and_metadata_are_rejected(tmp_path: Path, action: dict[str, Any], problem: str) -> None:
    statistics(tmp_path, "long", 1, 2)
    commit(tmp_path, action)
    with pytest.raises(ps.FormatError, match=problem):
        open_lake(tmp_path).snapshot()


def test_partition_values_that_engines_read_differently_are_rejected(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": [1, 2, 3],
            "empty": ["", "x", None],
            "at": pa.array([1, None, 2], pa.timestamp("us", "UTC")),
            "local": pa.array([1, None, 2], pa.timestamp("us")),
            "paid": pa.array([Decimal("1.20"), None, Decimal("0.00")], pa.decimal128(5, 2)),
            "day": [dt.date(2026, 1, 1), None, dt.date(1, 1, 1)],
            "real": [float("nan"), -0.0, None],
            "flag": [True, None, False],
        }
    )
    write_deltalake(str(tmp_path), table, partition_by=table.column_names[1:])
    lake = open_lake(tmp_path)
    snapshot = lake.snapshot()
    with pytest.raises(ps.UnsupportedError, match="Spark reads as null"):
        lake.read(snapshot, snapshot.slices)
    with pytest.raises(ps.UnsupportedError, match="Spark reads as null"):
        lake.read(snapshot, snapshot.slices, ["id"], pc.field("empty") == "")
    names = [name for name in table.column_names if name != "empty"]
    rows_read = lake.read(snapshot, snapshot.slices, names).read_all()
    assert rows(rows_read) == rows(table.select(names))
    by_id = {next(lake.read_keys(data_slice, [("id",)]))["id"][0].as_py(): data_slice for data_slice in snapshot.slices}
    assert "empty" not in by_id[1].partition_values
    assert by_id[2].partition_values["empty"] == "x"
    # Spark reads a time without a zone in the session's time zone, so the value is neither evidence nor a key.
    assert "at" not in by_id[1].partition_values
    assert by_id[3].partition_values["local"] == dt.datetime(1970, 1, 1, 0, 0, 0, 2)
    assert by_id[3].partition_values["day"] == dt.date(1, 1, 1)
    with pytest.raises(ps.UnsupportedError, match="without a zone"):
        list(lake.read_keys(by_id[1], [("at",)]))
    # Python has no such date.
    log = tmp_path / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace('"day":"2026-01-01"', '"day":"+10000-01-01"'))
    assert len(ps.open_table(str(tmp_path)).plan("day > DATE '2026-01-01'").files) == 1
    (far,) = (
        data_slice for data_slice in open_lake(tmp_path).snapshot().slices if "day" not in data_slice.partition_values
    )
    with pytest.raises(ps.UnsupportedError, match="outside of the years 1 to 9999"):
        list(lake.read_keys(far, [("day",)]))


@pytest.mark.parametrize("text", ["1e-10000000", "1e-77", "1.005", "1000", "NaN", "sNaN", "1e10000000"])
def test_partition_values_that_are_not_decimals_of_the_type_are_rejected(tmp_path: Path, text: str) -> None:
    # pyarrow crashes or returns 0 for numbers with many decimal places.
    statistics(tmp_path, "decimal(5,2)", 1, 2)
    log = next((tmp_path / "_delta_log").iterdir())
    content = log.read_text().replace('"partitionColumns": []', '"partitionColumns": ["a"]')
    log.write_text(content.replace('"partitionValues": {}', f'"partitionValues": {{"a": "{text}"}}'))
    with pytest.raises(ps.FormatError, match="is not a valid decimal"):
        open_lake(tmp_path).snapshot()
    with pytest.raises(ps.UnsupportedError, match="is not a valid decimal"):
        hive.values_of(f"a={text}", [pa.field("a", pa.decimal128(5, 2))])
    # Python reads these as numbers, but engines do not.
    for other in ("1_0", " 1", "\u0661"):
        with pytest.raises(ps.UnsupportedError, match="is not a valid decimal"):
            hive.values_of(f"a={other}", [pa.field("a", pa.decimal128(5, 2))])
    log.write_text(content.replace('"partitionValues": {}', '"partitionValues": {"a": "0E-1000"}'))
    assert open_lake(tmp_path).snapshot().slices[0].partition_values == {"a": Decimal("0.00")}


def test_times_in_commits_count_since_they_were_enabled_last(tmp_path: Path) -> None:
    """They were enabled in version 1, disabled in version 5, and enabled again in version 6."""
    begin = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    for version in range(9):
        write_deltalake(tmp_path, pa.table({"a": [version]}), mode="append")
        path = tmp_path / f"_delta_log/{version:020}.json"
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        if version == 0:
            metadata = copy.deepcopy(next(action for action in actions if "metaData" in action))
        if version == 6:
            name = "delta.inCommitTimestampEnablementVersion"
            actions.append({"metaData": metadata["metaData"] | {"configuration": {name: "6"}}})
        actions.sort(key=lambda action: "commitInfo" not in action)
        at = begin + dt.timedelta(hours=version)
        if version not in (0, 5):
            actions[0]["commitInfo"]["inCommitTimestamp"] = int(at.timestamp() * 1000)
        path.write_text("\n".join(map(json.dumps, actions)))
        os.utime(path, (at.timestamp(), at.timestamp()))
    fresh, used = open_lake(tmp_path), open_lake(tmp_path)
    used.snapshot()
    for lake in (fresh, used):
        for version in range(9):
            assert lake.snapshot(begin + dt.timedelta(hours=version, minutes=1)).id == version


@pytest.mark.parametrize("ending", ["parquet", "80a083e8-7026-4e79-81be-64bd76c43a11.json"])
def test_empty_checkpoints_are_ignored(tmp_path: Path, ending: str) -> None:
    for value in range(4):
        write_deltalake(str(tmp_path), pa.table({"a": [value]}), mode="append")
        if value == 1:
            DeltaTable(str(tmp_path)).create_checkpoint()
    log = tmp_path / "_delta_log"
    # The commit after the empty checkpoint is complete without it.
    first, last = (log / f"{version:020}.json" for version in (0, 3))
    last.write_text(f"{last.read_text()}\n{first.read_text()}")
    (log / f"{2:020}.checkpoint.{ending}").touch()
    table = ps.open_table(tmp_path)
    assert len(table.plan("a >= 0").files) == 4
    # deltalake 1.5 fails, or reads only the commits after the empty checkpoint.
    if not deltalake.__version__.startswith("1.5."):
        assert DeltaTable(str(tmp_path)).to_pyarrow_table().num_rows == 4
    for path in (log / f"{1:020}.checkpoint.parquet", log / "_last_checkpoint", first):
        path.unlink()
    with pytest.raises(ps.UnsupportedError, match=rf"version 0 is missing .*, and 0+2.checkpoint.{ending} is empty"):
        ps.open_table(tmp_path).plan("a >= 0")
