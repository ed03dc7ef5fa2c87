"""The demo's page: the files that each query reads, the time that each engine takes, and the cost of the index."""

from __future__ import annotations

import datetime as dt
import os
import platform
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import parsieve as ps
from parsieve.demo import lake
from parsieve.demo.engines import ALONE, TURNS, WITH, Answer
from parsieve.report import Cells, Chart, Figure, Headline, Series, render
from parsieve.report.figures import Verdict, written
from parsieve.report.plans import by_minmax, verdicts
from parsieve.report.records import NOISE

BY_MINMAX, BY_INDEX = "min/max statistics", "parsieve's index and filters"
# No index helps this query: every file holds every kind.
OF_ALL_FILES = "kind = 'buy'"


@dataclass(frozen=True, slots=True)
class Question:
    """A query, and the verdicts on all files before and after indexing."""

    name: str
    where: str
    before: Sequence[Verdict]
    after: Sequence[Verdict]


def page(
    events: lake.Events, answers: Sequence[Answer], questions: Sequence[Question], no_help: Figure, index: str
) -> str:
    """Return the page as HTML. `no_help` is the figure of a query for which an index is useless."""
    figures = []
    for question in questions:
        how = plan_command(events.folder, question.where)
        cells = Cells([(BY_MINMAX, question.before), (BY_INDEX, question.after)])
        files = Figure(f"Files read for {question.name}", question.where, cells, how=how)
        figures += [files, _times(question, answers)]
    figures.append(no_help)
    facts = {
        "lake": f"{events.num_files} files, {events.num_rows:,} rows, {written(events.num_bytes, 'bytes')}",
        "index": index,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        "parsieve": ps.__version__,
        "date": dt.datetime.now().astimezone().date().isoformat(),
    }
    says = "Two queries on a lake of late events, before and after indexing it with parsieve."
    return render(
        "Read only the files you need", says, figures, facts, [gains(question, answers) for question in questions]
    )


def plan_command(folder: Path, where: str) -> str:
    """Return the shell command that explains a plan."""
    # SQL uses single quotes itself.
    quoted = shlex.quote(where) if set('"$`\\!') & set(where) else f'"{where}"'
    return f"parsieve plan {shlex.quote(str(folder))} {quoted} --explain"


def _pairs(name: str, answers: Sequence[Answer]) -> list[tuple[Answer, Answer]]:
    """Return the two answers of each engine, alone and with parsieve."""
    alone = [answer for answer in answers if answer.question == name and answer.way == ALONE]
    ours = [answer for answer in answers if answer.question == name and answer.way == WITH]
    return list(zip(alone, ours, strict=True))


def _times(question: Question, answers: Sequence[Answer]) -> Figure:
    pairs = _pairs(question.name, answers)
    series = [
        Series(ALONE, [alone.seconds for alone, _ in pairs]),
        Series(WITH, [ours.seconds for _, ours in pairs], ours=True),
    ]
    remarks = [_factor(alone, ours) for alone, ours in pairs]
    chart = Chart("dots", [alone.engine for alone, _ in pairs], series, "seconds", "engine", remarks)
    says = f"All columns of the matching rows; planning included. Best of {TURNS} runs with warm caches."
    notes = [f"{ALONE}: the files as they were written, before parsieve added filters and an index."]
    notes += [f"{alone.engine} gains nothing here." for alone, ours in pairs if not _is_faster(alone, ours)]
    return Figure(f"Time for {question.name}", says, chart, how="parsieve demo", notes=notes)


def _is_faster(alone: Answer, ours: Answer) -> bool:
    return alone.seconds > ours.seconds * NOISE


def _factor(alone: Answer, ours: Answer) -> str:
    if _is_faster(alone, ours):
        return f"{_times_as(alone.seconds / ours.seconds)} faster"
    if _is_faster(ours, alone):
        return f"{_times_as(ours.seconds / alone.seconds)} slower"
    return "same time"


def _times_as(factor: float) -> str:
    return f"{factor:.1f}x" if factor < 10 else f"{factor:.0f}x"


def gains(question: Question, answers: Sequence[Answer]) -> Headline:
    """Return how many files a query reads before and after indexing, and how much faster each engine is."""
    read = [sum(verdict != "skipped" for verdict in verdicts) for verdicts in (question.before, question.after)]
    pairs = sorted(_pairs(question.name, answers), key=lambda pair: pair[1].seconds / pair[0].seconds)
    words = ", ".join(f"{alone.engine} {_factor(alone, ours)}" for alone, ours in pairs)
    return Headline(f"{read[0]:,} \N{RIGHTWARDS ARROW} {read[1]:,} files", f"{question.name}: {words}")


def index_size(table: ps.Table, events: lake.Events) -> str:
    """Return a sentence about the size of the index, and how much of it a plan reads."""
    folder = Path(str(table.opened.index.store))
    on_disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    keys = sum(stats.keys_bytes for stats in table.index_stats().values())
    read = max(ps.open_table(events.folder).plan(where).bytes_fetched for where in (events.point, events.range))
    stored = f"; {keys / max(on_disk, 1):.0%} of that are keys that only compactions read" if keys else ""
    return (
        f"{written(on_disk, 'bytes')} on disk, {on_disk / events.num_bytes:.0%} of the table{stored}. "
        f"A first query reads {written(read, 'bytes')} of the index."
    )


def figure_without_gain(table: ps.Table, folder: Path) -> Figure:
    """Return the figure of a query that matches rows in every file, with what `advise` recommends for its column."""
    plan, minmax = table.plan(OF_ALL_FILES), by_minmax(table, OF_ALL_FILES)
    [advice] = table.advise("kind")
    notes = [
        f"Min/max statistics keep {len(minmax.kept)} files; all evidence together keeps {len(plan.kept)}.",
        f"parsieve advise recommends for kind: {advice.recommendation}, since {advice.why}.",
    ]
    cells = Cells([(BY_MINMAX, verdicts(minmax)), (BY_INDEX, verdicts(plan))])
    how = f"parsieve advise {shlex.quote(str(folder))} kind"
    return Figure("Where an index does not help", OF_ALL_FILES, cells, how=how, notes=notes)
