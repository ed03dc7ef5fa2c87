"""The headers, keys and ordering values in the logs of Hudi tables."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs
from support import hudi_logs
from support.hudi_logs import KEY, block, content, data_block, schema_of, write_log

from parsieve import FormatError, ParsieveError, UnsupportedError
from parsieve.lake.hudi.log_blocks import LogBlock, read_blocks
from parsieve.lake.storage.storage import Storage

ROWS: list[dict[str, Any]] = [{KEY: "a", "v": 3, "c": None}, {KEY: "b", "v": None, "c": 5}]
ALL_TYPES = {
    KEY: "k",
    "text": None,
    "flag": True,
    "ratio": 0.5,
    "price": b"abc",
    "cost": b"xyz",
    "kind": 1,
    "tags": ["p", "q"],
    "counts": {"n": 1},
    "day": 19_000,
    "place": {"x": 7},
    "v": -(2**63),
}


def blocks_of(folder: Path, *parts: bytes) -> list[LogBlock]:
    return list(read_blocks(Storage(folder), write_log(folder, 1, *parts)))


def test_blocks_have_columns_keys_and_order(tmp_path: Path) -> None:
    deleted = block(1, {0: "1"}, struct.pack(">ii", 3, 0))
    full, partial = blocks_of(tmp_path, data_block(ROWS), deleted, data_block([{KEY: "a", "v": 9}], is_partial=True))
    assert full.columns == {KEY, "v", "c"}
    assert partial.columns == {KEY, "v"}
    assert [full.is_partial, partial.is_partial] == [False, True]
    keys = full.keys("v")
    assert keys is not None
    assert keys.keys.to_pylist() == ["a", "b"]
    assert keys.order is not None
    assert keys.order.to_pylist() == [3, None]


def test_records_of_all_types(tmp_path: Path) -> None:
    [only] = blocks_of(tmp_path, data_block([ALL_TYPES, ALL_TYPES]))
    for name, value in (("v", -(2**63)), ("day", 19_000)):
        keys = only.keys(name)
        assert keys is not None
        assert keys.order is not None
        assert keys.order.to_pylist() == [value, value]
    for other in ("text", "ratio", "price", "tags", "missing", None):
        keys = only.keys(other)
        assert keys is not None
        assert keys.keys.to_pylist() == ["k", "k"]
        assert keys.order is None


def test_records_in_other_formats_have_no_keys(tmp_path: Path) -> None:
    header = {2: json.dumps(schema_of([KEY, "v"]))}
    assert [part.keys("v") for part in blocks_of(tmp_path, block(4, header, b"x"), block(5, header, b"x"))] == [
        None
    ] * 2
    assert blocks_of(tmp_path, data_block([{"v": 3}]))[0].keys("v") is None


@pytest.mark.parametrize("missing", [1, 8, 9, 100])
def test_blocks_after_an_incomplete_one(tmp_path: Path, missing: int) -> None:
    first, last = data_block(ROWS), data_block([{KEY: "z", "v": 1}])
    assert len(blocks_of(tmp_path, first[:-missing])) == 0
    found = blocks_of(tmp_path, last, b"#HUDI#" + struct.pack(">q", 1 << 40) + first[14:-missing], last)
    assert [part.columns for part in found] == [{KEY, "v"}, {KEY, "v"}]
    # The later block is longer than the missing part, so the incomplete one ends inside of it.
    assert [part.columns for part in blocks_of(tmp_path, first[:-missing], last)] == [{KEY, "v"}]


def test_an_incomplete_block_at_the_end_of_an_object() -> None:
    """Unlike a local file, an object of a store raises an error for a position beyond its end."""
    store = fs._MockFileSystem()
    with store.open_output_stream("log") as file:
        file.write(data_block(ROWS) + data_block(ROWS)[:-20])
    assert len(list(read_blocks(Storage((store, "")), "log"))) == 1


def test_blocks_larger_than_a_chunk(tmp_path: Path) -> None:
    rows = [{KEY: f"{number:06}", "text": "x" * 50, "v": number} for number in range(3_000)]
    wide = [{KEY: "k", **{f"column_{number:05}": number for number in range(3_000)}}]
    long, broad, small = blocks_of(tmp_path, data_block(rows), b"\0" * 200_000, data_block(wide), data_block(ROWS))
    keys = long.keys("v")
    assert keys is not None
    assert keys.keys.to_pylist() == [row[KEY] for row in rows]
    assert len(broad.columns) == 3_001
    assert small.columns == {KEY, "v", "c"}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (block(3, {2: json.dumps(schema_of([KEY]))}, b"", version=2), "version 2 of the log format"),
        (block(3, {}, b""), "without a valid schema"),
        (block(3, {2: "[]"}, b""), "without a valid schema"),
        (block(3, {2: '{"fields": 3}'}, b""), "not a record"),
        (block(3, {2: '{"fields": [{"name": 3}]}'}, b""), "not a record"),
        (block(3, {2: "[" * 100_000}, b""), "without a valid schema"),
    ],
)
def test_damaged_headers(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(ParsieveError, match=message):
        blocks_of(tmp_path, data)


@pytest.mark.parametrize(
    ("kinds", "data", "error"),
    [
        ({}, b"", FormatError),
        ({}, struct.pack(">iI", 2, 0), UnsupportedError),
        ({}, struct.pack(">iI", 3, 2**32 - 1), FormatError),
        ({}, content(ROWS) + b"x", FormatError),
        ({"c": "unknown"}, content(ROWS), UnsupportedError),
        ({"c": ["null", "int", "long"]}, content(ROWS), UnsupportedError),
        ({"c": {"type": "record", "name": "r", "fields": [3]}}, content(ROWS), UnsupportedError),
        ({"c": {"type": "fixed", "name": "r", "size": -1}}, content(ROWS), UnsupportedError),
    ],
)
def test_damaged_contents(tmp_path: Path, kinds: dict[str, object], data: bytes, error: type[Exception]) -> None:
    header = {2: json.dumps(schema_of(list(ROWS[0]), hudi_logs.SCHEMAS | kinds))}
    [only] = blocks_of(tmp_path, block(3, header, data))
    with pytest.raises(error):
        only.keys("v")


def test_nested_types_do_not_multiply(tmp_path: Path) -> None:
    """Each type has ten fields of the type before."""
    kinds: dict[str, object] = {"c0": {"type": "fixed", "name": "n0", "size": 1}}
    for level in range(1, 12):
        fields = [{"name": f"f{number}", "type": f"n{level - 1}"} for number in range(10)]
        kinds[f"c{level}"] = {"type": "record", "name": f"n{level}", "fields": fields}
    header = {2: json.dumps(schema_of([KEY, *kinds], hudi_logs.SCHEMAS | kinds))}
    [only] = blocks_of(tmp_path, block(3, header, content([{KEY: "a"}])))
    with pytest.raises(UnsupportedError, match="too large"):
        only.keys("v")


def test_random_damage(tmp_path: Path) -> None:
    """Damaged logs have blocks, or raise an error of parsieve."""
    chance = random.Random(1)
    whole = data_block([ALL_TYPES] * 3) + data_block(ROWS, is_partial=True)
    found = 0
    for _ in range(2_000):
        data = bytearray(whole)
        for _ in range(chance.choice([1, 1, 3])):
            data[chance.randrange(len(data))] = chance.choice([0, 1, 127, 255, chance.randrange(256)])
        try:
            for part in blocks_of(tmp_path, bytes(data)):
                part.keys("v")
                found += 1
        except ParsieveError:
            pass
    assert found
