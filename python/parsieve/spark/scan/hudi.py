"""Hudi tables, whose log files change what Spark reads of a base file that stays the same."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import pyarrow.compute as pc

from parsieve._core import UnsupportedError
from parsieve.lake.base import Slice, Snapshot
from parsieve.lake.hudi.properties import retry_after_rewrite, wait_for_rewrite
from parsieve.plan.open_table import OpenTable
from parsieve.plan.record import PlanRecord
from parsieve.sharing import cached_property
from parsieve.spark.scan import file_index
from parsieve.spark.scan.file_index import Keep
from parsieve.spark.scan.format_scan import ListedScan, PlannedFiles, changed_since, condition_of
from parsieve.spark.scan.kept_files import IsSameVersion, Keeper, comparable, without_skipped

if TYPE_CHECKING:
    from parsieve.lake.hudi.table import Hudi


class HudiScan(ListedScan):
    """A Hudi table, now or at an instant."""

    lake: Hudi

    def whole(self) -> Any:
        """Return the table. While a writer rewrites the table's properties, this waits."""
        return self._frame

    @cached_property
    def _frame(self) -> Any:
        reader = self.spark.read.format("hudi")
        if self._instant is not None:
            reader = reader.option("as.of.instant", self._instant)
        address = self._address()
        frame = retry_after_rewrite(self.lake.storage, lambda: reader.load(address))
        # Spark opens the table again when a query runs, so wait for the end of a rewrite.
        wait_for_rewrite(self.lake.storage)
        return frame

    @cached_property
    def _instant(self) -> str | None:
        as_of = self.as_of
        if isinstance(as_of, dt.datetime):
            as_of = self.lake.snapshot(as_of).id
        return None if as_of is None else str(as_of)

    def _prune(self, keep: Keep) -> Any:
        return file_index.prune(self.whole(), keep, self.lake.uri, with_logs)

    def keeper(self, table: OpenTable, also: Sequence[pc.Expression]) -> Keeper:
        """Return a `Keep` that compares the log files, too."""
        return HudiKeeper(self.spark, table, self.types(), self._instant, also)

    def from_plan(self, plan: PlanRecord) -> Any:
        """Return the rows of a plan, if Spark finds all file groups of the snapshot in their planned versions."""
        uri = self.lake.uri
        if self._instant is None:
            raise UnsupportedError(f"{uri} has no commit yet, so Spark cannot read it at an instant")
        whole = self.whole()
        listed = retry_after_rewrite(self.lake.storage, lambda: file_index.list_paths(whole, with_logs))
        paths = {_group(path): path for path in listed}
        for piece in plan.snapshot.slices:
            path = paths.pop(_group(f"{uri}/{piece.partition}/{piece.group}"), None)
            same_base = piece.path is None or (path is not None and comparable(path) == comparable(piece.path))
            if path is None or not same_base or not is_same_version(piece, path, self._instant):
                raise changed_since(plan, f"Spark finds another version of {piece.partition}/{piece.group}, or none")
        if paths:
            raise changed_since(plan, f"Spark also finds {min(paths.values())}")
        kept = without_skipped(listed, plan, lambda piece, path: is_same_version(piece, path, self._instant))
        keep = PlannedFiles(frozenset(map(comparable, kept)), plan)
        return self._prune(keep).where(condition_of(plan, self.types()))


class HudiKeeper(Keeper):
    """A `Keep` for a Hudi table, which skips a file only if Spark listed it with the log files of the plan."""

    def _snapshot(self, paths: Sequence[str]) -> Snapshot:
        """Return the snapshot that contains the most of the listed versions."""
        before = self._planned_on
        snapshot = super()._snapshot(paths)
        if before is not None and self._as_of is None:
            count = self._count_listed(paths, before)
            if count < len(paths):
                now = self._table.snapshot(None)
                if self._count_listed(paths, now) > count:
                    self._planned_on = snapshot = now
        return snapshot

    def _count_listed(self, paths: Sequence[str], snapshot: Snapshot) -> int:
        """Count the paths that Spark listed in the version of a snapshot."""
        slices = {comparable(piece.path): piece for piece in snapshot.slices if piece.path}
        return sum(
            (piece := slices.get(comparable(path))) is not None and is_same_version(piece, path) for path in paths
        )

    def _version_check(self) -> IsSameVersion:
        instant = None if self._as_of is None else str(self._as_of)
        return lambda piece, path: is_same_version(piece, path, instant)


def is_same_version(piece: Slice, path: str, instant: str | None = None) -> bool:
    """Return whether Spark listed a base file with the log files of a slice.

    `instant` is the instant at which Spark reads the table; None is the latest.
    """
    from parsieve.lake.hudi.table import has_logs

    logs = path.logs if isinstance(path, ListedPath) else None
    return logs is not None and has_logs(piece, logs, instant)


def _group(path: str) -> tuple[str, str]:
    """Return the folder and the id of a file group, given the path of any of its files."""
    folder, _, file = comparable(path).rpartition("/")
    return folder.rstrip("/"), file.lstrip(".").partition("_")[0]


class ListedPath(str):
    """The path of a base file, with the names of the log files that Spark merges into it."""

    __slots__ = ("logs",)
    # None if unknown.
    logs: frozenset[str] | None

    def __new__(cls, path: str, logs: frozenset[str] | None) -> Self:
        """Return the path with its logs."""
        listed = super().__new__(cls, path)
        listed.logs = logs
        return listed


def with_logs(values: Any, paths: Sequence[str]) -> list[ListedPath]:
    """Return the paths of one folder with their log files, which Hudi attaches to the folder's partition values."""
    logs: dict[str, frozenset[str]] | None = {}
    if "FileSliceMapping" in str(values.getClass().getSimpleName()):
        logs = _logs_by_group(values)
    return [
        # A group without a base file is listed by one of its logs, whose name starts with a dot.
        ListedPath(path, None if logs is None else logs.get(_NAME.split(path)[1].partition("_")[0], frozenset()))
        for path in paths
    ]


_NAME = re.compile(r"/\.?(?=[^/]*$)")
# How the supported releases of Hudi print a file slice, after the name of its group, and each of its log files.
_GROUP = re.compile(r"(\S+) -> FileSlice")
_LOG = re.compile(r"HoodieLogFile[({]pathStr='?(.*?)'?, file(?:Size|Len)=-?\d+[)}]")


def _logs_by_group(values: Any) -> dict[str, frozenset[str]] | None:
    """Return the log files of each file group that has some; None if this release of Hudi does not show them."""
    try:
        field = values.getClass().getDeclaredField("slices")
        field.setAccessible(True)
        slices = field.get(values)
        # One call for all of them.
        lines = str(slices.mkString("\n")).split("\n")
        count = int(slices.size())
    except Exception as error:
        file_index.warn_all_kept(error)
        return None
    logs = {}
    for line in lines:
        group = _GROUP.match(line)
        names = frozenset(path.rpartition("/")[2] for path in _LOG.findall(line))
        if group is None or len(names) != line.count("HoodieLogFile") or not names:
            return None
        logs[group[1]] = names
    return logs if len(logs) == count else None
