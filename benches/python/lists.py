"""Rows with a tag, in lists of tags: with an index of the elements, and with other tools alone.

Each row of the table has a tag of its own and some of 20,000 tags with the frequencies of Zipf's law. All contenders
must return the same rows. See `benches/README.md`.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import chdb
import duckdb
import lance
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import record

import parsieve as ps

FILES, ROWS, TAGS = 100, 20_000, 20_000
SIEVE, BLOOM = "parsieve, Sieve", "parsieve, Bloom index"

Ask = Callable[[str], list[int]]


def write(folder: Path, files: int, rows: int) -> pa.Table:
    """Write the table, and return it."""
    random = np.random.default_rng(5)
    total = files * rows
    sizes = random.integers(1, 6, total)
    common = np.minimum(random.zipf(1.3, int(sizes.sum())), TAGS)
    own = random.permutation(total)
    offsets = np.concatenate([[0], np.cumsum(sizes + 1)])
    names = np.empty(offsets[-1], dtype=object)
    names[offsets[:-1]] = [f"order-{number}" for number in own.tolist()]
    others = np.ones(offsets[-1], dtype=bool)
    others[offsets[:-1]] = False
    names[others] = [f"tag-{number}" for number in common.tolist()]
    tags = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(names, pa.string()))
    table = pa.table({"id": np.arange(total), "tags": tags, "payload": random.random(total)})
    folder.mkdir(parents=True)
    for number in range(files):
        pq.write_table(table.slice(number * rows, rows), folder / f"{number:05}.parquet", compression="zstd")
    return table


def questions(table: pa.Table, count: int) -> dict[str, list[str]]:
    """Return tags of one row, and tags of about twenty."""
    random = np.random.default_rng(6)
    counted = table["tags"].combine_chunks().flatten().value_counts()
    tags, counts = counted.field("values").to_numpy(zero_copy_only=False), counted.field("counts").to_numpy()
    about_twenty = tags[(counts >= 15) & (counts <= 25)]
    return {
        "one row": [f"order-{number}" for number in random.integers(0, table.num_rows, count)],
        "about 20 rows": random.choice(about_twenty, count).tolist(),
        "no row": [f"order-{table.num_rows + number}" for number in range(count)],
    }


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def ours(folder: Path, index: Path, kind: str) -> tuple[Ask, ps.Table, dict[str, Any]]:
    table = ps.open_table(folder, index_location=index)
    start = time.perf_counter()
    table.build_index("tags", kind, progress=False)
    built = {"build_seconds": round(time.perf_counter() - start, 2), "index_bytes": folder_bytes(index)}

    def ask(tag: str) -> list[int]:
        ids: list[int] = table.plan([("tags", "contains", tag)]).to_arrow(["id"])["id"].to_pylist()
        return ids

    return ask, table, built


def by_duckdb(folder: Path) -> Ask:
    connection: Any = duckdb.connect()

    def ask(tag: str) -> list[int]:
        query = f"SELECT id FROM '{folder}/*.parquet' WHERE list_contains(tags, ?) ORDER BY id"
        return [value for (value,) in connection.execute(query, [tag]).fetchall()]

    return ask


def by_polars(folder: Path) -> Ask:
    def ask(tag: str) -> list[int]:
        frame = pl.scan_parquet(f"{folder}/*.parquet").filter(pl.col("tags").list.contains(tag))
        return sorted(frame.select("id").collect()["id"].to_list())

    return ask


def by_lance(table: pa.Table, folder: Path) -> tuple[Ask, dict[str, Any]]:
    dataset: Any = lance.write_dataset(table, str(folder))
    before, start = folder_bytes(folder), time.perf_counter()
    dataset.create_scalar_index("tags", "LABEL_LIST")
    built = {
        "build_seconds": round(time.perf_counter() - start, 2),
        "index_bytes": folder_bytes(folder) - before,
    }
    dataset = lance.dataset(str(folder))

    def ask(tag: str) -> list[int]:
        rows = dataset.to_table(columns=["id"], filter=f"array_has_any(tags, ['{tag}'])")
        return sorted(rows["id"].to_pylist())

    return ask, built


def by_clickhouse(table_folder: Path, folder: Path) -> tuple[Ask, dict[str, Any]]:
    session: Any = chdb.session.Session(str(folder))
    session.query("CREATE DATABASE bench ENGINE = Atomic")
    session.query(
        "CREATE TABLE bench.t (id Int64, tags Array(String), payload Float64, "
        "INDEX by_tag tags TYPE bloom_filter(0.01) GRANULARITY 1) ENGINE = MergeTree ORDER BY id"
    )
    start = time.perf_counter()
    session.query(f"INSERT INTO bench.t SELECT id, tags, payload FROM file('{table_folder}/*.parquet', Parquet)")
    session.query("OPTIMIZE TABLE bench.t FINAL")
    seconds = round(time.perf_counter() - start, 2)
    size = session.query(
        "SELECT sum(secondary_indices_compressed_bytes) FROM system.parts WHERE active AND table = 't'", "CSV"
    )

    def ask(tag: str) -> list[int]:
        rows = session.query(f"SELECT id FROM bench.t WHERE has(tags, '{tag}') ORDER BY id", "CSV")
        return [int(line) for line in str(rows).split()]

    return ask, {"load_seconds": seconds, "index_bytes": int(str(size).strip())}


def race(
    asked: Mapping[str, list[str]], contenders: Mapping[str, Ask], tables: Mapping[str, ps.Table]
) -> list[dict[str, Any]]:
    """Ask each contender each question in turn, and return the medians."""
    cases = []
    for kind, tags in asked.items():
        seconds: dict[str, list[float]] = {name: [] for name in contenders}
        rows: list[int] = []
        kept: dict[str, list[int]] = {name: [] for name in tables}
        for tag in tags:
            answers = {}
            for name, ask in contenders.items():
                start = time.perf_counter()
                answers[name] = ask(tag)
                seconds[name].append(time.perf_counter() - start)
            expected = answers["DuckDB alone"]
            assert all(answer == expected for answer in answers.values()), (tag, answers)
            rows.append(len(expected))
            for name, table in tables.items():
                kept[name].append(len(table.plan([("tags", "contains", tag)]).files))
        case = {
            "question": kind,
            "rows": round(statistics.fmean(rows), 1),
            "files_kept": {name: round(statistics.fmean(counts), 2) for name, counts in kept.items()},
            "milliseconds": {name: round(statistics.median(times) * 1e3, 2) for name, times in seconds.items()},
        }
        print(case)
        cases.append(case)
    return cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="use little data, to check the rows")
    parser.add_argument("--save", action="store_true", help="write a record to benches/results")
    arguments = parser.parse_args()
    files, rows, count = (10, 500, 3) if arguments.smoke else (FILES, ROWS, 15)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        table = write(folder / "table", files, rows)
        sieve, sieve_table, sieve_built = ours(folder / "table", folder / "sieve", "sieve")
        bloom, bloom_table, bloom_built = ours(folder / "table", folder / "bloom", "bloom")
        by_label, lance_built = by_lance(table, folder / "lance")
        by_filter, clickhouse_built = by_clickhouse(folder / "table", folder / "clickhouse")
        contenders = {
            SIEVE: sieve,
            BLOOM: bloom,
            "DuckDB alone": by_duckdb(folder / "table"),
            "Polars alone": by_polars(folder / "table"),
            "Lance, LABEL_LIST": by_label,
            "ClickHouse, bloom_filter": by_filter,
        }
        built = {
            "case": "indexes",
            "files": files,
            "rows": files * rows,
            "table_bytes": folder_bytes(folder / "table"),
            SIEVE: sieve_built,
            BLOOM: bloom_built,
            "Lance, LABEL_LIST": lance_built,
            "ClickHouse, bloom_filter": clickhouse_built,
        }
        print(built)
        cases = [built, *race(questions(table, count), contenders, {SIEVE: sieve_table, BLOOM: bloom_table})]
    if arguments.save:
        record.save("lists", cases, ("pyarrow", "duckdb", "polars", "pylance", "chdb"))


if __name__ == "__main__":
    main()
