"""Compares Hudi's own indexes with the Sieve, on one merge-on-read table in one session. See `benches/README.md`.

    make develop .venv-spark/stamp-bench-spark
    PYTHONPATH=python .venv-spark/bin/python benches/spark/indexes.py --rows 20000000 --save

Each contender has a copy of the same table: without an index, with the Sieve, and with Hudi's column stats, Bloom
filters, record-level and secondary index. The record keys are scattered over all files, users come back, and events
arrive late, so min/max statistics help little. There are three queries: a record key, a user, and an interval of times.
They run alternately, before and after an upsert of a hundredth of the rows, which goes to logs. Each contender gets the
queries that its index is made for. Every answer is compared with that of the table without an index.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import parsieve.spark as pss

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benches" / "python"))
import record  # noqa: E402

ALONE, OURS = "no index", "parsieve"
COLUMNS = ["id", "user", "happened"]
# Where Hudi keeps its indexes, below the table's folder.
METADATA = ".hoodie/metadata"
# The time of the first event, and the number of events per second.
FIRST_EVENT, EVENTS_PER_SECOND = 1_767_225_600, 10


def events(spark: Any, rows: int, first: int, last: int, tasks: int, version: int = 0) -> Any:
    """Return the rows from `first` to `last`. The key is a hash of the number, and one event in fifty is a day late."""
    late = "IF(pmod(xxhash64(id, 1), 50) = 0, 86400, 0)"
    return spark.range(first, last, 1, tasks).selectExpr(
        "xxhash64(id) AS id",
        f"pmod(xxhash64(id, 2), {max(1, rows // 8)}) AS user",
        f"timestamp_seconds({FIRST_EVENT} + id DIV {EVENTS_PER_SECOND} - {late}) AS happened",
        f"CAST(id % 1000 AS DOUBLE) + {version} AS amount",
        "sha2(CAST(id AS STRING), 224) AS load",
    )


def write(frame: Any, folder: Path, operation: str, tasks: int, **extra_options: str) -> None:
    """Write with Hudi's data source."""
    options = {
        "hoodie.table.name": "events",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.operation": operation,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "",
        "hoodie.bulkinsert.shuffle.parallelism": str(tasks),
        "hoodie.upsert.shuffle.parallelism": "4",
        "hoodie.simple.index.parallelism": "4",
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.compact.inline": "false",
        "hoodie.index.type": "SIMPLE",
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "false",
        **extra_options,
    }
    frame.write.format("hudi").options(**options).mode("append").save(str(folder))


@dataclass
class Contender:
    """A copy of the table with one index."""

    name: str
    folder: Path
    questions: tuple[str, ...]
    # Options of every write, which keep the index up to date.
    settings: dict[str, str] = field(default_factory=dict)
    build_seconds: float = 0
    update_seconds: float = 0
    index_bytes: dict[str, int] = field(default_factory=dict)
    failed: str | None = None

    def read(self, spark: Any, where: str) -> Any:
        """Return the rows of a query, using only this contender's index."""
        if self.name == OURS:
            return pss.read(spark, self.folder, where)
        data_skipping = str(self.name != ALONE).lower()
        reader = spark.read.format("hudi").option("hoodie.enable.data.skipping", data_skipping)
        return reader.option("hoodie.metadata.enable", "true").load(str(self.folder)).where(where)

    def measure_bytes(self, moment: str, before: int) -> None:
        """Record the size of the index; for Hudi, the growth of its metadata over the unindexed table."""
        if self.name == OURS:
            self.index_bytes[moment] = size_of(self.folder / "_parsieve")
        else:
            self.index_bytes[moment] = size_of(self.folder / METADATA) - before


def size_of(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def files_read(query: Any) -> int:
    """Return the number of files that the scans of an executed query opened."""
    leaves = query._jdf.queryExecution().executedPlan().collectLeaves()
    metrics = [leaves.apply(number).metrics() for number in range(leaves.size())]
    return sum(leaf.apply("numFiles").value() for leaf in metrics if leaf.contains("numFiles"))


def build(spark: Any, contender: Contender, rows: int, tasks: int) -> None:
    """Build the index of a contender, and record the seconds."""
    table = f"events_{contender.name.replace(' ', '_').replace('-', '_')}"
    unchanged_row = events(spark, rows, 0, 1, 1)
    started = time.perf_counter()
    if contender.name == OURS:
        pss.build_index(spark, str(contender.folder), COLUMNS)
    elif contender.name in (ALONE, "column stats"):
        # Hudi builds column stats of the whole table with the first write that enables them.
        write(unchanged_row, contender.folder, "upsert", tasks, **contender.settings)
    else:
        spark.sql(f"CREATE TABLE {table} USING hudi LOCATION '{contender.folder}'")
        statements = {
            "bloom": [
                f"CREATE INDEX bloom_{column} ON {table} USING bloom_filters({column}) OPTIONS(expr='identity')"
                for column in ("id", "user")
            ],
            "record-level": [f"CREATE INDEX record_index ON {table} (id)"],
            "secondary": [
                f"CREATE INDEX record_index ON {table} (id)",
                f"CREATE INDEX of_user ON {table} (user)",
            ],
        }
        started = time.perf_counter()
        for statement in statements[contender.name]:
            spark.sql(statement)
    contender.build_seconds = time.perf_counter() - started


def update(spark: Any, contender: Contender, rows: int, tasks: int) -> None:
    """Upsert a hundredth of the rows, consecutive in time, and update the index."""
    started = time.perf_counter()
    changed = events(spark, rows, rows // 2, rows // 2 + max(1, rows // 100), 2, version=1)
    write(changed, contender.folder, "upsert", tasks, **contender.settings)
    if contender.name == OURS:
        pss.update_index(spark, str(contender.folder))
    contender.update_seconds = time.perf_counter() - started


def attempt(contender: Contender, step: Callable[[], None]) -> None:
    """Run a step. If it fails in Hudi, record the error instead of raising it."""
    if contender.failed is None:
        try:
            step()
        except Exception as error:
            if contender.name in (ALONE, OURS):
                raise
            contender.failed = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            print(f"  {contender.name} failed: {contender.failed}")


def ask(spark: Any, contenders: list[Contender], questions: dict[str, str], moment: str, rounds: int) -> list[Any]:
    """Run each query alternately with all contenders, and return the seconds and files."""
    cases = []
    for name, where in questions.items():
        runners = [contender for contender in contenders if name in contender.questions and contender.failed is None]
        seconds: dict[str, list[float]] = {contender.name: [] for contender in runners}
        files: dict[str, int] = {}
        expected: list[Any] | None = None
        for number in range(rounds + 1):
            for contender in runners:
                started = time.perf_counter()
                query = contender.read(spark, where).select("id", "amount")
                answer = sorted((row.id, row.amount) for row in query.collect())
                elapsed = time.perf_counter() - started
                # The first contender is the table without an index.
                expected = answer if expected is None else expected
                assert answer == expected, f"{contender.name}, {where}: {len(answer)} rows, expected {len(expected)}"
                files[contender.name] = files_read(query)
                # The first round is not counted: it warms up Java's compiler.
                if number:
                    seconds[contender.name].append(elapsed)
        for contender in runners:
            median = statistics.median(seconds[contender.name])
            print(f"  {moment}, {name}: {contender.name:<13} {files[contender.name]:5} files, {median:6.2f} s")
        cases.append(
            {
                "moment": moment,
                "question": name,
                "where": where,
                "rows": len(expected or []),
                "files": files,
                "seconds": {runner: [round(elapsed, 3) for elapsed in times] for runner, times in seconds.items()},
            }
        )
    return cases


def figures(about: dict[str, Any], cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the measurements as figures for `parsieve report`."""
    names = list(about["contenders"])
    failed = [f"{name} failed: {values['failed']}" for name, values in about["contenders"].items() if values["failed"]]
    rows = f"{about['rows'] / 1e6:g} M rows of Hudi"
    result = []

    def chart(title: str, says: str, unit: str, categories: list[str], value: Callable[[str, int], Any]) -> None:
        series = [
            record.series(name, [value(name, number) for number in range(len(categories))], ours=name == OURS)
            for name in names
        ]
        axes = {"kind": "bars" if unit == "seconds" else "dots", "unit": unit, "categories": categories}
        result.append({"title": f"{rows}: {title}", "says": says, "notes": failed} | axes | {"series": series})

    for moment in dict.fromkeys(case["moment"] for case in cases):
        group = [case for case in cases if case["moment"] == moment]
        queries = [case["question"] for case in group]
        when = "right after the build" if moment == "built" else "after an upsert of a hundredth of the rows"
        chart(
            f"seconds, {moment}",
            f"Median seconds of a query {when}. Each index gets the queries that it is made for.",
            "seconds",
            queries,
            # A contender without this query is a gap.
            lambda name, number, group=group: (  # type: ignore[misc]
                statistics.median(times) if (times := group[number]["seconds"].get(name)) else None
            ),
        )
        chart(
            f"files, {moment}",
            f"Files that Spark opens for a query {when}, out of {about['files']}.",
            "files",
            queries,
            lambda name, number, group=group: group[number]["files"].get(name),  # type: ignore[misc]
        )
    moments = ["build", "update"]
    chart(
        "building and updating",
        "Seconds to build the index, and for the upsert and the update of the index.",
        "seconds",
        moments,
        # A step that failed has zero seconds.
        lambda name, number: about["contenders"][name][f"{moments[number]}_seconds"] or None,
    )
    chart(
        "size of the index",
        "Bytes after the build and after the upsert; for Hudi, the growth of its metadata.",
        "bytes",
        ["built", "updated"],
        lambda name, number: about["contenders"][name]["index_bytes"].get(("built", "updated")[number]),
    )
    return result


def main() -> None:
    """Measure, print, and optionally save the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--files", type=int, help="number of files of the table (default: one per 125,000 rows)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", default="2g", help="memory of Spark's driver, which does all the work")
    parser.add_argument(
        "--smoke", action="store_true", help="run once with little data, to check that all results agree"
    )
    parser.add_argument("--save", action="store_true", help="write a record to benches/results")
    arguments = parser.parse_args()
    rows = 20_000 if arguments.smoke else arguments.rows
    files = arguments.files or max(8, rows // 125_000)
    rounds = 1 if arguments.smoke else arguments.rounds
    folder = Path(tempfile.mkdtemp(prefix="parsieve-bench-"))
    spark = pss.session(
        lakes=["hudi"],
        master="local[2]",
        memory=arguments.memory,
        warehouse=folder / "warehouse",
        config={"spark.ui.showConsoleProgress": False, "spark.sql.session.timeZone": "UTC"},
    )
    try:
        cases = run(spark, folder, rows, files, rounds)
    finally:
        spark.stop()
        shutil.rmtree(folder)
    if arguments.save:
        charts = figures(cases[0], cases[1:])
        record.save("indexes", cases, ["pyspark", "hudi", "pyarrow"], charts, by="spark")


def run(spark: Any, folder: Path, rows: int, files: int, rounds: int) -> list[dict[str, Any]]:
    """Write the table, and measure all contenders before and after an upsert."""
    base = folder / "base"
    started = time.perf_counter()
    write(events(spark, rows, 0, rows, files), base, "bulk_insert", files)
    seconds = time.perf_counter() - started
    print(f"{rows:,} rows in {len(list(base.glob('*.parquet')))} files, {size_of(base):,} bytes, {seconds:.1f} s")
    all_queries = ("key", "user", "interval")
    stats = {
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.metadata.index.column.stats.column.list": ",".join(COLUMNS),
    }
    # To Hudi, SQL that creates an index is another writer, so it needs a lock.
    lock = {"hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider"}
    keys = {**lock, "hoodie.metadata.global.record.level.index.enable": "true"}
    contenders = [
        Contender(ALONE, folder / "alone", all_queries),
        Contender(OURS, folder / "ours", all_queries),
        Contender("column stats", folder / "stats", all_queries, stats),
        Contender("bloom", folder / "bloom", ("key", "user"), lock),
        Contender("record-level", folder / "record", ("key",), keys),
        Contender("secondary", folder / "secondary", ("user",), keys),
    ]
    for contender in contenders:
        shutil.copytree(base, contender.folder)
        for name in keys:
            if name in contender.settings:
                spark.conf.set(name, contender.settings[name])
            else:
                spark.conf.unset(name)
        attempt(contender, lambda contender=contender: build(spark, contender, rows, files))  # type: ignore[misc]
        contender.measure_bytes("built", size_of(contenders[0].folder / METADATA))
        num_bytes = contender.index_bytes["built"]
        print(f"  {contender.name:<13} built in {contender.build_seconds:6.2f} s, {num_bytes:,} bytes")
    row = events(spark, rows, rows // 3, rows // 3 + 1, 1).first()
    middle = FIRST_EVENT + rows // 2 // EVENTS_PER_SECOND
    questions = {
        "key": f"id = {row.id}",
        "user": f"user = {row.user}",
        "interval": f"happened >= timestamp_seconds({middle}) AND happened < timestamp_seconds({middle + 30})",
    }
    cases: list[dict[str, Any]] = ask(spark, contenders, questions, "built", rounds)
    for contender in contenders:
        attempt(contender, lambda contender=contender: update(spark, contender, rows, files))  # type: ignore[misc]
        contender.measure_bytes("updated", size_of(contenders[0].folder / METADATA))
        num_bytes = contender.index_bytes["updated"]
        print(f"  {contender.name:<13} updated in {contender.update_seconds:6.2f} s, {num_bytes:,} bytes")
    cases += ask(spark, contenders, questions, "updated", rounds)
    about = {
        "rows": rows,
        "files": files,
        "table_bytes": size_of(base),
        "write_seconds": round(seconds, 2),
        "contenders": {
            contender.name: {
                # The times of the table without an index are the cost of a write. The other times include it,
                # except for indexes that are built by SQL.
                "build_seconds": round(contender.build_seconds, 2),
                "update_seconds": round(contender.update_seconds, 2),
                "index_bytes": contender.index_bytes,
                "failed": contender.failed,
            }
            for contender in contenders
        },
    }
    return [about, *cases]


if __name__ == "__main__":
    main()
