"""The demo: two questions to a lake, first as engines answer them alone, then with filters and an index."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import parsieve as ps
from parsieve.demo import lake
from parsieve.demo.engines import ALONE, WITH, Answered, DuckDB, Engine, Polars, Pyarrow, Spark, spark_session
from parsieve.demo.page import OF_ALL_FILES, Asked, gains, index_size, page, plan_command, where_nothing_is_saved
from parsieve.report.figures import written
from parsieve.report.plans import verdicts

FILES, ROWS = 200, 8_000_000


def require_engines() -> None:
    """`UnsupportedError` where DuckDB is missing, which the demo cannot do without."""
    if find_spec("duckdb") is None:
        raise ps.UnsupportedError("the demo needs DuckDB: pip install duckdb")


def run(
    folder: Path,
    report: Path,
    *,
    files: int = FILES,
    rows: int = ROWS,
    spark: bool = True,
    say: Callable[[str], None],
) -> list[Answered]:
    """Write a lake, query it, index it, query it again, and write a report. `spark` includes Spark if installed."""
    require_engines()
    begun = time.perf_counter()
    say(f"Writing {files} files with {rows:,} events to {folder} ...")
    events = lake.write(folder, files, rows // files)
    say(f"  {written(events.num_bytes, 'bytes')}, one file per {lake.HOURS_OF_A_FILE} hours of arrival; some events")
    say("  are weeks late, and every user is spread over several files")
    questions = {"one user": events.point, "one hour": events.range}
    for name, where in questions.items():
        say(f"  {name}: {where}")
    engines = _engines(events, spark, say)
    try:
        say("Querying the files as they are ...")
        before = {name: verdicts(ps.open_table(folder).plan(where)) for name, where in questions.items()}
        everything = [str(path) for path in sorted(folder.glob("*.parquet"))]
        alone = [
            engine.ask(name, ALONE, partial(engine.alone, where), everything)
            for name, where in questions.items()
            for engine in engines
        ]
        table = _indexed(folder, say)
        size = index_size(table, events)
        say(f"  {size}")
        say("Querying again with parsieve ...")
        ours = [
            engine.ask(
                name,
                WITH,
                partial(engine.planned, table, where),
                table.plan(where).files,
            )
            for name, where in questions.items()
            for engine in engines
        ]
    finally:
        for engine in engines:
            engine.close()
    _compare(alone, ours)
    answers = [one for pair in zip(alone, ours, strict=True) for one in pair]
    asked = [Asked(name, where, before[name], verdicts(table.plan(where))) for name, where in questions.items()]
    nothing = where_nothing_is_saved(table, folder)
    _tell(answers, asked, " ".join(nothing.notes), say)
    report.write_text(page(events, answers, asked, nothing, size), encoding="utf-8")
    say("")
    say(f"Report with charts: {report} (the demo took {time.perf_counter() - begun:.0f} s)")
    say(f"The lake stays in {folder}. Try:")
    say(f"  {plan_command(folder, events.point)}")
    return answers


def _engines(events: lake.Events, spark: bool, say: Callable[[str], None]) -> list[Engine]:
    engines: list[Engine] = [Pyarrow(events), DuckDB(events)]
    if find_spec("polars") is None:
        say("Polars is not installed, so the demo leaves it out: pip install polars")
    else:
        engines.append(Polars(events))
    if spark and (session := spark_session(say)) is not None:
        engines.append(Spark(events, session))
    return engines


def _indexed(folder: Path, say: Callable[[str], None]) -> ps.Table:
    """The lake with Bloom filters in its files and an index."""
    say("Adding Bloom filters for user_id to the files, and indexing user_id and event_time ...")
    start = time.perf_counter()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda path: ps.add_filters(path, columns=["user_id"]), sorted(folder.glob("*.parquet"))))
    middle = time.perf_counter()
    table = ps.open_table(folder)
    table.build_index(["user_id", "event_time"], progress=False)
    say(f"  filters {middle - start:.1f} s, index {time.perf_counter() - middle:.1f} s")
    return table


def _compare(alone: Sequence[Answered], ours: Sequence[Answered]) -> None:
    """Every way must find the same rows."""
    for one, other in zip(alone, ours, strict=True):
        if one.rows != other.rows:
            raise AssertionError(f"{one.engine} found {one.rows} rows alone and {other.rows} with parsieve")


def _tell(answers: Sequence[Answered], asked: Sequence[Asked], nothing: str, say: Callable[[str], None]) -> None:
    say("")
    for line in _lines(answers):
        say(line)
    say("")
    for one in asked:
        headline = gains(one, answers)
        say(f"{headline.number}, {headline.words}")
    say("")
    say(f"Where an index does not help: {OF_ALL_FILES}. {nothing}")


def _lines(answers: Sequence[Answered]) -> list[str]:
    """One table for people."""
    head = ["question", "engine", "how", "files", "bytes", "time", "rows"]
    rows = [
        [
            one.question,
            one.engine,
            one.way,
            f"{one.files:,}",
            written(one.num_bytes, "bytes"),
            written(one.seconds, "seconds"),
            f"{one.rows:,}",
        ]
        for one in answers
    ]
    widths = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head))]
    lines = []
    for row in [head, ["-" * width for width in widths], *rows]:
        cells = [
            cell.ljust(width) if at < 3 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
