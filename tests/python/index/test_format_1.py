"""An index in format 1, stored by parsieve 0.1, is read, updated and compacted as it is, and converted on request."""

from __future__ import annotations

import random
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

import parsieve as ps
from parsieve.index.log.log import Log

STORED = Path(__file__).parents[2] / "vectors" / "index_v1.zip"
COLUMNS = {"id": "sieve", "name": "both", "score": "sieve"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of the stored table, with its index."""
    with zipfile.ZipFile(STORED) as archive:
        archive.extractall(tmp_path / "table")
    return tmp_path / "table"


def formats(folder: Path) -> dict[str, int]:
    view = ps.open_table(folder).opened.index.newest()
    assert view is not None
    return {".".join(path): state.format for path, state in view.columns.items()}


def document_version(folder: Path) -> bytes:
    """Return the format version of the document of the newest version."""
    view = ps.open_table(folder).opened.index.newest()
    assert view is not None
    return view.store.get(dict(Log(view.store).stored())[view.version].name).split(b" ")[2]


def assert_exact(folder: Path, as_of: int | None = None) -> int:
    """Assert that plans keep all matching rows, and skip every file without one. Return the number of skipped files."""
    table = ps.open_table(folder)
    version = DeltaTable(folder).version() if as_of is None else as_of
    rows = DeltaTable(folder, version=version).to_pyarrow_table()
    paths = [Path(path) for path in DeltaTable(folder, version=version).file_uris()]
    skipped = 0
    r = random.Random(version)
    for _ in range(15):
        low = r.randrange(210)
        for where, matches in {
            f"id = {low}": pc.equal(rows["id"], low),
            f"id BETWEEN {low} AND {low + 3}": pc.and_(pc.greater_equal(rows["id"], low), pc.less(rows["id"], low + 4)),
            f"name = 'user-{low % 50:03}'": pc.equal(rows["name"], f"user-{low % 50:03}"),
            "id IS NULL": pc.is_null(rows["id"]),
        }.items():
            plan = table.plan(where, as_of=as_of)
            expected = rows.filter(matches).num_rows
            assert plan.to_arrow().num_rows == expected, where
            skipped += len(paths) - len(plan.files)
    return skipped


def test_a_stored_index_answers_for_every_version_of_its_table(folder: Path) -> None:
    table = ps.open_table(folder)
    assert table.index_kinds() == COLUMNS
    assert set(formats(folder).values()) == {1}
    assert table.verify_index() == []
    assert assert_exact(folder) > 50
    for version in (3, 4):
        assert assert_exact(folder, as_of=version) > 50


@pytest.mark.parametrize("pages", [None, True])
def test_a_conversion_can_build_the_map_of_pages(folder: Path, pages: bool | None) -> None:
    table = ps.open_table(folder)
    report = table.convert_index(pages=pages)
    view = table.opened.index.newest()
    assert view is not None
    assert (view.commit.pages is not None) == bool(pages)
    assert (report.pages_bytes > 0) == bool(pages)
    assert ("in the map of pages" in str(report)) == bool(pages)
    assert table.verify_index() == []


def test_updates_and_compactions_keep_the_format(folder: Path) -> None:
    more = pa.table({"id": pa.array([5000, 5001], pa.int64()), "name": ["x", None], "score": [1.0, None]})
    write_deltalake(folder, more, mode="append")
    table = ps.open_table(folder)
    report = table.update_index(compact=False)
    assert (report.files_read, report.rows) == (1, 2)
    assert set(formats(folder).values()) == {1}
    assert document_version(folder) == b"1"
    assert assert_exact(folder) > 50
    assert table.plan("id = 5001").to_arrow().num_rows == 1
    assert len(table.plan("id = 5001").files) == 1

    compacted = table.compact_index()
    # The index has its keys, so the table is not read.
    assert (compacted.columns, compacted.files_read) == (("id", "name", "score"), 0)
    assert set(formats(folder).values()) == {1}
    assert document_version(folder) == b"1"
    assert table.verify_index() == []
    assert assert_exact(folder) > 50


def test_an_update_that_builds_a_column_again_keeps_its_format(folder: Path) -> None:
    r = random.Random(1)
    ids = [r.randrange(2**60) for _ in range(50_000)]
    more = pa.table({"id": pa.array(ids, pa.int64()), "name": [None] * 50_000, "score": [1.0] * 50_000})
    write_deltalake(folder, more, mode="append")
    table = ps.open_table(folder)
    # With so little memory, the delta of `id` is too large, so the column is built again.
    table.update_index(memory=1 << 20, compact=False)
    view = table.opened.index.newest()
    assert view is not None
    assert [bool(view.columns[name,].deltas) for name in ("id", "name")] == [False, True]
    assert set(formats(folder).values()) == {1}
    assert document_version(folder) == b"1"
    assert table.verify_index() == []


def test_a_conversion_reads_the_table_once_and_is_exact(folder: Path) -> None:
    write_deltalake(folder, pa.table({"id": [7000], "name": ["new"], "score": [0.5]}), mode="append")
    table = ps.open_table(folder)
    before = table.opened.index.newest()
    assert before is not None
    report = table.convert_index(progress=False)
    assert report.columns == ("id", "name", "score")
    assert (report.files, report.rows) == (6, DeltaTable(folder).to_pyarrow_table().num_rows)
    assert 0 < report.bytes_lookup <= report.bytes_stored < report.bytes_before * 10
    assert str(report).startswith("id, name, score: converted, 6 files, ")
    assert report.left_out == ()
    assert set(formats(folder).values()) == {2}
    assert document_version(folder) == b"2"
    assert table.index_kinds() == COLUMNS
    assert table.verify_index() == []
    assert assert_exact(folder) > 50
    assert len(table.plan("id = 7000").files) == 1
    # Plans of earlier versions of the table use earlier versions of the index, which still have format 1.
    assert assert_exact(folder, as_of=4) > 50
    # The Bloom index is the same.
    after = table.opened.index.newest()
    assert after is not None
    assert after.commit.blooms == before.commit.blooms

    assert table.convert_index().columns == ()
    assert str(table.convert_index()) == "nothing to convert"
    write_deltalake(folder, pa.table({"id": [7001], "name": ["newer"], "score": [0.5]}), mode="append")
    table.update_index()
    assert set(formats(folder).values()) == {2}
    assert table.verify_index() == []
    assert len(table.plan("id = 7001").files) == 1


def test_a_build_of_one_column_leaves_the_others_in_format_1(folder: Path) -> None:
    table = ps.open_table(folder)
    table.build_index("id", "sieve", progress=False)
    assert formats(folder) == {"id": 2, "name": 1, "score": 1}
    # A version with a column in format 2 is a document that parsieve 0.1 refuses.
    assert document_version(folder) == b"2"
    write_deltalake(folder, pa.table({"id": [7000], "name": ["new"], "score": [0.5]}), mode="append")
    table.update_index()
    assert formats(folder) == {"id": 2, "name": 1, "score": 1}
    assert table.verify_index() == []
    assert assert_exact(folder) > 50
    assert len(table.plan("id = 7000").files) == 1
    table.drop_index("id")
    assert document_version(folder) == b"1"
    assert set(table.convert_index(unit="file", fpp=None, keep_keys=True).columns) == {"name", "score"}
    view = table.opened.index.newest()
    assert view is not None
    layout = view.columns["name",].layout
    assert layout is not None
    assert (layout.unit, layout.fpp, layout.keep_keys) == ("file", None, True)
    assert table.verify_index() == []


def test_a_table_without_an_index_cannot_be_converted(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": [1]}))
    with pytest.raises(ps.IndexNotFoundError, match="build one first"):
        ps.open_table(tmp_path).convert_index()


@pytest.mark.parametrize("damage", ["flipped", "missing"])
def test_an_error_about_damaged_keys_names_the_column_and_the_fix(folder: Path, damage: str) -> None:
    table = ps.open_table(folder)
    write_deltalake(folder, pa.table({"id": [300], "name": ["new"], "score": [0.5]}), mode="append")
    table.update_index(progress=False, compact=False)
    for file in Path(str(table.opened.index.store)).glob("segments/*"):
        stored = file.read_bytes()
        file.unlink()
        if damage == "flipped":
            at = stored.rindex(b"SvK1") + 6
            file.write_bytes(stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :])
    with pytest.raises(ps.FormatError, match=r"cannot compact the index of (id|name|score); build it again: "):
        table.compact_index(progress=False)
