"""Predicates and their negations over tables with columns that were widened after some files were written."""

from __future__ import annotations

import json
import os
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import DecimalType, DoubleType, LongType
from support.models import negations
from support.models.negations import DAY, INTS, REALS, SOME, Pair, Written

import parsieve as ps

NAMES = {
    pa.int8(): "byte",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp_ntz",
    pa.decimal128(9, 2): "decimal(9,2)",
    pa.decimal128(12, 4): "decimal(12,4)",
    pa.decimal128(20, 2): "decimal(20,2)",
}
LONG = ("DECIMAL(22, 2)", Decimal)
# The table's type, and the type of its oldest files.
DELTA = {
    "byte to int": Pair(pa.int32(), pa.int8(), INTS, [Decimal("0.5")], ("BIGINT", int)),
    "int to long": Pair(pa.int64(), pa.int32(), INTS, [2**70]),
    "int to double": Pair(pa.float64(), pa.int32(), [*INTS[:9], 2**40, 1.5], [Decimal("0.1")]),
    "int to decimal": Pair(pa.decimal128(20, 2), pa.int32(), [*INTS[:9], *SOME[:4]], [Decimal("0.005")]),
    "float to double": Pair(pa.float64(), pa.float32(), REALS, [Decimal("0.1"), 1]),
    "scale": Pair(pa.decimal128(12, 4), pa.decimal128(9, 2), SOME, [Decimal("0.00001")]),
    "date to timestamp": Pair(pa.timestamp("us"), pa.date32(), [0, DAY, -DAY, 10**6, 20_000 * DAY + 1000], [1]),
}
ICEBERG: dict[str, tuple[Pair, Any]] = {
    "int to long": (DELTA["int to long"], LongType()),
    "float to double": (DELTA["float to double"], DoubleType()),
    "digits": (Pair(pa.decimal128(20, 2), pa.decimal128(9, 2), SOME, [10**9], LONG), DecimalType(20, 2)),
}


def logged(value: Any) -> Any:
    """Return a minimum or maximum as Spark logs it: a float32 with its own shortest digits."""
    if isinstance(value, float):
        return float(str(pa.scalar(value, pa.float32()).cast(pa.string()))) if abs(value) < 1e38 else value
    return float(value) if isinstance(value, Decimal) else value


def delta(draw: random.Random, folder: Path, pair: Pair) -> list[Written]:
    """Write a Delta table and its log: one file with the old type and two with the new type."""
    (folder / "_delta_log").mkdir(parents=True)
    files: list[Written] = []
    for version, data_type in enumerate([pair.other, pair.first, pair.first]):
        values = negations.random_values(draw, data_type, pair)
        rows = pa.array(range(version * 10, version * 10 + len(values)), pa.int64())
        table = pa.table({"x": values, "y": pa.array([draw.choice([1, 7]) for _ in values], pa.int64()), "row": rows})
        path = folder / f"{version}.parquet"
        pq.write_table(table, path, row_group_size=2, bloom_filter_options={"x": True})
        os.utime(path, (1, 1))
        type_name = NAMES[data_type]
        type_changes = {"delta.typeChanges": [{"fromType": NAMES[pair.other], "toType": type_name}]} if version else {}
        fields = [{"name": "x", "type": type_name, "nullable": True, "metadata": type_changes}] + [
            {"name": name, "type": "long", "nullable": True, "metadata": {}} for name in ("y", "row")
        ]
        comparable = [value for value in values.to_pylist() if value is not None and value == value]
        stats: dict[str, Any] = {"numRecords": len(values), "nullCount": {"x": values.null_count}}
        if comparable and all(isinstance(value, int | float | Decimal) for value in comparable) and draw.random() < 0.7:
            finite = (
                all(abs(value) < 1e38 for value in comparable) and len(comparable) == len(values) - values.null_count
            )
            if finite:
                stats |= {"minValues": {"x": logged(min(comparable))}, "maxValues": {"x": logged(max(comparable))}}
        features = {"readerFeatures": ["typeWidening", "timestampNtz"], "writerFeatures": ["typeWidening"]}
        actions: list[dict[str, Any]] = [
            {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
            {
                "metaData": {
                    "id": "1",
                    "format": {"provider": "parquet", "options": {}},
                    "schemaString": json.dumps({"type": "struct", "fields": fields}),
                    "partitionColumns": [],
                    "configuration": {},
                }
            },
            {
                "add": {
                    "path": path.name,
                    "partitionValues": {},
                    "size": path.stat().st_size,
                    "modificationTime": 1000,
                    "dataChange": True,
                    "stats": json.dumps(stats),
                }
            },
        ]
        log = folder / "_delta_log" / f"{version:020}.json"
        log.write_text("\n".join(map(json.dumps, actions)))
        files.append(Written(str(path), pair.first, _rows(table)))
    return files


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    columns = (negations.raw(table["x"].combine_chunks()), table["y"].to_pylist(), table["row"].to_pylist())
    return [{"x": x, "y": y, "row": row} for x, y, row in zip(*columns, strict=True)]


def check(draw: random.Random, table: ps.Table, files: list[Written], pair: Pair) -> None:
    if draw.random() < 0.5:
        table.build_index("x", kind=draw.choice(["sieve", "bloom", "both"]), progress=False)
    stored_values = [row["x"] for file in files for row in file.rows if row["x"] is not None]
    for predicate in negations.forms(draw, pair, stored_values):
        negations.check(table, files, predicate.text, predicate.truth)


@pytest.mark.parametrize("name", DELTA)
def test_predicates_on_widened_delta_columns_lose_no_row(tmp_path: Path, name: str) -> None:
    for seed in range(2):
        draw, folder = random.Random(seed), tmp_path / str(seed)
        files = delta(draw, folder, DELTA[name])
        check(draw, ps.open_table(str(folder)), files, DELTA[name])


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("name", ICEBERG)
def test_predicates_on_widened_iceberg_columns_lose_no_row(tmp_path: Path, name: str) -> None:
    pair, wide = ICEBERG[name]
    iceberg(random.Random(5), tmp_path, pair, wide, rounds=3)


def iceberg(draw: random.Random, folder: Path, pair: Pair, wide: Any, rounds: int) -> None:
    catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/w")
    catalog.create_namespace("n")
    schema = pa.schema({"x": pair.other, "y": pa.int64(), "row": pa.int64()})
    table = catalog.create_table("n.t", schema)
    rows: dict[str, list[dict[str, Any]]] = {}
    for step in range(3):
        if step == 1:
            with table.update_schema() as update:
                update.update_column("x", wide)
        data_type = pair.first if step else pair.other
        values = negations.random_values(draw, data_type, pair)
        numbers = pa.array(range(step * 10, step * 10 + len(values)), pa.int64())
        data = pa.table({"x": values, "y": pa.array([draw.choice([1, 7]) for _ in values], pa.int64()), "row": numbers})
        table.append(data)
        for task in table.scan().plan_files():
            rows.setdefault(task.file.file_path.removeprefix("file://"), _rows(data))
    files = [Written(path, pair.first, file_rows) for path, file_rows in rows.items()]
    opened = ps.open_table(table.location())
    assert sorted(opened.plan().files) == sorted(rows)
    for _ in range(rounds):
        check(draw, opened, files, pair)
