"""Filters of all files of a folder, paths that begin with a tilde, and the argument `fpp`."""

import os
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps
from parsieve.index import TableIndex
from parsieve.lake.open import open_lake


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "orders"
    for number in range(4):
        path = folder / f"day={number % 2}" / f"{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": range(number, number + 400)}), path, row_group_size=200, use_dictionary=False)
    (folder / "_hidden.parquet").write_bytes(b"not read")
    (folder / ".notes.txt").write_bytes(b"not read")
    return folder


def parquet_files(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.glob("day=*/*.parquet"))


@pytest.mark.parametrize("as_text", [True, False])
def test_filters_of_a_folder_are_added_checked_and_dropped(folder: Path, as_text: bool) -> None:
    source = str(folder) if as_text else folder
    report = ps.add_filters(source, columns="id", fpp=0.001)
    assert (report.path, len(report.added), report.written) == (str(folder), 8, True)
    assert sorted(report.files) == parquet_files(folder)
    assert [len(one.added) for one in report.files.values()] == [2] * 4
    assert report.bytes_after == sum(Path(path).stat().st_size for path in report.files)
    assert ps.check_filters(source) == []
    again = ps.add_filters(source, columns="id", existing="keep")
    assert not again.written
    assert not again.added
    dropped = ps.drop_filters(source)
    assert len(dropped.dropped) == 8
    assert all(ps.open_filters(path).ranges() == [] for path in parquet_files(folder))


def test_a_dry_run_of_a_folder_writes_nothing(folder: Path) -> None:
    before = [Path(path).read_bytes() for path in parquet_files(folder)]
    report = ps.add_filters(folder, columns="id", dry_run=True)
    assert (len(report.added), report.written) == (8, False)
    assert [Path(path).read_bytes() for path in parquet_files(folder)] == before


def test_findings_in_a_folder_name_their_file(folder: Path) -> None:
    ps.add_filters(folder, columns="id")
    path = parquet_files(folder)[2]
    _, _, offset, length = ps.open_filters(path).ranges()[0]
    assert length is not None
    data = bytearray(Path(path).read_bytes())
    data[offset + length - 64 : offset + length] = bytes(64)
    Path(path).write_bytes(data)
    (finding,) = ps.check_filters(folder)
    assert (finding.path, finding.kind) == (path, "false negatives")
    assert ps.check_filters(path)[0].path is None


def test_failed_files_are_reported_after_the_others_are_done(folder: Path) -> None:
    bad = parquet_files(folder)[1]
    Path(bad).write_bytes(b"PAR1, but not a footer")
    with pytest.raises(
        ps.FolderError, match=r"1 of 4 files in .*orders failed: not a Parquet file: .*missing PAR1"
    ) as add:
        ps.add_filters(folder, columns="id")
    assert list(add.value.errors) == [bad]
    assert isinstance(add.value.errors[bad], ps.FormatError)
    assert sorted(add.value.report.files) == [path for path in parquet_files(folder) if path != bad]
    assert all(len(ps.open_filters(path).ranges()) == 2 for path in add.value.report.files)
    copy = pickle.loads(pickle.dumps(add.value))
    assert (str(copy), copy.report, list(copy.errors)) == (str(add.value), add.value.report, [bad])
    with pytest.raises(ps.FolderError, match="1 of 4 files") as check:
        ps.check_filters(folder)
    assert check.value.report == []
    with pytest.raises(ps.FolderError, match=r"4 of 4 .* and 1 more"):
        ps.drop_filters(folder, columns="nothing")


@pytest.mark.parametrize("table", ["_delta_log", ".hoodie", "metadata"])
@pytest.mark.parametrize("below", [False, True])
def test_folders_of_tables_are_refused_before_anything_changes(folder: Path, table: str, below: bool) -> None:
    mark = (folder / "day=1" if below else folder) / table
    mark.mkdir()
    (mark / "v1.metadata.json").write_bytes(b"{}")
    before = [Path(path).read_bytes() for path in parquet_files(folder)]
    for change in (ps.add_filters, ps.drop_filters):
        with pytest.raises(ps.UnsupportedError, match=r'build_index\(\.\.\., kind="bloom"\)'):
            change(folder, columns="id")
    assert [Path(path).read_bytes() for path in parquet_files(folder)] == before


def test_folders_without_parquet_files_or_with_dest_are_errors(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for work in (ps.add_filters, ps.drop_filters, ps.check_filters):
        with pytest.raises(FileNotFoundError, match="no Parquet files"):
            work(tmp_path / "empty")
    with pytest.raises(ValueError, match="dest works only for a single file"):
        ps.add_filters(folder, tmp_path / "dest")
    with pytest.raises(FileExistsError, match="already exists"):
        ps.add_filters(parquet_files(folder)[0], folder)


def test_a_tilde_means_the_home_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder.parent))
    monkeypatch.setenv("USERPROFILE", str(folder.parent))
    first = "~/orders/day=0/0.parquet"
    assert ps.add_filters(first, columns="id").path == parquet_files(folder)[0]
    assert len(ps.open_filters(first).ranges()) == 2
    assert ps.open_filters(Path(first)).might_contain({"id": -1}) == [False, False]
    assert ps.check_filters(first) == []
    assert ps.add_filters(first, "~/copy.parquet", columns="id").path == str(folder.parent / "copy.parquet")
    assert len(ps.drop_filters("~/orders").dropped) == 2
    assert ps.open_table("~/orders").plan("id >= 0").to_arrow().num_rows == 1600
    assert TableIndex("~/index").store.root == folder.parent / "index"  # type: ignore[attr-defined]


@pytest.mark.parametrize("rate", ["1%", "0.01", None, True, [0.01]])
def test_a_rate_that_is_not_a_number_is_an_error(folder: Path, rate: Any) -> None:
    message = r"fpp.*must be a number between 0 and 1, such as 0\.01 for 1%, not"
    path, lake = parquet_files(folder)[0], open_lake(str(folder))
    snapshot = lake.snapshot()
    calls: list[Any] = [
        lambda: ps.add_filters(path, columns="id", fpp=rate),
        lambda: ps.add_filters(folder, columns="id", fpp=rate),
        lambda: TableIndex(folder / "index").build_bloom(lake, snapshot, ["id"], fpp=rate),
    ]
    if rate is not None:
        calls.append(lambda: ps.add_filters(path, columns={"id": {"fpp": rate}}))
    if rate is not True:
        calls += [lambda: ps.BloomFilter(ndv=1, fpp=rate), lambda: ps.optimal_num_bytes(1, rate)]
        calls += [lambda: ps.BloomFilter(ndv=1).fold(rate), lambda: ps.BloomFilter(ndv=1).folded(rate)]
    for call in calls:
        with pytest.raises(TypeError, match=message):
            call()


@pytest.mark.parametrize("rate", [0, 1, -0.5, float("nan"), 2])
def test_a_rate_outside_its_range_is_an_error(folder: Path, rate: float) -> None:
    for source in (folder, parquet_files(folder)[0]):
        with pytest.raises(ValueError, match="fpp must be between 0 and 1"):
            ps.add_filters(source, columns="id", fpp=rate)


def test_rates_of_other_numeric_types_are_accepted(folder: Path) -> None:
    path = parquet_files(folder)[0]
    for rate in (Decimal("0.01"), np.float32(0.01)):
        assert len(ps.add_filters(path, columns="id", fpp=rate, dry_run=True).added) == 2  # type: ignore[arg-type]


def test_partitions_are_not_hidden_and_links_are_processed_once(tmp_path: Path) -> None:
    table = pa.table({"id": range(1000)})
    for name in ("_year=2024/a.parquet", "_tmp/a.parquet", ".old/a.parquet", "day/b.parquet", "day/_c.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(table, tmp_path / name)
    for number in range(4):
        (tmp_path / f"link-{number}.parquet").symlink_to("day/b.parquet")
    report = ps.add_filters(tmp_path, columns="id")
    visible = [str(tmp_path / name) for name in ("_year=2024/a.parquet", "day/b.parquet")]
    assert sorted(report.files) == visible
    assert (tmp_path / "link-0.parquet").is_symlink()


def test_a_folder_that_cannot_be_listed_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The path becomes longer than any system allows.
    monkeypatch.chdir(folder)
    for _ in range(20):
        Path("d" * 250).mkdir()
        os.chdir("d" * 250)
    monkeypatch.chdir(folder)
    for work in (ps.add_filters, ps.check_filters, ps.drop_filters):
        with pytest.raises(OSError, match="name too long"):
            work(folder)


def test_a_tilde_in_a_name_and_a_file_uri_are_local_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"id": range(1000)}), "~copy.parquet")
    for source in ("~copy.parquet", (tmp_path / "~copy.parquet").as_uri(), tmp_path.as_uri()):
        assert len(ps.add_filters(source, columns="id").added) == 1
        assert ps.check_filters(source) == []
        assert len(ps.drop_filters(source).dropped) == 1


def test_sinks_of_structured_streaming_are_refused(folder: Path) -> None:
    (folder / "_spark_metadata").mkdir()
    with pytest.raises(ps.UnsupportedError, match=r"Spark Structured Streaming table .*records file sizes"):
        ps.add_filters(folder, columns="id")
