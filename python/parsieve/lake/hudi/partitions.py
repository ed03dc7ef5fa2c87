"""Read the values of partition columns from the path of a Hudi partition."""

from __future__ import annotations

import contextlib
import datetime as dt
import re
from collections.abc import Mapping
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.types as pt

# Key generators that may write other texts than the values, by their types and by the names of their classes. Spark
# then takes some values from the file. With any other generator, also an unknown one, it takes them from the path.
_SPECIAL_TYPES = {"TIMESTAMP", "TIMESTAMP_AVRO", "CUSTOM", "CUSTOM_AVRO"}
_SPECIAL_CLASSES = {
    "TimestampBasedKeyGenerator",
    "TimestampBasedAvroKeyGenerator",
    "CustomKeyGenerator",
    "CustomAvroKeyGenerator",
}
_NULLS = {"__HIVE_DEFAULT_PARTITION__", "default", ""}


class PartitionPaths:
    """Reads the values of partition columns from paths.

    A file may contain other values. For example, with a global index and `update.partition.path=false`, a record keeps
    its partition when its partition column changes. Readers then return the value of the path, as Spark does.
    """

    def __init__(self, properties: Mapping[str, str], schema: pa.Schema) -> None:
        names = [name for name in properties.get("hoodie.table.partition.fields", "").split(",") if name]
        is_known = not _has_special_generator(properties) and all(name in schema.names for name in names)
        self._fields = [schema.field(name) for name in names] if is_known else []
        self._has_names = properties.get("hoodie.datasource.write.hive_style_partitioning") == "true"
        self._is_escaped = properties.get("hoodie.datasource.write.partitionpath.urlencode") == "true"

    def values(self, partition: str) -> dict[str, object]:
        """Return the values that are certain, by column. Readers take the other ones from the file."""
        # Like Spark, take slashes as part of the value if there is only one column.
        parts = [partition] if len(self._fields) == 1 else partition.split("/")
        values: dict[str, object] = {}
        if len(parts) != len(self._fields):
            return values
        for part, field in zip(parts, self._fields, strict=True):
            text = part
            if self._has_names:
                name, _, text = part.partition("=")
                if name != field.name:
                    return {}
            elif part.startswith(f"{field.name}="):
                # A table of an old version may lack the property, or an upgrade may have written a wrong one.
                continue
            if self._is_escaped:
                text = unquote(text)
            elif "%" in text:
                # Spark replaces escapes that Hudi did not write, but does not filter by the result.
                continue
            value = _value(text, field.type)
            if value is not None:
                values[field.name] = value
        return values


def _has_special_generator(properties: Mapping[str, str]) -> bool:
    # Before Hudi 1.0, tables have only the name of the class, or neither.
    name = properties.get("hoodie.table.keygenerator.class", "").rpartition(".")[2]
    return properties.get("hoodie.table.keygenerator.type") in _SPECIAL_TYPES or name in _SPECIAL_CLASSES


def _value(text: str, kind: pa.DataType) -> object:
    """Return the value of a text in a path, or None if it is not certain."""
    if pt.is_integer(kind) and re.fullmatch(r"-?\d{1,19}", text):
        value = int(text)
        return value if -(1 << (kind.bit_width - 1)) <= value < 1 << (kind.bit_width - 1) else None
    if pt.is_date32(kind) and re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        with contextlib.suppress(ValueError):
            return dt.date.fromisoformat(text)
    if pt.is_boolean(kind):
        return {"true": True, "false": False}.get(text)
    if pt.is_string(kind) and text not in _NULLS:
        return text
    # Writers use several formats for timestamps, and for dates.
    return None
