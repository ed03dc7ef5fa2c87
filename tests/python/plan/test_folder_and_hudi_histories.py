"""Plain folders and Hudi tables through their histories, with an index fresh, stale and brought up to date.

Delta and Iceberg go through theirs in `test_lake_plans.py`; tables of Spark in `spark/test_predicates_and_logs.py`.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from support.hudi_tables import HudiTable
from support.models.lake_truth import rows as row_texts
from support.models.plan_truth import build, check_no_more_is_kept, check_plans, some_rows

import parsieve as ps

NAMES = [f"{letter}.parquet" for letter in "abcdefgh"]


def write(table: pa.Table, path: Path, random_: random.Random) -> None:
    """By one of three writers, and now and then with filters of its own."""
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
def test_plain_folders(tmp_path: Path, seed: int, index: str, hive: bool) -> None:
    random_ = random.Random(seed * 2 + hive)
    folder = tmp_path / "t"
    folder.mkdir()

    def place(name: str) -> Path:
        return folder / f"year={2025 + ord(name[0]) % 2}" / name if hive else folder / name

    def some(count: int, first: int) -> pa.Table:
        made = some_rows(random_, count, first)
        return made.drop(["year"]) if hive else made

    # The first file by path tells the schema, and stays.
    place("a.parquet").parent.mkdir(exist_ok=True)
    pq.write_table(some(20, 0), place("a.parquet"))
    held = {"a.parquet": pq.ParquetFile(place("a.parquet")).read()}
    for name in NAMES[1:4]:
        held[name] = some(15, random_.randrange(100))
        write(held[name], place(name), random_)
    time.sleep(0.1)
    table = ps.open_table(str(folder))
    build(table, index)
    for step in range(8):
        kind = random_.choice(["new", "replace", "remove", "in place", "filters", "move"])
        name = random_.choice(sorted(set(held) - {"a.parquet"}) or ["b.parquet"])
        if kind in ("new", "replace"):
            name = random_.choice(NAMES[1:]) if kind == "new" else name
            held[name] = some(random_.randrange(1, 25), step * 40)
            write(held[name], place(name), random_)
        elif kind == "remove" and name in held:
            del held[name]
            place(name).unlink()
        elif kind == "in place" and name in held:
            held[name] = some(10, step * 40)
            other = tmp_path / "other.parquet"
            write(held[name], other, random_)
            place(name).write_bytes(other.read_bytes())
        elif kind == "filters" and name in held:
            ps.add_filters(place(name), columns=["id", "name"], existing="replace")
        elif kind == "move" and name in held and "h.parquet" not in held:
            held["h.parquet"] = held.pop(name)
            place("h.parquet").parent.mkdir(exist_ok=True)
            place(name).replace(place("h.parquet"))
        if step % 3 == 2:
            time.sleep(0.1)
            table.update_index(progress=False)
            assert table.verify_index() == []
        full = table.plan().to_arrow()
        assert full.num_rows == sum(one.num_rows for one in held.values())
        whole = pa.concat_tables([one.select(["id"]) for one in held.values()])
        assert row_texts(full.select(["id"])) == row_texts(whole)
        check_plans(table, full, random_, 3)
        check_no_more_is_kept(table, full, random_)
    time.sleep(0.1)
    table.update_index(progress=False)
    assert table.verify_index() == []


HUDI = pa.schema([("id", pa.int64()), ("name", pa.string()), ("real", pa.float64())])


@pytest.mark.parametrize(("seed", "index"), [(1, "sieve"), (2, "bloom"), (3, "both")])
def test_hudi_tables(tmp_path: Path, seed: int, index: str) -> None:
    """Upserts that move keys, new groups, deletes, instants taken back; asked now and at earlier instants."""
    random_ = random.Random(seed)
    there = HudiTable(tmp_path / "t", HUDI)

    def some(first: int, count: int = 12) -> pa.Table:
        return some_rows(random_, count, first).select(HUDI.names).cast(HUDI)

    held = {f"g{group}": some(group * 20) for group in range(3)}
    history = {there.commit(held): dict(held)}
    time.sleep(0.1)
    table = ps.open_table(str(there.folder))
    for one in ("sieve", "bloom") if index == "both" else (index,):
        table.build_index(["id", "name", "real"], kind=one, progress=False)
    for step in range(8):
        kind = random_.choice(["upsert", "upsert", "insert", "delete", "given up", "taken back"])
        group = random_.choice(sorted(held))
        if kind == "taken back" and len(history) > 1:
            last = max(history)
            there.forget(last)
            del history[last]
            held = dict(history[max(history)])
        elif kind == "given up":
            there.write(there.begin(), group, some(7))
        else:
            group = f"g{len(held)}" if kind == "insert" else group
            held[group] = held[group].slice(0, 3) if kind == "delete" else some(step * 50)
            history[there.commit({group: held[group]})] = dict(held)
        if step % 3 == 2:
            time.sleep(0.1)
            table.update_index(progress=False)
            assert table.verify_index() == []
        for instant in (None, random_.choice(sorted(history))):
            state = held if instant is None else history[instant]
            full = table.plan(as_of=instant).to_arrow()
            assert row_texts(full.select(HUDI.names)) == row_texts(pa.concat_tables(state.values()))
            check_plans(table, full.select(HUDI.names), random_, 3, as_of=instant)
            check_no_more_is_kept(table, full.select(HUDI.names), random_, as_of=instant)


def test_tables_that_are_copied_on_write_compact_the_index_at_every_update(tmp_path: Path) -> None:
    there = HudiTable(tmp_path / "hudi", HUDI)
    table = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"], "real": [0.5] * 3}, schema=HUDI)
    there.commit({"g0": table, "g1": table})
    write_deltalake(str(tmp_path / "delta"), table)
    (tmp_path / "plain").mkdir()
    pq.write_table(table, tmp_path / "plain" / "0.parquet")
    time.sleep(0.1)
    opened = {kind: ps.open_table(str(tmp_path / kind)) for kind in ("hudi", "delta", "plain")}
    for one in opened.values():
        one.build_index("id", kind="both")
    for number in range(3):
        there.commit({"g1": table, f"h{number}": table})
        write_deltalake(str(tmp_path / "delta"), table, mode="append")
        DeltaTable(str(tmp_path / "delta")).delete(f"id = {number}")
        pq.write_table(table, tmp_path / "plain" / f"{number + 1}.parquet")
        time.sleep(0.1)
        for one in opened.values():
            one.update_index()
            assert one.verify_index() == []
        # A plain folder only grows: what an update added waits until it costs more than a compaction.
        found = {kind: one.index_stats()["id"].deltas for kind, one in opened.items()}
        assert found == {"hudi": 0, "delta": 0, "plain": number + 1}
    opened["plain"].update_index(compact=True)
    assert opened["plain"].index_stats()["id"].deltas == 0
    there.commit({"g1": table})
    opened["hudi"].update_index(compact=False)
    assert opened["hudi"].index_stats()["id"].deltas == 1
