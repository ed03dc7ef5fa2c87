"""Which deletes apply to which data files of an Iceberg table, by partition, by path, and to all files."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, VoidTransform
from pyiceberg.types import DoubleType, LongType, NestedField
from support.iceberg_manifests import HandWrittenTable

import parsieve as ps
from parsieve.lake import open_lake
from parsieve.lake.iceberg.manifests import _SCHEMA, DataFiles, DeleteFile, _match_deletes
from parsieve.lake.iceberg.table import _vector

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "part", DoubleType()))
BY_PART = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"), spec_id=1)
# Format version 1 replaces a dropped partition field by a void one.
NO_LONGER = PartitionSpec(PartitionField(2, 1000, VoidTransform(), "part"), spec_id=2)


@pytest.fixture
def table(tmp_path: Path) -> HandWrittenTable:
    return HandWrittenTable(tmp_path / "table", SCHEMA, UNPARTITIONED_PARTITION_SPEC, BY_PART, NO_LONGER)


def some_rows(part: float) -> pa.Table:
    return pa.table({"id": pa.array(range(5), pa.int64()), "part": [part] * 5})


def ids(table: HandWrittenTable) -> list[int]:
    column: list[int] = ps.open_table(table.metadata).plan("id >= 0").to_arrow()["id"].to_pylist()
    return sorted(column)


def test_position_deletes_apply_to_the_partition_of_nan(table: HandWrittenTable) -> None:
    path = table.add_rows(some_rows(math.nan), 1, math.nan)
    planned = ps.open_table(str(table.folder))
    planned.build_index("id", kind="sieve")
    table.delete_rows(path, [0, 3], 1, math.nan)
    assert ids(table) == [1, 2, 4]
    assert planned.plan("id = 3").to_arrow().num_rows == 0
    planned.update_index()
    assert planned.plan("id = 3").files == []
    # The two zeros are two partitions.
    zero = table.add_rows(some_rows(0.0), 1, 0.0)
    table.delete_rows(zero, [4], 1, -0.0)
    assert ids(table) == sorted([1, 2, 4, *range(5)])
    table.delete_rows(zero, [4], 1, 0.0)
    assert ids(table) == sorted([1, 2, 4, *range(4)])


def test_position_deletes_of_a_single_path_apply_in_every_partition(table: HandWrittenTable) -> None:
    """pyiceberg finds such deletes by the path in their bounds, so their partition does not matter."""
    path = table.add_rows(some_rows(7), 1, 7.0)
    other = table.add_rows(some_rows(7), 1, 7.0)
    table.delete_rows(path, [0, 1], 0, bounds=path)
    assert ids(table) == sorted([2, 3, 4, *range(5)])
    # Without bounds, the deletes apply to their own partition only.
    table.delete_rows(other, [2], 0)
    assert ids(table) == sorted([2, 3, 4, *range(5)])


def test_position_deletes_with_truncated_bounds_apply_to_their_partition(table: HandWrittenTable) -> None:
    path = table.add_rows(some_rows(7), 1, 7.0)
    table.delete_rows(path, [0, 1], 1, 7.0, bounds=path[:16])
    assert ids(table) == [2, 3, 4]


@pytest.mark.parametrize("spec", [(0,), (2, None)])
def test_equality_deletes_without_a_partition_apply_to_all_files(
    table: HandWrittenTable, spec: tuple[int, ...]
) -> None:
    table.add_rows(some_rows(7), 1, 7.0)
    table.delete_keys(pa.table({"id": [3]}), *spec)
    table.add_rows(some_rows(8), 1, 8.0)
    planned = ps.open_table(table.metadata)
    with pytest.raises(ps.UnsupportedError, match="equality deletes"):
        planned.plan("part = 7").to_arrow()
    # Later files keep their rows.
    assert planned.plan("part = 8").to_arrow().num_rows == 5


@pytest.mark.parametrize("part", [7.0, math.nan])
def test_equality_deletes_of_a_partition_apply_to_its_files(table: HandWrittenTable, part: float) -> None:
    table.add_rows(some_rows(part), 1, part)
    table.add_rows(some_rows(8), 1, 8.0)
    table.delete_keys(pa.table({"id": [3]}), 1, part)
    slices = ps.open_table(table.metadata).opened.snapshot().slices
    assert slices.clean.to_pylist() == [False, True]


@pytest.mark.parametrize(("offset", "length"), [(None, 40), (4, None), (None, None), (4, 7)])
def test_a_deletion_vector_without_a_valid_place_is_rejected(offset: int | None, length: int | None) -> None:
    file = DataFile.from_args(file_path="file:///vectors.puffin")
    entry = DeleteFile(file, "POSITION_DELETES", 1, None, offset, length)
    with pytest.raises(ps.UnsupportedError, match=r"no valid offset and length of a deletion vector in .*puffin"):
        _vector(PyArrowFileIO(), entry, 10)


def test_a_deletion_vector_without_a_data_file_is_malformed() -> None:
    """Ignoring it would return deleted rows."""
    file = DataFile.from_args(file_path="file:///vectors.puffin")
    entry = DeleteFile(file, "POSITION_DELETES", 1, None, 4, 40)
    no_files = DataFiles(pa.RecordBatch.from_pylist([], _SCHEMA), [], {})
    with pytest.raises(ps.FormatError, match=r"does not name the data file of a deletion vector in .*vectors\.puffin"):
        _match_deletes(no_files, [entry], ())


@pytest.mark.parametrize("value", [0.1, 16_777_217.0, 1e300, -1e300, 5e-324, math.inf])
def test_partitions_of_doubles_are_exact(tmp_path: Path, value: float) -> None:
    """The fast decoder of pyiceberg rounds them to the precision of floats."""
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "v", DoubleType(), required=False))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "v"), spec_id=0)
    table = HandWrittenTable(tmp_path / "t", schema, spec)
    near = math.nextafter(value, 0)
    for number, partition in enumerate((value, near)):
        table.add_rows(pa.table({"id": [number], "v": [partition]}), 0, partition)
        # The value of the partition replaces a column that the file does not have.
        table.add_rows(pa.table({"id": [number + 10]}), 0, partition)
    opened = ps.open_table(table.metadata)
    for kind in (None, "sieve", "bloom"):
        if kind is not None:
            opened.build_index("v", kind, progress=False)
        for number, partition in enumerate((value, near)):
            rows = opened.plan(("v", "=", partition)).to_arrow().sort_by("id")
            assert rows.to_pylist() == [{"id": number + part, "v": partition} for part in (0, 10)]
    # Deletes apply to their own partition only.
    table.delete_keys(pa.table({"id": [0]}), 0, near)
    slices = open_lake(table.metadata).snapshot().slices
    assert [data_slice.partition_values["v"] for data_slice in slices if not data_slice.clean] == [near, near]
