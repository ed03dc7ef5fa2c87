"""A predicate that is evaluated on arrays matches the same rows as pyarrow's own filter."""

from __future__ import annotations

import functools

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from predicate.test_languages import SQL, TABLE

from parsieve.predicate import normalize, parse
from parsieve.predicate.evaluate import conditions_of
from parsieve.predicate.expr import Always
from parsieve.predicate.render import to_pyarrow


def rows_by_conditions(table: pa.Table, text: str) -> list[int]:
    [batch] = table.to_batches()
    masks = [condition.evaluate(batch) for condition in conditions_of(parse(text, table.schema))]
    mask = functools.reduce(pc.and_kleene, masks)
    return pc.indices_nonzero(pc.fill_null(mask, False)).to_pylist()


@given(SQL)
@settings(deadline=None, max_examples=300)
def test_conditions_match_the_same_rows_as_an_expression(text: str) -> None:
    expr = parse(text, TABLE.schema)
    expected = TABLE.filter(to_pyarrow(expr))["row"].to_pylist()
    assert rows_by_conditions(TABLE, text) == expected


def test_conditions_refer_to_different_columns() -> None:
    expr = parse("i > 1 AND s = 'a' AND i < 7 AND (i = 5 OR s = 'b')", TABLE.schema)
    conditions = conditions_of(expr)
    assert [condition.names for condition in conditions] == [("i",), ("s",), ("i", "s")]
    assert [condition.tests_equality for condition in conditions] == [False, True, False]


@pytest.mark.parametrize(
    ("kind", "values", "text"),
    [
        (pa.float16(), [0.0, -0.0, 1.5, None, float("nan")], "x = 0"),
        (pa.float16(), [0.0, -0.0, 1.5, None, float("nan")], "x IN (1.5, 0)"),
        (pa.decimal32(5, 2), [1, 2, None], "x IN (1, 2)"),
        (pa.decimal64(12, 2), [1, 2, None], "x IN (1, 3)"),
        (pa.dictionary(pa.int8(), pa.string()), ["a", "b", None], "x = 'a'"),
        (pa.binary(2), [b"ab", b"cd", None], "x = X'6162'"),
        (pa.large_string(), ["a", "ab", None], "x LIKE 'a%'"),
    ],
)
def test_types_that_pyarrow_cannot_compare_directly(kind: pa.DataType, values: list[object], text: str) -> None:
    table = pa.table({"row": range(len(values)), "x": pa.array(values, kind)})
    expr = parse(text, table.schema)
    if isinstance(normalize(expr), Always):
        pytest.skip("the predicate is a constant for this type")
    assert rows_by_conditions(table, text) == table.filter(to_pyarrow(expr))["row"].to_pylist()
