"""Spark's conditions become predicates of the table only if both have the same meaning. No session is needed."""

from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pip install 'parsieve[spark]'")


def test_only_conditions_with_the_same_meaning_are_used() -> None:
    import datetime as dt

    import pyarrow.compute as pc
    from pyspark.sql import types

    from parsieve.spark.pushdown.catalyst import Filter
    from parsieve.spark.pushdown.conditions import Types

    schema = pa.schema(
        [
            pa.field("day", pa.date32()),
            pa.field("at", pa.timestamp("us", "UTC")),
            pa.field("ns", pa.timestamp("ns")),
            pa.field("x", pa.float64(), metadata={"PARQUET:field_id": "7"}),
            pa.field("text", pa.string()),
            pa.field("st", pa.struct({"n": pa.int16()})),
        ]
    )
    spark = types.StructType(
        [
            types.StructField("day", types.DateType()),
            types.StructField("at", types.TimestampType()),
            types.StructField("ns", types.TimestampType()),
            types.StructField("x", types.DoubleType()),
            types.StructField("text", types.IntegerType()),
            types.StructField("st", types.StructType([types.StructField("n", types.IntegerType())])),
            types.StructField("_hoodie_file_name", types.StringType()),
        ]
    )

    def asked(part: pc.Expression, ids: Any = None, moments: bool = True) -> str | None:
        found = Types(spark, ids).predicate(Filter((), None, (part,)), schema, moments)
        return None if found is None else str(found)

    old, new = dt.date(1582, 10, 4), dt.date(1582, 10, 16)
    assert asked(pc.field("day") > old) is None, "Spark may count such days by another calendar"
    assert asked(pc.field("day").isin([new, old])) is None
    assert asked(pc.field("day") > new) == "day > 1582-10-16"
    moment = pa.scalar(dt.datetime(2026, 1, 1, tzinfo=dt.UTC), pa.timestamp("us", "UTC"))
    assert asked(pc.field("at") == moment) == "at = 2026-01-01 00:00:00.000000Z"
    assert asked(pc.field("at") == moment, moments=False) is None
    assert asked(pc.field("at") < pa.scalar(0, pa.int64()).cast(moment.type)) is not None
    assert asked(pc.field("at") < pa.scalar(-(2**52), pa.int64()).cast(moment.type)) is None
    assert asked(pc.field("ns") == moment.cast(pa.timestamp("us"))) is None, "Spark reads a moment, and this is none"
    cut = asked(pc.field("ns") == moment)
    assert cut == "ns >= 2025-12-31 23:59:59.999999000 AND ns <= 2026-01-01 00:00:00.000000999", "Spark cuts them off"
    assert asked(pc.field("ns") == moment, moments=False) is None
    assert asked(pc.field("text") == pa.scalar(5, pa.int32())) is None, "text to us, and a number to Spark"
    assert asked(pc.field("st", "n") == pa.scalar(5, pa.int32())) == "st.n = 5"
    assert asked(pc.field("_hoodie_file_name") == "f") is None, "no column of ours"
    assert asked(pc.field("x") > 1.5) is not None
    assert asked(pc.field("x") > 1.5, {("x",): 7}) is not None
    assert asked(pc.field("x") > 1.5, {("x",): 8}) is None, "another column that took the name"
    assert "nan" not in str(asked(pc.field("x") > 1.5)), "NaN is greater to Spark, and is not left out"
