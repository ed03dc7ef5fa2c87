"""The values of partition columns in the paths of Hudi partitions."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest
from support.hudi_tables import HudiTable

import parsieve as ps
from parsieve.lake.hudi.partitions import PartitionPaths
from parsieve.lake.slices import PartitionColumn

SCHEMA = pa.schema(
    {"i": pa.int32(), "l": pa.int64(), "s": pa.string(), "d": pa.date32(), "b": pa.bool_(), "t": pa.timestamp("us")}
)


def value(name: str, text: str, **options: str) -> object:
    """Return the value of one partition column, or None if it is unknown."""
    properties = {
        "hoodie.table.partition.fields": name,
        "hoodie.table.keygenerator.type": "SIMPLE",
        "hoodie.datasource.write.hive_style_partitioning": "true",
    }
    return PartitionPaths({**properties, **options}, SCHEMA).values(f"{name}={text}").get(name)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("i", "-5", -5),
        ("i", "2147483647", 2**31 - 1),
        ("i", "2147483648", None),
        ("l", "9223372036854775807", 2**63 - 1),
        ("l", "-9223372036854775808", -(2**63)),
        ("l", "9223372036854775808", None),
        ("l", "1.0", None),
        ("s", "1", "1"),
        ("s", "", None),
        ("s", "default", None),
        ("s", "a/b", "a/b"),
        ("s", "__HIVE_DEFAULT_PARTITION__", None),
        ("d", "2026-01-31", dt.date(2026, 1, 31)),
        ("d", "2026-02-30", None),
        ("d", "20484", None),
        ("b", "true", True),
        ("b", "false", False),
        ("b", "1", None),
        ("t", "1767225600000000", None),
    ],
)
def test_values_that_are_certain(name: str, text: str, expected: object) -> None:
    assert value(name, text) == expected


def test_values_of_other_layouts() -> None:
    assert value("s", "a%2Fb") is None
    assert value("s", "a%2Fb", **{"hoodie.datasource.write.partitionpath.urlencode": "true"}) == "a/b"
    # The property is missing in tables of old versions.
    assert value("s", "a", **{"hoodie.datasource.write.hive_style_partitioning": "false"}) is None
    for kind in ("TIMESTAMP", "CUSTOM"):
        assert value("s", "a", **{"hoodie.table.keygenerator.type": kind}) is None
    for name, expected in (("SimpleKeyGenerator", "a"), ("MyKeyGenerator", "a"), ("CustomKeyGenerator", None)):
        # Tables of Hudi 0.x have no type.
        generator = {"hoodie.table.keygenerator.type": "", "hoodie.table.keygenerator.class": f"org.example.{name}"}
        assert value("s", "a", **generator) == expected
    assert value("s", "a", **{"hoodie.table.keygenerator.type": ""}) == "a"
    assert value("s", "a", **{"hoodie.table.partition.fields": "s,i"}) is None
    two = PartitionPaths({"hoodie.table.partition.fields": "s,i", "hoodie.table.keygenerator.type": "COMPLEX"}, SCHEMA)
    assert two.values("a/7") == {"s": "a", "i": 7}
    # The property for Hive's layout may be wrong, so the first value is not certain.
    assert two.values("s=a/7") == {"i": 7}
    # Spark may filter by another value than it returns.
    assert two.values("a%2Fb/7") == {"i": 7}


def test_rows_have_the_values_of_the_paths_of_their_partitions(tmp_path: Path) -> None:
    pytest.importorskip("hudi")
    schema = pa.schema([("id", pa.int64()), ("p", pa.int32())])
    table = HudiTable(tmp_path / "t", schema)
    properties = table.timeline / "hoodie.properties"
    more = "hoodie.table.partition.fields=p\nhoodie.datasource.write.hive_style_partitioning=true\n"
    properties.write_text(properties.read_text() + more)
    instant = table.begin()
    parts = ("p=1", "p=2", "p=__HIVE_DEFAULT_PARTITION__", "p=1", "p=2")
    stats = []
    for number, part in enumerate(parts):
        rows = pa.table({"id": [number], "p": [7]}, schema=schema)
        stats.append(table.write(instant, f"g{number}-0", rows, partition=part))
    table.finish(instant, stats)
    opened = ps.open_table(str(table.folder))
    for condition, found in (("p = 1", [(0, 1), (3, 1)]), ("p = 2", [(1, 2), (4, 2)]), ("p = 7", [(2, 7)])):
        plan = opened.plan(condition)
        assert len(plan.files) == len(found)
        assert [tuple(row.values()) for row in plan.to_arrow(["id", "p"]).sort_by("id").to_pylist()] == found


def test_an_unknown_value_between_known_ones() -> None:
    column = PartitionColumn.of([5, None, 6, 5], [True, False, True, True])
    assert column.values == [5, 6]
    assert column.numbers.to_pylist() == [0, None, 1, 0]
