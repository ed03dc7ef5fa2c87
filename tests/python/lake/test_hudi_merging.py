"""Which Hudi file groups the package `hudi` may merge differently from Spark, and the columns of merged rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.hudi_logs import KEY, block, data_block, schema_of, write_log

from parsieve import UnsupportedError
from parsieve.lake.hudi.merging import MergeRules, check_merge
from parsieve.lake.hudi.table import _MergedRows
from parsieve.lake.storage.storage import Storage

BY_ORDER = MergeRules(is_by_commit=False, ordering=("v",), ignores_defaults=False)
BY_COMMIT = MergeRules(is_by_commit=True, ordering=("v",), ignores_defaults=False)
TABLE = ("v", "a", "b")
DELETE_FIELD = "hoodie.record.merge.property.hoodie.payload.delete.field"
LATE = "late writes"


def record(key: str, order: Any, *columns: str) -> dict[str, Any]:
    return {KEY: key, "v": order, **dict.fromkeys(columns, 1)}


def check(
    folder: Path,
    *blocks: tuple[Mapping[str, Any], bool],
    rules: MergeRules = BY_ORDER,
    base: tuple[str, ...] = ("v", "a"),
    table: tuple[str, ...] = TABLE,
) -> None:
    """Check a file group. Each block is a record, and whether it is a partial update."""
    pq.write_table(pa.table({name: [0] for name in base}), folder / "base.parquet")
    logs = [
        write_log(folder, number, data_block([row, {**row, KEY: f"of {number}"}], is_partial=is_partial))
        for number, (row, is_partial) in enumerate(blocks)
    ]
    # The order of the list does not matter.
    check_merge(Storage(folder), str(folder / "base.parquet"), logs[::-1], table, rules, "p/group")


def refused(folder: Path, message: str, *blocks: tuple[Mapping[str, Any], bool], **options: Any) -> None:
    with pytest.raises(
        UnsupportedError, match=rf"merge records of p/group differently from Spark, because .*{message}"
    ):
        check(folder, *blocks, **options)


def full(order: Any, key: str = "k") -> tuple[dict[str, Any], bool]:
    return record(key, order, "a", "b"), False


def test_blocks_with_all_columns(tmp_path: Path) -> None:
    check(tmp_path, full(9), full(5), full(7))


@pytest.mark.parametrize("order", [5, 9, 10])
def test_a_late_write_after_a_partial_update(tmp_path: Path, order: int) -> None:
    blocks = [(record("k", 9, "a"), True), full(order)]
    if order == 5:
        refused(tmp_path, f"{LATE} to records that partial updates changed", *blocks)
    else:
        check(tmp_path, *blocks)
    check(tmp_path, *blocks, rules=BY_COMMIT)
    check(tmp_path, *blocks[::-1])
    check(tmp_path, blocks[0], full(order, key="another"))


@pytest.mark.parametrize("is_partial", [False, True])
@pytest.mark.parametrize("order", [5, 9, 10])
def test_a_late_write_with_an_added_column(tmp_path: Path, order: int, is_partial: bool) -> None:
    """The table has a third column `c`, which was added later."""
    blocks = [(record("k", 9, "a"), False), (record("k", order, "a", "b"), is_partial)]
    table = (*TABLE, "c")
    if order == 5:
        refused(tmp_path, f"{LATE} with columns that the newer records do not have", *blocks, table=table)
    else:
        check(tmp_path, *blocks, table=table)
    check(tmp_path, *blocks, table=table, rules=BY_COMMIT)
    # After one added column, the later block has all columns.
    check(tmp_path, blocks[0], (blocks[1][0], False))
    check(tmp_path, blocks[0], (record("another", order, "a", "b"), is_partial), table=table)


def test_blocks_without_meta_columns(tmp_path: Path) -> None:
    """The package takes all of them for partial updates, and there are no keys to compare."""
    pq.write_table(pa.table({"v": [0]}), tmp_path / "base.parquet")
    logs = [write_log(tmp_path, number, data_block([row])) for number, row in enumerate([{"v": 9}, {"v": 5, "a": 1}])]
    with pytest.raises(UnsupportedError, match=LATE):
        check_merge(Storage(tmp_path), str(tmp_path / "base.parquet"), logs, ("v", "a"), BY_ORDER, "p/group")


@pytest.mark.parametrize("rules", [BY_ORDER, BY_COMMIT])
def test_a_block_without_a_column_of_an_earlier_one(tmp_path: Path, rules: MergeRules) -> None:
    narrow = record("k", 10, "a")
    refused(
        tmp_path, "does not have all columns of the records that it replaces", full(9), (narrow, False), rules=rules
    )
    check(tmp_path, full(9), (narrow, True), rules=rules)
    check(tmp_path, full(9), ({**narrow, KEY: "another"}, False), rules=rules)


def test_a_block_without_a_column_of_the_base_file(tmp_path: Path) -> None:
    refused(tmp_path, "does not have the column b of the base file", (record("k", 9, "a"), False), base=TABLE)
    check(tmp_path, (record("k", 9, "a"), True), base=TABLE)


def test_ignored_default_values(tmp_path: Path) -> None:
    rules = MergeRules(is_by_commit=False, ordering=("v",), ignores_defaults=True)
    refused(tmp_path, "column b, and the table ignores default values", (record("k", 9, "a"), False), rules=rules)
    check(tmp_path, full(9), full(5), rules=rules)


@pytest.mark.parametrize("ordering", ["text", "missing", None])
def test_ordering_values_that_are_not_compared(tmp_path: Path, ordering: str | None) -> None:
    """Every record with the key of a partial update counts as late."""
    rules = MergeRules(is_by_commit=False, ordering=(ordering,) if ordering else (), ignores_defaults=False)
    blocks = [({**record("k", 1, "a"), "text": "1"}, True), ({**record("k", 2, "a", "b"), "text": "2"}, False)]
    refused(tmp_path, LATE, *blocks, rules=rules)


def test_partial_updates_of_tables_with_a_column_that_marks_deleted_records(tmp_path: Path) -> None:
    block = record("k", 9, "a")
    for marker, properties in (("_hoodie_is_deleted", {}), ("b", {DELETE_FIELD: "b"})):
        rules, table = MergeRules.of({"hoodie.table.ordering.fields": "v", **properties}), (*TABLE, marker)
        refused(tmp_path, f"Spark does not find the column {marker}", (block, True), rules=rules, table=table)
        check(tmp_path, (block, False), rules=rules, table=table)


def test_texts_that_order_records_in_parquet_logs(tmp_path: Path) -> None:
    """Spark compares other values than those of the records."""
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "base.parquet")
    log = write_log(tmp_path, 1, block(5, {2: json.dumps(schema_of([KEY, "text"]))}, b"x"))
    for field, is_by_commit, is_refused in (("text", False, True), ("text", True, False), ("v", False, False)):
        rules = MergeRules(is_by_commit=is_by_commit, ordering=(field,), ignores_defaults=False)
        with pytest.raises(UnsupportedError, match="Parquet's format") if is_refused else nullcontext():
            check_merge(Storage(tmp_path), str(tmp_path / "base.parquet"), [log], ["text"], rules, "p/group")


def test_null_ordering_values(tmp_path: Path) -> None:
    refused(tmp_path, LATE, (record("k", None, "a"), True), full(5))
    refused(tmp_path, LATE, (record("k", 5, "a"), True), full(None))


def test_two_ordering_fields(tmp_path: Path) -> None:
    rules = MergeRules(is_by_commit=False, ordering=("v", "a"), ignores_defaults=False)
    refused(tmp_path, LATE, (record("k", 5, "a"), True), full(5), rules=rules)
    check(tmp_path, (record("k", 5, "a"), True), full(6), rules=rules)


def test_rules_of_properties() -> None:
    assert MergeRules.of({}) == MergeRules(is_by_commit=False, ordering=(), ignores_defaults=False)
    assert MergeRules.of(
        {
            "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
            "hoodie.table.ordering.fields": "v, a",
            "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
        }
    ) == MergeRules(is_by_commit=True, ordering=("v", "a"), ignores_defaults=True)
    payload = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
    old = {"hoodie.compaction.payload.class": payload, "hoodie.table.precombine.field": "v"}
    assert MergeRules.of(old) == MergeRules(is_by_commit=True, ordering=("v",), ignores_defaults=False)
    mode = {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
    assert MergeRules.of(old | mode) == MergeRules(is_by_commit=False, ordering=("v",), ignores_defaults=False)


def test_merged_rows_get_the_columns_that_they_do_not_have(tmp_path: Path) -> None:
    native: Any = SimpleNamespace(partition_values={"day": "a"})
    schema = pa.schema([("added", pa.int64()), ("id", pa.int64()), ("day", pa.string()), ("other", pa.string())])
    merged = _MergedRows(native, Storage(tmp_path))._conform(pa.record_batch({"id": [1, 2]}), schema, "group")
    assert merged.to_pylist() == [{"added": None, "id": number, "day": "a", "other": None} for number in (1, 2)]
