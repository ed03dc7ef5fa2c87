"""The core's row reader decodes random rows of the files of each writer as pyarrow does."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.rows import writers
from support.rows.core_reads import (
    CoreOutcome,
    RowFile,
    RowSet,
    check_core,
    check_damage,
    check_row_sets,
    open_rows,
    read_rows,
)

import parsieve as ps

pytestmark = [
    pytest.mark.skipif(RowFile is None, reason="this build of the core has no row reader"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]


@pytest.mark.parametrize("writer", ["pyarrow", "arrow-rs", "duckdb", "polars"])
def test_random_rows_are_those_of_pyarrow(tmp_path: Path, writer: str) -> None:
    if writer not in writers.installed():
        pytest.skip(f"the library of {writer} is not installed")
    outcomes: list[CoreOutcome] = []
    for number in range(25):
        outcomes += check_core(f"{writer}/{number}", tmp_path / str(number), writer)
    mismatches = [outcome.mismatch for outcome in outcomes if outcome.mismatch]
    assert not mismatches, "\n".join(mismatches[:5])
    assert sum(outcome.num_rows > 0 for outcome in outcomes) >= 25


def test_row_sets_are_sets_of_row_numbers() -> None:
    random_ = random.Random(1)
    for _ in range(300):
        check_row_sets(random_, random_.choice((0, 1, 50, 3000)))


@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY", "dictionary"])
def test_values_that_split_a_character_are_errors(encoding: str) -> None:
    """All bytes of the page are UTF-8 together, but two of its values are not. pyarrow reads them as they are."""
    values = pa.array([b"text \xcf", b"\x91ext", b"plain"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 3, values.buffers())
    written = io.BytesIO()
    options: dict[str, Any] = {"use_dictionary": True}
    if encoding != "dictionary":
        options = {"use_dictionary": False, "column_encoding": {"t": encoding}}
    pq.write_table(pa.table({"t": text}), written, **options)
    data = written.getvalue()
    with pytest.raises(ps.FormatError):
        read_rows(data, open_rows(data), [0], RowSet.all(3), 64)


@pytest.mark.parametrize(
    ("seed", "writer"),
    [
        # A page that claims two values more than it has, so that the last pages seemed to be superfluous.
        ("x313", "pyarrow"),
        # Definition levels whose last group is cut off.
        ("x153", "arrow-rs"),
        # Fewer dictionary indexes than values.
        ("x134", "duckdb"),
    ],
)
def test_damage_that_once_gave_other_rows(tmp_path: Path, seed: str, writer: str) -> None:
    outcomes = check_damage(seed, tmp_path, writer)
    assert not [outcome.mismatch for outcome in outcomes if outcome.mismatch]
    assert any("damaged" in outcome.refused for outcome in outcomes)
