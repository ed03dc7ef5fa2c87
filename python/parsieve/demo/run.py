"""Run the demo: two queries of a lake, first by each engine alone, then with filters and an index."""

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
from parsieve.demo.engines import ALONE, WITH, Answer, DuckDB, Engine, Polars, Pyarrow, Spark, spark_session
from parsieve.demo.page import OF_ALL_FILES, Question, figure_without_gain, gains, index_size, page, plan_command
from parsieve.report.figures import written
from parsieve.report.page_file import write_page
from parsieve.report.plans import verdicts

FILES, ROWS = 200, 8_000_000


def require_engines() -> None:
    """Raise `UnsupportedError` if DuckDB is missing, which the demo needs."""
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
) -> list[Answer]:
    """Write a lake, query it, index it, query it again, and write a report. `spark` includes Spark if installed."""
    require_engines()
    started = time.perf_counter()
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
    answers = [answer for pair in zip(alone, ours, strict=True) for answer in pair]
    compared = [Question(name, where, before[name], verdicts(table.plan(where))) for name, where in questions.items()]
    no_help = figure_without_gain(table, folder)
    _print_results(answers, compared, " ".join(no_help.notes), say)
    write_page(report, page(events, answers, compared, no_help, size))
    say("")
    say(f"Report with charts: {report} (the demo took {time.perf_counter() - started:.0f} s)")
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
    """Add Bloom filters to the files of the lake, and build an index."""
    say("Adding Bloom filters for user_id to the files, and indexing user_id and event_time ...")
    start = time.perf_counter()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda path: ps.add_filters(path, columns=["user_id"]), sorted(folder.glob("*.parquet"))))
    middle = time.perf_counter()
    table = ps.open_table(folder)
    table.build_index(["user_id", "event_time"], progress=False)
    say(f"  filters {middle - start:.1f} s, index {time.perf_counter() - middle:.1f} s")
    return table


def _compare(alone: Sequence[Answer], ours: Sequence[Answer]) -> None:
    """Raise an error if an engine finds other rows with parsieve than alone."""
    for before, after in zip(alone, ours, strict=True):
        if before.rows != after.rows:
            raise AssertionError(f"{before.engine} found {before.rows} rows alone and {after.rows} with parsieve")


def _print_results(
    answers: Sequence[Answer], questions: Sequence[Question], no_help: str, say: Callable[[str], None]
) -> None:
    say("")
    for line in _lines(answers):
        say(line)
    say("")
    for question in questions:
        headline = gains(question, answers)
        say(f"{headline.number}, {headline.words}")
    say("")
    say(f"Where an index does not help: {OF_ALL_FILES}. {no_help}")


def _lines(answers: Sequence[Answer]) -> list[str]:
    """Return the answers as lines of a text table."""
    head = ["question", "engine", "how", "files", "bytes", "time", "rows"]
    rows = [
        [
            answer.question,
            answer.engine,
            answer.way,
            f"{answer.files:,}",
            written(answer.num_bytes, "bytes"),
            written(answer.seconds, "seconds"),
            f"{answer.rows:,}",
        ]
        for answer in answers
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
