"""The experiment that the Sieve index was first judged by, and what it left out: lineitem as a Hudi table on Spark.

    make develop .venv-spark/stamp-bench-spark
    PYTHONPATH=python .venv-spark/bin/python benches/spark/thesis.py FOLDER --rows 20000000 --save

Every step leaves its result in FOLDER: a command that was interrupted goes on where it stopped, so that 600 million
rows may take several evenings. The table holds the key and a few columns, written in the generator's order: by order
key its files follow each other, by part key each file holds nearly all. One file of the generator becomes one of
Hudi, so that the least number of files for a question is counted in those, without Spark. See `benches/README.md`.

Of hundreds of millions of rows, `--lean` leaves out what takes long and says little: Hudi's own five columns of each
row and its metadata table, Spark's sort (builds are compared with it at 20 million), and full scans but for one point
and one interval of each column, since a scan takes as long for any question.
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
from kept import Kept  # noqa: E402

SCAN, MINMAX, BLOOM, SIEVE, OPTIMUM = "full scan", "min/max", "Bloom per file", "Sieve", "optimum"
SORT = "Spark's sort"
KEYS = ("l_orderkey", "l_partkey")
COLUMNS = ["l_orderkey", "l_linenumber", "l_partkey", "l_extendedprice"]
ROWS_OF_A_SCALE = 6_000_000
SELECTIVITIES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
FILES_OF_A_COMMIT = 8
POINT, ABSENT = "point", "absent key"


@dataclass(frozen=True)
class Question:
    """All values of a column from `low` to `high`."""

    column: str
    kind: str
    low: int
    high: int

    @property
    def where(self) -> str:
        """The question as SQL."""
        if self.low == self.high:
            return f"{self.column} = {self.low}"
        return f"{self.column} BETWEEN {self.low} AND {self.high}"


def generate(folder: Path, rows: int, part: int, parts: int) -> list[str]:
    """One part of lineitem, its few columns in files of equal size."""
    raw, made = folder / "raw", folder / "lineitem"
    made.mkdir(exist_ok=True)
    shutil.rmtree(raw, ignore_errors=True)
    program = Path(sys.executable).parent / "tpchgen-cli"
    if not program.exists():
        raise SystemExit("tpchgen-cli is missing: make .venv-spark/stamp-bench-spark")
    scale = str(max(rows * 1.002 / ROWS_OF_A_SCALE, 0.01))
    command = [str(program), "parquet", "-s", scale, "-T", "lineitem", "--parts", str(parts), "--part", str(part + 1)]
    subprocess.run([*command, "-c", "SNAPPY", "--quiet", "-o", str(raw)], check=True)
    table = pq.read_table(raw, columns=COLUMNS)
    table = table.slice(0, rows * (part + 1) // parts - rows * part // parts)
    names = []
    for number in range(FILES_OF_A_COMMIT):
        begin, end = (len(table) * at // FILES_OF_A_COMMIT for at in (number, number + 1))
        names.append(f"part-{part:04}-{number}.parquet")
        pq.write_table(table.slice(begin, end - begin), made / names[-1])
    shutil.rmtree(raw)
    return names


def insert(spark: Any, folder: Path, files: list[str], lean: bool) -> int:
    """A commit of Hudi's, a file for each that was generated; how many commits there are then."""
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
    """How many commits of a table are whole."""
    timeline = table / ".hoodie" / "timeline"
    return len(list(timeline.glob("*.commit"))) if timeline.exists() else 0


def ask_which(folder: Path, count: int, intervals: int) -> list[dict[str, Any]]:
    """Points, absent keys and intervals about rows that were picked at random."""
    random = np.random.default_rng(5)
    files = sorted((folder / "lineitem").glob("*.parquet"))
    found = []
    for column in KEYS:
        bounds = [pq.ParquetFile(file).metadata for file in (files[0], files[-1])]
        statistics_ = [one.row_group(0).column(COLUMNS.index(column)).statistics for one in bounds]
        span = statistics_[1].max - statistics_[0].min
        for turn in range(count):
            values = pq.read_table(files[int(random.integers(len(files)))], columns=[column])[column]
            key = values[int(random.integers(len(values)))].as_py()
            found.append(Question(column, POINT, key, key))
            if column == "l_orderkey":
                # Eight of every 32 order keys are used.
                absent = key // 32 * 32 + 8 + turn % 16
                found.append(Question(column, ABSENT, absent, absent))
            for part in SELECTIVITIES if turn < intervals else ():
                found.append(Question(column, f"{part:g}", key, key + max(1, round(part * span)) - 1))
    return [asdict(one) for one in found]


def least(file: Path, questions: list[Question]) -> list[int]:
    """How many rows of a file each question asks for."""
    table = pq.read_table(file, columns=list(KEYS))
    columns = {name: table[name].to_numpy() for name in KEYS}
    return [int(((columns[one.column] >= one.low) & (columns[one.column] <= one.high)).sum()) for one in questions]


def seconds_of(run: Callable[[], Any]) -> float:
    """What a run takes."""
    begun = time.perf_counter()
    run()
    return round(time.perf_counter() - begun, 3)


def size_of(path: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(one.stat().st_size for one in path.rglob("*") if one.is_file())


def build(spark: Any, folder: Path, column: str, way: str) -> dict[str, Any]:
    """Seconds and bytes of one index, or of the summaries that Spark makes by reading the column."""
    table, where = str(folder / "hudi"), folder / f"{way.split()[0].replace('/', '')}-{column}"
    shutil.rmtree(where, ignore_errors=True)
    if way == MINMAX:
        read = f"SELECT input_file_name(), min({column}), max({column}) FROM lineitem GROUP BY 1"
        spark.read.format("hudi").load(table).createOrReplaceTempView("lineitem")
        spent = seconds_of(lambda: spark.sql(read).coalesce(1).write.parquet(str(where)))
        return {"seconds": spent, "bytes": sum(one.stat().st_size for one in where.glob("*.parquet"))}
    if way == SORT:
        frame = spark.read.format("hudi").load(table).select(column)
        return {"seconds": seconds_of(lambda: frame.sort(column).write.format("noop").mode("overwrite").save())}
    kind = "sieve" if way == SIEVE else "bloom"
    spent = seconds_of(lambda: pss.build_index(spark, table, column, kind, index_location=where))
    view = ps.open_table(table, index_location=where).opened.index.refresh()
    assert view is not None
    if way == SIEVE:
        of = ps.open_table(table, index_location=where).index_stats()[column]
        asked, kept = of.lookup_bytes + of.root_bytes, of.keys_bytes
    else:
        shelves = view.commit.blooms[column,].shelves
        asked, kept = sum(part.size for one in shelves for part in (one.directory, one.rows)), 0
    return {"seconds": spent, "bytes": asked, "bytes_for_maintenance": kept, "bytes_in_all": size_of(where)}


def ways(spark: Any, folder: Path, column: str) -> dict[str, Callable[[str], Any]]:
    """How each contender answers: a frame of the table's rows."""
    table = str(folder / "hudi")
    opened = {
        way: ps.open_table(table, index_location=folder / f"{name}-{column}")
        for way, name in ((MINMAX, "none"), (BLOOM, "Bloom"), (SIEVE, "Sieve"))
    }

    def scan(where: str) -> Any:
        # Neither row groups nor files are left out.
        spark.conf.set("spark.sql.parquet.filterPushdown", "false")
        return spark.read.format("hudi").option("hoodie.enable.data.skipping", "false").load(table).where(where)

    def planned(way: str) -> Callable[[str], Any]:
        def frame(where: str) -> Any:
            spark.conf.set("spark.sql.parquet.filterPushdown", "true")
            return pss.read(spark, opened[way], where)

        return frame

    return {SCAN: scan} | {way: planned(way) for way in opened}


def answer(make: Callable[[str], Any], where: str) -> dict[str, Any]:
    """Rows and their sum by one way, its seconds with planning, and the files that Spark counted."""
    begun = time.perf_counter()
    frame = make(where).selectExpr("count(*)", "sum(l_extendedprice)")
    [[rows, total]] = frame.collect()
    spent = time.perf_counter() - begun
    leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
    metrics = [leaves.apply(at).metrics() for at in range(leaves.size())]
    files = sum(int(of.apply("numFiles").value()) for of in metrics if of.contains("numFiles"))
    return {"seconds": round(spent, 3), "files": files, "rows": rows, "sum": str(total)}


def ask(make: dict[str, Callable[[str], Any]], question: Question, rows: int, whole: bool) -> dict[str, Any]:
    """One question by every way, in turn; the scan of everything only where it is asked for."""
    found = {}
    for way, one in make.items():
        if (way == SCAN and not whole) or (way == BLOOM and question.low != question.high):
            continue
        found[way] = answer(one, question.where)
        assert found[way]["rows"] == rows, f"{way} finds {found[way]['rows']} rows of {rows}: {question.where}"
    sums = {of["sum"] for of in found.values()}
    assert len(sums) == 1, f"{question.where}: {found}"
    return found


def measure(spark: Any, asked_for: argparse.Namespace) -> dict[str, Any]:
    """Every step that was not taken before."""
    folder, rows, lean = asked_for.folder, asked_for.rows, asked_for.lean
    parts = max(1, rows // asked_for.rows_of_a_commit)
    kept = Kept(folder / "measured.json")
    table = folder / "hudi"
    for part in range(parts):
        files = kept.once(f"generate {part}", partial(generate, folder, rows, part, parts))
        # A commit that was whole when the command was interrupted counts.
        if commits(table) <= part:
            kept.once(f"insert {part}", partial(insert, spark, folder, files, lean))
    generated = sorted((folder / "lineitem").glob("*.parquet"))
    num_files = len(list(table.glob("*.parquet")))
    assert num_files == len(generated), f"{num_files} files of Hudi for {len(generated)} that were generated"
    picked = kept.once("questions", lambda: ask_which(folder, asked_for.questions, asked_for.intervals))
    questions = [Question(**one) for one in picked]
    found = [kept.once(f"count {file.name}", partial(least, file, questions)) for file in generated]
    matching = np.array(found)
    built: dict[str, dict[str, Any]] = {}
    for column in KEYS:
        for way in (MINMAX, BLOOM, SIEVE) if lean else (MINMAX, SORT, BLOOM, SIEVE):
            name = f"build {way} of {column}"
            built.setdefault(way, {})[column] = kept.once(name, partial(build, spark, folder, column, way))
    asked = []
    for column in KEYS:
        make: dict[str, Callable[[str], Any]] = {}
        turns: dict[str, int] = {}
        for number, question in enumerate(questions):
            if question.column != column:
                continue
            turns[question.kind] = turns.get(question.kind, 0) + 1
            if f"ask {question.where}" not in kept.found and not make:
                make = ways(spark, folder, column)
                for way, one in make.items():
                    # What is read and compiled once.
                    if not (lean and way == SCAN):
                        answer(one, f"{column} = -1")
            total, first = int(matching[:, number].sum()), turns[question.kind] == 1
            whole = first and (not lean or question.kind in (POINT, f"{SELECTIVITIES[-1]:g}"))
            of = kept.once(f"ask {question.where}", partial(ask, make, question, total, whole))
            asked.append(
                asdict(question) | {"rows": total, "ways": of, "least_files": int((matching[:, number] > 0).sum())}
            )
    return {
        "rows": rows,
        "files": num_files,
        "bytes": sum(one.stat().st_size for one in table.glob("*.parquet")),
        "built": built,
        "asked": asked,
    }


def medians(of: list[dict[str, Any]], way: str, what: str) -> float | None:
    """The median of some answers by one way, if there are any."""
    found = [one["ways"][way][what] for one in of if way in one["ways"]]
    return round(statistics.median(found), 4) if found else None


def even(unit: str, categories: list[str], series: list[Any]) -> list[str]:
    """Where an index spares no files, said."""
    of = {one["name"]: one["values"] for one in series}
    if unit != "files" or MINMAX not in of:
        return []
    pairs = zip(categories, of[MINMAX], of[SIEVE], strict=True)
    names = [name for name, minmax, sieve in pairs if minmax is not None and sieve > 0.9 * minmax]
    return [f"Min/max does as well, within a tenth; an index spares little: {', '.join(names)}."] if names else []


def figures(case: dict[str, Any], how: str) -> Iterator[dict[str, Any]]:
    """The four charts of the experiment, and the files that were read."""
    rows = f"{case['rows'] / 1e6:g} M rows"
    asked = case["asked"]
    every = (SCAN, MINMAX, BLOOM, SIEVE)

    def chart(kind: str, title: str, says: str, unit: str, categories: list[str], series: list[Any]) -> dict[str, Any]:
        return {
            "title": f"{rows}: {title}",
            "says": says,
            "kind": kind,
            "unit": unit,
            "categories": categories,
            "category": "column" if kind != "lines" else "share of the axis",
            "series": series,
            "notes": even(unit, categories, series),
            "how": how,
        }

    for what, unit, about in (("seconds", "seconds", "Seconds of a query on Spark"), ("files", "files", "Files read")):
        for kind, title in ((POINT, "point queries"), (ABSENT, "keys that do not exist")):
            columns = [name for name in KEYS if any(one["kind"] == kind and one["column"] == name for one in asked)]
            of = {name: [one for one in asked if (one["kind"], one["column"]) == (kind, name)] for name in columns}
            series = [
                record.series(way, [medians(of[name], way, what) for name in columns], ours=way == SIEVE)
                for way in every
            ]
            if what == "files":
                best = [statistics.median(one["least_files"] for one in of[name]) for name in columns]
                series.append(record.series(OPTIMUM, best))
            yield chart(
                "dots" if what == "files" else "bars",
                f"{title}, {unit}",
                f"{about}, planning included; medians.",
                unit,
                columns,
                series,
            )
        for name in KEYS:
            parts = [f"{part:g}" for part in SELECTIVITIES]
            of = {part: [one for one in asked if (one["kind"], one["column"]) == (part, name)] for part in parts}
            series = [
                record.series(way, [medians(of[part], way, what) for part in parts], ours=way == SIEVE)
                for way in (SCAN, MINMAX, SIEVE)
            ]
            if what == "files":
                best = [statistics.median(one["least_files"] for one in of[part]) for part in parts]
                series.append(record.series(OPTIMUM, best))
            yield chart(
                "lines",
                f"intervals of {name}, {unit}",
                f"{about} for an interval over a share of the axis, planning included; medians.",
                unit,
                parts,
                series,
            )
    for what, unit, title in (("seconds", "seconds", "build time"), ("bytes", "bytes", "size that queries read")):
        series = [
            record.series(way, [of[name].get(what) for name in KEYS], ours=way == SIEVE)
            for way, of in case["built"].items()
            if any(what in one for one in of.values())
        ]
        if what == "bytes":
            whole = [case["built"][SIEVE][name]["bytes_in_all"] for name in KEYS]
            series.append(record.series("Sieve, all files", whole))
        says = f"The {title} of each column's index; all built by Spark."
        if what == "bytes":
            says += (
                " The Sieve's other files hold keys and counts, which deletes and compaction need, and no query reads."
            )
        yield chart("dots", title, says, unit, list(KEYS), series)


def main() -> None:
    """Measure what is missing, and save if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where table, indexes and results lie; an interrupted run goes on")
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rows-of-a-commit", type=int, default=2_000_000)
    parser.add_argument("--questions", type=int, default=5, help="of each kind and column")
    parser.add_argument("--intervals", type=int, default=5, help="of those, with intervals of each width")
    parser.add_argument("--lean", action="store_true", help="leave out what takes long at hundreds of millions of rows")
    parser.add_argument("--memory", default="2g", help="of Spark's driver, which does all the work here")
    parser.add_argument("--save", action="store_true", help="write a record into benches/results")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    spark = pss.session(
        lakes=["hudi"],
        master="local[2]",
        memory=asked.memory,
        warehouse=asked.folder / "warehouse",
        config={
            "spark.local.dir": str(asked.folder / "spark"),
            # A task for each file that is inserted; plans that show what they did.
            "spark.sql.files.openCostInBytes": str(1 << 30),
            "spark.sql.files.maxPartitionBytes": str(1 << 30),
            "spark.sql.adaptive.enabled": "false",
            # With a partition for each core Spark's own sort has no room in 2 GB.
            "spark.sql.shuffle.partitions": str(max(16, asked.rows // 300_000)),
            "spark.ui.showConsoleProgress": "false",
        },
    )
    try:
        case = measure(spark, asked)
    finally:
        spark.stop()
    for way, of in case["built"].items():
        print(f"{way}: {of}")
    lean = " --lean" if asked.lean else ""
    drawn = list(figures(case, f"benches/spark/thesis.py FOLDER --rows {asked.rows}{lean}"))
    for one in drawn:
        print(one["title"], one["categories"], {of["name"]: of["values"] for of in one["series"]})
    if asked.save:
        case["memory"] = asked.memory
        record.save(f"thesis-{asked.rows}", [case], ("pyspark", "pyarrow", "hudi"), drawn, "spark")


if __name__ == "__main__":
    main()
