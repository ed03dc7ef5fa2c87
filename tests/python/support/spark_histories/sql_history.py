"""A table that Spark SQL changes, as Delta and Iceberg tables."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pyarrow as pa

from support.models.table_states import UID, Column
from support.spark_histories.history import SPARK_TYPES, SparkHistory


class SqlHistory(SparkHistory):
    """A table with a name in SQL."""

    # The type that a column of each type can get.
    wider_types: ClassVar[Mapping[pa.DataType, pa.DataType]]

    @property
    @abstractmethod
    def sql_name(self) -> str:
        """The name of the table in SQL."""

    @abstractmethod
    def create(self) -> None:
        """Create the table, and add some rows."""

    @abstractmethod
    def append(self) -> None:
        """Add some new rows."""

    @abstractmethod
    def free_columns(self) -> list[Column]:
        """Return the columns that may be dropped, or change their names or types."""

    def sql(self, text: str) -> list[Any]:
        """Run a statement, and return its rows."""
        return list(self.spark.sql(text).collect())

    def alter(self, text: str) -> None:
        """Run a statement that alters the table."""
        self.sql(f"ALTER TABLE {self.sql_name} {text}")

    def rows(self, uids: list[int]) -> Any:
        """Return random rows as a frame."""
        rows = [[uid, *(self.draw(column) for column in self.columns[1:])] for uid in uids]
        return self.frame(rows).coalesce(self.chance.choice([1, 2]))

    def _some_rows(self) -> str:
        """Return a condition for some rows."""
        uids = self.some_uids(self.chance.choice([1, 3, 10]))
        return f"{UID} IN ({', '.join(map(str, uids))})"

    # Changes

    def choices(self) -> dict[Callable[[], None], int]:
        if not self.changes:
            return {self.create: 1}
        return {self._append: 4, self._delete: 4, self._update: 3, self._merge: 3, self._add_column: 2}

    def _append(self) -> None:
        self.append()

    def _delete(self) -> None:
        self.sql(f"DELETE FROM {self.sql_name} WHERE {self._some_rows()}")

    def _update(self) -> None:
        column, other = self.chance.choice(self.columns[1:]), self.chance.choice(self.columns[1:])
        value = f"`{other.name}`" if other.type == column.type else "NULL"
        self.sql(f"UPDATE {self.sql_name} SET `{column.name}` = {value} WHERE {self._some_rows()}")

    def _merge(self) -> None:
        uids = self.some_uids(self.chance.choice([1, 5])) + self.new_uids(self.chance.choice([0, 3]))
        self.rows(uids).createOrReplaceTempView("merged")
        clause = self.chance.choice(["UPDATE SET *", "DELETE"])
        self.sql(
            f"MERGE INTO {self.sql_name} t USING merged m ON t.{UID} = m.{UID} "
            f"WHEN MATCHED THEN {clause} WHEN NOT MATCHED THEN INSERT *"
        )

    def _add_column(self) -> None:
        name, kind = self.random_column()
        self.alter(f"ADD COLUMN `{name}` {SPARK_TYPES[kind]}")
        self.add_column(name, kind)
        self.append()

    def _rename(self) -> None:
        if free := self.free_columns():
            column = self.chance.choice(free)
            name = f"r{self.columns_made}_{self.chance.randrange(999)}"
            self.alter(f"RENAME COLUMN `{column.name}` TO `{name}`")
            column.name = name
            self.append()

    def _drop(self) -> None:
        if len(free := self.free_columns()) > 1:
            column = self.chance.choice(free)
            self.alter(f"DROP COLUMN `{column.name}`")
            self.columns.remove(column)
            self.append()

    def _widen(self) -> None:
        if columns := [column for column in self.free_columns() if column.type in self.wider_types]:
            column = self.chance.choice(columns)
            wider = self.wider_types[column.type]
            self.alter(f"ALTER COLUMN `{column.name}` TYPE {SPARK_TYPES[wider]}")
            column.type = wider
            self.append()
