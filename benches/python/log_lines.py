"""Four questions about 50 million log lines in 500 files: each engine alone, and through parsieve.

A request id inside a message, the errors of one host in the last hour, every line with a rare tag, and the last ten
lines of a user. The lines are written by arrival, and one in a thousand arrives up to a day late. All contenders must
return the same rows. See `benches/README.md`.
"""

from __future__ import annotations

import argparse
import datetime
import os
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

FILES, ROWS, ROUNDS = 500, 100_000, 7
USERS, HOSTS, RARE_TAGS = 400_000, 200, 50_000
# Timestamps have no zone. There is one line each millisecond.
START = datetime.datetime(2026, 3, 1)
STEP = datetime.timedelta(milliseconds=1)
INDEXES = {"message": "words", "tags": "sieve", "host": "sieve", "ts": "sieve", "user": "sieve"}
LEVELS = np.array(["INFO", "WARN", "ERROR"], dtype=object)
PATHS = [f"/{service}/{what}" for service in ("api", "shop", "auth", "img") for what in ("list", "item", "cart", "pay")]
COUNTS = Path("/proc/self/io")


@dataclass(frozen=True)
class Question:
    """A condition in SQL and for Polars. The answer is the column `line` of its rows, or of the last ten of them."""

    name: str
    where: str
    polars: pl.Expr
    last: bool = False


def hexadecimal(random: np.random.Generator, count: int) -> pa.StringArray:
    """Return random texts of 16 hexadecimal digits."""
    text = random.bytes(8 * count).hex().encode()
    offsets = np.arange(0, 16 * count + 1, 16, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text))


def lines(number: int, rows: int, random: np.random.Generator) -> pa.Table:
    """Return the lines of one file."""
    first = number * rows
    late = np.where(random.random(rows) < 0.001, random.integers(0, 86_400, rows), 0)
    ts = np.datetime64(START, "us") + (first + np.arange(rows)) * np.timedelta64(STEP) - late * np.timedelta64(1, "s")
    levels = LEVELS[np.searchsorted([0.9, 0.99], random.random(rows))]
    request = hexadecimal(random, rows)
    path = pa.DictionaryArray.from_arrays(pa.array(random.integers(0, len(PATHS), rows), pa.int32()), PATHS).cast(
        pa.string()
    )
    milliseconds = pa.array(random.geometric(0.02, rows)).cast(pa.string())
    message = pc.binary_join_element_wise("GET ", path, " in ", milliseconds, " ms, request ", request, " done", "")
    sizes = random.integers(1, 4, rows)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    common = np.array([f"team-{team}" for team in range(40)], dtype=object)
    tags = common[random.integers(0, 40, offsets[-1])]
    rare = random.random(offsets[-1]) < 0.01
    tags[rare] = [f"incident-{tag}" for tag in random.integers(0, RARE_TAGS, int(rare.sum())).tolist()]
    return pa.table(
        {
            "line": pa.array(first + np.arange(rows), pa.int64()),
            "ts": pa.array(ts),
            "host": pa.array([f"web-{host:03}" for host in random.integers(0, HOSTS, rows).tolist()]),
            "level": pa.array(levels),
            "user": pa.array(random.integers(0, USERS, rows), pa.int64()),
            "tags": pa.ListArray.from_arrays(pa.array(offsets), pa.array(tags, pa.string())),
            "message": message,
        }
    )


def write(folder: Path, files: int, rows: int) -> list[str]:
    """Write the files, and return a request id from each of some of them."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(7)
    requests = []
    for number in range(files):
        table = lines(number, rows, random)
        pq.write_table(table, folder / f"{number:05}.parquet", compression="zstd", row_group_size=rows)
        requests.append(str(table["message"][int(random.integers(0, rows))]).rsplit(" ", 2)[1])
    return [requests[int(number)] for number in random.integers(0, files, ROUNDS)]


def questions(requests: list[str], total: int) -> list[list[Question]]:
    """Return one group of questions for each kind."""
    random = np.random.default_rng(8)
    since = START + total * STEP - min(datetime.timedelta(hours=1), total * STEP / 4)
    groups: list[list[Question]] = [[], [], [], []]
    for request in requests:
        host = f"web-{random.integers(0, HOSTS):03}"
        tag = f"incident-{random.integers(0, RARE_TAGS)}"
        user = int(random.integers(0, USERS))
        text = f" request {request} "
        groups[0].append(
            Question(
                "a request id in a message",
                f"message LIKE '%{text}%'",
                pl.col("message").str.contains(text, literal=True),
            )
        )
        errors = f"host = '{host}' AND level = 'ERROR' AND ts >= TIMESTAMP '{since}'"
        groups[1].append(
            Question(
                "errors of a host in the last hour",
                errors,
                (pl.col("host") == host) & (pl.col("level") == "ERROR") & (pl.col("ts") >= since),
            )
        )
        tagged = f"list_contains(tags, '{tag}')"
        groups[2].append(Question("lines with a rare tag", tagged, pl.col("tags").list.contains(tag)))
        of_user = f'"user" = {user}'
        groups[3].append(Question("the last ten lines of a user", of_user, pl.col("user") == user, last=True))
    return groups


def contenders(folder: Path, index: Path) -> dict[str, Callable[[Question], list[int]]]:
    """Return a function for each engine alone, and for each engine with the plan of parsieve."""
    glob = f"{folder}/*.parquet"
    connection: Any = duckdb.connect()
    table = ps.open_table(folder, index_location=index)

    def plan(question: Question) -> ps.Plan:
        if question.last:
            return table.plan(question.where, order_by="ts", descending=True, limit=10)
        return table.plan(question.where)

    def duckdb_alone(question: Question) -> list[int]:
        end = " ORDER BY ts DESC LIMIT 10" if question.last else ""
        query = f"SELECT line FROM '{glob}' WHERE {question.where}{end}"
        return sorted(line for (line,) in connection.execute(query).fetchall())

    def polars_alone(question: Question) -> list[int]:
        frame = pl.scan_parquet(glob).filter(question.polars)
        if question.last:
            frame = frame.sort("ts", descending=True).head(10)
        return sorted(frame.select("line").collect()["line"].to_list())

    return {
        "DuckDB alone": duckdb_alone,
        "DuckDB with parsieve": lambda question: sorted(
            line for (line,) in plan(question).to_duckdb(connection).project("line").fetchall()
        ),
        "Polars alone": polars_alone,
        "Polars with parsieve": lambda question: sorted(
            plan(question).to_polars().select("line").collect()["line"].to_list()
        ),
        "parsieve, to_arrow": lambda question: sorted(plan(question).to_arrow(["line"])["line"].to_pylist()),
    }


def bytes_read(ask: Callable[[Question], list[int]], question: Question) -> int | None:
    """Return the bytes that this process reads with system calls for a question; None if Linux does not count them."""
    if not COUNTS.exists():
        return None
    before = int(COUNTS.read_text().split()[1])
    ask(question)
    return int(COUNTS.read_text().split()[1]) - before


def measure(folder: Path, index: Path, groups: list[list[Question]]) -> list[dict[str, Any]]:
    """Ask each contender each question in turn, and return medians."""
    asks = contenders(folder, index)
    table = ps.open_table(folder, index_location=index)
    cases = []
    for group in groups:
        seconds: dict[str, list[float]] = {name: [] for name in asks}
        rows = []
        for question in group:
            answers = {}
            for name, ask in asks.items():
                start = time.perf_counter()
                answers[name] = ask(question)
                seconds[name].append(time.perf_counter() - start)
            expected = answers["DuckDB alone"]
            assert all(answer == expected for answer in answers.values()), (question, answers)
            rows.append(len(expected))
        first = group[0]
        case = {
            "question": first.name,
            "rows": round(statistics.fmean(rows), 1),
            "files_kept": round(statistics.fmean(len(table.plan(question.where).files) for question in group), 1),
            "milliseconds": {name: round(statistics.median(times) * 1e3, 2) for name, times in seconds.items()},
            "bytes_read": {name: bytes_read(ask, first) for name, ask in asks.items()},
        }
        print(case, flush=True)
        cases.append(case)
    return cases


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def build(folder: Path, index: Path) -> dict[str, Any]:
    """Build the indexes of all columns, and return their sizes and times."""
    built: dict[str, Any] = {}
    table = ps.open_table(folder, index_location=index)
    for column, kind in INDEXES.items():
        before, start = folder_bytes(index) if index.exists() else 0, time.perf_counter()
        table.build_index(column, kind, progress=False)
        built[column] = {
            "kind": kind,
            "build_seconds": round(time.perf_counter() - start, 1),
            "index_bytes": folder_bytes(index) - before,
        }
        print(column, built[column], flush=True)
    return built


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="use little data, to check the rows")
    parser.add_argument("--save", action="store_true", help="write a record to benches/results")
    parser.add_argument("--folder", help="keep the lines in this folder")
    arguments = parser.parse_args()
    files, rows = (12, 1000) if arguments.smoke else (FILES, ROWS)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(arguments.folder or temporary)
        table = folder / "lines"
        requests_file = folder / "requests.txt"
        if not requests_file.exists():
            requests_file.parent.mkdir(parents=True, exist_ok=True)
            requests_file.write_text("\n".join(write(table, files, rows)))
        requests = requests_file.read_text().split("\n")
        built = {
            "case": "indexes",
            "files": files,
            "rows": files * rows,
            "table_bytes": folder_bytes(table),
            "indexes": build(table, folder / f"index-{os.getpid()}"),
        }
        cases = [built, *measure(table, folder / f"index-{os.getpid()}", questions(requests, files * rows))]
    if arguments.save:
        record.save("log-lines", cases, ("pyarrow", "duckdb", "polars"))


if __name__ == "__main__":
    main()
