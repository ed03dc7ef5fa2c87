"""Write copy-on-write Hudi tables of version 6 without Spark: base files and a timeline of JSON commits."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

META = [
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
]
AVRO: dict[pa.DataType, object] = {
    pa.int64(): "long",
    pa.int32(): "int",
    pa.bool_(): "boolean",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.string(): "string",
    pa.float64(): "double",
    pa.timestamp("us", "UTC"): {"type": "long", "logicalType": "timestamp-micros"},
}
PROPERTIES = {
    "hoodie.table.name": "t",
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.table.version": "6",
    "hoodie.timeline.layout.version": "1",
    "hoodie.table.base.file.format": "PARQUET",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.precombine.field": "id",
    "hoodie.populate.meta.fields": "true",
    "hoodie.archivelog.folder": "archived",
    "hoodie.table.timeline.timezone": "UTC",
}


def avro_type(kind: pa.DataType, name: str) -> object:
    """Return a type as in Avro's schemas. `name` makes the names of records unique."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return {"type": "array", "items": ["null", avro_type(kind.value_type, name)]}
    if pa.types.is_map(kind):
        return {"type": "map", "values": ["null", avro_type(kind.item_type, name)]}
    if pa.types.is_struct(kind):
        inner = [{"name": field.name, "type": ["null", avro_type(field.type, name + field.name)]} for field in kind]
        return {"type": "record", "name": f"of_{name}", "fields": inner}
    return AVRO[kind]


class HudiTable:
    """A copy-on-write table in a folder."""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self.folder = folder
        self.schema = schema
        self.timeline = folder / ".hoodie"
        (self.timeline / "archived").mkdir(parents=True)
        lines = "".join(f"{name}={value}\n" for name, value in PROPERTIES.items())
        (self.timeline / "hoodie.properties").write_text(lines)
        self._write_partition_metadata("", 0)
        self.clock = dt.datetime(2026, 1, 1)

    def _write_partition_metadata(self, partition: str, depth: int) -> None:
        text = f"commitTime=20260101000000000\npartitionDepth={depth}\n"
        (self.folder / partition / ".hoodie_partition_metadata").write_text(text)

    def instant(self) -> str:
        """Advance the clock by a second and return the new instant."""
        self.clock += dt.timedelta(seconds=1)
        return f"{self.clock:%Y%m%d%H%M%S}000"

    def begin(self, action: str = "commit") -> str:
        """Begin a commit: create its requested and inflight files, and return its instant."""
        instant = self.instant()
        (self.timeline / f"{instant}.{action}.requested").touch()
        inflight = f"{instant}.inflight" if action == "commit" else f"{instant}.{action}.inflight"
        (self.timeline / inflight).touch()
        return instant

    def write(
        self, instant: str, group: str, rows: pa.Table, row_group_size: int | None = None, partition: str = ""
    ) -> dict[str, object]:
        """Write a base file of a file group, and return its statistics for the commit."""
        file_name = f"{group}_0-1-0_{instant}.parquet"
        file_name = f"{partition}/{file_name}" if partition else file_name
        if partition:
            (self.folder / partition).mkdir(parents=True, exist_ok=True)
            self._write_partition_metadata(partition, partition.count("/") + 1)
        meta = {name: pa.array([""] * rows.num_rows) for name in META}
        table = pa.table({**meta, **{name: rows[name] for name in rows.column_names}})
        pq.write_table(table, self.folder / file_name, row_group_size=row_group_size)
        size = (self.folder / file_name).stat().st_size
        return {
            "fileId": group,
            "path": file_name,
            "prevCommit": "null",
            "numWrites": rows.num_rows,
            "numDeletes": 0,
            "numUpdateWrites": 0,
            "numInserts": rows.num_rows,
            "totalWriteBytes": size,
            "totalWriteErrors": 0,
            "partitionPath": partition,
            "fileSizeInBytes": size,
        }

    def finish(self, instant: str, stats: list[dict[str, object]], action: str = "commit", **more: object) -> None:
        """Complete a commit with the statistics of its base files."""
        fields = [{"name": field.name, "type": ["null", avro_type(field.type, field.name)]} for field in self.schema]
        schema = json.dumps({"type": "record", "name": "t", "fields": fields})
        by_partition: dict[str, list[dict[str, object]]] = {} if stats else {"": []}
        for written in stats:
            by_partition.setdefault(str(written["partitionPath"]), []).append(written)
        metadata = {
            "partitionToWriteStats": by_partition,
            "compacted": False,
            "extraMetadata": {"schema": schema},
            "operationType": "UPSERT",
            **more,
        }
        (self.timeline / f"{instant}.{action}").write_text(json.dumps(metadata))

    def commit(self, groups: Mapping[str, pa.Table], row_group_size: int | None = None) -> str:
        """Write new versions of some file groups in one commit, and return its instant."""
        instant = self.begin()
        self.finish(instant, [self.write(instant, group, rows, row_group_size) for group, rows in groups.items()])
        return instant

    def replace(self, gone: Sequence[str], groups: Mapping[str, pa.Table], row_group_size: int | None = None) -> str:
        """Replace some file groups by new ones, as clustering does, and return the instant."""
        instant = self.begin("replacecommit")
        stats = [self.write(instant, group, rows, row_group_size) for group, rows in groups.items()]
        self.finish(instant, stats, "replacecommit", partitionToReplaceFileIds={"": list(gone)})
        return instant

    def forget(self, instant: str) -> None:
        """Delete all files of an instant, as a rollback or a restore does."""
        for path in self.timeline.glob(f"{instant}.*"):
            path.unlink()
        for path in self.folder.glob(f"*_{instant}.parquet"):
            path.unlink()
