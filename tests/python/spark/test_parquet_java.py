"""parsieve and parquet-java write filters with the same bits, and get the same answers from them."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.parquet_java import COLUMNS, java_filters, write

import parsieve as ps

pytestmark = pytest.mark.spark


def leaves(name: str, column: Any) -> dict[str, Any]:
    """Return the leaves of a column by the last name of their paths."""
    array = column.combine_chunks()
    if pa.types.is_list(array.type):
        return {"": array.flatten()}
    if pa.types.is_struct(array.type):
        return {field.name: pc.struct_field(array, field.name) for field in array.type}
    if pa.types.is_map(array.type):
        return {"key": array.keys, "value": array.items}
    return {"": array}


class Written(NamedTuple):
    path: Path
    instants: str
    legacy: bool


@pytest.fixture(
    params=[
        (instants, legacy) for instants in ("INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS") for legacy in (False, True)
    ],
    ids=lambda of: f"{of[0]}-{'legacy' if of[1] else 'modern'}",
)
def written(request: pytest.FixtureRequest, spark: Any, tmp_path: Path) -> Written:
    instants, legacy = request.param
    path = write(
        spark,
        tmp_path / "folder",
        {
            "spark.sql.parquet.outputTimestampType": instants,
            "spark.sql.parquet.writeLegacyFormat": str(legacy).lower(),
        },
        {"parquet.bloom.filter.enabled": "true", "parquet.bloom.filter.max.bytes": "2048"},
    )
    return Written(path, instants, legacy)


def test_filters_of_parquet_java_find_every_value_and_have_our_bits(written: Written) -> None:
    file = pq.ParquetFile(written.path)
    with ps.open_filters(written.path) as filters:
        assert filters.num_row_groups > 1
        assert str(filters.created_by).startswith("parquet-mr version 1.")
        assert (
            filters.column_type("instant")
            == {
                "INT96": "INT96 timestamp[ns]",
                "TIMESTAMP_MICROS": "INT64 instant[us]",
                "TIMESTAMP_MILLIS": "INT64 instant[ms]",
            }[written.instants]
        )
        assert str(filters.column_type("decimal9")).startswith("FIXED_LEN_BYTE_ARRAY(4)" if written.legacy else "INT32")
        names: dict[str, list[str]] = {name.split(".")[0]: [] for name in map(str, filters.columns)}
        for name in map(str, filters.columns):
            names[name.split(".")[0]].append(name)
        for number in range(filters.num_row_groups):
            table = file.read_row_group(number)
            for top, paths in names.items():
                for path, values in zip(paths, leaves(top, table[top]).values(), strict=True):
                    if top == "flag":
                        with pytest.raises(ps.UnsupportedError):
                            filters.filter(number, path)
                        continue
                    theirs = filters.filter(number, path)
                    assert theirs is not None
                    assert theirs.check(values).false_count == 0
                    physical = str(filters.column_type(path)).split(" ")[0]
                    ours = ps.BloomFilter(num_bytes=theirs.num_bytes, type=values.type, physical_type=physical)
                    ours.insert(values)
                    assert bytes(memoryview(ours)) == bytes(memoryview(theirs)), path
                    assert 0 < theirs.estimated_fpp < 0.2, path


def test_filters_of_parquet_java_answer_for_python_values(written: Written) -> None:
    """No row group that contains a value is excluded, and most others are."""
    file = pq.ParquetFile(written.path)
    groups = [file.read_row_group(number) for number in range(file.num_row_groups)]
    kept = asked = 0
    with ps.open_filters(written.path) as filters:
        for name in COLUMNS:
            if name in ("list", "struct", "map"):
                continue
            for number, group in enumerate(groups):
                for value in group[name].slice(0, 300).to_pylist()[::60]:
                    if value is None:
                        continue
                    if name == "instant" and written.instants == "INT96":
                        # pyarrow returns INT96 timestamps without their time zone, which is always UTC.
                        value = value.replace(tzinfo=dt.UTC)
                    answers = filters.might_contain({name: value})
                    assert answers[number], (name, value)
                    if name not in ("byte", "flag"):
                        kept, asked = kept + sum(answers) - 1, asked + len(answers) - 1
    assert kept < 0.3 * asked


def test_parquet_java_gives_the_same_answers(spark: Any, tmp_path: Path) -> None:
    """Compare with parquet-java's own hash and probe, for present and absent values."""
    path = write(
        spark, tmp_path / "t", {}, {"parquet.bloom.filter.enabled": "true", "parquet.bloom.filter.max.bytes": "512"}
    )
    binary = spark._jvm.org.apache.parquet.io.api.Binary
    probes: dict[str, tuple[list[Any], Callable[[Any], Any]]] = {
        "long": ([id * 1000003 + (1 << 40) for id in range(-300, 300)], lambda value: value),
        "int": ([id * 1000003 - 500000000 for id in range(-300, 300)], lambda value: value),
        "double": ([id / 3 - 7 for id in range(-300, 300)], lambda value: value),
        "string": ([f"ü{id}" for id in range(-300, 300)], binary.fromString),
        "binary": ([f"b{id}".encode() for id in range(-300, 300)], binary.fromConstantByteArray),
    }
    compared = excluded = 0
    with ps.open_filters(path) as filters:
        for number, name, theirs in java_filters(spark, path):
            if number > 0 or name not in probes:
                continue
            values, to_java = probes[name]
            ours = filters.filter(number, name)
            assert ours is not None
            answers = [theirs.findHash(theirs.hash(to_java(value))) for value in values]
            assert answers == [ours.might_contain(value) for value in values], name
            compared, excluded = compared + 1, excluded + answers.count(False)
    assert compared == len(probes)
    assert excluded > 500
