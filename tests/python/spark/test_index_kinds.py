"""`pss.build_index` takes the same kinds as `Table.build_index`, with the same default and meaning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.spark_tables import settled

import parsieve as ps
import parsieve.spark as pss
from parsieve.index.log.commit import Layout

pytestmark = pytest.mark.spark


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ten files. An index of `id` is worthwhile, and one of `same` is not."""
    path = tmp_path / "orders"
    path.mkdir()
    for part in range(10):
        ids = range(part, 1000, 10)
        table = pa.table({"id": ids, "sparse": [number * 1_000_003 for number in ids], "same": [7] * 100})
        pq.write_table(table, path / f"{part}.parquet")
    return path


@pytest.mark.parametrize("kind", ["auto", "sieve", "bloom", "both"])
def test_kinds_are_the_same_as_locally(spark: Any, folder: Path, tmp_path: Path, kind: str) -> None:
    columns = ["id", "same"]
    local = settled(ps.open_table(folder, index_location=tmp_path / "local"))
    distributed = settled(ps.open_table(folder, index_location=tmp_path / "spark"))
    local.build_index(columns, kind, progress=False)
    built = pss.build_index(spark, distributed, columns, kind)
    before, after = local.opened.index.newest(), distributed.opened.index.newest()
    assert before is not None
    assert after is not None
    assert set(after.columns) == set(before.columns)
    assert set(after.commit.blooms) == set(before.commit.blooms)
    assert "id: " in repr(built)
    assert "0x" not in repr(built)
    assert len(distributed.plan("id = 42").files) == 1


@pytest.mark.parametrize("layout", [{"fpp": None}, {"fpp": 0.1}, {"keep_keys": True}])
def test_fingerprints_and_keys_are_the_same_as_locally(
    spark: Any, folder: Path, tmp_path: Path, layout: dict[str, Any]
) -> None:
    local = settled(ps.open_table(folder, index_location=tmp_path / "local"))
    distributed = settled(ps.open_table(folder, index_location=tmp_path / "spark"))
    default = settled(ps.open_table(folder, index_location=tmp_path / "default"))
    local.build_index("sparse", "sieve", progress=False, **layout)
    pss.build_index(spark, distributed, "sparse", "sieve", **layout)
    default.build_index("sparse", "sieve", progress=False)
    assert segments(tmp_path / "spark") == segments(tmp_path / "local") != segments(tmp_path / "default")
    view = distributed.opened.index.newest()
    assert view is not None
    assert view.columns[("sparse",)].layout == Layout("file", **layout)


def segments(index: Path) -> list[bytes]:
    """Return the segment files of an index."""
    return sorted(path.read_bytes() for path in (index / "segments").iterdir())


def test_the_rate_applies_to_both_kinds(spark: Any, folder: Path) -> None:
    table = settled(ps.open_table(folder))
    cases: list[tuple[Any, tuple[float | None, float]]] = [
        ("auto", (0.02, 0.01)),
        (0.1, (0.1, 0.1)),
        (None, (None, 0.01)),
    ]
    for fpp, rates in cases:
        view = pss.build_index(spark, table, "id", "both", fpp=fpp)
        layout = view.columns[("id",)].layout
        assert layout is not None
        assert (layout.fpp, view.commit.blooms[("id",)].fpp) == rates
    for wrong in ({"fpp": None}, {"keep_keys": True}):
        with pytest.raises(ValueError, match="apply to a Sieve index only"):
            pss.build_index(spark, table, "id", "bloom", **wrong)
    with pytest.raises(ValueError, match="fpp must be between 0 and 1"):
        pss.build_index(spark, table, "id", fpp=2)


def test_the_default_is_auto(spark: Any, folder: Path) -> None:
    table = settled(ps.open_table(folder))
    built = pss.build_index(spark, table, "same")
    assert built.version == 0
    assert repr(built) == "<parsieve.index.View version 0, no columns>"
    assert table.opened.index.newest() is None
    assert repr(pss.build_index(spark, table, "id")) == "<parsieve.index.View version 1, id: sieve>"


def test_auto_builds_the_advised_text_index_of_log_lines(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "lines"
    folder.mkdir()
    for part in range(10):
        ids = range(part * 10_000, part * 10_000 + 300)
        lines = [f"the request of customer {number * 7919} has been answered in time" for number in ids]
        pq.write_table(pa.table({"line": lines, "id": ids}), folder / f"{part}.parquet", row_group_size=100)
    table = settled(ps.open_table(folder))
    advised = table.advise("line")[0].recommendation
    assert advised in ("text", "words")
    pss.build_index(spark, table, ["line", "id"])
    assert table.index_kinds() == {"line": advised}
    assert len(table.plan(f"has_token(line, '{10_007 * 7919}')").files) == 1


def test_unknown_kinds_are_refused(spark: Any, folder: Path) -> None:
    with pytest.raises(ValueError, match='"both", "text", "words" or "auto", not \'minmax\''):
        pss.build_index(spark, str(folder), "id", "minmax")
    with pytest.raises(ps.ParsieveError):
        pss.build_index(spark, str(folder), "nothing", "both")


@pytest.mark.parametrize("unit", ["file", "row_group"])
@pytest.mark.parametrize("kind", ["text", "words"])
def test_a_text_index_is_the_same_as_locally(spark: Any, tmp_path: Path, kind: str, unit: str) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    for part in range(6):
        texts = [f"request {part}-{row} done" for row in range(50)] + ["the needle: café"] * (part == 3)
        pq.write_table(pa.table({"s": texts}), folder / f"{part}.parquet", row_group_size=20)
    local = settled(ps.open_table(folder, index_location=tmp_path / "local"))
    distributed = settled(ps.open_table(folder, index_location=tmp_path / "spark"))
    local.build_index("s", kind, unit=unit, progress=False)
    pss.build_index(spark, distributed, "s", kind, unit=unit)

    def shelves(index: Path) -> list[bytes]:
        return sorted(path.read_bytes() for path in index.rglob("shelves/*"))

    assert shelves(tmp_path / "spark") == shelves(tmp_path / "local")
    wheres = ["s LIKE '%the needle:%'", "s LIKE '% needle:%'"]
    if kind == "text":
        wheres += ["s LIKE '%the%caf_'", "endswith(s, 'café')", "contains(s, 'dle: c')"]
        wheres += ["s RLIKE '^the (needle|nail): [a-d]'", "regexp_like(s, 'needle|0+ pins')"]
    for where in wheres:
        frame = pss.read(spark, distributed).where(where)
        assert frame.count() == 1
        scan = pss.last_scan(frame)
        assert scan is not None
        assert scan.files_kept == 1
    pq.write_table(pa.table({"s": ["another needle"]}), folder / "new.parquet")
    settled(distributed)
    pss.update_index(spark, distributed)
    plan = distributed.plan("has_token(s, 'needle')")
    assert len(plan.files) == 2
    assert plan.to_spark(spark).count() == 2


def test_regular_expressions_select_the_same_rows_as_on_spark(spark: Any, tmp_path: Path) -> None:
    """The text that an expression requires occurs in more rows than the expression matches."""
    folder = tmp_path / "logs"
    folder.mkdir()
    for part in range(4):
        texts = [f"took {part}{row} ms" for row in range(30)] + ["took long", "TOOK 7 ms", None]
        ids = pa.array(range(part * 100, part * 100 + len(texts)))
        pq.write_table(pa.table({"id": ids, "s": texts}), folder / f"{part}.parquet", row_group_size=10)
    table = settled(ps.open_table(folder))
    plain = spark.read.parquet(str(folder))
    wheres = ["s RLIKE 'took 3[0-4] ms$'", "NOT (s RLIKE 'took [0-2]')", "s RLIKE '(?i)took 7 ms'"]
    wheres += ["s RLIKE 'took 30 ms' OR id = 5", "s RLIKE 'took 1' AND s RLIKE '9 ms'"]
    for kind in (None, "text"):
        if kind is not None:
            table.build_index("s", kind, progress=False)
        for where in wheres:
            expected = sorted(row.id for row in plain.where(where).select("id").collect())
            assert sorted(row.id for row in pss.read(spark, table).where(where).select("id").collect()) == expected
            first = pss.read(spark, table, where, order_by="id", limit=3)
            assert [row.id for row in first.select("id").collect()] == expected[:3], where
