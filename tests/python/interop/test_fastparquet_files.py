"""Read files of fastparquet. Their footers contain empty lists without an element type, which other readers accept."""

import datetime as dt
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import footer_edit

import parsieve as ps

COLUMNS: dict[str, Any] = {
    "ints": list(range(100)),
    "text": [f"customer {number}" for number in range(100)],
    "floats": [number / 4 for number in range(100)],
    "booleans": [number % 3 == 0 for number in range(100)],
    "times": [dt.datetime(2026, 1, 1) + dt.timedelta(hours=number) for number in range(100)],
    "bytes": [bytes([number, 255]) for number in range(100)],
    "nullable": pd.array([None if number % 7 == 0 else number for number in range(100)], dtype="Int64"),
}


@pytest.mark.parametrize("stats", [True, False])
@pytest.mark.parametrize("column", COLUMNS)
def test_every_function_accepts_a_fastparquet_file(tmp_path: Path, column: str, stats: bool) -> None:
    fastparquet = pytest.importorskip("fastparquet", reason="no wheel for this Python")
    path = str(tmp_path / "file.parquet")
    fastparquet.write(path, pd.DataFrame({column: COLUMNS[column]}), stats=stats)
    _check_every_function(path, column)


def _check_every_function(path: str, column: str) -> None:
    table, metadata = pq.read_table(path), _metadata(path)
    with ps.open_filters(path) as filters:
        assert filters.num_rows == [100]
    if column == "booleans":
        with pytest.raises(ps.UnsupportedError, match="booleans"):
            ps.add_filters(path, columns=column)
        return
    assert ps.add_filters(path, columns=column).added
    assert pq.read_table(path).equals(table)
    assert ps.check_filters(path) == []
    with ps.open_filters(path) as filters:
        for value in table[column].to_pylist():
            assert value is None or filters.might_contain({column: value}) == [True]
        # Other values are excluded, except for a few false positives in 100 probes.
        others = pa.array(range(1000, 1100)).cast(table.schema.field(column).type) if column == "ints" else None
        assert others is None or sum(any(filters.might_contain({column: [value]})) for value in others) < 20
    assert ps.drop_filters(path).dropped
    assert pq.read_table(path).equals(table)
    assert _metadata(path) == metadata


def _metadata(path: str) -> bytes:
    data = Path(path).read_bytes()
    return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


def test_an_empty_list_without_a_type_is_kept(tmp_path: Path) -> None:
    path = str(tmp_path / "file.parquet")
    pq.write_table(pa.table({"ints": list(range(100))}), path)

    def put_empty_lists(metadata: footer_edit.Struct) -> None:
        metadata[40] = (footer_edit.LIST, (0, []))
        metadata[footer_edit.ROW_GROUPS][1][1][0][41] = (footer_edit.LIST, (0, []))

    footer_edit.edit(path, put_empty_lists)
    _check_every_function(path, "ints")
