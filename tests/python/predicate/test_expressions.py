"""Expressions of columns: their values, their domains, and conditions on them in each language."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from support.programs.expression_differences import check_table

import parsieve as ps
from parsieve.predicate import parse
from parsieve.predicate.expressions.expression import parse_expression
from parsieve.predicate.expressions.keys import encode_key


def values(text: str, array: pa.Array) -> list[Any]:
    """Return the values of an expression of the column x as lists."""
    expression = parse_expression(text, pa.schema({"x": array.type}))
    assert expression is not None
    lists: list[Any] = expression.lists([array]).to_pylist()
    return lists


def test_case_is_changed_for_ascii_only() -> None:
    texts = pa.array(["aB", None, "ΣΑ", "\u212a", ""])
    assert values("LOWER(x)", texts) == [["ab"], [], [None], [None], [""]]
    assert values("upper(x)", texts.cast(pa.large_string())) == [["AB"], [], [None], [None], [""]]


def test_only_canonical_integers_are_cast() -> None:
    good = ["0", "-1", "12", str(2**63 - 1), str(-(2**63))]
    assert values("CAST(x AS BIGINT)", pa.array(good)) == [[int(text)] for text in good]
    odd = ["-0", "+1", " 1", "1 ", "01", "1e3", "1.0", "", "1\n", str(2**63), str(-(2**63) - 1), "1" * 30, "\u0661"]
    assert values("CAST(x AS BIGINT)", pa.array(odd)) == [[None]] * len(odd)


def test_json_members_must_be_certain() -> None:
    good = ['{"a":{"b":"x"}}', ' { "c" : [1, {"d": 2}] , "a" : { "e":null, "b" : "x" } } ']
    assert values("json_extract_string(x, '$.a.b')", pa.array(good)) == [["x"], ["x"]]
    odd = ['{"a":{"b":"x","b":"y"}}', '{"a":{"b":1}}', '{"a":{"b":"\\n"}}', "", "[]", '{"a":"b"}', '{"b":{"a":"x"}}']
    odd += ['{"a":{"b":"x"},}', '{"a":{"b":"x"}} x', "{'a':{'b':'x'}}", '{"a":{"b":"x"},"a":{}}', '{"A":{"b":"x"}}']
    assert values("get_json_object(x, '$.a.b')", pa.array(odd)) == [[None]] * len(odd)


def test_the_number_of_a_key_is_that_in_stored_indexes() -> None:
    schema = pa.schema({"tenant": pa.string(), "id": pa.int8(), "size": pa.uint16()})
    numbers = {"tenant, id": 2_354_113_940_731_337_253, "tenant, size": 2_338_656_620_761_855_891}
    for text, number in numbers.items():
        expression = parse_expression(f"key({text})", schema)
        assert expression is not None
        assert expression.value.field_id == number


def test_keys_have_the_order_of_their_parts() -> None:
    source = random.Random(5)
    texts = ["", "a", "a\x00", "a\x00b", "ab", "\x00", "\x00\xff", "b"]
    rows = [(source.choice(texts), source.choice((-(2**31), -1, 0, 7)), source.choice(texts)) for _ in range(300)]
    parts = list(map(pa.array, zip(*rows, strict=True)))
    keys = encode_key(parts).to_pylist()
    by_key = [row for _, row in sorted(zip(keys, rows, strict=True))]
    assert by_key == sorted(rows, key=lambda row: (row[0].encode(), row[1], row[2].encode()))


def test_only_texts_before_the_last_part_of_a_key_have_an_end() -> None:
    texts = pa.array(["a\x00b"])
    assert encode_key([texts]).to_pylist() == [b"a\x00b"]
    assert encode_key([texts, texts]).to_pylist() == [b"a\x00\xffb\x00\x00a\x00b"]
    assert encode_key([texts], num_parts=2).to_pylist() == [b"a\x00\xffb\x00\x00"]


def test_each_language_has_the_same_condition() -> None:
    schema = pa.schema({"email": pa.string()})
    expected = str(parse("lower(email) = 'a'", schema))
    assert expected == "lower(email) = 'a'"
    for where in (pl.col("email").str.to_lowercase() == "a", pc.utf8_lower(pc.field("email")) == "a"):
        assert str(parse(where, schema)) == expected
    assert str(parse([("LOWER(email)", "=", "a")], schema)) == expected
    number = parse(pc.field("email").cast(pa.int64()) == 5, schema)
    assert str(number) == str(parse("CAST(email AS BIGINT) = 5", schema)) == "CAST(email AS BIGINT) = 5"


def test_other_functions_exclude_nothing(tmp_path: Path) -> None:
    pq.write_table(pa.table({"email": ["a"]}), tmp_path / "a.parquet")
    table = ps.open_table(tmp_path)
    with pytest.raises(ps.UnsupportedError):
        table.plan("lower(upper(email)) = 'b'", on_unknown="error")
    with pytest.raises(ValueError, match="is not an expression"):
        ps.expr("reverse(email)")
    with pytest.raises(ps.UnsupportedError, match="only a Sieve index"):
        table.build_index("lower(email)", "bloom")
    assert ps.key("tenant", "id") == "key(tenant, id)"
    wrong: Any
    for wrong in (5, ("box", "id")):
        with pytest.raises(TypeError, match=r"a column of a key is a name, such as 'id' or 'box.id', not "):
            ps.key("tenant", wrong)


def test_a_column_with_the_name_of_an_expression_wins(tmp_path: Path) -> None:
    pq.write_table(pa.table({"email": ["A"], "lower(email)": ["x"]}), tmp_path / "a.parquet")
    table = ps.open_table(tmp_path)
    assert list(table.build_index("lower(email)").columns) == ["lower(email)"]
    assert table.plan([("lower(email)", "=", "x")]).files
    assert table.plan("lower(email) = 'a'").files


def test_a_new_column_does_not_get_the_index_of_an_expression(tmp_path: Path) -> None:
    pq.write_table(pa.table({"email": ["A"]}), tmp_path / "a.parquet")
    table = ps.open_table(tmp_path)
    table.build_index("lower(email)")
    assert not table.plan("lower(email) = 'x'").files
    pq.write_table(pa.table({"email": ["A"], "lower(email)": ["x"]}), tmp_path / "0.parquet")
    later = ps.open_table(tmp_path)
    assert later.plan([("lower(email)", "=", "x")]).files
    assert len(later.plan('"lower(email)" IS NULL').files) >= 1


def test_a_key_is_not_used_after_the_type_of_a_part_changes(tmp_path: Path) -> None:
    moment = dt.datetime(2026, 1, 1)
    for part in range(3):
        moments = pa.array([moment + dt.timedelta(days=part)], pa.timestamp("us"))
        pq.write_table(pa.table({"tenant": ["x"], "ts": moments}), tmp_path / f"b{part}.parquet")
    ps.open_table(tmp_path).build_index("tenant, ts")
    where = "tenant = 'x' AND ts = TIMESTAMP '2026-01-02 00:00:00'"
    assert len(ps.open_table(tmp_path).plan(where).files) == 1
    # The first file decides the types of the table.
    other = pa.table({"tenant": ["y"], "ts": pa.array([moment], pa.timestamp("ns"))})
    pq.write_table(other, tmp_path / "a.parquet")
    plan = ps.open_table(tmp_path).plan(where)
    assert plan.to_arrow().num_rows == 1


def test_iceberg_has_no_statistics_of_an_expression(tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("db")
    iceberg = catalog.create_table("db.users", pa.schema({"email": pa.string(), "number": pa.int64()}))
    for number, email in enumerate(("Ann@x.com", "Bob@x.com")):
        iceberg.append(pa.table({"email": [email], "number": [number]}))
    table = ps.open_table(iceberg)
    table.build_index(["lower(email)", "email, number"])
    for where in ("lower(email) = 'bob@x.com'", "email = 'Bob@x.com' AND number >= 1"):
        plan = table.plan(where)
        assert len(plan.files) == 1
        assert plan.to_arrow()["number"].to_pylist() == [1]


def test_is_null_is_answered_by_the_nulls_of_the_column(tmp_path: Path) -> None:
    for part, texts in enumerate((["1", "2"], ["3", None], ["4", " 5"], ["6", "x"])):
        pq.write_table(pa.table({"number": texts}), tmp_path / f"{part}.parquet")
    table = ps.open_table(tmp_path)
    table.build_index("CAST(number AS BIGINT)")

    def kept(where: str) -> list[int]:
        return [int(Path(path).stem) for path in table.plan(where).files]

    # Engines disagree about the texts in the last two files.
    assert kept("CAST(number AS BIGINT) IS NULL") == [1, 2, 3]
    assert kept("CAST(number AS BIGINT) IS NULL OR CAST(number AS BIGINT) = 1") == [0, 1, 2, 3]
    assert kept("CAST(number AS BIGINT) IS NOT NULL AND CAST(number AS BIGINT) > 3") == [2, 3]
    plan = table.plan("CAST(number AS BIGINT) IS NULL")
    assert "CAST(number AS BIGINT) IS AMBIGUOUS: " in plan.explain()


def test_an_expression_has_the_same_name_everywhere(tmp_path: Path) -> None:
    for part in range(2):
        pq.write_table(pa.table({"email": [f"A{part}"], "id": [part]}), tmp_path / f"{part}.parquet")
    table = ps.open_table(tmp_path)
    names = ["lower(email)", "key(email, id)"]
    report = table.build_index(["lower(email)", "email, id"])
    assert list(report.columns) == names
    assert str(report).startswith("lower(email), key(email, id): Sieve index of 2 files")
    assert sorted(table.index_kinds()) == sorted(table.index_stats()) == sorted(names)
    assert sorted(table.update_index().columns) == sorted(names)
    assert [advice.column for advice in table.advise("lower(email)")] == ["lower(email)"]
    with pytest.raises(ps.ColumnNotFoundError, match=r"upper\(email\) is not indexed; .* lower\(email\)\Z"):
        table.drop_index("upper(email)")
    assert table.drop_index("lower(email)").columns == ("lower(email)",)


def write_users(folder: Path) -> list[dict[str, Any]]:
    """Write files of users without ambiguous values, and return their rows."""
    source = random.Random(3)
    rows = [
        {
            "email": source.choice((None, "A", "a", "bB", "Bb", "c\x00")),
            "tenant": source.choice((None, "a", "a\x00", "b")),
            "id": source.choice((None, *range(-3, 4))),
        }
        for _ in range(120)
    ]
    rows.sort(key=lambda row: (str(row["tenant"]), str(row["id"])))
    schema = pa.schema({"email": pa.string(), "tenant": pa.string(), "id": pa.int8()})
    for part in range(6):
        pq.write_table(pa.Table.from_pylist(rows[part * 20 : part * 20 + 20], schema), folder / f"{part}.parquet")
    return rows


@pytest.mark.parametrize("indexed", [[], ["lower(email)"], ["tenant, id"], ["lower(email)", "id, tenant, email"]])
def test_keys_of_expressions(tmp_path: Path, indexed: list[str]) -> None:
    rows = write_users(tmp_path)
    table = ps.open_table(tmp_path)
    if indexed:
        table.build_index(indexed, unit="row_group")
    emails = ["bb", None, "A", "a", "bb", "\u03a3"]
    lowered = [row["email"] and row["email"].lower() for row in rows]
    found = table.plan(keys={"lower(email)": emails}).to_arrow().to_pylist()
    assert found == [row for row, email in zip(rows, lowered, strict=True) if email in ("a", "bb")]
    result = table.lookup("lower(email)", emails)
    expected = [row for key in ("bb", "a", "bb") for row, email in zip(rows, lowered, strict=True) if email == key]
    assert result.table.to_pylist() == expected
    assert result.missing.to_pylist() == ["A", "\u03a3"]

    # No row has the last two keys: their types cannot represent one, and the other has a null.
    keys = [("a", 3), ("b", -1), ("a", 3), ("a\x00", 0), ("b", 300), (None, 1)]
    found = table.plan(keys={"tenant, id": keys}).to_arrow().to_pylist()
    assert found == [row for row in rows if (row["tenant"], row["id"]) in keys[:4]]
    names = pa.table({"id": [id for _, id in keys], "tenant": [tenant for tenant, _ in keys]})
    for given in (keys, names, pl.DataFrame(names), names.to_batches()[0]):
        result = table.lookup(ps.key("tenant", "id"), given, ["tenant", "id"])
        expected = [
            {"tenant": row["tenant"], "id": row["id"]}
            for key in keys
            for row in rows
            if None not in key and (row["tenant"], row["id"]) == key
        ]
        assert result.table.to_pylist() == expected
        assert {"tenant": "b", "id": 300} in result.missing.to_pylist()
        assert None not in [row["tenant"] for row in result.missing.to_pylist()]


def test_an_index_answers_for_keys_of_expressions(tmp_path: Path) -> None:
    for part in range(4):
        columns = {"email": [f"U{part}", f"V{part}"], "tenant": ["x", "y"], "id": [part, part + 1]}
        pq.write_table(pa.table(columns), tmp_path / f"{part}.parquet")
    table = ps.open_table(tmp_path)
    table.build_index(["lower(email)", "tenant, id"])
    assert len(table.plan(keys={"lower(email)": ["v2", "u3"]}).files) == 2
    # The statistics of three files include these values.
    assert len(table.plan(keys={"tenant, id": [("x", 2)]}).files) == 1
    assert not table.plan(keys={"tenant, id": []}).files


def test_wrong_keys_of_expressions_raise_clear_errors(tmp_path: Path) -> None:
    write_users(tmp_path)
    table = ps.open_table(tmp_path)
    with pytest.raises(TypeError, match=r"the keys of key\(tenant, id\) must be tuples of 2 values"):
        table.plan(keys={"tenant, id": ["a"]})
    with pytest.raises(TypeError, match="a table with the columns tenant and id, or a list of tuples; id is missing"):
        table.lookup("tenant, id", pa.table({"tenant": ["a"]}))
    with pytest.raises(ps.UnsupportedError, match=r"cannot sort by the expression lower\(email\); pass a column"):
        table.plan(order_by="lower(email)", limit=1)
    with pytest.raises(ps.ColumnNotFoundError, match="reverse"):
        table.plan(keys={"reverse(email)": ["a"]})


def test_live_tables_leave_ambiguous_values_to_the_engine(tmp_path: Path) -> None:
    for part, texts in enumerate((["1", "2"], ["7", "007"], ["3", "4"])):
        pq.write_table(pa.table({"number": texts}), tmp_path / f"{part}.parquet")
    table = ps.open_table(tmp_path)
    table.build_index(["CAST(number AS BIGINT)", "lower(number)"])
    for condition in (pc.field("number").cast(pa.int64()) == 7, pc.utf8_lower(pc.field("number")) == "007"):
        expected = pq.read_table(tmp_path, filters=condition)
        assert table.dataset().to_table(filter=condition) == expected
    frame = ps.scan_polars(tmp_path).filter(pl.col("number").cast(pl.Int64) == 7)
    assert frame.collect()["number"].to_list() == ["7", "007"]


def test_plans_keep_the_rows_that_engines_find(tmp_path: Path) -> None:
    differences, skipped = check_table("11", tmp_path, 30)
    assert not differences
    assert skipped
