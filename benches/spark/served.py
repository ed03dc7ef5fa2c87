"""Queries of pyiceberg and Spark on an Iceberg table: planned by themselves, and by `parsieve serve`.

    make develop .venv-spark/stamp-bench-spark
    PYTHONPATH=python .venv-spark/bin/python benches/spark/served.py --save [--folder FOLDER]

The questions are those of `benches/python/integrations.py`, on the same files. All answers must have the same rows. See
`benches/README.md`. `--folder` keeps the files for the next run.
"""

from __future__ import annotations

import argparse
import datetime as dt
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, LessThan

import parsieve as ps
import parsieve.spark as pss

sys.path += [str(Path(__file__).resolve().parents[1] / name) for name in ("python", "rows")]
import record
import row_lakes as lakes

ROWS, SMOKE_ROWS = 20_000_000, 20_000
ALONE, WITH = "alone", "with parsieve"
# Returns the ids of the rows of a question.
Ask = Callable[[lakes.Question], list[str]]


def write_table(folder: Path, layout: lakes.Layout) -> str:
    """Make an Iceberg table of the lake's files, with an index. Return its metadata file."""
    catalog = SqlCatalog("default", uri=f"sqlite:///{folder}/catalog.db", warehouse=folder.as_uri())
    catalog.create_namespace("shop")
    files = sorted(layout.folder.glob("*.parquet"))
    table = catalog.create_table("shop.events", schema=lakes.events(0, 1).schema)
    table.add_files([file.as_uri() for file in files], check_duplicate_files=False)
    opened = ps.open_table(catalog.load_table("shop.events"))
    report = opened.build_index(lakes.COLUMNS, kind="sieve", progress=False)
    assert not report.left_out, report.left_out
    metadata: str = catalog.load_table("shop.events").metadata_location
    catalog.close()
    return metadata


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Run the server in a process, and yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "parsieve", "serve", f"sqlite:///{folder}/catalog.db", "--port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        uri = f"http://127.0.0.1:{port}"
        try:
            while not _answers(uri):
                assert process.poll() is None, "the server did not start"
                time.sleep(0.05)
            yield uri
        finally:
            process.terminate()


def _answers(uri: str) -> bool:
    try:
        with urllib.request.urlopen(f"{uri}/health", timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def filter_of(question: lakes.Question) -> Any:
    """Return the condition of a question for pyiceberg."""
    if question.kind == lakes.TIME:
        first, last = (dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=at) for at in question.predicate["ts"])
        terms: Any = (GreaterThanOrEqual, first), (LessThan, last)
        return And(*(kind("ts", moment.isoformat()) for kind, moment in terms))
    equal: Any = EqualTo
    [name, value] = question.where.split(" = ")
    return equal(name, value.strip("'") if name == "request" else int(value))


def by_pyiceberg(catalog: Any) -> Ask:
    def ask(question: lakes.Question) -> list[str]:
        scan = catalog.load_table("shop.events").scan(filter_of(question))
        return sorted(scan.to_arrow()["request"].to_pylist())

    return ask


def files_planned(catalog: Any, question: lakes.Question) -> int:
    """Return how many files a scan of pyiceberg opens."""
    return len(list(catalog.load_table("shop.events").scan(filter_of(question)).plan_files()))


def by_spark(spark: Any, table: str) -> Ask:
    def ask(question: lakes.Question) -> list[str]:
        where = question.where.replace("TIMESTAMP '", "TIMESTAMP_NTZ '")
        return sorted(row.request for row in spark.sql(f"SELECT * FROM {table} WHERE {where}").collect())

    return ask


def race(contenders: dict[str, Ask], questions: list[lakes.Question], catalogs: dict[str, Any]) -> dict[str, Any]:
    """Ask every contender every question, alternately, and return medians. The first question is asked twice."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for number, question in enumerate([questions[0], *questions]):
        answers = {}
        start = number % len(names)
        for name in names[start:] + names[:start]:
            begun = time.perf_counter()
            answers[name] = contenders[name](question)
            if number:
                seconds[name].append(time.perf_counter() - begun)
        assert all(len(answer) == len(question.rows) for answer in answers.values()), question.where
        assert len(set(map(tuple, answers.values()))) == 1, question.where
    files = {
        how: statistics.fmean(files_planned(catalog, question) for question in questions)
        for how, catalog in catalogs.items()
    }
    case = {
        "case": "question",
        "kind": questions[0].kind,
        "questions": len(questions),
        "rows": statistics.fmean(len(question.rows) for question in questions),
        "files_planned": {how: round(count, 2) for how, count in files.items()},
        "milliseconds": {name: {"rows": round(statistics.median(times) * 1e3, 2)} for name, times in seconds.items()},
    }
    print(case)
    return case


def run(folder: Path, kept: Path, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the lake, and the times of each kind of question."""
    layout = lakes.Layout.of(lakes.PAGES, kept, arguments.rows)
    num_bytes = layout.write()
    metadata = write_table(folder, layout)
    questions = lakes.Truth(arguments.rows).questions(arguments.rounds, 1, 1)
    with server(folder) as uri:
        spark = pss.session(
            lakes=["iceberg"],
            master="local[2]",
            memory="4g",
            warehouse=folder / "warehouse",
            config={
                "spark.sql.session.timeZone": "UTC",
                "spark.ui.showConsoleProgress": False,
                "spark.sql.catalog.served": "org.apache.iceberg.spark.SparkCatalog",
                "spark.sql.catalog.served.type": "rest",
                "spark.sql.catalog.served.uri": uri,
            },
        )
        spark.sparkContext.setLogLevel("ERROR")
        spark.read.format("iceberg").load(metadata).createOrReplaceTempView("own")
        catalogs = {
            ALONE: SqlCatalog("default", uri=f"sqlite:///{folder}/catalog.db", warehouse=folder.as_uri()),
            WITH: load_catalog("served", type="rest", uri=uri),
        }
        contenders = {
            f"pyiceberg, {ALONE}": by_pyiceberg(catalogs[ALONE]),
            f"pyiceberg, {WITH}": by_pyiceberg(catalogs[WITH]),
            f"Spark, {ALONE}": by_spark(spark, "own"),
            f"Spark, {WITH}": by_spark(spark, "served.shop.events"),
        }
        cases = [race(contenders, questions[kind], catalogs) for kind in lakes.SINGLE]
        spark.stop()
    return [{"case": "lake", "rows": arguments.rows, "files": layout.num_files, "bytes": num_bytes}, *cases]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="use little data, to check that all results agree")
    parser.add_argument("--save", action="store_true", help="write a record to benches/results")
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of the lake (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="questions of each kind (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="where the lake is, or is written (default: a temporary folder)")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.rows, arguments.rounds = SMOKE_ROWS, 2
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        cases = run(Path(name), arguments.folder or Path(name), arguments)
    if arguments.save:
        record.save("served", cases, ["pyarrow", "pyiceberg", "pyspark"], by="spark")


if __name__ == "__main__":
    main()
