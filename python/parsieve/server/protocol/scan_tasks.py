"""Data files and their deletes as the scan tasks of the protocol."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from parsieve.lake.iceberg.manifests import DataFiles, DeleteFile, Deletes, Partition
from parsieve.server.protocol.errors import unsupported

_COLUMNS = ("path", "size", "rows", "format", "partition", "is_encrypted")
_STATISTICS = ("lower", "upper", "null_count", "value_count")


@dataclass(frozen=True)
class PlannedFiles:
    """The files of a plan. Nothing of it changes after planning.

    It holds nothing of other files, because the server keeps many plans of many states of a table.
    """

    # The columns of the files that scan tasks need. None in a table without a snapshot.
    columns: pa.RecordBatch | None
    # The partitions of the files with their records, by their numbers in the column `partition`.
    partitions: Mapping[int, tuple[Partition, Any]]
    # The deletes by the positions of their data files. Files without deletes are missing.
    deletes: Mapping[int, Deletes]
    # The types of each partition spec's values, by the spec's ID.
    partition_types: Mapping[int, Sequence[Any]]
    # The client's whole filter: clients apply it to the rows of each file.
    residual: Any
    # The IDs of the fields whose statistics the client wants.
    statistics_of: frozenset[int]

    @classmethod
    def of(
        cls,
        files: DataFiles | None,
        kept: Sequence[int],
        *,
        partition_types: Mapping[int, Sequence[Any]],
        residual: Any,
        statistics_of: frozenset[int],
    ) -> PlannedFiles:
        """Return the plan that keeps some files of a snapshot."""
        if files is None:
            return cls(None, {}, {}, partition_types, residual, statistics_of)
        chosen = files.take(pa.array(kept, pa.int64()))
        columns = chosen.columns.select([*_COLUMNS, *(_STATISTICS if statistics_of else ())])
        partitions = {number: files.partitions[number] for number in columns["partition"].unique().to_pylist()}
        return cls(columns, partitions, chosen.deletes, partition_types, residual, statistics_of)

    def __len__(self) -> int:
        return 0 if self.columns is None else int(self.columns.num_rows)

    def page(self, start: int, length: int) -> dict[str, Any]:
        """Return some scan tasks, with all deletes that apply to them."""
        if self.columns is None:
            return {"file-scan-tasks": []}
        deletes: dict[str, int] = {}
        entries: list[dict[str, Any]] = []
        tasks = []
        for number, row in enumerate(self.columns.slice(start, length).to_pylist(), start):
            task: dict[str, Any] = {"data-file": self._data_file(row), "residual-filter": self.residual}
            references = [self._reference(entry, deletes, entries) for entry in _deletes(self.deletes.get(number))]
            if references:
                task["delete-file-references"] = references
            tasks.append(task)
        return {"file-scan-tasks": tasks} | ({"delete-files": entries} if entries else {})

    def _data_file(self, row: dict[str, Any]) -> dict[str, Any]:
        if row["is_encrypted"]:
            raise unsupported(f"{row['path']} is encrypted by Iceberg; plan this table in the client")
        (spec_id, _), record = self.partitions[row["partition"]]
        values = [record[number] for number in range(len(record))]
        statistics = self._statistics(row) if self.statistics_of else {}
        return self._file(spec_id, values, "data", row["path"]) | {
            "file-format": row["format"].lower(),
            "file-size-in-bytes": row["size"],
            "record-count": row["rows"],
            **statistics,
        }

    def _file(self, spec_id: int, values: Sequence[Any], content: str, path: str) -> dict[str, Any]:
        kinds = self.partition_types[spec_id]
        partition = [_partition_value(kind, value) for kind, value in zip(kinds, values, strict=True)]
        return {"spec-id": spec_id, "partition": partition, "content": content, "file-path": path}

    def _statistics(self, row: dict[str, Any]) -> dict[str, Any]:
        named = {"value-counts": "value_count", "null-value-counts": "null_count"}
        named |= {"lower-bounds": "lower", "upper-bounds": "upper"}
        result = {}
        for name, column in named.items():
            pairs = [(key, value) for key, value in row[column] or () if key in self.statistics_of]
            values = [value.hex().upper() if isinstance(value, bytes) else value for _, value in pairs]
            result[name] = {"keys": [key for key, _ in pairs], "values": values}
        return result

    def _reference(self, entry: DeleteFile, known: dict[str, int], entries: list[dict[str, Any]]) -> int:
        if entry.identity not in known:
            known[entry.identity] = len(entries)
            entries.append(self._delete_file(entry))
        return known[entry.identity]

    def _delete_file(self, entry: DeleteFile) -> dict[str, Any]:
        file = entry.file
        if file.key_metadata:
            raise unsupported(f"{file.file_path} is encrypted by Iceberg; plan this table in the client")
        values = [file.partition[number] for number in range(len(file.partition))]
        content = entry.kind.lower().replace("_", "-")
        optional = {
            "equality-ids": list(file.equality_ids) if file.equality_ids else None,
            "referenced-data-file": entry.referenced,
            "content-offset": entry.offset,
            "content-size-in-bytes": entry.length,
        }
        return (
            self._file(file.spec_id or 0, values, content, str(file.file_path))
            | {
                "file-format": file.file_format.name.lower(),
                "file-size-in-bytes": file.file_size_in_bytes,
                "record-count": file.record_count,
            }
            | {name: value for name, value in optional.items() if value is not None}
        )


def _partition_value(kind: Any, value: Any) -> Any:
    from pyiceberg.conversions import to_json
    from pyiceberg.types import UnknownType

    if isinstance(value, float) and not math.isfinite(value):
        raise unsupported(f"the table has a partition {value}, which JSON does not have; plan this table in the client")
    # A partition field is of unknown type if its column was dropped. It cannot prove anything about a file.
    return None if value is None or isinstance(kind, UnknownType) else to_json(kind, value)


def _deletes(deletes: Deletes | None) -> Sequence[DeleteFile]:
    if deletes is None:
        return ()
    return (*deletes.positions, *deletes.equality, *((deletes.vector,) if deletes.vector else ()))
