"""The location of an index: other readers of the folder do not see it, and each table has its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore
from support.places import index_of

import parsieve as ps
from parsieve.io.index_location import next_to, next_to_local, next_to_uri


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
