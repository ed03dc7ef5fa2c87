"""Text indexes with units finer than files never lose a row: after builds, updates, deletes, compactions and damage."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from support.aging import wait_until_old

import parsieve as ps
from parsieve import _core
from parsieve.index.bloom.shelf import Filled, ShelfReader, shelve
from parsieve.index.scan.units import UnitLayout
from parsieve.lake import open_lake

WORDS = ["error", "time-out", "GET", "id", "café", "0a9f", "x7", "50%", "a_b", "b\u0301", "user", "\U0001f600"]
SEPARATORS = [" ", "-", "=", "", "\n", "_"]


def random_text(chance: random.Random) -> str | None:
    if chance.random() < 0.05:
        return None
    words = chance.choices(WORDS, k=chance.randrange(4))
    return "".join(word + chance.choice(SEPARATORS) for word in words)


def random_rows(chance: random.Random, first: int, size: int = 24) -> pa.Table:
    texts: list[str | None] = []
    while len(texts) < size:
        # Neighboring rows are alike, so that some units lack a text.
        texts += [random_text(chance)] * chance.randrange(1, 6)
    return pa.table({"id": pa.array(range(first, first + size)), "s": pa.array(texts[:size], pa.string())})


def random_condition(chance: random.Random, depth: int = 1) -> str:
    """Return a condition that DuckDB reads in the same way, with the macro `has_token`."""
    form = chance.randrange(6 if depth else 4)
    if form == 0:
        return f"has_token(s, '{chance.choice(['error', 'time', 'id', 'café', '0a9f', 'GET', 'a', 'missing'])}')"
    if form <= 3:
        text = (random_text(chance) or "id ") + chance.choice(["", " ", "="])
        text = "".join("!" + character if character in "%_!" else character for character in text)
        wildcards = chance.choice(["%{}%", "{}%", "%{}", "% {} %", "_%{} %"])
        return f"s LIKE '{wildcards.format(text)}' ESCAPE '!'"
    joiner = " AND " if form == 4 else " OR "
    return joiner.join(f"({random_condition(chance, depth - 1)})" for _ in range(2))


MACRO = r"""CREATE MACRO has_token(text, token) AS
    list_contains(regexp_split_to_array(text, '[\x00-/:-@\[-`{-\x7f]'), token)"""


def matching(rows: pa.Table, condition: str) -> set[int]:
    with duckdb.connect() as con:
        con.execute(MACRO)
        con.register("rows", rows)
        return {row for (row,) in con.execute(f"SELECT id FROM rows WHERE {condition}").fetchall()}


class History:
    """Files that change, with the rows of each."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder, self.chance = folder, chance
        self.rows: dict[str, pa.Table] = {}
        self.next_id = 0

    def write(self, name: str) -> None:
        self.rows[name] = random_rows(self.chance, self.next_id)
        self.next_id += self.rows[name].num_rows
        pq.write_table(self.rows[name], self.folder / name, row_group_size=self.chance.choice([3, 5, 24]))

    def check(self, count: int) -> int:
        """Plan random conditions, and return how many rows were skipped."""
        table = ps.open_table(str(self.folder))
        everything = pa.concat_tables(self.rows.values())
        skipped = 0
        for _ in range(count):
            condition = random_condition(self.chance)
            expected = matching(everything, condition)
            plan = table.plan(condition)
            kept: set[int] = set()
            for path, ranges in plan.row_ranges.items():
                ids = self.rows[Path(path).name]["id"].to_pylist()
                kept.update(
                    ids if ranges is None else (ids[at] for start, rows in ranges for at in range(start, start + rows))
                )
            assert expected <= kept, condition
            assert set(plan.to_arrow()["id"].to_pylist()) == expected, condition
            skipped += everything.num_rows - len(kept)
        return skipped


@pytest.mark.parametrize("kind", ["text", "words"])
@pytest.mark.parametrize("seed", range(2))
def test_no_row_group_of_a_match_is_lost_in_a_random_history(tmp_path: Path, seed: int, kind: str) -> None:
    history = History(tmp_path, random.Random(seed))
    for number in range(8):
        history.write(f"f{number}.parquet")
    wait_until_old(tmp_path)
    ps.open_table(str(tmp_path)).build_index("s", kind=kind, unit="row_group")
    skipped = history.check(40)
    for step in range(3):
        for _ in range(3):
            history.write(f"f{history.chance.randrange(10)}.parquet")
        # Before the update, changed files are kept whole.
        history.check(15)
        wait_until_old(tmp_path)
        table = ps.open_table(str(tmp_path))
        table.update_index()
        if step == 1:
            table.compact_index()
        assert table.verify_index() == []
        skipped += history.check(30)
    assert skipped > 1000


def make_table(folder: Path, **options: Any) -> ps.Table:
    """Write two files of five row groups. One row group has the needle."""
    folder.mkdir(exist_ok=True)
    for number in range(2):
        texts = [f"request {number}-{row} done" for row in range(50)]
        if number == 1:
            texts[23] = "id=0a9f: the needle"
        pq.write_table(pa.table({"s": texts, "n": range(50)}), folder / f"f{number}.parquet", row_group_size=10)
    wait_until_old(folder)
    table = ps.open_table(str(folder))
    table.build_index("s", **options)
    return table


@pytest.mark.parametrize("kind", ["text", "words"])
def test_a_plan_names_the_row_group(tmp_path: Path, kind: str) -> None:
    table = make_table(tmp_path / "t", kind=kind, unit="row_group")
    for condition in ("has_token(s, '0a9f')", [("s", "has token", "0a9f")], "s LIKE '%id=0a9f: %'"):
        plan = table.plan(condition)
        assert {Path(path).name: ranges for path, ranges in plan.row_ranges.items()} == {"f1.parquet": [(20, 10)]}
        assert plan.to_arrow()["n"].to_pylist() == [23]
    assert table.plan("s LIKE '%0a9f%' AND n > 30").files == []


def test_a_question_reads_one_range_for_all_units(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", kind="words", unit="row_group")
    view = ps.open_table(table.uri).opened.index.refresh()
    assert view is not None
    reader = view.text("s", content="words")
    assert reader is not None
    slices = open_lake(table.uri).snapshot().slices
    reader.may_contain([("request",)], slices)
    before = view.store.requests
    assert reader.may_contain([("0a9f",)], slices).to_pylist() == [False, True]
    assert view.store.requests == before + 1


def test_answers_of_two_indexes_of_a_column_are_combined(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", kind="text", unit="row_group")
    table.build_index("s", kind="sieve", unit="row_group")
    table.build_index("s", kind="words", unit="file")
    assert table.index_kinds() == {"s": "sieve and text and words"}
    plan = table.plan("s LIKE 'id=0a9f: %'")
    assert list(plan.row_ranges.values()) == [[(20, 10)]]
    assert "text index: kept 1 of" in str(plan.explain()) or "index: kept 1 of" in str(plan.explain())
    table.drop_index("s")
    assert table.index_kinds() == {}


def test_large_row_groups_are_cut(tmp_path: Path) -> None:
    texts = [f"line {row}" for row in range(60_000)]
    texts[41_000] = "the needle"
    pq.write_table(pa.table({"s": texts}), tmp_path / "f.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path))
    table.build_index("s", kind="text", unit="rows")
    plan = table.plan("s LIKE '%needle%'")
    assert list(plan.row_ranges.values()) == [[(40_000, 20_000)]]
    assert table.verify_index() == []


def test_a_file_with_deleted_rows_is_one_unit(tmp_path: Path) -> None:
    where = str(tmp_path / "delta")
    texts = [f"request {row}" for row in range(50)]
    write_deltalake(where, pa.table({"s": texts, "n": range(50)}), configuration={"delta.enableDeletionVectors": "true"})
    table = ps.open_table(where)
    table.build_index("s", kind="words", unit="row_group")
    DeltaTable(where).delete("n = 7")
    # The new file is not covered, so it is kept whole.
    assert len(table.plan("has_token(s, '8')").files) == 1
    table.update_index()
    assert table.plan("has_token(s, '8')").to_arrow()["n"].to_pylist() == [8]
    assert table.plan("has_token(s, '7')").to_arrow()["n"].to_pylist() == []


def test_damage_keeps_every_row_and_says_so(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", kind="text", unit="row_group")
    for suffix in ("*.shelf", "*.rows"):
        [stored] = Path(str(table.opened.index.store)).rglob(suffix)
        data = stored.read_bytes()
        for damaged in (bytes(len(data)), data[:20], b"", None):
            if damaged is None:
                stored.unlink()
            else:
                stored.write_bytes(damaged)
            plan = ps.open_table(table.uri).plan("s LIKE '%needle%'")
            assert list(plan.row_ranges.values()) == [None, None]
            assert plan.record.notes
            assert plan.to_arrow()["n"].to_pylist() == [23]
            assert ps.open_table(table.uri).verify_index()
            stored.write_bytes(data)


def test_verify_finds_a_unit_without_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_core, "insert_words", lambda filter, column: filter.insert(pa.array(["abc"])))
    table = make_table(tmp_path / "t", kind="words", unit="row_group")
    assert {problem.loses_rows for problem in table.verify_index()} == {True}


def test_elements_of_lists_have_units(tmp_path: Path) -> None:
    tags = [["alpha"], [], None, ["beta needle", "gamma"], ["delta"], ["epsilon"]]
    pq.write_table(pa.table({"tags": tags, "n": range(6)}), tmp_path / "f.parquet", row_group_size=2)
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path))
    table.build_index("tags.list.element", kind="text", unit="row_group")
    view = table.opened.index.newest()
    assert view is not None
    [state] = view.commit.texts.values()
    [shelf] = state.shelves
    reader = ShelfReader(shelf.directory.get(view.store), view.store.get(shelf.rows.name))
    assert reader.units_with_each([pa.array(["nee"])]) == [[1]]


def test_a_shelf_of_files_alone_keeps_its_format() -> None:
    bloom = _core.BloomFilter(num_bytes=128, type=pa.string())
    whole = Filled(("", "a"), (bloom,))
    divided = Filled(("", "b"), (bloom, None, bloom), layout=UnitLayout((5, 5, 5)))
    [(old, _)] = shelve([whole])
    [(new, rows)] = shelve([whole, divided])
    assert (old[:4], new[:4]) == (b"BlS1", b"BlS2")
    reader = ShelfReader(new, rows)
    assert reader.layouts == [UnitLayout(), UnitLayout((5, 5, 5))]
    assert reader.units_with_each([pa.array(["x"])]) == [[], []]


def test_every_engine_finds_the_same_words(tmp_path: Path) -> None:
    chance = random.Random(7)
    history = History(tmp_path, chance)
    for number in range(4):
        history.write(f"f{number}.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path))
    table.build_index("s", kind="words", unit="row_group")
    everything = pa.concat_tables(history.rows.values())
    for word in ("error", "time", "café", "b\u0301", "\U0001f600", "50", "a", "missing"):
        for condition in (f"has_token(s, '{word}')", f"NOT has_token(s, '{word}')"):
            expected = matching(everything, condition)
            plan = table.plan(condition)
            assert set(plan.to_arrow()["id"].to_pylist()) == expected, condition
            assert set(plan.to_polars().collect()["id"].to_list()) == expected, condition
            with duckdb.connect() as con:
                assert {row[0] for row in plan.to_duckdb(con).fetchall()} == expected, condition
            assert set(plan.to_dataset().to_table()["id"].to_pylist()) == expected
    assert pc.sum(pc.is_valid(everything["s"])).as_py() > 50


@pytest.mark.parametrize("word", ["", "two words", "a-b", "x%"])
def test_a_token_is_a_single_word(tmp_path: Path, word: str) -> None:
    pq.write_table(pa.table({"s": ["x"]}), tmp_path / "f.parquet")
    table = ps.open_table(str(tmp_path))
    with pytest.raises(ps.UnsupportedError, match="a token is one word"):
        table.plan(f"has_token(s, '{word}')", on_unknown="error")
