"""A table that Spark changes at random, and the rows that Spark reads after each change."""

from __future__ import annotations

import datetime as dt
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.models.odd_values import odd_value
from support.models.table_states import Column, LiveRow, State

SPARK_TYPES: dict[pa.DataType, str] = {
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
    pa.timestamp("us", "UTC"): "TIMESTAMP",
    pa.decimal128(9, 2): "DECIMAL(9, 2)",
    pa.decimal128(20, 2): "DECIMAL(20, 2)",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
}
# The types that some formats do not have.
SMALL_INTEGERS = (pa.int8(), pa.int16())
LOCAL_TIMES = (pa.timestamp("us"),)
# Spark refuses to write dates before 1582 and timestamps before 1900, which two calendars count differently.
_OLDEST = dt.date(1900, 1, 1)


class SparkHistory(ABC):
    """A table in a folder. `Column.id` is the position of a column in the order in which columns were added."""

    # The types of `SPARK_TYPES` that the format does not have.
    missing_types: tuple[pa.DataType, ...] = ()

    def __init__(self, spark: Any, folder: Path, chance: random.Random) -> None:
        self.spark, self.folder, self.chance = spark, folder, chance
        self.columns: list[Column] = []
        self.uids: list[int] = []
        self.columns_made = 0
        self.changes: list[str] = []
        self._states: dict[Any, State] = {}
        self._newest: State | None = None

    @abstractmethod
    def choices(self) -> dict[Callable[[], None], int]:
        """Return the changes that are possible now, with their weights."""

    @abstractmethod
    def read(self, as_of: Any = None) -> Any:
        """Return a version of the whole table as a frame of Spark, by default the newest one."""

    @abstractmethod
    def version(self) -> Any:
        """Return the newest version, as `as_of` takes it."""

    def __str__(self) -> str:
        return f"{type(self).__name__} after {', '.join(self.changes)}"

    def change(self) -> None:
        """Change the table once, or try to: writers refuse some changes, for example partitions with long names."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        choices = self.choices()
        change = self.chance.choices(list(choices), list(choices.values()))[0]
        self.changes.append(change.__name__.strip("_"))
        try:
            change()
        except (Py4JError, PySparkException):
            self.changes[-1] += " (refused)"
            if len(self.changes) == 1:
                raise
        self._newest = self._read_state()
        # Some changes return to an earlier version, which keeps its columns.
        self._states.setdefault(self.version(), self._newest)

    def versions(self) -> Sequence[Any]:
        """Return the versions that can be read."""
        return list(self._states)

    def forget_versions(self, keep: Callable[[Any], bool] = lambda _: False) -> None:
        """Forget the versions that cannot be read any more."""
        self._states = {version: state for version, state in self._states.items() if keep(version)}

    def state(self, as_of: Any = None) -> State:
        """Return the state of a version, or the newest one."""
        state = self._newest if as_of is None else self._states[as_of]
        assert state is not None
        return state

    def check_model(self) -> None:  # noqa: B027 - no kind of table needs a check
        """Check nothing: the model is what Spark reads."""

    def may_refuse(self) -> bool:
        """Return whether parsieve may refuse to read rows of the table."""
        return False

    # Columns and rows

    def add_column(self, name: str, kind: pa.DataType) -> Column:
        """Add a column to the model."""
        self.columns_made += 1
        column = Column(self.columns_made, name, kind)
        self.columns.append(column)
        return column

    def add_columns(self, count: int) -> None:
        """Add columns of random types to the model."""
        for _ in range(count):
            self.add_column(*self.random_column())

    def random_column(self) -> tuple[str, pa.DataType]:
        """Return the name and the type of a new column."""
        types = [kind for kind in SPARK_TYPES if kind not in self.missing_types]
        return f"c{self.columns_made + 1}", self.chance.choice(types)

    def draw(self, column: Column) -> Any:
        """Return a random value for a column."""
        while True:
            value = odd_value(self.chance, column.type)
            if isinstance(value, dt.datetime) and column.type.tz is not None:
                value = value.replace(tzinfo=dt.UTC)
            day = value.date() if isinstance(value, dt.datetime) else value
            if not isinstance(day, dt.date) or day >= _OLDEST:
                return value

    def new_uids(self, count: int) -> list[int]:
        """Return keys for new rows."""
        first = max(self.uids, default=-1) + 1
        new = list(range(first, first + count))
        self.uids += new
        return new

    def some_uids(self, count: int) -> list[int]:
        """Return some keys. The rows of a few of them may be deleted."""
        return self.chance.sample(self.uids, min(count, len(self.uids)))

    def frame(self, rows: Sequence[Sequence[Any]]) -> Any:
        """Return rows with the columns of the table as a frame of Spark."""
        schema = ", ".join(f"`{column.name}` {SPARK_TYPES[column.type]}" for column in self.columns)
        return self.spark.createDataFrame([tuple(row) for row in rows], schema)

    def _read_state(self) -> State:
        names = [column.name for column in self.columns]
        rows = []
        for row in self.read().select([f"`{name}`" for name in names]).collect():
            values = {column.id: _stored(value, column.type) for column, value in zip(self.columns, row, strict=True)}
            rows.append(LiveRow(values, None))
        columns = [Column(column.id, column.name, column.type) for column in self.columns]
        return State(columns, rows, may_be_refused=self.may_refuse())


def _stored(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, dt.datetime) and kind.tz is not None:
        # Spark returns timestamps in the local time zone of Python.
        return value.astimezone(dt.UTC)
    return bytes(value) if isinstance(value, bytearray) else value
