"""`FormatScan`: how Spark reads a table of one format, and the parts of it that several formats share."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow.compute as pc

from parsieve._core import UnsupportedError
from parsieve.errors import ConflictError
from parsieve.io.ranges import RangeReader
from parsieve.io.remote_speed import REQUESTS_AT_ONCE
from parsieve.lake.base import AsOf, Lake, Slice, Snapshot
from parsieve.plan.open_table import OpenTable
from parsieve.plan.record import PlanRecord
from parsieve.predicate.expr import Always
from parsieve.predicate.normalize import normalize
from parsieve.spark.pushdown.catalyst import Filter
from parsieve.spark.pushdown.conditions import Types
from parsieve.spark.scan import file_index
from parsieve.spark.scan.file_index import Keep, Kept
from parsieve.spark.scan.kept_files import Keeper, comparable

if TYPE_CHECKING:
    from parsieve.lake.folder.table import ParquetDir
    from parsieve.lake.hudi.table import Hudi

_log = logging.getLogger("parsieve.spark")


class FormatScan(ABC):
    """A table at one state, as Spark reads it. Each format has a subclass."""

    # Whether Spark chooses the files when a DataFrame is created. If so, conditions that come later skip no files.
    chooses_files_once: ClassVar[bool]

    def __init__(self, spark: Any, lake: Any, name: str | None = None, as_of: AsOf = None) -> None:
        """`name` is the table's name in Spark's catalog, if the caller gave one. `as_of` None is the latest state."""
        self.spark = spark
        self.lake: Lake = lake
        self.name = name
        self.as_of = as_of

    @abstractmethod
    def whole(self) -> Any:
        """Return the whole table as a DataFrame. Later calls return the same one."""

    @property
    def state(self) -> AsOf:
        """The state that `whole` reads, as plans take it."""
        return self.as_of

    @property
    def schema(self) -> Any:
        """The columns as Spark reads them, as a `StructType`."""
        return self.whole().schema

    def types(self) -> Types:
        """Return the columns as Spark reads them."""
        return Types(self.schema)

    def agrees(self, snapshot: Snapshot, columns: Collection[str]) -> bool:
        """Return whether Spark reads the rows of a snapshot, and the same values of some columns as parsieve."""
        return True

    @abstractmethod
    def keeper(self, table: OpenTable, also: Sequence[pc.Expression]) -> Keeper:
        """Return a `Keep` that plans queries on the state that `whole` reads. `also` is as for `Keeper`."""

    @abstractmethod
    def pruned(self, keep: Keep, condition: Any = None) -> Any:
        """Return the rows for which a SQL text or a `Column` is true, from the files that `keep` returns."""

    @abstractmethod
    def from_plan(self, plan: PlanRecord) -> Any:
        """Return the rows of a plan from its kept files, or raise `ConflictError` if Spark cannot read these."""

    def _address(self) -> str:
        """Return the table's folder as Spark opens it, whose default filesystem for plain paths may be another one."""
        uri = self.lake.uri
        return uri if "://" in uri else f"file:{uri}"

    @classmethod
    def pinned(cls, lake: Any, snapshot: Snapshot) -> tuple[str | None, str | None]:
        """Return the path and the `as_of` that open exactly this state, or None for each that does not matter."""
        return None, None

    @classmethod
    def int96_columns(cls, lake: Any, snapshot: Snapshot) -> frozenset[str]:
        """Return the columns without a time zone that files store as INT96, so that Spark reads them with one."""
        return frozenset()


class ListedScan(FormatScan):
    """A table whose files Spark lists again for each query, so that every condition of a query can skip files."""

    chooses_files_once = False
    lake: ParquetDir | Hudi

    def pruned(self, keep: Keep, condition: Any = None) -> Any:
        """Return the rows for which a condition is true. Each query asks `keep` which files it needs."""
        try:
            frame = self._prune(keep)
        except UnsupportedError as error:
            # Settings of the session can select a reader of Hudi that shows no file lists.
            _log.warning("no file will be skipped: %s", error)
            frame = self.whole()
        return frame if condition is None else frame.where(condition)

    def _prune(self, keep: Keep) -> Any:
        return file_index.prune(self.whole(), keep, self.lake.uri)

    def _address(self) -> str:
        if "://" not in self.lake.uri and self.lake.storage.filesystem is not None:
            raise UnsupportedError(
                f"Spark cannot use the filesystem that {self.lake.uri} was opened with; give it the table's URI"
            )
        return super()._address()


class FixedScan(FormatScan):
    """A table whose files Spark chooses when a DataFrame is created, so that later conditions skip no files."""

    chooses_files_once = True

    def _version(self) -> int | None:
        """Return the number of the version or snapshot to read; None is the latest."""
        as_of = self.as_of
        if as_of is None or isinstance(as_of, int):
            return as_of
        if isinstance(as_of, str) and as_of.isdigit():
            return int(as_of)
        number = self.lake.snapshot(as_of).id
        return None if number is None else int(number)


@dataclass
class PlannedFiles:
    """A `Keep` that returns the files of a plan."""

    paths: frozenset[str]
    plan: PlanRecord
    # The files of the plan that Spark did not list.
    missing: frozenset[str] = frozenset()

    @classmethod
    def of(cls, plan: PlanRecord) -> PlannedFiles:
        """Return the base files that a plan keeps."""
        return cls(frozenset(comparable(piece.path) for piece in plan.slices() if piece.path), plan)

    def __call__(self, listed: Sequence[str], where: Filter) -> Kept:
        """Return the listed paths that the plan keeps."""
        self.missing = self.paths - set(map(comparable, listed))
        return Kept({path for path in listed if comparable(path) in self.paths}, self.plan)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlannedFiles) and self.paths == other.paths

    def __hash__(self) -> int:
        return hash(self.paths)


def condition_of(plan: PlanRecord, types: Types) -> str:
    """Return the predicate of a plan as SQL text of Spark."""
    return "true" if normalize(plan.expr) == Always(True) else types.text(plan.expr)


def changed_since(plan: PlanRecord, reason: str) -> ConflictError:
    """Return the error for a plan whose files Spark can no longer read as planned."""
    state = "" if plan.snapshot.id is None else f" at {plan.snapshot.id}"
    return ConflictError(f"the plan of {plan.lake.uri}{state} is out of date: {reason}; plan again")


def refuse_missing_files(plan: PlanRecord) -> None:
    """Raise `ConflictError` if a kept file was removed, as files of old versions are in the end."""

    def is_missing(piece: Slice) -> bool:
        try:
            RangeReader(plan.lake.open_base(piece)).close()
        except FileNotFoundError:
            return True
        return False

    slices = [piece for piece in plan.slices() if piece.path]
    if not slices:
        return
    with ThreadPoolExecutor(min(REQUESTS_AT_ONCE, len(slices)), "parsieve-read") as pool:
        for piece, missing in zip(slices, pool.map(is_missing, slices), strict=True):
            if missing:
                raise changed_since(plan, f"{piece.path} is gone")
