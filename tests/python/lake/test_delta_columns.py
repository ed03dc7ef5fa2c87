"""The columns of a Delta table's log against the same log replayed action by action, and against deltalake."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from support.aging import wait_until_old
from support.models.lake_truth import check_columns

import parsieve as ps
from parsieve._core import delta_statistics
from parsieve.lake import Changes, open_lake
from parsieve.lake.base import Snapshot, Statistics
from parsieve.lake.delta import files, statistics
from parsieve.lake.delta.files import _taken
from parsieve.lake.delta.schema import schema_of

KINDS = ["long", "byte", "double", "float", "string", "date", "timestamp", "timestamp_ntz", "boolean", "decimal(9,2)"]
KINDS += ["decimal(38,9)", "binary"]
# Values as statistics write them, right and wrong, of every kind.
VALUES = [
    *("0", "-0", "1", "-129", "127", "128", "9223372036854775807", "9223372036854775808", "1.5", "1.0", "1e2", "01"),
    *("0.1", "-0.1", "0.0", "-0.0", "1e-400", "1e400", "3.4028235e38", "3.5e38", "5e-324", "1e308", "NaN", "Infinity"),
    *("true", "false", "null", "{}", "[]", "[1]", '{"a":1}', '"NaN"', '"1"', '""', '"a"', '"ü"', '"x\\ty"'),
    *(
        '"xxxxxxxxxxxxxxx"',
        '"xxxxxxxxxxxxxxxx"',
        '"xxxxxxxxxxxxxxx\\u007f"',
        '"ab\\ud83d\\ude00"',
        '"\\ud83d"',
        '"\\uffff"',
    ),
    *('"2026-01-31"', '"1582-10-14"', '"1582-10-15"', '"2026-02-30"', '"0000-01-01"', '"20260131"'),
    *('"2026-01-31T12:00:00Z"', '"2026-01-31T12:00:00.123Z"', '"2026-01-31T12:00:00.123456Z"', '"2026-01-31T12:00:00"'),
    *('"1582-10-14T23:59:59.999Z"', '"1582-10-15T00:00:00Z"', '"1582-10-15T00:00:00.000001Z"'),
    *('"1972-12-31T23:59:59.999Z"', '"1973-01-01T00:00:00Z"', '"1960-05-04T23:15:40.000-00:44"'),
    *('"2026-01-31T12:00:00.1Z"', '"9999-12-31T23:59:59.999Z"', '"2026-01-31T24:00:00Z"', '"2026-01-31T12:00:60Z"'),
    *(
        '"2026-01-31 12:00:00+01:00"',
        '"0001-01-01T00:00:00Z"',
        "12.34",
        "-9999999.99",
        "99999999.99",
        "1e19",
        "1" * 400,
    ),
    *("0.123456789012345678901234567890123456789", "1.005", "562949953421311.5", "12345678901234567890.12"),
]
TEXTS = [
    *("", " ", "{}", " {}", "{ }", "{\n}", "[]", "null", "x", '{"numRecords":5', '{"numRecords":5}}', "{}{}", '{"a":['),
    *(
        '{"numRecords":1} {"numRecords":2}',
        '{"numRecords":2,"numRecords":3}',
        '{"numRecords":-1}',
        '{"numRecords":1.0}',
    ),
    *('{"minValues":5}', '{"minValues":{"a":1},"minValues":{"a":2}}', '{"minValues":{"a":1,"a":2}}', "\ufeff{}"),
    *('{"nullCount":{"a":-1}}', '{"parsieve.number":0}', '{"other":' + "[" * 2000 + "]" * 2000 + ',"numRecords":1}'),
    *('{"numRecords":3,\n"nullCount":{"a":1}}', '{"b":{"b":2}]}', '{"tightBounds":1}', '{"x":"\t","numRecords":1}'),
]


def stats_text(random_: random.Random, values: list[str]) -> str:
    """Return statistics of a column `a`, as a writer could leave them."""
    if random_.random() < 0.1:
        return random_.choice(TEXTS)
    rows = random_.randrange(5)
    parts = [f'"numRecords":{rows}'] if random_.random() < 0.9 else []
    for name in ("minValues", "maxValues"):
        if random_.random() < 0.9:
            parts.append(f'"{name}":{{"b":1,"a":{random_.choice(values)}}}')
    if random_.random() < 0.9:
        parts.append(f'"nullCount":{{"a":{random_.randrange(rows + 2)}}}')
    if random_.random() < 0.3:
        parts.append(f'"tightBounds":{random_.choice(["true", "false"])}')
    random_.shuffle(parts)
    return "{" + ",".join(parts) + "}"


def as_bits(values: pa.Array) -> list[Any]:
    """Return values that compare equal only if all bits are equal."""
    return [(value, math.copysign(1, value)) if isinstance(value, float) else value for value in values.to_pylist()]


def check_equal(fast: Statistics, exact: Statistics) -> None:
    for name in ("lower", "upper", "null_count", "value_count"):
        fast_values, exact_values = getattr(fast, name), getattr(exact, name)
        fast_values.validate(full=True)
        assert fast_values.type == exact_values.type
        assert as_bits(fast_values) == as_bits(exact_values), name


def schema_of_column(kind: str) -> pa.Schema:
    field = {"name": "a", "type": kind, "nullable": True, "metadata": {}}
    return schema_of({"schemaString": json.dumps({"type": "struct", "fields": [field]})})


@pytest.mark.parametrize("kind", KINDS)
def test_statistics_read_in_bulk_equal_those_read_one_by_one(kind: str) -> None:
    schema, random_ = schema_of_column(kind), random.Random(kind)
    arrow = schema.field("a").type
    num_read = 0
    for value in VALUES:
        texts = [stats_text(random_, [value]) for _ in range(6)]
        column = pa.chunked_array([pa.array([*texts, None], pa.string())])
        clean = pa.array([random_.random() < 0.5 for _ in range(7)], pa.bool_())
        fast = statistics.statistics_of(column, schema, ("a",), clean)
        check_equal(fast, statistics._exact_statistics(column.chunk(0), ["a"], arrow, True, clean))
        rows = [statistics._count(statistics._parsed(text).get("numRecords")) for text in [*texts, None]]
        assert statistics.row_counts(column).to_pylist() == rows
        stored = statistics._stored_as(arrow)
        if stored is not None:
            num_read += sum(delta_statistics(column.chunk(0), ["a"], stored)[-1].to_pylist())
    # The compiled reader reads most of the values that are valid.
    assert num_read > len(VALUES) or kind == "binary"


@pytest.mark.parametrize("text", TEXTS)
def test_invalid_statistics_do_not_affect_those_of_other_files(text: str) -> None:
    schema = schema_of_column("long")
    valid = [f'{{"numRecords":1,"minValues":{{"a":{number}}},"maxValues":{{"a":{number}}}}}' for number in range(1500)]
    column = pa.chunked_array([pa.array([*valid[:700], text, *valid[700:], text], pa.string())])
    clean = pa.array([True] * 1502)
    fast = statistics.statistics_of(column, schema, ("a",), clean)
    check_equal(fast, statistics._exact_statistics(column.chunk(0), ["a"], pa.int64(), True, clean))
    assert fast.lower.to_pylist()[:700] == list(range(700))
    assert fast.lower.to_pylist()[701:1501] == list(range(700, 1500))


def test_statistics_are_parsed_per_file() -> None:
    """Each text gives the statistics of its own file, or none. The texts around it do not matter."""
    schema = schema_of_column("long")
    texts = [
        '{"minValues":{"a":[',
        '{"numRecords":1}]}}',
        '{"minValues":{"a":5}} {"minValues":{"a":6}}',
        '{"x":',
        "{}}",
    ]
    column = pa.chunked_array([pa.array(texts)])
    bounds = statistics.statistics_of(column, schema, ("a",), pa.array([True] * 5))
    assert bounds.lower.to_pylist() == bounds.value_count.to_pylist() == [None] * 5


def test_statistics_that_are_not_unicode_do_not_affect_those_of_other_files(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"a": [0, 1, 2], "p": [0, 1, 2]}), partition_by="p")
    entry = tmp_path / "_delta_log" / f"{0:020}.json"
    entry.write_text(entry.read_text().replace('"stats":"{', '"stats":"\\ud83d{', 1))
    bounds = open_lake(tmp_path).snapshot().statistics(("a",))
    assert bounds is not None
    lower = bounds.lower.to_pylist()
    assert (lower.count(None), len(set(lower) & {0, 1, 2})) == (1, 2)
    assert ps.open_table(tmp_path).plan("a >= 0").to_arrow().num_rows == 3


def replayed(folder: Path, version: int) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the files of a table by path and deletion vector: the actions of all commits, applied one by one."""
    files: dict[tuple[str, str], dict[str, Any]] = {}
    for number in range(version + 1):
        for line in (folder / "_delta_log" / f"{number:020}.json").read_text().splitlines():
            action = json.loads(line)
            file_action = action.get("add") or action.get("remove")
            if file_action is None:
                continue
            vector = file_action.get("deletionVector")
            offset = "" if vector is None or vector.get("offset") is None else f"@{vector['offset']}"
            key = (
                unquote(file_action["path"]),
                "" if vector is None else f"{vector['storageType']}{vector['pathOrInlineDv']}{offset}",
            )
            if "add" in action:
                files[key] = file_action
            else:
                files.pop(key, None)
    return files


def check_against_log(folder: Path, snapshot: Snapshot) -> None:
    assert isinstance(snapshot.id, int)
    files = replayed(folder, snapshot.id)
    assert len(snapshot.slices) == len(files)
    by_key = {
        (data_slice.group, (data_slice.native.vector or {}).get("pathOrInlineDv")): data_slice
        for data_slice in snapshot.slices
    }
    for (path, vector_id), add in files.items():
        vector = add.get("deletionVector")
        data_slice = by_key[path, vector and vector["pathOrInlineDv"]]
        assert data_slice.token == f"{add['size']}-{add['modificationTime']}-{vector_id}"
        assert data_slice.path == str(folder / path)
        assert (data_slice.size, data_slice.clean) == (add["size"], vector is None)
        assert data_slice.num_rows == json.loads(add["stats"])["numRecords"]
        folders = [
            f"{name}={'__HIVE_DEFAULT_PARTITION__' if text is None else text}"
            for name, text in add["partitionValues"].items()
        ]
        assert data_slice.partition == "/".join(folders)
        assert (data_slice.native.path, data_slice.native.size, data_slice.native.schema) == (
            data_slice.path,
            add["size"],
            snapshot.schema,
        )
        for name, text in add["partitionValues"].items():
            assert str(data_slice.partition_values[name]) == str(text)
            assert data_slice.native.constants[name] == data_slice.partition_values[name]
    uris = DeltaTable(str(folder), version=snapshot.id).file_uris()
    assert sorted(map(unquote, uris)) == sorted(map(unquote, snapshot.slices.path.to_pylist()))
    check_columns(snapshot)


def some_rows(step: int, part: str | None = "x") -> pa.Table:
    return pa.table(
        {
            "id": pa.array([step, step + 1], pa.int64()),
            "day": pa.array([part, part]),
            "n": pa.array([step, None], pa.int32()),
        }
    )


def test_a_second_snapshot_reads_only_new_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path)
    write_deltalake(path, some_rows(0), partition_by=["day"])
    lake, read = open_lake(path), list[str]()
    from parsieve.lake.delta import log

    original = log._read

    def recorded(storage: Any, name: str) -> bytes:
        read.append(name)
        return original(storage, name)

    monkeypatch.setattr(log, "_read", recorded)
    days = ["x", "y z", None, "ü/%", "x"]
    for step in range(1, 9):
        table = DeltaTable(path)
        if step == 4:
            table.delete("id = 2")
        elif step == 6:
            table.optimize.compact()
        elif step == 7:
            # Restore removed files.
            table.restore(3)
        else:
            write_deltalake(path, some_rows(step, days[step % 5]), mode="append")
        wait_until_old(tmp_path)
        read.clear()
        snapshot = lake.snapshot()
        assert lake.snapshot() is snapshot
        check_against_log(tmp_path, snapshot)
        if step > 1:
            assert read == [f"{step:020}.json"]
        fresh = open_lake(path).snapshot()
        assert fresh.tokens == snapshot.tokens
        for column in ("id", "n"):
            statistics_by_snapshot = {}
            for compared in (fresh, snapshot):
                statistics_of_column = compared.statistics((column,))
                assert statistics_of_column is not None
                columns = (
                    statistics_of_column.lower,
                    statistics_of_column.upper,
                    statistics_of_column.null_count,
                    statistics_of_column.value_count,
                )
                statistics_by_snapshot[id(compared)] = dict(
                    zip(
                        compared.slices.group.to_pylist(),
                        zip(*(each.to_pylist() for each in columns), strict=True),
                        strict=True,
                    )
                )
            assert statistics_by_snapshot[id(fresh)] == statistics_by_snapshot[id(snapshot)]


def test_a_new_table_at_the_same_place_is_read_from_its_beginning(tmp_path: Path) -> None:
    import shutil

    write_deltalake(str(tmp_path), some_rows(0))
    wait_until_old(tmp_path)
    lake = open_lake(str(tmp_path))
    assert lake.snapshot().id == 0
    shutil.rmtree(tmp_path)
    write_deltalake(str(tmp_path), some_rows(1))
    write_deltalake(str(tmp_path), some_rows(2), mode="append")
    check_against_log(tmp_path, lake.snapshot())


@pytest.mark.parametrize("form", ["classic", "parts", "second"])
def test_snapshots_from_checkpoints_equal_those_from_the_log(tmp_path: Path, form: str) -> None:
    path = str(tmp_path)
    for step, day in enumerate(["a", "b c", None, "d%", "a"]):
        write_deltalake(path, some_rows(step, day), mode="append", partition_by=["day"])
    DeltaTable(path).delete("id = 3")
    before = open_lake(path).snapshot()
    DeltaTable(path).create_checkpoint()
    log, version = tmp_path / "_delta_log", 5
    classic = log / f"{version:020}.checkpoint.parquet"
    table = pq.read_table(classic)
    if form == "parts":
        for part in range(2):
            name = f"{version:020}.checkpoint.{part + 1:010}.{2:010}.parquet"
            pq.write_table(table.slice(part * 4, 4 if part == 0 else None), log / name)
        classic.unlink()
    elif form == "second":
        adds = [bool(row["add"]) for row in table.to_pylist()]
        (log / "_sidecars").mkdir()
        for part in range(2):
            # Rows of other kinds between the files.
            chosen = table.filter(pa.array([not add or at % 2 == part for at, add in enumerate(adds)]))
            pq.write_table(chosen.select(["add", "remove"]), log / "_sidecars" / f"s{part}.parquet")
        others = table.filter(pa.array([not add for add in adds])).select(["metaData", "protocol"])
        kind = pa.struct({"path": pa.string(), "sizeInBytes": pa.int64(), "modificationTime": pa.int64()})
        sidecars = pa.array(
            [{"path": f"s{part}.parquet", "sizeInBytes": 1, "modificationTime": 0} for part in range(2)], kind
        )
        nothing = [pa.nulls(len(sidecars), field.type) for field in others.schema]
        rows = pa.Table.from_arrays([*nothing, sidecars], [*others.column_names, "sidecar"])
        others = others.append_column("sidecar", pa.nulls(len(others), kind))
        rows = pa.concat_tables([others.cast(_nullable(others.schema)), rows.cast(_nullable(rows.schema))])
        pq.write_table(rows, log / f"{version:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet")
        classic.unlink()
    for number in range(version):
        (log / f"{number:020}.json").rename(tmp_path / f"{number}.saved")
    snapshot = open_lake(path).snapshot()
    assert snapshot.tokens == before.tokens
    check_columns(snapshot)
    # A commit after the checkpoint removes a file of it, and adds it again.
    add = next(iter(replayed_adds(tmp_path)))
    again = {**add, "modificationTime": 5, "dataChange": True}
    actions = [{"remove": {"path": add["path"], "dataChange": True}}, {"add": again}]
    (log / f"{version + 1:020}.json").write_text("\n".join(map(json.dumps, actions)))
    after = open_lake(path).snapshot()
    changes = Changes.between(snapshot.tokens, after)
    assert [piece.group for piece in changes.changed] == [unquote(add["path"])]
    assert (changes.added, changes.removed) == ((), ())
    check_columns(after)


def _nullable(schema: pa.Schema) -> pa.Schema:
    """Return a schema whose rows may be null at every level."""

    def below(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_struct(kind):
            return pa.struct([pa.field(one.name, below(one.type)) for one in kind])
        if pa.types.is_list(kind):
            return pa.list_(below(kind.value_type))
        return pa.map_(kind.key_type, kind.item_type) if pa.types.is_map(kind) else kind

    return pa.schema([pa.field(one.name, below(one.type)) for one in schema])


def replayed_adds(folder: Path) -> list[dict[str, Any]]:
    """Return the add actions of the first commit, which was moved away."""
    lines = (folder / "0.saved").read_text().splitlines()
    return [action["add"] for action in map(json.loads, lines) if "add" in action]


def test_actions_that_violate_the_protocol_are_rejected(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), some_rows(0))
    log = tmp_path / "_delta_log" / f"{1:020}.json"
    good: dict[str, Any] = {"path": "f", "partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True}
    wrong: list[dict[str, Any]] = [{"size": None}, {"size": 2**70}, {"path": None}, {"partitionValues": {"day": 5}}]
    wrong += [{"modificationTime": "x"}, {"deletionVector": {}}, {"partitionValues": [1]}]
    wrong += [{"path": "a\0"}, {"path": "a%00"}]
    for change in wrong:
        log.write_text(json.dumps({"add": good | change}))
        with pytest.raises(ps.FormatError):
            open_lake(str(tmp_path)).snapshot()
    # Statistics that are not valid Unicode.
    log.write_text(json.dumps({"add": good | {"stats": "\ud800"}}))
    snapshot = open_lake(str(tmp_path)).snapshot()
    assert snapshot.slices[-1].num_rows is None


def test_a_file_twice_in_a_checkpoint_counts_once(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), some_rows(0))
    DeltaTable(str(tmp_path)).create_checkpoint()
    checkpoint = tmp_path / "_delta_log" / f"{0:020}.checkpoint.parquet"
    table = pq.read_table(checkpoint)
    pq.write_table(pa.concat_tables([table, table]), checkpoint)
    assert len(open_lake(str(tmp_path)).snapshot().slices) == 1


@pytest.mark.parametrize(("rows", "most_bytes"), [(1 << 13, 1 << 30), (7, 1 << 30), (50, 40)])
def test_statistics_in_many_arrays_are_taken_in_any_order(
    rows: int, most_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_ROWS", rows)
    monkeypatch.setattr(files, "_MAX_BYTES", most_bytes)
    texts = [None if at % 7 == 0 else str(at) for at in range(100)]
    column = pa.chunked_array(
        [pa.array(texts[at:end], pa.string()) for at, end in ((0, 1), (1, 60), (60, 60), (60, 100))]
    )
    random_ = random.Random(1)
    for count in (0, 1, 5, 200):
        numbers = [random_.randrange(100) for _ in range(count)]
        assert _taken(column, pa.array(numbers, pa.int64())).to_pylist() == [texts[number] for number in numbers]
