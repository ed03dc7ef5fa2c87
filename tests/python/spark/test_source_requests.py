"""Options, tasks and types of the data source, without PySpark."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.hudi_tables import HudiTable

import parsieve as ps
from parsieve.plan.results.engines import Rows
from parsieve.spark.source import request as loading
from parsieve.spark.source.request import Request, shares
from parsieve.spark.source.types import cast, spark_schema


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part in range(8):
        pq.write_table(pa.table({"id": range(part, 800, 8), "n": [part] * 100}), tmp_path / f"{part}.parquet")
    return tmp_path


def test_option_names_are_not_case_sensitive() -> None:
    asked = Request.of({"PATH": "t", "As_Of": "3", "storage_options": json.dumps({"region": "r"})})
    assert asked == Request("t", as_of="3", storage_options={"region": "r"})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "no table to load"),
        ({"path": "t", "wher": "id = 1"}, "unknown options: wher; options are path, where"),
        ({"path": "t", "storage_options": "secret"}, "must be a JSON object"),
        ({"path": "t", "storage_options": '["secret"]'}, "must be a JSON object"),
        ({"path": "t", "storage_options": '{"retries": 3}'}, "must be a JSON object"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        Request.of(options)
    assert "secret" not in str(caught.value)


def test_tasks_contain_each_kept_file_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = Request(str(folder), where="n > 2")
    monkeypatch.setattr(loading, "TASK_BYTES", 2 * loading.FILE_BYTES)
    found = shares(request.plan())
    assert [[Path(piece.path or "").stem for piece in rows._slices] for rows in found] == [
        ["3", "4"],
        ["5", "6"],
        ["7"],
    ]
    monkeypatch.setattr(loading, "TASK_BYTES", 1)
    assert len(shares(request.plan())) == 5
    assert shares(Request(str(folder), where="n > 7").plan()) == []


def test_pickled_tasks_contain_no_other_slices(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "TASK_BYTES", 1)
    sent = [pickle.loads(pickle.dumps(rows)) for rows in shares(Request(str(folder), where="id < 100").plan())]
    assert [len(rows._snapshot.slices) for rows in sent] == [0] * 8
    assert _ids(sent) == list(range(100))


def test_a_replaced_file_is_still_filtered(folder: Path) -> None:
    [rows] = shares(Request(str(folder), where="n = 3").plan())
    pq.write_table(pa.table({"id": [1, 2], "n": [3, 4]}), folder / "3.parquet")
    assert rows.reader(None).read_all().to_pylist() == [{"id": 1, "n": 3}]


def test_pinning_checks_the_request(folder: Path) -> None:
    fixed, columns, instants = Request(str(folder), where="n = 3").pinned()
    assert (fixed.format, columns.names, instants) == ("parquet", ["id", "n"], frozenset())
    with pytest.raises(ps.UnsupportedError, match="is not understood"):
        Request(str(folder), where="abs(n) = 3").pinned()
    with pytest.raises(ps.ColumnNotFoundError):
        Request(str(folder), where="m = 3").pinned()
    with pytest.raises(ps.UnsupportedError, match="has no earlier states"):
        Request(str(folder), as_of="3").pinned()


def test_delta_is_pinned_to_its_version(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake", reason="pip install 'parsieve[delta]'")
    deltalake.write_deltalake(tmp_path, pa.table({"id": [1, 2]}))
    fixed = Request(str(tmp_path)).pinned()[0]
    deltalake.write_deltalake(tmp_path, pa.table({"id": [3]}), mode="append")
    assert _ids(shares(fixed.plan())) == [1, 2]
    assert _ids(shares(Request(str(tmp_path)).plan())) == [1, 2, 3]


def test_hudi_rows_are_read(tmp_path: Path) -> None:
    pytest.importorskip("hudi", reason="pip install 'parsieve[hudi]'")
    made = HudiTable(tmp_path / "t", pa.schema({"id": pa.int64()}))
    first = made.commit({f"g{group}-0": pa.table({"id": range(group * 10, group * 10 + 10)}) for group in range(3)})
    made.commit({"g1-0": pa.table({"id": [10, 99]})})
    request = Request(str(made.folder), where="id >= 10").pinned()[0]
    sent = [pickle.loads(pickle.dumps(rows)) for rows in shares(request.plan())]
    assert _ids(sent) == [10, *range(20, 30), 99]
    assert _ids(shares(Request(str(made.folder), where="id < 12", as_of=first).plan())) == list(range(12))


def _ids(found: Sequence[Rows]) -> list[int]:
    return sorted(number for rows in found for number in rows.reader(["id"]).read_all()["id"].to_pylist())


def test_int96_timestamps_have_a_time_zone(tmp_path: Path) -> None:
    held = pa.table({"at": pa.array([-1, 1_000_000_001, None], pa.timestamp("ns")), "n": [1, 2, 3]})
    pq.write_table(held, tmp_path / "ancient.parquet", use_deprecated_int96_timestamps=True)
    pq.write_table(held, tmp_path / "new.parquet")
    _, columns, instants = Request(str(tmp_path / "ancient.parquet")).pinned()
    assert instants == {"at"}
    wanted = spark_schema(columns, instants)
    assert wanted.field("at").type == pa.timestamp("us", "UTC")
    [batch] = held.to_batches()
    # Fractions of a microsecond are truncated towards the past.
    assert cast(batch, wanted).column("at").view(pa.int64()).to_pylist() == [-1, 1_000_000, None]
    assert Request(str(tmp_path / "new.parquet")).pinned()[2] == frozenset()


@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        (pa.array([255, None], pa.uint8()), pa.int16()),
        (pa.array([2**64 - 1, None], pa.uint64()), pa.decimal128(20, 0)),
        (pa.array([0.5, None], pa.float16()), pa.float32()),
        (pa.array(["a", None], pa.string_view()), pa.string()),
        (pa.array([b"a", None], pa.binary(1)), pa.binary()),
        (pa.array(["a", "a", None]).dictionary_encode(), pa.string()),
        (pa.array([1, None], pa.timestamp("ms", "Europe/Madrid")), pa.timestamp("us", "UTC")),
        (pa.array([1, None], pa.timestamp("s")), pa.timestamp("us")),
        (pa.array([86_400_000, None], pa.date64()), pa.date32()),
        (pa.array([[1], None, [None]], pa.large_list(pa.uint16())), pa.list_(pa.int32())),
        (pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.uint8())), pa.map_(pa.string(), pa.int16())),
        (pa.array([{"a": 1}, None], pa.struct({"a": pa.uint8()})), pa.struct({"a": pa.int16()})),
    ],
)
def test_types_are_mapped_without_changing_values(held: Any, wanted: pa.DataType) -> None:
    schema = spark_schema(pa.schema({"c": held.type}))
    assert schema.types == [wanted]
    found = cast(pa.RecordBatch.from_arrays([held], ["c"]), schema)
    assert found.schema.types == [wanted]
    assert [_plain(value) for value in found.column("c").to_pylist()] == [_plain(value) for value in held.to_pylist()]


def _plain(value: Any) -> Any:
    """Return values that compare equal across types."""
    if hasattr(value, "utcoffset") and value.tzinfo is not None:
        return value.timestamp()
    return value


@pytest.mark.parametrize("kind", [pa.time32("s"), pa.decimal256(50, 0), pa.duration("s"), pa.uuid()])
def test_types_without_an_equivalent_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(ps.UnsupportedError, match=r"Spark has no type for column s\.c of"):
        spark_schema(pa.schema({"s": pa.struct({"c": kind})}))
