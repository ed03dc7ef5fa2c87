"""Conditions on lists and maps in each language and engine, and conditions that are not understood."""

from __future__ import annotations

from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from parsieve.predicate import parse, unknowns
from parsieve.predicate.evaluate import conditions_of
from parsieve.predicate.expr import Not
from parsieve.predicate.render import to_duckdb, to_polars

KINDS = {
    "list": pa.list_(pa.string()),
    "large list": pa.large_list(pa.string()),
    "view": pa.list_view(pa.string()),
    "fixed size": pa.list_(pa.string(), 2),
}
VALUES = [["a", "b"], None, ["b", None], [None, None], ["c", "a"]]
TABLE = pa.table(
    {
        "id": [1, 2, 3, 4, 5],
        "tags": pa.array([["a", "b"], None, [], [None], ["c", "a"]], pa.list_(pa.string())),
        "sizes": pa.array([[1.5, 0.0], [float("nan")], [-0.0], None, [2.0, None]], pa.list_(pa.float64())),
        "labels": pa.array(
            [[("k", 1)], [("k", None)], [], None, [("j", 1), ("k", 7)]], pa.map_(pa.string(), pa.int64())
        ),
    }
)
# For each condition, the rows for which it is true, and the rows for which its negation is.
CONDITIONS = {
    "list_contains(tags, 'a')": ([1, 5], [3, 4]),
    "array_contains(tags, 'b')": ([1], [3, 4, 5]),
    "list_has_any(tags, ['b', 'c'])": ([1, 5], [3, 4]),
    "list_has_all(tags, ['a', 'c'])": ([5], [1, 3, 4]),
    "list_contains(sizes, 0)": ([1, 3], [2, 5]),
    "list_contains(sizes, 9)": ([], [1, 2, 3, 5]),
    "labels['k'] = 1": ([1], [5]),
    "labels['k'] > 1": ([5], [1]),
    "labels['k'] IN (1, 7)": ([1, 5], []),
    "labels['k'] != 1": ([5], [1]),
    "list_contains(map_keys(labels), 'j')": ([5], [1, 2, 3]),
    "list_contains(map_values(labels), 1)": ([1, 5], [2, 3]),
    "list_contains(tags, 'a') AND list_contains(tags, 'b')": ([1], [3, 4, 5]),
}


def rows(expr: Any, table: pa.Table = TABLE) -> list[int]:
    """Return the ids of the rows for which a condition is true."""
    [batch] = table.to_batches()
    for condition in conditions_of(expr):
        batch = batch.filter(condition.evaluate(batch))
    ids: list[int] = batch["id"].to_pylist()
    return ids


@pytest.mark.parametrize("text", CONDITIONS)
def test_a_condition_means_the_same_in_all_engines(text: str) -> None:
    with duckdb.connect() as connection:
        connection.register("t", TABLE)
        for negated, expected in zip((False, True), CONDITIONS[text], strict=True):
            written = f"NOT ({text})" if negated else text
            expr = parse(written, TABLE.schema)
            assert not unknowns(expr)
            assert rows(expr) == expected
            for sql in (written, to_duckdb(expr)):
                found = connection.execute(f"SELECT id FROM t WHERE {sql} ORDER BY id").fetchall()
                assert [value for (value,) in found] == expected, sql
            if "labels" not in text:
                frame = pl.from_arrow(TABLE.drop_columns(["labels"]))
                assert isinstance(frame, pl.DataFrame)
                assert frame.filter(to_polars(expr))["id"].to_list() == expected


def test_a_map_is_a_list_of_entries_to_polars() -> None:
    frame = pl.from_arrow(TABLE.select(["id", "labels"]))
    assert isinstance(frame, pl.DataFrame)
    for text, (expected, opposite) in CONDITIONS.items():
        if "labels" in text and isinstance(frame["labels"].dtype, pl.List):
            expr = parse(text, TABLE.schema)
            assert frame.filter(to_polars(expr))["id"].to_list() == expected
            assert frame.filter(to_polars(Not(expr)))["id"].to_list() == opposite


@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_of_lists_are_tested(kind: str) -> None:
    table = pa.table({"id": range(5), "tags": pa.array(VALUES, KINDS[kind])})
    # Slices have offsets.
    for part in (table, table.slice(1), table.slice(2, 2)):
        expected = [row["id"] for row in part.to_pylist() if row["tags"] is not None and "a" in row["tags"]]
        opposite = [row["id"] for row in part.to_pylist() if row["tags"] is not None and "a" not in row["tags"]]
        expr = parse("list_contains(tags, 'a')", table.schema)
        assert rows(expr, part) == expected
        assert rows(Not(expr), part) == opposite


def test_elements_below_null_lists_are_ignored() -> None:
    hidden = pa.ListArray.from_arrays(
        pa.array([0, 1, 2], pa.int32()), pa.array(["a", "a"]), mask=pa.array([False, True])
    )
    table = pa.table({"id": [1, 2], "tags": hidden})
    expr = parse("list_contains(tags, 'a')", table.schema)
    assert rows(expr, table) == [1]
    assert rows(Not(expr), table) == []


SAME = [
    ("list_contains(tags, 'a')", [("tags", "contains", "a")]),
    ("list_contains(tags, 'a')", pl.col("tags").list.contains("a")),
    ("list_has_any(tags, ['a', 'b'])", [("tags", "contains any", ["a", "b"])]),
    ("list_has_any(tags, ['a', 'b'])", "arrays_overlap(tags, array['a', 'b'])"),
    ("list_has_all(tags, ['a', 'b'])", [("tags", "contains all", ["a", "b"])]),
    ("list_has_all(tags, ['a', 'b'])", "array_has_all(tags, list_value('a', 'b'))"),
    ("labels['k'] = 1", "element_at(labels, 'k') = 1"),
    ("labels['k'] = 1", pc.map_lookup(pc.field("labels"), pa.scalar("k"), "first") == 1),
    ("map_contains(labels, 'k')", "map_contains_key(labels, 'k')"),
    ("map_contains(labels, 'k')", "list_contains(map_keys(labels), 'k')"),
    ("map_contains_value(labels, 1)", "array_contains(map_values(labels), 1)"),
]


@pytest.mark.parametrize(("text", "other"), SAME, ids=str)
def test_languages_have_the_same_conditions(text: str, other: Any) -> None:
    assert str(parse(text, TABLE.schema)) == str(parse(other, TABLE.schema))


def test_values_may_be_parameters() -> None:
    assert rows(parse("list_contains(tags, ?)", TABLE.schema, params=["a"])) == [1, 5]
    assert rows(parse("list_has_any(tags, ?)", TABLE.schema, params=[["a", "b"]])) == [1, 5]


NOT_UNDERSTOOD = {
    "list_has_any(tags, [])": "empty list of values",
    "list_contains(tags, NULL)": "null as an element",
    "list_has_all(tags, ['a', NULL])": "null as an element",
    "list_contains(sizes, CAST('nan' AS DOUBLE))": "NaN as an element",
    "labels['k'] IS NULL": "missing keys",
    "labels['k'] IS NOT DISTINCT FROM 1": "missing keys",
    "tags[1] = 'a'": "positions in lists",
    "list_contains(id, 1)": "not a list of single values",
    "list_contains(labels, 'k')": "not a list of single values",
    "map_contains(tags, 'k')": "not a map of single values",
    "list_has_any(tags, tags)": "a list of literals",
    "tags = 'a'": "as in list_contains",
}


@pytest.mark.parametrize("text", NOT_UNDERSTOOD)
def test_some_conditions_are_not_understood(text: str) -> None:
    [part] = unknowns(parse(text, TABLE.schema))
    assert NOT_UNDERSTOOD[text] in part.reason


def test_a_position_still_requires_the_element() -> None:
    assert "ANY (tags.element = 'a')" in str(parse("tags[1] = 'a'", TABLE.schema))
    # Not having the element at a position proves nothing.
    assert str(parse("NOT (tags[1] = 'a')", TABLE.schema)).startswith("NOT (")
