"""Plans of tables that have an index: what it excludes, what it does not know, and what happens when it is damaged."""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import shutil
import time
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
from support.models.predicate_reference import rows
from support.models.predicate_strategies import PREDICATES, tables
from support.places import index_of

import parsieve as ps
from parsieve.cli import main
from parsieve.predicate import columns


def write(path: Path, columns: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    # A file of this very moment might still change unseen.
    old = path.stat().st_mtime_ns - 10 * 10**9
    os.utime(path, ns=(old, old))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ten files whose ids lie everywhere: min/max excludes nothing inside."""
    for part in range(10):
        ids = [*range(part, 10_000, 10), 0, 10_000]
        write(tmp_path / f"part-{part}.parquet", {"id": ids, "other": [part] * len(ids), "f": [float(n) for n in ids]})
    settle()
    return tmp_path


def settle() -> None:
    """The change times of files are now, whatever is said of their modification: wait until they are past."""
    import time

    time.sleep(0.1)


def parts(plan: ps.Plan) -> list[str]:
    return [path.rpartition("-")[2].removesuffix(".parquet") for path in plan.files]


def test_the_index_excludes_what_min_and_max_cannot(folder: Path) -> None:
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


def test_a_point_costs_few_requests_and_none_when_warm(folder: Path) -> None:
    ps.open_table(str(folder)).build_index("id")
    table = ps.open_table(str(folder))
    cold = table.plan("id = 4242")
    assert cold.requests <= 4, cold.explain()
    assert table.plan("id = 4242").requests <= 1


def test_a_ray_is_answered_without_footers_where_the_index_is_exact(tmp_path: Path) -> None:
    for part in range(20):
        values = range(part * 10, part * 10 + 10)
        write(tmp_path / f"part-{part}.parquet", {"id": values, "f": [float(n) for n in values], "t": ["x" * 60] * 10})
    settle()
    ps.open_table(str(tmp_path)).build_index(["id", "f", "t"], kind="sieve")
    for where, kept in {
        "id > 189": ["19"],
        "id >= 189": ["18", "19"],
        "f < 10": ["0"],
        "id <= -1 OR f >= 199": ["19"],
        "id > 199": [],
    }.items():
        plan = ps.open_table(str(tmp_path)).plan(where)
        assert sorted(parts(plan)) == kept, where
        assert plan.requests < 10, plan.explain()
    # Of long texts the index knows the beginning: the footers are read, and know better.
    plan = ps.open_table(str(tmp_path)).plan(f"t > '{'x' * 60}'")
    assert plan.files == []
    assert plan.requests >= 20
    # After an update the index knows what was, and a footer what is.
    write(tmp_path / "part-0.parquet", {"id": [5], "f": [5.0], "t": ["x"]})
    settle()
    table = ps.open_table(str(tmp_path))
    table.update_index()
    assert parts(table.plan("id < 5")) == []
    assert sorted(parts(table.plan("id <= 5"))) == ["0"]


def test_mixed_indexed_columns(folder: Path) -> None:
    """A disjunction with a column that has no index is not answered by the one that has."""
    table = ps.open_table(str(folder))
    table.build_index("id")
    assert parts(table.plan("id = 4242 OR f = 7.0")) == [str(n) for n in range(10)]
    assert parts(table.plan("id = 4242 AND f = 7.0")) == ["2"]


def test_a_stale_index_is_slower_never_wrong(folder: Path) -> None:
    table = ps.open_table(str(folder))
    table.build_index("id")
    write(folder / "part-3.parquet", {"id": [0, 4242, 10_000], "other": [3] * 3, "f": [1.0] * 3})
    write(folder / "part-10.parquet", {"id": [0, 4242, 10_000], "other": [3] * 3, "f": [1.0] * 3})
    (folder / "part-5.parquet").unlink()
    settle()
    plan = table.plan("id = 4242")
    assert parts(plan) == ["10", "2", "3"]
    assert [bool(keep.doubt) for keep in plan.kept] == [True, False, True]
    assert "update_index()" in plan.explain()
    assert plan.to_arrow().num_rows == 3
    table.update_index()
    again = table.plan("id = 4243")
    assert parts(again) == []
    assert not any(keep.doubt for keep in again.kept)


def test_a_stale_index_is_an_error_where_it_is_asked_for(folder: Path) -> None:
    table = ps.open_table(str(folder))
    # Without an index no file is known: the job would be as slow.
    with pytest.raises(ps.StaleIndexError, match="no index"):
        table.plan("id = 4242", stale="error")
    table.build_index("id")
    assert parts(table.plan("id = 4242", stale="error")) == ["2"]
    write(folder / "part-10.parquet", {"id": [0, 10_000], "other": [3] * 2, "f": [1.0] * 2})
    settle()
    assert parts(table.plan("id = 4242")) == ["10", "2"]
    with pytest.raises(ps.StaleIndexError, match=r"1 file, such as .*part-10.*update_index"):
        table.plan("id = 4242", stale="error")
    # A file that other evidence excludes is not missed.
    assert parts(table.plan("id = 4242 AND other = 2", stale="error")) == ["2"]
    table.update_index()
    assert parts(table.plan("id = 4242", stale="error")) == ["2"]
    for file in index_of(folder).rglob("*.root"):
        file.write_bytes(b"damaged")
    with pytest.raises(ps.StaleIndexError, match="not those that were written"):
        ps.open_table(str(folder)).plan("id = 4242", stale="error")
    with pytest.raises(ValueError, match="stale is"):
        table.plan("id = 4242", stale="maybe")  # type: ignore[arg-type]


def test_the_expected_waste_is_told(folder: Path) -> None:
    table = ps.open_table(str(folder))
    assert json.loads(table.plan("id = 4242").to_json())["expected_waste"] is None
    assert "false positives" not in table.plan("id = 4242").explain()
    table.build_index("id", kind="bloom")
    chance = json.loads(table.plan("id = 4242").to_json())["expected_waste"]
    # Nine files that do not hold it, one filter in a hundred is wrong.
    assert chance == pytest.approx(9 * 0.01 / 0.99, rel=0.2)
    assert (
        "estimated false positives: 0.1 of 1 file if the key exists, 1 if it does not"
        in table.plan("id = 4242").explain()
    )
    several = json.loads(table.plan("id IN (4242, 4243, 4244)").to_json())["expected_waste"]
    assert several > chance
    table.build_index("id", kind="sieve")
    stats = table.index_stats()["id"]
    told = json.loads(table.plan("id = 4242").to_json())["expected_waste"]
    assert told == pytest.approx(min(1.0, stats.waste_per_key, chance * 1.2), abs=0.05)
    # Of what is not asked nothing is known; of both parts of a disjunction the sum.
    assert json.loads(table.plan("id = 4242 OR other = 3").to_json())["expected_waste"] is None


def test_an_index_that_is_damaged_or_gone_excludes_nothing(folder: Path) -> None:
    table = ps.open_table(str(folder))
    table.build_index("id")
    for file in sorted(index_of(folder).rglob("*")):
        if file.is_file():
            whole = file.read_bytes()
            for broken in (b"", whole[: len(whole) // 2], bytes(byte ^ 0x55 for byte in whole)):
                file.write_bytes(broken)
                fresh = ps.open_table(str(folder))
                assert "2" in parts(fresh.plan("id = 4242")), file
            file.unlink()
            assert "2" in parts(ps.open_table(str(folder)).plan("id = 4242")), file
            file.write_bytes(whole)
    shutil.rmtree(index_of(folder))
    assert "2" in parts(table.plan("id = 4242"))
    assert len(ps.open_table(str(folder)).plan("id = 4242").files) == 10


def test_our_own_files_are_caught_by_no_glob(folder: Path) -> None:
    count = "SELECT count(*) FROM read_parquet('{}')"
    with duckdb.connect() as con:
        before = con.execute(count.format(folder / "**/*.parquet")).fetchall()
        ps.open_table(str(folder)).build_index(["id", "other"])
        assert con.execute(count.format(folder / "**/*.parquet")).fetchall() == before
    assert not list(index_of(folder).rglob("*.parquet"))
    assert pl.scan_parquet(folder / "**/*.parquet").select(pl.len()).collect().item() == before[0][0]
    assert len(ps.open_table(str(folder)).plan().files) == 10


def test_nan_is_found_by_the_index(tmp_path: Path) -> None:
    write(tmp_path / "part-0.parquet", {"f": [0.0, 9.0, math.nan]})
    write(tmp_path / "part-1.parquet", {"f": [0.0, 9.0, None]})
    settle()
    table = ps.open_table(str(tmp_path))
    assert parts(table.plan("f > 100")) == ["0", "1"]
    table.build_index("f")
    assert parts(table.plan("f > 100", row_groups=True)) == ["0"]
    assert parts(table.plan("f = 'nan'")) == ["0"]
    assert parts(table.plan("f IS NULL")) == ["1"]
    assert parts(table.plan("f = -0.0")) == ["0", "1"]


def test_the_life_of_an_index(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = ps.open_table(str(folder))
    table.build_index(["id", "f"])
    assert set(table.index_stats()) == {"id", "f"}
    write(folder / "part-11.parquet", {"id": [4242], "other": [11], "f": [1.0]})
    settle()
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


def test_what_programs_are_told_of_an_index(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = ps.open_table(str(folder))
    table.build_index("id", kind="bloom")
    # There is nothing to compact, and that is no mistake.
    table.compact_index("id")
    assert main(["index", "stats", str(folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["id"].keys() == {"kind", "bytes_stored", "bytes_lookup"}
    table.build_index(["id", "other"], kind="sieve")
    assert main(["index", "stats", str(folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(name, one["kind"], one["locations"]) for name, one in told.items()] == [
        ("id", "both", 10),
        ("other", "sieve", 10),
    ]
    (victim, *_) = index_of(folder).rglob("*.root")
    victim.write_bytes(b"")
    assert main(["index", "verify", str(folder), "--json"]) == 1
    assert {one["loses_rows"] for one in json.loads(capsys.readouterr().out)} == {False}


def test_versions_older_than_any_date(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert table.expire_index(-dt.timedelta(days=1)).versions_removed == 1


def test_an_index_elsewhere(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    place = tmp_path_factory.mktemp("elsewhere")
    ps.open_table(str(folder), index_location=str(place)).build_index("id")
    assert not index_of(folder).exists()
    assert parts(ps.open_table(str(folder), index_location=str(place)).plan("id = 4242")) == ["2"]


@settings(deadline=None, max_examples=25, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(data=st.data())
def test_no_row_is_lost_to_an_index(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("random")
    expr = data.draw(PREDICATES)
    written = [data.draw(tables()) for _ in range(3)]
    for number, table in enumerate(written[:2]):
        pq.write_table(table, folder / f"part-{number}.parquet")
    settle()
    opened = ps.open_table(str(folder))
    opened.build_index(["i8", "f8", "s", "d", "tz", "st.x", "flag", "u1", "day", "bin"], progress=False)
    # The third file comes after the index was built.
    pq.write_table(written[2], folder / "part-2.parquet")
    plain = ps.open_table(str(folder), index_location=str(folder / "_none"))
    for stale in (True, False):
        assert set(opened.plan(expr, row_groups=True).files) <= set(plain.plan(expr).files)
        for row_groups in (None, True, False):
            plan = opened.plan(expr, row_groups=row_groups)
            for number, table in enumerate(written):
                if rows(expr, table):
                    assert str(folder / f"part-{number}.parquet") in plan.files, (stale, plan.explain())
        settle()
        opened.update_index(progress=False)
    assert columns(expr) is not None


def test_a_file_that_is_replaced_with_its_old_size_and_time(tmp_path: Path) -> None:
    """`cp -p` and its like restore a time; whoever comes by another filesystem to these files sees that too."""
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
    time.sleep(0.1)
    for number, source in enumerate(sources):
        ps.open_table(source, index_location=tmp_path / f"index {number}").build_index("id", "sieve")
    write([70, 77, 79])
    for number, source in enumerate(sources):
        table = ps.open_table(source, index_location=tmp_path / f"index {number}")
        assert table.plan("id = 77").to_arrow()["id"].to_pylist() == [77], source


def test_a_file_that_is_replaced_after_the_plan(tmp_path: Path) -> None:
    """Row groups are chosen of one file; whatever stands in its place is read whole."""
    file = tmp_path / "1.parquet"
    pq.write_table(pa.table({"id": [1, 2, 3, 4]}), file, row_group_size=2)
    time.sleep(0.1)
    plan = ps.open_table(tmp_path).plan("id = 4", row_groups=True)
    assert plan.row_groups == {str(file): [1]}
    pq.write_table(pa.table({"id": [4, 5, 3, 1]}), file, row_group_size=2)
    assert plan.to_arrow()["id"].to_pylist() == [4]
    assert plan.to_dataset().to_table()["id"].to_pylist() == [4]
