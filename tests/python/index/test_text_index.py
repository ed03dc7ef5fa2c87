"""The text index never skips a file with a matching text: after builds, updates, deletes, compactions and damage."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from support.aging import wait_until_old

import parsieve as ps
from parsieve.predicate import parse, unknowns

DUCKDB = duckdb.connect()
# Texts with accents in both forms, letters of unusual case, emoji, and characters that patterns give a meaning.
PIECES = ["error", "Error", "timeout", "TIMEOUT", "disk", "DIS\u212a", "caf\u00e9", "cafe\u0301", "stra\u00dfe"]
PIECES += ["STRASSE", "\u0130stanbul", "istanbul", "\u0131\u015f\u0131k", "\u017fee", "😀😀", "50%", "a_b", "c\\d"]
PIECES += ["line\nbreak", "it's", "!", "x", "user-17", "user-18", "GET /api", "\ufffd\ufffd\ufffd", "a\0b", "", " "]


def random_text(chance: random.Random) -> str | None:
    if chance.random() < 0.05:
        return None
    return chance.choice(["", " ", "-"]).join(chance.choices(PIECES, k=chance.randrange(4)))


def random_texts(chance: random.Random, *, size: int = 12) -> list[str | None]:
    # Few different pieces for each file, so that filters can exclude it.
    return [random_text(chance) if chance.random() < 0.2 else chance.choice(PIECES) for _ in range(size)]


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def random_needle(chance: random.Random) -> str:
    text = random_text(chance) or chance.choice(PIECES)
    start = chance.randrange(len(text) + 1)
    needle = text[start : start + chance.choice([1, 2, 3, 4, 6, 30])]
    # NUL has no literal that all parsers read.
    return needle.replace("\0", "")


def random_condition(chance: random.Random) -> str:
    """Return a condition in SQL that DuckDB reads in the same way."""
    form = chance.randrange(9)
    needle = random_needle(chance)
    escaped = "".join("!" + character if character in "%_!" else character for character in needle)
    if form == 0:
        return f"contains(s, {quoted(needle)})"
    if form == 1:
        return f"ends_with(s, {quoted(needle)})"
    if form == 2:
        wildcards = chance.choice(["%{}%", "%{}", "{}%", "_{}%", "%{}_", "{}", "%{}%{}%", "_%{}", "{}%{}"])
        return f"s LIKE {quoted(wildcards.replace('{}', escaped))} ESCAPE '!'"
    if form == 3:
        return f"s ILIKE {quoted(chance.choice(['%{}%', '{}%', '%{}', '_{}%']).format(escaped))} ESCAPE '!'"
    if form == 4:
        return f"NOT ({random_condition(chance)})"
    if form == 5:
        return f"({random_condition(chance)}) AND ({random_condition(chance)})"
    if form == 6:
        return f"({random_condition(chance)}) OR ({random_condition(chance)})"
    if form == 7:
        return f"starts_with(s, {quoted(needle)})"
    parts = [_as_regex(needle), _as_regex(random_needle(chance))]
    form_of_regex = chance.choice(["{}", "{}.*{}", "({}|{})", "{}+", "({})?{}", "^{}"])
    return f"regexp_matches(s, {quoted(form_of_regex.format(*parts))})"


def _as_regex(text: str) -> str:
    if not text:
        return "x"
    return "".join("\\" + character if character in r"\.+*?()|[]{}^$" else character for character in text)


def matching(texts: pa.Table, condition: str) -> set[int]:
    """Return the row ids that DuckDB selects from all rows in memory."""
    DUCKDB.register("texts", texts)
    return {row for (row,) in DUCKDB.execute(f"SELECT id FROM texts WHERE {condition}").fetchall()}


class History:
    """A table whose files change, with the rows of each file."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder = folder
        self.chance = chance
        self.rows: dict[str, pa.Table] = {}
        self._next_id = 0

    def new_rows(self) -> pa.Table:
        texts = random_texts(self.chance)
        ids = range(self._next_id, self._next_id + len(texts))
        self._next_id += len(texts)
        return pa.table({"id": pa.array(ids, pa.int64()), "s": pa.array(texts, pa.string())})

    def write(self, name: str) -> None:
        self.rows[name] = self.new_rows()
        pq.write_table(self.rows[name], self.folder / name)

    def remove(self, name: str) -> None:
        (self.folder / name).unlink()
        del self.rows[name]

    def check(self, count: int) -> int:
        """Plan random conditions, and return how many files were skipped."""
        skipped = 0
        everything = pa.concat_tables(self.rows.values())
        table = ps.open_table(str(self.folder))
        for _ in range(count):
            condition = random_condition(self.chance)
            expected = matching(everything, condition)
            plan = table.plan(condition, on_unknown="ignore")
            kept = {Path(path).name for path in plan.files}
            for name, rows in self.rows.items():
                if expected & set(rows["id"].to_pylist()):
                    assert name in kept, condition
            skipped += len(self.rows) - len(kept)
        return skipped


@pytest.mark.parametrize("seed", range(4))
def test_a_folder_never_loses_a_file_in_a_random_history(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path, random.Random(seed))
    for number in range(10):
        history.write(f"f{number}.parquet")
    wait_until_old(tmp_path)
    ps.open_table(str(tmp_path)).build_index("s", kind="text")
    skipped = history.check(60)
    for step in range(4):
        for _ in range(3):
            history.write(f"f{history.chance.randrange(14)}.parquet")
        if len(history.rows) > 6:
            history.remove(history.chance.choice(sorted(history.rows)))
        # Before the update, changed files are kept.
        history.check(20)
        wait_until_old(tmp_path)
        table = ps.open_table(str(tmp_path))
        table.update_index()
        if step == 1:
            table.compact_index()
        if step == 2:
            table.expire_index(0)
        assert table.verify_index() == []
        skipped += history.check(40)
    assert skipped > 100


def test_every_engine_reads_the_same_rows_as_a_full_scan(tmp_path: Path) -> None:
    chance = random.Random(11)
    history = History(tmp_path, chance)
    for number in range(8):
        history.write(f"f{number}.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path))
    table.build_index("s", kind="text")
    everything = pa.concat_tables(history.rows.values())
    evaluated = 0
    while evaluated < 150:
        condition = random_condition(chance)
        if unknowns(parse(condition, everything.schema)):
            continue
        evaluated += 1
        expected = matching(everything, condition)
        plan = table.plan(condition)
        assert set(plan.to_arrow()["id"].to_pylist()) == expected, condition
        with duckdb.connect() as con:
            assert {row[0] for row in plan.to_duckdb(con).fetchall()} == expected, condition
        assert set(plan.to_polars().collect()["id"].to_list()) == expected, condition


def test_live_tables_apply_expressions_that_parsieve_does_not_evaluate(tmp_path: Path) -> None:
    history = History(tmp_path, random.Random(5))
    for number in range(8):
        history.write(f"f{number}.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path))
    table.build_index("s", kind="text")
    everything = pa.concat_tables(history.rows.values())
    frame = ps.scan_polars(table)
    for expression in ("user-1[78]", "(error|timeout)", "caf.+", "DIS.", "50%|a_b", "c\\\\d"):
        expected = pl.DataFrame(everything).filter(pl.col("s").str.contains(expression))["id"].to_list()
        found = frame.filter(pl.col("s").str.contains(expression)).collect()["id"].to_list()
        assert sorted(found) == sorted(expected)
        condition = pc.match_substring_regex(pc.field("s"), expression)
        rows = table.dataset().to_table(filter=condition)["id"].to_pylist()
        assert sorted(rows) == sorted(expected)


def test_a_delta_table_keeps_its_text_index_through_updates_and_deletes(tmp_path: Path) -> None:
    chance = random.Random(3)
    where = str(tmp_path / "delta")
    rows: list[pa.Table] = []
    history = History(tmp_path, chance)

    def append() -> None:
        rows.append(history.new_rows())
        write_deltalake(where, rows[-1], mode="append")

    def check(count: int) -> int:
        table = ps.open_table(where)
        current = DeltaTable(where).to_pyarrow_table()
        skipped = 0
        for _ in range(count):
            condition = random_condition(chance)
            expected = matching(current, condition)
            plan = table.plan(condition, on_unknown="ignore")
            if not plan.record.unknown:
                assert set(plan.to_arrow()["id"].to_pylist()) == expected, condition
            else:
                kept = pa.concat_tables([pq.read_table(path) for path in plan.files]) if plan.files else None
                assert expected <= (set() if kept is None else set(kept["id"].to_pylist())), condition
            skipped += len(table.plan(None).files) - len(plan.files)
        return skipped

    for _ in range(8):
        append()
    ps.open_table(where).build_index("s", kind="text")
    skipped = check(60)
    for step in range(3):
        append()
        DeltaTable(where).delete(f"id % 7 = {step}")
        check(15)
        table = ps.open_table(where)
        table.update_index()
        assert table.verify_index() == []
        skipped += check(40)
    DeltaTable(where).optimize.compact()
    check(15)
    ps.open_table(where).update_index()
    check(15)
    assert skipped > 50


@pytest.mark.parametrize("layout", ["string", "large_string", "string_view", "dictionary"])
def test_every_type_of_text_is_indexed(tmp_path: Path, layout: str) -> None:
    kind: Any = {
        "string": pa.string(),
        "large_string": pa.large_string(),
        "string_view": pa.string_view(),
        "dictionary": pa.dictionary(pa.int32(), pa.string()),
    }[layout]
    for number, texts in enumerate([["a needle", None], ["other text", ""], [None, None], ["ab"], []]):
        pq.write_table(pa.table({"s": pa.array(texts, pa.string()).cast(kind)}), tmp_path / f"f{number}.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path))
    table.build_index("s", kind="text")
    plan = table.plan("s LIKE '%needle%'")
    assert [Path(path).name for path in plan.files] == ["f0.parquet"]
    assert not plan.record.notes
    assert plan.to_arrow()["s"].to_pylist() == ["a needle"]
    assert table.plan("s LIKE '%e%e%' OR s LIKE '_b'").to_arrow().num_rows == 3
    with duckdb.connect() as con:
        assert plan.to_duckdb(con).fetchall() == [("a needle",)]
    assert plan.to_polars().collect()["s"].to_list() == ["a needle"]


def test_a_field_of_a_struct_has_a_text_index(tmp_path: Path) -> None:
    for number, text in enumerate(["needle", "thread"]):
        pq.write_table(pa.table({"st": [{"s": text}, None, {"s": None}]}), tmp_path / f"f{number}.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path))
    table.build_index([("st", "s")], kind="text")
    assert [Path(path).name for path in table.plan("st.s LIKE '%eedl%'").files] == ["f0.parquet"]


def test_columns_of_other_types_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1], "b": [b"abc"]}), tmp_path / "f.parquet")
    table = ps.open_table(str(tmp_path))
    for column in ("n", "b"):
        with pytest.raises(ps.UnsupportedError, match="only columns of strings"):
            table.build_index(column, kind="text")
    assert table.index_kinds() == {}


def test_a_file_that_stores_other_values_is_kept(tmp_path: Path) -> None:
    pq.write_table(pa.table({"s": ["needle"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"s": [12345]}), tmp_path / "b.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table.build_index("s", kind="text")
        kept = {Path(path).name for path in table.plan("s LIKE '%234%'", on_unknown="ignore").files}
    assert "b.parquet" in kept


def test_bytes_that_are_not_text_lose_no_file(tmp_path: Path) -> None:
    stored = pa.array([b"\xff\xfeneedle\xe2\x82", b"\xc3"]).view(pa.string())
    pq.write_table(pa.table({"s": stored}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"s": ["thread"]}), tmp_path / "b.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path))
    table.build_index("s", kind="text")
    assert [Path(path).name for path in table.plan("s LIKE '%needle%'").files] == ["a.parquet"]
    # Spark reads invalid bytes as the replacement character.
    assert len(table.plan("s LIKE '%\ufffd\ufffd\ufffd%'").files) == 2


def test_letters_of_unusual_case_lose_no_file(tmp_path: Path) -> None:
    texts = [
        "DIS\u212a full",
        "\u017fee this",
        "\u0130stanbul",
        "\u0131\u015f\u0131k",
        "stra\u00dfe",
        "\u212bngstr\u00f6m",
    ]
    for number, text in enumerate([*texts, *["plain text"] * 4]):
        pq.write_table(pa.table({"s": [text]}), tmp_path / f"f{number}.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path))
    table.build_index("s", kind="text")
    everything = ds.dataset(tmp_path, exclude_invalid_files=True).to_table()["s"]
    found = 0
    for needle in (
        "disk",
        "DISK",
        "isk f",
        "see t",
        "SEE",
        "istanbul",
        "ISTANBUL",
        "\u0131\u015f\u0131k",
        "strasse",
        "\u00e5ngs",
    ):
        condition = pc.match_substring(pc.field("s"), needle, ignore_case=True)
        matches = [
            {text for text, is_match in zip(everything.to_pylist(), mask, strict=True) if is_match}
            for mask in (
                pc.match_substring(everything, needle, ignore_case=True).to_pylist(),
                pl.Series(everything.to_pylist()).str.contains(f"(?i){needle}").to_list(),
                [
                    DUCKDB.execute("SELECT ? ILIKE ?", [text.as_py(), f"%{needle}%"]).fetchall()[0][0]
                    for text in everything
                ],
            )
        ]
        for where in (condition, f"s ILIKE '%{needle}%'"):
            plan = table.plan(where, on_unknown="ignore")
            kept = {text for path in plan.files for text in pq.read_table(path)["s"].to_pylist()}
            assert set().union(*matches) <= kept, needle
        found += sum(map(len, matches))
    assert found > 10
    # The plain files are skipped by the other letters.
    assert len(table.plan("s ILIKE '%\u00e5ngstr%'", on_unknown="ignore").files) == 10
    assert len(table.plan("s ILIKE '%disk full%'", on_unknown="ignore").files) == 1
