"""Hudi's own indexes beside the Sieve, on one merge-on-read table in one session. See `benches/README.md`.

    make develop .venv-spark/stamp-bench-spark
    PYTHONPATH=python .venv-spark/bin/python benches/spark/indexes.py --rows 20000000 --save

Each contender has a copy of the same table: nothing but the table, the Sieve, and Hudi's column stats, Bloom filters,
record-level and secondary index. The record keys are scattered over all files, users come again and again, and events
arrive late, so that minima and maxima know little. Three questions take turns, round by round, before and after an
upsert of a hundredth of the rows whose changes lie in logs: a record key, a user, and an interval of times. A contender
is asked what its index is made for. Every answer is compared with that of the table alone.
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
# A moment of the first event, and how many there are in a second.
BEGAN, EACH_SECOND = 1_767_225_600, 10


def events(spark: Any, rows: int, first: int, last: int, tasks: int, version: int = 0) -> Any:
    """Some of a table's rows by their number: the key is a hash of it, and one event in fifty came a day late."""
    late = "IF(pmod(xxhash64(id, 1), 50) = 0, 86400, 0)"
    return spark.range(first, last, 1, tasks).selectExpr(
        "xxhash64(id) AS id",
        f"pmod(xxhash64(id, 2), {max(1, rows // 8)}) AS user",
        f"timestamp_seconds({BEGAN} + id DIV {EACH_SECOND} - {late}) AS happened",
        f"CAST(id % 1000 AS DOUBLE) + {version} AS amount",
        "sha2(CAST(id AS STRING), 224) AS load",
    )


def write(frame: Any, folder: Path, operation: str, tasks: int, **more: str) -> None:
    """One write by Hudi's datasource."""
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
        **more,
    }
    frame.write.format("hudi").options(**options).mode("append").save(str(folder))


@dataclass
class Contender:
    """A copy of the table with one index."""

    name: str
    folder: Path
    questions: tuple[str, ...]
    # What each write must be told, that the index stays in step.
    settings: dict[str, str] = field(default_factory=dict)
    build_seconds: float = 0
    update_seconds: float = 0
    index_bytes: dict[str, int] = field(default_factory=dict)
    failed: str | None = None

    def read(self, spark: Any, where: str) -> Any:
        """The rows of a question, by the means of this contender alone."""
        if self.name == OURS:
            return pss.read(spark, self.folder, where)
        skips = str(self.name != ALONE).lower()
        reader = spark.read.format("hudi").option("hoodie.enable.data.skipping", skips)
        return reader.option("hoodie.metadata.enable", "true").load(str(self.folder)).where(where)

    def measure_bytes(self, moment: str, before: int) -> None:
        """How large the index is: for Hudi, what its metadata have grown by beside those of the table alone."""
        if self.name == OURS:
            self.index_bytes[moment] = size_of(self.folder / "_parsieve")
        else:
            self.index_bytes[moment] = size_of(self.folder / METADATA) - before


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())


def scans(query: Any) -> int:
    """How many files the scans of an executed query opened."""
    leaves = query._jdf.queryExecution().executedPlan().collectLeaves()
    metrics = [leaves.apply(at).metrics() for at in range(leaves.size())]
    return sum(one.apply("numFiles").value() for one in metrics if one.contains("numFiles"))


def build(spark: Any, one: Contender, rows: int, tasks: int) -> None:
    """The index of a contender, timed."""
    table = f"events_{one.name.replace(' ', '_').replace('-', '_')}"
    nothing_new = events(spark, rows, 0, 1, 1)
    started = time.perf_counter()
    if one.name == OURS:
        pss.build_index(spark, str(one.folder), COLUMNS)
    elif one.name in (ALONE, "column stats"):
        # Hudi makes column stats of the whole table with the first write that asks for them.
        write(nothing_new, one.folder, "upsert", tasks, **one.settings)
    else:
        spark.sql(f"CREATE TABLE {table} USING hudi LOCATION '{one.folder}'")
        made = {
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
        for statement in made[one.name]:
            spark.sql(statement)
    one.build_seconds = time.perf_counter() - started


def update(spark: Any, one: Contender, rows: int, tasks: int) -> None:
    """An upsert of a hundredth of the rows, neighbours by their time, and the index after it."""
    started = time.perf_counter()
    changed = events(spark, rows, rows // 2, rows // 2 + max(1, rows // 100), 2, version=1)
    write(changed, one.folder, "upsert", tasks, **one.settings)
    if one.name == OURS:
        pss.update_index(spark, str(one.folder))
    one.update_seconds = time.perf_counter() - started


def attempt(one: Contender, act: Callable[[], None]) -> None:
    """What this release of Hudi refuses is a line in the record."""
    if one.failed is None:
        try:
            act()
        except Exception as error:
            if one.name in (ALONE, OURS):
                raise
            one.failed = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            print(f"  {one.name} failed: {one.failed}")


def ask(spark: Any, contenders: list[Contender], questions: dict[str, str], moment: str, rounds: int) -> list[Any]:
    """Seconds and files of each question, in turns."""
    cases = []
    for name, where in questions.items():
        asked = [one for one in contenders if name in one.questions and one.failed is None]
        seconds: dict[str, list[float]] = {one.name: [] for one in asked}
        files: dict[str, int] = {}
        expected: list[Any] | None = None
        for number in range(rounds + 1):
            for one in asked:
                started = time.perf_counter()
                query = one.read(spark, where).select("id", "amount")
                found = sorted((row.id, row.amount) for row in query.collect())
                took = time.perf_counter() - started
                # The table alone is the first of them.
                expected = found if expected is None else expected
                assert found == expected, f"{one.name}, {where}: {len(found)} rows and not {len(expected)}"
                files[one.name] = scans(query)
                # The first round warms Java's compiler.
                if number:
                    seconds[one.name].append(took)
        for one in asked:
            middle = statistics.median(seconds[one.name])
            print(f"  {moment}, {name}: {one.name:<13} {files[one.name]:5} files, {middle:6.2f} s")
        cases.append(
            {
                "moment": moment,
                "question": name,
                "where": where,
                "rows": len(expected or []),
                "files": files,
                "seconds": {one: [round(took, 3) for took in times] for one, times in seconds.items()},
            }
        )
    return cases


def figures(about: dict[str, Any], cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The measurements as `parsieve report` draws them."""
    names = list(about["contenders"])
    failed = [f"{name} failed: {of['failed']}" for name, of in about["contenders"].items() if of["failed"]]
    rows = f"{about['rows'] / 1e6:g} M rows of Hudi"
    found = []

    def chart(title: str, says: str, unit: str, categories: list[str], value: Callable[[str, int], Any]) -> None:
        series = [
            record.series(name, [value(name, at) for at in range(len(categories))], ours=name == OURS) for name in names
        ]
        about_it = {"kind": "bars" if unit == "seconds" else "dots", "unit": unit, "categories": categories}
        found.append({"title": f"{rows}: {title}", "says": says, "notes": failed} | about_it | {"series": series})

    for moment in dict.fromkeys(case["moment"] for case in cases):
        of = [case for case in cases if case["moment"] == moment]
        asked = [case["question"] for case in of]
        when = "right after the build" if moment == "built" else "after an upsert of a hundredth of the rows"
        chart(
            f"seconds, {moment}",
            f"Seconds of a question {when}; medians. An index is asked what it is made for.",
            "seconds",
            asked,
            # Whoever was not asked is a gap.
            lambda name, at, of=of: statistics.median(took) if (took := of[at]["seconds"].get(name)) else None,  # type: ignore[misc]
        )
        chart(
            f"files, {moment}",
            f"Files that Spark opens for a question {when}, of {about['files']}.",
            "files",
            asked,
            lambda name, at, of=of: of[at]["files"].get(name),  # type: ignore[misc]
        )
    moments = ["build", "update"]
    chart(
        "building and updating",
        "Seconds to build the index, and of the upsert with the index after it.",
        "seconds",
        moments,
        # Whoever failed took no time at all.
        lambda name, at: about["contenders"][name][f"{moments[at]}_seconds"] or None,
    )
    chart(
        "size of the index",
        "Bytes after the build and after the upsert; of Hudi what its metadata have grown by.",
        "bytes",
        ["built", "updated"],
        lambda name, at: about["contenders"][name]["index_bytes"].get(("built", "updated")[at]),
    )
    return found


def main() -> None:
    """Measure, print, and save if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--files", type=int, help="of the table; by default one for each 125,000 rows")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", default="2g", help="of Spark's driver, which does all the work here")
    parser.add_argument("--smoke", action="store_true", help="small and once: does it run, and do all agree")
    parser.add_argument("--save", action="store_true", help="write a record into benches/results")
    asked = parser.parse_args()
    rows = 20_000 if asked.smoke else asked.rows
    files = asked.files or max(8, rows // 125_000)
    rounds = 1 if asked.smoke else asked.rounds
    place = Path(tempfile.mkdtemp(prefix="parsieve-bench-"))
    spark = pss.session(
        lakes=["hudi"],
        master="local[2]",
        memory=asked.memory,
        warehouse=place / "warehouse",
        config={"spark.ui.showConsoleProgress": False, "spark.sql.session.timeZone": "UTC"},
    )
    try:
        cases = run(spark, place, rows, files, rounds)
    finally:
        spark.stop()
        shutil.rmtree(place)
    if asked.save:
        drawn = figures(cases[0], cases[1:])
        record.save("indexes", cases, ["pyspark", "hudi", "pyarrow"], drawn, by="spark")


def run(spark: Any, place: Path, rows: int, files: int, rounds: int) -> list[dict[str, Any]]:
    """All contenders through the life of the table."""
    base = place / "base"
    started = time.perf_counter()
    write(events(spark, rows, 0, rows, files), base, "bulk_insert", files)
    seconds = time.perf_counter() - started
    print(f"{rows:,} rows in {len(list(base.glob('*.parquet')))} files, {size_of(base):,} bytes, {seconds:.1f} s")
    every = ("key", "user", "interval")
    stats = {
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.metadata.index.column.stats.column.list": ",".join(COLUMNS),
    }
    # Whoever makes an index by SQL is another writer to Hudi.
    lock = {"hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider"}
    keys = {**lock, "hoodie.metadata.global.record.level.index.enable": "true"}
    contenders = [
        Contender(ALONE, place / "alone", every),
        Contender(OURS, place / "ours", every),
        Contender("column stats", place / "stats", every, stats),
        Contender("bloom", place / "bloom", ("key", "user"), lock),
        Contender("record-level", place / "record", ("key",), keys),
        Contender("secondary", place / "secondary", ("user",), keys),
    ]
    for one in contenders:
        shutil.copytree(base, one.folder)
        for name in keys:
            if name in one.settings:
                spark.conf.set(name, one.settings[name])
            else:
                spark.conf.unset(name)
        attempt(one, lambda one=one: build(spark, one, rows, files))  # type: ignore[misc]
        one.measure_bytes("built", size_of(contenders[0].folder / METADATA))
        print(f"  {one.name:<13} built in {one.build_seconds:6.2f} s, {one.index_bytes['built']:,} bytes")
    one_row = events(spark, rows, rows // 3, rows // 3 + 1, 1).first()
    middle = BEGAN + rows // 2 // EACH_SECOND
    questions = {
        "key": f"id = {one_row.id}",
        "user": f"user = {one_row.user}",
        "interval": f"happened >= timestamp_seconds({middle}) AND happened < timestamp_seconds({middle + 30})",
    }
    cases: list[dict[str, Any]] = ask(spark, contenders, questions, "built", rounds)
    for one in contenders:
        attempt(one, lambda one=one: update(spark, one, rows, files))  # type: ignore[misc]
        one.measure_bytes("updated", size_of(contenders[0].folder / METADATA))
        print(f"  {one.name:<13} updated in {one.update_seconds:6.2f} s, {one.index_bytes['updated']:,} bytes")
    cases += ask(spark, contenders, questions, "updated", rounds)
    about = {
        "rows": rows,
        "files": files,
        "table_bytes": size_of(base),
        "write_seconds": round(seconds, 2),
        "contenders": {
            one.name: {
                # Those of the table alone are the price of a write, which is in the others' too, but for builds by SQL.
                "build_seconds": round(one.build_seconds, 2),
                "update_seconds": round(one.update_seconds, 2),
                "index_bytes": one.index_bytes,
                "failed": one.failed,
            }
            for one in contenders
        },
    }
    return [about, *cases]


if __name__ == "__main__":
    main()
