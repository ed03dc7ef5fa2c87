"""I11: a byte wrong, missing or too many in any stored file is an error or keeps more; it never loses a location."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from support.models.model_lake import ModelLake, place

from parsieve import ParsieveError
from parsieve.index import TableIndex
from parsieve.index.sieve import query
from parsieve.lake.base import Location, Snapshot

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string())])


def rows(*keys: int | None) -> pa.Table:
    return pa.table({"k": keys, "s": [None if key is None else f"v{key:03}" for key in keys]}, schema=SCHEMA)


def make(folder: Path) -> Snapshot:
    """An index with every kind of file: two links of bindings, a base, deltas."""
    lake = ModelLake(SCHEMA)
    tables = {place(f"f{at}", f"p={at % 2}"): rows(at, at + 10, 5, None if at == 2 else 8) for at in range(6)}
    index = TableIndex(folder)
    index.build(lake, lake.change(tables), ["k", "s"], progress=False)
    snapshot = lake.change({place("f1", "p=1"): rows(40, 5), place("new"): rows(41, None)})
    index.update(lake, snapshot, progress=False)
    return snapshot


def questions() -> list[tuple[str, query.Query]]:
    asked = [("k", query.equals(pa.scalar(key, pa.int64()))) for key in (0, 5, 8, 12, 40, 41)]
    asked += [("k", query.between(pa.scalar(9), pa.scalar(40))), ("k", query.between(pa.scalar(13), None))]
    asked += [("k", query.is_null()), ("k", query.is_not_null())]
    return [*asked, ("s", query.prefix("v01")), ("s", query.equals(pa.scalar("v041")))]


def truths(snapshot: Snapshot) -> list[set[Location]]:
    def holds(column: str, asked: query.Query, table: pa.Table) -> bool:
        values = table.column(column).to_pylist()
        if asked.kind == "in":
            return asked.values.to_pylist()[0] in values  # type: ignore[union-attr]
        if asked.kind == "null":
            return None in values
        present = [value for value in values if value is not None]
        if asked.kind == "prefix":
            return any(value.startswith(asked.start.decode()) for value in present)
        low = asked.low.as_py() if asked.low is not None else -1
        high = asked.high.as_py() if asked.high is not None else 999
        return any(low <= value <= high for value in present)

    return [
        {piece.location for piece in snapshot.slices if holds(column, asked, piece.native)}
        for column, asked in questions()
    ]


def losses(folder: Path, snapshot: Snapshot) -> int:
    """How many answers keep less than they must; errors are none."""
    try:
        view = TableIndex(folder).newest()
    except ParsieveError:
        return 0
    assert view is not None
    lost = 0
    for (column, asked), truth in zip(questions(), truths(snapshot), strict=True):
        if (column,) in view.columns:
            mask = view.may_match(column, asked, snapshot.slices).to_pylist()
            kept = {piece.location for piece, keep in zip(snapshot.slices, mask, strict=True) if keep}
            lost += not truth <= kept
    return lost


def stored(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_i11_every_byte_of_every_file_may_be_wrong(tmp_path: Path) -> None:
    snapshot = make(tmp_path / "index")
    assert losses(tmp_path / "index", snapshot) == 0
    kinds = {path.parent.name for path in stored(tmp_path / "index")}
    assert kinds == {"commits", "bindings", "roots", "segments", "deltas"}
    r = random.Random(11)
    for path in stored(tmp_path / "index"):
        whole = path.read_bytes()
        # A sample in CI; every part of each file is met.
        places = range(len(whole)) if len(whole) < 40 else sorted(r.sample(range(len(whole)), 40))
        for at in places:
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << r.randrange(8)]) + whole[at + 1 :])
            assert losses(tmp_path / "index", snapshot) == 0, (path, at)
        for cut in (whole[:-1], whole[: len(whole) // 2], b"", whole + b"\0"):
            path.write_bytes(cut)
            assert losses(tmp_path / "index", snapshot) == 0, (path, len(cut))
        path.write_bytes(whole)


def test_h9_files_that_are_gone_or_swapped_keep_and_are_named(tmp_path: Path) -> None:
    snapshot = make(tmp_path / "index")
    for path in stored(tmp_path / "index"):
        if path.parent.name == "commits":
            continue
        broken = tmp_path / "broken"
        shutil.rmtree(broken, ignore_errors=True)
        shutil.copytree(tmp_path / "index", broken)
        victim = broken / path.relative_to(tmp_path / "index")
        victim.unlink()
        assert losses(broken, snapshot) == 0
        index = TableIndex.open(broken)
        assert index is not None
        lies = index.verify()
        assert lies
        assert all(path.name in lie.part and not lie.loses_rows for lie in lies), (path, lies)
        # Another file of the same kind in its place is as bad.
        others = [other for other in stored(tmp_path / "index") if other.parent == path.parent and other != path]
        if others:
            shutil.copy(others[0], victim)
            assert losses(broken, snapshot) == 0


def test_h9_what_is_damaged_is_named_and_mended_by_a_build(tmp_path: Path) -> None:
    lake = ModelLake(SCHEMA)
    snapshot = lake.change({place("a"): rows(1, 2), place("b"): rows(3)})
    index = TableIndex(tmp_path)
    index.build(lake, snapshot, ["k", "s"], progress=False)
    state = index.newest().columns[("k",)]  # type: ignore[union-attr]
    path = tmp_path / state.base.files[0].name
    data = bytearray(path.read_bytes())
    data[10] ^= 4
    path.write_bytes(data)
    assert [(lie.column, lie.loses_rows) for lie in index.verify(lake, snapshot)] == [(("k",), False)]
    fresh = TableIndex(tmp_path)
    view = fresh.newest()
    assert view is not None
    assert view.may_match("k", query.equals(pa.scalar(3)), snapshot.slices).to_pylist() == [False, True]
    # The damaged segment speaks for all, within the least and greatest key of each location; the doubt says so.
    assert path.name in next(iter(view.doubts)).partition("/")[2]
    root = tmp_path / state.base.root.name
    root.write_bytes(b"SvR9" + root.read_bytes()[4:])
    fresh = TableIndex(tmp_path)
    view = fresh.newest()
    assert view is not None
    assert view.may_match("k", query.equals(pa.scalar(3)), snapshot.slices).to_pylist() == [True, True]
    index.update(lake, lake.change({place("c"): rows(4)}), progress=False)
    with pytest.raises(ParsieveError, match="build it again"):
        index.compact()
    index.build(lake, lake.snapshot(), ["k"], progress=False)
    assert index.verify(lake, lake.snapshot()) == []
