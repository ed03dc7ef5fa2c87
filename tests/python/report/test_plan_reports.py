"""A page of a user's queries compares each plan with min/max statistics alone, also where an index saves nothing."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.aging import wait_until_old
from support.places import index_of

import parsieve as ps
from parsieve.index.sizes import stored_bytes
from parsieve.report import Chart, Series
from parsieve.report.plans import by_minmax, page_of_plans, savings
from parsieve.report.records import losses
from parsieve.wording import size

FILES = 10


@pytest.fixture
def table(tmp_path: Path) -> ps.Table:
    ids = list(range(1_000))
    random.Random(0).shuffle(ids)
    for part in range(FILES):
        rows = range(part * 100, part * 100 + 100)
        columns = {"sorted": rows, "scattered": [ids[row] for row in rows], "country": [row % 20 for row in rows]}
        pq.write_table(pa.table(columns), tmp_path / f"{part}.parquet")
    # A file that was written just now has no token yet and would be in doubt.
    wait_until_old(tmp_path)
    return ps.open_table(tmp_path)


def test_all_evidence_includes_filters_in_small_files(tmp_path: Path) -> None:
    for part in range(FILES):
        keys = [2 * (row * FILES + part) for row in range(100)] * 2
        filters = {"key": {"ndv": 100, "fpp": 0.0001}}
        pq.write_table(pa.table({"key": keys}), tmp_path / f"{part}.parquet", bloom_filter_options=filters)
    table = ps.open_table(tmp_path)
    while not table.index_stats() or table.index_stats()["key"].locations < FILES:
        table.build_index("key", kind="sieve", fpp=0.5)
    key = next(key for key in range(101, 1_000, 2) if table.plan(f"key = {key}", row_groups=False).files)
    page = page_of_plans(table, [f"key = {key}"], dt.date(2026, 1, 31))
    assert f"Index and filters save {FILES} of the {FILES} files" in page
    assert "skipped by Bloom filters" in page


def summary(table: ps.Table, query: str) -> str:
    return savings(by_minmax(table, query), table.plan(query), table.index_kinds())


def test_a_plan_by_min_max_alone_ignores_indexes_and_filters(table: ps.Table, tmp_path: Path) -> None:
    for path in tmp_path.glob("*.parquet"):
        ps.add_filters(path, columns=["scattered"])
    wait_until_old(tmp_path)
    table = ps.open_table(tmp_path)
    assert len(table.plan("scattered = 500").files) < FILES
    assert len(by_minmax(table, "scattered = 500").files) == FILES
    table.build_index("scattered", kind="both")
    assert len(table.plan("scattered = 500").files) == 1
    assert len(by_minmax(table, "scattered = 500").files) == FILES
    assert summary(table, "scattered = 500") == "Index and filters save 9 of the 10 files that min/max alone reads."


def test_the_page_says_if_an_index_saves_nothing(table: ps.Table) -> None:
    table.build_index(["sorted", "country"], kind="sieve")
    assert summary(table, "sorted = 42") == (
        "Min/max alone reads 1 of 10 files: the index of sorted does not help this query."
    )
    assert summary(table, "country = 7 AND scattered >= 0") == (
        "Min/max alone reads 10 of 10 files: the index of country does not help this query."
    )
    assert "and scattered has no index; parsieve advise estimates" in summary(table, "scattered = 500")


def test_the_page_says_if_min_max_statistics_are_enough(table: ps.Table) -> None:
    assert summary(table, "sorted = 42") == "Min/max alone reads 1 of 10 files: an index could save little."


def test_the_page_shows_both_plans(table: ps.Table) -> None:
    table.build_index("scattered", kind="sieve")
    page = page_of_plans(table, ["scattered = 500", "country = 7"], dt.date(2026, 1, 31))
    assert page.count("by min/max alone") > page.count("with all evidence") / 2 > 0
    assert "reads 10 of 10 files" in page
    assert "reads 1 of 10 files" in page
    assert "scattered (sieve)" in page
    assert "save 9 of the 10" in page
    assert "country has no index" in page


def test_the_page_reports_a_damaged_index(table: ps.Table, tmp_path: Path) -> None:
    table.build_index("scattered", kind="sieve")
    [root] = index_of(tmp_path).rglob("*.root")
    root.write_bytes(b"damaged")
    page = page_of_plans(ps.open_table(tmp_path), ["scattered = 500"], dt.date(2026, 1, 31))
    assert "its bytes have changed since it was written" in page
    for commit in (index_of(tmp_path) / "log").iterdir():
        commit.write_bytes(b"damaged")
    page = page_of_plans(ps.open_table(tmp_path), ["scattered = 500"], dt.date(2026, 1, 31))
    assert "in doubt: the index cannot be used" in page
    assert "reads 10 of 10 files" in page


def test_odd_tables_and_queries_make_a_valid_page(tmp_path: Path) -> None:
    """A table without rows, unknown functions, queries that all or no rows match, and names that are HTML."""
    name = "<script>\u202e\"'"
    pq.write_table(pa.table({name: pa.array([], pa.int64())}), tmp_path / f"{name.replace('/', '')}.parquet")
    quoted = '"' + name.replace('"', '""') + '"'
    queries = [f"{quoted} = 1", f"{quoted} IS NULL OR TRUE", "FALSE", f"{quoted} % 2 = 1", "1 = 1"]
    page = page_of_plans(ps.open_table(tmp_path), queries, dt.date(2026, 1, 31))
    assert "<script>" not in page
    assert page.count("<svg") == len(queries) + 1
    with pytest.raises(ps.ParsieveError, match="no column"):
        page_of_plans(ps.open_table(tmp_path), ["absent = 1"], dt.date(2026, 1, 31))


def test_clearly_better_peers_are_named() -> None:
    kinds = ["a", "b, c", "d"]
    series = [
        Series("peer", [1.0, 1.0, None]),
        Series("ours", [1.05, 2.0, 9.0], ours=True),
        Series("optimum", [0.0, 0.0, 0.0]),
    ]
    assert losses(Chart("dots", kinds, series, "files")) == ["Better than ours: peer (b, c)."]
    assert losses(Chart("dots", kinds, series, "ratio")) == []


def test_the_page_shows_the_size_of_the_index(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": range(100)}), tmp_path / "0.parquet")
    table = ps.open_table(tmp_path)
    assert "on disk" not in page_of_plans(table, ["id = 1"], dt.date(2026, 1, 31))
    built = table.build_index("id", kind="both")
    view = table.opened.index.newest()
    assert view is not None
    stored = stored_bytes(view.commit)
    assert stored > built.bytes_stored
    assert f"{size(stored)} on disk, " in page_of_plans(table, ["id = 1"], dt.date(2026, 1, 31))
