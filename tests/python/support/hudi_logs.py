"""Write logs of Hudi tables by hand."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

KEY = "_hoodie_record_key"
# The types of the fields of test records. Others are nullable longs.
SCHEMAS: dict[str, Any] = {
    KEY: "string",
    "text": ["null", "string"],
    "flag": "boolean",
    "ratio": "double",
    "price": {"type": "fixed", "name": "money", "namespace": "hoodie", "size": 3},
    "cost": "hoodie.money",
    "kind": {"type": "enum", "name": "kinds", "symbols": ["x", "y"]},
    "tags": {"type": "array", "items": "string"},
    "counts": {"type": "map", "values": "long"},
    "day": {"type": "int", "logicalType": "date"},
    "place": ["null", {"type": "record", "name": "places", "fields": [{"name": "x", "type": "int"}]}],
}
LONG = ["null", "long"]


def number(value: int) -> bytes:
    """Encode a number of Avro."""
    value, out = (value << 1) ^ (value >> 63), bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def encode(value: Any, kind: Any) -> bytes:
    """Encode a value of one of the types of test records."""
    match kind:
        case ["null", inner]:
            return number(0) if value is None else number(1) + encode(value, inner)
        case "string":
            return number(len(str(value).encode())) + str(value).encode()
        case "boolean":
            return bytes([value])
        case "double":
            return struct.pack("<d", value)
        case "hoodie.money" | {"type": "fixed"}:
            assert isinstance(value, bytes)
            return value
        case {"type": "array", "items": items}:
            return number(len(value)) + b"".join(encode(item, items) for item in value) + number(0)
        case {"type": "map", "values": values}:
            pairs = b"".join(encode(key, "string") + encode(item, values) for key, item in value.items())
            return number(len(value)) + pairs + number(0)
        case {"type": "record", "fields": fields}:
            return b"".join(encode(value[field["name"]], field["type"]) for field in fields)
    return number(value)


def schema_of(columns: Sequence[str], kinds: Mapping[str, Any] = SCHEMAS) -> dict[str, Any]:
    """Return the schema of a block with these columns."""
    fields = [{"name": name, "type": kinds.get(name, LONG)} for name in columns]
    return {"type": "record", "name": "t_record", "namespace": "hoodie.t", "fields": fields}


def content(rows: Sequence[Mapping[str, Any]], kinds: Mapping[str, Any] = SCHEMAS) -> bytes:
    """Return the content of a block with these rows, which have the same columns."""
    fields = schema_of(list(rows[0]), kinds)["fields"]
    records = [b"".join(encode(row[field["name"]], field["type"]) for field in fields) for row in rows]
    return struct.pack(">ii", 3, len(rows)) + b"".join(struct.pack(">i", len(record)) + record for record in records)


def block(kind: int, header: Mapping[int, str], data: bytes, version: int = 1) -> bytes:
    """Return a block with a header and a content."""
    body = struct.pack(">iii", version, kind, len(header))
    for key, value in header.items():
        body += struct.pack(">ii", key, len(value.encode())) + value.encode()
    body += struct.pack(">q", len(data)) + data + struct.pack(">i", 0)
    # The block ends with its length, which includes the marker at its start, but neither of the two lengths.
    size = len(body) + 8
    return b"#HUDI#" + struct.pack(">q", size) + body + struct.pack(">q", size + 6)


def data_block(
    rows: Sequence[Mapping[str, Any]],
    *,
    is_partial: bool = False,
    kinds: Mapping[str, Any] = SCHEMAS,
    instant: str = "20260101000000000",
) -> bytes:
    """Return a block of records."""
    header = {0: instant, 2: json.dumps(schema_of(list(rows[0]), kinds))}
    return block(3, header | ({7: "true"} if is_partial else {}), content(rows, kinds))


def write_log(folder: Path, instant: int, *blocks: bytes) -> str:
    """Write the log of an instant, and return its name."""
    name = f".group-0_{instant:017}.log.1_0-1-2"
    (folder / name).write_bytes(b"".join(blocks))
    return name
