"""Plans read footers and filters inside files only if this is expected to pay off."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.formats import FORMATS

import parsieve as ps
from parsieve.plan import cost_model, telemetry
from parsieve.plan.cost import medium
from parsieve.plan.cost.experience import Experience

FILES, ROWS = 12, 400


def write(folder: Path, *, filters: bool, row_group_size: int | None = None, sort: bool = False) -> None:
    """Write even keys scattered over all files, so that the index keeps files for the odd keys between them."""
    for part in range(FILES):
        keys = [2 * (row * FILES + part * 7 % FILES) for row in range(ROWS)]
        keys = keys if sort else [*keys[::2], *keys[1::2]]
        options: dict[str, Any] = {"bloom_filter_options": {"key": {"ndv": ROWS, "fpp": 0.0001}}} if filters else {}
        path = folder / f"{part}.parquet"
        rows = pa.table({"key": keys, "other": keys})
        pq.write_table(rows, path, row_group_size=row_group_size, **options)
        # The index leaves out files that are too young.
        os.utime(path, (1_000_000_000, 1_000_000_000))


@pytest.fixture
def large_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make reading rows slow in the cost model, as if the files were large."""
    slow = medium.Medium(footer=0.0002, filters=0.0002, opening=1.0, throughput=400e6, at_once=1)
    monkeypatch.setattr(medium, "LOCAL", slow)


def num_opened(plan: ps.Plan) -> int:
    return len(plan.record.row_groups)


def index_table(folder: Path) -> ps.Table:
    """Index the keys by file, without fingerprints, so that the index keeps files for missing keys."""
    table = ps.open_table(str(folder))
    while table.index_stats().get("key") is None or table.index_stats()["key"].locations < FILES:
        table.build_index("key", kind="sieve", unit="file", fpp=None)
    return ps.open_table(str(folder))


def missing_key(table: ps.Table) -> int:
    """Return a missing key for which the index keeps files."""
    return next(key for key in range(101, 1_000, 2) if table.plan(f"key = {key}", row_groups=False).files)


@pytest.mark.usefixtures("large_files")
def test_filters_in_files_reject_a_missing_key_by_default(tmp_path: Path) -> None:
    write(tmp_path, filters=True)
    table = index_table(tmp_path)
    key = missing_key(table)
    assert table.plan(f"key = {key}").files == []
    assert table.plan(f"key = {key} AND other >= 0").files == []
    assert table.plan(f"key = {key}", row_groups=False).files
    assert table.plan("key = 96").to_arrow().num_rows == 1


@pytest.mark.usefixtures("large_files")
def test_delta_statistics_do_not_hide_filters_in_files(tmp_path: Path) -> None:
    write(tmp_path, filters=True)
    deltalake.convert_to_deltalake(str(tmp_path))
    assert ps.open_table(str(tmp_path)).plan("key = 97").files == []


@pytest.mark.usefixtures("large_files")
def test_only_a_sample_is_opened_if_it_has_no_filters(tmp_path: Path) -> None:
    write(tmp_path, filters=False)
    table = index_table(tmp_path)
    everywhere = "key BETWEEN 100 AND 200"
    plan = table.plan(everywhere)
    assert len(plan.files) > num_opened(plan) == cost_model.SAMPLE
    assert f"footers of {len(plan.files) - num_opened(plan)} more files: not worth reading" in plan.explain()
    assert num_opened(table.plan(everywhere, row_groups=True)) == len(plan.files)
    assert num_opened(table.plan(everywhere, row_groups=False)) == 0


@pytest.mark.usefixtures("large_files")
def test_all_footers_are_read_if_they_exclude_row_groups(tmp_path: Path) -> None:
    write(tmp_path, filters=False, row_group_size=50, sort=True)
    table = index_table(tmp_path)
    plan = table.plan("key BETWEEN 100 AND 200")
    assert num_opened(plan) == len(plan.files) > cost_model.SAMPLE
    assert all(groups is not None and len(groups) == 1 for groups in plan.row_groups.values())
    assert plan.to_arrow().num_rows == 51


def test_filters_that_take_too_long_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, filters=True)
    table = index_table(tmp_path)
    key = missing_key(table)
    for filters, files in ((1000.0, True), (0.0, False)):
        costly = medium.Medium(footer=0.0002, filters=filters, opening=1.0, throughput=400e6, at_once=1)
        monkeypatch.setattr(medium, "LOCAL", costly)
        plan = table.plan(f"key = {key}")
        assert bool(plan.files) == (num_opened(plan) == 0) == files


def test_a_range_of_keys_does_not_pay_for_filters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_filters = medium.Medium(footer=0.0002, filters=1000.0, opening=1.0, throughput=400e6, at_once=1)
    monkeypatch.setattr(medium, "LOCAL", slow_filters)
    write(tmp_path, filters=True, row_group_size=50, sort=True)
    table = index_table(tmp_path)
    plan = table.plan("key BETWEEN 100 AND 200")
    assert num_opened(plan) == len(plan.files) == FILES
    assert num_opened(table.plan(f"key = {missing_key(table)}")) == 0


def test_the_place_of_a_file_decides_what_reading_it_costs(tmp_path: Path) -> None:
    lake = FORMATS["iceberg"](tmp_path / "t", [pa.table({"key": [1]})], 10)
    [file] = lake.snapshot().slices
    assert medium.medium_of(lake, file) is medium.LOCAL
    assert medium.medium_of(lake, replace(file, path=f"file://{file.path}")) is medium.LOCAL
    assert medium.medium_of(lake, replace(file, path="s3://lake/t/0.parquet")).footer > medium.LOCAL.footer


def test_footers_of_small_files_are_not_read(tmp_path: Path) -> None:
    write(tmp_path, filters=True)
    table = index_table(tmp_path)
    plan = table.plan("key BETWEEN 100 AND 200")
    assert plan.files
    assert num_opened(plan) == 0


def test_each_file_is_opened_once_for_all_columns(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(20)]
    options: dict[str, Any] = {name: {"ndv": 10} for name in names}
    pq.write_table(pa.table({name: [1, 3] for name in names}), tmp_path / "0.parquet", bloom_filter_options=options)
    table = ps.open_table(str(tmp_path))
    single = table.plan("c0 = 2", row_groups=True)
    plan = table.plan(" AND ".join(f"{name} = 1" for name in names), row_groups=True)
    assert len(plan.files) == 1
    assert single.files == []
    # A footer for the plan, one for the filters, and at most a read for each filter.
    assert plan.requests <= 2 + len(names)


def test_the_cost_model_learns_from_files_without_evidence() -> None:
    experience, state = Experience(), object()
    rates = [experience.rate("key", state)]
    for _ in range(3):
        experience.add("key", state, files=3, useful=0)
        rates.append(experience.rate("key", state))
    assert rates == [1 / 4, 1 / 25, 1 / 64, 1 / 121]
    # The table changed, and its files may have filters now.
    assert experience.rate("key", object()) == 1 / 16
    experience.add("key", state, files=3, useful=3)
    # Two of the files without evidence still count.
    assert experience.rate("key", state) == 4 / 7
    for _ in range(100):
        experience.add_plan("key", state, is_excluding=False)
    assert experience.excluding_rate("key", state) == 0.05


def test_plans_estimate_false_positives_of_existing_and_missing_keys(tmp_path: Path) -> None:
    write(tmp_path, filters=False)
    table = index_table(tmp_path)
    plan = table.plan(f"key = {missing_key(table)}")
    data, kept = json.loads(plan.to_json()), len(plan.files)
    assert (data["expected_waste"], data["expected_waste_if_absent"]) == (0.0, kept)
    every = f"all {kept}" if kept > 1 else "1"
    assert f"if the key exists, {every} if it does not (index rounding" in plan.explain()
    several = table.plan("key BETWEEN 100 AND 200")
    assert f"if any row matches, all {len(several.files)} if none does" in several.explain()
    assert f"if the keys exist, all {len(table.plan('key IN (2, 4)').files)} if none does" in (
        table.plan("key IN (2, 4)").explain()
    )
    unknown = json.loads(table.plan("other = 1 OR key = 1").to_json())
    assert unknown["expected_waste"] is unknown["expected_waste_if_absent"] is None


def test_plans_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, filters=False)
    table = ps.open_table(str(tmp_path))
    with caplog.at_level(logging.DEBUG, "parsieve.plan"):
        table.plan("key = -1")
        [record] = caplog.records
        assert record.levelno == logging.DEBUG
        assert record.getMessage().startswith("kept 0 of 12 files in ")
        assert "footers' min/max kept 0 of 12" in record.getMessage()
    caplog.clear()
    monkeypatch.setattr(telemetry, "SLOW", 0.0)
    with caplog.at_level(logging.INFO, "parsieve.plan"):
        table.plan("key = -1")
    [record] = caplog.records
    assert record.getMessage().startswith("slow plan: ")
    assert "key" in record.getMessage()
    assert "-1" not in record.getMessage().replace(str(tmp_path), ""), "no values of predicates at level INFO"
    caplog.clear()
    table.plan("key = -1")
    assert caplog.records == []
