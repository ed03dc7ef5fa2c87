"""The map of pages of a table: built in parallel, stored in parts, read by ranges, and bound to versions of files."""

from __future__ import annotations

import dataclasses
import io
import itertools
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from obstore.store import MemoryStore
from support.encrypted_files import encrypted
from support.hudi_tables import HudiTable

from parsieve._core import FileMap, FormatError, UnsupportedError
from parsieve.errors import ConflictError
from parsieve.index.log.bindings import Bindings
from parsieve.index.log.commit import MapState, TableState
from parsieve.index.log.parts import ROW_TYPES, MapPart, Part
from parsieve.index.pages import build
from parsieve.index.pages.build import build_maps, put_maps, read_map, wants_map
from parsieve.index.pages.compact import MAX_PARTS, merge_maps
from parsieve.index.pages.reader import MapReader
from parsieve.io.store.base import Store
from parsieve.io.store.local import LocalStore
from parsieve.lake.base import Lake, Location, Slice
from parsieve.lake.open import open_lake

# Small pages without dictionaries, so that a few files need several blocks.
OPTIONS: dict[str, Any] = {
    "row_group_size": 5000,
    "data_page_size": 500,
    "write_batch_size": 64,
    "use_dictionary": False,
    "write_page_index": True,
}


def table(part: int, rows: int = 12_000) -> pa.Table:
    numbers = [(number * 2654435761 + part) % 2**31 for number in range(rows)]
    return pa.table({"id": numbers, "text": [f"{number:x}" for number in numbers], "part": [part] * rows})


def write(folder: Path, parts: int, **options: Any) -> Lake:
    """Write files with maps of three different sizes."""
    folder.mkdir(exist_ok=True)
    for part in range(parts):
        path = folder / f"{part:03}.parquet"
        if part < 3:
            pq.write_table(table(part, 12_000 + 100 * part), path, **{**OPTIONS, **options})
        else:
            shutil.copy(folder / f"{part % 3:03}.parquet", path)
    return open_lake(str(folder))


def slices_of(lake: Lake) -> list[Slice]:
    return sorted(lake.settled(lake.snapshot()).slices, key=lambda file_slice: file_slice.location)


def reader_of(store: Store, parts: Sequence[MapPart], slices: Sequence[Slice], first_id: int = 0) -> MapReader:
    tokens = {file_slice.location: file_slice.token for file_slice in slices}
    ids = {file_slice.location: first_id + number for number, file_slice in enumerate(slices)}
    return open_map(store, parts, tokens, ids)


def open_map(
    store: Store, parts: Sequence[MapPart], tokens: Mapping[Location, str], ids: Mapping[Location, int]
) -> MapReader:
    return MapReader(store, MapState(TableState(None, 0), (), tuple(parts)), Bindings(tokens, ids))


def stored_bytes(store: Store, parts: Sequence[MapPart]) -> list[bytes]:
    return [store.get(part.name) for map_part in parts for part in map_part.parts()]


def test_a_map_is_built_and_read_by_ranges(tmp_path: Path) -> None:
    lake, store = write(tmp_path / "table", 300), LocalStore(tmp_path / "index")
    slices = slices_of(lake)
    report = build_maps(store, lake, slices)
    (part,) = report.parts
    assert part.blocks is not None
    assert part.num_slices == 300
    assert not report.left_out
    reader = reader_of(store, report.parts, slices)
    (mapped,) = reader.read([slices[17]])
    assert mapped is not None
    assert mapped.pages == read_map(lake, slices[17])
    assert (mapped.token, mapped.size) == (slices[17].token, slices[17].size)
    assert reader.store.requests == 2, "the directory and one block"
    assert store.bytes_fetched <= part.directory.size + 64 * 1024 < part.blocks.size
    data = Path(str(slices[17].path)).read_bytes()
    expected = pq.read_metadata(io.BytesIO(data))
    for row_group in range(expected.num_row_groups):
        chunk = expected.row_group(row_group).column(1)
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        assert mapped.ranges({row_group: None}, [("text",)]) == [(start, start + chunk.total_compressed_size)]
    maps = reader.read(slices, [[0]] * 300)
    assert all(found is not None and found.pages.row_groups == [(0, 0, 5000)] for found in maps)


def test_a_small_map_is_one_file_and_one_request(tmp_path: Path) -> None:
    lake, store = write(tmp_path / "table", 2), LocalStore(tmp_path / "index")
    slices = slices_of(lake)
    (part,) = build_maps(store, lake, slices).parts
    assert part.blocks is None
    assert len(part.parts()) == 1
    assert all(reader_of(store, [part], slices).read(slices))
    assert store.requests == 1


def test_ranges_of_rows_have_the_pages_with_these_rows(tmp_path: Path) -> None:
    lake, store = write(tmp_path / "table", 1), LocalStore(tmp_path / "index")
    slices = slices_of(lake)
    (mapped,) = reader_of(store, build_maps(store, lake, slices).parts, slices).read(slices)
    assert mapped is not None
    column = mapped.columns[("text",)]
    pages = mapped.pages.pages(1, column)
    assert pages is not None
    assert len(pages) > 3
    first_rows = [first_row for _, _, first_row in pages]
    offset, length, _ = pages[2]
    start, _, dictionary, *_ = mapped.pages.chunk(1, column)
    expected = [(offset, offset + length)]
    if dictionary:
        expected.insert(0, (start, start + dictionary))
    assert mapped.ranges({1: [(first_rows[2], first_rows[3])]}, [("text",)]) == expected
    assert mapped.ranges({1: []}, [("text",)]) == []
    everything = mapped.ranges({0: None, 1: None, 2: None})
    assert everything == mapped.ranges({0: None, 1: None, 2: None}, [("id",), ("text",), ("part",)])
    assert sum(end - start for start, end in everything) == sum(
        mapped.pages.chunk(group, column)[1] for group in range(3) for column in range(3)
    )


def test_struct_columns_have_the_ranges_of_all_leaves_below(tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    column = pa.array([{"x": number, "y": {"z": str(number)}} for number in range(100)])
    pq.write_table(pa.table({"s": column, "sx": range(100)}), tmp_path / "table" / "a.parquet")
    lake, store = open_lake(str(tmp_path / "table")), LocalStore(tmp_path / "index")
    slices = slices_of(lake)
    (mapped,) = reader_of(store, build_maps(store, lake, slices).parts, slices).read(slices)
    assert mapped is not None
    assert mapped.columns == {("s", "x"): 0, ("s", "y", "z"): 1, ("sx",): 2}
    assert mapped.leaves_below([("s",)]) == [0, 1]
    assert mapped.leaves_below([("s", "y")]) == [1]
    assert mapped.leaves_below([("sx",), ("other",)]) == [2]


def test_a_map_is_only_used_for_the_version_of_the_file_that_was_mapped(tmp_path: Path) -> None:
    lake, store = write(tmp_path / "table", 3), LocalStore(tmp_path / "index")
    slices = slices_of(lake)
    reader = reader_of(store, build_maps(store, lake, slices).parts, slices)
    pq.write_table(table(9), tmp_path / "table" / "001.parquet", **OPTIONS)
    pq.write_table(table(9), tmp_path / "table" / "new.parquet", **OPTIONS)
    found = reader.read(slices_of(lake))
    assert [mapped is not None for mapped in found] == [True, False, True, False]
    assert not reader.doubts


def test_files_that_change_while_they_are_listed_and_mapped_are_left_out(tmp_path: Path) -> None:
    lake, store = write(tmp_path / "table", 3), LocalStore(tmp_path / "index")
    slices = slices_of(lake)
    pq.write_table(table(9), tmp_path / "table" / "001.parquet", **OPTIONS)
    (tmp_path / "table" / "002.parquet").unlink()
    report = build_maps(store, lake, slices)
    changed, missing = (report.left_out[slices[number].location] for number in (1, 2))
    assert isinstance(changed, ConflictError)
    assert "001.parquet was changed since it was listed" in str(changed)
    assert isinstance(missing, FileNotFoundError)
    found = reader_of(store, report.parts, slices).read(slices)
    assert [mapped is not None for mapped in found] == [True, False, False]


@pytest.mark.parametrize("plaintext_footer", [True, False])
def test_encrypted_and_damaged_files_are_left_out(tmp_path: Path, plaintext_footer: bool) -> None:
    lake, store = write(tmp_path / "table", 2), LocalStore(tmp_path / "index")
    encrypted(tmp_path / "table" / "encrypted.parquet", plaintext_footer=plaintext_footer)
    slices = slices_of(lake)
    (tmp_path / "other").mkdir()
    report = build_maps(store, lake, slices)
    assert [location.group for location in report.left_out] == ["encrypted.parquet"]
    # An update does not try again.
    assert isinstance(report.left_out[slices[2].location], UnsupportedError)
    assert "encrypted" in str(report.left_out[slices[2].location])
    found = reader_of(store, report.parts, slices).read(slices)
    assert [mapped is not None for mapped in found] == [True, True, False]


def test_tables_in_object_stores_are_mapped(tmp_path: Path) -> None:
    memory = MemoryStore()
    for part in range(3):
        file = io.BytesIO()
        pq.write_table(table(part), file, **OPTIONS)
        memory.put(f"table/{part}.parquet", file.getvalue())
    lake, store = open_lake((memory, "table")), LocalStore(tmp_path / "index")
    slices = slices_of(lake)
    report = build_maps(store, lake, slices)
    assert not report.left_out
    assert all(reader_of(store, report.parts, slices).read(slices))
    file = io.BytesIO()
    pq.write_table(table(7), file, **OPTIONS)
    memory.put("table/1.parquet", file.getvalue())
    changed = build_maps(store, lake, slices)
    assert [location.group for location in changed.left_out] == ["1.parquet"]
    assert isinstance(changed.left_out[slices[1].location], ConflictError)


def test_the_same_slices_give_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, store = write(tmp_path / "table", 40), LocalStore(tmp_path / "index")
    slices = slices_of(lake)
    one = build_maps(store, lake, slices, threads=1).parts
    many = build_maps(store, lake, slices, threads=8, first_id=1000).parts
    assert stored_bytes(store, one) == stored_bytes(store, many)
    # Executors send the maps of files as bytes.
    sent = [read_map(lake, file_slice).to_bytes() for file_slice in slices]
    part, refused = put_maps(store, map(FileMap.from_bytes, sent), 0)
    assert stored_bytes(store, one) == stored_bytes(store, [part])
    assert not refused
    monkeypatch.setattr(build, "BLOCKS_IN_MEMORY", 1000)
    monkeypatch.setattr(build, "WINDOW", 4)
    spilled = build_maps(store, lake, slices, spill=str(tmp_path)).parts
    assert stored_bytes(store, one) == stored_bytes(store, spilled)
    assert not list(tmp_path.glob("parsieve-*")), "temporary files are removed"


def test_many_slices_are_stored_in_several_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, store = write(tmp_path / "table", 25), LocalStore(tmp_path / "index")
    slices = slices_of(lake)
    monkeypatch.setattr(build, "SLICES_PER_PART", 10)
    parts = build_maps(store, lake, slices, first_id=7).parts
    assert [(part.first_id, part.num_slices) for part in parts] == [(7, 10), (17, 10), (27, 5)]
    reader = reader_of(store, parts, slices, first_id=7)
    found = reader.read([slices[24], slices[3]])
    assert [mapped and mapped.pages for mapped in found] == [read_map(lake, slices[number]) for number in (24, 3)]
    assert len(reader._opened) == 2, "only the parts with these slices are opened"


def test_merged_parts_have_the_same_maps_without_dead_slices(tmp_path: Path) -> None:
    lake, store = write(tmp_path / "table", MAX_PARTS + 2), LocalStore(tmp_path / "index")
    slices = slices_of(lake)
    # Each part has its own id, and one id between two parts belongs to no slice.
    parts = [build_maps(store, lake, [piece], first_id=2 * number).parts[0] for number, piece in enumerate(slices)]
    live = {2 * number for number in range(len(slices))} - {4}
    assert merge_maps(store, parts[:MAX_PARTS], live) == tuple(parts[:MAX_PARTS])
    damaged = parts[3].directory
    (store.root / damaged.name).write_bytes(b"not a map")
    (merged,) = merge_maps(store, parts, live)
    tokens = {piece.location: piece.token for piece in slices}
    ids = {piece.location: 2 * number for number, piece in enumerate(slices)}
    found = open_map(store, [merged], tokens, ids).read(slices)
    assert [number for number, mapped in enumerate(found) if mapped is None] == [2, 3]
    for mapped, file_slice in zip(found, slices, strict=True):
        assert mapped is None or mapped.pages == read_map(lake, file_slice)


def test_metadata_of_pandas_does_not_make_schemas_distinct(tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    for number in range(5):
        pd.DataFrame({"id": range(10 + number)}).to_parquet(tmp_path / "table" / f"{number}.parquet")
    lake = open_lake(str(tmp_path / "table"))
    maps = [read_map(lake, file_slice) for file_slice in slices_of(lake)]
    assert len({file_map.footer()[:200] for file_map in maps}) == 5, "the files have different rows"
    store = LocalStore(tmp_path / "index")
    (part,) = build_maps(store, lake, slices_of(lake)).parts
    one = build_maps(store, lake, slices_of(lake)[:1]).parts[0]
    assert part.directory.size < 2 * one.directory.size


def test_the_arrow_schema_is_kept_in_the_footer_of_a_map(tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    columns = {"t": pa.array([1, None], pa.duration("us")), "d": pa.array(["a", "b"]).dictionary_encode()}
    path = tmp_path / "table" / "a.parquet"
    pq.write_table(pa.table(columns, metadata={"written": "by a test"}), path)
    lake = open_lake(str(path.parent))
    footer = read_map(lake, slices_of(lake)[0]).footer()
    data = path.read_bytes()
    replaced = data[: len(data) - 8 - int.from_bytes(data[-8:-4], "little")] + footer
    found = pq.read_table(io.BytesIO(replaced + len(footer).to_bytes(4, "little") + b"PAR1"))
    expected = pq.read_table(path)
    assert found.equals(expected)
    assert found.schema.equals(expected.schema)
    assert not found.schema.metadata, "metadata of the table may differ in each file"


def damages(data: bytes) -> list[bytes]:
    step = max(1, len(data) // 40)
    flipped = [data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :] for at in range(0, len(data), step)]
    return [*flipped, *(data[:end] for end in range(0, len(data), step)), b""]


@pytest.mark.parametrize("parts", [2, 300], ids=["in one file", "in two files"])
def test_damaged_files_of_a_map_give_no_map_and_a_reason(tmp_path: Path, parts: int) -> None:
    lake, store = write(tmp_path / "table", parts), LocalStore(tmp_path / "index")
    slices = slices_of(lake)
    (part,) = build_maps(store, lake, slices).parts
    expected = [mapped and mapped.pages for mapped in reader_of(store, [part], slices).read(slices)]
    assert None not in expected
    for file in part.parts():
        path = store.root / file.name
        intact = path.read_bytes()
        for damaged in damages(intact):
            path.write_bytes(damaged)
            reader = reader_of(store, [part], slices)
            found = [mapped and mapped.pages for mapped in reader.read(slices)]
            assert all(pages is None or pages == right for pages, right in zip(found, expected, strict=True))
            assert None in found
            assert list(reader.doubts) == [file.name]
        path.unlink()
        reader = reader_of(store, [part], slices)
        assert reader.read(slices) == [None] * len(slices)
        assert reader.doubts
        path.write_bytes(intact)


def test_blocks_of_another_map_are_rejected(tmp_path: Path) -> None:
    store, parts, slices = LocalStore(tmp_path / "index"), [], []
    for name in ("one", "two"):
        lake = write(tmp_path / name, 300, data_page_size=500 if name == "one" else 700)
        slices = slices_of(lake)
        parts += build_maps(store, lake, slices).parts
    one, two = parts
    assert one.blocks is not None
    assert two.blocks is not None
    swapped = MapPart(0, 300, two.directory, Part(one.blocks.name, two.blocks.size))
    assert reader_of(store, [swapped], slices).read(slices) == [None] * 300


def test_parts_are_stored_as_rows_of_a_document(tmp_path: Path) -> None:
    blocks = [None, Part("pages/b.blocks", 70_000)]
    for number, block in itertools.product((0, 5), blocks):
        written = MapPart(number, 9, Part("pages/a.map", 77, "digest"), block)
        assert tuple(map(type, written.to_row())) == ROW_TYPES
        assert MapPart.from_row(written.to_row()) == written
    for first_id, num_slices in [(-1, 9), (0, -9), (0, 2**32), (2**32 - 2, 2)]:
        with pytest.raises(FormatError, match="ids out of range"):
            MapPart.from_row([first_id, num_slices, "a", 1, "", "", 0])


def test_slices_without_a_token_have_no_map(tmp_path: Path) -> None:
    lake, store = write(tmp_path / "table", 1), LocalStore(tmp_path / "index")
    slices = slices_of(lake)
    parts = build_maps(store, lake, slices).parts
    young = dataclasses.replace(slices[0], token="")
    assert open_map(store, parts, {young.location: ""}, {young.location: 0}).read([young]) == [None]


def test_progress_counts_every_slice(tmp_path: Path) -> None:
    lake, store, steps = write(tmp_path / "table", 3), LocalStore(tmp_path / "index"), list[int]()
    build_maps(store, lake, slices_of(lake), advance=lambda: steps.append(1))
    assert len(steps) == 3


def test_files_of_hudi_have_a_map_unless_they_have_logs(tmp_path: Path) -> None:
    hudi = HudiTable(tmp_path, pa.schema([("id", pa.int64())]))
    hudi.commit({"group-1": pa.table({"id": range(5)}), "group-2": pa.table({"id": range(7)})})
    lake = open_lake(str(tmp_path))
    slices = slices_of(lake)
    assert [read_map(lake, file_slice).row_groups for file_slice in slices] == [[(0, 0, 5)], [(0, 0, 7)]]
    with pytest.raises(UnsupportedError, match="not a single Parquet file"):
        read_map(lake, dataclasses.replace(slices[0], clean=False))


def test_files_with_deleted_rows_have_a_map_of_all_rows(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"id": range(9)}))
    lake = open_lake(str(tmp_path))
    (file_slice,) = slices_of(lake)
    with_deletion_vector = dataclasses.replace(file_slice, clean=False, token="another token")
    assert read_map(lake, with_deletion_vector) == read_map(lake, file_slice)
    with pytest.raises(ConflictError):
        read_map(lake, dataclasses.replace(file_slice, size=7))


def test_maps_are_built_by_default_for_tables_in_object_stores(tmp_path: Path) -> None:
    local, memory = write(tmp_path / "table", 1), MemoryStore()
    file = io.BytesIO()
    pq.write_table(table(0), file)
    memory.put("table/0.parquet", file.getvalue())
    remote = open_lake((memory, "table"))
    assert [wants_map(local, pages) for pages in (True, False, None)] == [True, False, False]
    assert [wants_map(remote, pages) for pages in (True, False, None)] == [True, False, True]


def test_slices_that_could_not_be_read_are_worth_another_try(tmp_path: Path) -> None:
    lake, store = write(tmp_path / "table", 2), LocalStore(tmp_path / "index")
    encrypted(tmp_path / "table" / "encrypted.parquet", plaintext_footer=True)
    slices = slices_of(lake)
    (tmp_path / "table" / "001.parquet").unlink()
    report = build_maps(store, lake, slices)
    assert report.left_out.keys() == {slices[1].location, slices[2].location}
    assert report.to_retry() == {slices[1].location}
