"""File groups of Hudi tables that the package `hudi` does not list."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pytest
from support.hudi_tables import HudiTable
from support.s3_server import s3_server

import parsieve as ps
from parsieve.lake.hudi.timeline import Timeline
from parsieve.lake.hudi.unlisted import Search
from parsieve.lake.storage.storage import Storage

pytest.importorskip("hudi")
SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])


def row(number: int, part: str) -> pa.Table:
    return pa.table({"id": [number], "p": [part]}, schema=SCHEMA)


def empty(folder: Path, fields: str = "p") -> HudiTable:
    """Return a table without rows."""
    table = HudiTable(folder, SCHEMA)
    properties = table.timeline / "hoodie.properties"
    properties.write_text(properties.read_text() + f"hoodie.table.partition.fields={fields}\n")
    return table


def create(folder: Path, fields: str = "p") -> HudiTable:
    """Return a table with one file group in each of several partitions."""
    table = empty(folder, fields)
    instant = table.begin()
    parts = ("a", "a/b", "metadata", "c")
    stats = [table.write(instant, f"g{n}-0", row(n, part), partition=part) for n, part in enumerate(parts)]
    table.finish(instant, stats)
    return table


def ids(table: HudiTable, where: str | None = None, as_of: str | None = None) -> list[int]:
    found: list[int] = ps.open_table(str(table.folder)).plan(where, as_of).to_arrow(["id"])["id"].to_pylist()
    return sorted(found)


@pytest.mark.parametrize("fields", ["p", ""])
def test_every_partition_has_its_rows(tmp_path: Path, fields: str) -> None:
    """A partition may contain another one, and its name may be that of Iceberg's folder of metadata."""
    table = create(tmp_path / "t", fields)
    assert ids(table) == [0, 1, 2, 3]
    assert ids(table, "p = 'a'") == [0]
    assert ids(table, "p = 'metadata'") == [2]


def test_an_index_covers_every_partition(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    opened = ps.open_table(str(table.folder))
    opened.build_index(["id"], progress=False)
    plan = opened.plan("id = 2")
    assert len(plan.files) == 1
    assert plan.to_arrow(["id"])["id"].to_pylist() == [2]


def test_only_live_versions_are_found(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    first = max(path.name[:17] for path in table.timeline.glob("*.commit"))
    second = table.begin()
    table.finish(second, [table.write(second, "g2-0", row(20, "metadata"), partition="metadata")])
    # A write that failed, and a file that a failed task of a successful write left behind.
    table.write(table.begin(), "g2-0", row(21, "metadata"), partition="metadata")
    table.write(second, "left-0", row(22, "metadata"), partition="metadata")
    assert ids(table) == [0, 1, 3, 20]
    assert ids(table, None, first) == [0, 1, 2, 3]
    third = table.begin("replacecommit")
    stats = [table.write(third, "g9-0", row(30, "metadata"), partition="metadata")]
    table.finish(third, stats, "replacecommit", partitionToReplaceFileIds={"metadata": ["g2-0"], "a": ["g0-0"]})
    assert ids(table) == [1, 3, 30]
    assert ids(table, None, second) == [0, 1, 3, 20]


def test_files_of_other_tables_are_not_found(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    other = create(tmp_path / "other")
    other.clock = table.clock
    shutil.copytree(other.folder, table.folder / "metadata" / "other")
    # A folder that is not a partition.
    shutil.copytree(other.folder / "c", table.folder / "metadata" / "copy")
    (table.folder / "metadata" / "copy" / ".hoodie_partition_metadata").unlink()
    assert ids(table) == [0, 1, 2, 3]


def test_files_of_an_older_table_are_not_found(tmp_path: Path) -> None:
    """Their instants precede the timeline, as archived ones do."""
    older = create(tmp_path / "older")
    table = empty(tmp_path / "t")
    table.clock = older.clock
    instant = table.begin()
    table.finish(instant, [table.write(instant, "g7-0", row(7, "metadata"), partition="metadata")])
    assert ids(table) == [7]
    shutil.copytree(older.folder, table.folder / "metadata" / "older")
    assert ids(table) == [7]


def test_links_to_partitions_are_followed(tmp_path: Path) -> None:
    table = create(tmp_path / "t")
    for name in ("a", "metadata"):
        shutil.move(table.folder / name, tmp_path / name)
        (table.folder / name).symlink_to(tmp_path / name)
    # Circles of links.
    (tmp_path / "a" / "again").symlink_to(table.folder)
    (tmp_path / "metadata" / "itself").symlink_to(tmp_path / "metadata")
    listed = [path for path, _ in Storage(table.folder).sizes(skip=[".hoodie"]) if path.endswith(".parquet")]
    assert sorted(path.rpartition("/")[0] for path in listed) == ["a", "a/b", "c", "metadata"]
    for link in (tmp_path / "a" / "again", tmp_path / "metadata" / "itself"):
        link.unlink()
    assert ids(table) == [0, 1, 2, 3]


def test_a_damaged_instant_is_read_only_if_it_is_needed(tmp_path: Path) -> None:
    table = HudiTable(tmp_path / "t", SCHEMA)
    table.commit({"g0-0": row(0, "x"), "g1-0": row(1, "x")})
    table.replace(["g0-0"], {"g2-0": row(2, "x")})
    damaged = table.begin()
    table.finish(damaged, [table.write(damaged, "g3-0", row(3, "x"))])
    table.commit({"g4-0": row(4, "x")})
    (table.timeline / f"{damaged}.commit").write_bytes(b"")
    assert ids(table) == [1, 2, 3, 4]
    unlisted = table.begin()
    table.finish(unlisted, [table.write(unlisted, "g5-0", row(5, "metadata"), partition="metadata")])
    with pytest.raises(ps.FormatError, match=f"the instant {damaged} in Hudi's timeline is damaged"):
        ids(table)


@pytest.mark.parametrize("kind", ["local", "pyarrow", "fsspec", "obstore"])
def test_sizes_of_a_folder_include_hidden_files(tmp_path: Path, kind: str) -> None:
    names = [".hoodie/hoodie.properties", "p=1/.f.log", "p=1/q=2/g.parquet", "top.parquet", "z/.hoodie/x"]
    for name in names:
        (tmp_path / "t" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "t" / name).write_text("x")
    source: object = tmp_path / "t"
    if kind == "pyarrow":
        mock = pyarrow.fs._MockFileSystem()
        pyarrow.fs.copy_files(str(tmp_path / "t"), "t", pyarrow.fs.LocalFileSystem(), mock)
        source = mock, "t"
    elif kind == "fsspec":
        memory = pytest.importorskip("fsspec").filesystem("memory")
        memory.put(str(tmp_path / "t"), "/hudi-paths/t", recursive=True)
        source = memory, "/hudi-paths/t"
    elif kind == "obstore":
        store = pytest.importorskip("obstore.store").MemoryStore()
        for name in names:
            store.put(f"t/{name}", b"x")
        source = store, "t"
    size = None if kind == "local" else 1
    assert sorted(Storage(source).sizes(skip=[".hoodie"])) == [(name, size) for name in names[1:]]


def add_metadata_table(table: HudiTable) -> None:
    """Change the table to version 8, and create enough of a metadata table to open it."""
    properties = table.timeline / "hoodie.properties"
    text = properties.read_text().replace("table.version=6", "table.version=8")
    # Skip the validation, because the timeline is that of version 6.
    text += "hoodie.table.metadata.partitions=files\nhoodie.internal.skip.config.validation=true\n"
    properties.write_text(text)
    metadata = HudiTable(table.timeline / "metadata", SCHEMA)
    metadata.finish(instant := metadata.begin("deltacommit"), [], "deltacommit")
    (metadata.folder / "files").mkdir()
    (metadata.folder / "files" / f"files-0000-0_0-1-0_{instant}.hfile").touch()


def objects(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_tables_in_a_store_with_options(tmp_path: Path) -> None:
    """The package `hudi` does not use them to open the metadata table, so it lists folders."""
    pytest.importorskip("obstore")
    add_metadata_table(create(tmp_path / "t"))
    with s3_server(objects(tmp_path)) as options:
        plan = ps.open_table("s3://bucket/t", storage_options=options).plan()
        assert sorted(plan.to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("fields", ["", "p"])
def test_the_metadata_table_is_opened_only_if_the_answer_matters(tmp_path: Path, fields: str) -> None:
    """Tables with logs, or without partition columns, are searched with and without a metadata table."""
    pytest.importorskip("obstore")
    table = HudiTable(tmp_path / "t", SCHEMA)
    instant = table.begin()
    part = "a" if fields else ""
    table.finish(instant, [table.write(instant, "g0-0", row(0, "a"), partition=part)])
    add_metadata_table(table)
    properties = table.timeline / "hoodie.properties"
    text = properties.read_text() + f"hoodie.table.partition.fields={fields}\n"
    properties.write_text(text.replace("COPY_ON_WRITE", "MERGE_ON_READ") if fields else text)
    with s3_server(objects(tmp_path), forbidden="t/.hoodie/metadata/files") as options:
        plan = ps.open_table("s3://bucket/t", storage_options=options).plan()
        assert plan.to_arrow()["id"].to_pylist() == [0]


def test_a_log_belongs_to_the_newest_base_file_before_its_write_ended(tmp_path: Path) -> None:
    """Since table version 8, a compaction leaves out the logs of writes that are still running."""
    early, running, compaction, late = (f"2026010100000{number}000" for number in (1, 2, 3, 4))
    names = [
        f"{early}_20260101000001500.deltacommit",
        f"{running}_20260101000005000.deltacommit",
        f"{compaction}_20260101000003500.commit",
        f"{late}_20260101000004500.deltacommit",
    ]
    logs = [f".g-0_{instant}.log.1_0-1-0" for instant in (early, running, late)]
    base = f"g-0_0-1-0_{compaction}.parquet"
    for name in (*logs, base, ".hoodie_partition_metadata"):
        (tmp_path / name).write_text(name)
    storage = Storage(tmp_path)
    properties = {"hoodie.table.type": "MERGE_ON_READ", "hoodie.table.version": "8"}
    search = Search(
        storage,
        Timeline(storage, ".hoodie/timeline", frozenset(names)),
        properties,
        instant=late,
        written=lambda instant: {("", "g-0")},
        replaced=lambda instants: set(),
    )
    [found] = search.slices([])
    assert (found.base_file_name, found.log_file_names) == (base, logs[1:])
    assert found.creation_instant_time == compaction
