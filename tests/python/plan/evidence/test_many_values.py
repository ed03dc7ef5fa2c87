"""Tests of the samples of long lists of values."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.aging import wait_until_old

import parsieve as ps
from parsieve.plan.evidence.index.sieve import MANY_VALUES, PLACES, SAMPLE
from parsieve.plan.evidence.minmax import FEW, ColumnBounds, may_match
from parsieve.plan.evidence.questions import HasAnyOf, neighbors_of
from parsieve.predicate.expr import Column

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
    assert plan.record.health == "sound"
    assert [stage.evidence for stage in plan.record.stages] == ["the predicate itself", "index"]
    assert f"  index: kept {len(plan.files)} of 8 files" in plan.explain()


def test_many_keys_of_another_type_than_the_index_keep_its_files(tmp_path: Path) -> None:
    for name in ("0", "1"):
        pq.write_table(pa.table({"id": [1, 2]}), tmp_path / f"{name}.parquet")
    wait_until_old(tmp_path)
    ps.open_table(tmp_path).build_index("id", "sieve", progress=False)
    # Now the table's type is text, and the index still covers the other file.
    pq.write_table(pa.table({"id": ["1", "2"]}), tmp_path / "0.parquet")
    wait_until_old(tmp_path)
    plan = ps.open_table(tmp_path).plan(keys={"id": NUMBERS.cast(pa.string())})
    assert str(tmp_path / "1.parquet") in plan.files


@pytest.mark.parametrize(
    "kind",
    [
        pa.int8(),
        pa.uint64(),
        pa.float16(),
        pa.float64(),
        pa.string(),
        pa.binary(),
        pa.decimal128(21, 2),
        pa.date32(),
        pa.time64("ns"),
        pa.timestamp("ns", "UTC"),
    ],
    ids=str,
)
def test_bounds_are_compared_with_all_values(kind: pa.DataType) -> None:
    """A unit is kept if a value is within its bounds, or if a bound is unknown."""
    source = random.Random(str(kind))
    for _ in range(50):
        numbers = source.sample(range(60), source.randrange(FEW + 1, 20))
        sides: list[list[int | None]] = [
            [source.choice([None, source.randrange(60)]) for _ in range(12)] for _ in range(2)
        ]
        lower, upper = (_of_type(side, kind) for side in sides)
        values = _of_type([*numbers], kind)
        bounds = ColumnBounds(lower, upper, pa.array([0] * 12), pa.array([1] * 12))
        mask = may_match(HasAnyOf(Column(("x",), kind), values), bounds)
        assert mask is not None
        pairs = list(zip(*sides, strict=True))
        expected = [
            low is None or high is None or any(low <= number <= high for number in numbers) for low, high in pairs
        ]
        assert mask.to_pylist() == expected


def _of_type(numbers: list[int | None], kind: pa.DataType) -> pa.Array:
    """Return values of a type in the order of the numbers."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return pa.array([None if number is None else f"{number:03}" for number in numbers], kind)
    if pa.types.is_temporal(kind):
        return pa.array(numbers, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    return pa.array(numbers, pa.int64()).cast(kind)
