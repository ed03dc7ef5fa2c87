"""Maps of pages that Spark's executors read have the same bytes as local ones, through updates and compactions."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.aging import wait_until_old
from support.encrypted_files import encrypted

import parsieve.spark as pss
from parsieve.index import TableIndex, View
from parsieve.index.pages.build import read_map
from parsieve.lake.open import open_lake

pytest.importorskip("pyspark", reason="pip install 'parsieve[spark]'")
pytestmark = pytest.mark.spark


def write(path: Path, first: int, rows: int = 3000) -> None:
    columns = {"id": range(first, first + rows), "text": [f"{number:x}" * 3 for number in range(rows)]}
    pq.write_table(pa.table(columns), path, row_group_size=700, data_page_size=400, write_page_index=True)


def stored_map(view: View) -> list[tuple[int, int, bytes]]:
    assert view.commit.pages is not None
    return [
        (files.first_id, files.num_slices, view.store.get(part.name))
        for files in view.commit.pages.files
        for part in files.parts()
    ]


def bound(view: View) -> Any:
    assert view.pages is not None
    return view.pages.bindings


def test_executors_make_the_same_map_as_local_builds(spark: Any, tmp_path: Path) -> None:
    folder, where = tmp_path / "t", tmp_path / "index"
    folder.mkdir()
    for number in range(12):
        write(folder / f"{number:02}.parquet", number * 3000, 3000 + number)
    encrypted(folder / "encrypted.parquet", plaintext_footer=True)
    wait_until_old(folder)
    lake, local = open_lake(str(folder)), TableIndex(tmp_path / "local")
    local.build(lake, lake.snapshot(), ["id"], progress=False)
    mine = local.map_pages(lake, lake.snapshot(), progress=False)
    view = pss.build_index(spark, str(folder), "id", index_location=where, kind="sieve", pages=True)
    assert stored_map(view) == stored_map(mine)
    assert bound(view) == bound(mine)
    # An update reads the same files.
    write(folder / "05.parquet", 90_000)
    shutil.copy(folder / "05.parquet", folder / "new.parquet")
    (folder / "07.parquet").unlink()
    wait_until_old(folder)
    mine = local.update(lake, lake.snapshot(), progress=False, compaction=False)
    view = pss.update_index(spark, str(folder), index_location=where, compaction=False)
    assert [entry[:2] for entry in stored_map(view)] == [(0, 13), (13, 2)]
    assert stored_map(view) == stored_map(mine)
    assert bound(view) == bound(mine)
    assert view.pages is not None
    slices = list(lake.settled(lake.snapshot()).slices)
    for file_slice, entry in zip(slices, view.pages.read(slices), strict=True):
        if file_slice.group == "encrypted.parquet":
            assert entry is None
        else:
            assert entry is not None
            assert entry.pages == read_map(lake, file_slice)
    mine = local.compact(lake, lake.snapshot(), progress=False)
    view = pss.compact(spark, str(folder), index_location=where)
    assert stored_map(view) == stored_map(mine)
    assert len(stored_map(view)) == 1
    assert bound(view) == bound(mine)
    assert TableIndex(where).verify(lake, lake.snapshot()) == []
    # A build without the argument keeps the map, and `pages=False` drops it.
    assert pss.build_index(spark, str(folder), "text", index_location=where, kind="sieve").pages is not None
    view = pss.build_index(spark, str(folder), "text", index_location=where, kind="sieve", pages=False)
    assert view.pages is None
    assert set(view.columns) == {("id",), ("text",)}
