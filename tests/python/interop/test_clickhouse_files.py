"""Read the filters of files from ClickHouse, and use our filters in ClickHouse."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps

chdb = pytest.importorskip("chdb", reason="ClickHouse's embedded engine is made for Linux and macOS only")

COLUMNS = {
    "u64": "18446744073709551615 - number",
    "i64": "toInt64(number) - 500",
    "i32": "toInt32(number) - 500",
    "i16": "toInt16(number) - 500",
    "u32": "toUInt32(4294967295 - number)",
    "f32": "toFloat32(number / 8 - 7)",
    "f64": "number / 3 - 7",
    "string": "concat('ü', toString(number))",
    "fixed": "toFixedString(leftPad(toString(number), 6, '0'), 6)",
    "date": "toDate32('1969-06-01') + number",
    "milli": "toDateTime64('1969-12-31 23:59:00', 3, 'UTC') + number / 8",
    "micro": "toDateTime64('1969-12-31 23:59:00', 6, 'UTC') + number / 8",
    "nano": "toDateTime64('1969-12-31 23:59:00', 9, 'UTC') + number / 8",
    "decimal9": "toDecimal32(number / 8 - 50, 3)",
    "decimal18": "toDecimal64(number / 8 - 50, 3)",
    "decimal38": "toDecimal128(number / 8 - 50, 3)",
    "decimal76": "toDecimal256(number / 8 - 50, 3)",
    "nullable": "if(number % 7 = 0, NULL, number)",
    "list": "[number, number + 10000]",
}


def written(path: Path) -> pq.ParquetFile:
    selected = ", ".join(f"{value} AS {name}" for name, value in COLUMNS.items())
    chdb.query(
        f"SELECT {selected} FROM numbers(1000) INTO OUTFILE '{path}' FORMAT Parquet SETTINGS "
        "output_format_parquet_write_bloom_filter = 1, output_format_parquet_row_group_size = 300, "
        "output_format_parquet_bloom_filter_bits_per_value = 12"
    )
    return pq.ParquetFile(path)


def test_filters_of_clickhouse_equal_ours_and_contain_every_value(tmp_path: Path) -> None:
    file = written(tmp_path / "t.parquet")
    with ps.open_filters(tmp_path / "t.parquet") as filters:
        assert str(filters.created_by).startswith("ClickHouse")
        assert filters.num_row_groups > 1
        assert len(filters.ranges()) == len(COLUMNS) * filters.num_row_groups
        for number in range(filters.num_row_groups):
            table = file.read_row_group(number)
            for path in map(str, filters.columns):
                values = table[path.split(".")[0]].combine_chunks()
                values = values.flatten() if pa.types.is_list(values.type) else values
                theirs = filters.filter(number, path)
                assert theirs is not None
                assert theirs.check(values).false_count == 0, path
                physical = str(filters.column_type(path)).split(" ")[0]
                ours = ps.BloomFilter(num_bytes=theirs.num_bytes, type=values.type, physical_type=physical)
                ours.insert(values)
                assert bytes(memoryview(ours)) == bytes(memoryview(theirs)), path


def test_row_groups_without_the_value_are_excluded(tmp_path: Path) -> None:
    file = written(tmp_path / "t.parquet")
    groups = [file.read_row_group(number) for number in range(file.num_row_groups)]
    kept = checked = 0
    with ps.open_filters(tmp_path / "t.parquet") as filters:
        for name in COLUMNS.keys() - {"list", "nullable"}:
            for number, group in enumerate(groups):
                value = group[name][17]
                answers = filters.might_contain({name: pa.array([value.as_py()], value.type)})
                assert answers[number], name
                kept, checked = kept + sum(answers) - 1, checked + len(answers) - 1
    assert kept < 0.05 * checked


# All row groups have smaller and larger values, but only row group 2 contains the value. The others are damaged.
@pytest.mark.parametrize("condition", ["k = 4938", "s = 'key 004938'", "k IN (4938, 4938)"])
def test_clickhouse_skips_row_groups_by_our_filters(tmp_path: Path, condition: str) -> None:
    path = tmp_path / "t.parquet"
    keys = [4 * row + number for number in range(4) for row in range(2000)]
    table = {"k": pa.array(keys), "s": [f"key {key:06}" for key in keys], "load": [f"load of {key}" for key in keys]}
    pq.write_table(pa.table(table), path, row_group_size=2000, use_dictionary=False)
    ps.add_filters(path, columns=["k", "s"], fpp=0.0001)
    metadata = pq.read_metadata(path)
    with path.open("r+b") as file:
        for number in (0, 1, 3):
            for column in range(metadata.num_columns):
                chunk = metadata.row_group(number).column(column)
                file.seek(chunk.data_page_offset)
                file.write(b"\xff" * chunk.total_compressed_size)

    def read_load() -> list[str]:
        return str(chdb.query(f"SELECT load FROM file('{path}', Parquet) WHERE {condition}", "CSV")).split()

    assert read_load() == ['"load', "of", '4938"']
    ps.drop_filters(path)
    with pytest.raises(RuntimeError):
        read_load()
