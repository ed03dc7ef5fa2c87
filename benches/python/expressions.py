"""Rows by an expression: with an index of the expression, and with other tools alone.

The values are spread over all files, so min/max statistics skip none. Each contender must return the same rows. See
`benches/README.md`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import record

import parsieve as ps

FILES, ROWS, TENANTS = 120, 50_000, 1000
START = dt.datetime(2026, 1, 1)


@dataclass(frozen=True)
class Question:
    """A condition for SQL and for Polars."""

    sql: str
    polars: pl.Expr


Ask = Callable[[Question], list[int]]


def write(folder: Path, files: int, rows: int) -> None:
    """Write the table."""
    random = np.random.default_rng(5)
    total = files * rows
    numbers = random.permutation(total)
    folder.mkdir(parents=True)
    for file in range(files):
        part = numbers[file * rows : (file + 1) * rows]
        texts = pa.array(part).cast(pa.string())
        users = pa.array(part // 3).cast(pa.string())
        # Three spellings of each address, and events that are up to some days late.
        names = pa.array(["User-", "user-", "USER-"]).take(pa.array(part % 3))
        seconds = (np.arange(rows) + file * rows) * 10 - np.where(random.random(rows) < 0.01, 400_000, 0)
        columns = {
            "row": np.arange(file * rows, (file + 1) * rows),
            "email": pc.binary_join_element_wise(names, users, "@Example.com", ""),
            "tenant": pc.binary_join_element_wise("t", pa.array(part % TENANTS).cast(pa.string()), ""),
            "id": part // TENANTS,
            "id_text": texts,
            "payload": pc.binary_join_element_wise(
                '{"v": 2, "user": {"id": "u', texts, '", "plan": "basic"}, "ok": true}', ""
            ),
            "ts": pa.array(seconds, pa.timestamp("s")).cast(pa.timestamp("us")),
        }
        columns["ts"] = pc.add(columns["ts"], pa.scalar(START - dt.datetime(1970, 1, 1), pa.duration("us")))
        pq.write_table(pa.table(columns), folder / f"{file:05}.parquet", compression="zstd")


def questions(total: int, count: int) -> dict[str, list[Question]]:
    """Return the conditions by their expression."""
    random = np.random.default_rng(6)
    chosen = [int(number) for number in random.integers(0, total, count)]

    def email(number: int) -> Question:
        value = f"user-{number // 3}@example.com"
        return Question(f"lower(email) = '{value}'", pl.col("email").str.to_lowercase() == value)

    def member(number: int) -> Question:
        column = pl.col("payload").str.json_path_match("$.user.id")
        return Question(f"json_extract_string(payload, '$.user.id') = 'u{number}'", column == f"u{number}")

    def integer(number: int) -> Question:
        column = pl.col("id_text").cast(pl.Int64)
        sql = f"CAST(id_text AS BIGINT) BETWEEN {number} AND {number + 4}"
        return Question(sql, column.is_between(number, number + 4))

    def key(number: int) -> Question:
        tenant, id = f"t{number % TENANTS}", number // TENANTS
        sql = f"tenant = '{tenant}' AND id BETWEEN {id} AND {id + 4}"
        return Question(sql, (pl.col("tenant") == tenant) & pl.col("id").is_between(id, id + 4))

    def hour(number: int) -> Question:
        moment = (START + dt.timedelta(seconds=number * 10)).replace(minute=0, second=0)
        sql = f"date_trunc('hour', ts) = TIMESTAMP '{moment}'"
        return Question(sql, pl.col("ts").dt.truncate("1h") == moment)

    return {
        "lower(email)": [email(number) for number in chosen],
        "json_extract_string(payload, '$.user.id')": [member(number) for number in chosen],
        "CAST(id_text AS BIGINT)": [integer(number) for number in chosen],
        "tenant, id": [key(number) for number in chosen],
        # The index is of the column.
        "ts": [hour(number) for number in chosen],
    }


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def build(table: ps.Table, index: Path, expressions: list[str], rows: int) -> dict[str, Any]:
    """Build an index of each expression, and return the seconds and the bits per row."""
    built = {}
    for expression in expressions:
        before, start = folder_bytes(index) if index.exists() else 0, time.perf_counter()
        table.build_index(expression, "sieve", progress=False)
        seconds = time.perf_counter() - start
        bits = 8 * (folder_bytes(index) - before) / rows
        built[expression] = {"build_seconds": round(seconds, 2), "bits_per_row": round(bits, 2)}
    return built


def contenders(folder: Path, table: ps.Table) -> dict[str, Ask]:
    """Return the contenders. All of them read the same files."""
    connection: Any = duckdb.connect()
    everything = [str(path) for path in sorted(folder.glob("*.parquet"))]

    def by_duckdb(files: list[str], question: Question) -> list[int]:
        query = f"SELECT row FROM read_parquet(?) WHERE {question.sql} ORDER BY row"
        return [value for (value,) in connection.execute(query, [files]).fetchall()]

    def by_polars(files: list[str], question: Question) -> list[int]:
        rows = pl.scan_parquet(files).filter(question.polars).select("row").collect()
        return sorted(rows["row"].to_list())

    def by_plan(question: Question) -> list[int]:
        ids: list[int] = table.plan(question.sql, on_unknown="error").to_arrow(["row"])["row"].to_pylist()
        return sorted(ids)

    return {
        "parsieve, `to_arrow`": by_plan,
        "DuckDB on `plan.files`": lambda question: by_duckdb(table.plan(question.sql).files, question),
        "Polars on `plan.files`": lambda question: by_polars(table.plan(question.sql).files, question),
        "DuckDB alone": lambda question: by_duckdb(everything, question),
        "Polars alone": lambda question: by_polars(everything, question),
    }


def race(
    asked: dict[str, list[Question]], asks: dict[str, Ask], table: ps.Table, rows_per_file: int
) -> list[dict[str, Any]]:
    """Ask all contenders one question after the other, and return the medians."""
    cases = []
    for expression, listed in asked.items():
        seconds: dict[str, list[float]] = {name: [] for name in asks}
        rows, kept, with_rows = [], [], []
        for question in listed:
            answers = {}
            for name, ask in asks.items():
                start = time.perf_counter()
                answers[name] = ask(question)
                seconds[name].append(time.perf_counter() - start)
            expected = answers["DuckDB alone"]
            assert expected
            assert all(answer == expected for answer in answers.values()), (question.sql, answers)
            rows.append(len(expected))
            kept.append(len(table.plan(question.sql).files))
            with_rows.append(len({row // rows_per_file for row in expected}))
        case = {
            "expression": expression,
            "example": listed[0].sql,
            "rows": round(statistics.fmean(rows), 1),
            "files_kept": round(statistics.fmean(kept), 2),
            "files_with_rows": round(statistics.fmean(with_rows), 2),
            "milliseconds": {name: round(statistics.median(times) * 1e3, 2) for name, times in seconds.items()},
        }
        print(case, flush=True)
        cases.append(case)
    return cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="use little data, to check the rows")
    parser.add_argument("--save", action="store_true", help="write a record to benches/results")
    arguments = parser.parse_args()
    files, rows, count = (10, 500, 2) if arguments.smoke else (FILES, ROWS, 9)
    with tempfile.TemporaryDirectory() as temporary:
        folder, index = Path(temporary) / "table", Path(temporary) / "index"
        write(folder, files, rows)
        table = ps.open_table(folder, index_location=index)
        asked = questions(files * rows, count)
        built = {
            "case": "indexes",
            "files": files,
            "rows": files * rows,
            "table_bytes": folder_bytes(folder),
            "indexes": build(table, index, list(asked), files * rows),
        }
        print(built, flush=True)
        cases = [built, *race(asked, contenders(folder, table), table, rows)]
    if arguments.save:
        record.save("expressions", cases, ("pyarrow", "duckdb", "polars"))


if __name__ == "__main__":
    main()
