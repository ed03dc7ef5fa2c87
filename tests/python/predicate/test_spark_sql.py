"""Conditions as SQL for Spark. The tests in the folder `spark` compare the rows that Spark finds with them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from parsieve.predicate import parse
from parsieve.predicate.render import to_spark

SCHEMA = pa.schema(
    {
        **{f"i{bits}": kind for bits, kind in ((8, pa.int8()), (16, pa.int16()), (32, pa.int32()), (64, pa.int64()))},
        **{f"u{bits}": kind for bits, kind in ((8, pa.uint8()), (16, pa.uint16()), (32, pa.uint32()))},
        "u64": pa.uint64(),
        "f": pa.float64(),
        "s": pa.string(),
        "t": pa.timestamp("us"),
        "odd`name": pa.bool_(),
        "st": pa.struct({"x": pa.bool_()}),
    }
)


@pytest.mark.parametrize(
    ("where", "sql"),
    [
        ("i8 = 7", "(`i8` = CAST(7 AS TINYINT))"),
        ("i16 = 7", "(`i16` = CAST(7 AS SMALLINT))"),
        ("i32 = 7", "(`i32` = CAST(7 AS INT))"),
        ("i64 = 7", "(`i64` = 7L)"),
        # The next wider signed types.
        ("u8 = 7", "(`u8` = CAST(7 AS SMALLINT))"),
        ("u16 = 7", "(`u16` = CAST(7 AS INT))"),
        ("u32 = 7", "(`u32` = 7L)"),
        (f"u64 = {2**64 - 1}", f"(`u64` = CAST('{2**64 - 1}' AS DECIMAL(20, 0)))"),
        # The smallest long has no literal.
        (f"i64 = {-(2**63)}", f"(`i64` = CAST('{-(2**63)}' AS BIGINT))"),
        (f"i64 = {-(2**63) + 1}", f"(`i64` = {-(2**63) + 1}L)"),
        ("f = 1.5", "(`f` = CAST('1.5' AS DOUBLE))"),
        ("f = 0", "(`f` >= CAST('-0.0' AS DOUBLE) AND `f` <= CAST('0.0' AS DOUBLE))"),
        ("f < 0", "(`f` < CAST('0.0' AS DOUBLE))"),
        ("s = 'abc'", "(`s` = 'abc')"),
        # Settings of the session decide the meaning of these characters.
        ("s = 'it''s'", "(`s` = decode(X'69742773', 'UTF-8'))"),
        ("s LIKE '%b'", "endswith(`s`, 'b')"),
        ("s LIKE '%b%'", "contains(`s`, 'b')"),
        ("s LIKE '_b'", "(`s` LIKE '_b' ESCAPE '!')"),
        ("s ILIKE '%B'", "(`s` ILIKE '%B' ESCAPE '!')"),
        ("t = '2026-01-02 03:04:05.000006'", "(`t` = TIMESTAMP_NTZ '2026-01-02 03:04:05.000006')"),
        ('"odd`name"', "(`odd``name` = TRUE)"),
        ("st.x", "(`st`.`x` = TRUE)"),
    ],
)
def test_conditions_as_sql_for_spark(where: str, sql: str) -> None:
    assert to_spark(parse(where, SCHEMA)) == sql
