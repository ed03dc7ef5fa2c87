"""Plan scans with the index of a table. Tables stay open between requests as long as their metadata stay the same."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Any

from parsieve._core import FormatError, ParsieveError, UnsupportedError
from parsieve.lake.base import Snapshot
from parsieve.lake.iceberg.slices import IcebergSlices
from parsieve.lake.iceberg.table import Iceberg
from parsieve.plan.make import PlanOptions
from parsieve.plan.open_table import OpenTable
from parsieve.predicate.bind import BoundPredicate
from parsieve.server.protocol.errors import RequestError, bad_request, unsupported
from parsieve.server.protocol.filters import FilterReader
from parsieve.server.protocol.requests import PlanRequest
from parsieve.server.protocol.scan_tasks import PlannedFiles

# Planning never opens data files: the time of an answer must not depend on their number.
_OPTIONS = PlanOptions(row_groups=False)
# Columns of rows that need values which scan tasks do not have yet.
_LINEAGE = ("_row_id", "_last_updated_sequence_number")
_MOST_TABLES = 64


class Planner:
    """Plans the scans of many tables. Threads may share it."""

    def __init__(self, most_tables: int = _MOST_TABLES) -> None:
        self._most_tables = most_tables
        self._tables: OrderedDict[Any, tuple[Any, OpenTable]] = OrderedDict()
        self._lock = Lock()

    def plan(self, key: Any, table: Any, request: PlanRequest) -> PlannedFiles:
        """Plan a scan of a table of pyiceberg that the upstream catalog gave to this caller.

        Args:
            key: The table's name and the caller's rights: callers with other rights never share an open table.
            table: The table.
            request: What to scan.
        """
        schema = _schema(table, request)
        _check_names(schema, request)
        try:
            opened = self._opened(key, table)
            snapshot = opened.snapshot(request.snapshot_id)
        except (UnsupportedError, FormatError) as error:
            raise unsupported(str(error)) from None
        reader = FilterReader(schema, snapshot.schema, case_sensitive=request.case_sensitive)
        # Find errors of the client before the work.
        bound = BoundPredicate(reader.read(request.filter))
        kept = _kept(opened, bound, snapshot)
        return PlannedFiles.of(
            _files(snapshot),
            kept,
            partition_types=_partition_types(table),
            residual=request.filter,
            statistics_of=frozenset(_ids(schema, request)),
        )

    def _opened(self, key: Any, table: Any) -> OpenTable:
        state = _state(table)
        with self._lock:
            known = self._tables.get(key)
            if known is None or known[0] != state:
                known = self._tables[key] = (state, OpenTable.of(Iceberg(table)))
            self._tables.move_to_end(key)
            while len(self._tables) > self._most_tables:
                self._tables.popitem(last=False)
            return known[1]


def _state(table: Any) -> tuple[Any, ...]:
    """Return what differs between two states of a table."""
    metadata, location = table.metadata, table.metadata_location
    # A REST catalog need not return the metadata file. Comparing all metadata takes long if there are many snapshots.
    return location, metadata.table_uuid, metadata.last_updated_ms, None if location else metadata


def _schema(table: Any, request: PlanRequest) -> Any:
    """Return the schema whose columns the request names."""
    if request.snapshot_id is None:
        return table.schema()
    snapshot = table.snapshot_by_id(request.snapshot_id)
    if snapshot is None:
        raise RequestError(
            404, "NoSuchSnapshotException", f"the table has no snapshot {request.snapshot_id}; it may have expired"
        )
    if not request.use_snapshot_schema or snapshot.schema_id is None:
        return table.schema()
    # Writers may remove schemas that the current schema has replaced.
    return table.schemas().get(snapshot.schema_id) or table.schema()


def _check_names(schema: Any, request: PlanRequest) -> None:
    lineage = [name for name in request.select if name in _LINEAGE]
    if lineage:
        raise unsupported(f"scans of {', '.join(lineage)} are not planned by this server; plan them in the client")
    _ids(schema, request, [name for name in request.select if not name.startswith("_")])


def _ids(schema: Any, request: PlanRequest, names: list[str] | None = None) -> list[int]:
    """Return the IDs of columns, of those with statistics by default."""
    ids = []
    for name in request.stats_fields if names is None else names:
        try:
            ids.append(schema.find_field(name, case_sensitive=request.case_sensitive).field_id)
        except ValueError:
            raise bad_request(f"the table has no column {name[:80]!r}") from None
    return ids


def _kept(opened: OpenTable, bound: BoundPredicate, snapshot: Snapshot) -> list[int]:
    if not isinstance(snapshot.slices, IcebergSlices):
        return []
    try:
        return opened.plan(bound, snapshot, _OPTIONS).record.kept
    except ParsieveError:
        # A predicate that cannot be planned excludes nothing.
        return list(range(len(snapshot.slices)))


def _files(snapshot: Snapshot) -> Any:
    slices = snapshot.slices
    return slices.files if isinstance(slices, IcebergSlices) else None


def _partition_types(table: Any) -> dict[int, list[Any]]:
    schema = table.schema()
    return {
        spec_id: [field.field_type for field in spec.partition_type(schema).fields]
        for spec_id, spec in table.specs().items()
    }
