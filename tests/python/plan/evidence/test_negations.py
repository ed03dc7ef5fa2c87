"""Predicates and their negations over files of different types: no file with a matching row is skipped."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.models import negations
from support.models.negations import PAIRS, Written

import parsieve as ps


@pytest.mark.parametrize("name", PAIRS)
def test_every_comparison_and_its_negation_keeps_matching_files(tmp_path: Path, name: str) -> None:
    """Write a file for each value that only the other type can represent, and compare with each of them."""
    pair = PAIRS[name]
    first = [value for value in pair.values if negations.fits(value, pair.first)]
    other = [value for value in pair.values if negations.fits(value, pair.other)]
    wide = [value for value in other if value not in first] or other
    files = []
    for number, value in enumerate([first[1], *wide[:4]]):
        data_type = pair.other if number else pair.first
        path = str(tmp_path / f"{number}.parquet")
        numbers = pa.array([number], pa.int64())
        table = pa.table({"x": negations.raw_array([value], data_type), "y": numbers, "row": numbers})
        pq.write_table(table, path, bloom_filter_options={"x": True})
        os.utime(path, (1, 1))
        files.append(Written(path, data_type, [{"x": value, "y": number, "row": number}]))
    table = ps.open_table(str(tmp_path))
    for value in [file.rows[0]["x"] for file in files] + list(pair.more[:2]):
        for op in ("=", "<>", "<", "<=", ">", ">="):
            compared = negations.compared(pair, "x", op, value)
            for predicate in (compared, negations.negated(compared)):
                negations.check(table, files, predicate.text, predicate.truth, [None])


@pytest.mark.parametrize("name", PAIRS)
def test_random_predicates_and_their_negations_keep_matching_files(tmp_path: Path, name: str) -> None:
    # One seed is enough here: thousands of seeds passed before.
    negations.run(1, name, tmp_path)


def test_a_wider_file_is_kept(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array([1], pa.int32()), "y": [7]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": pa.array([2**40], pa.int64()), "y": [7]}), tmp_path / "b.parquet")
    table = ps.open_table(str(tmp_path))
    for where in (
        f"x = {2**40}",
        f"NOT (x <> {2**40})",
        f"NOT (x <> {2**40} OR y = 8)",
        f"NOT (NOT (NOT (x <> {2**40})))",
        f"NOT (x IS DISTINCT FROM {2**40})",
        f"NOT (x < {2**40} OR x > {2**40})",
        f"NOT (x NOT IN ({2**40}))",
        f"NOT (x NOT BETWEEN {2**40} AND {2**41})",
    ):
        plan = table.plan(where)
        assert plan.files == [str(tmp_path / "b.parquet")], where
        with pytest.raises(ps.UnsupportedError, match="a file holds"):
            plan.to_arrow()
    # All values of the table's type differ from the literal.
    assert table.plan(f"x <> {2**40} AND y = 8").files == []
