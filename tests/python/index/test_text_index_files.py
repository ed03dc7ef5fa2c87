"""The filters of a text index: what lookups read, damage, updates, versions and sizes."""

from __future__ import annotations

import datetime as dt
import json
import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.aging import wait_until_old

import parsieve as ps
from parsieve import _core
from parsieve.cli.main import main
from parsieve.index.bloom.shelf import ShelfReader
from parsieve.index.log.publish import Transaction
from parsieve.index.text.fill import MOST_PARTS, expected_parts
from parsieve.lake import open_lake


def index_folder(table: ps.Table) -> Path:
    return Path(str(table.opened.index.store))


def make_table(folder: Path, files: int = 6) -> ps.Table:
    folder.mkdir(exist_ok=True)
    for number in range(files):
        texts = [f"request {number}-{row} done" for row in range(50)]
        if number == 3:
            texts.append("the needle: caf\u00e9 au lait")
        pq.write_table(pa.table({"s": texts, "n": range(len(texts))}), folder / f"f{number}.parquet")
    wait_until_old(folder)
    return ps.open_table(str(folder))


NEEDLE = "s LIKE '%needle%'"


def test_a_question_reads_one_short_range_for_all_files(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", files=40)
    table.build_index("s", kind="text")
    plan = ps.open_table(table.uri).plan(NEEDLE)
    assert [Path(path).name for path in plan.files] == ["f3.parquet"]
    # Besides the version, the bindings and the directory of the shelf, which are read once.
    view = ps.open_table(table.uri).opened.index.refresh()
    assert view is not None
    reader = view.text("s")
    assert reader is not None
    slices = open_lake(table.uri).snapshot().slices
    reader.may_contain([("nee",)], slices)
    before = view.store.requests
    assert pc.sum(reader.may_contain([("eed",), ("edl",), ("dle",)], slices)).as_py() == 1
    assert view.store.requests == before + 1


def test_the_plan_names_the_evidence_and_short_texts(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    table.build_index("s", kind="text")
    text = str(table.plan(NEEDLE).explain())
    assert "text index: kept 1 of 6 files" in text
    assert "three characters of the text are not in the file" in text
    short = table.plan("s LIKE '%ne%'")
    assert len(short.files) == 6
    assert "not used: s LIKE '%ne%' (only three or more fixed characters in a row can skip files)" in str(
        short.explain()
    )
    assert len(table.plan("s NOT LIKE '%needle%'").files) == 6
    assert table.plan("s LIKE '%ne%'", stale="error").files == short.files


def test_a_question_about_text_reads_no_footers(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    assert table.plan(NEEDLE).record.num_opened is None
    table.build_index("s", kind="text")
    assert table.plan(NEEDLE).record.num_opened is None


@pytest.mark.parametrize("suffix", ["*.shelf", "*.rows"])
def test_a_damaged_text_index_keeps_every_file_and_is_reported(tmp_path: Path, suffix: str) -> None:
    table = make_table(tmp_path / "t")
    table.build_index("s", kind="text")
    [stored] = index_folder(table).rglob(suffix)
    data = stored.read_bytes()
    for damaged in (bytes(len(data)), data[:20], b"", data[:-5] + bytes(5), None):
        if damaged is None:
            stored.unlink()
        else:
            stored.write_bytes(damaged)
        plan = ps.open_table(table.uri).plan(NEEDLE)
        if damaged != data[:-5] + bytes(5) or suffix == "*.shelf":
            # The last bytes of the rows belong to other questions.
            assert len(plan.files) == 6
            assert plan.record.notes
            assert "in doubt" in str(plan.explain())
        assert f"{table.uri}/f3.parquet" in plan.files
        assert ps.open_table(table.uri).verify_index()
        stored.write_bytes(data)
    assert len(ps.open_table(table.uri).plan(NEEDLE).files) == 1


def test_a_filter_that_lacks_a_text_is_found_by_verify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(tmp_path / "t")
    monkeypatch.setattr(_core, "insert_trigrams", lambda filter, column: filter.insert(pa.array(["abc"])))
    table.build_index("s", kind="text")
    assert {problem.loses_rows for problem in table.verify_index()} == {True}


def test_another_form_keeps_every_file_and_is_not_updated(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    table.build_index("s", kind="text")
    log = table.opened.index.log
    transaction = Transaction(log, "newer")
    newest = transaction.begin()
    assert newest is not None
    newer = {path: replace(state, form=2) for path, state in newest.texts.items()}
    assert transaction.commit(newest.table, texts=newer) is not None
    again = ps.open_table(table.uri)
    plan = again.plan(NEEDLE)
    assert len(plan.files) == 6
    assert "trigrams of form 2" in str(plan.explain())
    # Questions about other columns do not read the text index.
    assert not again.plan("n = 1").record.notes
    pq.write_table(pa.table({"s": ["a new needle"], "n": [1]}), tmp_path / "t" / "new.parquet")
    wait_until_old(tmp_path / "t")
    again.update_index()
    view = again.opened.index.newest()
    assert view is not None
    assert view.commit.texts == newer
    assert [problem.loses_rows for problem in again.verify_index()] == [False]
    again.build_index("s", kind="text")
    assert len(again.plan(NEEDLE).files) == 2


def test_old_versions_of_parsieve_do_not_read_a_version_with_a_text_index(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    table.build_index("n", kind="bloom")
    table.build_index("s", kind="text")
    view = table.opened.index.newest()
    assert view is not None
    assert view.commit.format == 2
    assert view.commit.to_bytes().startswith(b"parsieve-index commit 2 ")
    # A filter of trigrams does not answer for whole values.
    assert view.bloom("s") is None
    assert view.text("n") is None
    assert len(table.plan("s = 'the needle: caf\u00e9 au lait'", row_groups=False).files) == 6
    assert table.index_kinds() == {"n": "bloom", "s": "text"}
    table.drop_index("s")
    view = table.opened.index.newest()
    assert view is not None
    assert view.commit.format == 1


def test_all_kinds_of_index_coexist_on_a_column(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    for kind in ("text", "both", "text"):
        table.build_index("s", kind=kind)
    assert table.index_kinds() == {"s": "both and text"}
    stats = table.index_stats()["s"]
    assert 0 < stats.text_bytes < stats.stored_bytes
    assert len(table.plan(NEEDLE).files) == len(table.plan("s = 'the needle: caf\u00e9 au lait'").files) == 1
    assert len(table.plan("s LIKE 'the%lait'").files) == 1
    assert table.verify_index() == []
    table.drop_index("s")
    assert table.index_kinds() == {}
    assert not list(index_folder(table).rglob("*.rows"))


def test_many_updates_use_few_shelves(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    table.build_index("s", kind="text")
    for step in range(20):
        texts = [f"round {step} of {row}" for row in range(10)]
        pq.write_table(pa.table({"s": texts, "n": range(10)}), tmp_path / "t" / f"f{step % 9}.parquet")
        wait_until_old(tmp_path / "t")
        table.update_index()
        view = table.opened.index.newest()
        assert view is not None
        assert len(view.commit.texts[("s",), "trigrams"].shelves) <= 8
        assert f"{table.uri}/f{step % 9}.parquet" in table.plan(f"s LIKE '%ound {step} o%'").files
    assert table.verify_index() == []


def test_a_lower_rate_makes_larger_filters(tmp_path: Path) -> None:
    chance = random.Random(1)
    texts = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=40)) for _ in range(1000)]
    pq.write_table(pa.table({"s": texts}), tmp_path / "f.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path))
    loose, tight = (table.build_index("s", kind="text", fpp=rate).bytes_stored for rate in (0.2, 0.001))
    assert loose < tight


def test_small_files_start_with_small_filters_of_the_same_sizes() -> None:
    assert expected_parts(None) == expected_parts(1 << 40) == MOST_PARTS
    assert expected_parts(0) < expected_parts(100_000) < MOST_PARTS
    for rate in (0.001, 0.02, 0.1):
        sizes = {_core.shelf_num_bytes(expected_parts(1 << bits), rate) for bits in range(30)}
        least = min(sizes)
        # Folding halves a filter, so one size is a power of two times another.
        assert all(size % least == 0 and (size // least).bit_count() == 1 for size in sizes)


def test_the_command_line_builds_and_drops_a_text_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = make_table(tmp_path / "t")
    assert main(["index", "build", table.uri, "s", "--kind", "text", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["columns"] == {"s": "text"}
    assert main(["plan", table.uri, NEEDLE, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["files"]) == 1
    assert main(["index", "stats", table.uri]) == 0
    assert "text" in capsys.readouterr().out
    assert main(["index", "verify", table.uri]) == 0
    assert main(["index", "drop", table.uri, "s"]) == 0
    capsys.readouterr()
    assert ps.open_table(table.uri).index_kinds() == {}


def test_expired_versions_free_their_filters(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    table.build_index("s", kind="text")
    table.build_index("s", kind="text")
    rows = {path.name for path in index_folder(table).rglob("*.rows")}
    assert len(rows) == 2
    table.opened.index.expire(0, dt.timedelta(0))
    assert len(list(index_folder(table).rglob("*.rows"))) == 1
    assert len(ps.open_table(table.uri).plan(NEEDLE).files) == 1


def test_groups_of_values_are_looked_up_together(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    table.build_index("s", kind="text")
    view = table.opened.index.newest()
    assert view is not None
    [shelf] = view.commit.texts[("s",), "trigrams"].shelves
    reader = ShelfReader(shelf.directory.get(view.store), index_folder(table) / shelf.rows.name)
    groups = [pa.array(["nee", "xyz"]), pa.array(["eed"])]
    both = reader.might_contain(groups[0]) & reader.might_contain(groups[1])
    assert reader.might_contain_each(groups) == both == {("", "f3.parquet")}
