"""Find file groups whose records the package `hudi` merges differently from Spark.

The package takes a block of a log that does not have all columns of the table for a partial update. Such blocks are
partial updates of `MERGE INTO`, but also all blocks from before a column was added. This goes wrong if a record arrives
late, which means that its value of the ordering field is lower than that of the record it should replace:

- If the columns of two blocks differ, the package completes the newer record with columns of the older one.
- If the newer record is a partial update, the package ignores the older one, although Spark takes the other columns
  from it.

It also goes wrong if a later block lacks a column that an earlier one has.

Spark itself reads wrong values in two cases. If the ordering field is text, and the blocks are in Parquet's format, it
compares values of other records. If records are marked as deleted by a column, it looks in another column of partial
updates.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from parsieve._core import UnsupportedError
from parsieve.lake.hudi.log_blocks import KEY, Keys, LogBlock, read_blocks
from parsieve.lake.storage.storage import Storage
from parsieve.sharing import cached_property

_LOG = re.compile(r".*_(\d{14,17})\.log\.(\d+)(?:_(.*))?")
# A column that marks a record as deleted.
_IS_DELETED = "_hoodie_is_deleted"
# The property that names another such column.
_DELETE_FIELD = "hoodie.record.merge.property.hoodie.payload.delete.field"
# This payload keeps the record that was written last. Its tables have no merge mode before version 8.
_LAST_WRITTEN = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"


@dataclass(frozen=True, slots=True)
class MergeRules:
    """How a table decides which of two records with the same key it keeps."""

    # Whether it keeps the record that was written last, and not the one with the highest value of the ordering fields.
    is_by_commit: bool
    ordering: tuple[str, ...]
    # Whether null in the newer record means that the older value stays.
    ignores_defaults: bool
    # The columns that may mark a record as deleted.
    delete_markers: frozenset[str] = frozenset({_IS_DELETED})

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> MergeRules:
        """Read the rules from a table's properties."""
        mode, payload = properties.get("hoodie.record.merge.mode"), properties.get("hoodie.compaction.payload.class")
        fields = properties.get("hoodie.table.ordering.fields") or properties.get("hoodie.table.precombine.field", "")
        return cls(
            is_by_commit=mode == "COMMIT_TIME_ORDERING" or (mode is None and payload == _LAST_WRITTEN),
            ordering=tuple(name.strip() for name in fields.split(",") if name.strip()),
            ignores_defaults=bool(properties.get("hoodie.table.partial.update.mode")),
            delete_markers=frozenset({_IS_DELETED, properties.get(_DELETE_FIELD, _IS_DELETED)}),
        )


def check_merge(
    storage: Storage, base: str, logs: Sequence[str], columns: Collection[str], rules: MergeRules, where: str
) -> None:
    """Raise `UnsupportedError` if the package `hudi` may merge a base file with its logs differently from Spark.

    `columns` are the columns of the table. `base` is a path of the filesystem, and `logs` are paths in the table's
    folder. This reads the headers of the blocks. It reads the keys of records only if the columns of blocks differ.
    """
    blocks = [block for path in sorted(logs, key=_order_of) for block in read_blocks(storage, path)]
    # The package also expects the meta columns. Tables can do without them, and then no block has all columns.
    for problem in _Check(storage, base, frozenset({*columns, KEY}), rules, blocks).problems():
        raise UnsupportedError(
            f"the package hudi may merge records of {where} differently from Spark, because {problem}; run a "
            "compaction, or read the table with Spark"
        )


def _order_of(path: str) -> tuple[str, int, str]:
    """Return the place of a log in the order in which readers merge the logs of a file group."""
    match = _LOG.fullmatch(path.rpartition("/")[2])
    return (match[1], int(match[2]), match[3] or "") if match else (path, 0, "")


@dataclass
class _Check:
    storage: Storage
    base: str
    table: frozenset[str]
    rules: MergeRules
    # In the order in which readers merge them.
    blocks: Sequence[LogBlock]
    _keys: dict[int, Keys | None] = field(default_factory=dict)

    def problems(self) -> Iterator[str]:
        """Yield reasons why the merged records may be wrong."""
        for number, block in enumerate(self.blocks):
            texts = [name for name in self.rules.ordering if block.type_of(name) == "string"]
            if texts and not block.is_avro and not self.rules.is_by_commit:
                yield f"{block.path} is in Parquet's format, in which Spark does not order texts such as {texts[0]}"
            if block.is_partial and (markers := self.rules.delete_markers & self.table):
                yield f"{block.path} has partial updates, in which Spark does not find the column {min(markers)}"
            missing = self.table - block.columns
            if not missing:
                yield from self._ignored_write(number)
                continue
            if self.rules.ignores_defaults:
                yield f"{block.path} does not have the column {min(missing)}, and the table ignores default values"
            if not block.is_partial:
                yield from self._kept_columns(number, missing)
            yield from self._added_columns(number)

    def _ignored_write(self, number: int) -> Iterator[str]:
        """Find records that the package ignores, because a partial update of them is newer."""
        partial = [earlier for earlier in range(number) if self.blocks[earlier].is_partial]
        if self._has_late(number, partial):
            yield f"{self.blocks[number].path} has late writes to records that partial updates changed"

    def _added_columns(self, number: int) -> Iterator[str]:
        """Find records from which the package takes columns that were added after a newer record was written."""
        block = self.blocks[number]
        columns = block.columns & self.table
        before = [
            earlier
            for earlier in range(number)
            if not self.blocks[earlier].is_partial and not columns <= self.blocks[earlier].columns
        ]
        if self._has_late(number, before):
            yield f"{block.path} has late writes with columns that the newer records do not have"

    def _kept_columns(self, number: int, missing: Collection[str]) -> Iterator[str]:
        """Find records in which the package keeps values that a later record without the column replaces by null."""
        block = self.blocks[number]
        before = [earlier for earlier in range(number) if not self.blocks[earlier].columns.isdisjoint(missing)]
        if self._shares_key(number, before):
            yield f"{block.path} does not have all columns of the records that it replaces"
        if lost := self._base_columns & set(missing):
            yield f"{block.path} does not have the column {min(lost)} of the base file"

    @cached_property
    def _base_columns(self) -> frozenset[str]:
        with self.storage.open(self.base) as file:
            return frozenset(pq.ParquetFile(file).schema_arrow.names)

    def _shares_key(self, number: int, before: Sequence[int]) -> bool:
        """Return whether a block and earlier ones may have records with the same key."""
        known, block = self._known_keys(before), self._keys_of(number)
        if len(known) < len(before) or block is None:
            return bool(before)
        return any(bool(pc.any(pc.is_in(block.keys, value_set=keys.keys)).as_py()) for keys in known)

    def _has_late(self, number: int, before: Sequence[int]) -> bool:
        """Return whether a block may have a record that is older than one with the same key in earlier blocks."""
        if self.rules.is_by_commit or not self._shares_key(number, before):
            return False
        known, block = self._known_keys(before), self._keys_of(number)
        orders = [keys.order for keys in known if keys.order is not None and not keys.order.null_count]
        if len(orders) < len(before) or block is None or block.order is None or block.order.null_count:
            return True
        earlier = {"key": pa.chunked_array([keys.keys for keys in known]), "order": pa.chunked_array(orders)}
        newest = pa.table(earlier).group_by("key").aggregate([("order", "max")]).combine_chunks()
        order = newest["order_max"].take(pc.index_in(block.keys, value_set=newest["key"]))
        # Of several ordering fields, only the first one was read. The others decide between equal values.
        is_late: Any = pc.less if len(self.rules.ordering) == 1 else pc.less_equal
        return bool(pc.any(is_late(block.order, order)).as_py())

    def _known_keys(self, numbers: Sequence[int]) -> list[Keys]:
        return [keys for number in numbers if (keys := self._keys_of(number)) is not None]

    def _keys_of(self, number: int) -> Keys | None:
        if number not in self._keys:
            self._keys[number] = self.blocks[number].keys(next(iter(self.rules.ordering), None))
        return self._keys[number]
