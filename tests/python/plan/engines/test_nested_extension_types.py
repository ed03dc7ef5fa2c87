"""Every engine reads lists, structs and maps of extension types, for which pyarrow cannot make an empty array."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest
from support.encrypted_files import Kms, encrypted

import parsieve as ps

UUIDS = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([UUID(int=n).bytes for n in range(3)], pa.binary(16)))
COLUMNS = {
    "list": pa.ListArray.from_arrays([0, 1, 2, 3], UUIDS),
    "struct": pa.StructArray.from_arrays([UUIDS], ["u"]),
    "map": pa.MapArray.from_arrays([0, 1, 2, 3], pa.array(["a", "b", "c"]), UUIDS),
}
ROWS: dict[str, Callable[[ps.Table, str], Any]] = {
    "to_arrow": lambda table, where: table.plan(where).to_arrow(),
    "to_dataset": lambda table, where: table.plan(where).to_dataset().to_table(),
    "to_polars": lambda table, where: table.plan(where).to_polars().collect().to_arrow(),
    "to_duckdb": lambda table, where: table.plan(where).to_duckdb(duckdb.connect()).to_arrow_table(),
    "dataset": lambda table, where: table.dataset().to_table(filter=pc.field("id") == int(where.rpartition(" ")[2])),
    "scan_polars": lambda table, where: ps.scan_polars(table).sql(f"SELECT * FROM self WHERE {where}").collect(),
}


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("way", ROWS)
@pytest.mark.parametrize("is_indexed", [False, True])
def test_nested_uuids(way: str, column: str, is_indexed: bool, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    pq.write_table(pa.table({"id": [1, 2, 9], "nested": COLUMNS[column]}), folder / "0.parquet")
    # The numbers of this file need a conversion, which `to_dataset` refuses.
    kind = pa.int64() if way == "to_dataset" else pa.int32()
    pq.write_table(pa.table({"id": pa.array([0, 8, 9], kind), "nested": COLUMNS[column]}), folder / "1.parquet")
    table = ps.open_table(folder)
    if is_indexed:
        table.build_index("id", "sieve", progress=False)
    assert pads.dataset(folder / "0.parquet").to_table(filter=pc.field("id") == 2).num_rows == 1
    assert pl.DataFrame(ROWS[way](table, "id = 2"))["id"].to_list() == [2]
    assert pl.DataFrame(ROWS[way](table, "id = 9"))["id"].to_list() == [9, 9]
    # Statistics keep both files of the first query, and skip both files of the second.
    assert len(ROWS[way](table, "id = 5")) == 0
    assert len(ROWS[way](table, "id = 77")) == 0


@pytest.mark.parametrize("column", COLUMNS)
def test_nested_uuids_of_encrypted_files(column: str, tmp_path: Path) -> None:
    # pyarrow reads encrypted files, and filters their batches.
    seen = encrypted(
        tmp_path / "0.parquet", pa.table({"secret": [1, 2, 9], "other": COLUMNS["list"], "open": COLUMNS[column]})
    )
    plan = ps.open_table(tmp_path, decryption=(lambda _: Kms(seen), pe.KmsConnectionConfig())).plan("secret = 5")
    assert plan.to_arrow(["secret", "open"]).num_rows == 0
