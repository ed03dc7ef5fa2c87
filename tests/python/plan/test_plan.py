"""Plans: files, row groups, proofs, doubts, cost, explanations, JSON and the command line."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.aging import wait_until_old

import parsieve as ps
from parsieve.cli import main
from parsieve.lake.base import Slice
from parsieve.plan.evidence import footers


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write four files of a hundred ids each in two partitions, with Bloom filters of a scattered key."""
    for part in range(4):
        partition = tmp_path / f"region={'eu' if part < 2 else 'us'}"
        partition.mkdir(exist_ok=True)
        ids = list(range(part * 100, part * 100 + 100))
        table = pa.table({"id": ids, "key": [number * 7919 % 1000 for number in ids]})
        options = {"bloom_filter_options": {"key": True}}
        pq.write_table(table, partition / f"part-{part}.parquet", row_group_size=50, **options)
    # A file that changed within the last tick of a listing has no token, so its footer would be read again.
    wait_until_old(tmp_path)
    return tmp_path


def parts(plan: ps.Plan) -> list[str]:
    return [path.rpartition("-")[2].removesuffix(".parquet") for path in plan.files]


def test_partitions_min_max_and_bloom_filters_skip_files(folder: Path) -> None:
    table = ps.open_table(str(folder))
    assert parts(table.plan()) == ["0", "1", "2", "3"]
    assert parts(table.plan("region = 'us'")) == ["2", "3"]
    assert table.plan("region = 'us'").requests == 0
    assert parts(table.plan("id BETWEEN 120 AND 130")) == ["1"]
    absent = table.plan(f"key = {next(k for k in range(1000) if k not in {n * 7919 % 1000 for n in range(400)})}")
    assert parts(absent) == []
    assert any("Bloom filters" in skip.evidence for skip in absent.skipped)


def test_a_disjunction_skips_files_that_all_its_terms_exclude(folder: Path) -> None:
    table = ps.open_table(str(folder))
    assert parts(table.plan("region = 'us' AND id < 100")) == []
    assert parts(table.plan("(region = 'us' AND id < 250) OR (region = 'eu' AND id = 150)")) == ["1", "2"]
    assert parts(table.plan("NOT (region = 'eu' OR id >= 350)")) == ["2", "3"]


def test_a_plan_selects_row_groups(folder: Path) -> None:
    plan = ps.open_table(str(folder)).plan("id = 120 OR id = 320 OR id = 370")
    assert list(plan.row_groups.values()) == [[0], None]
    assert plan.to_arrow().sort_by("id")["id"].to_pylist() == [120, 320, 370]
    assert ps.open_table(str(folder)).plan("id = 120", row_groups=False).requests == 0


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("name LIKE 'ab%'", [0]),
        ("name LIKE 'b%'", [1]),
        ("name LIKE 'ac%'", []),
        ("NOT (name LIKE 'ab%')", [1]),
        ("NOT (name LIKE 'a%')", [1]),
        ("flag", [0]),
        ("NOT flag", [1]),
    ],
)
def test_min_max_answer_prefixes_and_booleans(tmp_path: Path, where: str, kept: list[int]) -> None:
    for number, (names, flag) in enumerate([(["ab", "abc"], True), (["b", "ba"], False)]):
        pq.write_table(pa.table({"name": names, "flag": [flag, flag]}), tmp_path / f"{number}.parquet")
    plan = ps.open_table(str(tmp_path)).plan(where)
    assert [Path(path).stem for path in plan.files] == [str(number) for number in kept]
    assert plan.to_arrow().num_rows == 2 * len(kept)


def test_an_explanation_says_how_rows_are_read(tmp_path: Path) -> None:
    for part in range(2):
        rows = pa.table({"id": range(100 * part, 100 * part + 100)})
        pq.write_table(rows, tmp_path / f"{part}.parquet", row_group_size=25)
    table = ps.open_table(str(tmp_path))
    # One of the eight row groups, and six of them.
    few, many = (table.plan(where, row_groups=True) for where in ("id = 30", "id BETWEEN 30 AND 170"))
    assert "only pages that can hold matches are decoded, also for Polars and DuckDB" in few.explain()
    assert "Polars and DuckDB scan the kept files themselves, because 75% of the table can match" in many.explain()


def test_a_plan_by_keys_skips_files_and_filters_rows(folder: Path) -> None:
    plan = ps.open_table(str(folder)).plan("id < 300", keys={"id": pa.array([5, 250, None, 350, 10**12])})
    assert parts(plan) == ["0", "2"]
    assert sorted(plan.to_arrow()["id"].to_pylist()) == [5, 250]


def test_footers_are_read_once(folder: Path) -> None:
    table = ps.open_table(str(folder))
    first = table.plan("id = 5")
    assert first.requests == 4
    assert first.bytes_fetched > 0
    assert table.plan("id = 7").requests == 0
    assert table.plan("key = 7 AND id = 7").requests > 0


def test_the_cache_of_footers_is_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The footer of a file counts two row groups of two columns.
    monkeypatch.setattr(footers, "REMEMBERED", 10)
    table = ps.open_table(str(folder))
    # Two of the four footers are cached.
    assert [table.plan("id = 5 AND key < 0").requests for _ in range(2)] == [4, 2]


def test_footers_are_read_concurrently_and_again_only_for_changed_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = ps.open_table(str(folder))
    snapshot = table.opened.lake.snapshot()
    read: list[str] = []
    # Four reads wait for each other. Sequential reads would fail at the timeout.
    meet = threading.Barrier(4, timeout=200)
    open_base = table.opened.lake.open_base

    def waiting(data_slice: Slice) -> Any:
        read.append(data_slice.group)
        meet.wait()
        return open_base(data_slice)

    monkeypatch.setattr(table.opened.lake, "open_base", waiting)
    assert parts(table.plan("id = 5")) == ["0"]
    assert sorted(read) == sorted(data_slice.group for data_slice in snapshot.slices)
    read.clear()
    assert parts(table.plan("id = 142")) == ["1"]
    assert read == []
    # Replace one file, whose old footer would exclude it.
    meet = threading.Barrier(1)
    pq.write_table(pa.table({"id": [142], "key": [1]}), folder / "region=us/part-3.parquet")
    wait_until_old(folder)
    assert parts(table.plan("id = 142")) == ["1", "3"]
    assert read == ["region=us/part-3.parquet"]
    assert parts(table.plan("id = 142")) == ["1", "3"]
    assert len(read) == 1


@pytest.mark.filterwarnings("ignore::parsieve.ParsieveWarning")
def test_explanations_and_json_describe_the_plan(folder: Path) -> None:
    plan = ps.open_table(str(folder)).plan("id = 142 AND abs(key) >= 0")
    text = plan.explain()
    assert "kept 1 of 4 files" in text
    assert "  footers of 4 files (4 read for this plan):\n    footers' min/max: kept 1 of 8 row groups" in text
    assert "values are between 0 and 49" in text
    assert "ignored: ABS(key) >= 0 (" in text
    document = json.loads(plan.to_json())
    assert document["files"] == plan.files
    assert document["row_groups"] == {plan.files[0]: [0]}
    assert {skip["path"] for skip in document["skipped"]} == {skip.path for skip in plan.skipped}
    assert document["not_understood"][0]["reason"]
    with pytest.raises(ps.UnsupportedError, match="not understood"):
        plan.to_arrow()


def test_proofs_name_the_condition(folder: Path) -> None:
    table = ps.open_table(str(folder))
    for where, named in {
        "id > 999": "id > 999",
        "id <= -1": "id <= -1",
        "id >= 500 AND id < 600": "id >= 500 AND id < 600",
        "id = 999": "id = 999",
    }.items():
        skips = table.plan(where).skipped
        assert len(skips) == 4
        assert all(skip.proof.startswith(f"{named}: values are between ") for skip in skips)


def test_explanations_name_conditions_without_evidence(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a full disk"]}), tmp_path / "a.parquet")
    table = ps.open_table(tmp_path)
    assert "no evidence for text LIKE '%full%': no usable text index" in table.plan("text LIKE '%full%'").explain()
    plan = table.plan("has_token(text, 'disk')")
    assert "no evidence for has_token(text, 'disk'): no usable text or words index" in plan.explain()


def test_every_engine_returns_the_rows_of_a_plan(folder: Path) -> None:
    plan = ps.open_table(str(folder)).plan((pc.field("region") == "us") & (pc.field("id") < 203))
    assert plan.to_arrow(["id"]).sort_by("id").to_pydict() == {"id": [200, 201, 202]}
    assert sum(batch.num_rows for batch in plan.to_batches()) == 3
    assert plan.count_rows() == plan.to_dataset().count_rows() == 3
    assert sorted(plan.to_polars().collect()["id"]) == [200, 201, 202]
    with duckdb.connect() as con:
        relation = plan.to_duckdb(con)
        assert set(relation.columns) == {"id", "key", "region"}
        assert len(relation.fetchall()) == len(relation.fetchall()) == 3
    empty = ps.open_table(str(folder)).plan("id < 0")
    assert empty.to_arrow().schema.names == ["id", "key", "region"]
    assert empty.to_polars().collect().height == empty.to_dataset().count_rows() == empty.count_rows() == 0
    with pytest.raises(ps.ColumnNotFoundError):
        plan.to_arrow(["nope"])


def test_the_command_prints_files_explanations_and_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(folder), "id = 142"]) == 0
    assert capsys.readouterr().out == f"{folder}/region=eu/part-1.parquet\n"
    assert main(["plan", str(folder), "id = 142", "--row-groups"]) == 0
    assert capsys.readouterr().out == f"{folder}/region=eu/part-1.parquet\t0\n"
    assert main(["plan", str(folder), "id = 142", "--explain"]) == 0
    assert "skipped 3 files" in capsys.readouterr().out
    assert main(["plan", str(folder), "id = 142", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["skipped"]) == 3
    assert main(["plan", str(folder), "id = -1"]) == 0
    assert main(["plan", str(folder), "id = -1", "--exit-code"]) == 1
    assert main(["plan", str(folder), "nope = 1"]) == 2
    assert "nope" in capsys.readouterr().err


def test_min_max_statistics_select_among_ten_thousand_slices() -> None:
    """Min/max evidence is evaluated in Arrow, without a Python call for each slice."""
    from parsieve.plan.evidence.candidates import Candidates
    from parsieve.plan.evidence.minmax import ColumnBounds, MinMax
    from parsieve.plan.evidence.questions import question_tree
    from parsieve.predicate import parse

    size = 10_000
    lower = pa.array(range(0, size * 10, 10), pa.int64())
    zero = pa.repeat(pa.scalar(0, pa.int64()), size)
    bounds = ColumnBounds(lower, pc.add(lower, 9), zero, pa.repeat(pa.scalar(10, pa.int64()), size))
    candidates = Candidates.all(
        question_tree(parse("id = 5005 OR id BETWEEN 7 AND 12", pa.schema({"id": pa.int64()}))), size
    )
    candidates.apply(MinMax("min/max", lambda _: bounds))
    assert pc.indices_nonzero(candidates.kept).to_pylist() == [0, 1, 500]
