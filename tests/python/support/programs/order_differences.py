"""Compare the first rows of random plans with an order and a limit with brute force, by every method of a plan.

`python tests/python/support/programs/order_differences.py --conditions 10000 --seed 1` prints each difference with the
number of its table, and a summary. The tables are histories of all formats, with and without an index, which may be
stale, and tables of many types with deletion vectors and position deletes.
"""

from __future__ import annotations

import random
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[2]))

import parsieve as ps
from support import differences, formats, orders
from support.aging import wait_until_old
from support.models.position_truth import INDEXED
from support.models.unit_histories import (
    DeltaUnitTable,
    FolderTable,
    HudiUnitTable,
    IcebergUnitTable,
    UnitTable,
    to_table,
)
from support.rows import lakes
from support.rows.conditions import paths_of
from support.rows.tables import random_rows

PER_TABLE = 50
# Conditions between two changes of a table.
PER_STATE = 10
KINDS = ("folder", "delta", "iceberg", "hudi", "types in a folder", "types in delta", "types in iceberg")


def check_table(seed: str, folder: Path, kind: str | None = None, per_state: int = PER_STATE) -> tuple[int, int]:
    """Return how many answers differ, and how many candidates were not read."""
    chance = random.Random(seed)
    kind = kind or chance.choice(KINDS)
    wrong = unread = 0
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        # Writers warn about rows that are not there, and about their own functions.
        warnings.simplefilter("ignore")
        source = (
            typed_table(chance, folder, kind.rpartition(" ")[2])
            if " " in kind
            else history(chance, folder, kind, stack)
        )
        for table, rows in source:
            for _ in range(per_state):
                try:
                    unread += orders.check(table, rows, chance)
                except Exception as error:
                    wrong += 1
                    about = error if isinstance(error, AssertionError) else traceback.format_exc()
                    print(f"{seed}, {kind}: {about}", flush=True)
    return wrong, unread


def history(chance: random.Random, folder: Path, kind: str, stack: ExitStack) -> Iterator[tuple[ps.Table, pa.Table]]:
    """Yield the states of a table with its rows. The index, if there is one, does not cover all files."""
    unit_table = create(chance, folder, kind, stack)
    for _ in range(8):
        unit_table.insert(chance.randrange(5, 40))
    unit_table.settle()
    table = unit_table.open()
    for state in range(PER_TABLE // PER_STATE):
        for _ in range(chance.randrange(1, 4) if state else 0):
            change = chance.choice((unit_table.insert, unit_table.update, unit_table.delete, unit_table.overwrite))
            change(chance.randrange(1, 20))
        if state == 1:
            columns = chance.sample(INDEXED, chance.randrange(1, len(INDEXED)))
            unit_table.settle()
            table.build_index(columns, "sieve", unit=chance.choice(("file", "row_group", "rows")), progress=False)
        if state > 1 and chance.random() < 0.3:
            unit_table.settle()
            table.update_index(progress=False)
        # Files of plain folders are new at first, so nothing is certain about them.
        if chance.random() < 0.7:
            unit_table.settle()
        yield table, to_table(unit_table.rows).cast(table.schema)


def create(chance: random.Random, folder: Path, kind: str, stack: ExitStack) -> UnitTable:
    """Create an empty table in a format."""
    match kind:
        case "folder":
            return FolderTable(chance, folder)
        case "delta":
            return DeltaUnitTable(chance, folder)
        case "iceberg":
            return IcebergUnitTable(chance, stack.enter_context(formats.catalog_at(folder)))
        case _:
            return HudiUnitTable(chance, folder)


def typed_table(chance: random.Random, folder: Path, format_: str) -> Iterator[tuple[ps.Table, pa.Table]]:
    """Yield the same table with its rows several times, at first without an index."""
    make: lakes.Make = lakes.LAKES.get(format_, typed_folder)
    source, live = make(folder / "t", chance)
    table = ps.open_table(source)
    rows = live.select(table.schema.names).cast(table.schema)
    for state in range(PER_TABLE // PER_STATE):
        if state == 2:
            names = [".".join(path) for path, _ in paths_of(table.schema)]
            columns = chance.sample(names, chance.randrange(1, len(names)))
            table.build_index(columns, "sieve", unit=chance.choice(("file", "row_group", "rows")), progress=False)
        yield table, rows


def typed_folder(folder: Path, chance: random.Random) -> tuple[Path, pa.Table]:
    """Write a folder with columns of some types, and return it with its rows. Many files are sorted by a column."""
    folder.mkdir()
    kinds = [kind for kind in lakes.TYPES if not pa.types.is_nested(kind)]
    columns = {f"c{number}": chance.choice(kinds) for number in range(chance.randrange(1, 5))}
    schema = pa.schema({orders.UID: pa.int64(), **columns})
    rows = random_rows(schema, chance, 300)
    if chance.random() < 0.7:
        ranks = orders.Order(["c0"]).ranks(rows)
        rows = rows.take(sorted(range(len(rows)), key=ranks.__getitem__))
    rows = rows.set_column(0, schema.field(0), pa.array(range(len(rows)), pa.int64()))
    size = chance.choice((10, 30, 100))
    for start in range(0, len(rows), size):
        pq.write_table(
            rows.slice(start, size),
            folder / f"{start:03}.parquet",
            row_group_size=chance.choice((7, 100)),
            write_statistics=chance.random() < 0.8,
        )
    wait_until_old(folder)
    return folder, rows


if __name__ == "__main__":
    differences.run(__doc__, check_table, PER_TABLE, "files")
