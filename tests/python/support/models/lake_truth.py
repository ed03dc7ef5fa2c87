"""Check the snapshots of any table: its slices contain all rows, statistics are true, and tokens identify rows."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from parsieve.io.ranges import RangeReader, open_footer
from parsieve.lake import Lake, Slice, Snapshot
from parsieve.lake.base import ColumnPath
from parsieve.lake.rows.columns import leaf_field, leaf_of
from parsieve.plan.evidence.file_columns import FileLeaves, WantedLeaf
from parsieve.predicate.column_names import ColumnNames


def leaf_paths(schema: pa.Schema) -> list[ColumnPath]:
    """Return the paths of all leaves outside lists, since an index has no columns in lists."""

    def below(path: ColumnPath, kind: pa.DataType) -> Iterable[ColumnPath]:
        if pa.types.is_struct(kind):
            for child in kind:
                yield from below((*path, child.name), child.type)
        elif not pa.types.is_nested(kind):
            yield path

    return [path for field in schema for path in below((field.name,), field.type)]


def comparable(value: Any) -> Any:
    """Return a value that equals itself, also for NaN."""
    if isinstance(value, float) and math.isnan(value):
        return ("nan",)
    if isinstance(value, dict):
        return ("dict", *((name, comparable(child)) for name, child in value.items()))
    if isinstance(value, list):
        return ("list", *map(comparable, value))
    return value


def path_in_base(lake: Lake, piece: Slice, schema: pa.Schema, path: ColumnPath) -> ColumnPath | None:
    """Return the path at which plans look for a column in the footer of a slice's base file."""
    if path[0] in lake.constants(piece):
        return None
    reader = RangeReader(lake.open_base(piece))
    try:
        file = open_footer(reader)
        number = FileLeaves(file).find(WantedLeaf(schema, ColumnNames(schema).find(path)))
        return None if number is None else tuple(file.columns[number])
    finally:
        reader.close()


def rows(table: pa.Table) -> list[str]:
    """Return the rows as sorted text, so that tables compare equal in any order."""
    return sorted(repr([comparable(value) for value in row.values()]) for row in table.to_pylist())


def keys_of(lake: Lake, piece: Slice, schema: pa.Schema, paths: list[ColumnPath]) -> pa.Table:
    """Read the keys of a slice, and check their types."""
    expected = pa.schema([pa.field(".".join(path), leaf_field(schema, path).type) for path in paths])
    batches = list(lake.read_keys(piece, paths))
    for batch in batches:
        assert batch.schema.types == expected.types
        batch.validate(full=True)
    return pa.Table.from_batches(batches, schema=expected)


def check_columns(snapshot: Snapshot) -> None:
    """Check that the columns of the slices equal the attributes of each slice, also of selected or pickled slices."""
    slices = snapshot.slices
    pieces = list(slices)
    chosen = list(range(0, len(pieces), 3))
    for name in ("partition", "group", "token", "path", "size", "num_rows", "clean"):
        assert getattr(slices, name).to_pylist() == [getattr(piece, name) for piece in pieces]
        part = getattr(slices.select(pa.array(chosen, pa.int64())), name)
        assert part.to_pylist() == [getattr(pieces[number], name) for number in chosen]
    for name, column in slices.partition_values.items():
        for piece, number in zip(pieces, column.numbers.to_pylist(), strict=True):
            assert (number is not None) == (name in piece.partition_values)
            assert number is None or column.values[number] == piece.partition_values[name]
    assert all(first is second for first, second in zip(pieces, slices, strict=True))
    if pieces:
        assert slices[-1] is pieces[-1]
        assert slices[0:2] == tuple(pieces[0:2])
    restored = pickle.loads(pickle.dumps(slices.thinned(chosen)))
    for name in ("partition", "group", "token", "path", "size", "num_rows", "clean"):
        assert getattr(restored, name).equals(getattr(slices, name))
    assert [piece.partition_values for piece in restored] == [piece.partition_values for piece in pieces]
    assert [piece.native is not None for piece in restored] == [number in chosen for number in range(len(pieces))]
    assert restored.same_rows(slices) == all(piece.token for piece in pieces)
    assert snapshot.tokens == {piece.location: piece.token for piece in pieces}


def check_snapshot(lake: Lake, snapshot: Snapshot, full: pa.Table) -> dict[Any, pa.Table]:
    """Compare a snapshot with the rows from the format's own reader. Return the live rows of each location."""
    assert rows(lake.read(snapshot, snapshot.slices).read_all().select(full.column_names)) == rows(full)
    check_columns(snapshot)
    paths = leaf_paths(snapshot.schema)
    by_location = {}
    row_texts = []
    for number, piece in enumerate(snapshot.slices):
        keys = keys_of(lake, piece, snapshot.schema, paths)
        alone = lake.read(snapshot, [piece]).read_all()
        assert alone.schema.types == snapshot.schema.types
        flat = [leaf_of(batch, path) for path in paths for batch in alone.combine_chunks().to_batches()[:1]]
        assert rows(keys) == rows(pa.table(flat, names=keys.column_names) if flat else keys.slice(0, 0))
        by_location[piece.location] = alone
        row_texts += rows(alone.select(full.column_names))
        for name, value in piece.partition_values.items():
            assert all(key == value for key in keys[name].to_pylist()), (name, value)
        for path in paths:
            check_statistics(snapshot, path, number, keys[".".join(path)])
    assert sorted(row_texts) == rows(full)
    assert len(by_location) == len(snapshot.slices)
    return by_location


def check_statistics(snapshot: Snapshot, path: ColumnPath, number: int, values: pa.ChunkedArray) -> None:
    """Check that the statistics of a slice are true for its live rows."""
    statistics = snapshot.statistics(path)
    if statistics is None:
        return
    for array in (statistics.lower, statistics.upper, statistics.null_count, statistics.value_count):
        assert len(array) == len(snapshot.slices)
    assert statistics.lower.type == statistics.upper.type == values.type
    lower, upper = statistics.lower[number].as_py(), statistics.upper[number].as_py()
    for value in values.drop_null().to_pylist():
        if isinstance(value, float) and math.isnan(value):
            continue
        assert lower is None or lower <= value, (path, lower, value)
        assert upper is None or value <= upper, (path, value, upper)
        if value == 0 and isinstance(value, float):
            assert lower is None or lower != 0 or math.copysign(1, lower) == -1, path
            assert upper is None or upper != 0 or math.copysign(1, upper) == 1, path
    nulls, count = statistics.null_count[number].as_py(), statistics.value_count[number].as_py()
    piece = snapshot.slices[number]
    assert nulls is None or (values.null_count == nulls if piece.clean else values.null_count <= nulls), path
    assert count is None or (len(values) == count if piece.clean else len(values) <= count), path
    if nulls is not None and nulls == count:
        assert values.null_count == len(values)


def check_tokens(histories: list[tuple[Snapshot, dict[Any, pa.Table]]]) -> None:
    """Check that equal tokens of a location mean equal rows, for the columns that did not change."""
    meaning: dict[Any, pa.Table] = {}
    for snapshot, by_location in histories:
        for piece in snapshot.slices:
            if not piece.token:
                continue
            live = by_location[piece.location]
            earlier = meaning.setdefault((piece.location, piece.token), live)
            # Skip structs with a renamed field: the column is the same, but its values have other names.
            fields = {field.name: (field.metadata, field.type) for field in earlier.schema}
            names = [field.name for field in live.schema if fields.get(field.name) == (field.metadata, field.type)]
            assert names
            assert rows(live.select(names)) == rows(earlier.select(names)), piece


def commit(folder: Path, *actions: dict[str, Any]) -> int:
    """Append a version to the log of a Delta table, and return its number."""
    log = folder / "_delta_log"
    version = sum(1 for path in log.iterdir() if path.suffix == ".json")
    (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return version
