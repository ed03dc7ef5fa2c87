"""The location of an index: other readers of the folder do not see it, and each table has its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore
from support.places import index_of
from support.s3_server import s3_server

import parsieve as ps
from parsieve.index import TableIndex
from parsieve.io.index_location import next_to, next_to_local, next_to_uri
from parsieve.io.store.open import open_store
from parsieve.lake import open_lake
from parsieve.lake.storage.index_place import problem_with
from parsieve.lake.storage.storage import Storage


def polars_scan(folder: str) -> int:
    return int(pl.scan_parquet(folder).select(pl.len()).collect().item())


def polars_read(folder: str) -> int:
    return len(pl.read_parquet(folder + "/"))


def duckdb_folder(folder: str) -> int:
    return len(duckdb.execute(f"SELECT k FROM read_parquet('{folder}/*')").fetchall())


def duckdb_everything(folder: str) -> int:
    return len(duckdb.execute(f"SELECT k FROM read_parquet('{folder}/**')").fetchall())


def duckdb_glob(folder: str) -> int:
    return len(duckdb.execute(f"SELECT k FROM '{folder}/**/*.parquet'").fetchall())


def dask(folder: str) -> int:
    dataframe = pytest.importorskip("dask.dataframe", reason="dask is not installed")
    return len(dataframe.read_parquet(folder))


def datafusion(folder: str) -> int:
    module = pytest.importorskip("datafusion", reason="datafusion is not installed")
    return int(module.SessionContext().read_parquet(folder).count())


READERS: list[Callable[[str], int]] = [
    polars_scan,
    polars_read,
    duckdb_folder,
    duckdb_everything,
    duckdb_glob,
    lambda folder: len(pd.read_parquet(folder)),
    lambda folder: pq.read_table(folder).num_rows,
    lambda folder: int(pads.dataset(folder).count_rows()),
    dask,
    datafusion,
]
NAMES = [
    "polars-scan",
    "polars-read",
    "duckdb-folder",
    "duckdb-everything",
    "duckdb-glob",
    "pandas",
    "pyarrow-table",
    "pyarrow-dataset",
    "dask",
    "datafusion",
]


def make_table(folder: Path, parts: int = 4) -> Path:
    folder.mkdir(parents=True)
    for part in range(parts):
        pq.write_table(pa.table({"k": range(part, 4 * parts, parts)}), folder / f"{part}.parquet")
    return folder


def names_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("read", READERS, ids=NAMES)
def test_an_index_changes_nothing_for_other_readers(tmp_path: Path, read: Callable[[str], int]) -> None:
    folder = make_table(tmp_path / "lake" / "shop")
    before = read(str(folder))
    assert before == 16
    table = ps.open_table(folder)
    table.build_index("k", kind="both")
    table.update_index()
    assert read(str(folder)) == before


def test_the_index_of_a_plain_folder_is_next_to_it(tmp_path: Path) -> None:
    folder = make_table(tmp_path / "lake" / "shop")
    before = names_below(folder)
    ps.open_table(folder).build_index("k")
    assert names_below(folder) == before
    assert (tmp_path / "lake" / ".parsieve" / "shop" / "commits").is_dir()
    assert index_of(folder) == tmp_path / "lake" / ".parsieve" / "shop"
    assert len(ps.open_table(folder).plan("k = 3").files) == 1


@pytest.mark.parametrize(
    ("folder", "location"),
    [
        ("/lake/orders", "/lake/.parsieve/orders"),
        ("/orders", "/.parsieve/orders"),
        ("/", None),
        ("/lake/orders/year=2026", "/lake/.parsieve/orders%2Fyear=2026"),
        ("/lake/orders/year=2026/month=1", "/lake/.parsieve/orders%2Fyear=2026%2Fmonth=1"),
        ("/lake/orders/year=2026/late", "/lake/.parsieve/orders%2Fyear=2026%2Flate"),
        ("/lake/orders%2Fyear=2026", "/.parsieve/lake%2Forders%252Fyear=2026"),
        ("/lake/a%2Fb", "/lake/.parsieve/a%252Fb"),
        ("/lake/=", "/lake/.parsieve/="),
        ("/year=2026", None),
        ("bucket/orders", "bucket/.parsieve/orders"),
        ("orders", ".parsieve/orders"),
        ("", None),
    ],
)
def test_the_default_index_location_of_a_folder(folder: str, location: str | None) -> None:
    assert next_to(folder) == location


def test_buckets_have_no_default_index_location() -> None:
    assert next_to("bucket", containers=1) is None
    assert next_to("bucket/year=2026", containers=1) is None
    assert next_to("bucket/orders", containers=1) == "bucket/.parsieve/orders"
    assert next_to_uri("s3://bucket/orders/") == "s3://bucket/.parsieve/orders"
    assert next_to_uri("gs://bucket") is None
    azure = "https://account.blob.core.windows.net/container"
    assert next_to_uri(azure) is None
    assert next_to_uri(azure + "/lake/orders") == azure + "/lake/.parsieve/orders"


def test_the_index_of_a_partition_is_outside_its_table(tmp_path: Path) -> None:
    for year in (2025, 2026):
        make_table(tmp_path / "lake" / "orders" / f"year={year}")
    orders, part = tmp_path / "lake" / "orders", tmp_path / "lake" / "orders" / "year=2026"
    before = names_below(orders)
    ps.open_table(part).build_index("k")
    assert names_below(orders) == before
    assert polars_scan(str(orders)) == 32
    # The partition and the table have separate indexes.
    assert ps.open_table(orders).index_kinds() == {}
    ps.open_table(orders).build_index("k", kind="bloom")
    assert ps.open_table(part).index_kinds() == {"k": "sieve"}
    assert ps.open_table(orders).index_kinds() == {"k": "bloom"}


def test_a_link_and_its_target_share_an_index(tmp_path: Path) -> None:
    folder = make_table(tmp_path / "real" / "shop")
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "mine"
    link.symlink_to(folder)
    ps.open_table(link).build_index("k")
    assert ps.open_table(folder).index_kinds() == {"k": "sieve"}
    assert not (tmp_path / "links" / ".parsieve").exists()


def test_tables_with_the_same_name_have_separate_indexes(tmp_path: Path) -> None:
    first, second = make_table(tmp_path / "a" / "shop"), make_table(tmp_path / "b" / "shop")
    ps.open_table(first).build_index("k")
    assert ps.open_table(second).index_kinds() == {}
    moved = first.rename(tmp_path / "moved")
    assert ps.open_table(moved).index_kinds() == {}
    # Another table takes the old name. The index does not apply to its files.
    second.rename(first)
    plan = ps.open_table(first).plan("k = 3")
    assert plan.to_arrow()["k"].to_pylist() == [3]
    assert len(plan.files) == 4 or not [skip for skip in plan.skipped if skip.evidence == "index"]


def test_an_index_of_version_0_1_is_used_until_it_is_dropped(tmp_path: Path) -> None:
    folder = make_table(tmp_path / "lake" / "shop")
    old, new = folder / "_parsieve", tmp_path / "lake" / ".parsieve" / "shop"
    ps.open_table(folder, index_location=old).build_index("k", kind="sieve")

    table = ps.open_table(folder)
    assert table.index_kinds() == {"k": "sieve"}
    assert len(table.plan("k = 3").files) == 1
    pq.write_table(pa.table({"k": [100]}), folder / "4.parquet")
    table.update_index()
    assert table.index_stats()["k"].locations == 5
    table.build_index("k", kind="bloom")
    assert table.index_kinds() == {"k": "both"}
    assert not new.exists()

    table.drop_index()
    assert table.index_kinds() == {}
    assert polars_scan(str(folder)) == 17
    table.build_index("k", kind="sieve")
    assert new.is_dir()
    for opened in (table, ps.open_table(folder)):
        assert opened.index_kinds() == {"k": "sieve"}
        assert len(opened.plan("k = 3").files) == 1


def test_the_new_location_takes_precedence_over_the_old_one(tmp_path: Path) -> None:
    folder = make_table(tmp_path / "lake" / "shop")
    ps.open_table(folder).build_index("k", kind="sieve")
    ps.open_table(folder, index_location=folder / "_parsieve").build_index("k", kind="bloom")
    assert ps.open_table(folder).index_kinds() == {"k": "sieve"}


def test_adding_filters_writes_a_renewal_to_the_index(tmp_path: Path) -> None:
    folder = make_table(tmp_path / "lake" / "shop")
    table = ps.open_table(folder)
    table.build_index("k", kind="sieve")
    ps.add_filters(folder / "0.parquet", columns=["k"])
    assert len(list((index_of(folder) / "renewals").iterdir())) == 1
    table.update_index()
    assert table.index_stats()["k"].deltas == 0
    assert len(table.plan("k = 4").files) == 1


def test_the_index_of_a_delta_table_is_inside_the_table(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(tmp_path / "t", pa.table({"k": [1, 2]}))
    ps.open_table(tmp_path / "t").build_index("k")
    assert (tmp_path / "t" / "_parsieve" / "commits").is_dir()
    assert not (tmp_path / ".parsieve").exists()


def test_a_table_at_the_root_of_a_store_needs_an_index_location(tmp_path: Path) -> None:
    store = MemoryStore()
    pq.write_table(pa.table({"k": [1]}), tmp_path / "0.parquet")
    store.put("0.parquet", (tmp_path / "0.parquet").read_bytes())
    table = ps.open_table((store, ""))
    assert len(table.plan("k = 1").files) == 1
    with pytest.raises(ps.UnsupportedError, match="pass another place as index_location="):
        table.build_index("k")
    elsewhere = ps.open_table((store, ""), index_location=tmp_path / "index")
    elsewhere.build_index("k")
    assert elsewhere.index_kinds() == {"k": "sieve"}


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs folders that this user cannot write to")
def test_an_unwritable_parent_folder_needs_an_index_location(tmp_path: Path) -> None:
    folder = make_table(tmp_path / "lake" / "shop")
    folder.parent.chmod(0o555)
    try:
        with pytest.raises(PermissionError, match=r"index_location=.*\.parsieve"):
            ps.open_table(folder).build_index("k")
    finally:
        folder.parent.chmod(0o755)


def test_a_disk_error_names_the_file_of_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_table(tmp_path / "lake" / "shop")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("parsieve.io.fd.write", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*\.parsieve/shop/") as caught:
        ps.open_table(folder).build_index("k")
    assert str(caught.value.filename).startswith(str(index_of(folder)))


def test_the_index_location_uses_the_real_path_of_a_folder(tmp_path: Path) -> None:
    assert next_to_local(str(tmp_path / "a" / ".." / "shop")) == str(tmp_path.resolve() / ".parsieve" / "shop")


def refused(table: ps.Table) -> str:
    """Return the message with which a table refuses to build, update, compact and convert an index, without a trace."""
    messages = set()
    methods: list[Callable[[], Any]] = [lambda: table.build_index("k"), table.update_index, table.convert_index]
    for method in [*methods, table.compact_index]:
        with pytest.raises(ValueError, match="is inside the folder of the table") as raised:
            method()
        messages.add(str(raised.value))
    [message] = messages
    return message


@pytest.mark.parametrize("place", ["idx", "a/idx", "_a=1", ".", "link/idx"])
def test_no_index_is_written_where_readers_of_the_folder_find_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    folder = make_table(tmp_path / "lake" / "shop")
    (tmp_path / "elsewhere").mkdir()
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "alias").symlink_to(tmp_path / "lake")
    before = names_below(tmp_path)
    monkeypatch.chdir(tmp_path)
    better = {".": "_index", "_a=1": "_index", "a/idx": "a/_idx", "link/idx": "link/_idx"}.get(place, "_idx")
    for table in (folder, "lake/shop", f"file://{folder}"):
        for index in (folder / place, f"lake/shop/{place}", f"file://{folder}/{place}", f"lake/../lake/shop/{place}"):
            assert refused(ps.open_table(table, index_location=index)).endswith(f"/shop/{better}")
    refused(ps.open_table("alias/shop", index_location=folder / place))
    refused(ps.open_table(folder, index_location=tmp_path / "alias" / "shop" / place))
    assert names_below(tmp_path) == before


@pytest.mark.parametrize("place", ["_idx", ".idx", "_a/idx", ".link", "../shop2", "../_x/idx"])
def test_an_index_may_be_where_readers_of_the_folder_ignore_it(tmp_path: Path, place: str) -> None:
    folder = make_table(tmp_path / "lake" / "shop")
    (tmp_path / "elsewhere").mkdir()
    (folder / ".link").symlink_to(tmp_path / "elsewhere")
    table = ps.open_table(folder, index_location=folder / place)
    table.build_index("k", kind="sieve")
    table.update_index()
    assert pads.dataset(folder).count_rows() == 16
    assert len(table.plan("k = 3").files) == 1


def test_a_file_of_the_table_is_not_recommended_as_a_place(tmp_path: Path) -> None:
    folder = make_table(tmp_path / "shop")
    with pytest.raises(ps.UnsupportedError, match=r"1\.parquet is a file, not a folder"):
        ps.open_table(folder, index_location=folder / "1.parquet").build_index("k")


def test_an_index_that_breaks_readers_of_the_folder_can_be_dropped(tmp_path: Path) -> None:
    """Earlier versions of the package wrote an index at any place."""
    folder = make_table(tmp_path / "lake" / "shop")
    (folder / "more").mkdir()
    (folder / "0.parquet").rename(folder / "more" / "0.parquet")
    before = names_below(folder)
    for place in (folder / "idx", folder):
        lake = open_lake(folder)
        TableIndex(place).build(lake, lake.snapshot(), ["k"])
        with pytest.raises(ps.FormatError, match="not a Parquet file"):
            ps.open_table(folder).plan().to_arrow()
        table = ps.open_table(folder, index_location=place)
        refused(table)
        assert table.index_kinds() == {"k": "sieve"}
        assert table.drop_index().columns == ("k",)
        assert names_below(folder) == before
        assert ps.open_table(folder).plan().to_arrow().num_rows == 16


def test_no_index_is_written_into_a_folder_of_an_object_store() -> None:
    store = MemoryStore()
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"k": [1, 2, 3]}), sink)
    store.put("lake/shop/a.parquet", sink.getvalue().to_pybytes())
    for place in ("lake/shop/idx", "lake/shop", "/lake/shop/idx/"):
        refused(ps.open_table((store, "lake/shop"), index_location=(store, place)))
    for place in ("lake/shop/_idx", "lake/idx"):
        ps.open_table((store, "lake/shop"), index_location=(store, place)).build_index("k")
    ps.open_table((store, "lake/shop"), index_location=(MemoryStore(), "lake/shop/idx")).build_index("k")
    storage = Storage("s3://bucket/shop", {"aws_region": "nowhere"})
    for uri in ("s3://bucket/shop/idx", "s3a://bucket/shop/", "s3://bucket/shop/a/idx"):
        assert "such as" in problem_with(storage, open_store(uri, {"aws_region": "nowhere"}))
    for uri in ("s3://bucket/shop/_idx", "s3://bucket/shop2", "s3://other/shop/idx"):
        assert problem_with(storage, open_store(uri, {"aws_region": "nowhere"})) == ""


def test_a_store_without_conditional_puts_is_refused(tmp_path: Path) -> None:
    """Two writers could overwrite each other's versions."""
    pq.write_table(pa.table({"k": [1, 2]}), tmp_path / "a.parquet")
    bucket = {"lake/t/a.parquet": (tmp_path / "a.parquet").read_bytes()}
    with s3_server(bucket) as options:
        table = ps.open_table("s3://bucket/lake/t", storage_options={**options, "aws_conditional_put": "disabled"})
        with pytest.raises(ps.UnsupportedError, match="so two writers could overwrite each other; allow conditional"):
            table.build_index("k")
    assert list(bucket) == ["lake/t/a.parquet"], "the files of the failed build are removed"
