"""Hudi's timeline: completed, pending, archived and cleaned instants."""

from __future__ import annotations

import contextlib
import json
import random
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.hudi_tables import HudiTable

import parsieve as ps
from parsieve.lake import open_lake
from parsieve.lake.hudi.table import _LOG, Hudi, _check_supported, _SliceBuilder
from parsieve.lake.hudi.timeline import earliest_kept, properties_of, read_timeline
from parsieve.lake.storage.storage import Storage


def number(value: int) -> bytes:
    value = value << 1 if value >= 0 else ((-value) << 1) - 1
    encoded = b""
    while value > 127:
        encoded += bytes([value & 127 | 128])
        value >>= 7
    return encoded + bytes([value])


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return number(len(data)) + data


FIELDS = ["startCleanTime", "timeTakenInMillis", "totalFilesDeleted", "earliestCommitToRetain", "more"]


def clean_record(kept: str, codec: str = "null", fields: list[str] = FIELDS) -> bytes:
    schema = json.dumps(
        {"type": "record", "name": "x", "fields": [{"name": name, "type": "string"} for name in fields]}
    )
    body = text("20260101000000000") + number(-5) + number(3) + text(kept) + b"rest"
    if codec == "deflate":
        body = zlib.compress(body)[2:-4]
    header = b"Obj\1" + number(2) + text("avro.schema") + text(schema) + text("avro.codec") + text(codec) + number(0)
    return header + b"s" * 16 + number(1) + text(body) + b"s" * 16


def table(folder: Path, names: dict[str, bytes], version: int = 8) -> Storage:
    timeline = folder / ".hoodie" / "timeline" if version >= 8 else folder / ".hoodie"
    timeline.mkdir(parents=True)
    for name, data in names.items():
        (timeline / name).write_bytes(data)
    (folder / ".hoodie" / "hoodie.properties").write_text(f"#comment\nhoodie.table.version={version}\na=b\\:c=d\n")
    return Storage(folder)


A, B, C, D, E = (f"2026010100000{place}000" for place in range(1, 6))


@pytest.mark.parametrize("version", [6, 8])
def test_completed_and_archived_instants_hold(tmp_path: Path, version: int) -> None:
    completed_name = (
        (lambda instant, action: f"{instant}_{instant[:-3]}999.{action}") if version >= 8 else "{}.{}".format
    )
    names = {
        completed_name(B, "commit"): b"",
        f"{B}.commit.requested": b"",
        f"{B}.inflight": b"",
        completed_name(C, "deltacommit"): b"",
    }
    names |= {f"{A}.deltacommit.inflight": b"", f"{D}.clustering.requested": b"", f"{E}.compaction.inflight": b""}
    names |= {completed_name(D, "rollback"): b"", "nonsense": b"", ".crc": b""}
    timeline = read_timeline(table(tmp_path, names, version))
    assert timeline.completed == {B, C}
    assert timeline.pending == {A, D, E}
    assert timeline.first == B
    # An instant before the first listed one is archived, unless it is pending.
    instants = (A, B, C, D, E, "20250101000000000", "20260101000003500")
    assert [instant for instant in instants if timeline.is_committed(instant)] == [B, C, "20250101000000000"]
    assert properties_of(Storage(tmp_path)) == {"hoodie.table.version": str(version), "a": "b:c=d"}


def test_completions_of_archived_instants_are_read_from_the_files_that_may_have_them(tmp_path: Path) -> None:
    storage = table(tmp_path, {f"{E}_{E}.commit": b""})
    assert read_timeline(storage).archived == ()
    history = tmp_path / ".hoodie" / "timeline" / "history"
    history.mkdir()
    rows = pa.table({"instantTime": [A, B], "completionTime": [D, B], "action": ["deltacommit"] * 2})
    pq.write_table(rows, history / f"{A}_{B}_0.parquet")
    names = [f"{A}_{B}_0.parquet", f"{C}_{D}_0.parquet"]
    (history / "manifest_3").write_text(json.dumps({"files": [{"fileName": name, "fileLen": 1} for name in names]}))
    (history / "_version_").write_text("3")
    timeline = read_timeline(storage)
    assert timeline.archived_completions({A, E, "20260101000001500"}) == {A: D}
    (history / f"{C}_{D}_0.parquet").write_bytes(b"")
    with pytest.raises(ps.FormatError, match=f"{C}_{D}_0.parquet"):
        timeline.archived_completions({C})
    (history / "manifest_3").write_text("{}")
    with pytest.raises(ps.FormatError, match="manifest_3 is malformed"):
        read_timeline(storage).archived  # noqa: B018


def test_logs_that_a_compaction_overtook_before_they_were_archived(tmp_path: Path) -> None:
    """The package `hudi` takes them for logs of the previous base file, because they have an earlier instant."""
    storage = table(tmp_path, {f"{C}_{C}.commit": b"", f"{D}_{D}.deltacommit": b""})
    history = tmp_path / ".hoodie" / "timeline" / "history"
    history.mkdir()
    # The first write completed after the compaction at C was scheduled, the second before.
    pq.write_table(pa.table({"instantTime": [A, B], "completionTime": [D, B]}), history / f"{A}_{B}_0.parquet")
    (history / "manifest_1").write_text(json.dumps({"files": [{"fileName": f"{A}_{B}_0.parquet"}]}))
    (history / "_version_").write_text("1")
    logs = {instant: f".g_{instant}.log.1_0-1-0" for instant in (A, B, D)}
    for name in logs.values():
        (tmp_path / name).write_bytes(b"")
    builder = _SliceBuilder(
        cast("Hudi", SimpleNamespace(_storage=storage)),
        read_timeline(storage),
        {"hoodie.table.version": "8", "hoodie.table.type": "MERGE_ON_READ"},
        table=None,
        instant=D,
        schema=pa.schema([]),
        native=None,
    )
    compacted = {"creation_instant_time": C, "base_file_name": f"g_0-1-0_{C}.parquet", "partition_path": ""}
    part = SimpleNamespace(**compacted, file_id="g", log_file_names=[logs[D]])
    assert builder._overtaken_logs(part) == [logs[A]]


def test_cleaned_instants_are_rejected(tmp_path: Path) -> None:
    clean = f"{C}_{D}.clean"
    storage = table(tmp_path, {f"{instant}_{instant}.commit": b"" for instant in (A, B, C)} | {clean: clean_record(B)})
    timeline = read_timeline(storage)
    timeline.check_not_cleaned(B)
    with pytest.raises(ValueError, match="cleaned"):
        timeline.check_not_cleaned(A)
    with pytest.raises(ValueError, match="begins at"):
        timeline.check_not_cleaned("20250101000000000")
    # A cleaner that keeps a number of file versions names no instant.
    (tmp_path / ".hoodie" / "timeline" / clean).write_bytes(clean_record(""))
    read_timeline(storage).check_not_cleaned(C)
    with pytest.raises(ps.UnsupportedError, match="how far"):
        read_timeline(storage).check_not_cleaned(B)


def test_records_of_the_cleaner_are_read_or_rejected() -> None:
    assert earliest_kept(clean_record("20260101", "deflate"), "x") == "20260101"
    assert earliest_kept(b"", "x") == ""
    # Numbers have seven bits in each byte, and 64 is the first one with an empty byte before the last.
    for length in range(1, 200):
        assert earliest_kept(clean_record("2" * length), "x") == "2" * length
    for unsupported in (clean_record("1", "snappy"), clean_record("1", fields=["a", "b", "c", "d"])):
        with pytest.raises(ps.UnsupportedError):
            earliest_kept(unsupported, "x")
    valid, random_ = clean_record("20260101000000000", "deflate"), random.Random(1)
    for _ in range(5000):
        data = bytearray(valid)
        for _ in range(random_.randrange(1, 4)):
            data[random_.randrange(len(data))] = random_.randrange(256)
        with contextlib.suppress(ps.ParsieveError):
            assert isinstance(earliest_kept(bytes(data[: random_.randrange(len(data) + 1)]), "x"), str)


def test_names_of_log_files_are_parsed() -> None:
    match = _LOG.fullmatch(".faae9147-8bd5-4f33-97d4-119ea6469b7e-2_20261121200400095.log.1_3-320-1069")
    assert match is not None
    assert match[2] == "20261121200400095"
    assert _LOG.fullmatch(".a_b-0_20261121200400095.log.12") is not None


@pytest.mark.parametrize(
    "properties",
    [
        {"hoodie.table.base.file.format": "ORC"},
        {"hoodie.bootstrap.base.path": "s3://other"},
        {"hoodie.datasource.write.drop.partition.columns": "true"},
        {"hoodie.timeline.path": "times"},
        {"hoodie.timeline.history.path": "archive"},
        {"hoodie.table.type": "MERGE_ON_READ", "hoodie.record.merge.mode": "CUSTOM"},
        {"hoodie.table.type": "MERGE_ON_READ", "hoodie.compaction.payload.class": "com.example.Own"},
        {"hoodie.table.type": "MERGE_ON_READ", "hoodie.table.partial.update.mode": "FILL_UNAVAILABLE"},
    ],
)
def test_unsupported_table_properties_are_rejected(properties: dict[str, str]) -> None:
    with pytest.raises(ps.UnsupportedError):
        _check_supported(properties, "t")


def test_schemas_for_which_the_package_hudi_panics_are_rejected(tmp_path: Path) -> None:
    """It does not support a type that a schema refers to by its name."""
    table = HudiTable(tmp_path / "t", pa.schema([("id", pa.int64())]))
    instant = table.begin()
    place = {"type": "record", "name": "place", "fields": [{"name": "x", "type": "int"}]}
    fields = [{"name": "a", "type": place}, {"name": "b", "type": "place"}]
    schema = json.dumps({"type": "record", "name": "t", "fields": fields})
    table.finish(instant, [], extraMetadata={"schema": schema})
    with pytest.raises(ps.UnsupportedError, match=r"hudi cannot read .*: not yet implemented"):
        open_lake(table.folder).snapshot()


def test_missing_tables_and_filesystem_pairs_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_lake(tmp_path, format="hudi").snapshot()
    pair: Any = (object(), "x")
    with pytest.raises(ps.UnsupportedError, match="path or URI"):
        open_lake(pair, format="hudi")
