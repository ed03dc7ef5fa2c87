"""Plans of plain folders and Hudi tables stay correct through their histories, with a current and a stale index.

`test_delta_and_iceberg_histories.py` tests Delta and Iceberg. `spark/test_predicates_and_logs.py` tests tables that
Spark wrote.
"""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from support.aging import wait_until_old
from support.hudi_tables import HudiTable
from support.models.lake_truth import rows as row_texts
from support.models.plan_truth import build, check_no_more_is_kept, check_plans, some_rows

import parsieve as ps

NAMES = [f"{letter}.parquet" for letter in "abcdefgh"]


def write(table: pa.Table, path: Path, random_: random.Random) -> None:
    """Write a file with one of three writers, sometimes with Bloom filters."""
    path.parent.mkdir(exist_ok=True)
    writer = random_.choice(["pyarrow", "pyarrow", "polars", "duckdb"])
    if writer == "polars":
        pl.DataFrame(pl.from_arrow(table)).write_parquet(path, row_group_size=9)
    elif writer == "duckdb":
        with duckdb.connect() as con:
            con.register("written", table)
            con.execute(f"COPY (SELECT * FROM written) TO '{path}' (FORMAT parquet)")
    else:
        filters = random_.choice([None, {"id": True, "name": True}])
        pq.write_table(table, path, row_group_size=random_.choice([4, 100]), bloom_filter_options=filters)


@pytest.mark.parametrize("hive", [False, True])
@pytest.mark.parametrize(("seed", "index"), [(1, "sieve"), (2, "bloom"), (3, "both")])
def test_plans_of_a_changing_folder_are_correct(tmp_path: Path, seed: int, index: str, hive: bool) -> None:
    random_ = random.Random(seed * 2 + hive)
    folder = tmp_path / "t"
    folder.mkdir()

    def path_of(name: str) -> Path:
        return folder / f"year={2025 + ord(name[0]) % 2}" / name if hive else folder / name

    def draw_rows(count: int, first: int) -> pa.Table:
        table = some_rows(random_, count, first)
        return table.drop(["year"]) if hive else table

    # The first file by path determines the schema, so it never changes.
    path_of("a.parquet").parent.mkdir(exist_ok=True)
    pq.write_table(draw_rows(20, 0), path_of("a.parquet"))
    tables = {"a.parquet": pq.ParquetFile(path_of("a.parquet")).read()}
    for name in NAMES[1:4]:
        tables[name] = draw_rows(15, random_.randrange(100))
        write(tables[name], path_of(name), random_)
    wait_until_old(tmp_path)
    table = ps.open_table(str(folder))
    build(table, index)
    for step in range(8):
        operation = random_.choice(["new", "replace", "remove", "in place", "filters", "move"])
        name = random_.choice(sorted(set(tables) - {"a.parquet"}) or ["b.parquet"])
        if operation in ("new", "replace"):
            name = random_.choice(NAMES[1:]) if operation == "new" else name
            tables[name] = draw_rows(random_.randrange(1, 25), step * 40)
            write(tables[name], path_of(name), random_)
        elif operation == "remove" and name in tables:
            del tables[name]
            path_of(name).unlink()
        elif operation == "in place" and name in tables:
            tables[name] = draw_rows(10, step * 40)
            other = tmp_path / "other.parquet"
            write(tables[name], other, random_)
            path_of(name).write_bytes(other.read_bytes())
        elif operation == "filters" and name in tables:
            ps.add_filters(path_of(name), columns=["id", "name"], existing="replace")
        elif operation == "move" and name in tables and "h.parquet" not in tables:
            tables["h.parquet"] = tables.pop(name)
            path_of("h.parquet").parent.mkdir(exist_ok=True)
            path_of(name).replace(path_of("h.parquet"))
        if step % 3 == 2:
            wait_until_old(tmp_path)
            table.update_index(progress=False)
            assert table.verify_index() == []
        full = table.plan().to_arrow()
        assert full.num_rows == sum(rows.num_rows for rows in tables.values())
        expected = pa.concat_tables([rows.select(["id"]) for rows in tables.values()])
        assert row_texts(full.select(["id"])) == row_texts(expected)
        check_plans(table, full, random_, 3)
        check_no_more_is_kept(table, full, random_)
    wait_until_old(tmp_path)
    table.update_index(progress=False)
    assert table.verify_index() == []


HUDI = pa.schema([("id", pa.int64()), ("name", pa.string()), ("real", pa.float64())])


@pytest.mark.parametrize(("seed", "index"), [(1, "sieve"), (2, "bloom"), (3, "both")])
def test_plans_of_a_changing_hudi_table_are_correct(tmp_path: Path, seed: int, index: str) -> None:
    """Upserts, new file groups, deletes and rolled back instants, with plans of current and earlier instants."""
    random_ = random.Random(seed)
    hudi_table = HudiTable(tmp_path / "t", HUDI)

    def draw_rows(first: int, count: int = 12) -> pa.Table:
        return some_rows(random_, count, first).select(HUDI.names).cast(HUDI)

    tables = {f"g{group}": draw_rows(group * 20) for group in range(3)}
    history = {hudi_table.commit(tables): dict(tables)}
    wait_until_old(tmp_path)
    table = ps.open_table(str(hudi_table.folder))
    for kind in ("sieve", "bloom") if index == "both" else (index,):
        table.build_index(["id", "name", "real"], kind=kind, progress=False)
    for step in range(8):
        operation = random_.choice(["upsert", "upsert", "insert", "delete", "abandoned", "rolled back"])
        group = random_.choice(sorted(tables))
        if operation == "rolled back" and len(history) > 1:
            last = max(history)
            hudi_table.forget(last)
            del history[last]
            tables = dict(history[max(history)])
        elif operation == "abandoned":
            hudi_table.write(hudi_table.begin(), group, draw_rows(7))
        else:
            group = f"g{len(tables)}" if operation == "insert" else group
            tables[group] = tables[group].slice(0, 3) if operation == "delete" else draw_rows(step * 50)
            history[hudi_table.commit({group: tables[group]})] = dict(tables)
        if step % 3 == 2:
            wait_until_old(tmp_path)
            table.update_index(progress=False)
            assert table.verify_index() == []
        for instant in (None, random_.choice(sorted(history))):
            state = tables if instant is None else history[instant]
            full = table.plan(as_of=instant).to_arrow()
            assert row_texts(full.select(HUDI.names)) == row_texts(pa.concat_tables(state.values()))
            check_plans(table, full.select(HUDI.names), random_, 3, as_of=instant)
            check_no_more_is_kept(table, full.select(HUDI.names), random_, as_of=instant)


def test_updates_compact_the_index_if_it_pays_or_on_request(tmp_path: Path) -> None:
    hudi_table = HudiTable(tmp_path / "hudi", HUDI)
    table = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"], "real": [0.5] * 3}, schema=HUDI)
    hudi_table.commit({"g0": table, "g1": table})
    write_deltalake(str(tmp_path / "delta"), table)
    (tmp_path / "plain").mkdir()
    pq.write_table(table, tmp_path / "plain" / "0.parquet")
    wait_until_old(tmp_path)
    tables = {kind: ps.open_table(str(tmp_path / kind)) for kind in ("hudi", "delta", "plain")}
    for opened in tables.values():
        opened.build_index("id", kind="both")
    for number in range(3):
        hudi_table.commit({"g1": table, f"h{number}": table})
        write_deltalake(str(tmp_path / "delta"), table, mode="append")
        DeltaTable(str(tmp_path / "delta")).delete(f"id = {number}")
        pq.write_table(table, tmp_path / "plain" / f"{number + 1}.parquet")
        wait_until_old(tmp_path)
        for kind, opened in tables.items():
            opened.update_index(compact=True if kind == "delta" else None)
            assert opened.verify_index() == []
        # This plain folder only grows. Its deltas stay until they cost more than a compaction. In the Hudi table, a
        # quarter of the indexed rows are replaced each time.
        deltas = {kind: opened.index_stats()["id"].deltas for kind, opened in tables.items()}
        assert deltas == {"hudi": 0, "delta": 0, "plain": number + 1}
    tables["plain"].update_index(compact=True)
    assert tables["plain"].index_stats()["id"].deltas == 0
    hudi_table.commit({"g1": table})
    tables["hudi"].update_index(compact=False)
    assert tables["hudi"].index_stats()["id"].deltas == 1
