"""Read Hudi tables with the package `hudi`, which lists file slices and merges logs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from parsieve._core import FormatError, UnsupportedError
from parsieve.lake.base import AsOf, Slice, Snapshot, milliseconds
from parsieve.lake.hudi.commits import Commits, completed_instants
from parsieve.lake.hudi.errors import hudi_errors
from parsieve.lake.hudi.merging import MergeRules, check_merge
from parsieve.lake.hudi.partitions import PartitionPaths
from parsieve.lake.hudi.properties import read_consistently, read_text
from parsieve.lake.hudi.timeline import Timeline, read_properties, read_timeline
from parsieve.lake.hudi.unlisted import Search
from parsieve.lake.rows.adapter import Adapter
from parsieve.lake.rows.arrow_scan import ScanFile
from parsieve.lake.rows.columns import BY_NAME, by_name, conform, constant
from parsieve.lake.rows.file_rows import BATCH_ROWS, FileRows, foreign
from parsieve.lake.slices import SliceObjects
from parsieve.lake.storage.storage import Storage
from parsieve.lake.storage.version import Version
from parsieve.sharing import cached_property

if TYPE_CHECKING:
    from parsieve.lake.rows.checked_files import CheckedFiles

_LOG = re.compile(r"\.(.+)_(\d{14,17})\.log\.(\d+)(?:_.*)?")
# The folders of the timeline since table version 8.
_PLACES = {"hoodie.timeline.path": "timeline", "hoodie.timeline.history.path": "history"}
# The ways to merge records with the same key that hudi-rs supports, with their names in all table versions.
_MERGES = {"EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"}
_PAYLOADS = {
    "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
}
# Spark merges by the positions of records in the base file, if the logs contain them. This matters for duplicate keys.
_OPTIONS = {"hoodie.merge.use.record.positions": "true"}
# How the values that an update leaves out are filled. hudi-rs does not know the mode FILL_UNAVAILABLE.
_PARTIAL_UPDATES = {"", "IGNORE_DEFAULTS"}


@dataclass(frozen=True, slots=True, eq=False)
class _Native:
    reader: Any
    # The paths of the base file and of the logs below the table, None without a base file.
    paths: tuple[str, Sequence[str]] | None
    options: Any
    base: str | None
    logs: tuple[str, ...]
    schema: pa.Schema
    # The table's address, its storage options, and the instant.
    table: tuple[str, tuple[tuple[str, str], ...], str]
    # Whether the name of a log contains the instant that wrote it. In old tables, several instants write to one log.
    logs_name_instants: bool
    rules: MergeRules
    # Whether the group has logs that the package `hudi` does not list.
    has_hidden_logs: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out the objects of the `hudi` package, which cannot be pickled."""
        return _Native, (
            None,
            self.paths,
            None,
            self.base,
            self.logs,
            self.schema,
            self.table,
            self.logs_name_instants,
            self.rules,
            self.has_hidden_logs,
        )

    def stream(self) -> Iterator[Any]:
        """Yield the rows of the base file, merged with its logs."""
        assert self.paths is not None
        reader, options = (self.reader, self.options) if self.reader is not None else _reader(*self.table)
        # Given a file slice, `hudi` searches for the base file again, by the instants in the names of its logs. It does
        # not find that of a log whose write began before a compaction was scheduled, and completed later.
        yield from reader.read_file_slice_from_paths_stream(*self.paths, options.with_batch_size(BATCH_ROWS))


def has_logs(file_slice: Slice, listed: frozenset[str], instant: str | None = None) -> bool:
    """Return whether a slice consists of its base file and exactly these logs. Return False if their names are unclear.

    Readers of an earlier instant list later logs too, and skip them when they read. Pass `instant` to ignore these.
    """
    native: _Native = file_slice.native
    if not native.logs_name_instants and (native.logs or listed):
        return False
    if instant is not None:
        # An instant without milliseconds means the end of its second.
        end = instant.ljust(17, "9")
        listed = frozenset(name for name in listed if (match := _LOG.fullmatch(name)) is None or match[2] <= end)
    return listed == {name.rpartition("/")[2] for name in native.logs}


@lru_cache(maxsize=8)
def _reader(uri: str, options: tuple[tuple[str, str], ...], instant: str) -> tuple[Any, Any]:
    from hudi import HudiReadOptions, HudiTableBuilder

    read_options = HudiReadOptions().with_as_of_timestamp(instant)

    def build() -> Any:
        table = HudiTableBuilder.from_base_uri(uri).with_options(_OPTIONS | dict(options)).build()
        return table.create_file_group_reader_with_options(read_options)

    return read_consistently(Storage(uri, dict(options)), build), read_options


class Hudi(Adapter):
    """A Hudi table, copy-on-write or merge-on-read. Hudi's meta columns are not part of the schema."""

    format = "hudi"
    # The last snapshot, after the timeline's fingerprint, the properties, and `as_of`.
    _last: tuple[tuple[str, str, AsOf], Snapshot] | None = None

    def __init__(self, source: Any, storage_options: Mapping[str, str] | None = None) -> None:
        try:
            import hudi  # noqa: F401 - every snapshot needs it
        except ImportError:
            raise UnsupportedError("Hudi tables need the package hudi: pip install 'parsieve[hudi]'") from None
        if isinstance(source, tuple):
            raise UnsupportedError(
                "cannot open a Hudi table by a (filesystem, path) pair; pass its path or URI, and storage_options"
            )
        self._storage = Storage(source, storage_options)
        self.uri = self._storage.uri.rstrip("/")
        self.storage_options = self._storage.options
        self.commits = Commits()

    def folder_address(self, name: str) -> Any:
        """Return the address of a folder inside the table's folder."""
        return self._storage.folder_address(name)

    @property
    def storage(self) -> Storage:
        """Return the table's folder and its filesystem."""
        return self._storage

    def reopening(self) -> dict[str, Any]:
        """Return the attributes that a copy in another process needs to read the table again."""
        return {"commits": Commits()}

    def snapshot(self, as_of: AsOf = None) -> Snapshot:
        """Return the current state of the table, or its state at an instant or a time.

        The instant does not have to be on the timeline: any 14 to 17 digits name the state at that time.
        """
        # Wait for the end of a rewrite, because incomplete properties would lead to wrong partition values.
        return read_consistently(self._storage, lambda: self._read_snapshot(as_of))

    def _read_snapshot(self, as_of: AsOf) -> Snapshot:
        from hudi import HudiReadOptions, HudiTableBuilder

        timeline = read_timeline(self._storage)
        text = read_text(self._storage)
        # Every file of the table belongs to an instant of the timeline. If the timeline is unchanged, so is the table.
        key = timeline.fingerprint, text, as_of
        last = self._last
        if timeline.fingerprint and last is not None and last[0] == key and type(last[0][2]) is type(as_of):
            return last[1]
        properties = read_properties(text)
        _check_supported(properties, self.uri)
        if any(name.endswith(".schemacommit") for name in self._storage.names(".hoodie/.schema")):
            raise UnsupportedError(f"columns of {self.uri} were renamed or changed by id; read the table with Spark")
        with hudi_errors(f"hudi cannot read {self.uri}"):
            table = (
                HudiTableBuilder.from_base_uri(self._storage.encoded_uri)
                .with_options(_OPTIONS | dict(self.storage_options))
                .build()
            )
            # A fixed instant excludes files that later instants write in the meantime.
            instant = self._instant(timeline, table, as_of)
            schema = pa.schema([_make_nullable(column) for column in table.get_schema()])
            if not instant:
                return Snapshot(None, 0, schema, SliceObjects(()))
            options = HudiReadOptions().with_as_of_timestamp(instant)
            hudi_slices: list[Any] = table.get_file_slices(options)
            reader = table.create_file_group_reader_with_options(options)
            search = Search(
                self._storage,
                timeline,
                properties,
                instant,
                written=partial(self.commits.written, table),
                replaced=partial(self.commits.replaced, table),
            )
            hudi_slices += search.slices({(piece.partition_path, piece.file_id) for piece in hudi_slices})
        native = partial(_Native, reader)
        builder = _SliceBuilder(self, timeline, properties, table=table, instant=instant, schema=schema, native=native)
        slices = [builder.build(hudi_slice, options) for hudi_slice in hudi_slices]
        # The list includes file groups whose first log is later than the instant. They are empty at the instant.
        slices = [file_slice for file_slice in slices if file_slice.path is not None or file_slice.native.logs]
        slices.sort(key=lambda file_slice: file_slice.location)
        snapshot = Snapshot(instant, int(instant), schema, SliceObjects(slices))
        self._last = key, snapshot
        return snapshot

    def _instant(self, timeline: Timeline, table: Any, as_of: AsOf) -> str:
        if as_of is None:
            return max(timeline.completed, default="")
        if isinstance(as_of, (int, str)):
            text = str(as_of)
            if not re.fullmatch(r"\d{14,17}", text):
                raise ValueError(f"a Hudi instant must have 14 to 17 digits: {as_of!r}")
        else:
            moment = milliseconds(as_of)
            instants = completed_instants(table.get_timeline())
            text = max((instant.timestamp for instant in instants if instant.epoch_mills <= moment), default="")
            if not text:
                raise ValueError(f"{self.uri} has no instant before {as_of}; it may have been archived")
        last = max((instant for instant in timeline.completed if instant <= text), default="")
        timeline.check_not_cleaned(last or text)
        return last

    def rows(self, file_slice: Slice) -> FileRows | _MergedRows:
        """Return the live rows of one file group. The `hudi` package merges its logs."""
        native: _Native = file_slice.native
        if file_slice.clean:
            base = str(native.base)
            constants = file_slice.partition_values
            return FileRows(lambda: self._storage.open(base), str(file_slice.path), constants=constants)
        where = f"{file_slice.partition}/{file_slice.group}".lstrip("/")
        if native.has_hidden_logs:
            raise UnsupportedError(
                f"{where} was written to since a compaction was scheduled, and the package hudi cannot read these "
                "logs; run the compaction, or read the table with Spark"
            )
        if native.base is None:
            raise UnsupportedError(
                f"{where} has logs but no base file, which the package hudi cannot read; read the table with Spark"
            )
        return _MergedRows(file_slice, self._storage)

    def version(self, file_slice: Slice) -> Version | None:
        """Return the present version of the base file, or None for file groups with logs."""
        return self._storage.version(str(file_slice.native.base)) if file_slice.clean else None

    def files(self, snapshot: Snapshot, slices: Sequence[Slice]) -> CheckedFiles | None:
        """Return the base files, or None if there are logs."""
        from parsieve.lake.rows.checked_files import files_of

        if self._storage.arrow() is None or not all(file_slice.clean for file_slice in slices):
            return None
        files = [
            ScanFile(
                self._storage,
                str(file_slice.native.base),
                str(file_slice.path),
                file_slice.size or 0,
                constants=file_slice.partition_values,
            )
            for file_slice in slices
        ]
        return files_of(files, snapshot.schema)

    def open_base(self, file_slice: Slice) -> Any:
        """Return the base file as a source on the table's filesystem."""
        return None if file_slice.native.base is None else self._storage.source(file_slice.native.base)


class _SliceBuilder:
    """Builds the slices of a snapshot."""

    def __init__(
        self,
        lake: Hudi,
        timeline: Timeline,
        properties: Mapping[str, str],
        *,
        table: Any,
        instant: str,
        schema: pa.Schema,
        native: Any,
    ) -> None:
        self._lake, self._timeline = lake, timeline
        self._table, self._instant, self._schema, self._native = table, instant, schema, native
        # Since table version 8, the name of a log contains the instant that wrote it. Before, it contains the instant
        # that wrote the base file.
        self._logs_name_instants = int(properties.get("hoodie.table.version", "6")) >= 8
        self._may_have_logs = properties.get("hoodie.table.type") == "MERGE_ON_READ"
        self._rules = MergeRules.of(properties)
        self._partitions = PartitionPaths(properties, schema)
        self._logs_by_partition: dict[str, dict[str, dict[str, str]]] = {}

    def build(self, hudi_slice: Any, options: Any) -> Slice:
        """Return the slice of a file group."""
        storage = self._lake._storage
        partition, group = hudi_slice.partition_path, hudi_slice.file_id
        logs, overtaken = self._visible_logs(hudi_slice), self._overtaken_logs(hudi_slice)
        base = hudi_slice.base_file_name or None
        may_be_hidden = bool(self._timeline.pending_compactions)
        writes = self._writes(partition, group) if logs or may_be_hidden else []
        has_hidden_logs = self._has_hidden_logs(partition, group, writes)
        path = storage.join(f"{partition}/{base}" if partition else base) if base else None
        clean = base is not None and not logs and not overtaken and not has_hidden_logs
        parts = [f"{base}-{hudi_slice.base_file_size}" if base else "", *(f"{name}-{size}" for name, size in logs)]
        if logs or has_hidden_logs:
            parts += writes
        if logs or overtaken:
            # An earlier version of parsieve could index records that the package `hudi` merged differently from Spark.
            parts.append("checked merges")
        if has_hidden_logs:
            # An index of an earlier version of parsieve does not have the rows of these logs.
            parts.append("hidden logs")
        earlier = [name for name, _ in logs if _instant_of(name) < hudi_slice.creation_instant_time]
        if overtaken or (self._logs_name_instants and earlier):
            # An earlier version of parsieve could index the rows of these logs only, or none of them.
            parts += [*overtaken, "logs of earlier writes"]
        partition_values = self._partitions.values(partition)
        if partition_values:
            # An index that was built with the file's values of these columns, as by parsieve 0.1, becomes stale.
            parts.append(f"values of the path: {','.join(partition_values)}")
        folder = f"{partition}/" if partition else ""
        relative = [f"{folder}{name}" for name in (*overtaken, *(name for name, _ in logs))]
        paths = None
        if base is not None:
            listed = hudi_slice.log_files_relative_paths()
            paths = (hudi_slice.base_file_relative_path(), [*(f"{folder}{name}" for name in overtaken), *listed])
        return Slice(
            partition=partition,
            group=group,
            token="|".join(parts),
            path=None if path is None else storage.address(path),
            size=hudi_slice.base_file_size if base else None,
            num_rows=None,
            clean=clean,
            partition_values=partition_values,
            native=self._native(
                paths,
                options,
                path,
                tuple(relative),
                self._schema,
                self._home(),
                self._logs_name_instants,
                self._rules,
                has_hidden_logs,
            ),
        )

    def _writes(self, partition: str, group: str) -> list[str]:
        """Return the instants that wrote to a file group, in order, unless the names of logs contain them."""
        if self._logs_name_instants:
            return []
        return [
            instant
            for instant in sorted(self._timeline.completed)
            if instant <= self._instant and (partition, group) in self._lake.commits.written(self._table, instant)
        ]

    def _has_hidden_logs(self, partition: str, group: str, writes: Sequence[str]) -> bool:
        """Return whether a group was written to since a compaction of it was scheduled, which has not completed.

        Before table version 8, the names of these logs contain the instant of the compaction. The package `hudi` does
        not list them, because there is no base file of that instant.
        """
        scheduled = self._timeline.pending_compactions
        if not scheduled or not writes or writes[-1] < min(scheduled):
            return False
        return any(instant in scheduled for instant in self._logs_of(partition, group).values())

    def _overtaken_logs(self, hudi_slice: Any) -> list[str]:
        """Return the logs of a slice whose writes were overtaken by its compaction, and then archived.

        Since table version 8, a log belongs to the newest base file whose instant precedes the completion of the log's
        write. The package `hudi` does not read when archived writes completed. It uses the instant at which they began,
        so it takes these logs for a part of the previous slice.
        """
        base = hudi_slice.creation_instant_time if hudi_slice.base_file_name else ""
        if not base or not self._logs_name_instants or not self._may_have_logs or not self._timeline.archived:
            return []
        listed = set(hudi_slice.log_file_names)
        of_group = self._logs_of(hudi_slice.partition_path, hudi_slice.file_id)
        logs = {name: instant for name, instant in of_group.items() if instant < base and name not in listed}
        completed = self._timeline.archived_completions({time for time in logs.values() if time not in self._active})
        return sorted(name for name, instant in logs.items() if completed.get(instant, "") >= base)

    @cached_property
    def _active(self) -> frozenset[str]:
        return self._timeline.completed | self._timeline.pending

    def _logs_of(self, partition: str, group: str) -> dict[str, str]:
        """Return the names of all logs of a file group, with the instants in their names."""
        if partition not in self._logs_by_partition:
            by_group: dict[str, dict[str, str]] = {}
            for match in map(_LOG.fullmatch, self._lake._storage.names(partition)):
                if match is not None:
                    by_group.setdefault(match[1], {})[match[0]] = match[2]
            self._logs_by_partition[partition] = by_group
        return self._logs_by_partition[partition].get(group, {})

    def _home(self) -> tuple[str, tuple[tuple[str, str], ...], str]:
        return self._lake.storage.encoded_uri, tuple(sorted(self._lake.storage_options.items())), self._instant

    def _visible_logs(self, hudi_slice: Any) -> list[tuple[str, int]]:
        """Return the names and sizes of the logs at the instant, or of all logs if their names have no instant."""
        logs = []
        for name, size in zip(hudi_slice.log_file_names, hudi_slice.log_file_sizes, strict=True):
            instant = _instant_of(name)
            if not self._logs_name_instants or (instant <= self._instant and self._timeline.is_committed(instant)):
                logs.append((name, int(size)))
        return sorted(logs)


def _instant_of(log: str) -> str:
    """Return the instant in the name of a log."""
    match = _LOG.fullmatch(log)
    if match is None:
        raise FormatError(f"not a name of a Hudi log: {log}")
    return match[2]


@dataclass(frozen=True, slots=True)
class _MergedRows:
    """The rows of a base file, merged with its logs by the `hudi` package."""

    file_slice: Slice
    storage: Storage

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the live rows with the columns of a schema."""
        native: _Native = self.file_slice.native
        where = f"{self.file_slice.partition}/{self.file_slice.group}".lstrip("/")
        assert native.base is not None
        with foreign(where):
            check_merge(self.storage, native.base, native.logs, native.schema.names, native.rules, where)
        with foreign(where), hudi_errors(f"hudi cannot merge {where}; read the table with Spark"):
            # Read all columns, because some of them decide which of two records is newer.
            for batch in native.stream():
                yield self._conform(pa.record_batch(batch), schema, where)

    def _conform(self, batch: pa.RecordBatch, schema: pa.Schema, where: str) -> pa.RecordBatch:
        arrays = []
        find = by_name(list(batch.schema))
        constants = self.file_slice.partition_values
        for target in schema:
            if target.name in constants:
                arrays.append(constant(constants[target.name], target.type, batch.num_rows))
                continue
            number = find(target)
            if number is None:
                arrays.append(pa.nulls(batch.num_rows, target.type))
                continue
            try:
                arrays.append(conform(batch.column(number), target.type, BY_NAME))
            except UnsupportedError as error:
                raise UnsupportedError(f"{where}, column {target.name}: {error}") from error
        return pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else batch.select([])


def _make_nullable(field: pa.Field) -> pa.Field:
    kind = field.type
    if pt.is_struct(kind):
        kind = pa.struct([_make_nullable(child) for child in kind])
    return pa.field(field.name, kind)


def _check_supported(properties: Mapping[str, str], uri: str) -> None:
    """Raise `UnsupportedError` for tables that hudi-rs would read wrongly or not at all."""
    format_ = properties.get("hoodie.table.base.file.format", "PARQUET")
    if format_.upper() != "PARQUET":
        raise UnsupportedError(f"the base files of {uri} are {format_}; only Parquet is supported")
    if any("bootstrap.base.path" in name for name in properties):
        raise UnsupportedError(f"{uri} was bootstrapped, so some of its rows are in other files; read it with Spark")
    places = [properties.get(name, place) for name, place in _PLACES.items()]
    if places != list(_PLACES.values()):
        raise UnsupportedError(f"{uri} stores its timeline in {'/'.join(places)}; only timeline/history is supported")
    if properties.get("hoodie.datasource.write.drop.partition.columns") == "true":
        raise UnsupportedError(f"the files of {uri} do not contain the partition columns; read it with Spark")
    if properties.get("hoodie.table.type") == "MERGE_ON_READ":
        mode, payload = properties.get("hoodie.record.merge.mode"), properties.get("hoodie.compaction.payload.class")
        if (mode is not None and mode not in _MERGES) or (mode is None and payload not in (None, *_PAYLOADS)):
            raise UnsupportedError(
                f"{uri} merges records by {mode or payload}, which is not supported; read it with Spark"
            )
        partial_update = properties.get("hoodie.table.partial.update.mode", "")
        if partial_update not in _PARTIAL_UPDATES:
            raise UnsupportedError(
                f"{uri} merges partial updates by {partial_update}, which is not supported; read it with Spark"
            )
