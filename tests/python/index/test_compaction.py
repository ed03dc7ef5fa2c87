"""Compactions in format 2 read the touched slices, stay exact, and purge erased rows."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.aging import wait_until_old
from support.index_bytes import without_instant
from support.models.model_lake import ModelLake, place

import parsieve as ps
from parsieve.index import TableIndex, View
from parsieve.index.log.commit import Layout
from parsieve.index.sieve import query
from parsieve.index.sieve.reader import WHOLE_SLICE
from parsieve.lake import open_lake
from parsieve.lake.base import Location, Snapshot

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string())])
SMALL = {"max_records": 40, "max_weight": 30}


def rows(*keys: int | None) -> pa.Table:
    return pa.table({"k": keys, "s": [None if key is None else f"v{key:06}" for key in keys]}, schema=SCHEMA)


def clustered(lake: ModelLake, files: int) -> Snapshot:
    """Return a table whose files have their own ranges of 20 keys."""
    return lake.change({place(f"f{n:02}"): rows(*range(n * 20, n * 20 + 20)) for n in range(files)})


def build(index: TableIndex, lake: ModelLake, snapshot: Snapshot, **layout: Any) -> View:
    layouts: dict[tuple[str, ...], Layout] = {(name,): Layout("rows", **layout) for name in ("k", "s")}
    return index.build(lake, snapshot, ["k", "s"], progress=False, options=SMALL, layouts=layouts)


def answers(view: View, snapshot: Snapshot, keys: range) -> list[set[Location]]:
    """Return the answers of a version for each key, for intervals of keys, and for nulls."""
    lookups: list[tuple[str, query.Query]] = []
    for key in keys:
        lookups.append(("k", query.equals(pa.scalar(key, pa.int64()))))
        lookups.append(("s", query.equals(pa.scalar(f"v{key:06}"))))
        lookups.append(("k", query.between(pa.scalar(key), pa.scalar(key + 7))))
    lookups += [("k", query.is_null()), ("s", query.is_not_null())]
    found = []
    for column, lookup in lookups:
        mask = view.may_match(column, lookup, snapshot.slices).to_pylist()
        found.append({piece.location for piece, keep in zip(snapshot.slices, mask, strict=True) if keep})
    return found


def present(snapshot: Snapshot) -> range:
    """Return the keys of the table, if they are a range."""
    keys = sorted({key for piece in snapshot.slices for key in piece.native["k"].to_pylist() if key is not None})
    assert keys == list(range(keys[0], keys[-1] + 1))
    return range(keys[0], keys[-1] + 1)


def test_a_compaction_reads_only_slices_in_touched_segments_and_is_exact(tmp_path: Path) -> None:
    lake = ModelLake(SCHEMA)
    index = TableIndex(tmp_path / "index")
    before = build(index, lake, clustered(lake, 20))
    after = lake.change({place("f07"): rows(*range(140, 160), 141, None), place("g"): rows(150)})
    index.update(lake, after, progress=False)
    lake.reads.clear()
    view = index.compact(lake, after, progress=False)
    # Most segments are far from the changed keys, so they stay in the old file, and their slices are not read.
    read = {location.group for location in lake.reads}
    assert read <= {"f05", "f06", "f08", "f09"}
    for path, state in view.columns.items():
        assert state.deltas == ()
        assert state.base.files[0] == before.columns[path].base.files[0]
    assert index.verify(lake, after) == []
    fresh = build(TableIndex(tmp_path / "fresh"), lake, after)
    assert answers(view, after, present(after)) == answers(fresh, after, present(after))


def test_compactions_stay_exact_through_random_histories(tmp_path: Path) -> None:
    r = random.Random(9)
    lake = ModelLake(SCHEMA)
    index = TableIndex(tmp_path / "index")
    snapshot = clustered(lake, 20)
    build(index, lake, snapshot)
    kept_files = 0
    for step in range(25):
        changes: dict[Location, pa.Table | None] = {}
        for _ in range(r.randrange(1, 3)):
            low = r.randrange(400)
            keys = [r.randrange(low, low + 10) for _ in range(r.randrange(1, 12))]
            changes[place(f"r{r.randrange(6)}")] = rows(*keys, *([None] if r.random() < 0.3 else []))
        live = [piece.location for piece in snapshot.slices if piece.group.startswith("r")]
        if live and r.random() < 0.4:
            changes[r.choice(live)] = None
        snapshot = lake.change(changes)
        index.update(lake, snapshot, progress=False, compaction=False)
        if r.random() < 0.5:
            view = index.compact(lake, snapshot, progress=False, purge=r.random() < 0.1)
            assert index.verify(lake, snapshot) == []
            fresh = build(TableIndex(tmp_path / f"fresh{step}"), lake, snapshot)
            assert answers(view, snapshot, range(400)) == answers(fresh, snapshot, range(400))
            kept_files += sum(len(state.base.files) > 1 for state in view.columns.values())
    assert kept_files > 3


def test_compactions_with_stored_keys_do_not_read_the_table(tmp_path: Path) -> None:
    lake = ModelLake(SCHEMA)
    index = TableIndex(tmp_path / "index")
    build(index, lake, clustered(lake, 8), keep_keys=True)
    after = lake.change({place("f02"): rows(*range(40, 60), 45), place("f03"): None, place("g"): rows(61, None)})
    index.update(lake, after, progress=False)
    lake.reads.clear()
    # Not even the table is needed.
    view = index.compact(progress=False)
    assert lake.reads == []
    assert all(state.deltas == () for state in view.columns.values())
    assert index.verify(lake, after) == []
    fresh = build(TableIndex(tmp_path / "fresh"), lake, after)
    keys = range(40, 60)
    assert answers(view, after, keys) == answers(fresh, after, keys)


@pytest.mark.parametrize("damage", ["flipped", "missing"])
def test_a_compaction_reads_the_table_if_stored_keys_are_damaged(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    lake = ModelLake(SCHEMA)
    index = TableIndex(tmp_path)
    build(index, lake, clustered(lake, 3), keep_keys=True)
    damage_keys(tmp_path, damage)
    after = lake.change({place("g"): rows(61, None)})
    view = index.update(lake, after, progress=False)
    assert all(state.deltas for state in view.columns.values())
    with pytest.raises(ps.FormatError, match=r"cannot compact the index of .*; build it again: "):
        index.compact(progress=False)
    view = index.compact(lake, after, progress=False)
    assert "cannot be read, so compaction reads the table: " in caplog.text
    assert all(state.deltas == () for state in view.columns.values())
    assert index.verify(lake, after) == []


def damage_keys(index: Path, damage: str) -> None:
    for file in (index / "segments").iterdir():
        stored = file.read_bytes()
        file.unlink()
        if damage == "flipped":
            at = stored.rindex(b"SvK1") + 6
            file.write_bytes(stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :])


def test_a_compaction_needs_the_table_unless_the_index_has_the_keys(tmp_path: Path) -> None:
    lake = ModelLake(SCHEMA)
    index = TableIndex(tmp_path)
    build(index, lake, clustered(lake, 3))
    index.update(lake, lake.change({place("g"): rows(1)}), progress=False)
    with pytest.raises(ValueError, match="pass the lake and a snapshot"):
        index.compact()


def test_slices_that_cannot_be_read_again_lose_their_binding(tmp_path: Path) -> None:
    lake = ModelLake(SCHEMA)
    index = TableIndex(tmp_path)
    build(index, lake, clustered(lake, 4))
    index.update(lake, lake.change({place("g"): rows(25, 45)}), progress=False)
    # The table changes before the compaction: one slice has other rows, and another one is gone.
    later = lake.change({place("f01"): rows(1000), place("f02"): None})
    view = index.compact(lake, later, progress=False)
    bound = {location.group for location, token in view.reader("k").bound.items() if token}
    assert bound == {"f00", "f03", "g"}
    mask = view.may_match("k", query.equals(pa.scalar(5)), later.slices).to_pylist()
    assert {piece.group for piece, keep in zip(later.slices, mask, strict=True) if keep} == {"f00", "f01"}
    lake.reads.clear()
    index.update(lake, later, progress=False)
    assert lake.reads == [place("f01")]
    assert index.verify(lake, later) == []


def test_an_update_compacts_once_a_quarter_of_the_entries_is_masked(tmp_path: Path) -> None:
    lake = ModelLake(SCHEMA)
    index = TableIndex(tmp_path)
    build(index, lake, clustered(lake, 12))
    view = index.update(lake, lake.change({place("f01"): None, place("f02"): None}), progress=False)
    assert (view.version, view.reader("k").bindings.next_id) == (2, 12)
    # With the third slice, a quarter is masked: the update is followed by a build with new ids.
    lake.reads.clear()
    snapshot = lake.change({place("f03"): None})
    view = index.update(lake, snapshot, progress=False)
    assert (view.version, view.reader("k").bindings.next_id) == (4, 9)
    assert len(set(lake.reads)) == 9
    assert index.verify(lake, snapshot) == []


def test_a_purge_gives_up_if_another_writer_updates_the_index(tmp_path: Path) -> None:
    lake = ModelLake(SCHEMA)
    index, theirs = TableIndex(tmp_path), TableIndex(tmp_path)
    snapshot = clustered(lake, 4)
    build(index, lake, snapshot)
    later = lake.change({place("g"): rows(7)})

    class Meanwhile:
        def __getattr__(self, name: str) -> Any:
            if name == "read_keys":
                theirs.update(lake, later, progress=False)
            return getattr(lake, name)

    with pytest.raises(ps.ConflictError, match="try again"):
        index.compact(Meanwhile(), snapshot, purge=True, progress=False)  # type: ignore[arg-type]
    assert index.log.newest().version == 2  # type: ignore[union-attr]
    assert index.verify(lake, later) == []
    assert index.compact(lake, later, purge=True, progress=False).version == 3
    assert index.verify(lake, later) == []


def test_a_damaged_index_is_read_from_the_table_again(tmp_path: Path) -> None:
    lake = ModelLake(SCHEMA)
    index = TableIndex(tmp_path)
    view = build(index, lake, clustered(lake, 6))
    for part in (view.columns["k",].base.root, view.columns["s",].base.files[0]):
        data = bytearray((tmp_path / part.name).read_bytes())
        data[len(data) // 2] ^= 1
        (tmp_path / part.name).write_bytes(data)
    snapshot = lake.change({place("g"): rows(*range(120))})
    index.update(lake, snapshot, progress=False)
    assert index.verify(lake, snapshot) != []
    index.compact(lake, snapshot, progress=False)
    assert index.verify(lake, snapshot) == []


def files_with(folder: Path, text: bytes) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and text in path.read_bytes()]


@pytest.mark.parametrize("keep_keys", [False, True])
def test_a_purge_leaves_nothing_of_erased_rows(tmp_path: Path, keep_keys: bool) -> None:
    """Search the bytes of all files for the erased key, and compare the index with one that never had it."""
    folder, twin = tmp_path / "table", tmp_path / "twin"
    secret = "zz-erased-person-0815"

    def write(where: Path, name: str, keys: list[str]) -> None:
        where.mkdir(exist_ok=True)
        pq.write_table(pa.table({"s": keys}), where / name, row_group_size=50)

    for number in range(6):
        keys = [f"user-{key:05}" for key in range(number, 600, 6)]
        write(twin, f"{number}.parquet", keys)
        write(folder, f"{number}.parquet", [*keys, secret] if number in (2, 4) else keys)
    wait_until_old(tmp_path)
    table = ps.open_table(folder, index_location=tmp_path / "index")
    table.build_index("s", "sieve", keep_keys=keep_keys, progress=False)
    assert len(table.plan(f"s = '{secret}'").files) == 2
    for number in (2, 4):
        write(folder, f"{number}.parquet", [f"user-{key:05}" for key in range(number, 600, 6)])
    wait_until_old(tmp_path)
    table.update_index(progress=False, compact=False)
    # The greatest key of a unit is stored as it is, so the search finds it.
    assert files_with(tmp_path / "index", secret.encode())

    report = table.compact_index(purge=True, progress=False)
    assert report.files_read == 6
    assert files_with(tmp_path / "index", secret.encode())
    assert table.expire_index(0).remaining == ()
    assert files_with(tmp_path / "index", secret.encode()) == []
    assert files_with(tmp_path / "index", b"erased") == []
    assert table.verify_index() == []

    # Every byte of the new base equals the index of a table that never had the rows, except for its instant.
    other = ps.open_table(twin, index_location=tmp_path / "other")
    other.build_index("s", "sieve", keep_keys=keep_keys, progress=False)
    ours, theirs = (view.columns["s",].base for view in (newest(table), newest(other)))
    assert len(ours.files) == len(theirs.files)
    for left, right in zip(ours.files, theirs.files, strict=True):
        if left.name:
            assert (tmp_path / "index" / left.name).read_bytes() == (tmp_path / "other" / right.name).read_bytes()
    roots = [(tmp_path / folder / base.root.name).read_bytes() for folder, base in (("index", ours), ("other", theirs))]
    assert without_instant(roots[0]) == without_instant(roots[1])


def newest(table: ps.Table) -> View:
    view = table.opened.index.newest()
    assert view is not None
    return view


def test_a_compaction_without_purge_is_reported_with_the_files_it_read(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    folder.mkdir()
    for number in range(4):
        pq.write_table(pa.table({"k": range(number * 100, number * 100 + 100)}), folder / f"{number}.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(folder, index_location=tmp_path / "index")
    table.build_index("k", progress=False)
    assert str(table.compact_index()).startswith("nothing to compact; ")
    pq.write_table(pa.table({"k": [150, 1000]}), folder / "9.parquet")
    wait_until_old(tmp_path)
    table.update_index(progress=False)
    report = table.compact_index(progress=False)
    assert (report.columns, report.updates_merged) == (("k",), 1)
    assert (report.files_read, report.rows) == (4, 400)
    assert "; read 4 files, 400 rows again; " in str(report)
    assert report.left_out == ()


def unit_answer(view: View, lookup: query.Query) -> set[tuple[Location, int]]:
    """Return the units that may match, by location."""
    reader = view.reader("k")
    answer = reader.find_units(lookup)
    assert answer is not None
    locations = {slice_id: location for location, slice_id in (reader.bindings.ids or {}).items()}
    units = set()
    for slice_id, unit in zip(answer.ids.to_pylist(), answer.units.to_pylist(), strict=True):
        if slice_id in locations:
            ranges = reader.unit_ranges(pa.array([slice_id], pa.uint32()))[0]
            assert ranges is not None
            chosen = range(len(ranges[1])) if unit == WHOLE_SLICE else [unit]
            units |= {(locations[slice_id], each) for each in chosen}
    return units


def test_compactions_are_exact_for_row_groups(tmp_path: Path) -> None:
    """Compare units with brute force, in files with several row groups that share keys with other files."""
    r = random.Random(4)
    folder = tmp_path / "table"
    folder.mkdir()
    keys: dict[str, list[int]] = {}

    def write(name: str, values: list[int]) -> None:
        keys[name] = values
        pq.write_table(pa.table({"k": pa.array(values, pa.int64())}), folder / name, row_group_size=10)

    for number in range(12):
        low = number * 100
        write(f"{number:02}.parquet", [r.randrange(low, low + 110) for _ in range(60)])
    lake = open_lake(str(folder))
    index = TableIndex(tmp_path / "index")
    layouts: dict[tuple[str, ...], Layout] = {("k",): Layout("row_group")}
    index.build(lake, lake.snapshot(), ["k"], progress=False, options=SMALL, layouts=layouts)
    kept = 0
    for step in range(4):
        number = r.randrange(12)
        write(f"{number:02}.parquet", [r.randrange(number * 100, number * 100 + 110) for _ in range(45)])
        write(f"late-{step}.parquet", [r.randrange(step * 50, step * 50 + 30) for _ in range(25)])
        # The update waits until the new files can be indexed.
        index.update(lake, lake.snapshot(), progress=False, compaction=False)
        snapshot = lake.snapshot()
        view = index.compact(lake, snapshot, progress=False)
        kept += len(view.columns["k",].base.files) > 1
        assert index.verify(lake, snapshot) == []
        for key in sorted({key for values in keys.values() for key in values}):
            expected = {
                (place(name), position // 10)
                for name, values in keys.items()
                for position, value in enumerate(values)
                if value == key
            }
            assert unit_answer(view, query.equals(pa.scalar(key, pa.int64()))) == expected
    assert kept > 1
