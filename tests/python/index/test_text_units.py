"""Text indexes with units finer than files never lose a row: after builds, updates, deletes, compactions and damage."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st
from support.aging import wait_until_old
from support.texts import TOKENS, History, random_condition

import parsieve as ps
from parsieve import _core
from parsieve.index.bloom.shelf import Filled, ShelfReader, shelve
from parsieve.index.scan.units import UnitLayout
from parsieve.lake import open_lake
from parsieve.predicate.text.like import Wildcard, normal_form
from parsieve.predicate.text.words import whole_words


@pytest.mark.parametrize("kind", ["text", "words"])
@pytest.mark.parametrize("seed", range(2))
def test_no_row_group_of_a_match_is_lost_in_a_random_history(tmp_path: Path, seed: int, kind: str) -> None:
    chance = random.Random(seed)
    history = History(tmp_path, chance)

    def check(count: int) -> int:
        table = ps.open_table(str(tmp_path))
        return sum(history.check(table, random_condition(chance)) for _ in range(count))

    for number in range(8):
        history.write(f"f{number}.parquet")
    wait_until_old(tmp_path)
    ps.open_table(str(tmp_path)).build_index("s", kind=kind, unit="row_group")
    skipped = check(30)
    for step in range(3):
        for _ in range(3):
            history.write(f"f{chance.randrange(10)}.parquet")
        # Before the update, changed files are kept whole.
        check(10)
        wait_until_old(tmp_path)
        table = ps.open_table(str(tmp_path))
        table.update_index()
        if step == 1:
            table.compact_index()
        assert table.verify_index() == []
        skipped += check(15)
    assert skipped > 500


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
    # The needle is in another row group than the numbers.
    assert table.plan("has_token(s, '0a9f') AND n > 30", row_groups=True).files == []


def test_a_question_reads_one_range_for_all_units(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", kind="words", unit="row_group")
    view = ps.open_table(table.uri).opened.index.refresh()
    assert view is not None
    reader = view.text("s", content="words")
    assert reader is not None
    slices = open_lake(table.uri).snapshot().slices
    reader.may_contain([("request",)], slices)
    before = view.store.requests
    answer = reader.may_contain([("0a9f",)], slices)
    assert answer is not None
    assert answer.to_pylist() == [False, True]
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


def test_a_word_with_bytes_that_are_not_text_is_not_lost(tmp_path: Path) -> None:
    for name, text in (("a", b"caf\xff"), ("b", b"tea")):
        pq.write_table(pa.table({"s": pa.array([text]).view(pa.string())}), tmp_path / f"{name}.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(tmp_path)
    table.build_index("s", kind="words")
    assert len(table.plan("has_token(s, 'coffee')").files) == 0
    # Spark reads invalid bytes as the replacement character.
    assert len(table.plan("has_token(s, 'caf\ufffd')").files) == 2


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
    write_deltalake(
        where, pa.table({"s": texts, "n": range(50)}), configuration={"delta.enableDeletionVectors": "true"}
    )
    table = ps.open_table(where)
    table.build_index("s", kind="words", unit="row_group")
    DeltaTable(where).delete("n = 7")
    # The new file is not covered, so it is kept whole.
    assert len(table.plan("has_token(s, '8')").files) == 1
    table.update_index()
    assert table.plan("has_token(s, '8')").to_arrow()["n"].to_pylist() == [8]
    assert table.plan("has_token(s, '7')").to_arrow()["n"].to_pylist() == []


def test_damage_keeps_every_row_and_is_reported(tmp_path: Path) -> None:
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


def test_every_row_is_kept_while_the_bindings_cannot_be_read(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", kind="text", unit="row_group")
    [bindings] = Path(str(table.opened.index.store)).rglob("bindings")
    opened = ps.open_table(table.uri)
    bindings.rename(tmp_path / "moved")
    # A file instead of a folder fails like a disk that may work again later.
    bindings.touch()
    plan = opened.plan("s LIKE '%needle%'")
    assert list(plan.row_ranges.values()) == [None, None]
    assert plan.record.notes
    bindings.unlink()
    (tmp_path / "moved").rename(bindings)
    assert list(opened.plan("s LIKE '%needle%'").row_ranges.values()) == [[(20, 10)]]


def test_verify_finds_a_unit_without_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_core, "insert_words", lambda filter, column: filter.insert(pa.array(["abc"])))
    table = make_table(tmp_path / "t", kind="words", unit="row_group")
    assert {problem.loses_rows for problem in table.verify_index()} == {True}


def test_elements_of_lists_have_units(tmp_path: Path) -> None:
    tags = [["alpha"], [], None, ["beta needle", "gamma"], ["delta"], ["epsilon"]]
    pq.write_table(pa.table({"tags": tags, "n": range(6)}), tmp_path / "f.parquet", row_group_size=2)
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path))
    table.build_index("tags.element", kind="text", unit="row_group")
    view = table.opened.index.newest()
    assert view is not None
    [state] = view.commit.texts.values()
    [shelf] = state.shelves
    reader = ShelfReader(shelf.directory.get(view.store), view.store.get(shelf.rows.name))
    assert [list(units) for units in reader.units_with_each([pa.array(["nee"])])] == [[1]]


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
    history = History(tmp_path, random.Random(7))
    for number in range(4):
        history.write(f"f{number}.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path))
    table.build_index("s", kind="words", unit="row_group")
    for word in TOKENS:
        for condition in (f"has_token(s, '{word}')", f"NOT has_token(s, '{word}')"):
            history.check(table, condition)
            history.check_engines(table, condition)


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([*Wildcard, "a", "b", " ", "-", "é", "7", "[", "{", "\x7f", "\n"]), max_size=9), st.data()
)
def test_a_text_has_the_whole_words_of_its_pattern(tokens: list[str | Wildcard], data: st.DataObject) -> None:
    filler = st.text("ab -é7", max_size=3)
    lengths = {Wildcard.ONE: st.text("ab -é7", min_size=1, max_size=1), Wildcard.ANY: filler}
    text = "".join(data.draw(lengths[token]) if isinstance(token, Wildcard) else token for token in tokens)
    words = whole_words(normal_form(tokens))
    assert set(words) <= set(re.split(r"[\x00-/:-@\[-`{-\x7f]", text))
    bloom = _core.BloomFilter(num_bytes=1024, type=pa.string())
    _core.insert_words(bloom, pa.array([text]))
    assert all(bloom.might_contain(word) for word in words)


@pytest.mark.parametrize("word", ["", "two words", "a-b", "x%"])
def test_a_token_is_a_single_word(tmp_path: Path, word: str) -> None:
    pq.write_table(pa.table({"s": ["x"]}), tmp_path / "f.parquet")
    table = ps.open_table(str(tmp_path))
    with pytest.raises(ps.UnsupportedError, match="a token is one word"):
        table.plan(f"has_token(s, '{word}')", on_unknown="error")
