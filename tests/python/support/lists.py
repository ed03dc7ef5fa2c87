"""Random tables with lists and maps, and random conditions on them, with the rows that match by brute force."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import parsieve as ps

Row = Mapping[str, Any]
# A condition is true, false or null for a row.
Truth = bool | None

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "tags": pa.list_(pa.string()),
        "numbers": pa.list_(pa.int32()),
        "ratios": pa.list_(pa.float64()),
        "box": pa.struct({"tags": pa.large_list(pa.string())}),
        "labels": pa.map_(pa.string(), pa.int64()),
    }
)


@dataclass(frozen=True)
class Condition:
    """A condition in SQL, and its value for a row."""

    sql: str
    truth: Callable[[Row], Truth]


def random_table(source: random.Random, rows: int, first_id: int, part: int) -> pa.Table:
    """Return rows whose values lie in a range that depends on the file, so that files can be skipped."""

    def word() -> str | None:
        return None if source.random() < 0.1 else f"{'abc'[source.randrange(3)]}{source.randrange(6) + 3 * part}"

    def items(make: Callable[[], Any]) -> list[Any] | None:
        return None if source.random() < 0.1 else [make() for _ in range(source.choice((0, 1, 1, 2, 5)))]

    def number() -> int | None:
        return None if source.random() < 0.1 else source.randrange(10) + 7 * part

    def ratio() -> float | None:
        return None if source.random() < 0.1 else source.choice((0.0, -0.0, 0.5, -1.5, float(part), part + 0.25))

    def entries() -> list[tuple[str, int | None]] | None:
        keys = source.sample([f"k{at}" for at in range(part, part + 4)], source.randrange(4))
        return None if source.random() < 0.1 else [(key, number()) for key in keys]

    values = [
        {
            "id": first_id + at,
            "tags": items(word),
            "numbers": items(number),
            "ratios": items(ratio),
            "box": None if source.random() < 0.1 else {"tags": items(word)},
            "labels": entries(),
        }
        for at in range(rows)
    ]
    return pa.Table.from_pylist(values, SCHEMA)


def write_table(source: random.Random, folder: Path, parts: int = 4, rows: int = 30) -> list[Row]:
    """Write the files of a table with several writers, and return its rows."""
    folder.mkdir()
    all_rows: list[Row] = []
    for part in range(parts):
        table = random_table(source, rows, part * rows, part)
        all_rows += table.to_pylist()
        path = str(folder / f"part-{part}.parquet")
        match source.randrange(4):
            case 0:
                pq.write_table(table, path, row_group_size=source.choice((7, 100)))
            case 1:
                pq.write_table(table, path, row_group_size=11, use_compliant_nested_type=False, use_dictionary=False)
            case 2:
                pq.write_table(table, path, data_page_size=64, write_page_index=True, data_page_version="2.0")
            case 3:
                with duckdb.connect() as connection:
                    connection.register("rows_", table)
                    connection.execute(f"COPY (FROM rows_) TO '{path}' (ROW_GROUP_SIZE 2048)")
    return all_rows


def polars_has(table: pa.Table, condition: pl.Expr) -> list[int]:
    """Return the ids for which Polars finds a condition true. Polars has no maps."""
    frame = pl.from_arrow(table.drop_columns(["labels"]))
    assert isinstance(frame, pl.DataFrame)
    return frame.filter(condition)["id"].to_list()


def random_condition(source: random.Random) -> Condition:
    """Return a condition of one to three tests."""
    tests = [_random_test(source) for _ in range(source.choice((1, 1, 2, 3)))]
    if len(tests) == 1:
        return tests[0]
    conjunction = source.random() < 0.5
    joined = f" {'AND' if conjunction else 'OR'} ".join(f"({test.sql})" for test in tests)

    def truth(row: Row) -> Truth:
        values = [test.truth(row) for test in tests]
        if (not conjunction) in values:
            return not conjunction
        return None if None in values else conjunction

    return Condition(joined, truth)


def _random_test(source: random.Random) -> Condition:
    test = source.choice((_on_list, _on_list, _on_map, _on_id))(source)
    if source.random() < 0.2:
        return Condition(f"NOT ({test.sql})", lambda row: None if (value := test.truth(row)) is None else not value)
    return test


def _on_id(source: random.Random) -> Condition:
    bound = source.randrange(130)
    return Condition(f"id < {bound}", lambda row: bool(row["id"] < bound))


def _on_list(source: random.Random) -> Condition:
    name = source.choice(("tags", "numbers", "ratios", "box.tags"))
    wanted = [_wanted(source, name) for _ in range(source.choice((1, 1, 2, 3)))]
    written = [_literal(value) for value in wanted]

    def values(row: Row) -> list[Any] | None:
        if name == "box.tags":
            return None if row["box"] is None else row["box"]["tags"]
        found: list[Any] | None = row[name]
        return found

    if len(wanted) == 1:
        function = source.choice(("list_contains", "array_contains", "list_has"))
        return Condition(f"{function}({name}, {written[0]})", lambda row: _holds(values(row), wanted, any))
    function, quantity = source.choice((("list_has_any", any), ("list_has_all", all), ("array_has_any", any)))
    sql = f"{function}({name}, [{', '.join(written)}])"
    return Condition(sql, lambda row: _holds(values(row), wanted, quantity))


def _holds(values: list[Any] | None, wanted: list[Any], quantity: Callable[[Iterator[bool]], bool]) -> Truth:
    return None if values is None else quantity(value in values for value in wanted)


def _wanted(source: random.Random, name: str) -> Any:
    if name.endswith("tags"):
        return f"{'abc'[source.randrange(3)]}{source.randrange(20)}"
    if name == "numbers":
        return source.choice((source.randrange(40), source.randrange(40), 2**40))
    return source.choice((0.0, 0.5, -1.5, 2.25, 3.0, 17.0))


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    return f"CAST('{value}' AS DOUBLE)" if isinstance(value, float) else str(value)


def _on_map(source: random.Random) -> Condition:
    key, number = f"k{source.randrange(9)}", source.randrange(40)
    match source.randrange(4):
        case 0:
            return Condition(
                f"list_contains(map_keys(labels), '{key}')",
                lambda row: None if row["labels"] is None else key in dict(row["labels"]),
            )
        case 1:
            return Condition(
                f"list_contains(map_values(labels), {number})",
                lambda row: None if row["labels"] is None else number in dict(row["labels"]).values(),
            )
        case 2:
            return Condition(f"labels['{key}'] = {number}", lambda row: _entry(row, key, lambda value: value == number))
    low = source.randrange(40)

    def is_between(value: int) -> bool:
        return low <= value <= low + 4

    sql = f"labels['{key}'] BETWEEN {low} AND {low + 4}"
    return Condition(sql, lambda row: _entry(row, key, is_between))


def _entry(row: Row, key: str, test: Callable[[int], bool]) -> Truth:
    value = dict(row["labels"] or ()).get(key)
    return None if value is None else test(value)


def check(table: ps.Table, rows: list[Row], condition: Condition, source: random.Random) -> int:
    """Compare the rows of a plan with brute force, and return how many files it skipped."""
    expected = [row["id"] for row in rows if condition.truth(row) is True]
    plan = table.plan(condition.sql, on_unknown="error", row_groups=source.choice((True, None)))
    found: list[int]
    way = source.choice(("arrow", "batches", "polars", "duckdb"))
    if way == "arrow":
        found = plan.to_arrow()["id"].to_pylist()
    elif way == "batches":
        found = [value for batch in plan.to_batches(["id"]) for value in batch["id"].to_pylist()]
    elif way == "polars":
        found = plan.to_polars().collect()["id"].to_list()
    else:
        found = [value for (value,) in plan.to_duckdb().project("id").fetchall()]
    assert sorted(found) == expected, f"{condition.sql} by {way}"
    return len(plan.skipped)
