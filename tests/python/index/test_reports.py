"""Reports of builds and maintenance: sizes on disk, the files that were read, omitted or removed, and leftovers."""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore
from support.places import index_of

import parsieve as ps
from parsieve.index import (
    BuildReport,
    DropReport,
    ExpireReport,
    LeftOut,
    LocalStore,
    ObjectStore,
    TableIndex,
    UpdateReport,
)
from parsieve.index.log.drafts import Drafts, drafting
from parsieve.index.log.folders import put_new
from parsieve.index.log.garbage import GARBAGE_AGE
from parsieve.index.log.log import Log
from parsieve.index.scan import spill
from parsieve.io.store.base import Store
from parsieve.wording import size


def write(folder: Path, part: int, keys: list[int]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{part:02}.parquet"
    pq.write_table(pa.table({"k": keys, "n": [key % 7 for key in keys]}), path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shop = tmp_path / "lake" / "shop"
    draw = random.Random(1)
    for part in range(10):
        write(shop, part, [draw.randrange(10**9) for _ in range(1000)])
    return shop


def files_of(folder: Path) -> dict[str, int]:
    """Return the files of the index with their sizes."""
    paths = [path for path in index_of(folder).rglob("*") if path.is_file()]
    return {str(path.relative_to(index_of(folder))): path.stat().st_size for path in paths}


def on_disk(folder: Path) -> int:
    """Return the size of all columns of the index. Versions and renewals do not belong to a column."""
    return sum(size for name, size in files_of(folder).items() if not name.startswith(("commits", "log", "renewals")))


@pytest.mark.parametrize("keep_keys", [False, True])
@pytest.mark.parametrize("kind", ["sieve", "bloom", "both"])
def test_all_bytes_on_disk_are_reported(folder: Path, kind: str, keep_keys: bool) -> None:
    table = ps.open_table(folder)
    report = table.build_index("k", kind=kind, keep_keys=keep_keys)
    assert report.columns == {"k": kind}
    assert (report.files, report.rows, report.left_out, report.notes) == (10, 10_000, (), ())
    assert report.bytes_stored == on_disk(folder)
    assert 0 < report.bytes_lookup < report.bytes_stored
    assert report.seconds > 0
    if kind != "bloom":
        stats = table.index_stats()["k"]
        assert stats.stored_bytes == report.bytes_stored
        assert stats.stored_bytes > stats.keys_bytes + stats.lookup_bytes
        assert (stats.keys_bytes > stats.lookup_bytes) == keep_keys
        assert (stats.format, stats.unit, stats.units) == (2, "file", 10)


def test_files_shared_by_columns_are_counted_once(folder: Path) -> None:
    report = ps.open_table(folder).build_index(["k", "n"], kind="sieve")
    assert report.bytes_stored == on_disk(folder)


def test_a_build_keeps_an_index_of_the_other_kind(folder: Path) -> None:
    table = ps.open_table(folder)
    for kind, expected in [("sieve", "sieve"), ("bloom", "both"), ("sieve", "both")]:
        table.build_index("k", kind=kind)
        assert table.index_kinds() == {"k": expected}


def test_both_kinds_together_reject_missing_keys(folder: Path) -> None:
    table = ps.open_table(folder)
    table.build_index("k", kind="sieve")
    reads_with_sieve = table.index_stats()["k"].reads_of_absent_keys
    table.build_index("k", kind="both")
    assert 0 < table.index_stats()["k"].reads_of_absent_keys < reads_with_sieve / 10


def test_advice_estimates_the_size_on_disk(folder: Path) -> None:
    table = ps.open_table(folder)
    [advice] = table.advise("k")
    report = table.build_index("k", kind="sieve")
    assert 0.7 < advice.sieve_bytes / report.bytes_stored < 1.5
    assert advice.sieve_lookup_bytes < advice.sieve_bytes
    assert f"({size(advice.sieve_bytes)} on disk, " in str(advice)


def test_auto_explains_why_it_builds_no_index_and_how_to_force_it(tmp_path: Path) -> None:
    for part in range(10):
        write(tmp_path / "t", part, list(range(part * 100, part * 100 + 100)))
    table = ps.open_table(tmp_path / "t")
    report = table.build_index("k")
    assert report.columns == {"k": "none"}
    assert (report.files, report.bytes_stored) == (0, 0)
    [note] = report.notes
    why = "min/max statistics already skip nearly as much as the best index"
    assert note == f'k: no index, {why}; kind="sieve" builds one anyway'
    assert str(report) == note


def test_updates_count_read_renewed_and_removed_files(folder: Path) -> None:
    table = ps.open_table(folder)
    table.build_index("k", kind="both")
    assert counts_of(table.update_index()) == (0, 0, 0, 10, 0)
    write(folder, 10, [1, 2, 3])
    write(folder, 3, [5])
    (folder / "04.parquet").unlink()
    assert counts_of(table.update_index()) == (2, 0, 1, 8, 4)
    stats = table.index_stats()["k"]
    assert (stats.locations, stats.rows) == (10, 8004)
    ps.add_filters(folder / "05.parquet", columns=["k"])
    report = table.update_index()
    assert counts_of(report) == (0, 1, 0, 9, 0)
    assert report.columns == ("k",)
    assert report.bytes_stored > report.bytes_lookup > 0


def counts_of(report: UpdateReport) -> tuple[int, int, int, int, int]:
    return report.files_read, report.files_renewed, report.files_removed, report.files_unchanged, report.rows


def test_updates_report_the_files_that_an_automatic_compaction_reads(folder: Path) -> None:
    table = ps.open_table(folder)
    table.build_index("k", kind="sieve")
    for part in range(4):
        write(folder, part, [part])
    uncompacted = shutil.copytree(folder.parent, folder.parent.parent / "copy") / folder.name
    report = table.update_index()
    assert counts_of(report) == (4, 0, 0, 6, 4)
    # The keys of four of the fourteen slices are gone, so the table is read again.
    assert (report.files_compacted, report.rows_compacted) == (10, 6004)
    assert "; read 10 files, 6,004 rows to compact the index; " in str(report)
    assert table.verify_index() == []
    table = ps.open_table(uncompacted)
    table.build_index("k", kind="sieve")
    write(uncompacted, 0, [0])
    report = table.update_index(compact=False)
    assert (report.files_read, report.files_compacted, report.rows_compacted) == (1, 0, 0)
    assert "compact" not in str(report)
    report = table.update_index(compact=True)
    assert (report.files_read, report.files_compacted, report.rows_compacted) == (0, 9, 6003)


def test_a_compaction_reports_the_number_of_merged_updates(folder: Path) -> None:
    table = ps.open_table(folder)
    table.build_index("k", kind="sieve")
    for part in (10, 11):
        write(folder, part, [part])
        table.update_index()
    report = table.compact_index()
    assert (report.columns, report.updates_merged) == (("k",), 2)
    assert table.compact_index().columns == ()
    assert str(table.compact_index()).startswith("nothing to compact; ")


def test_expiry_removes_the_files_of_expired_versions(folder: Path) -> None:
    table = ps.open_table(folder)
    first = table.build_index("k", kind="sieve")
    table.build_index("k", kind="sieve")
    assert on_disk(folder) == 2 * first.bytes_stored

    first_report = table.expire_index()
    assert (first_report.versions_removed, first_report.files_removed, first_report.bytes_freed) == (0, 0, 0)
    [remaining] = first_report.remaining
    assert remaining.bytes == first.bytes_stored
    assert "expire_index(older_than=0) removes them" in remaining.reason
    assert remaining.until is not None
    assert remaining.until > dt.datetime.now(dt.UTC) + dt.timedelta(days=6)
    assert f"remain until {remaining.until:%Y-%m-%d}" in str(first_report)

    second_report = table.expire_index(older_than=0)
    assert second_report.versions_removed == 1
    assert second_report.bytes_freed >= first.bytes_stored
    assert second_report.remaining == ()
    assert on_disk(folder) == first.bytes_stored
    assert table.verify_index() == []


class UnreadableStore(LocalStore):
    """A store in which reads of one file fail."""

    unreadable = ""

    def get(self, name: str) -> bytes:
        if name == self.unreadable:
            raise OSError(errno.EIO, "input/output error", name)
        return super().get(name)


@pytest.mark.parametrize("failure", ["an error of the disk", "damaged"])
def test_nothing_expires_if_the_newest_version_cannot_be_read(folder: Path, failure: str) -> None:
    table = ps.open_table(folder)
    for _ in range(3):
        table.build_index("k", kind="sieve")
    store = UnreadableStore(index_of(folder))
    newest = Log(store).stored()[-1][1].name
    path, intact = index_of(folder) / newest, (index_of(folder) / newest).read_bytes()
    if failure == "damaged":
        path.write_bytes(intact[:-1])
    else:
        store.unreadable = newest
    before = files_of(folder)
    with pytest.raises((OSError, ps.FormatError)):
        TableIndex(store).expire(older_than=0)
    assert files_of(folder) == before
    if failure == "damaged":
        # The error recommends this: the versions before are still there.
        path.unlink()
        assert TableIndex(store).newest() is not None
        assert ps.open_table(folder).verify_index() == []
        path.write_bytes(intact)
    store.unreadable = ""
    report = TableIndex(store).expire(older_than=0)
    assert (report.versions_removed, len(Log(store).stored())) == (2, 1)
    assert ps.open_table(folder).verify_index() == []


def test_a_dropped_index_leaves_only_its_last_version(folder: Path) -> None:
    table = ps.open_table(folder)
    table.build_index("k", kind="both")
    size = on_disk(folder)
    report = table.drop_index()
    assert report.columns == ("k",)
    assert report.bytes_freed >= size
    assert report.remaining == ()
    assert [name.partition("/")[0] for name in files_of(folder)] == ["commits"]
    assert table.drop_index() == DropReport((), 0, 0)


def test_dropping_one_of_two_columns_reports_the_remaining_files(folder: Path) -> None:
    table = ps.open_table(folder)
    table.build_index(["k", "n"], kind="sieve")
    report = table.drop_index("k")
    [remaining] = report.remaining
    assert remaining.files > 0
    assert "an earlier version uses them" in remaining.reason
    assert table.expire_index(0).remaining == ()
    assert table.verify_index() == []


@pytest.mark.parametrize("kind", ["sieve", "bloom"])
def test_a_build_that_fails_removes_its_files(folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    table = ps.open_table(folder)
    put = LocalStore.put
    # The disk is full after the keys or filters have been written.
    failing = {"sieve": "roots", "bloom": "bindings"}[kind]

    def full(store: LocalStore, name: str, data: bytes) -> None:
        if name.startswith(failing):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(store.root / name))
        put(store, name, data)

    monkeypatch.setattr(LocalStore, "put", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        table.build_index("k", kind=kind)
    assert str(index_of(folder)) in str(caught.value)
    assert files_of(folder) == {}


def test_an_interrupted_update_removes_its_files_and_keeps_the_index(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = ps.open_table(folder)
    table.build_index("k", kind="sieve")
    before = files_of(folder)
    write(folder, 10, [7])

    def interrupted(*_: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalStore, "put_if_absent", interrupted)
    with pytest.raises(KeyboardInterrupt):
        table.update_index()
    assert files_of(folder) == before
    monkeypatch.undo()
    assert table.update_index().files_read == 1


def test_files_of_a_killed_build_are_reported_and_removed_after_a_while(folder: Path) -> None:
    table = ps.open_table(folder)
    table.build_index("k", kind="sieve")
    leftover = index_of(folder) / "segments" / "6-ab.segments"
    leftover.write_bytes(b"x" * 900)
    (index_of(folder) / "segments" / ".tmp-12").write_bytes(b"x" * 100)

    report = table.expire_index(0)
    assert report.files_removed == 0
    [remaining] = report.remaining
    assert (remaining.files, remaining.bytes) == (2, 1000)
    assert "may belong to a build that is still running" in remaining.reason
    assert remaining.until is not None
    assert abs(remaining.until - dt.datetime.now(dt.UTC) - GARBAGE_AGE) < dt.timedelta(hours=1)
    assert "2 files (1 kB) remain" in str(report)
    assert table.drop_index("k").remaining[0].files == 2

    yesterday = leftover.stat().st_mtime - GARBAGE_AGE.total_seconds() - 60
    for path in leftover.parent.iterdir():
        os.utime(path, (yesterday, yesterday))
    report = table.expire_index()
    assert (report.files_removed, report.bytes_freed, report.remaining) == (2, 1000, ())


def test_drafts_are_kept_if_the_commit_may_have_succeeded() -> None:
    class Vanishing(ObjectStore):
        def put_if_absent(self, name: str, data: bytes) -> bool:
            super().put_if_absent(name, data)
            raise OSError("the answer was lost")

    store = Vanishing(MemoryStore(), "index")
    drafts = Drafts(store)
    drafts.put("roots/1.root", b"x")
    with pytest.raises(OSError, match="lost"):
        drafts.put_if_absent("commits/v1", b"names the root")
    drafts.discard()
    assert [entry.name for entry in store.list("roots")] == ["roots/1.root"]


def test_drafts_are_kept_if_an_earlier_commit_may_have_succeeded() -> None:
    class Vanishing(ObjectStore):
        is_connected = False

        def put_if_absent(self, name: str, data: bytes) -> bool:
            written = super().put_if_absent(name, data)
            if not self.is_connected:
                raise OSError("the answer was lost")
            return written

    store = Vanishing(MemoryStore(), "index")
    with contextlib.suppress(ZeroDivisionError), drafting(Log(store)) as log:
        log.store.put("roots/1.root", b"x")
        assert put_new(log.store, "commits/v1", b"names the root")
        store.is_connected = True
        # Another writer commits the next version.
        assert store.put_if_absent("commits/v2", b"names the root, too")
        assert not put_new(log.store, "commits/v2", b"comes too late")
        raise ZeroDivisionError
    assert [entry.name for entry in store.list("roots")] == ["roots/1.root"]


def stores(tmp_path: Path) -> Iterator[Store]:
    yield LocalStore(tmp_path / "local")
    yield ObjectStore(MemoryStore(), "index")


def test_a_listing_may_begin_after_a_file(tmp_path: Path) -> None:
    for store in stores(tmp_path):
        for name in ("log/v1", "log/v2", "log/v3", "other/v4"):
            store.put(name, b"x")
        assert [entry.name for entry in store.list("log", after="log/v1")] == ["log/v2", "log/v3"]
        assert store.list("log", after="log/v3") == []
        assert [entry.name for entry in store.list("log")] == ["log/v1", "log/v2", "log/v3"]


def test_only_files_after_the_last_commit_are_drafts(tmp_path: Path) -> None:
    for store in stores(tmp_path):
        with contextlib.suppress(ZeroDivisionError), drafting(Log(store)) as log:
            log.store.put("roots/1.root", b"x")
            assert log.store.put_if_absent("commits/v1", b"names it")
            log.store.put("roots/2.root", b"y")
            raise ZeroDivisionError
        assert [entry.name for entry in store.list("roots")] == ["roots/1.root"]


def test_reports_print_as_short_texts() -> None:
    left_out = tuple(LeftOut(f"{n}.parquet", "it changed while the index was being prepared") for n in range(7))
    text = str(BuildReport({"a": "sieve", "b": "bloom", "c": "sieve"}, 1, 1, 999, 42, 0.26, left_out))
    assert text.splitlines()[:4] == [
        "a, c: Sieve index",
        "b: Bloom index",
        "1 file, 1 row in 0.3 s; 999 bytes on disk, 42 bytes read by lookups",
        "left out 7 files, which every plan reads until the next update:",
    ]
    assert text.endswith("\n  and 2 more")
    assert str(ExpireReport(1, 1, 2500)) == "removed 1 version and 1 file, 2.5 kB"
    assert [size(num_bytes) for num_bytes in (0, 10**6, 2_340_000_000)] == ["0 bytes", "1 MB", "2.3 GB"]


def test_table_index_returns_reports_too(folder: Path, tmp_path: Path) -> None:
    index = TableIndex(tmp_path / "index")
    lake = ps.open_table(folder).opened.lake
    index.build(lake, lake.snapshot(), ["k"], progress=False)
    assert index.expire(0).versions_removed == 0
    assert index.drop(["k"]).columns == ("k",)


def test_the_error_for_a_full_temporary_folder_names_it() -> None:
    class Full:
        name = "/temporary/parsieve-1/0"

        def write(self, _: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(
        OSError,
        match=r"No space left on device in the folder .* set TMPDIR to use another folder: '/temporary/parsieve",
    ):
        spill._write(Full(), b"x")  # type: ignore[arg-type]


@pytest.mark.parametrize("older_than", [-1, -0.5, dt.timedelta(seconds=-1)])
def test_a_negative_age_removes_nothing(folder: Path, older_than: dt.timedelta | float) -> None:
    """A version of the future is not older than any age, so the caller means something else."""
    table = ps.open_table(folder)
    table.build_index("k", kind="sieve")
    table.build_index("k", kind="sieve")
    before = sorted(index_of(folder).rglob("*"))
    with pytest.raises(ValueError, match=r"older_than is negative .*such as 7, or 0 to remove all versions"):
        table.expire_index(older_than)
    assert sorted(index_of(folder).rglob("*")) == before


@pytest.mark.parametrize("older_than", [float("nan"), float("inf"), 1e300, 1 << 70])
def test_an_age_that_is_out_of_range_removes_nothing(folder: Path, older_than: float) -> None:
    table = ps.open_table(folder)
    table.build_index("k", kind="sieve")
    before = sorted(index_of(folder).rglob("*"))
    with pytest.raises(ValueError, match=r"older_than is out of range: .* days; pass a number such as 7"):
        table.expire_index(older_than)
    assert sorted(index_of(folder).rglob("*")) == before


def test_reports_distinguish_files_that_no_update_will_index(folder: Path) -> None:
    pq.write_table(pa.table({"k": ["text"], "n": [1]}), folder / "other type.parquet")
    table = ps.open_table(folder)
    for kind in ("sieve", "bloom"):
        for report in (table.build_index("k", kind=kind), table.update_index()):
            assert [(left_out.path, left_out.until_update) for left_out in report.left_out] == [
                (f"{folder}/other type.parquet", False)
            ]
            _, heading, line = str(report).splitlines()
            assert heading == "left out 1 file, which every plan reads, even after an update:"
            assert line.startswith(f"  {folder}/other type.parquet: column k: a file holds string values, which cannot")
            assert line.count(str(folder)) == 1


def test_files_without_any_time_of_change_are_never_indexed(tmp_path: Path) -> None:
    files = fsspec.filesystem("memory")
    with files.open("/never-indexed/a.parquet", "wb") as file:
        pq.write_table(pa.table({"k": [1, 2]}), file)
    report = ps.open_table((files, "/never-indexed"), index_location=tmp_path / "index").build_index("k", kind="sieve")
    [left_out] = report.left_out
    assert not left_out.until_update
    assert "which every plan reads, even after an update:" in str(report)


def test_a_report_lists_both_kinds_of_left_out_files() -> None:
    left_out = (LeftOut("a", "it is too young"), LeftOut("b", "its type does not fit", until_update=False))
    assert str(BuildReport({"k": "sieve"}, 1, 1, 1, 1, 0.1, left_out)).splitlines()[1:] == [
        "left out 1 file, which every plan reads until the next update:",
        "  a: it is too young",
        "left out 1 file, which every plan reads, even after an update:",
        "  b: its type does not fit",
    ]
