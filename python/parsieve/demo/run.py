"""The demo: two questions to a lake, first as engines answer them alone, then with filters and an index."""

from __future__ import annotations

import datetime as dt
import os
import platform
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import parsieve as ps
from parsieve.demo import lake
from parsieve.demo.engines import ALONE, TURNS, WITH, Answered, DuckDB, Engine, Pyarrow, Spark, spark_session
from parsieve.placing import next_to_local
from parsieve.report import Cells, Chart, Figure, Series, render
from parsieve.report.figures import Verdict, written
from parsieve.report.plans import by_minmax, verdicts
from parsieve.report.records import losses

BY_MINMAX = "min/max"
ALSO_ALONE = "Alone, all engines but pyarrow use the Bloom filters that were just added to the files."
# A question that no index helps: each file holds every kind.
OF_ALL_FILES = "kind = 'buy'"


def run(
    folder: Path,
    report: Path,
    *,
    files: int = 50,
    rows: int = 5_000_000,
    spark: bool = True,
    say: Callable[[str], None],
) -> list[Answered]:
    """Make the lake, ask, index, ask again, and write a report; `spark` asks Spark too, where there is one."""
    if find_spec("duckdb") is None:
        raise ps.UnsupportedError("the demo asks DuckDB, too, which is not installed: pip install duckdb")
    begun = time.perf_counter()
    say(f"Writing {files} files of events, {rows:,} rows, into {folder} ...")
    events = lake.write(folder, files, rows // files)
    say(f"  {written(events.num_bytes, 'bytes')}; files by arrival, some events late by weeks, users in no order")
    questions = {"one user": events.point, "one hour": events.range}
    for name, where in questions.items():
        say(f"  {name}: {where}")
    before = {name: verdicts(ps.open_table(folder).plan(where)) for name, where in questions.items()}
    say("Adding Bloom filters for user_id to the files that exist, and building an index of user_id and event_time ...")
    added = time.perf_counter()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda path: ps.add_filters(path, columns=["user_id"]), sorted(folder.glob("*.parquet"))))
    indexed = time.perf_counter()
    table = _indexed(folder)
    done = time.perf_counter()
    index = Path(next_to_local(str(folder)) or folder)
    size = sum(path.stat().st_size for path in index.rglob("*") if path.is_file())
    say(f"  filters {indexed - added:.1f} s, index {done - indexed:.1f} s, {written(size, 'bytes')} beside the table")
    engines: list[Engine] = [Pyarrow(events), DuckDB(events)]
    if spark and (session := spark_session(say)) is not None:
        engines.append(Spark(events, session))
    answers = []
    try:
        for name, where in questions.items():
            for engine in engines:
                answers += engine.answer(name, where, table)
    finally:
        for engine in engines:
            engine.close()
    after = {name: verdicts(table.plan(where)) for name, where in questions.items()}
    say("")
    for line in _lines(answers):
        say(line)
    say(ALSO_ALONE)
    spares_nothing = _where_nothing_is_spared(table)
    say("")
    say(f"And where nothing is spared, {OF_ALL_FILES}: {' '.join(spares_nothing.notes)}")
    report.write_text(_page(events, answers, before, after, questions, spares_nothing), encoding="utf-8")
    say("")
    say(f"A report with pictures: {report}  (the whole demo took {time.perf_counter() - begun:.0f} s)")
    return answers


def _indexed(folder: Path) -> ps.Table:
    table = ps.open_table(folder)
    table.build_index(["user_id", "event_time"], progress=False)
    return table


def _where_nothing_is_spared(table: ps.Table) -> Figure:
    """A question to which each file has rows, and what `advise` says of its column beforehand."""
    plan, minmax = table.plan(OF_ALL_FILES), by_minmax(table, OF_ALL_FILES)
    [advice] = table.advise("kind")
    notes = [
        f"Min/max alone reads {len(minmax.kept)} files, and all evidence {len(plan.kept)}.",
        f"parsieve advise recommends for kind: {advice.recommendation}, since {advice.why}.",
    ]
    cells = Cells([(BY_MINMAX, verdicts(minmax)), ("with filters and the index", verdicts(plan))])
    return Figure("Where nothing is spared", OF_ALL_FILES, cells, how="parsieve advise FOLDER kind", notes=notes)


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


def _page(
    events: lake.Events,
    answers: Sequence[Answered],
    before: dict[str, list[Verdict]],
    after: dict[str, list[Verdict]],
    questions: dict[str, str],
    spares_nothing: Figure,
) -> str:
    figures = []
    for name, where in questions.items():
        cells = Cells([(BY_MINMAX, before[name]), ("with filters and the index", after[name])])
        figures.append(Figure(f"Files read for {name}", where, cells, how="parsieve plan FOLDER WHERE --explain"))
        of_name = [one for one in answers if one.question == name]
        engines = list(dict.fromkeys(one.engine for one in of_name))

        def series(way: str, of: Callable[[Answered], float], of_name: list[Answered] = of_name) -> Series:
            return Series(way, [of(one) for one in of_name if one.way == way], ours=way == WITH)

        times = [series(way, lambda one: one.seconds) for way in (ALONE, WITH)]
        chart = Chart("dots", engines, times, "seconds", "engine")
        says = f"The best of {TURNS} turns, all columns of the matching rows, plan included, on a warm machine."
        figures.append(Figure(f"Time for {name}", says, chart, how="parsieve demo", notes=[ALSO_ALONE, *losses(chart)]))
    figures.append(spares_nothing)
    facts = {
        "lake": f"{events.num_files} files, {events.num_rows:,} rows, {written(events.num_bytes, 'bytes')}",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        "parsieve": ps.__version__,
        "date": dt.datetime.now().astimezone().date().isoformat(),
    }
    return render("A lake of late events", "Two questions, asked without and with parsieve.", figures, facts)
