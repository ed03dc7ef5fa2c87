"""Queries of DuckDB, Polars, DataFusion and pyarrow: on the files themselves, and on a table of parsieve.

    .venv/bin/python benches/python/integrations.py --save [--folder FOLDER]

The questions are a unique id, a user, and two seconds of late events, in the lake with page indexes of
`benches/python/rows.py`. Each engine gets the same query twice: on its own scan of the files, and on
`Table.dataset()` or `scan_polars`, so that parsieve finds the rows. All must return the same rows. See
`benches/README.md`. `--folder` keeps the lake for the next run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import record

import parsieve as ps
from parsieve.predicate import parse
from parsieve.predicate.render import to_polars, to_pyarrow

sys.path.append(str(Path(__file__).resolve().parents[1] / "rows"))
import row_contenders as contenders
import row_lakes as lakes

ROWS, SMOKE_ROWS = 20_000_000, 20_000
ENGINES = ("DuckDB", "Polars", "DataFusion", "pyarrow")
ALONE, WITH = "alone", "with parsieve"


def racers(layout: lakes.Layout, table: ps.Table) -> dict[str, contenders.Contender]:
    """Return each engine alone, and each on a table of parsieve."""
    dataset, schema = table.dataset(), table.schema
    connection = duckdb.connect()
    connection.execute(f"SET TimeZone = 'UTC'; CREATE VIEW alone AS FROM read_parquet('{layout.folder}/*.parquet')")
    connection.register("ours", dataset)
    context = datafusion.SessionContext()
    context.register_parquet("alone", str(layout.folder))
    context.register_dataset("ours", dataset)
    frames = {"alone": pl.scan_parquet(f"{layout.folder}/*.parquet"), "ours": ps.scan_polars(table)}
    datasets = {"alone": pads.dataset(layout.folder), "ours": dataset}

    def expression(question: lakes.Question) -> Any:
        return parse(question.where, schema)

    def ways(name: str) -> dict[str, Callable[[lakes.Question], pa.Table]]:
        return {
            "DuckDB": lambda question: connection.sql(f"FROM {name} WHERE {question.where}").to_arrow_table(),
            "Polars": lambda question: frames[name].filter(to_polars(expression(question))).collect().to_arrow(),
            "DataFusion": lambda question: _collected(context, f"SELECT * FROM {name} WHERE {question.where}", schema),
            "pyarrow": lambda question: datasets[name].to_table(filter=to_pyarrow(expression(question))),
        }

    both = {ALONE: ways("alone"), WITH: ways("ours")}
    return {f"{engine}, {how}": contenders.timed(both[how][engine]) for engine in ENGINES for how in both}


def _collected(context: datafusion.SessionContext, query: str, schema: pa.Schema) -> pa.Table:
    batches = context.sql(query).collect()
    return pa.Table.from_batches(batches) if batches else schema.empty_table()


def run(folder: Path, kept: Path, arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the lake, and the times of each kind of question. `folder` is removed after the run, unlike `kept`."""
    layout = lakes.Layout.of(lakes.PAGES, kept, arguments.rows)
    num_bytes = layout.write()
    table = ps.open_table(layout.folder, index_location=folder / "index")
    report = table.build_index(lakes.COLUMNS, kind="sieve", progress=False)
    assert not report.left_out, report.left_out
    yield {"case": "lake", "rows": arguments.rows, "files": layout.num_files, "bytes": num_bytes}
    names = racers(layout, table)
    questions = lakes.Truth(arguments.rows).questions(arguments.rounds, 1, 1)
    for kind in lakes.SINGLE:
        case = contenders.race(names, questions[kind], table.schema, 1)
        print(f"\n{kind}: {case['rows']:,.1f} rows, {case['questions']} questions (medians in milliseconds)")
        for name, parts in case["milliseconds"].items():
            print(f"  {name:<28} {sum(parts.values()):>10,.2f}")
        yield {"case": "question"} | case


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="use little data, to check that all results agree")
    parser.add_argument("--save", action="store_true", help="write a record to benches/results")
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of the lake (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=9, help="questions of each kind (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="where the lake is, or is written (default: a temporary folder)")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.rows, arguments.rounds = SMOKE_ROWS, 2
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        cases = list(run(Path(name), arguments.folder or Path(name), arguments))
    if arguments.save:
        record.save("integrations", cases, ["pyarrow", "duckdb", "polars", "datafusion", "numpy"])


if __name__ == "__main__":
    main()
