"""Plans of tables with an index: current, stale, damaged, and after each maintenance operation."""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import hypothesis.strategies as st
import obstore
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from pyarrow import fs
from support.aging import wait_until_old
from support.models.predicate_reference import rows
from support.models.predicate_strategies import PREDICATES, tables
from support.places import index_of

import parsieve as ps
from parsieve.cli import main
from parsieve.predicate import columns


def write(path: Path, columns: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    # Set back the modification time, since a file that changed just now has no token.
    old = path.stat().st_mtime_ns - 10 * 10**9
    os.utime(path, ns=(old, old))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write ten files with scattered ids, so that min/max statistics skip no file."""
    for part in range(10):
        ids = [*range(part, 10_000, 10), 0, 10_000]
        write(tmp_path / f"part-{part}.parquet", {"id": ids, "other": [part] * len(ids), "f": [float(n) for n in ids]})
    wait_until_old(tmp_path)
    return tmp_path


def parts(plan: ps.Plan) -> list[str]:
    return [path.rpartition("-")[2].removesuffix(".parquet") for path in plan.files]


def test_the_index_skips_files_that_min_max_keeps(folder: Path) -> None:
    table = ps.open_table(str(folder))
    assert len(table.plan("id = 4242").files) == 10
    table.build_index("id")
    plan = table.plan("id = 4242")
    assert parts(plan) == ["2"]
    assert plan.skipped[0].evidence == "index"
    assert "id = 4242" in plan.skipped[0].proof
    assert parts(table.plan("id BETWEEN 4242 AND 4243")) == ["2", "3"]
    assert parts(table.plan("id IN (4242, 4249, -5)")) == ["2", "9"]
    assert parts(table.plan("id > 4241 AND id < 4243")) == ["2"]
    assert parts(table.plan("id IS NULL")) == []
    assert parts(table.plan("id = 4242 AND other = 3")) == []
    assert parts(table.plan("id = 4242 OR other = 3")) == ["2", "3"]
    assert parts(table.plan("id > 10000")) == []
    assert plan.to_arrow().num_rows == 1


def test_a_point_query_needs_few_requests(folder: Path) -> None:
    ps.open_table(str(folder)).build_index("id")
    table = ps.open_table(str(folder))
    cold = table.plan("id = 4242")
    assert cold.requests <= 4, cold.explain()
    assert table.plan("id = 4242").requests <= 1


def test_open_ranges_need_no_footers_if_the_index_is_exact(tmp_path: Path) -> None:
    for part in range(20):
        values = range(part * 10, part * 10 + 10)
        write(tmp_path / f"part-{part}.parquet", {"id": values, "f": [float(n) for n in values], "t": ["x" * 60] * 10})
    wait_until_old(tmp_path)
    ps.open_table(str(tmp_path)).build_index(["id", "f", "t"], kind="sieve")
    for where, expected in {
        "id > 189": ["19"],
        "id >= 189": ["18", "19"],
        "f < 10": ["0"],
        "id <= -1 OR f >= 199": ["19"],
        "id > 199": [],
    }.items():
        plan = ps.open_table(str(tmp_path)).plan(where)
        assert sorted(parts(plan)) == expected, where
        assert plan.requests < 10, plan.explain()
    # The index only contains prefixes of long strings, so the plan also reads footers.
    plan = ps.open_table(str(tmp_path)).plan(f"t > '{'x' * 60}'")
    assert plan.files == []
    assert plan.requests >= 20
    # After an update, the index still contains the old values, and the footer excludes them.
    write(tmp_path / "part-0.parquet", {"id": [5], "f": [5.0], "t": ["x"]})
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path))
    table.update_index()
    assert parts(table.plan("id < 5")) == []
    assert sorted(parts(table.plan("id <= 5"))) == ["0"]


def test_an_index_alone_cannot_skip_a_disjunction_with_another_column(folder: Path) -> None:
    """A disjunction of an indexed and another column keeps all files, a conjunction does not."""
    table = ps.open_table(str(folder))
    table.build_index("id")
    assert parts(table.plan("id = 4242 OR f = 7.0")) == [str(n) for n in range(10)]
    assert parts(table.plan("id = 4242 AND f = 7.0")) == ["2"]


def test_a_stale_index_keeps_changed_files(folder: Path) -> None:
    table = ps.open_table(str(folder))
    table.build_index("id")
    write(folder / "part-3.parquet", {"id": [0, 4242, 10_000], "other": [3] * 3, "f": [1.0] * 3})
    write(folder / "part-10.parquet", {"id": [0, 4242, 10_000], "other": [3] * 3, "f": [1.0] * 3})
    (folder / "part-5.parquet").unlink()
    wait_until_old(folder)
    plan = table.plan("id = 4242")
    assert parts(plan) == ["10", "2", "3"]
    assert [bool(keep.doubt) for keep in plan.kept] == [True, False, True]
    assert "update_index()" in plan.explain()
    assert plan.to_arrow().num_rows == 3
    table.update_index()
    updated = table.plan("id = 4243")
    assert parts(updated) == []
    assert not any(keep.doubt for keep in updated.kept)


def test_a_stale_index_is_an_error_on_request(folder: Path) -> None:
    table = ps.open_table(str(folder))
    # A missing index is an error too.
    with pytest.raises(ps.StaleIndexError, match="no index"):
        table.plan("id = 4242", stale="error")
    table.build_index("id")
    assert parts(table.plan("id = 4242", stale="error")) == ["2"]
    write(folder / "part-10.parquet", {"id": [0, 10_000], "other": [3] * 2, "f": [1.0] * 2})
    wait_until_old(folder)
    assert parts(table.plan("id = 4242")) == ["10", "2"]
    with pytest.raises(ps.StaleIndexError, match=r"1 file, such as .*part-10.*update_index"):
        table.plan("id = 4242", stale="error")
    # No error for a file that other evidence excludes.
    assert parts(table.plan("id = 4242 AND other = 2", stale="error")) == ["2"]
    table.update_index()
    assert parts(table.plan("id = 4242", stale="error")) == ["2"]
    for file in index_of(folder).rglob("*.root"):
        file.write_bytes(b"damaged")
    with pytest.raises(ps.StaleIndexError, match="have changed since it was written"):
        ps.open_table(str(folder)).plan("id = 4242", stale="error")
    with pytest.raises(ValueError, match="stale must be"):
        table.plan("id = 4242", stale="maybe")  # type: ignore[arg-type]


def test_plans_estimate_their_false_positives(folder: Path) -> None:
    table = ps.open_table(str(folder))
    assert json.loads(table.plan("id = 4242").to_json())["expected_waste"] is None
    assert "false positives" not in table.plan("id = 4242").explain()
    table.build_index("id", kind="bloom")
    bloom_waste = json.loads(table.plan("id = 4242").to_json())["expected_waste"]
    # Nine files do not contain the key, and 1% of the filters report a false positive.
    assert bloom_waste == pytest.approx(9 * 0.01 / 0.99, rel=0.2)
    assert (
        "estimated false positives: 0.1 of 1 file if the key exists, 1 if it does not"
        in table.plan("id = 4242").explain()
    )
    several = json.loads(table.plan("id IN (4242, 4243, 4244)").to_json())["expected_waste"]
    assert several > bloom_waste
    table.build_index("id", kind="sieve")
    stats = table.index_stats()["id"]
    sieve_waste = json.loads(table.plan("id = 4242").to_json())["expected_waste"]
    assert sieve_waste == pytest.approx(min(1.0, stats.waste_per_key, bloom_waste * 1.2), abs=0.05)
    # The estimate is unknown if the index does not cover all terms, or not all kept files.
    assert json.loads(table.plan("id = 4242 OR other = 3").to_json())["expected_waste"] is None
    shutil.copy(table.plan("id = 4242").files[0], folder / "later.parquet")
    assert json.loads(table.plan("id = 4242").to_json())["expected_waste"] is None
    assert "false positives" not in table.plan("id = 4242").explain()


def test_a_damaged_or_deleted_index_loses_no_file(folder: Path) -> None:
    table = ps.open_table(str(folder))
    table.build_index("id")
    for file in sorted(index_of(folder).rglob("*")):
        if file.is_file():
            intact = file.read_bytes()
            for broken in (b"", intact[: len(intact) // 2], bytes(byte ^ 0x55 for byte in intact)):
                file.write_bytes(broken)
                fresh = ps.open_table(str(folder))
                assert "2" in parts(fresh.plan("id = 4242")), file
            file.unlink()
            assert "2" in parts(ps.open_table(str(folder)).plan("id = 4242")), file
            file.write_bytes(intact)
    shutil.rmtree(index_of(folder))
    assert "2" in parts(table.plan("id = 4242"))
    assert len(ps.open_table(str(folder)).plan("id = 4242").files) == 10


def test_globs_do_not_match_files_of_the_index(folder: Path) -> None:
    count = "SELECT count(*) FROM read_parquet('{}')"
    with duckdb.connect() as con:
        before = con.execute(count.format(folder / "**/*.parquet")).fetchall()
        ps.open_table(str(folder)).build_index(["id", "other"])
        assert con.execute(count.format(folder / "**/*.parquet")).fetchall() == before
    assert not list(index_of(folder).rglob("*.parquet"))
    assert pl.scan_parquet(folder / "**/*.parquet").select(pl.len()).collect().item() == before[0][0]
    assert len(ps.open_table(str(folder)).plan().files) == 10


def test_the_index_finds_nan(tmp_path: Path) -> None:
    write(tmp_path / "part-0.parquet", {"f": [0.0, 9.0, math.nan]})
    write(tmp_path / "part-1.parquet", {"f": [0.0, 9.0, None]})
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path))
    assert parts(table.plan("f > 100")) == ["0", "1"]
    table.build_index("f")
    assert parts(table.plan("f > 100", row_groups=True)) == ["0"]
    assert parts(table.plan("f = 'nan'")) == ["0"]
    assert parts(table.plan("f IS NULL")) == ["1"]
    assert parts(table.plan("f = -0.0")) == ["0", "1"]


def test_plans_stay_correct_through_maintenance(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = ps.open_table(str(folder))
    table.build_index(["id", "f"])
    assert set(table.index_stats()) == {"id", "f"}
    write(folder / "part-11.parquet", {"id": [4242], "other": [11], "f": [1.0]})
    wait_until_old(folder)
    table.update_index()
    table.compact_index()
    assert table.verify_index() == []
    assert sorted(parts(table.plan("id = 4242"))) == ["11", "2"]
    table.expire_index(dt.timedelta(0))
    assert sorted(parts(table.plan("id = 4242"))) == ["11", "2"]
    table.drop_index("f")
    assert set(table.index_stats()) == {"id"}
    table.drop_index()
    assert table.index_stats() == {}
    assert len(table.plan("id = 4242").files) == 11
    with pytest.raises(ps.ColumnNotFoundError):
        table.build_index("nope")
    for command in (["build", str(folder), "id"], ["update", str(folder)], ["compact", str(folder)]):
        assert main(["index", *command]) == 0
        assert capsys.readouterr().out
    assert main(["index", "verify", str(folder), "--json"]) == 0
    assert main(["index", "expire", str(folder), "--older-than", "0"]) == 0
    assert main(["index", "stats", str(folder), "--json"]) == 0
    assert main(["index", "drop", str(folder), "nope"]) == 2
    assert "nope is not indexed" in capsys.readouterr().err
    assert main(["index", "drop", str(folder), "id"]) == 0
    assert ps.open_table(str(folder)).index_kinds() == {}


def test_index_commands_print_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = ps.open_table(str(folder))
    table.build_index("id", kind="bloom")
    # A Bloom index cannot be compacted, but this is no error.
    table.compact_index("id")
    assert main(["index", "stats", str(folder), "--json"]) == 0
    stats = json.loads(capsys.readouterr().out)
    assert stats["id"].keys() == {"kind", "bytes_stored", "bytes_lookup", "files_not_covered"}
    table.build_index(["id", "other"], kind="sieve")
    assert main(["index", "stats", str(folder), "--json"]) == 0
    stats = json.loads(capsys.readouterr().out)
    assert [(name, entry["kind"], entry["locations"]) for name, entry in stats.items()] == [
        ("id", "both", 10),
        ("other", "sieve", 10),
    ]
    (victim, *_) = index_of(folder).rglob("*.root")
    victim.write_bytes(b"")
    assert main(["index", "verify", str(folder), "--json"]) == 1
    assert {entry["loses_rows"] for entry in json.loads(capsys.readouterr().out)} == {False}


def test_expiry_accepts_any_age_and_any_time(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = ps.open_table(str(folder))
    table.build_index("id")
    table.build_index("id")
    for span in (dt.timedelta(days=1_000_000), dt.timedelta.max):
        report = table.expire_index(span)
        assert (report.versions_removed, report.files_removed) == (0, 0)
    assert main(["index", "expire", str(folder), "--older-than", "1e6"]) == 0
    for text in ("inf", "nan", "1e300", "week"):
        with pytest.raises(SystemExit):
            main(["index", "expire", str(folder), "--older-than", text])
        assert f"{text!r} is not a number of days" in capsys.readouterr().err
    assert table.expire_index(dt.datetime.now(dt.UTC) + dt.timedelta(days=1)).versions_removed == 1


def test_an_index_location_outside_the_table_is_used(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    location = tmp_path_factory.mktemp("elsewhere")
    ps.open_table(str(folder), index_location=str(location)).build_index("id")
    assert not index_of(folder).exists()
    assert parts(ps.open_table(str(folder), index_location=str(location)).plan("id = 4242")) == ["2"]


@settings(deadline=None, max_examples=25, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(data=st.data())
def test_random_predicates_lose_no_file_with_an_index(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("random")
    expr = data.draw(PREDICATES)
    written = [data.draw(tables()) for _ in range(3)]
    for number, table in enumerate(written[:2]):
        pq.write_table(table, folder / f"part-{number}.parquet")
    wait_until_old(folder)
    opened = ps.open_table(str(folder))
    opened.build_index(["i8", "f8", "s", "d", "tz", "st.x", "flag", "u1", "day", "bin"], progress=False)
    # Write the third file after the build.
    pq.write_table(written[2], folder / "part-2.parquet")
    plain = ps.open_table(str(folder), index_location=str(folder / "_none"))
    for stale in (True, False):
        assert set(opened.plan(expr, row_groups=True).files) <= set(plain.plan(expr).files)
        for row_groups in (None, True, False):
            plan = opened.plan(expr, row_groups=row_groups)
            for number, table in enumerate(written):
                if rows(expr, table):
                    assert str(folder / f"part-{number}.parquet") in plan.files, (stale, plan.explain())
        wait_until_old(folder)
        opened.update_index(progress=False)
    assert columns(expr) is not None


def test_a_replaced_file_with_its_old_size_and_time_is_noticed(tmp_path: Path) -> None:
    """Tools such as `cp -p` restore modification times. All filesystem objects must notice the replacement."""
    long_ago = (1_600_000_000 * 10**9,) * 2

    def write(ids: list[int]) -> None:
        pq.write_table(pa.table({"id": ids}), tmp_path / "t" / "1.parquet", compression="none", use_dictionary=False)
        os.utime(tmp_path / "t" / "1.parquet", ns=long_ago)

    (tmp_path / "t").mkdir()
    write([1, 5, 9])
    sources = [
        (obstore.store.LocalStore(str(tmp_path / "t")), ""),
        (obstore.store.LocalStore(str(tmp_path)), "t"),
        (fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), "t"),
        (fsspec.filesystem("dir", path=str(tmp_path), fs=fsspec.filesystem("file")), "t"),
    ]
    wait_until_old(tmp_path)
    for number, source in enumerate(sources):
        ps.open_table(source, index_location=tmp_path / f"index {number}").build_index("id", "sieve")
    write([70, 77, 79])
    for number, source in enumerate(sources):
        table = ps.open_table(source, index_location=tmp_path / f"index {number}")
        assert table.plan("id = 77").to_arrow()["id"].to_pylist() == [77], source


def test_a_file_that_is_replaced_after_the_plan_is_read_completely(tmp_path: Path) -> None:
    """The selected row groups belong to the old file, so all row groups of the new file are read."""
    file = tmp_path / "1.parquet"
    pq.write_table(pa.table({"id": [1, 2, 3, 4]}), file, row_group_size=2)
    wait_until_old(tmp_path)
    plan = ps.open_table(tmp_path).plan("id = 4", row_groups=True)
    assert plan.row_groups == {str(file): [1]}
    pq.write_table(pa.table({"id": [4, 5, 3, 1]}), file, row_group_size=2)
    assert plan.to_arrow()["id"].to_pylist() == [4]
    assert plan.to_dataset().to_table()["id"].to_pylist() == [4]
