"""Hudi: file slices and merged logs by `hudi`, tokens by what the timeline says of their files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.types as pt

from parsieve._core import FormatError, UnsupportedError
from parsieve.lake.base import AsOf, Slice, Snapshot, utc
from parsieve.lake.hudi.properties import of_settled, read_text
from parsieve.lake.hudi.timeline import Timeline, read_properties, read_timeline
from parsieve.lake.rows.adapter import Adapter
from parsieve.lake.rows.arrow_scan import ScanFile
from parsieve.lake.rows.checked_files import CheckedFiles, files_of
from parsieve.lake.rows.columns import BY_NAME, by_name, conform
from parsieve.lake.rows.file_rows import BATCH_ROWS, FileRows, foreign
from parsieve.lake.slices import MadeSlices
from parsieve.lake.storage.pinned import Version
from parsieve.lake.storage.storage import Storage

_LOG = re.compile(r"\.(.+)_(\d{14,17})\.log\.(\d+)(?:_.*)?")
_NULLS = {"__HIVE_DEFAULT_PARTITION__", "default", ""}
# How records with the same key become one: what hudi-rs knows, under the names of all versions of tables.
_MERGES = {"EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"}
_PAYLOADS = {
    "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
}


@dataclass(frozen=True, slots=True, eq=False)
class _Native:
    reader: Any
    piece: Any
    options: Any
    base: str | None
    logs: tuple[str, ...]
    schema: pa.Schema
    # The table's address and options, and the instant.
    table: tuple[str, tuple[tuple[str, str], ...], str]
    # Whether the names of the logs tell all: in old tables one log holds what several instants wrote.
    logs_say: bool

    def __reduce__(self) -> tuple[Any, ...]:
        """The objects of hudi stay in their process; elsewhere their table is opened again."""
        paths = (
            None
            if self.base is None
            else (
                self.piece.base_file_relative_path(),
                self.piece.log_files_relative_paths(),
            )
        )
        return _Native, (None, paths, None, self.base, self.logs, self.schema, self.table, self.logs_say)

    def stream(self) -> Iterator[Any]:
        """The rows of the base file and its logs, merged."""
        if self.reader is not None:
            yield from self.reader.read_file_slice_stream(self.piece, self.options.with_batch_size(BATCH_ROWS))
            return
        reader, options = _reader(*self.table)
        base, logs = self.piece
        yield from reader.read_file_slice_from_paths_stream(base, logs, options.with_batch_size(BATCH_ROWS))


def has_logs(piece: Slice, listed: frozenset[str], instant: str | None = None) -> bool:
    """Whether these logs make this version of a file group of its base file; False also where names do not tell.

    Who reads the table at an instant lists later logs, too, and leaves them out as they are read.
    """
    native: _Native = piece.native
    if not native.logs_say and (native.logs or listed):
        return False
    if instant is not None:
        # Seconds alone mean their end.
        end = instant.ljust(17, "9")
        listed = frozenset(name for name in listed if (found := _LOG.fullmatch(name)) is None or found[2] <= end)
    return listed == {name.rpartition("/")[2] for name in native.logs}


@lru_cache(maxsize=8)
def _reader(uri: str, options: tuple[tuple[str, str], ...], instant: str) -> tuple[Any, Any]:
    from hudi import HudiReadOptions, HudiTableBuilder

    asked = HudiReadOptions().with_as_of_timestamp(instant)

    def build() -> Any:
        table = HudiTableBuilder.from_base_uri(uri).with_options(dict(options)).build()
        return table.create_file_group_reader_with_options(asked)

    return of_settled(Storage(uri, dict(options)), build), asked


class Hudi(Adapter):
    """A table of Hudi, copy-on-write or merge-on-read. Its meta columns are no part of the schema."""

    format = "hudi"
    # What the timeline, the properties and the wish were, and what was found.
    _last: tuple[tuple[str, str, AsOf], Snapshot] | None = None

    def __init__(self, source: Any, storage_options: Mapping[str, str] | None = None) -> None:
        try:
            import hudi  # noqa: F401 - every snapshot needs it
        except ImportError:
            raise UnsupportedError("tables of Hudi need the package hudi: pip install 'parsieve[hudi]'") from None
        if isinstance(source, tuple):
            raise UnsupportedError(
                "a Hudi table is opened by its path or URI, with storage_options where it needs them"
            )
        self._storage = Storage(source, storage_options)
        self.uri = self._storage.uri.rstrip("/")
        self.storage_options = self._storage.options
        # By instant, which never changes.
        self._written: dict[str, frozenset[tuple[str, str]]] = {}

    def beside(self, name: str) -> Any:
        """A folder in the table's own, on the same filesystem."""
        return self._storage.beside(name)

    @property
    def storage(self) -> Storage:
        """The table's folder and its filesystem."""
        return self._storage

    def reopening(self) -> dict[str, Any]:
        """Return the attributes that a copy in another process needs to read the table again."""
        return {"_written": {}}

    def snapshot(self, as_of: AsOf = None) -> Snapshot:
        """The table now, at an instant of its timeline or any text of digits between two, or at a time."""
        # A rewrite of the properties is waited for: incomplete ones would give partitions other values.
        return of_settled(self._storage, lambda: self._look(as_of))

    def _look(self, as_of: AsOf) -> Snapshot:
        from hudi import HudiReadOptions, HudiTableBuilder

        timeline = read_timeline(self._storage)
        text = read_text(self._storage)
        # Every file of the table belongs to an instant of the timeline, so that the table is what it was with it.
        key = timeline.mark, text, as_of
        last = self._last
        if timeline.mark and last is not None and last[0] == key and type(last[0][2]) is type(as_of):
            return last[1]
        properties = read_properties(text)
        _refuse(properties, self.uri)
        if any(name.endswith(".schemacommit") for name in self._storage.names(".hoodie/.schema")):
            raise UnsupportedError(f"columns of {self.uri} were renamed or changed by id; read the table with Spark")
        with _hudis(f"hudi cannot read {self.uri}"):
            table = HudiTableBuilder.from_base_uri(self.uri).with_options(dict(self.storage_options)).build()
            # Later instants, and what they write while we look, stay outside.
            instant = self._instant(timeline, table, as_of)
            schema = pa.schema([_nullable(one) for one in table.get_schema()])
            if not instant:
                return Snapshot(None, 0, schema, MadeSlices(()))
            options = HudiReadOptions().with_as_of_timestamp(instant)
            found = table.get_file_slices(options)
            reader = table.create_file_group_reader_with_options(options)
        builder = _Slices(self, timeline, properties, table, instant, schema, partial(_Native, reader))
        # hudi lists groups whose first log is later than the instant.
        there = [
            one for one in (builder.build(one, options) for one in found) if one.path is not None or one.native.logs
        ]
        slices = sorted(there, key=lambda one: one.location)
        snapshot = Snapshot(instant, int(instant), schema, MadeSlices(slices))
        self._last = key, snapshot
        return snapshot

    def _instant(self, timeline: Timeline, table: Any, as_of: AsOf) -> str:
        if as_of is None:
            return max(timeline.completed, default="")
        if isinstance(as_of, (int, str)):
            text = str(as_of)
            if not re.fullmatch(r"\d{14,17}", text):
                raise ValueError(f"a Hudi instant is 14 to 17 digits, not {as_of!r}")
        else:
            moment = utc(as_of).timestamp() * 1000
            text = max((one.timestamp for one in _told(table.get_timeline()) if one.epoch_mills <= moment), default="")
            if not text:
                raise ValueError(f"{self.uri} has no instant before {as_of}, or has it no more")
        at = max((one for one in timeline.completed if one <= text), default="")
        timeline.refuse_cleaned(at or text)
        return at

    def rows(self, piece: Slice) -> FileRows | _MergedRows:
        """The live rows of one file group, its logs merged by hudi."""
        native: _Native = piece.native
        if piece.clean:
            base = str(native.base)
            return FileRows(lambda: self._storage.open(base), str(piece.path))
        if native.base is None:
            where = f"{piece.partition}/{piece.group}"
            raise UnsupportedError(
                f"{where} has logs and no base file, which hudi cannot read; read the table with Spark"
            )
        return _MergedRows(piece)

    def version(self, piece: Slice) -> Version | None:
        """What tells the base file from another one; None for file groups that hudi reads."""
        return self._storage.version(str(piece.native.base)) if piece.clean else None

    def files(self, snapshot: Snapshot, slices: Sequence[Slice]) -> CheckedFiles | None:
        """Return the base files; None if there are logs."""
        if self._storage.arrow() is None or not all(one.clean for one in slices):
            return None
        files = [ScanFile(self._storage, str(one.native.base), str(one.path), one.size or 0) for one in slices]
        return files_of(files, snapshot.schema)

    def open_base(self, piece: Slice) -> Any:
        """The base file, opened as the table is."""
        return None if piece.native.base is None else self._storage.source(piece.native.base)

    def written(self, table: Any, instant: str) -> frozenset[tuple[str, str]]:
        """The file groups that an instant wrote; none for one that was archived."""
        if instant not in self._written:
            commits = table.get_timeline()
            for one in _told(commits):
                if one.timestamp not in self._written:
                    said = json.loads(commits.get_instant_metadata_in_json(one))
                    self._written[one.timestamp] = frozenset(
                        (partition, str(stat["fileId"]))
                        for partition, stats in (said.get("partitionToWriteStats") or {}).items()
                        for stat in stats
                    )
        return self._written.get(instant, frozenset())


class _Slices:
    """Builds the slices of a snapshot."""

    def __init__(
        self,
        lake: Hudi,
        timeline: Timeline,
        properties: Mapping[str, str],
        table: Any,
        instant: str,
        schema: pa.Schema,
        native: Any,
    ) -> None:
        self._lake, self._timeline, self._properties = lake, timeline, properties
        self._table, self._instant, self._schema, self._native = table, instant, schema, native
        # Since version 8 a log is named by the instant that wrote it, before by that of its base file.
        self._logs_say = int(properties.get("hoodie.table.version", "6")) >= 8
        self._partitions = self._partition_fields()

    def build(self, piece: Any, options: Any) -> Slice:
        """The slice of a file group."""
        storage = self._lake._storage
        partition, group = piece.partition_path, piece.file_id
        logs = self._visible(piece)
        base = piece.base_file_name or None
        path = storage.join(f"{partition}/{base}" if partition else base) if base else None
        clean = base is not None and not logs
        parts = [f"{base}-{piece.base_file_size}" if base else "", *(f"{name}-{size}" for name, size in logs)]
        if logs and not self._logs_say:
            parts += [
                one
                for one in sorted(self._timeline.completed)
                if one <= self._instant and (partition, group) in self._lake.written(self._table, one)
            ]
        relative = [f"{partition}/{name}" if partition else name for name, _ in logs]
        return Slice(
            partition=partition,
            group=group,
            token="|".join(parts),
            path=None if path is None else storage.address(path),
            size=piece.base_file_size if base else None,
            num_rows=None,
            clean=clean,
            partition_values=self._values(partition),
            native=self._native(piece, options, path, tuple(relative), self._schema, self._home(), self._logs_say),
        )

    def _home(self) -> tuple[str, tuple[tuple[str, str], ...], str]:
        return self._lake.uri, tuple(sorted(self._lake.storage_options.items())), self._instant

    def _visible(self, piece: Any) -> list[tuple[str, int]]:
        """The logs that hold at the instant, with their sizes; all of them where their names do not tell."""
        found = []
        for name, size in zip(piece.log_file_names, piece.log_file_sizes, strict=True):
            match = _LOG.fullmatch(name)
            if match is None:
                raise FormatError(f"not the name of a Hudi log: {name}")
            if not self._logs_say or (match[2] <= self._instant and self._timeline.holds(match[2])):
                found.append((name, int(size)))
        return sorted(found)

    def _partition_fields(self) -> list[pa.Field]:
        """The columns that a partition's path proves; none where a key generator computes it."""
        names = [one for one in self._properties.get("hoodie.table.partition.fields", "").split(",") if one]
        simple = self._properties.get("hoodie.table.keygenerator.type", "") in ("SIMPLE", "COMPLEX")
        if not simple or any(name not in self._schema.names for name in names):
            return []
        return [self._schema.field(name) for name in names]

    def _values(self, partition: str) -> dict[str, object]:
        parts = partition.split("/")
        found: dict[str, object] = {}
        if len(parts) != len(self._partitions):
            return found
        for part, field in zip(parts, self._partitions, strict=True):
            text = part
            if self._properties.get("hoodie.datasource.write.hive_style_partitioning") == "true":
                name, _, text = part.partition("=")
                if name != field.name:
                    return {}
            if self._properties.get("hoodie.datasource.write.partitionpath.urlencode") == "true":
                text = unquote(text)
            # Days and times are written in several ways.
            if pt.is_integer(field.type) and re.fullmatch(r"-?\d{1,18}", text):
                found[field.name] = int(text)
            elif pt.is_string(field.type) and text not in _NULLS:
                found[field.name] = text
        return found


@dataclass(frozen=True, slots=True)
class _MergedRows:
    """The rows of a base file with its logs, as hudi merges them."""

    piece: Slice

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The live rows with the columns of a schema."""
        native: _Native = self.piece.native
        where = f"{self.piece.partition}/{self.piece.group}"
        with foreign(where), _hudis(f"hudi cannot merge {where}; read the table with Spark"):
            # Columns are all read: hudi wants those that decide which record wins.
            for batch in native.stream():
                yield self._conformed(pa.record_batch(batch), schema, where)

    def _conformed(self, batch: pa.RecordBatch, schema: pa.Schema, where: str) -> pa.RecordBatch:
        held = list(batch.schema)
        arrays = []
        find = by_name(held)
        for target in schema:
            number = find(target)
            if number is None:
                arrays.append(pa.nulls(batch.num_rows, target.type))
                continue
            try:
                arrays.append(conform(batch.column(number), target.type, BY_NAME))
            except UnsupportedError as error:
                raise UnsupportedError(f"{where}, column {target.name}: {error}") from error
        return pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else batch.select([])


def _told(timeline: Any) -> list[Any]:
    """The instants that hold, as hudi knows them."""
    return [
        *timeline.get_completed_commits(),
        *timeline.get_completed_deltacommits(),
        *timeline.get_completed_replacecommits(),
    ]


@contextmanager
def _hudis(what: str) -> Iterator[None]:
    """The library's own exception, which it does not export, as ours."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ != "HudiCoreError":
            raise
        raise UnsupportedError(f"{what}: {error}") from error


def _nullable(one: pa.Field) -> pa.Field:
    kind = one.type
    if pt.is_struct(kind):
        kind = pa.struct([_nullable(child) for child in kind])
    return pa.field(one.name, kind)


def _refuse(properties: Mapping[str, str], uri: str) -> None:
    """`UnsupportedError` for tables that hudi-rs would read wrongly or not at all."""
    format_ = properties.get("hoodie.table.base.file.format", "PARQUET")
    if format_.upper() != "PARQUET":
        raise UnsupportedError(f"the base files of {uri} are {format_}; only Parquet can be read")
    if any("bootstrap.base.path" in name for name in properties):
        raise UnsupportedError(f"{uri} was bootstrapped, so that its rows lie in other files too; read it with Spark")
    if properties.get("hoodie.datasource.write.drop.partition.columns") == "true":
        raise UnsupportedError(f"the files of {uri} lack the partition columns; read it with Spark")
    if properties.get("hoodie.table.type") == "MERGE_ON_READ":
        mode, payload = properties.get("hoodie.record.merge.mode"), properties.get("hoodie.compaction.payload.class")
        if (mode is not None and mode not in _MERGES) or (mode is None and payload not in (None, *_PAYLOADS)):
            raise UnsupportedError(
                f"{uri} merges records by {mode or payload}, which is not supported; read it with Spark"
            )
