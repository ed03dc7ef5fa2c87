"""Compare the rows of random keys with brute force, for `Table.plan(keys=...)` and `Table.lookup`.

`python tests/python/support/programs/key_differences.py --conditions 10000 --seed 1` prints each difference with the
number of its table, and a summary. Half of the conditions of each table run without an index.
"""

from __future__ import annotations

import datetime as dt
import math
import random
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[2]))

import parsieve as ps
from support import differences

PER_TABLE = 40
_DAY = dt.datetime(2026, 1, 1)

# Values of each type of key. Many keys exist, and lists of more than 20 keys are looked up in a set.
MAKERS: dict[pa.DataType, Callable[[random.Random], Any]] = {
    pa.int64(): lambda source: source.choice([source.randrange(200), source.randrange(-(2**63), 2**63)]),
    pa.int8(): lambda source: source.randrange(-128, 128),
    pa.uint64(): lambda source: source.choice([source.randrange(200), 2**64 - 1 - source.randrange(200)]),
    pa.float64(): lambda source: source.choice([0.0, -0.0, math.nan, math.inf, source.randrange(200) / 4]),
    pa.float32(): lambda source: source.choice([0.0, -0.0, math.nan, source.randrange(200) / 4]),
    pa.string(): lambda source: source.choice("abä") * source.randrange(4) + str(source.randrange(60)),
    pa.binary(): lambda source: bytes(source.choice(b"\x00\x01\xff") for _ in range(source.randrange(6))),
    pa.binary(2): lambda source: bytes(source.choice(b"\x00\x01\x02\x7f\xff") for _ in range(2)),
    pa.decimal128(20, 2): lambda source: Decimal(source.randrange(-200, 200)) / 4,
    pa.date32(): lambda source: _DAY.date() + dt.timedelta(source.randrange(200)),
    pa.timestamp("us"): lambda source: _DAY + dt.timedelta(microseconds=source.randrange(200)),
    pa.timestamp("ms", "UTC"): lambda source: (_DAY + dt.timedelta(seconds=source.randrange(200))).replace(
        tzinfo=dt.UTC
    ),
    pa.time64("us"): lambda source: dt.time(0, 0, 0, source.randrange(200)),
}


def comparable(value: Any) -> Any:
    """Return a value that is equal to another one if SQL's `=` is true, and for NaN."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


def check_table(seed: str, folder: Path) -> tuple[int, int]:
    """Return how many answers differ, and how many files were skipped."""
    source = random.Random(seed)
    kind = source.choice(list(MAKERS))
    rows: list[tuple[int, Any]] = []
    for part in range(source.randrange(1, 6)):
        size = source.randrange(1, 60)
        values = [None if source.random() < 0.1 else MAKERS[kind](source) for _ in range(size)]
        if source.random() < 0.5:
            values.sort(key=lambda value: (value is None, str(value)))
        column = pa.array(values, kind)
        # A narrow float is another number than the float that it was made from.
        rows += [(part * 100 + number, value) for number, value in enumerate(column.to_pylist())]
        table = pa.table({"id": range(part * 100, part * 100 + size), "x": column})
        pq.write_table(
            table,
            folder / f"{part}.parquet",
            row_group_size=source.choice([7, 100]),
            write_statistics=source.random() < 0.8,
            use_dictionary=source.random() < 0.5,
        )
    opened = ps.open_table(folder)
    wrong = skipped = 0
    for number in range(PER_TABLE):
        if number == PER_TABLE // 2:
            index_kind = source.choice(("sieve", "bloom"))
            opened.build_index("x", index_kind, unit=source.choice(("file", "row_group")), progress=False)
        try:
            skipped += check(opened, rows, _keys(source, kind), source)
        except AssertionError as error:
            wrong += 1
            print(f"{seed}, {kind}: {error}", flush=True)
    return wrong, skipped


def _keys(source: random.Random, kind: pa.DataType) -> pa.Array:
    drawn = [MAKERS[kind](source) for _ in range(source.choice([1, 2, 10, 30, 100]))]
    keys = pa.array([None if source.random() < 0.1 else key for key in drawn], kind)
    if source.random() < 0.2:
        return keys.dictionary_encode()
    if kind == pa.string() and source.random() < 0.3:
        return keys.cast(source.choice([pa.large_string(), pa.string_view()]))
    if kind == pa.int8():
        # Some of these keys are not in the range of the column's type.
        return pa.array([None if key is None else key * 2 for key in keys.to_pylist()], pa.int64())
    return keys


def check(table: ps.Table, rows: list[tuple[int, Any]], keys: pa.Array, source: random.Random) -> int:
    """Compare a plan and a lookup with the rows that Python finds, and return how many files the plan skipped."""
    wanted = [comparable(key) for key in keys.to_pylist()]
    members = {key for key in wanted if key is not None}
    by_key: dict[Any, list[int]] = {}
    for row, value in rows:
        by_key.setdefault(comparable(value), []).append(row)
    plan = table.plan(keys={"x": keys})
    found = plan.to_arrow(["id"])["id"].to_pylist()
    expected = [row for row, value in rows if comparable(value) in members]
    assert sorted(found) == sorted(expected), f"plan of {wanted}: {sorted(found)} instead of {sorted(expected)}"
    result = table.lookup("x", keys, columns=["id"])
    in_order = [(at, row) for at, key in enumerate(wanted) if key is not None for row in by_key.get(key, ())]
    actual = list(zip(result.positions.to_pylist(), result.table["id"].to_pylist(), strict=True))
    assert sorted(actual) == sorted(in_order), f"lookup of {wanted}: {actual} instead of {in_order}"
    assert result.positions.to_pylist() == sorted(result.positions.to_pylist()), f"order of the lookup of {wanted}"
    missing = {comparable(key) for key in result.missing.to_pylist()}
    assert missing == members - by_key.keys(), f"missing keys of {wanted}: {missing}"
    return len(plan.skipped)


if __name__ == "__main__":
    differences.run(__doc__, check_table, PER_TABLE, "files")
