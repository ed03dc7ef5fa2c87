"""`date_trunc`, `year` and their like match the same rows as in the engines, and skip only files without a match."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import parsieve as ps
from parsieve.predicate import parse, unknowns
from parsieve.predicate.times.steps import STEPS, step_around

# From the year 1400 to 2500.
FIRST, LAST = -18_000_000_000 * 10**6, 16_700_000_000 * 10**6
OPERATORS = ("=", "<>", "<", "<=", ">", ">=")


def moments(rng: random.Random, step: str, count: int) -> list[int]:
    """Return random microseconds, many of them close to the beginning of a step."""
    drawn = [rng.randrange(FIRST, LAST) for _ in range(count)]
    begins = [step_around(step, Fraction(value * 1000))[0] // 1000 for value in drawn]
    return [*drawn, *(begin + rng.randrange(-2, 3) for begin in begins), *begins]


@pytest.mark.parametrize("step", STEPS)
def test_a_step_begins_where_duckdb_and_polars_begin_it(step: str) -> None:
    drawn = moments(random.Random(1), step, 200)
    times = pa.array(drawn, pa.timestamp("us"))
    own = [step_around(step, Fraction(value * 1000))[0] // 1000 for value in drawn]
    with duckdb.connect() as con:
        by_duckdb = con.execute("SELECT epoch_us(date_trunc(?, make_timestamp(unnest(?))))", [step, drawn]).fetchall()
    every = {"minute": "1m", "month": "1mo"}.get(step, f"1{step[0]}")
    by_polars = pl.Series(times).dt.truncate(every).to_arrow().cast(pa.int64())
    assert own == [value for (value,) in by_duckdb] == by_polars.to_pylist()
    assert own == pc.floor_temporal(times, unit=step).cast(pa.int64()).to_pylist()


@pytest.mark.parametrize("seed", range(3))
def test_random_conditions_on_steps_match_the_same_rows_as_in_duckdb(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    start = rng.randrange(FIRST, LAST)
    for part in range(12):
        ticks = [start + part * 7 * 10**11 + rng.randrange(10**12) for _ in range(30)]
        rows = {"ts": pa.array([*ticks, None], pa.timestamp("us")), "row": [part * 100 + n for n in range(31)]}
        pq.write_table(pa.table(rows), tmp_path / f"{part:02}.parquet")
    table = ps.open_table(tmp_path)
    skipped = 0
    with duckdb.connect() as con:
        for _ in range(60):
            step, op = rng.choice(STEPS), rng.choice(OPERATORS)
            near = start + rng.randrange(10**13)
            value = near if rng.random() < 0.3 else step_around(step, Fraction(near * 1000))[0] // 1000
            [(text,)] = con.execute("SELECT make_timestamp(?)::VARCHAR", [value]).fetchall()
            condition = f"date_trunc('{step}', ts) {op} TIMESTAMP '{text}'"
            for where in (condition, f"NOT ({condition})", f"year(ts) {op} {text[:4]} OR {condition}"):
                query = f"SELECT row FROM '{tmp_path}/*.parquet' WHERE {where} ORDER BY row"
                plan = table.plan(where, on_unknown="error")
                assert plan.to_arrow()["row"].sort().to_pylist() == [row for (row,) in con.execute(query).fetchall()]
                skipped += len(plan.skipped)
    assert skipped


def test_a_column_of_another_zone_decides_its_dates_in_pyarrow_and_polars() -> None:
    schema = pa.schema({"z": pa.timestamp("us", "Europe/Berlin")})
    day = pa.scalar(20_000, pa.date32())
    for condition in (pc.field("z").cast(pa.date32()) == day, pl.col("z").dt.date() == day.as_py()):
        assert unknowns(parse(condition, schema, timezone="UTC"))
    assert not unknowns(parse("CAST(z AS DATE) = '2024-10-04'", schema, timezone="UTC"))


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("date_trunc('decade', ts) = TIMESTAMP '2020-01-01 00:00:00'", "use one of second, minute"),
        ("date_trunc('hour', id) = TIMESTAMP '2020-01-01 00:00:00'", "only timestamps and dates can be truncated to"),
        ("date_trunc('hour', date_trunc('day', ts)) = TIMESTAMP '2020-01-01 00:00:00'", "only ts itself"),
        ("year(ts) = 2026.5", "is a whole number"),
        ("CAST(year(ts) AS DATE) = '2026-01-01'", "is not supported"),
    ],
)
def test_other_steps_are_not_understood(where: str, reason: str) -> None:
    [unknown] = unknowns(parse(where, pa.schema({"ts": pa.timestamp("us"), "id": pa.int64()})))
    assert reason in unknown.reason
