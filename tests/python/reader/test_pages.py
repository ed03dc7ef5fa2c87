"""Plans read matching rows by pages, and pyarrow reads the files that need it. Both return the same rows."""

from __future__ import annotations

import logging
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import parsieve as ps
from parsieve.predicate.evaluate import Condition
from parsieve.reader import file, table

ROWS = 4_000


def table_of(part: int, rows: int = ROWS) -> pa.Table:
    rng = random.Random(part)
    return pa.table(
        {
            "id": pa.array([part * rows + n for n in range(rows)], pa.int64()),
            "user": pa.array([rng.randrange(500) for _ in range(rows)], pa.int32()),
            "name": pa.array([None if n % 7 == 0 else f"name {n % 97}" for n in range(rows)]),
            "amount": pa.array([n / 8 if n % 5 else None for n in range(rows)]),
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of files with several row groups and small pages."""
    for part in range(5):
        pq.write_table(
            table_of(part), tmp_path / f"{part}.parquet", row_group_size=1_000, data_page_size=512,
            write_page_index=part % 2 == 0, compression="zstd",
        )  # fmt: skip
    return tmp_path


def opened(folder: Path) -> ps.Table:
    """Open a table whose files are old enough to have tokens, which prove that they did not change."""
    table = ps.open_table(folder)
    lake = table.opened.lake
    assert not lake.settled(lake.snapshot()).unsettled
    return table


def expected(condition: Any, columns: list[str] | None = None) -> pa.Table:
    rows = pa.concat_tables([table_of(part) for part in range(5)]).filter(condition)
    return rows if columns is None else rows.select(columns)


class Readers:
    """Counts the files that the reader of pages read, and why others were not."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG, "parsieve.rows")
        self._caplog = caplog

    @property
    def last(self) -> tuple[str, dict[str, int]]:
        record = [record for record in self._caplog.records if record.name == "parsieve.rows"][-1]
        return record.getMessage(), dict(record.__dict__["reasons"])


@pytest.fixture
def readers(caplog: pytest.LogCaptureFixture) -> Readers:
    return Readers(caplog)


F = pc.field


@pytest.mark.parametrize("columns", [None, ["name"], ["amount", "id"], ["user", "user"]])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("where", "condition"),
    [
        ("user = 7", F("user") == 7),
        ("id IN (3, 4003, 19999)", F("id").isin([3, 4003, 19999])),
        ("name = 'name 3' AND user < 100", (F("name") == "name 3") & (F("user") < 100)),
        ("name IS NULL AND user = 9", F("name").is_null() & (F("user") == 9)),
        ("user = 1 OR (amount > 499 AND id < 4000)", (F("user") == 1) | ((F("amount") > 499) & (F("id") < 4000))),
        ("user = 1000", F("user") == 1000),
    ],
)
def test_matching_rows(
    folder: Path, readers: Readers, where: str, condition: Any, columns: list[str] | None, threads: int
) -> None:
    plan = opened(folder).plan(where)
    rows = plan.to_arrow(columns, threads=threads)
    assert rows.equals(expected(condition, columns), check_metadata=True)
    assert pa.Table.from_batches(plan.to_batches(columns, threads=threads), rows.schema).equals(rows)
    if plan.files:
        assert readers.last[1] == {}


@pytest.mark.skipif(not hasattr(os, "pread"), reason="the test counts calls of pread")
def test_pages_are_read_only_where_rows_match(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    rows = pa.table({"id": range(100_000), "text": [rng.randbytes(8).hex() for _ in range(100_000)]})
    pq.write_table(rows, tmp_path / "0.parquet", row_group_size=50_000, data_page_size=4_096, write_page_index=True,
        use_dictionary=False,
    )  # fmt: skip
    table = opened(tmp_path)
    table.build_index("id")
    plan = table.plan("id = 4321")
    assert list(plan.row_ranges.values()) == [[(0, 50_000)]]
    plan.to_arrow()
    read: list[int] = []
    pread = os.pread

    def counting(*arguments: Any) -> bytes:
        data = pread(*arguments)
        read.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", counting)
    assert plan.to_arrow()["id"].to_pylist() == [4321]
    ids = pq.ParquetFile(tmp_path / "0.parquet").metadata.row_group(0).column(0).total_compressed_size
    # All pages with ids of the row group, and one page of the texts.
    assert ids <= sum(read) < ids + 40_000


def test_large_files_are_read_in_parts(folder: Path, readers: Readers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "PART_BYTES", 8_000)
    plan = opened(folder).plan("user >= 3 AND id <> 7")
    rows = expected((F("user") >= 3) & (F("id") != 7))
    for threads in (1, 2, 5):
        assert plan.to_arrow(threads=threads).equals(rows)
        assert readers.last == ("read 5 of 5 files by pages", {})
        assert pa.Table.from_batches(plan.to_batches(threads=threads)).equals(rows)


def test_pyarrow_reads_the_rest_of_a_large_file(
    tmp_path: Path, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second row group has a text that is not UTF-8, which parsieve does not read."""
    monkeypatch.setattr(file, "PART_BYTES", 1_000)
    schema = pa.schema({"id": pa.int64(), "text": pa.string()})
    with pq.ParquetWriter(tmp_path / "0.parquet", schema, use_dictionary=False, write_statistics=False) as writer:
        for part in range(4):
            texts = [b"\xff" if part == 1 and row == 50 else b"%d" % row for row in range(1_000)]
            array = pa.Array.from_buffers(pa.string(), 1_000, pa.array(texts, pa.binary()).buffers())
            writer.write_table(pa.table([range(part * 1_000, part * 1_000 + 1_000), array], schema))
    pq.write_table(pa.table([[7_000], ["last"]], schema), tmp_path / "1.parquet")
    plan = opened(tmp_path).plan("id >= 10 AND id <> 2500")
    rows = [*range(10, 2500), *range(2501, 4000), 7_000]
    for threads in (1, 3):
        batches = list(plan.to_batches(threads=threads))
        assert pa.Table.from_batches(batches)["id"].to_pylist() == rows
        assert readers.last[0] == "read 1 of 2 files by pages"
        assert plan.to_arrow(threads=threads)["id"].to_pylist() == rows
    assert plan.count_rows() == len(rows)


def test_rows_of_a_newer_file_do_not_follow_those_of_the_planned_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is overwritten while it is read can look damaged before its new version is noticed."""
    monkeypatch.setattr(file, "PART_BYTES", 8_000)
    read_file, calls = file.read_file, []

    def overwritten(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 3:
            pq.write_table(table_of(9), folder / "0.parquet")
            return file.Refusal("damaged")
        return read_file(*arguments)

    monkeypatch.setattr(table, "read_file", overwritten)
    batches = opened(folder).plan("user >= 3").to_batches(threads=1)
    rows = next(batches)["id"].to_pylist()
    with pytest.raises(ps.ConflictError, match=r"0\.parquet was changed since the plan"):
        rows.extend(row for batch in batches for row in batch["id"].to_pylist())
    assert rows
    assert max(rows) < ROWS


def test_conditions_on_partitions_are_evaluated_once(tmp_path: Path, readers: Readers) -> None:
    for part in ("a", "b"):
        (tmp_path / f"part={part}").mkdir()
        pq.write_table(pa.table({"id": range(200_000)}), tmp_path / f"part={part}" / "0.parquet")
    table = opened(tmp_path)
    for where, expected in (
        ("part = 'b'", 200_000),
        ("part LIKE '%b' AND id < 70000", 70_000),
        ("lower(part) = 'c'", 0),
        ("part IS NULL OR part = 'a'", 200_000),
        ("part = 'a' OR id = 5", 200_001),
    ):
        plan = table.plan(where)
        for columns in (["id"], ["part"], ["part", "id"]):
            batches = list(plan.to_batches(columns=columns))
            assert sum(batch.num_rows for batch in batches) == expected, where
            assert all(batch.num_rows <= file.BATCH_ROWS for batch in batches)
            assert "pyarrow" not in str(readers.last)


def test_a_large_file_that_changes_while_it_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "PART_BYTES", 8_000)
    plan = opened(folder).plan("user >= 3")
    batches = plan.to_batches(threads=1)
    first = next(batches)
    assert first.num_rows < ROWS
    pq.write_table(table_of(9), folder / "0.parquet")
    with pytest.raises(ps.ConflictError, match=r"0\.parquet was changed since the plan"):
        list(batches)
    # A complete file is read again.
    rows = pa.concat_tables([table_of(part) for part in (9, 1, 2, 3, 4)]).filter(F("user") >= 3)
    assert plan.to_arrow().equals(rows)


def test_files_that_need_pyarrow_are_read_in_their_place(tmp_path: Path, readers: Readers) -> None:
    for part in range(70):
        rows = pa.table({"id": pa.array([part, 1_000 + part], pa.int16() if part % 3 else pa.int32())})
        if part % 5 == 1:
            # The table has decimals, like its first file.
            rows = rows.append_column("price", pa.array([part, part], pa.int32()))
        else:
            rows = rows.append_column("price", pa.array([part, part], pa.decimal128(12, 2)))
        pq.write_table(rows, tmp_path / f"{part:02}.parquet")
    plan = opened(tmp_path).plan("id < 1000")
    rows = plan.to_arrow()
    assert rows["id"].to_pylist() == list(range(70))
    assert [int(price) for price in rows["price"].to_pylist()] == list(range(70))
    message, reasons = readers.last
    assert message == "read 56 of 70 files by pages"
    assert reasons == {"column price is stored as int32": 14}


def test_a_replaced_file_is_read_completely(folder: Path, readers: Readers) -> None:
    plan = opened(folder).plan("id = 4321")
    pq.write_table(table_of(1).slice(300, 30).append_column("more", pa.array(range(30))), folder / "1.parquet")
    assert plan.to_arrow().equals(table_of(1).slice(300, 30).filter(F("id") == 4321))
    (folder / "1.parquet").unlink()
    with pytest.raises(ps.ConflictError, match=r"1\.parquet was removed since the plan"):
        plan.to_arrow()


def test_a_file_that_is_damaged_raises_an_error(folder: Path) -> None:
    path = folder / "1.parquet"
    table = opened(folder)
    plan = table.plan("user >= 0 AND id = 4321")
    status = path.stat()
    data = bytearray(path.read_bytes())
    data[4:40_000] = bytes(39_996)
    # Keep the inode and the times, as a failing disk does.
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises((ps.FormatError, ps.ConflictError)):
        plan.to_arrow()


def test_columns_that_a_file_lacks_are_null(tmp_path: Path, readers: Readers) -> None:
    pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"name": ["c"], "id": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"id": [1]}), tmp_path / "2.parquet")
    rows = opened(tmp_path).plan("id = 1").to_arrow()
    assert rows.to_pydict() == {"id": [1, 1, 1], "name": ["a", "c", None]}
    assert readers.last[1] == {}
    assert opened(tmp_path).plan("name IS NULL").to_arrow().to_pydict() == {"id": [1], "name": [None]}


def test_partition_columns(tmp_path: Path, readers: Readers) -> None:
    for year in (2025, 2026):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / f"year={year}" / "0.parquet")
    rows = opened(tmp_path).plan("id = 2").to_arrow()
    assert rows.to_pydict() == {"id": [2, 2], "year": [2025, 2026]}
    assert opened(tmp_path).plan("year = 2026 AND id > 2").to_arrow().to_pydict() == {"id": [3], "year": [2026]}
    assert readers.last[1] == {}


def test_engines_get_the_same_rows(folder: Path) -> None:
    table = opened(folder)
    table.build_index(["id", "user"])
    for where in ("id = 4321", "user = 7", "id BETWEEN 3990 AND 4010"):
        plan = table.plan(where)
        rows = plan.to_arrow()
        assert rows.num_rows
        assert plan.to_polars().collect().to_arrow().cast(rows.schema).equals(rows)
        assert plan.to_polars().select("name").collect()["name"].to_list() == rows["name"].to_pylist()
        assert plan.to_duckdb().to_arrow_table().cast(rows.schema).equals(rows)


def test_columns_are_copied_only_while_they_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Conditions on many columns took time with the square of their number."""
    columns = {f"c{number}": range(number, number + 9) for number in range(40)}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    for number in range(9):
        pq.write_table(pa.table({name: [0] for name in columns}), tmp_path / f"{number}.parquet")
    widths: list[int] = []
    evaluate = Condition.evaluate

    def count_columns(self: Condition, batch: pa.RecordBatch) -> pa.BooleanArray:
        widths.append(batch.num_columns)
        return evaluate(self, batch)

    monkeypatch.setattr(Condition, "evaluate", count_columns)
    where = " AND ".join(f"{name} > {number}" for number, name in enumerate(columns)) + " AND (c3 < 9 OR c39 < 0)"
    rows = opened(tmp_path).plan(where).to_arrow(columns=["c7", "c3"])
    assert rows.to_pydict() == {"c7": [8, 9, 10, 11, 12], "c3": [4, 5, 6, 7, 8]}
    assert len(widths) >= 40
    # A result column may be read before the last condition.
    assert max(widths) <= 5
