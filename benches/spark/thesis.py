"""Repeats the experiment that first tested the Sieve index: lineitem as a Hudi table on Spark, with more contenders.

    make develop .venv-spark/stamp-bench-spark
    PYTHONPATH=python .venv-spark/bin/python benches/spark/thesis.py FOLDER --rows 20000000 --save

FOLDER keeps the result of every step, so an interrupted run can resume: 600 million rows may take several evenings. The
table has the keys and a few columns, in the generator's order. Its files follow each other by order key, and nearly
every file has part keys from the whole range. Each generated file becomes one file in Hudi, so the bench can compute
the optimal number of files for a query without Spark. See `benches/README.md`.

For hundreds of millions of rows, `--lean` omits slow parts that show little: Hudi's five meta columns and its metadata
table, Spark's sort (it is compared at 20 million rows), and all full scans except for one key and one interval of each
column, because every scan takes equally long.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import parsieve as ps
import parsieve.spark as pss

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benches" / "python"))
import record  # noqa: E402

SCAN, MINMAX, BLOOM, SIEVE, OPTIMUM = "full scan", "min/max", "Bloom per file", "Sieve", "optimum"
SORT = "Spark's sort"
KEYS = ("l_orderkey", "l_partkey")
COLUMNS = ["l_orderkey", "l_linenumber", "l_partkey", "l_extendedprice"]
ROWS_PER_SCALE = 6_000_000
SELECTIVITIES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
FILES_PER_COMMIT = 8
POINT, ABSENT = "point", "absent key"


@dataclass(frozen=True)
class Question:
    """A query for the values of a column from `low` to `high`."""

    column: str
    kind: str
    low: int
    high: int

    @property
    def where(self) -> str:
        """Return the query as SQL."""
        if self.low == self.high:
            return f"{self.column} = {self.low}"
        return f"{self.column} BETWEEN {self.low} AND {self.high}"


def generate(folder: Path, rows: int, part: int, parts: int) -> list[str]:
    """Generate one part of lineitem, and write its columns to files of equal size."""
    raw, output = folder / "raw", folder / "lineitem"
    output.mkdir(exist_ok=True)
    shutil.rmtree(raw, ignore_errors=True)
    program = Path(sys.executable).parent / "tpchgen-cli"
    if not program.exists():
        raise SystemExit("tpchgen-cli is not installed; run make .venv-spark/stamp-bench-spark")
    scale = str(max(rows * 1.002 / ROWS_PER_SCALE, 0.01))
    command = [str(program), "parquet", "-s", scale, "-T", "lineitem", "--parts", str(parts), "--part", str(part + 1)]
    subprocess.run([*command, "-c", "SNAPPY", "--quiet", "-o", str(raw)], check=True)
    table = pq.read_table(raw, columns=COLUMNS)
    table = table.slice(0, rows * (part + 1) // parts - rows * part // parts)
    names = []
    for number in range(FILES_PER_COMMIT):
        begin, end = (len(table) * index // FILES_PER_COMMIT for index in (number, number + 1))
        names.append(f"part-{part:04}-{number}.parquet")
        pq.write_table(table.slice(begin, end - begin), output / names[-1])
    shutil.rmtree(raw)
    return names


def insert(spark: Any, folder: Path, files: list[str], lean: bool) -> int:
    """Insert generated files as one Hudi commit, with one file for each, and return the number of commits."""
    table = folder / "hudi"
    frame = spark.read.parquet(*(str(folder / "lineitem" / name) for name in files))
    options = {
        "hoodie.table.name": "lineitem",
        "hoodie.datasource.write.operation": "bulk_insert",
        "hoodie.datasource.write.recordkey.field": "l_orderkey,l_linenumber",
        "hoodie.datasource.write.partitionpath.field": "",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        "hoodie.bulkinsert.sort.mode": "NONE",
        "hoodie.metadata.index.column.stats.enable": "false",
        "hoodie.populate.meta.fields": str(not lean).lower(),
        "hoodie.metadata.enable": str(not lean).lower(),
        "hoodie.parquet.max.file.size": str(1 << 40),
        "hoodie.parquet.compression.codec": "snappy",
    }
    frame.write.format("hudi").options(**options).mode("append").save(str(table))
    return commits(table)


def commits(table: Path) -> int:
    """Return the number of completed commits of a table."""
    timeline = table / ".hoodie" / "timeline"
    return len(list(timeline.glob("*.commit"))) if timeline.exists() else 0


def make_questions(folder: Path, count: int, intervals: int) -> list[dict[str, Any]]:
    """Return queries for the keys of random rows, for missing keys, and for intervals."""
    random = np.random.default_rng(5)
    files = sorted((folder / "lineitem").glob("*.parquet"))
    questions = []
    for column in KEYS:
        bounds = [pq.ParquetFile(file).metadata for file in (files[0], files[-1])]
        minmax = [metadata.row_group(0).column(COLUMNS.index(column)).statistics for metadata in bounds]
        span = minmax[1].max - minmax[0].min
        for number in range(count):
            values = pq.read_table(files[int(random.integers(len(files)))], columns=[column])[column]
            key = values[int(random.integers(len(values)))].as_py()
            questions.append(Question(column, POINT, key, key))
            if column == "l_orderkey":
                # TPC-H uses eight of every 32 order keys.
                absent = key // 32 * 32 + 8 + number % 16
                questions.append(Question(column, ABSENT, absent, absent))
            for share in SELECTIVITIES if number < intervals else ():
                questions.append(Question(column, f"{share:g}", key, key + max(1, round(share * span)) - 1))
    return [asdict(question) for question in questions]


def count_matches(file: Path, questions: list[Question]) -> list[int]:
    """Return the number of rows of a file that match each query."""
    table = pq.read_table(file, columns=list(KEYS))
    columns = {name: table[name].to_numpy() for name in KEYS}
    matches = [(columns[query.column] >= query.low) & (columns[query.column] <= query.high) for query in questions]
    return [int(rows.sum()) for rows in matches]


def seconds_of(run: Callable[[], Any]) -> float:
    """Return the seconds that a function takes."""
    start = time.perf_counter()
    run()
    return round(time.perf_counter() - start, 3)


def size_of(path: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def build(spark: Any, folder: Path, column: str, way: str) -> dict[str, Any]:
    """Build one index, or let Spark compute min/max or sort the column, and return the seconds and bytes."""
    table, where = str(folder / "hudi"), folder / f"{way.split()[0].replace('/', '')}-{column}"
    shutil.rmtree(where, ignore_errors=True)
    if way == MINMAX:
        query = f"SELECT input_file_name(), min({column}), max({column}) FROM lineitem GROUP BY 1"
        spark.read.format("hudi").load(table).createOrReplaceTempView("lineitem")
        seconds = seconds_of(lambda: spark.sql(query).coalesce(1).write.parquet(str(where)))
        return {"seconds": seconds, "bytes": sum(file.stat().st_size for file in where.glob("*.parquet"))}
    if way == SORT:
        frame = spark.read.format("hudi").load(table).select(column)
        return {"seconds": seconds_of(lambda: frame.sort(column).write.format("noop").mode("overwrite").save())}
    kind = "sieve" if way == SIEVE else "bloom"
    seconds = seconds_of(lambda: pss.build_index(spark, table, column, kind, index_location=where))
    view = ps.open_table(table, index_location=where).opened.index.refresh()
    assert view is not None
    if way == SIEVE:
        stats = ps.open_table(table, index_location=where).index_stats()[column]
        lookup_bytes, maintenance_bytes = stats.lookup_bytes + stats.root_bytes, stats.keys_bytes
    else:
        shelves = view.commit.blooms[column,].shelves
        lookup_bytes = sum(part.size for shelf in shelves for part in (shelf.directory, shelf.rows))
        maintenance_bytes = 0
    return {
        "seconds": seconds,
        "bytes": lookup_bytes,
        "bytes_for_maintenance": maintenance_bytes,
        "bytes_in_all": size_of(where),
    }


def ways(spark: Any, folder: Path, column: str) -> dict[str, Callable[[str], Any]]:
    """Return a function for each contender that returns a DataFrame of the matching rows."""
    table = str(folder / "hudi")
    opened = {
        way: ps.open_table(table, index_location=folder / f"{name}-{column}")
        for way, name in ((MINMAX, "none"), (BLOOM, "Bloom"), (SIEVE, "Sieve"))
    }

    def scan(where: str) -> Any:
        # Skip neither files nor row groups.
        spark.conf.set("spark.sql.parquet.filterPushdown", "false")
        return spark.read.format("hudi").option("hoodie.enable.data.skipping", "false").load(table).where(where)

    def planned(way: str) -> Callable[[str], Any]:
        def frame(where: str) -> Any:
            spark.conf.set("spark.sql.parquet.filterPushdown", "true")
            return pss.read(spark, opened[way], where)

        return frame

    return {SCAN: scan} | {way: planned(way) for way in opened}


def answer(make: Callable[[str], Any], where: str) -> dict[str, Any]:
    """Run one query, and return its rows, a sum, the seconds with planning, and the files that Spark counted."""
    start = time.perf_counter()
    frame = make(where).selectExpr("count(*)", "sum(l_extendedprice)")
    [[rows, total]] = frame.collect()
    seconds = time.perf_counter() - start
    leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
    metrics = [leaves.apply(number).metrics() for number in range(leaves.size())]
    files = sum(int(leaf.apply("numFiles").value()) for leaf in metrics if leaf.contains("numFiles"))
    return {"seconds": round(seconds, 3), "files": files, "rows": rows, "sum": str(total)}


def ask(make: dict[str, Callable[[str], Any]], question: Question, rows: int, full_scan: bool) -> dict[str, Any]:
    """Run one query with every contender, with the full scan only if requested."""
    answers = {}
    for way, frame in make.items():
        if (way == SCAN and not full_scan) or (way == BLOOM and question.low != question.high):
            continue
        answers[way] = answer(frame, question.where)
        assert answers[way]["rows"] == rows, f"{way} returns {answers[way]['rows']} of {rows} rows: {question.where}"
    sums = {result["sum"] for result in answers.values()}
    assert len(sums) == 1, f"{question.where}: {answers}"
    return answers


def measure(spark: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the missing steps, and return all results."""
    folder, rows, lean = arguments.folder, arguments.rows, arguments.lean
    parts = max(1, rows // arguments.rows_of_a_commit)
    steps = record.SavedSteps(folder / "measured.json")
    table = folder / "hudi"
    for part in range(parts):
        files = steps.once(f"generate {part}", partial(generate, folder, rows, part, parts))
        # A commit may have completed just before an interruption.
        if commits(table) <= part:
            steps.once(f"insert {part}", partial(insert, spark, folder, files, lean))
    generated = sorted((folder / "lineitem").glob("*.parquet"))
    num_files = len(list(table.glob("*.parquet")))
    assert num_files == len(generated), f"{num_files} Hudi files for {len(generated)} generated files"
    picked = steps.once("questions", lambda: make_questions(folder, arguments.questions, arguments.intervals))
    questions = [Question(**fields) for fields in picked]
    matching = np.array(
        [steps.once(f"count {file.name}", partial(count_matches, file, questions)) for file in generated]
    )
    built: dict[str, dict[str, Any]] = {}
    for column in KEYS:
        for way in (MINMAX, BLOOM, SIEVE) if lean else (MINMAX, SORT, BLOOM, SIEVE):
            name = f"build {way} of {column}"
            built.setdefault(way, {})[column] = steps.once(name, partial(build, spark, folder, column, way))
    results = []
    for column in KEYS:
        make: dict[str, Callable[[str], Any]] = {}
        counts: dict[str, int] = {}
        for number, question in enumerate(questions):
            if question.column != column:
                continue
            counts[question.kind] = counts.get(question.kind, 0) + 1
            if f"ask {question.where}" not in steps.results and not make:
                make = ways(spark, folder, column)
                for way, frame in make.items():
                    # Warm up: some data is read and some code is compiled only once.
                    if not (lean and way == SCAN):
                        answer(frame, f"{column} = -1")
            total, first = int(matching[:, number].sum()), counts[question.kind] == 1
            full_scan = first and (not lean or question.kind in (POINT, f"{SELECTIVITIES[-1]:g}"))
            answers = steps.once(f"ask {question.where}", partial(ask, make, question, total, full_scan))
            results.append(
                asdict(question) | {"rows": total, "ways": answers, "least_files": int((matching[:, number] > 0).sum())}
            )
    return {
        "rows": rows,
        "files": num_files,
        "bytes": sum(file.stat().st_size for file in table.glob("*.parquet")),
        "built": built,
        "asked": results,
    }


def median(results: list[dict[str, Any]], way: str, key: str) -> float | None:
    """Return the median of a value over all results of one contender; None if there are none."""
    values = [result["ways"][way][key] for result in results if way in result["ways"]]
    return round(statistics.median(values), 4) if values else None


def minmax_notes(unit: str, categories: list[str], series: list[Any]) -> list[str]:
    """Return a note that names the categories where an index saves few files."""
    values = {line["name"]: line["values"] for line in series}
    if unit != "files" or MINMAX not in values:
        return []
    pairs = zip(categories, values[MINMAX], values[SIEVE], strict=True)
    names = [name for name, minmax, sieve in pairs if minmax is not None and sieve > 0.9 * minmax]
    return [f"Min/max reads at most a tenth more, so an index saves little: {', '.join(names)}."] if names else []


def figures(case: dict[str, Any], how: str) -> Iterator[dict[str, Any]]:
    """Yield the four charts of the experiment, and charts of the files read."""
    rows = f"{case['rows'] / 1e6:g} M rows"
    results = case["asked"]
    all_ways = (SCAN, MINMAX, BLOOM, SIEVE)

    def chart(kind: str, title: str, says: str, unit: str, categories: list[str], series: list[Any]) -> dict[str, Any]:
        return {
            "title": f"{rows}: {title}",
            "says": says,
            "kind": kind,
            "unit": unit,
            "categories": categories,
            "category": "column" if kind != "lines" else "share of the key range",
            "series": series,
            "notes": minmax_notes(unit, categories, series),
            "how": how,
        }

    for key, unit, about in (("seconds", "seconds", "Seconds of a query on Spark"), ("files", "files", "Files read")):
        for kind, title in ((POINT, "point queries"), (ABSENT, "keys that do not exist")):
            groups = {
                name: [result for result in results if (result["kind"], result["column"]) == (kind, name)]
                for name in KEYS
            }
            columns = [name for name in KEYS if groups[name]]
            series = [
                record.series(way, [median(groups[name], way, key) for name in columns], ours=way == SIEVE)
                for way in all_ways
            ]
            if key == "files":
                best = [statistics.median(result["least_files"] for result in groups[name]) for name in columns]
                series.append(record.series(OPTIMUM, best))
            yield chart(
                "dots" if key == "files" else "bars",
                f"{title}, {unit}",
                f"{about}, planning included; medians.",
                unit,
                columns,
                series,
            )
        for name in KEYS:
            shares = [f"{share:g}" for share in SELECTIVITIES]
            groups = {
                share: [result for result in results if (result["kind"], result["column"]) == (share, name)]
                for share in shares
            }
            series = [
                record.series(way, [median(groups[share], way, key) for share in shares], ours=way == SIEVE)
                for way in (SCAN, MINMAX, SIEVE)
            ]
            if key == "files":
                best = [statistics.median(result["least_files"] for result in groups[share]) for share in shares]
                series.append(record.series(OPTIMUM, best))
            yield chart(
                "lines",
                f"intervals of {name}, {unit}",
                f"{about} for an interval over a share of the key range, planning included; medians.",
                unit,
                shares,
                series,
            )
    for key, unit, title in (("seconds", "seconds", "build time"), ("bytes", "bytes", "size that queries read")):
        series = [
            record.series(way, [built[name].get(key) for name in KEYS], ours=way == SIEVE)
            for way, built in case["built"].items()
            if any(key in values for values in built.values())
        ]
        if key == "bytes":
            total = [case["built"][SIEVE][name]["bytes_in_all"] for name in KEYS]
            series.append(record.series("Sieve, all files", total))
        says = f"The {title} of each column's index; all built by Spark."
        if key == "bytes":
            says += " The Sieve's other files contain keys and counts, which only deletes and compaction need."
        yield chart("dots", title, says, unit, list(KEYS), series)


def main() -> None:
    """Run the missing steps, and optionally save the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "folder", type=Path, help="folder for the table, the indexes and the results; an interrupted run resumes"
    )
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rows-of-a-commit", type=int, default=2_000_000)
    parser.add_argument("--questions", type=int, default=5, help="number of queries of each kind and column")
    parser.add_argument("--intervals", type=int, default=5, help="number of intervals of each width and column")
    parser.add_argument(
        "--lean", action="store_true", help="omit steps that take long with hundreds of millions of rows"
    )
    parser.add_argument("--memory", default="2g", help="memory of Spark's driver, which does all the work")
    parser.add_argument("--save", action="store_true", help="write a record to benches/results")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    spark = pss.session(
        lakes=["hudi"],
        master="local[2]",
        memory=arguments.memory,
        warehouse=arguments.folder / "warehouse",
        config={
            "spark.local.dir": str(arguments.folder / "spark"),
            # One task for each inserted file, and executed plans that show their metrics.
            "spark.sql.files.openCostInBytes": str(1 << 30),
            "spark.sql.files.maxPartitionBytes": str(1 << 30),
            "spark.sql.adaptive.enabled": "false",
            # With one partition per core, Spark's own sort does not fit in 2 GB.
            "spark.sql.shuffle.partitions": str(max(16, arguments.rows // 300_000)),
            "spark.ui.showConsoleProgress": "false",
        },
    )
    try:
        case = measure(spark, arguments)
    finally:
        spark.stop()
    for way, built in case["built"].items():
        print(f"{way}: {built}")
    lean = " --lean" if arguments.lean else ""
    charts = list(figures(case, f"benches/spark/thesis.py FOLDER --rows {arguments.rows}{lean}"))
    for chart in charts:
        print(chart["title"], chart["categories"], {line["name"]: line["values"] for line in chart["series"]})
    if arguments.save:
        case["memory"] = arguments.memory
        record.save(f"thesis-{arguments.rows}", [case], ("pyspark", "pyarrow", "hudi"), charts, "spark")


if __name__ == "__main__":
    main()
