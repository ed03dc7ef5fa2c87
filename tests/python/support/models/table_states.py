"""Check a table with a history against the rows that each of its versions must have."""

from __future__ import annotations

import random
import traceback
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import duckdb
import pyarrow as pa

import parsieve as ps
from parsieve.predicate import Expr
from support.models.lake_truth import rows as row_texts
from support.models.plan_truth import random_predicate
from support.models.predicate_reference import rows as matching

UID = "uid"
# The number of changes in a history, and of conditions that are checked after each change.
CHANGES = 8
PER_CHANGE = 5
PER_TABLE = CHANGES * PER_CHANGE
# The number of those conditions that are checked against an older version.
OLDER_PER_CHANGE = 2


@dataclass
class Column:
    """A column of a table. Its ID identifies it, and its name and its type can change."""

    id: int
    name: str
    type: pa.DataType


@dataclass(frozen=True)
class LiveRow:
    """A row that readers must return: its values by the IDs of columns, and the file that holds it, if known."""

    values: dict[int, Any]
    path: Path | None


@dataclass(frozen=True)
class State:
    """The columns and rows of a version of a table."""

    columns: Sequence[Column]
    rows: Sequence[LiveRow]
    # Paths of files whose rows parsieve refuses to read.
    refused: frozenset[Path] = frozenset()
    # Whether parsieve may refuse to read the rows of any file.
    may_be_refused: bool = False

    @cached_property
    def table(self) -> pa.Table:
        """The rows, in their order."""
        arrays = [pa.array([row.values[column.id] for row in self.rows], column.type) for column in self.columns]
        return pa.table(arrays, names=[column.name for column in self.columns])


class History(Protocol):
    """A table that changes at random, and a model of its versions."""

    chance: random.Random
    folder: Path

    def change(self) -> None:
        """Change the table once."""

    def versions(self) -> Sequence[Any]:
        """Return the versions that plans can read with `as_of`."""

    def state(self, as_of: Any = None) -> State:
        """Return the state of a version, or of the newest one with the newest columns if `as_of` is None."""

    def check_model(self) -> None:
        """Compare the newest state with a reader of the format, if one can read it."""


class IndexKeeper:
    """A reader that sometimes opens a table again, and often has a stale index."""

    def __init__(self, history: History) -> None:
        self._folder, self._chance = history.folder, history.chance
        self.table = ps.open_table(self._folder)
        self._has_index = False

    def follow(self, state: State) -> None:
        """Do some of these: open the table again, build or update the index, compact it, and verify it."""
        chance = self._chance
        if chance.random() < 0.25:
            self.table = ps.open_table(self._folder)
        try:
            if not self._has_index or chance.random() < 0.3:
                self._build(state.columns)
            elif chance.random() < 0.6:
                self.table.update_index(progress=False)
        except ps.UnsupportedError:
            # An index leaves out unreadable files. A build without any readable file raises this error.
            if not state.refused and not state.may_be_refused:
                raise
        if self._has_index and chance.random() < 0.3:
            self.table.compact_index(progress=False)
        if self._has_index and chance.random() < 0.3:
            # If a column was widened, plans keep the files of its earlier filters until the index is built again.
            problems = [
                problem
                for problem in self.table.verify_index()
                if problem.loses_rows or "earlier type of the column" not in problem.problem
            ]
            assert not problems, f"problems of the index: {problems}"

    def _build(self, columns: Sequence[Column]) -> None:
        for kind in self._chance.choice([["sieve"], ["bloom"], ["sieve", "bloom"]]):
            # Parquet has no Bloom filters of booleans.
            names = [column.name for column in columns if kind == "sieve" or not pa.types.is_boolean(column.type)]
            unit = self._chance.choice(["file", "row_group", "rows", "auto"]) if kind == "sieve" else "auto"
            chosen = self._chance.sample(names, min(len(names), 3))
            self.table.build_index(chosen, kind, unit=unit, progress=False)
            self._has_index = True


# Checks a table and a condition, given the version to read and the rows to expect.
MoreChecks = Callable[[ps.Table, Expr, Any, pa.Table], None]


def check_history(seed: str, history: History, check_more: MoreChecks | None = None) -> tuple[int, int]:
    """Print each difference with its seed. Return how many there are, and how many files the plans skipped."""
    wrong = skipped = 0
    with warnings.catch_warnings():
        # An index warns about files that it leaves out.
        warnings.simplefilter("ignore")
        keeper = None
        for _ in range(CHANGES):
            try:
                history.change()
                keeper = keeper or IndexKeeper(history)
                keeper.follow(history.state())
                history.check_model()
            except Exception as error:
                _report(seed, history, error)
                return wrong + 1, skipped
            for number in range(PER_CHANGE):
                as_of = history.chance.choice(history.versions()) if number < OLDER_PER_CHANGE else None
                try:
                    state = history.state(as_of)
                    condition = random_predicate(history.chance, state.table)
                    skipped += check_condition(keeper.table, condition, state, history.chance, as_of)
                    if check_more is not None:
                        hits = pa.array(matching(condition, state.table), pa.int64())
                        check_more(keeper.table, condition, as_of, state.table.take(hits))
                except Exception as error:
                    wrong += 1
                    _report(seed, history, error)
    return wrong, skipped


def _report(seed: str, history: History, error: Exception) -> None:
    about = error if isinstance(error, AssertionError) else "".join(traceback.format_exception(error))
    print(f"{seed}, {history}: {about}", flush=True)


def check_condition(table: ps.Table, condition: Expr, state: State, chance: random.Random, as_of: Any = None) -> int:
    """Compare plans of a condition with the rows of a state. Return how many files the plans skipped."""
    hits = matching(condition, state.table)
    expected = row_texts(state.table.take(pa.array(hits, pa.int64())))
    skipped = 0
    for row_groups in (None, True, False):
        plan = table.plan(condition, as_of, row_groups=row_groups)
        about = f"{condition} at {as_of} with row_groups={row_groups}\n{plan.explain()}"
        kept = set(map(Path, plan.files))
        lost = {path for hit in hits if (path := state.rows[hit].path) is not None} - kept
        assert not lost, f"the plan skips files with rows: {sorted(lost)}: {about}"
        skipped += len(plan.skipped)
        if state.refused & kept:
            assert _is_refused(plan), f"the plan reads a file that parsieve cannot read: {about}"
            continue
        if state.may_be_refused and _is_refused(plan):
            continue
        actual = row_texts(plan.to_arrow().select(state.table.column_names).cast(state.table.schema))
        assert actual == expected, f"{difference(actual, expected)}: {about}"
        if chance.random() < 0.3:
            engine = chance.choice([_in_polars, _in_duckdb, _in_dataset, _in_batches])
            actual = row_texts(engine(plan).select(state.table.column_names).cast(state.table.schema))
            assert actual == expected, f"{engine.__name__}: {difference(actual, expected)}: {about}"
    return skipped


def _in_polars(plan: ps.Plan) -> pa.Table:
    return plan.to_polars().collect().to_arrow()


def _in_duckdb(plan: ps.Plan) -> pa.Table:
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'")
        return plan.to_duckdb(con).to_arrow_table()


def _in_dataset(plan: ps.Plan) -> pa.Table:
    try:
        return plan.to_dataset().to_table()
    except ps.UnsupportedError:
        # pyarrow cannot read deletes, logs, or columns with other names and types.
        return plan.to_arrow()


def _in_batches(plan: ps.Plan) -> pa.Table:
    batches = list(plan.to_batches())
    return pa.Table.from_batches(batches) if batches else plan.to_arrow()


def _is_refused(plan: ps.Plan) -> bool:
    try:
        plan.to_arrow()
    except ps.UnsupportedError:
        return True
    return False


def difference(actual: Collection[str], expected: Collection[str]) -> str:
    """Describe how two lists of rows differ."""
    missing, more = sorted(set(expected) - set(actual)), sorted(set(actual) - set(expected))
    return f"{len(actual)} rows instead of {len(expected)}, missing: {missing[:3]}, unexpected: {more[:3]}"
