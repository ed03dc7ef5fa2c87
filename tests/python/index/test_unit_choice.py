"""`unit="auto"` chooses the units that save more bytes of data than they add to the index."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.formats import folder

from parsieve import _core
from parsieve.index.build import unit_choice
from parsieve.index.build.unit_choice import MeasuredUnit, choose, choose_unit, measure_units
from parsieve.lake.base import Lake, Slice
from parsieve.table import Table

FILES, ROWS, GROUP = 8, 4_000, 500


def table_of(path: Path, kind: str) -> Lake:
    """Write files whose key is unique and scattered, in order, or the same in all row groups."""
    r = random.Random(1)
    keys = list(range(FILES * ROWS))
    if kind == "scattered":
        r.shuffle(keys)
    elif kind == "everywhere":
        keys = [key % 50 for key in keys]
    files = [pa.table({"key": pa.array(keys[at * ROWS : (at + 1) * ROWS], pa.int64())}) for at in range(FILES)]
    return folder(path, files, GROUP)


@pytest.mark.parametrize("kind", ["scattered", "in order", "everywhere"])
def test_a_sample_is_measured_with_each_kind_of_unit(kind: str, tmp_path: Path) -> None:
    lake = table_of(tmp_path / "t", kind)
    slices = list(lake.snapshot().slices)[:3]
    axis = _core.SieveAxis(pa.int64())
    by_file, by_group = measure_units(lake, slices, ("key",), axis)
    # No row group is cut, so ranges of rows are the same units.
    assert [by_file.unit, by_group.unit] == ["file", "row_group"]
    assert [by_file.num_units, by_group.num_units] == [3, 3 * ROWS // GROUP]
    assert by_file.report["keys"] == by_group.report["keys"]
    pairs = {"scattered": (1, 1), "in order": (1, 1), "everywhere": (3, 3 * ROWS // GROUP)}[kind]
    keys = by_file.report["keys"]
    assert [by_file.report["pairs"] / keys, by_group.report["pairs"] / keys] == list(pairs)
    more_bits = (by_group.report["lookup_bytes"] - by_file.report["lookup_bytes"]) * 8 / (3 * ROWS)
    # log2(8 row groups in a file) = 3.
    assert (2 < more_bits < 4) if kind == "scattered" else (more_bits < 0.5)


@pytest.mark.parametrize(
    ("slice_bytes", "num_slices", "more_bits", "pairs", "unit"),
    [
        # A row group is a quarter of a large file, and costs two bits a row.
        (100 << 20, 100, 2, 1, "rows"),
        # The request costs more than the bytes that it saves, so the footers of a build do not pay.
        (64 << 10, 100, 2, 1, "file"),
        # Each key is in all units.
        (100 << 20, 100, 2, 20, "file"),
        # Ranges of rows save little more than row groups, and take much more.
        (8 << 20, 10_000, 200, 1, "file"),
    ],
)
def test_the_cheapest_units_are_chosen(
    slice_bytes: int, num_slices: int, more_bits: float, pairs: int, unit: str
) -> None:
    rows = 100_000

    def report(bits: float, pairs: float) -> dict[str, Any]:
        return {"keys": rows, "pairs": int(rows * pairs), "lookup_bytes": int(rows * bits / 8)}

    measured = [
        MeasuredUnit("file", 1, report(10, 1)),
        MeasuredUnit("row_group", 4, report(10 + more_bits, min(pairs, 4))),
        MeasuredUnit("rows", 20, report(10 + 2 * more_bits, pairs)),
    ]
    choice = choose(measured, 1, num_slices, slice_bytes)
    assert choice.unit == unit
    assert choice.read_bytes <= choice.file_read_bytes
    assert choice.more_bytes == {"file": 0, "rows": int(2 * more_bits / 8 * rows) * num_slices}[unit]


def test_advice_names_the_units(tmp_path: Path) -> None:
    lake = table_of(tmp_path / "t", "scattered")
    [advice] = Table(lake).advise("key")
    assert advice.unit == "file"
    assert "as units" not in str(advice)
    assert choose_unit(lake, lake.snapshot(), ("key",)) == "file"
    assert choose_unit(lake, lake.snapshot(), ("key",), "rows") == "rows"
    with pytest.raises(ValueError, match='"rows" or "auto", not \'page\''):
        choose_unit(lake, lake.snapshot(), ("key",), "page")
    finer = advice._replace(
        unit="row_group", unit_bytes=3_000_000, unit_read_bytes=2_000_000, file_read_bytes=8_000_000
    )
    assert str(finer).endswith(
        "With row groups as units, the Sieve index takes 3 MB more, and a key reads 2 MB of data instead of 8 MB"
    )


def test_few_large_files_are_read_for_the_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = table_of(tmp_path / "t", "scattered")
    read: list[str | None] = []
    read_keys = lake.read_keys

    def watched(file_slice: Slice, columns: Any) -> Any:
        read.append(file_slice.path)
        return read_keys(file_slice, columns)

    monkeypatch.setattr(lake, "read_keys", watched)
    # As if the files were large.
    monkeypatch.setattr(unit_choice, "REQUEST_BYTES", 1)
    assert choose_unit(lake, lake.snapshot(), ("key",)) == "row_group"
    assert len(read) == unit_choice.SAMPLED_FOR_UNITS < FILES
