"""Versions of an index: builds, lookups, updates, compaction, time travel and expiry."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import random
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.index_bytes import without_instant
from support.models.model_lake import ModelLake, place

from parsieve import ColumnNotFoundError, ConflictError, FormatError, UnsupportedError, _core
from parsieve.index import LocalStore, ObjectStore, TableIndex
from parsieve.index.sieve import query
from parsieve.index.sieve.delta import Difference
from parsieve.lake import open_lake
from parsieve.lake.base import ColumnPath, Location, Slice, Snapshot
from parsieve.lake.slices import SliceObjects

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string()), ("n", pa.struct([("x", pa.float64())]))])


def rows(*keys: int | None) -> pa.Table:
    texts = [None if key is None else f"text-{key:04}" for key in keys]
    nested = [None if key is None else {"x": float("nan") if key % 7 == 0 else key / 2} for key in keys]
    return pa.table({"k": keys, "s": texts, "n": nested}, schema=SCHEMA)


def point(value: int) -> query.Query:
    return query.equals(pa.scalar(value, pa.int64()))


def start(tmp_path: Path, columns: list[str] | None = None) -> tuple[ModelLake, TableIndex]:
    lake = ModelLake(SCHEMA)
    snapshot = lake.change({place("a"): rows(1, 2, 3), place("b"): rows(3, 7, None), place("c", "p=1"): rows(20)})
    index = TableIndex(tmp_path / "index")
    index.build(lake, snapshot, columns or ["k", "s", "n.x"], progress=False)
    return lake, index


def kept_groups(index: TableIndex, column: str, condition: query.Query, snapshot: Snapshot) -> set[str]:
    view = index.at(snapshot)
    assert view is not None
    mask = view.may_match(column, condition, snapshot.slices).to_pylist()
    return {data_slice.group for data_slice, keep in zip(snapshot.slices, mask, strict=True) if keep}


def test_one_scan_builds_the_indexes_of_several_columns(tmp_path: Path) -> None:
    lake, index = start(tmp_path)
    snapshot = lake.snapshot()
    assert sorted(lake.reads) == sorted(data_slice.location for data_slice in snapshot.slices)
    assert kept_groups(index, "k", point(3), snapshot) == {"a", "b"}
    assert kept_groups(index, "k", point(20), snapshot) == {"c"}
    assert kept_groups(index, "k", query.between(pa.scalar(4), pa.scalar(19)), snapshot) == {"b"}
    assert kept_groups(index, "k", query.is_null(), snapshot) == {"b"}
    assert kept_groups(index, "s", query.prefix("text-002"), snapshot) == {"c"}
    assert kept_groups(index, "n.x", query.is_nan(), snapshot) == {"b"}
    assert kept_groups(index, "n.x", query.equals(pa.scalar(1.5)), snapshot) == {"a", "b"}
    view = index.newest()
    assert view is not None
    assert view.lookup("k", point(20)) == {Location("p=1", "c")}
    assert view.token(Location("p=1", "c")) == view.token(Location("p=1", "c"), "k") != ""
    assert view.token(place("nowhere")) is None
    with pytest.raises(ColumnNotFoundError, match=r"indexed columns: k, n\.x, s"):
        view.lookup("nothing", point(1))


def test_changed_and_new_slices_are_kept(tmp_path: Path) -> None:
    lake, index = start(tmp_path)
    changed = lake.change({place("a"): rows(99), place("new"): rows(1)})
    assert kept_groups(index, "k", point(20), changed) == {"a", "new", "c"}


def test_an_update_reads_only_changed_slices(tmp_path: Path) -> None:
    lake, index = start(tmp_path)
    before = lake.snapshot()
    after = lake.change({place("a"): rows(1, 50), place("b"): None, place("d"): rows(3)})
    lake.reads.clear()
    index.update(lake, after, progress=False, compaction=False)
    assert sorted(lake.reads) == [place("a"), place("d")]
    assert kept_groups(index, "k", point(3), after) == {"d"}
    assert kept_groups(index, "k", point(50), after) == {"a"}
    # The version of the earlier snapshot still answers for it.
    assert kept_groups(index, "k", point(3), before) == {"a", "b"}
    view = index.newest()
    assert view is not None
    assert (view.version, view.table.id) == (2, 2)
    # Without changes, an update commits nothing.
    assert index.update(lake, after, compaction=False).version == 2
    index.update(lake, lake.change({}), compaction=False)
    assert index.newest().version == 3  # type: ignore[union-attr]


def test_a_compaction_equals_a_build_byte_for_byte(tmp_path: Path) -> None:
    lake, index = start(tmp_path)
    r = random.Random(3)
    for _ in range(5):
        changes = {
            place(f"f{r.randrange(6)}"): rows(*(r.randrange(40) for _ in range(r.randrange(1, 20)))) for _ in range(3)
        }
        index.update(lake, lake.change(changes), progress=False)
    view = index.compact(lake, lake.snapshot(), purge=True)
    rebuilt = TableIndex(tmp_path / "other")
    other = rebuilt.build(lake, lake.snapshot(), ["k", "s", "n.x"], progress=False)
    for path, state in view.columns.items():
        assert state.deltas == ()
        ours, theirs = state.base, other.columns[path].base
        assert [index.store.get(part.name) for part in ours.files] == [
            rebuilt.store.get(part.name) for part in theirs.files
        ]
        left, right = index.store.get(ours.root.name), rebuilt.store.get(theirs.root.name)
        assert without_instant(left) == without_instant(right)
    for key in range(40):
        truth = {group for group, table in tables_by_group(lake).items() if key in table.column("k").to_pylist()}
        assert truth <= kept_groups(index, "k", point(key), lake.snapshot())
    assert index.verify(lake, lake.snapshot()) == []


def tables_by_group(lake: ModelLake) -> dict[str, pa.Table]:
    return {location.group: table for location, (_, table) in lake.states[-1].items()}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("memory", [1 << 20, 1 << 30])
def test_threads_and_memory_do_not_change_a_byte(tmp_path: Path, threads: int, memory: int) -> None:
    lake = ModelLake(SCHEMA)
    r = random.Random(1)
    tables = {place(f"f{number}"): rows(*(r.randrange(30_000) for _ in range(4000))) for number in range(12)}
    snapshot = lake.change(tables)
    names = {"k": 0, "s": 0}
    files: list[list[bytes]] = []
    for effort in [{"threads": threads, "memory": memory}, {"threads": 2, "memory": 64 << 20}]:
        index = TableIndex(tmp_path / str(len(files)))
        view = index.build(lake, snapshot, list(names), progress=False, spill=tmp_path, **effort)  # type: ignore[arg-type]
        bases = [view.columns[(name,)].base for name in names]
        files.append([index.store.get(part.name) for base in bases for part in (base.root, *base.files)])
    assert files[0] == files[1]


def test_an_index_follows_a_renamed_column_and_not_its_name(tmp_path: Path) -> None:
    def schema(*names: tuple[str, int]) -> pa.Schema:
        return pa.schema(
            [pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(number)}) for name, number in names]
        )

    lake = ModelLake(schema(("k", 1), ("v", 2)))
    table = pa.table({"k": [1], "v": [2]})
    index = TableIndex(tmp_path)
    index.build(lake, lake.change({place("a"): table}), ["k", "v"], progress=False)
    renamed = table.rename_columns(["id", "v"])
    view = index.update(lake, lake.change({place("b"): renamed}, schema(("id", 1), ("v", 3))), progress=False)
    assert list(view.columns) == [("id",)]
    assert view.find("k", field_id=1) == ("id",)
    assert view.lookup("id", point(1)) == {place("a"), place("b")}


def test_an_index_is_rebuilt_if_the_type_of_a_column_changes(tmp_path: Path) -> None:
    lake, index = start(tmp_path, ["k"])
    schema = pa.schema([("k", pa.timestamp("us"))])
    tables: Any = {place(name): None for name in "ab"} | {place("c", "p=1"): pa.table({"k": [5]}, schema=schema)}
    view = index.update(lake, lake.change(tables, schema), progress=False)
    assert view.lookup("k", query.equals(pa.scalar(5, pa.timestamp("us")))) == {Location("p=1", "c")}


def test_dropping_and_expiring_keep_the_other_versions_correct(tmp_path: Path) -> None:
    lake, index = start(tmp_path)
    before = lake.snapshot()
    for key in range(3):
        index.update(lake, lake.change({place("a"): rows(key)}), progress=False, compaction=False)
    index.compact(lake, lake.snapshot())
    index.drop(["s"])
    assert set(index.newest().columns) == {("k",), ("n", "x")}  # type: ignore[union-attr]
    old = index.at(before)
    assert old is not None
    assert old.version == 1
    assert index.expire(dt.timedelta(days=1)).versions_removed == 0
    moment = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=5)
    report = index.expire(moment, garbage_age=dt.timedelta(seconds=-5))
    assert report.versions_removed == 5
    assert report.files_removed > 5
    # The remaining version is complete and correct. The expired version keeps the files that it covered.
    assert index.verify(lake, lake.snapshot()) == []
    assert kept_groups(index, "k", point(2), lake.snapshot()) == {"a"}
    assert all(old.may_match("k", point(99), before.slices).to_pylist()[0:1])
    assert kept_groups(index, "k", point(99), before) == {"a"}
    with pytest.raises(ValueError, match="zone"):
        index.expire(dt.datetime(2020, 1, 1))
    with pytest.raises(TypeError, match="timedelta"):
        index.expire("7")  # type: ignore[arg-type]


def test_versions_are_found_by_snapshot_and_by_instant(tmp_path: Path) -> None:
    lake, index = start(tmp_path)
    for key in range(120):
        index.update(lake, lake.change({place("a"): rows(key + 1000)}), progress=False, compaction=key % 50 == 0)
    for number in (1, 2, 5, 60, 121):
        view = index.at(lake.snapshot(number))
        assert view is not None
        assert view.table.id == number
        assert view.version == index.at(number).version  # type: ignore[union-attr]
    assert index.at(Snapshot(None, 55, SCHEMA, SliceObjects(()))).table.id == 5  # type: ignore[union-attr]
    requests = index.store.requests
    assert index.at(Snapshot(999, 10**6, SCHEMA, SliceObjects(()))) is index.newest()
    assert index.store.requests == requests
    reopened = TableIndex.open(tmp_path / "index")
    assert reopened is not None
    assert kept_groups(reopened, "k", point(1059), lake.snapshot(61)) == {"a"}
    assert kept_groups(reopened, "k", point(1059), lake.snapshot(62)) == set()


def test_a_cold_lookup_costs_few_requests(tmp_path: Path) -> None:
    lake = ModelLake(SCHEMA)
    r = random.Random(9)
    snapshot = lake.change(
        {place(f"f{number}"): rows(*(r.randrange(10**6) for _ in range(3000))) for number in range(20)}
    )
    index = TableIndex(tmp_path)
    index.build(lake, snapshot, ["k"], progress=False)
    cold = TableIndex.open(tmp_path)
    assert cold is not None
    view = cold.newest()
    assert view is not None
    view.reader("k").numbers  # noqa: B018 - the root is cached from here on
    view.reader("k").bound  # noqa: B018
    requests, fetched = cold.store.requests, cold.store.bytes_fetched
    view.may_match("k", point(4711), snapshot.slices)
    assert cold.store.requests - requests <= 1
    assert cold.store.bytes_fetched - fetched <= 64 << 10
    view.may_match("k", query.between(pa.scalar(1000), pa.scalar(1100)), snapshot.slices)
    assert cold.store.requests - requests <= 2
    stats = cold.stats("k")
    assert stats.rows == 60_000
    assert stats.bits_per_row > 0
    assert stats.waste_per_key == 0
    # Fingerprints reject nearly all missing keys.
    assert 0 < stats.reads_of_absent_keys <= 0.02


def test_empty_tables_are_indexed_and_unsupported_columns_are_rejected(tmp_path: Path) -> None:
    lake = ModelLake(pa.schema([("k", pa.int64()), ("d", pa.decimal256(50, 1)), ("l", pa.list_(pa.int8()))]))
    index = TableIndex(tmp_path)
    assert TableIndex.open(tmp_path) is None
    for column, error in [("d", UnsupportedError), ("l", UnsupportedError), ("z", ColumnNotFoundError)]:
        with pytest.raises(error):
            index.build(lake, lake.snapshot(), [column])
    with pytest.raises(FileNotFoundError, match="build one first"):
        index.update(lake, lake.snapshot())
    view = index.build(lake, lake.snapshot(), ["k"])
    assert view.lookup("k", point(1)) == set()
    table = pa.table({"k": [1], "d": [None], "l": [[1]]}, schema=lake.schema)
    view = index.update(lake, lake.change({place("a"): table}))
    assert view.lookup("k", point(1)) == {place("a")}
    assert index.compact(lake, lake.snapshot()).lookup("k", point(1)) == {place("a")}
    view = index.update(lake, lake.change({place("a"): None}))
    assert view.lookup("k", point(1)) == set()
    assert index.compact(lake, lake.snapshot()).lookup("k", query.is_not_null()) == set()


def test_a_slice_with_another_type_is_always_kept(tmp_path: Path) -> None:
    lake, index = start(tmp_path, ["k"])
    odd = pa.table({"k": pa.array([1.5])})
    after = lake.change({place("odd"): odd})
    index.update(lake, after)
    assert kept_groups(index, "k", point(20), after) == {"c", "odd"}
    index.compact(lake, after)
    assert kept_groups(index, "k", point(20), after) == {"c", "odd"}
    assert index.verify(lake, after) == []


def test_a_literal_of_another_type_keeps_all_slices(tmp_path: Path) -> None:
    lake, index = start(tmp_path, ["k"])
    text = query.equals(pa.scalar("1"))
    assert kept_groups(index, "k", text, lake.snapshot()) == {"a", "b", "c"}
    reader = index.at(lake.snapshot()).reader("k")  # type: ignore[union-attr]
    assert "integer" in reader.refusal(text)  # type: ignore[operator]
    assert reader.refusal(query.equals(pa.scalar(1))) is None


def test_an_index_in_an_object_store_works_like_a_local_one(tmp_path: Path) -> None:
    from obstore.store import MemoryStore

    lake = ModelLake(SCHEMA)
    snapshot = lake.change({place("a"): rows(1, 2), place("b"): rows(3)})
    memory = MemoryStore()
    index = TableIndex((memory, "some/prefix"))
    index.build(lake, snapshot, ["k"], progress=False)
    assert kept_groups(index, "k", point(3), snapshot) == {"b"}
    after = lake.change({place("b"): rows(4)})
    index.update(lake, after)
    index.compact(lake, after)
    reopened = TableIndex.open(ObjectStore(memory, "some/prefix"))
    assert reopened is not None
    assert kept_groups(reopened, "k", point(4), after) == {"b"}
    assert reopened.verify(lake, after) == []
    assert all(entry.name.rpartition(".")[2] != "parquet" for entry in reopened.store.list("segments"))


def test_a_commit_is_never_overwritten(tmp_path: Path) -> None:
    from obstore.store import MemoryStore

    for store in [LocalStore(tmp_path / "new" / "folder"), ObjectStore(MemoryStore())]:
        assert store.list("commits") == []
        assert store.put_if_absent("commits/v1", b"one")
        assert not store.put_if_absent("commits/v1", b"two")
        assert store.get("commits/v1") == b"one"
        store.put("x/long", b"0123456789" * 1000)
        assert store.get_ranges("x/long", [(9990, 10_005), (3, 5), (4, 6)]) == [b"0123456789", b"34", b"45"]
        assert [(entry.name, entry.size) for entry in store.list("commits")] == [("commits/v1", 3)]
        store.delete("commits/v1")
        store.delete("commits/v1")
        with pytest.raises(FileNotFoundError):
            store.get("commits/v1")
    assert not [name for _, _, names in os.walk(tmp_path) for name in names if name.startswith(".tmp")]


def test_verify_finds_a_false_negative(tmp_path: Path) -> None:
    lake, index = start(tmp_path, ["k"])
    snapshot = lake.snapshot()
    # Rows change, but not the token. No format does this; in a broken one, the index would lose rows.
    token, _ = lake.states[-1][place("a")]
    lake.states[-1][place("a")] = (token, rows(1, 2, 777, None))
    problems = index.verify(lake, lake.snapshot())
    assert [(problem.part, problem.loses_rows) for problem in problems] == [("a", True)]
    assert "key" in problems[0].problem
    assert index.verify(lake, snapshot) == []


def test_an_update_that_exceeds_its_memory_rebuilds_the_index(tmp_path: Path) -> None:
    lake, index = start(tmp_path, ["k", "n.x"])
    r = random.Random(2)
    after = lake.change(
        {place(f"big{number}"): rows(*(r.randrange(10**9) for _ in range(30_000))) for number in range(2)}
    )
    view = index.update(lake, after, memory=1 << 20, progress=False)
    assert {path: len(state.deltas) for path, state in view.columns.items()} == {("k",): 0, ("n", "x"): 0}
    assert index.verify(lake, after) == []
    view = index.update(lake, lake.change({place("a"): rows(6)}), memory=1 << 20, progress=False)
    assert [len(state.deltas) for state in view.columns.values()] == [1, 1]


def test_verify_checks_bloom_indexes(tmp_path: Path) -> None:
    lake = ModelLake(SCHEMA)
    snapshot = lake.change({place("a"): rows(1, 2, None), place("b"): rows(3, 7), place("c"): rows()})
    index = TableIndex(tmp_path)
    index.build_bloom(lake, snapshot, ["k", "n.x"])
    assert index.verify(lake, snapshot) == []
    token, _ = lake.states[-1][place("b")]
    lake.states[-1][place("b")] = (token, rows(3, 7, 12345))
    problems = index.verify(lake, lake.snapshot())
    assert {(problem.column, problem.part, problem.loses_rows) for problem in problems} == {
        (("k",), "b", True),
        (("n", "x"), "b", True),
    }
    for path in sorted((tmp_path / "shelves").iterdir()):
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        assert [(path.name in problem.part, problem.loses_rows) for problem in index.verify()] == [(True, False)]
        path.unlink()
        assert [(path.name in problem.part + problem.problem, problem.loses_rows) for problem in index.verify()] == [
            (True, False)
        ]
        path.write_bytes(data)
    index.drop()
    moment = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=5)
    index.expire(moment, garbage_age=dt.timedelta(seconds=-5))
    assert list((tmp_path / "shelves").iterdir()) == []


def test_a_damaged_newest_version_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    _, _ = start(tmp_path)
    path = tmp_path / "index" / "log" / f"v{1:020d}"
    data = path.read_bytes()
    for broken, error in [
        (data[:-1], FormatError),
        (data.replace(b" 2 ", b" 3 ", 1), UnsupportedError),
        (b"", FormatError),
    ]:
        path.write_bytes(broken)
        with pytest.raises(error, match=path.name):
            TableIndex.open(tmp_path / "index")
    assert issubclass(_core.FormatError, Exception)


def test_updates_use_given_differences_and_read_other_slices(tmp_path: Path) -> None:
    lake, index = start(tmp_path, ["k", "s"])
    view = index.newest()
    assert view is not None
    before = {location: token for location, (token, _) in lake.states[-1].items()}
    # In the second change, one of two rows with key 3 is deleted and 8 is inserted in a, and the null is deleted in b.
    first = lake.change({place("a"): rows(1, 3, 3)})
    index.update(lake, first, progress=False)
    second = lake.change({place("a"): rows(1, 3, 8), place("b"): rows(3, 7), Location("p=1", "c"): rows(20, 21)})
    tokens = {data_slice.location: data_slice.token for data_slice in second.slices}
    differences = {
        place("a"): Difference(
            {data_slice.location: data_slice.token for data_slice in first.slices}[place("a")],
            tokens[place("a")],
            inserted=rows(8).to_batches(),
            deleted=rows(3).to_batches(),
        ),
        place("b"): Difference(before[place("b")], tokens[place("b")], deleted=rows(None).to_batches()),
        # Ignored, since it starts from another token than the indexed one.
        Location("p=1", "c"): Difference("t0", tokens[Location("p=1", "c")]),
    }
    lake.reads.clear()
    index.update(lake, second, differences=differences, progress=False)
    assert lake.reads == [Location("p=1", "c")]
    assert kept_groups(index, "k", point(8), second) >= {"a"}
    assert kept_groups(index, "k", point(3), second) == {"a", "b"}
    assert kept_groups(index, "k", point(21), second) == {"c"}
    # Before a compaction, the index cannot prove that b has no null left.
    assert kept_groups(index, "k", query.is_null(), second) == {"b"}
    index.compact(lake, second, purge=True)
    assert kept_groups(index, "k", query.is_null(), second) == set()
    assert kept_groups(index, "k", point(3), second) == {"a", "b"}
    assert index.verify(lake, second) == []
    rebuilt = TableIndex(tmp_path / "other").build(lake, second, ["k", "s"], progress=False)
    for path, state in index.newest().columns.items():  # type: ignore[union-attr]
        ours, theirs = state.base.files[0], rebuilt.columns[path].base.files[0]
        assert index.store.get(ours.name) == rebuilt.store.get(theirs.name)


def test_slices_that_cannot_be_read_are_kept_and_read_again(tmp_path: Path) -> None:
    class Busy(ModelLake):
        broken: tuple[str, ...] = ()

        def read_keys(self, data_slice: Slice, columns: Sequence[ColumnPath]) -> Iterator[pa.RecordBatch]:
            if data_slice.group in self.broken:
                raise ConflictError(f"{data_slice.group} was changed by another writer")
            yield from super().read_keys(data_slice, columns)

    lake = Busy(SCHEMA)
    snapshot = lake.change({place("a"): rows(1), place("b"): rows(2), place("c"): rows(3)})
    index = TableIndex(tmp_path)
    lake.broken = ("a", "b", "c")
    with pytest.raises(ConflictError, match="another writer"):
        index.build(lake, snapshot, ["k"], progress=False)
    assert TableIndex.open(tmp_path) is None
    lake.broken = ("b",)
    index.build(lake, snapshot, ["k"], progress=False)
    assert kept_groups(index, "k", point(1), snapshot) == {"a", "b"}
    index.compact(lake, snapshot, options={})
    assert kept_groups(index, "k", point(1), snapshot) == {"a", "b"}
    lake.broken = ()
    lake.reads.clear()
    index.update(lake, snapshot, progress=False)
    assert lake.reads == [place("b")]
    assert kept_groups(index, "k", point(1), snapshot) == {"a"}
    lake.broken = ("c",)
    after = lake.change({place("c"): rows(1)})
    index.update(lake, after, progress=False)
    assert kept_groups(index, "k", point(2), after) == {"b", "c"}


def test_a_plain_folder_is_indexed(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.mkdir()
    for name, keys in [("a", [1, 5]), ("b", [3, 9])]:
        pq.write_table(pa.table({"k": keys}), table / f"{name}.parquet")
    lake = open_lake(table)
    snapshot = lake.snapshot()
    index = TableIndex.of(lake)
    index.build(lake, snapshot, ["k"], progress=False)
    snapshot = lake.snapshot()
    assert kept_groups(index, "k", point(3), snapshot) == {"b.parquet"}
    # The files of the index are not part of the table.
    assert {data_slice.token for data_slice in lake.snapshot().slices} == {
        data_slice.token for data_slice in snapshot.slices
    }
    assert (tmp_path / ".parsieve" / "table" / "log" / f"v{1:020d}").is_file()


def test_stored_versions_follow_the_format(tmp_path: Path) -> None:
    start(tmp_path)
    for folder, kind in [("log", "commit"), ("bindings", "bindings")]:
        for path in (tmp_path / "index" / folder).iterdir():
            head, _, body = path.read_bytes().partition(b"\n")
            assert head.decode() == f"parsieve-index {kind} 2 {hashlib.sha256(body).hexdigest()}"
            content = json.loads(zlib.decompress(body))
            if kind == "commit":
                assert sorted(content) == [
                    "blooms", "columns", "history", "operation", "parent", "table", "version", "writer", "written",
                ]  # fmt: skip
                for column in content["columns"]:
                    assert sorted(column) == [
                        "arrow", "base", "bindings", "deltas", "field_id", "format", "layout", "path", "table", "type",
                    ]  # fmt: skip
                    for name, size, digest in column["bindings"] + column["base"]["root"]:
                        data = (tmp_path / "index" / name).read_bytes()
                        assert (len(data), hashlib.sha256(data).hexdigest()) == (size, digest)
            else:
                assert content["full"]
                assert sum(len(binding["groups"]) for binding in content["bound"]) == 3
