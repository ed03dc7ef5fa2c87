"""Delta tables with deletion vectors, which deltalake does not write."""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyroaring
from deltalake import write_deltalake

Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def add_actions(folder: Path) -> list[dict[str, Any]]:
    """Return the add actions of the first version."""
    lines = (folder / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    return [action["add"] for action in map(json.loads, lines) if "add" in action]


def z85(data: bytes) -> str:
    """Encode bytes, whose number is a multiple of four, as Delta's log does."""
    text = ""
    for (word,) in struct.iter_unpack(">I", data):
        text += "".join(Z85[word // 85**place % 85] for place in (4, 3, 2, 1, 0))
    return text


def write_vector(folder: Path, positions: Any, inline: bool = False, optimize: bool = False) -> dict[str, Any]:
    """Write a deletion vector with an independent implementation of Roaring bitmaps, and return its descriptor."""
    bitmap = pyroaring.BitMap64(positions)
    if optimize:
        bitmap.run_optimize()
    data = (1681511377).to_bytes(4, "little") + bitmap.serialize()
    descriptor = {"sizeInBytes": len(data), "cardinality": len(bitmap)}
    if inline:
        return descriptor | {"storageType": "i", "pathOrInlineDv": z85(data + b"\0" * (-len(data) % 4))}
    name = uuid.uuid4()
    (folder / "ab").mkdir(exist_ok=True)
    frame = len(data).to_bytes(4, "big") + data + zlib.crc32(data).to_bytes(4, "big")
    (folder / "ab" / f"deletion_vector_{name}.bin").write_bytes(b"\1" + b"other" + frame)
    return descriptor | {"storageType": "u", "pathOrInlineDv": "ab" + z85(name.bytes), "offset": 6}


def write_table_with_vectors(folder: Path, count: int = 200_000) -> list[dict[str, Any]]:
    """Write a table of two partitions that may have deletion vectors, and return its add actions."""
    values = list(range(count))
    write_deltalake(
        str(folder),
        pa.table({"id": values, "p": [value % 2 for value in values]}),
        partition_by=["p"],
        configuration={"delta.enableDeletionVectors": "true"},
    )
    return add_actions(folder)
