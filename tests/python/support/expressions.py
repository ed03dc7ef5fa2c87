"""Random tables and conditions on expressions of their columns, evaluated by the engines themselves on all rows."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import parsieve as ps

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "email": pa.string(),
        "number": pa.string(),
        "ts": pa.timestamp("us"),
        "payload": pa.string(),
        "tenant": pa.string(),
        "part": pa.int32(),
    }
)
INDEXED = (
    "lower(email)",
    "upper(email)",
    "CAST(number AS BIGINT)",
    "ts",
    "json_extract_string(payload, '$.user.id')",
    "tenant, part",
    "tenant, email",
)
ODD_TEXTS = ["ΣΑΣ", "İx", "ß", "", "a\x00b", "\u017f", "\u212a"]
ODD_NUMBERS = [
    "-0",
    "+5",
    " 7",
    "1e3",
    "007",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "x",
]
ODD_NUMBERS += ["-9223372036854775809", "1_0", "3.0", "", "1\n"]
ODD_JSON = ['{"user":{"id":"a1","id":"a2"}}', '{"user":{"id":"\\u0061"}}', '{"user":{"id":5}}', "x", "", "null", "[]"]
ODD_JSON += ['{"user":{"id":null}}', '{"user":{}}', '{"user":"id"}', '{"user":{"id":"a1"},"user":{"id":"a2"}}', "{}"]
ODD_JSON += [
    '{"user":{"id":{"id":"a1"}}}',
    '{"b":{"user":{"id":"a1"}}}',
    ' {"user" : { "id" : "a1" } } ',
    '{"user.id":"a1"}',
]
UNITS = {"hour": "1h", "week": "1w"}


@dataclass(frozen=True)
class Condition:
    """A condition in SQL for parsieve, and for engines by name. Polars filters a frame."""

    sql: str
    engines: Mapping[str, str]
    # The expression for Polars, and a condition on it with the name `computed`.
    polars: tuple[pl.Expr, str] | None = None


def random_rows(source: random.Random, count: int, first_id: int, part: int) -> pa.Table:
    """Return rows whose values lie in a range that depends on the file. Few files have values outside the domains."""
    is_odd = source.random() < 0.2

    def some(make: Callable[[], object], odd: list[str] | None = None) -> object:
        if source.random() < 0.1:
            return None
        return source.choice(odd) if odd and is_odd and source.random() < 0.2 else make()

    def document() -> str:
        user = {"x": [1, {"y": "z"}], "id": f"a{source.randrange(6) + 5 * part}"}
        return json.dumps({"k": source.choice(("id", 1, None, 2.5)), "user": user})

    def moment() -> dt.datetime:
        return dt.datetime(1969, 12, 30) + dt.timedelta(hours=7 * part, microseconds=source.randrange(10**11))

    def word() -> str:
        return source.choice("aBcD") + source.choice(("x", "X")) + str(source.randrange(4) + 3 * part)

    columns = {
        "id": list(range(first_id, first_id + count)),
        "email": [some(word, ODD_TEXTS) for _ in range(count)],
        "number": [some(lambda: str(source.randrange(-9, 9) + 11 * part), ODD_NUMBERS) for _ in range(count)],
        "ts": [some(moment) for _ in range(count)],
        "payload": [some(document, ODD_JSON) for _ in range(count)],
        "tenant": [some(lambda: source.choice(("a", "a\x00", "ab", "b", ""))) for _ in range(count)],
        "part": [some(lambda: source.randrange(-5, 5) + 4 * part) for _ in range(count)],
    }
    return pa.table(columns, SCHEMA)


def write_table(source: random.Random, folder: Path) -> pa.Table:
    """Write a folder of files, and return all rows."""
    folder.mkdir()
    tables = []
    for part in range(source.randrange(2, 6)):
        tables.append(random_rows(source, source.randrange(1, 25), part * 100, part))
        pq.write_table(tables[-1], folder / f"part-{part}.parquet", row_group_size=source.choice((5, 100)))
    return pa.concat_tables(tables)


def add_file(source: random.Random, folder: Path, rows: pa.Table) -> pa.Table:
    """Write one more file, and return all rows."""
    more = random_rows(source, source.randrange(1, 25), 1000, source.randrange(5))
    pq.write_table(more, folder / "part-9.parquet")
    return pa.concat_tables([rows, more])


def random_condition(source: random.Random) -> Condition:
    """Return a condition on an expression, or on columns for which an index of an expression may help."""
    kind = source.randrange(7)
    part = source.randrange(5)
    if kind < 2:
        name = ("lower", "upper")[kind]
        make = str.lower if name == "lower" else str.upper

        def text() -> str:
            word = source.choice(ODD_TEXTS[:4]) if source.random() < 0.1 else source.choice("aBcD") + f"x{3 * part}"
            return _quoted(make(word))

        field = pl.col("email").str
        return _compared(
            source, f"{name}(email)", {}, field.to_lowercase() if kind == 0 else field.to_uppercase(), text
        )
    if kind == 2:
        engines = dict.fromkeys(("duckdb", "datafusion", "spark"), "TRY_CAST(number AS BIGINT)")
        column = pl.col("number").cast(pl.Int64, strict=False)
        return _compared(
            source, "CAST(number AS BIGINT)", engines, column, lambda: str(source.randrange(-9, 9) + 11 * part)
        )
    if kind == 3:
        unit = source.choice(list(UNITS))

        def literal() -> str:
            moment = dt.datetime(1969, 12, 29) + dt.timedelta(
                hours=source.choice((0, 24, 30, 168, source.randrange(70)))
            )
            return f"TIMESTAMP '{moment}'"

        return _compared(source, f"date_trunc('{unit}', ts)", {}, pl.col("ts").dt.truncate(UNITS[unit]), literal)
    if kind == 4:
        member = "json_extract_string(payload, '$.user.id')"
        engines = {
            "duckdb": f"CASE WHEN json_valid(payload) THEN {member} END",
            "spark": "get_json_object(payload, '$.user.id')",
        }
        # Polars fails on texts that are not JSON.
        return _compared(source, member, engines, None, lambda: _quoted(f"a{source.randrange(25)}"))
    tenant = _quoted(source.choice(("a", "ab", "b", "")))
    if kind == 5:
        low = source.randrange(-5, 20)
        last = source.choice(
            (
                f"part BETWEEN {low} AND {low + 3}",
                f"part = {low}",
                f"part < {low}",
                f"part > {low}",
                f"part IN ({low}, 3)",
            )
        )
        sql = f"tenant = {tenant} AND {last}"
    else:
        word = _quoted(f"{source.choice('aBcD')}x{3 * part}")
        sql = source.choice((f"email = {word}", f"tenant = {tenant} AND email >= {word}", f"email IN ({word}, 'Σ')"))
        moment = dt.datetime(1969, 12, 29) + dt.timedelta(minutes=source.randrange(9000))
        sql = source.choice((sql, f"ts {source.choice(('<', '<=', '>', '>=', '='))} TIMESTAMP '{moment}'"))
    return Condition(sql, dict.fromkeys(("duckdb", "datafusion", "spark"), sql))


def _compared(
    source: random.Random, sql: str, engines: Mapping[str, str], column: pl.Expr | None, literal: Callable[[], str]
) -> Condition:
    first, second = literal(), literal()
    form = source.choice(
        (
            f"{{}} = {first}",
            f"{{}} IN ({first}, {second})",
            f"{{}} {source.choice(('<', '<=', '>', '>='))} {first}",
            f"{{}} BETWEEN {first} AND {second}",
            f"{{}} >= {first} AND {{}} < {second}",
            f"{{}} <> {first}",
            f"NOT ({{}} <> {first})",
            f"NOT ({{}} > {first} OR id = 3)",
            "{} IS NULL",
            "{} IS NOT NULL",
        )
    )
    names = ("duckdb", "spark") if "json" in sql else ("duckdb", "datafusion", "spark")
    conditions = {name: form.replace("{}", engines.get(name, sql)) for name in names}
    return Condition(
        form.replace("{}", sql), conditions, None if column is None else (column, form.replace("{}", "computed"))
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def matches(condition: Condition, rows: pa.Table) -> dict[str, set[int]]:
    """Return the ids of the rows for which each engine finds the condition true."""
    found = {}
    con = duckdb.connect()
    con.register("rows", rows)
    found["duckdb"] = {i for (i,) in con.sql(f"SELECT id FROM rows WHERE {condition.engines['duckdb']}").fetchall()}
    if "datafusion" in condition.engines:
        # The environment of the Spark tests does not have it.
        import datafusion

        context = datafusion.SessionContext()
        context.register_record_batches("rows", [rows.to_batches()])
        batches = context.sql(f"SELECT id FROM rows WHERE {condition.engines['datafusion']}").collect()
        found["datafusion"] = {i for batch in batches for i in batch["id"].to_pylist()}
    if condition.polars is not None:
        column, form = condition.polars
        # Polars computes the values, and DuckDB compares them.
        con.register("computed_rows", pl.DataFrame(rows).select("id", computed=column).to_arrow())
        found["polars"] = {i for (i,) in con.sql(f"SELECT id FROM computed_rows WHERE {form}").fetchall()}
    return found


def kept_ids(plan: ps.Plan, folder: Path) -> set[int]:
    """Return the ids of the rows that a plan keeps."""
    ids: set[int] = set()
    for path, ranges in plan.row_ranges.items():
        values = pq.read_table(path if Path(path).exists() else folder / path, columns=["id"])["id"].to_pylist()
        for start, count in [(0, len(values))] if ranges is None else ranges:
            ids.update(values[start : start + count])
    return ids


def check(table: ps.Table, rows: pa.Table, folder: Path, condition: Condition) -> int:
    """Check that a plan keeps every row that an engine finds, and return how many files it skipped."""
    plan = table.plan(condition.sql, on_unknown="error")
    kept, found = kept_ids(plan, folder), matches(condition, rows)
    for engine, ids in found.items():
        assert ids <= kept, f"{condition.sql}: {engine} finds {sorted(ids - kept)}, which the plan skips"
    try:
        read = plan.to_arrow(["id"])["id"].to_pylist()
    except ps.UnsupportedError:
        return len(plan.skipped)
    for engine, ids in found.items():
        assert set(read) == ids, f"{condition.sql}: parsieve reads {sorted(read)}, and {engine} {sorted(ids)}"
    return len(plan.skipped)
