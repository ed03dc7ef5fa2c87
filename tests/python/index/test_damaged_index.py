"""A wrong, missing or extra byte in any file of an index causes an error or keeps more files, but never loses one."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from support.models.model_lake import ModelLake, place

from parsieve import FormatError, ParsieveError
from parsieve.index import TableIndex
from parsieve.index.log.commit import Commit
from parsieve.index.sieve import query
from parsieve.io import document
from parsieve.lake.base import Location, Snapshot

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string())])


def rows(*keys: int | None) -> pa.Table:
    return pa.table({"k": keys, "s": [None if key is None else f"v{key:03}" for key in keys]}, schema=SCHEMA)


def make_index(folder: Path) -> Snapshot:
    """Create an index with every kind of file: two files of bindings, a base and deltas."""
    lake = ModelLake(SCHEMA)
    tables = {
        place(f"f{number}", f"p={number % 2}"): rows(number, number + 10, 5, None if number == 2 else 8)
        for number in range(6)
    }
    index = TableIndex(folder)
    index.build(lake, lake.change(tables), ["k", "s"], progress=False)
    snapshot = lake.change({place("f1", "p=1"): rows(40, 5), place("new"): rows(41, None)})
    index.update(lake, snapshot, progress=False)
    return snapshot


def conditions() -> list[tuple[str, query.Query]]:
    points = [("k", query.equals(pa.scalar(key, pa.int64()))) for key in (0, 5, 8, 12, 40, 41)]
    ranges = [("k", query.between(pa.scalar(9), pa.scalar(40))), ("k", query.between(pa.scalar(13), None))]
    null_tests = [("k", query.is_null()), ("k", query.is_not_null())]
    strings = [("s", query.prefix("v01")), ("s", query.equals(pa.scalar("v041")))]
    return [*points, *ranges, *null_tests, *strings]


def expected_locations(snapshot: Snapshot) -> list[set[Location]]:
    def holds(column: str, condition: query.Query, table: pa.Table) -> bool:
        values = table.column(column).to_pylist()
        if condition.kind == "in":
            return condition.values.to_pylist()[0] in values  # type: ignore[union-attr]
        if condition.kind == "null":
            return None in values
        present = [value for value in values if value is not None]
        if condition.kind == "prefix":
            return any(value.startswith(condition.start.decode()) for value in present)
        low = condition.low.as_py() if condition.low is not None else -1
        high = condition.high.as_py() if condition.high is not None else 999
        return any(low <= value <= high for value in present)

    return [
        {data_slice.location for data_slice in snapshot.slices if holds(column, condition, data_slice.native)}
        for column, condition in conditions()
    ]


def count_lost(folder: Path, snapshot: Snapshot) -> int:
    """Return the number of answers that lose a location. An error loses none."""
    try:
        view = TableIndex(folder).newest()
    except ParsieveError:
        return 0
    assert view is not None
    lost = 0
    for (column, condition), expected in zip(conditions(), expected_locations(snapshot), strict=True):
        if (column,) in view.columns:
            mask = view.may_match(column, condition, snapshot.slices).to_pylist()
            kept = {data_slice.location for data_slice, keep in zip(snapshot.slices, mask, strict=True) if keep}
            lost += not expected <= kept
    return lost


def index_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_no_wrong_byte_loses_a_location(tmp_path: Path) -> None:
    snapshot = make_index(tmp_path / "index")
    assert count_lost(tmp_path / "index", snapshot) == 0
    kinds = {path.parent.name for path in index_files(tmp_path / "index")}
    assert kinds == {"commits", "log", "bindings", "roots", "segments", "deltas"}
    r = random.Random(11)
    for path in index_files(tmp_path / "index"):
        intact = path.read_bytes()
        # A sample of the positions of each file.
        positions = range(len(intact)) if len(intact) < 40 else sorted(r.sample(range(len(intact)), 40))
        for position in positions:
            path.write_bytes(
                intact[:position] + bytes([intact[position] ^ 1 << r.randrange(8)]) + intact[position + 1 :]
            )
            assert count_lost(tmp_path / "index", snapshot) == 0, (path, position)
        for resized in (intact[:-1], intact[: len(intact) // 2], b"", intact + b"\0"):
            path.write_bytes(resized)
            assert count_lost(tmp_path / "index", snapshot) == 0, (path, len(resized))
        path.write_bytes(intact)


def test_missing_and_swapped_files_are_reported_and_lose_no_location(tmp_path: Path) -> None:
    snapshot = make_index(tmp_path / "index")
    for path in index_files(tmp_path / "index"):
        if path.parent.name in ("commits", "log"):
            continue
        broken = tmp_path / "broken"
        shutil.rmtree(broken, ignore_errors=True)
        shutil.copytree(tmp_path / "index", broken)
        victim = broken / path.relative_to(tmp_path / "index")
        victim.unlink()
        assert count_lost(broken, snapshot) == 0
        index = TableIndex.open(broken)
        assert index is not None
        problems = index.verify()
        assert problems
        assert all(path.name in problem.part and not problem.loses_rows for problem in problems), (path, problems)
        # Replace it with another file of the same kind.
        others = [other for other in index_files(tmp_path / "index") if other.parent == path.parent and other != path]
        if others:
            shutil.copy(others[0], victim)
            assert count_lost(broken, snapshot) == 0


def test_verify_reports_damaged_files_and_a_build_replaces_them(tmp_path: Path) -> None:
    lake = ModelLake(SCHEMA)
    snapshot = lake.change({place("a"): rows(1, 2), place("b"): rows(3)})
    index = TableIndex(tmp_path)
    index.build(lake, snapshot, ["k", "s"], progress=False)
    state = index.newest().columns[("k",)]  # type: ignore[union-attr]
    path = tmp_path / state.base.files[0].name
    data = bytearray(path.read_bytes())
    data[10] ^= 4
    path.write_bytes(data)
    assert [(problem.column, problem.loses_rows) for problem in index.verify(lake, snapshot)] == [(("k",), False)]
    fresh = TableIndex(tmp_path)
    view = fresh.newest()
    assert view is not None
    assert view.may_match("k", query.equals(pa.scalar(3)), snapshot.slices).to_pylist() == [False, True]
    # The damaged segment keeps each location whose minimum and maximum include the key. A doubt names the file.
    assert path.name in next(iter(view.doubts)).partition("/")[2]
    root = tmp_path / state.base.root.name
    root.write_bytes(b"SvR9" + root.read_bytes()[4:])
    fresh = TableIndex(tmp_path)
    view = fresh.newest()
    assert view is not None
    assert view.may_match("k", query.equals(pa.scalar(3)), snapshot.slices).to_pylist() == [True, True]
    index.update(lake, lake.change({place("c"): rows(4)}), progress=False)
    with pytest.raises(ValueError, match="pass the lake and a snapshot"):
        index.compact()
    # The table has everything that a new base needs.
    assert index.verify(lake, lake.snapshot()) != []
    index.compact(lake, lake.snapshot())
    assert index.verify(lake, lake.snapshot()) == []
    index.build(lake, lake.snapshot(), ["k"], progress=False)
    assert index.verify(lake, lake.snapshot()) == []


def test_a_version_must_not_list_itself_as_an_earlier_one(tmp_path: Path) -> None:
    """A search for the version of a snapshot would not end."""
    make_index(tmp_path)
    newest = index_files(tmp_path / "log")[-1]
    text, version = document.unpack("commit", newest.read_bytes(), "newest", newest=2)
    content = json.loads(text)
    content["history"] = [{"version": content["version"], "id": 77, "instant": 0}]
    with pytest.raises(FormatError, match="history does not list earlier versions"):
        Commit.from_bytes(document.write("commit", content, version), "newest")
