"""Add filters to existing files: rows and the bytes before the footer stay the same, and no value is excluded."""

import shutil
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.models import oracle

import parsieve as ps

REAL = Path(__file__).parents[4] / "shared" / "data" / "parquet-testing"
ENCODED = ["plain", "dictionary", "v2", "snappy", "zstd", "gzip", "lz4", "brotli"]
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {"compression": "none", "use_dictionary": False},
    "dictionary": {"compression": "none"},
    "v2": {"data_page_version": "2.0", "use_dictionary": False, "compression": "zstd", "write_page_index": True},
    **{codec: {"compression": codec} for codec in ENCODED[3:]},
}
# In a file these types look like integers.
DURATIONS = [pa.duration(unit) for unit in oracle.PER_SECOND]


def footer_start(path: Path) -> int:
    data = path.read_bytes()
    return len(data) - 8 - int.from_bytes(data[-8:-4], "little")


def add(path: Path, **options: Any) -> ps.RewriteReport:
    """Add filters, and check the properties of every file with added filters."""
    before = path.read_bytes()
    start = footer_start(path)
    report = ps.add_filters(path, **options)
    after = path.read_bytes()
    assert after[:start] == before[:start], "the bytes before the old footer do not change"
    assert (report.bytes_before, report.bytes_after) == (len(before), len(after))
    for added in report.added:
        assert start <= added.offset < len(after)
    assert not list(path.parent.glob(".parsieve-*"))
    return report


def same_rows(path: Path, expected: pa.Table) -> None:
    rows = pq.read_table(path)
    assert rows.schema.equals(expected.schema, check_metadata=True)
    assert as_bytes(rows) == as_bytes(expected), "NaN is not equal to itself, but its bytes are"


def as_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def nested_table() -> pa.Table:
    rows = range(400)
    return pa.table(
        {
            "id": pa.array(rows, pa.int64()),
            "text": [None if n % 5 == 0 else f"text {n}" for n in rows],
            "few": [f"few {n % 3}" for n in rows],
            "flag": [n % 2 == 0 for n in rows],
            "real": [n / 7 for n in rows],
            "list": [[n, None, n + 1] if n % 3 else None for n in rows],
            "struct": [{"a": n, "b": {"c": str(n)}} for n in rows],
            "a.b": pa.array(rows, pa.int32()),
        }
    )


@pytest.mark.parametrize("encoded", ENCODED)
def test_nested_columns_in_every_page_format(tmp_path: Path, encoded: str) -> None:
    path, table = tmp_path / "t.parquet", nested_table()
    sorting = [pq.SortingColumn(0)]
    table = table.replace_schema_metadata({"who": "am I", "kept": "yes"})
    pq.write_table(table, path, row_group_size=100, sorting_columns=sorting, **OPTIONS[encoded])
    before, rows = pq.read_metadata(path), pq.read_table(path)
    polars, duck = pl.read_parquet(path), duckdb.read_parquet(str(path)).fetchall()
    names = ["id", "text", "few", "list.list.element", "struct.a", "struct.b.c", ("a.b",), "real"]
    report = add(path, columns=names)
    assert len(report.added) == 8 * 4
    assert all(added.fpp <= 0.01 for added in report.added)
    same_rows(path, rows)
    assert pl.read_parquet(path).equals(polars)
    assert duckdb.read_parquet(str(path)).fetchall() == duck
    after = pq.read_metadata(path)
    assert after.metadata == before.metadata
    assert after.schema.equals(before.schema)
    for number in range(4):
        assert after.row_group(number).sorting_columns == before.row_group(number).sorting_columns
        old, new = before.row_group(number).column(0), after.row_group(number).column(0)
        assert new.statistics == old.statistics
        assert (new.has_offset_index, new.has_column_index) == (old.has_offset_index, old.has_column_index)
    with ps.open_filters(path) as filters:
        for number in range(4):
            part = table.slice(100 * number, 100)
            for name in ("id", "text", "few", "real"):
                assert filters.filter(number, name).check(part[name]).false_count == 0  # type: ignore[union-attr]
            assert filters.filter(number, ("a.b",)).check(part["a.b"]).false_count == 0  # type: ignore[union-attr]
            items = part["list"].combine_chunks().flatten()
            assert filters.filter(number, "list.list.element").check(items).false_count == 0  # type: ignore[union-attr]
        assert filters.might_contain({"id": 250}) == [False, False, True, False]
        assert filters.might_contain({"struct.b.c": "250"}) == [False, False, True, False]


@pytest.mark.parametrize("data_type", oracle.TYPES, ids=oracle.name)
@pytest.mark.parametrize("dictionary", [True, False])
def test_filters_are_added_to_columns_of_every_type(tmp_path: Path, data_type: Any, dictionary: bool) -> None:
    path = tmp_path / "t.parquet"
    column = oracle.array_of(data_type, oracle.raws(data_type, 300))
    pq.write_table(pa.table({"c": column}), path, row_group_size=150, use_dictionary=dictionary)
    rows = pq.read_table(path)
    add(path, columns="c")
    same_rows(path, rows)
    # A filter built in memory has the same bits. The tests in `interop` compare those with pyarrow's writer.
    with ps.open_filters(path) as filters:
        for number in range(filters.num_row_groups):
            ours = filters.filter(number, "c")
            assert ours is not None
            part = column.slice(150 * number, 150)
            expected = ps.BloomFilter(num_bytes=ours.num_bytes)
            expected.insert(part)
            if pa.types.is_floating(data_type):
                values = part.drop_null().to_numpy(zero_copy_only=False)
                equal = [0.0, -0.0] * (0 in values) + [np.nan] * bool(np.isnan(values).any())
                expected.insert(pa.array(np.array(equal, values.dtype)))
            assert bytes(memoryview(ours)) == bytes(memoryview(expected))
            assert data_type in DURATIONS or ours.check(part).false_count == 0


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("data_type", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_filters_have_the_bytes_of_equal_numbers(tmp_path: Path, data_type: Any, dictionary: bool) -> None:
    """Engines look up only the bytes of a literal. A file may contain the other zero, or another NaN."""
    path = tmp_path / "t.parquet"
    zeros, nans = np.array([-0.0, 0.0, 5.0]), np.array([-np.nan, np.nan, np.nan])
    for number, equal in ((0, zeros), (1, zeros), (0, nans)):
        equal = equal.astype(data_type.to_pandas_dtype())
        encoding = {"c": "BYTE_STREAM_SPLIT"}
        options: dict[str, Any] = {"use_dictionary": True} if dictionary else {"column_encoding": encoding}
        pq.write_table(pa.table({"c": pa.array(equal[[number]])}), path, **{"use_dictionary": False, **options})
        add(path, columns="c", fpp=0.0001)
        found = ps.open_filters(path).filter(0, "c")
        assert found is not None
        for value in equal[:2]:
            alone = ps.BloomFilter(num_bytes=found.num_bytes, type=data_type)
            alone.insert(pa.array([value], data_type))
            bits = int.from_bytes(memoryview(alone), "little")
            assert int.from_bytes(memoryview(found), "little") & bits == bits
        assert ps.check_filters(path) == []


def test_duckdb_uses_filters_that_were_added_to_its_file(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    query = "SELECT k AS id, 'n' || k AS name, k::DECIMAL(9,2) AS d FROM range(20000) t(k)"
    with duckdb.connect() as connection:
        connection.sql(query).write_parquet(str(path), row_group_size=5000)
        before = connection.read_parquet(str(path)).fetchall()
        report = add(path, columns=["id", "name", "d"], fpp=0.001)
        assert len(report.added) == 3 * pq.read_metadata(path).num_row_groups
        assert connection.read_parquet(str(path)).fetchall() == before

        def excluded(value: int) -> list[bool]:
            probe = "SELECT bloom_filter_excludes FROM parquet_bloom_probe(?, 'id', ?)"
            return [no for (no,) in connection.execute(probe, [str(path), value]).fetchall()]

        for value in range(0, 20000, 501):
            assert not all(excluded(value))
        absent = [no for value in range(30000, 30200) for no in excluded(value)]
        assert sum(absent) > 0.98 * len(absent)


def test_existing_filters_are_replaced_kept_or_an_error(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    table = pa.table({"id": range(1000), "other": range(1000)})

    def write() -> None:
        pq.write_table(table, path, row_group_size=500, bloom_filter_options={"id": {"ndv": 500}})

    write()
    old = ps.open_filters(path).ranges()
    content = path.read_bytes()
    with pytest.raises(ValueError, match="already have filters: id"):
        ps.add_filters(path, columns=["other", "id"], existing="error")
    assert path.read_bytes() == content
    add(path, columns=["other", "id"], existing="keep")
    now = ps.open_filters(path).ranges()
    assert [place for place in now if place.column == "id"] == old
    assert len(now) == 4
    write()
    add(path, columns="id")
    now = ps.open_filters(path).ranges()
    assert len(now) == 2
    assert not {place.offset for place in now} & {place.offset for place in old}


def test_dropping_filters_keeps_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(nested_table(), path, row_group_size=200)
    rows, footer = pq.read_table(path), path.read_bytes()[footer_start(path) :]
    add(path, columns=["id", "text"])
    assert ps.drop_filters(path, columns="id").dropped == [(0, "id"), (1, "id")]
    assert [place.column for place in ps.open_filters(path).ranges()] == ["text", "text"]
    assert ps.drop_filters(path).dropped == [(0, "text"), (1, "text")]
    same_rows(path, rows)
    assert path.read_bytes().endswith(footer), "the footer is the same as before the filters were added"
    again = ps.drop_filters(path)
    assert (again.written, again.dropped) == (False, [])


def test_auto_reports_its_reasons(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(nested_table(), path)
    report = add(path)
    chosen = {added.column for added in report.added}
    assert chosen == {"id", "text", "list.list.element", "struct.a", "struct.b.c", "a.b"}
    assert report.reasons["few"] == "no: at most 3 distinct values in a row group"
    assert report.reasons["flag"].startswith("no: Parquet has no hash")
    assert report.reasons["real"].startswith("no: floating-point")
    assert all(report.reasons[column].startswith("yes") for column in chosen)
    again = ps.add_filters(path, existing="keep")
    assert (again.added, again.written) == ([], False)
    assert again.reasons["id"] == "no: every column chunk already has a filter"


def test_options_of_pyarrow_and_size_limits(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": range(10000), "b": range(10000), "c": range(10000)}), path)
    report = add(path, columns={"a": {"ndv": 5, "fpp": 0.1}, "b": True, "c": False}, fpp=0.001, max_bytes=4096)
    assert [(added.column, added.ndv) for added in report.added] == [("a", 10000), ("b", 10000)]
    sizes = [ps.open_filters(path).filter(0, name).num_bytes for name in "ab"]  # type: ignore[union-attr]
    assert sizes == [4096, 4096]
    assert report.added[0].fpp == ps.open_filters(path).filter(0, "a").estimated_fpp  # type: ignore[union-attr]
    assert report.added[0].fpp == pytest.approx(ps.false_positive_rate(4096, 10000), rel=0.01)
    for wrong in ({"a": {"fpp": 2}}, {"a": {"size": 1}}):
        with pytest.raises(ValueError, match="column 'a'"):
            ps.add_filters(path, columns=wrong)
    with pytest.raises(TypeError, match="dict or True"):
        ps.add_filters(path, columns={"a": 3})
    for wrong_size in (0, 31):
        with pytest.raises(ValueError, match="max_bytes"):
            ps.add_filters(path, columns="a", max_bytes=wrong_size)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("nulls", [False, True])
def test_entries_of_a_dictionary_that_no_row_has_are_left_out(tmp_path: Path, version: str, nulls: bool) -> None:
    path = tmp_path / "t.parquet"
    order = np.random.default_rng(7).permutation(20_000)
    values = [None if nulls and place % 3 == 0 else f"k{number}" for place, number in enumerate(order)]
    # pyarrow stores all categories in every row group.
    column = pa.DictionaryArray.from_pandas(pa.array(values).dictionary_encode())
    nested = pa.array([[value, value] if value else [] for value in values]).cast(pa.list_(column.type))
    table = pa.table({"c": column, "l": nested})
    options = {"row_group_size": 1000, "data_page_version": version, "data_page_size": 500}
    pq.write_table(table, path, bloom_filter_options={"c": {"ndv": 1000}}, **options)
    assert ps.check_filters(path) == [], "pyarrow only inserts values of rows"
    report = ps.add_filters(path, columns=["c", "l.list.element"], fpp=0.001)
    assert all(
        abs(added.ndv - len(set(values[1000 * added.row_group :][:1000]) - {None})) == 0 for added in report.added
    )
    assert ps.check_filters(path) == []
    with ps.open_filters(path) as filters:
        for group in range(20):
            part = table.slice(1000 * group, 1000)
            assert filters.filter(group, "c").check(part["c"]).false_count == 0  # type: ignore[union-attr]
            assert filters.filter(group, "l.list.element").check(part["l"]).false_count == 0  # type: ignore[union-attr]
        places = [place for place in range(0, 20_000, 100) if values[place]]
        for name in ("c", "l.list.element"):
            found = [filters.might_contain({name: values[place]}) for place in places]
            assert all(answer[place // 1000] for answer, place in zip(found, places, strict=True))
            assert sum(map(sum, found)) < len(places) * 1.2


def test_filters_do_not_depend_on_pages_dictionaries_order_or_threads(tmp_path: Path) -> None:
    values = [7919 * (n % 30_000) for n in range(60_000)]
    layouts: list[dict[str, Any]] = [
        {"use_dictionary": False},
        {"use_dictionary": True},
        {"use_dictionary": True, "dictionary_pagesize_limit": 1000, "data_page_size": 5000},
        {"use_dictionary": False, "data_page_version": "2.0", "column_encoding": "DELTA_BINARY_PACKED"},
    ]
    bits = set()
    for number, layout in enumerate(layouts):
        path = tmp_path / f"{number}.parquet"
        rows = pa.table({"id": values[::-1] if number % 2 else values})
        pq.write_table(rows, path, **layout)
        report = ps.add_filters(path, columns="id", threads=1 + number)
        assert report.added[0].ndv == pytest.approx(30_000, rel=0.01)
        filter = ps.open_filters(path).filter(0, "id")
        assert filter is not None
        assert filter.estimated_fpp == report.added[0].fpp <= 0.01 < filter.folded(factor=2).estimated_fpp
        assert filter.check(rows["id"]).false_count == 0
        bits.add(bytes(memoryview(filter)))
    assert len(bits) == 1


def test_a_dry_run_writes_nothing_and_dest_gets_a_new_file(tmp_path: Path) -> None:
    path, dest = tmp_path / "t.parquet", tmp_path / "new.parquet"
    pq.write_table(pa.table({"a": range(100)}), path)
    content = path.read_bytes()
    planned = ps.add_filters(path, dest, "a", dry_run=True)
    assert not planned.written
    assert not dest.exists()
    report = ps.add_filters(path, dest, "a")
    assert report == planned._replace(written=True)
    assert path.read_bytes() == content
    assert dest.stat().st_size == report.bytes_after
    same_rows(dest, pq.read_table(path))
    with pytest.raises(FileExistsError, match=r"new\.parquet"):
        ps.add_filters(path, dest, "a")
    again = tmp_path / "again.parquet"
    assert not ps.drop_filters(path, again).dropped
    assert again.read_bytes() == content


@pytest.mark.parametrize(
    ("column", "error"),
    [("nobody", ps.ColumnNotFoundError), ("flag", ps.UnsupportedError), (["id", "struct"], ps.ColumnNotFoundError)],
)
def test_invalid_arguments_write_nothing(tmp_path: Path, column: Any, error: type[Exception]) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(nested_table(), path)
    content = path.read_bytes()
    with pytest.raises(error):
        ps.add_filters(path, columns=column)
    assert path.read_bytes() == content
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.parquet"]


def test_only_pages_of_the_chosen_columns_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    table = pa.table({"id": range(50_000), "blob": [bytes(100)] * 50_000})
    pq.write_table(table, path, use_dictionary=False, compression="none")
    report = add(path, columns="id")
    assert report.bytes_fetched < 50_000 * 8 + 100_000


REAL_FILES = sorted((REAL / "no-bloom").glob("*.parquet")) + sorted(REAL.glob("*.parquet"))


@pytest.mark.skipif(not REAL_FILES, reason="the files of apache/parquet-testing are not on this machine")
@pytest.mark.parametrize("file", REAL_FILES, ids=lambda file: file.name)
def test_filters_are_added_to_files_of_other_writers(tmp_path: Path, file: Path) -> None:
    path = tmp_path / file.name
    shutil.copy(file, path)
    with ps.open_filters(path) as filters:
        columns = [name for name in filters.columns if filters.column_type(name) is not None]
    try:
        rows: Any = pq.read_table(path)
    except (pa.ArrowException, OSError):
        rows = None
    report = add(path, columns=columns)
    assert {added.column for added in report.added} == set(columns)
    if rows is not None:
        same_rows(path, rows)
    assert pq.read_metadata(path).schema.equals(pq.read_metadata(file).schema)
