"""Tests of the samples of long lists of values."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import parsieve as ps
from parsieve.plan.evidence.questions import neighbors_of
from parsieve.plan.evidence.sieve_index import MANY_VALUES, PLACES, SAMPLE

COUNT = MANY_VALUES + 1
NUMBERS = pa.array(random.Random(3).sample(range(10 * COUNT), COUNT), pa.int64())
TEXTS = pc.binary_join_element_wise("order", NUMBERS.cast(pa.string()), "-")
DECIMALS = pa.array([Decimal(number) / 100 for number in NUMBERS.to_pylist()], pa.decimal128(18, 2))


@pytest.mark.parametrize(
    "values",
    [
        NUMBERS,
        NUMBERS.cast(pa.uint32()),
        NUMBERS.cast(pa.float64()),
        NUMBERS.cast(pa.timestamp("us")),
        NUMBERS.cast(pa.timestamp("ns", "UTC")),
        NUMBERS.cast(pa.int32()).cast(pa.date32()),
        NUMBERS.cast(pa.duration("us")),
        NUMBERS.cast(pa.int32()).cast(pa.time32("ms")),
        DECIMALS,
        DECIMALS.cast(pa.decimal64(18, 2)),
        DECIMALS.cast(pa.decimal32(9, 2)),
        TEXTS,
        TEXTS.cast(pa.large_string()),
        TEXTS.cast(pa.binary()),
        pa.array([number.to_bytes(16) for number in NUMBERS.to_pylist()], pa.binary(16)),
    ],
    ids=lambda values: str(values.type),
)
def test_a_sample_has_some_of_the_values(values: pa.Array) -> None:
    chosen = neighbors_of(values, SAMPLE, PLACES)
    assert chosen.type == values.type
    assert SAMPLE / 4 < len(chosen) < SAMPLE * 2
    members = set(values.to_pylist())
    assert all(value in members for value in chosen.to_pylist())


@pytest.mark.parametrize("scattered", [True, False])
def test_a_plan_for_many_keys_keeps_their_files(tmp_path: Path, scattered: bool) -> None:
    files, rows = 8, 20_000
    order = random.Random(4).sample(range(files * rows), files * rows) if scattered else list(range(files * rows))
    for number in range(files):
        part = order[number * rows : (number + 1) * rows]
        pq.write_table(pa.table({"id": pa.array(part, pa.int64())}), tmp_path / f"{number}.parquet")
    table = ps.open_table(tmp_path)
    table.build_index("id", "sieve", progress=False)
    wanted = pa.array(range(COUNT), pa.int64())
    plan = table.plan(keys={"id": wanted})
    assert sorted(plan.to_arrow()["id"].to_pylist()) == wanted.to_pylist()
    assert len(plan.files) == (files if scattered else -(-COUNT // rows))
