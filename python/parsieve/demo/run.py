"""The demo: two questions to a lake, first as engines answer them alone, then with filters and an index."""

from __future__ import annotations

import datetime as dt
import os
import platform
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import parsieve as ps
from parsieve.demo import lake
from parsieve.report import Cells, Chart, Figure, Series, render
from parsieve.report.figures import Verdict, written

ALONE, BY_MINMAX, WITH = "engine alone", "min/max", "parsieve"
# The best of a few: the demo shows what a warm machine does.
TURNS = 3


@dataclass(frozen=True, slots=True)
class Answered:
    """One question, answered by one engine in one way."""

    question: str
    engine: str
    way: str
    files: int
    num_bytes: int
    seconds: float
    rows: int


def run(
    folder: Path,
    report: Path,
    *,
    files: int = 50,
    rows: int = 5_000_000,
    spark: bool = True,
    say: Callable[[str], None],
) -> list[Answered]:
    """Make the lake, ask, index, ask again, and write a report."""
    begun = time.perf_counter()
    say(f"Writing {files} files of events, {rows:,} rows, into {folder} ...")
    events = lake.write(folder, files, rows // files)
    say(f"  {written(events.num_bytes, 'bytes')}; files by arrival, some events late by weeks, users in no order")
    questions = {"one user": events.point, "one hour": events.range}
    for name, where in questions.items():
        say(f"  {name}: {where}")
    before = {name: _verdicts(ps.open_table(folder), where) for name, where in questions.items()}
    say("Adding Bloom filters for user_id to the files that exist, and building an index of user_id and event_time ...")
    added = time.perf_counter()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda path: ps.add_filters(path, columns=["user_id"]), sorted(folder.glob("*.parquet"))))
    indexed = time.perf_counter()
    table = _indexed(folder)
    done = time.perf_counter()
    size = sum(path.stat().st_size for path in (folder / "_parsieve").rglob("*") if path.is_file())
    say(f"  filters {indexed - added:.1f} s, index {done - indexed:.1f} s, {written(size, 'bytes')} beside the table")
    engines: list[Engine] = [Pyarrow(events), DuckDB(events)]
    answers = []
    try:
        for name, where in questions.items():
            for engine in engines:
                answers += engine.answer(name, where, table)
    finally:
        for engine in engines:
            engine.close()
    after = {name: _verdicts(table, where) for name, where in questions.items()}
    say("")
    for line in _lines(answers):
        say(line)
    report.write_text(_page(events, answers, before, after, questions), encoding="utf-8")
    say("")
    say(f"A report with pictures: {report}  (the whole demo took {time.perf_counter() - begun:.0f} s)")
    return answers


def _indexed(folder: Path) -> ps.Table:
    table = ps.open_table(folder)
    table.build_index(["user_id", "event_time"], progress=False)
    return table


def _verdicts(table: ps.Table, where: str) -> list[Verdict]:
    """What becomes of each file, in order of their names."""
    plan = table.plan(where)
    found: dict[str, Verdict] = {one.path: "doubted" if one.doubt else "kept" for one in plan.kept}
    found |= {one.path: "skipped" for one in plan.skipped}
    return [found[path] for path in sorted(found)]


class Engine:
    """One way to read the lake."""

    name = ""

    def __init__(self, events: lake.Events) -> None:
        self._events = events

    def alone(self, where: str) -> int:
        """Rows found by the engine with the means of its own."""
        raise NotImplementedError

    def planned(self, plan: ps.Plan) -> int:
        """Rows found in what a plan keeps."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of what was started."""

    def answer(self, question: str, where: str, table: ps.Table) -> list[Answered]:
        """Ask both ways, in turn, so that what disturbs the machine disturbs both."""
        sizes = {str(path): path.stat().st_size for path in self._events.folder.glob("*.parquet")}
        best = {ALONE: float("inf"), WITH: float("inf")}
        found = {}
        for _ in range(TURNS):
            for way in best:
                start = time.perf_counter()
                if way == ALONE:
                    found[way] = self.alone(where)
                else:
                    plan = table.plan(where)
                    found[way] = self.planned(plan)
                best[way] = min(best[way], time.perf_counter() - start)
        if found[ALONE] != found[WITH]:
            raise AssertionError(f"{self.name} found {found[ALONE]} rows alone and {found[WITH]} with the plan")
        kept = {ALONE: sizes, WITH: {path: sizes[path] for path in plan.files}}
        return [
            Answered(question, self.name, way, len(kept[way]), sum(kept[way].values()), best[way], found[way])
            for way in best
        ]


class Pyarrow(Engine):
    """pyarrow's own dataset, which prunes row groups by min/max."""

    name = "pyarrow"

    def alone(self, where: str) -> int:
        """Rows found by the engine with the means of its own."""
        import pyarrow.dataset as pads

        from parsieve.predicate import parse, render

        dataset = pads.dataset(self._events.folder, format="parquet", exclude_invalid_files=False)
        return int(dataset.to_table(filter=render.to_pyarrow(parse(where, dataset.schema))).num_rows)

    def planned(self, plan: ps.Plan) -> int:
        """Rows found in what a plan keeps."""
        return int(plan.to_arrow().num_rows)


class DuckDB(Engine):
    """DuckDB over the folder; it uses min/max of row groups, and Bloom filters once files have them."""

    name = "DuckDB"

    def __init__(self, events: lake.Events) -> None:
        super().__init__(events)
        import duckdb

        self._con = duckdb.connect()
        self._con.execute("SET TimeZone = 'UTC'")

    def alone(self, where: str) -> int:
        """Rows found by the engine with the means of its own."""
        everything = f"SELECT * FROM read_parquet('{self._events.folder}/*.parquet')"
        return int(self._con.sql(f"{everything} WHERE {where}").to_arrow_table().num_rows)

    def planned(self, plan: ps.Plan) -> int:
        """Rows found in what a plan keeps."""
        return int(plan.to_duckdb(self._con).to_arrow_table().num_rows)

    def close(self) -> None:
        """Let go of what was started."""
        self._con.close()


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
        figures.append(
            Figure(
                f"Time for {name}",
                f"The best of {TURNS} turns, all columns of the matching rows, plan included, on a warm machine.",
                Chart("dots", engines, times, "seconds", "engine"),
                how="parsieve demo",
            )
        )
    facts = {
        "lake": f"{events.num_files} files, {events.num_rows:,} rows, {written(events.num_bytes, 'bytes')}",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        "parsieve": ps.__version__,
        "date": dt.datetime.now().astimezone().date().isoformat(),
    }
    return render("A lake of late events", "Two questions, asked without and with parsieve.", figures, facts)
