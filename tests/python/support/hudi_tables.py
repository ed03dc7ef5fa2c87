"""Hudi tables of copied files, version 6, made by hand: a timeline of JSON commits and base files, without Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
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
AVRO = {pa.int64(): "long", pa.string(): "string", pa.float64(): "double"}
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


class HudiTable:
    """A table in a folder, with commits as a writer of copies makes them."""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self.folder = folder
        self.schema = schema
        self.timeline = folder / ".hoodie"
        (self.timeline / "archived").mkdir(parents=True)
        lines = "".join(f"{name}={value}\n" for name, value in PROPERTIES.items())
        (self.timeline / "hoodie.properties").write_text(lines)
        (folder / ".hoodie_partition_metadata").write_text("commitTime=20260101000000000\npartitionDepth=0\n")
        self.clock = 20260101000000000

    def instant(self) -> str:
        """The next instant, a second later."""
        self.clock += 1000
        return str(self.clock)

    def begin(self, action: str = "commit") -> str:
        """What a writer leaves behind that has begun."""
        instant = self.instant()
        (self.timeline / f"{instant}.{action}.requested").touch()
        inflight = f"{instant}.inflight" if action == "commit" else f"{instant}.{action}.inflight"
        (self.timeline / inflight).touch()
        return instant

    def write(self, instant: str, group: str, rows: pa.Table) -> dict[str, object]:
        """A base file of a file group; nobody sees it before the commit."""
        name = f"{group}_0-1-0_{instant}.parquet"
        meta = {one: pa.array([""] * rows.num_rows) for one in META}
        pq.write_table(pa.table({**meta, **{one: rows[one] for one in rows.column_names}}), self.folder / name)
        size = (self.folder / name).stat().st_size
        return {
            "fileId": group,
            "path": name,
            "prevCommit": "null",
            "numWrites": rows.num_rows,
            "numDeletes": 0,
            "numUpdateWrites": 0,
            "numInserts": rows.num_rows,
            "totalWriteBytes": size,
            "totalWriteErrors": 0,
            "partitionPath": "",
            "fileSizeInBytes": size,
        }

    def finish(self, instant: str, stats: list[dict[str, object]], action: str = "commit", **more: object) -> None:
        """The commit: what was written is the table from now on."""
        fields = [{"name": one.name, "type": ["null", AVRO[one.type]]} for one in self.schema]
        schema = json.dumps({"type": "record", "name": "t", "fields": fields})
        said = {
            "partitionToWriteStats": {"": stats},
            "compacted": False,
            "extraMetadata": {"schema": schema},
            "operationType": "UPSERT",
            **more,
        }
        (self.timeline / f"{instant}.{action}").write_text(json.dumps(said))

    def commit(self, groups: Mapping[str, pa.Table]) -> str:
        """New versions of some file groups, at one instant."""
        instant = self.begin()
        self.finish(instant, [self.write(instant, group, rows) for group, rows in groups.items()])
        return instant

    def forget(self, instant: str) -> None:
        """Undo an instant, as a rollback or a restore does: it was never there."""
        for path in self.timeline.glob(f"{instant}.*"):
            path.unlink()
        for path in self.folder.glob(f"*_{instant}.parquet"):
            path.unlink()
