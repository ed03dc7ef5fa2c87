"""Plain folders of Parquet files, whose files can be replaced under their names at any time."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from parsieve._core import ParsieveError, UnsupportedError
from parsieve.errors import ConflictError
from parsieve.lake.base import Location, Snapshot
from parsieve.lake.folder.table import ParquetDir
from parsieve.plan.open_table import OpenTable
from parsieve.plan.record import PlanRecord
from parsieve.sharing import cached_property
from parsieve.spark.pushdown.catalyst import Filter
from parsieve.spark.pushdown.conditions import Types
from parsieve.spark.scan import file_index
from parsieve.spark.scan.file_index import Kept
from parsieve.spark.scan.format_scan import ListedScan, PlannedFiles, changed_since, condition_of
from parsieve.spark.scan.kept_files import Keeper, comparable

_log = logging.getLogger("parsieve.spark")

# How often to try if files of the folder are replaced while Spark reads their columns.
ATTEMPTS = 10
# A character that is not ASCII, in the name of a folder. Spark decodes each of its bytes as a character.
_ESCAPE = "%[89A-Fa-f][0-9A-Fa-f]"


class FolderScan(ListedScan):
    """A plain folder of Parquet files."""

    lake: ParquetDir
    # The folder before Spark listed it; None if only Spark can list it.
    _before: Snapshot | None = None

    def whole(self) -> Any:
        """Return all files that Spark lists in the folder, or all partitions in Spark's catalog."""
        return self._frame

    @cached_property
    def _frame(self) -> Any:
        if self.as_of is not None:
            # Raises: a folder has no earlier states.
            self.lake.snapshot(self.as_of)
        if self.name is None:
            return self._load()
        # The catalog may have partitions outside of the folder.
        self._before = self._snapshot()
        frame = self.spark.table(self.name)
        # The catalog remembers the sizes of files from an earlier listing.
        file_index.refresh(frame)
        return frame

    def _load(self) -> Any:
        """Load the folder.

        Spark lists the files and then reads a footer for the columns, which fails if that file is replaced in between.
        """
        # Without this option, Spark reads `[ ] { } * ?` in the folder's name as a pattern.
        reader = self.spark.read.option("__globPaths__", "false")
        address = self._address()
        for attempt in range(ATTEMPTS):
            self._before = self._snapshot()
            try:
                return reader.parquet(address)
            except Exception as error:
                before, after = _tokens(self._before), _tokens(self._snapshot())
                is_last = attempt == ATTEMPTS - 1
                # A file without a token may have changed unnoticed, so equal tokens only prove something if all exist.
                if before is None or (before == after and (is_last or all(before.values()))):
                    raise
                if is_last:
                    reason = "files changed since the plan while Spark read their columns"
                    raise ConflictError(f"{self.lake.uri}: {reason}, {ATTEMPTS} times in a row; try again") from error
        raise AssertionError("unreachable")

    def _snapshot(self) -> Snapshot | None:
        try:
            return self.lake.snapshot()
        except (ParsieveError, OSError) as error:
            _log.warning("replaced files will be noticed only when they are read: %s", error)
            return None

    def types(self) -> Types:
        """Return the columns as Spark reads them, and which of them can have other values than in parsieve."""
        return Types(self.schema, differing=self._differing)

    @cached_property
    def _differing(self) -> frozenset[str]:
        """The columns that can have other values in Spark."""
        fields = list(self.schema)
        if self.spark.conf.get("spark.sql.parquet.fieldId.read.enabled") == "true" and any(
            "parquet.field.id" in field.metadata for field in fields
        ):
            # Spark finds the columns of a file by their ids.
            return frozenset(field.name for field in fields)
        # Spark reads the default from files that lack the column.
        with_default = frozenset(field.name for field in fields if "EXISTS_DEFAULT" in field.metadata)
        return with_default | self._differing_partitions

    @property
    def _differing_partitions(self) -> frozenset[str]:
        before = self._before
        by_folders = frozenset() if before is None else frozenset(before.slices.partition_values)
        if self.name is not None:
            # The catalog defines the values of its partitions, which may be in other folders.
            return by_folders | file_index.partition_names(self.whole())
        if before is not None and by_folders and pc.any(pc.match_substring_regex(before.slices.path, _ESCAPE)).as_py():
            return by_folders
        return frozenset()

    def agrees(self, snapshot: Snapshot, columns: Collection[str]) -> bool:
        """Return whether Spark lists the files of a snapshot, and reads the same values of some columns."""
        if not self._differing.isdisjoint(columns):
            return False
        if self.name is None:
            return True
        paths = {comparable(path) for path in snapshot.slices.path.to_pylist() if path}
        return paths == set(map(comparable, file_index.list_paths(self.whole())))

    def keeper(self, table: OpenTable, also: Sequence[pc.Expression]) -> Keeper:
        """Return a `Keep` that looks at the folder again for each query."""
        types = self.types()
        return FolderKeeper(self.spark, table, types, also, self._before)

    def from_plan(self, plan: PlanRecord) -> Any:
        """Return the rows of a plan. Files that were added since the plan are not read."""
        try:
            current = {piece.path: piece for piece in self.lake.snapshot().slices}
        except FileNotFoundError:
            current = {}
        for piece in plan.slices():
            listed = current.get(piece.path)
            if listed is None:
                raise changed_since(plan, f"{piece.path} is gone")
            # A kept file with a token was proven unchanged when it was planned, so a file without one is a newer file.
            if piece.token and not listed.same_rows(piece):
                raise changed_since(plan, f"{piece.path} was written again")
        keep = PlannedFiles.of(plan)
        keep(file_index.list_paths(self.whole()), Filter((), None))
        if keep.missing:
            raise UnsupportedError(
                f"Spark's listing of {self.lake.uri} does not contain {min(keep.missing)}; use to_arrow"
            )
        return self._prune(keep).where(condition_of(plan, self.types()))

    @classmethod
    def int96_columns(cls, lake: ParquetDir, snapshot: Snapshot) -> frozenset[str]:
        """Return the columns that the first file stores as INT96. The table has the columns of that file."""
        candidates = {field.name for field in snapshot.schema if field.type == pa.timestamp("ns")}
        if not candidates:
            return frozenset()
        with pq.ParquetFile(lake.storage.open(snapshot.slices[0].native.path)) as file:
            columns = [file.schema.column(number) for number in range(len(file.schema))]
        return frozenset(
            column.path for column in columns if column.physical_type == "INT96" and column.path in candidates
        )


class FolderKeeper(Keeper):
    """A `Keep` for a plain folder, which plans each query on the files that exist at that moment."""

    def __init__(
        self, spark: Any, table: OpenTable, types: Any, also: Sequence[pc.Expression], before: Snapshot | None
    ) -> None:
        """`before` is the folder before Spark listed it."""
        super().__init__(spark, table, types, None, also)
        self._before = before

    def _snapshot(self, paths: Sequence[str]) -> Snapshot:
        # A file can be replaced under its name, so an older snapshot proves nothing about it.
        return self._table.snapshot(None)

    def _kept(self, paths: Collection[str], snapshot: Snapshot | None = None, plan: PlanRecord | None = None) -> Kept:
        now = self._table.snapshot(None) if snapshot is None and self._before is not None else snapshot
        return FolderKept(frozenset(paths), plan, self._before, now)


@dataclass(frozen=True)
class FolderKept(Kept):
    """The paths of a plain folder that a query must read."""

    # The folder before Spark listed it, and when the query was planned.
    before: Snapshot | None = None
    now: Snapshot | None = None

    def row_groups(self, paths: Set[str]) -> dict[str, list[int]]:
        """Return the row groups to read, in the version that Spark listed, for each path with skipped row groups.

        Row groups belong to the version at the time of the plan. Spark listed that version if the folder had it before
        Spark listed it, too. The reader fails if the file is replaced later.
        """
        if self.plan is None or self.before is None:
            return {}
        before, planned = _tokens_by_path(self.before), _tokens_by_path(self.plan.snapshot)
        numbers = {comparable(path): number for number, path in self.plan.paths().items()}
        kept: dict[str, list[int]] = {}
        for path in sorted(paths):
            name = comparable(path)
            is_listed = bool(planned.get(name)) and planned[name] == before.get(name)
            groups = self.plan.groups_to_read(numbers[name]) if is_listed and name in numbers else None
            if groups and len(kept) < file_index.MOST_WITH_ROW_GROUPS:
                kept[path] = groups
        return kept

    def stale(self) -> set[str]:
        """Return the paths whose files may not be the ones that Spark listed.

        Spark reads a file up to its listed size, so it would lose rows of a longer file that replaced it.
        """
        if self.before is None or self.now is None:
            return set()
        tokens = _tokens_by_path(self.now)
        # Equal snapshots share their slices, which saves the work for the second one.
        before = tokens if self.now.slices is self.before.slices else _tokens_by_path(self.before)
        names = {path: comparable(path) for path in self.paths}
        return {path for path, name in names.items() if name in tokens and (tokens[name] or None) != before.get(name)}


def _tokens(snapshot: Snapshot | None) -> dict[Location, str] | None:
    return None if snapshot is None else snapshot.tokens


def _tokens_by_path(snapshot: Snapshot) -> dict[str, str]:
    slices = snapshot.slices
    pairs = zip(slices.path.to_pylist(), slices.token.to_pylist(), strict=True)
    return {comparable(path): token for path, token in pairs if path}
