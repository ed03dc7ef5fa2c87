"""Tables of every format with a long history, and a model of their rows after each commit."""

from __future__ import annotations

import datetime as dt
import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, WriterProperties, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

import parsieve as ps
from support.aging import wait_until_old
from support.hudi_tables import HudiTable
from support.models.position_truth import INDEXED, SCHEMA, VERSION, Physical, check_present_keys, check_random_plans

Row = tuple[Any, ...]
Rows = dict[int, Row]

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
REALS = [0.0, -0.0, math.nan, 0.1, 2.5, -1e300, math.inf, None]


def to_table(rows: Mapping[int, Row]) -> pa.Table:
    """Return rows as a table, in the order of the mapping."""
    columns = zip(*((uid, *values) for uid, values in rows.items()), strict=True) if rows else [()] * len(SCHEMA)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)


def updated(rows: Rows, uids: Collection[int]) -> Rows:
    """Return the new versions of some rows: `uid` and `key` change, and the other values stay."""
    return {uid + VERSION: (rows[uid][0] + 17, *rows[uid][1:]) for uid in uids}


class UnitTable(ABC):
    """A table that is written in small commits. Each commit also changes the model."""

    # How many of the last states can be read, if the writer removes old files; 0 for all.
    readable_states = 0

    def __init__(self, random_: random.Random) -> None:
        self.random = random_
        self.rows: Rows = {}
        self._next = 0

    @abstractmethod
    def open(self) -> ps.Table:
        """Open the table with parsieve."""

    @abstractmethod
    def state(self) -> Any:
        """Return the version of the table for `as_of`, or None if it has no history."""

    @abstractmethod
    def _insert(self, rows: Rows) -> None: ...

    @abstractmethod
    def _replace(self, gone: list[int], new: Rows) -> None:
        """Delete some rows, and insert their new versions."""

    @abstractmethod
    def cluster(self) -> None:
        """Rewrite files so that rows move, but do not change."""

    def settle(self) -> None:  # noqa: B027
        """Wait until the files can be indexed. Most formats never replace a file, so theirs always can."""

    def draw(self, count: int) -> Rows:
        """Return new rows: some keys ascend in the order of arrival, others are random."""
        random_, first = self.random, self._next
        self._next += count
        drawn = {}
        for uid in range(first, first + count):
            key = uid // 3 + random_.randrange(20) if random_.random() < 0.6 else random_.randrange(3_000)
            name = (
                None if random_.random() < 0.05 else f"n{random_.randrange(500):03}" + "x" * random_.choice([0, 0, 40])
            )
            late = dt.timedelta(hours=random_.randrange(100)) if random_.random() < 0.05 else dt.timedelta()
            at = START + dt.timedelta(seconds=uid, microseconds=random_.randrange(999)) - late
            drawn[uid] = (key, name, random_.choice(REALS), at)
        return drawn

    def insert(self, count: int) -> int:
        rows = self.draw(count)
        self._insert(rows)
        self.rows |= rows
        return count

    def update(self, count: int) -> int:
        uids = self._some(count)
        return self._change(uids, updated(self.rows, uids))

    def delete(self, count: int) -> int:
        return self._change(self._some(count), {})

    def overwrite(self, count: int) -> int:
        """Replace some rows by others."""
        return self._change(self._some(count), self.draw(count))

    def _change(self, uids: list[int], new: Rows) -> int:
        if not uids:
            return 0
        self._replace(uids, new)
        self.rows = {uid: row for uid, row in self.rows.items() if uid not in set(uids)} | new
        return len(uids)

    def _some(self, count: int) -> list[int]:
        """Choose rows that arrived together, or rows at random."""
        uids = list(self.rows)
        if len(uids) <= 3 * count:
            return []
        if self.random.random() < 0.5:
            first = self.random.randrange(len(uids) - count)
            return uids[first : first + count]
        return self.random.sample(uids, count)


class FolderTable(UnitTable):
    """A plain folder of Parquet files. The model knows the rows of each file."""

    def __init__(self, random_: random.Random, folder: Path) -> None:
        super().__init__(random_)
        self.folder = folder / "t"
        self.folder.mkdir()
        self._files: dict[str, Rows] = {}

    def open(self) -> ps.Table:
        return ps.open_table(str(self.folder))

    def state(self) -> None:
        return None

    def settle(self) -> None:
        wait_until_old(self.folder)

    def _write(self, name: str, rows: Rows) -> None:
        self._files[name] = rows
        path = self.folder / name
        if not rows:
            del self._files[name]
            path.unlink()
            return
        temporary = self.folder.parent / "written.parquet"
        pq.write_table(to_table(rows), temporary, row_group_size=self.random.choice([7, 20, 1000]))
        # Some writers replace a file, others write into it.
        if path.exists() and self.random.random() < 0.3:
            path.write_bytes(temporary.read_bytes())
        else:
            temporary.replace(path)

    def _insert(self, rows: Rows) -> None:
        self._write(f"f{len(rows)}-{min(rows)}.parquet", rows)

    def _replace(self, gone: list[int], new: Rows) -> None:
        for name, rows in list(self._files.items()):
            inside = rows.keys() & set(gone)
            if inside:
                # The new versions stay in the file of the old ones, and other new rows go to a separate file.
                stay = {uid + VERSION: new[uid + VERSION] for uid in rows if uid in inside and uid + VERSION in new}
                self._write(name, {uid: row for uid, row in rows.items() if uid not in inside} | stay)
        if others := {uid: row for uid, row in new.items() if uid - VERSION not in gone}:
            self._insert(others)

    def cluster(self) -> None:
        names = self.random.sample(sorted(self._files), min(len(self._files), 6))
        rows = {uid: row for name in names for uid, row in self._files[name].items()}
        for name in names[1:]:
            self._write(name, {})
        self._write(names[0], dict(sorted(rows.items(), key=lambda row: row[1][0])))


class DeltaUnitTable(UnitTable):
    """A Delta table, written by delta-rs."""

    def __init__(self, random_: random.Random, folder: Path) -> None:
        super().__init__(random_)
        self.path = str(folder / "t")
        DeltaTable.create(self.path, SCHEMA)

    def open(self) -> ps.Table:
        return ps.open_table(self.path)

    def state(self) -> int:
        return DeltaTable(self.path).version()

    def _properties(self) -> WriterProperties:
        return WriterProperties(max_row_group_size=self.random.choice([7, 20, 1000]))

    def _insert(self, rows: Rows) -> None:
        write_deltalake(self.path, to_table(rows), mode="append", writer_properties=self._properties())

    def _replace(self, gone: list[int], new: Rows) -> None:
        delta_table = DeltaTable(self.path)
        condition = f"uid IN ({', '.join(map(str, gone))})"
        if new.keys() == {uid + VERSION for uid in gone}:
            updates = {"uid": f"uid + {VERSION}", "key": "key + 17"}
            delta_table.update(updates=updates, predicate=condition, writer_properties=self._properties())
        elif new:
            write_deltalake(
                self.path,
                to_table(new),
                mode="overwrite",
                predicate=f"uid >= {min(gone)} AND uid <= {max(gone)}",
                writer_properties=self._properties(),
            )
        else:
            delta_table.delete(condition)

    def overwrite(self, count: int) -> int:
        # Delta checks that the new rows meet the condition of the overwrite, so they are other versions of old rows.
        uids = sorted(self._some(count))
        if not uids:
            return 0
        gone = [uid for uid in self.rows if uids[0] <= uid <= uids[-1]]
        drawn = dict(zip(gone, self.draw(len(gone)).values(), strict=True))
        return self._change(gone, {uid: drawn[uid] for uid in uids})

    def cluster(self) -> None:
        delta_table = DeltaTable(self.path)
        if self.random.random() < 0.5:
            delta_table.optimize.compact(writer_properties=self._properties())
        else:
            delta_table.optimize.z_order(["key"], writer_properties=self._properties())


class IcebergUnitTable(UnitTable):
    """An Iceberg table, written by pyiceberg."""

    def __init__(self, random_: random.Random, catalog: SqlCatalog) -> None:
        super().__init__(random_)
        # It changes with each commit, and so does a table that parsieve opens from it.
        self.table = catalog.create_table("n.t", SCHEMA)

    def open(self) -> ps.Table:
        return ps.open_table(self.table)

    def state(self) -> int | None:
        return self.table.metadata.current_snapshot_id

    def _begin(self) -> None:
        with self.table.transaction() as transaction:
            transaction.set_properties({"write.parquet.row-group-limit": str(self.random.choice([7, 20, 1000]))})

    def _insert(self, rows: Rows) -> None:
        self._begin()
        self.table.append(to_table(rows))

    def _replace(self, gone: list[int], new: Rows) -> None:
        self._begin()
        condition = f"uid IN ({', '.join(map(str, gone))})"
        if new:
            self.table.overwrite(to_table(new), condition)
        else:
            self.table.delete(condition)

    def cluster(self) -> None:
        self._begin()
        self.table.overwrite(to_table(dict(sorted(self.rows.items(), key=lambda row: row[1][0]))))


class HudiUnitTable(UnitTable):
    """A copy-on-write Hudi table. The model knows the rows of each file group."""

    def __init__(self, random_: random.Random, folder: Path) -> None:
        super().__init__(random_)
        self.hudi = HudiTable(folder / "t", SCHEMA)
        self.groups: dict[str, Rows] = {}
        self._last: str | None = None
        self._made = 0

    def open(self) -> ps.Table:
        return ps.open_table(str(self.hudi.folder))

    def state(self) -> str | None:
        return self._last

    def settle(self) -> None:
        wait_until_old(self.hudi.folder)

    def _new_group(self) -> str:
        self._made += 1
        return f"g{self._made}"

    def _commit(self, groups: dict[str, Rows]) -> None:
        size = self.random.choice([7, 20, 1000])
        self._last = self.hudi.commit({name: to_table(rows) for name, rows in groups.items()}, row_group_size=size)
        self.groups |= groups

    def _insert(self, rows: Rows) -> None:
        # Every other insert goes to a small file group, as Hudi's own writer does.
        small = [name for name, known in self.groups.items() if len(known) < 60]
        name = self.random.choice(small) if small and self.random.random() < 0.5 else self._new_group()
        self._commit({name: self.groups.get(name, {}) | rows})

    def _replace(self, gone: list[int], new: Rows) -> None:
        lost, changed = set(gone), {}
        for name, rows in self.groups.items():
            if rows.keys() & lost:
                stay = {uid + VERSION: new[uid + VERSION] for uid in rows if uid in lost and uid + VERSION in new}
                changed[name] = {uid: row for uid, row in rows.items() if uid not in lost} | stay
        if others := {uid: row for uid, row in new.items() if uid - VERSION not in lost}:
            changed[self._new_group()] = others
        self._commit(changed)

    def cluster(self) -> None:
        """Replace some file groups by a new one with their rows sorted by key."""
        names = self.random.sample(sorted(self.groups), min(len(self.groups), 5))
        rows = {uid: row for name in names for uid, row in self.groups.pop(name).items()}
        name = self._new_group()
        self.groups[name] = dict(sorted(rows.items(), key=lambda row: row[1][0]))
        self._last = self.hudi.replace(names, {name: to_table(self.groups[name])}, row_group_size=20)


@dataclass(frozen=True)
class Effort:
    """How long a history is, and how often it is checked."""

    commits: int
    # Rows that each commit inserts, updates or deletes, on average.
    rows: int
    # The number of commits between two updates of the index. Plans are checked before and after each update.
    check_every: int
    plans: int


def live(unit_table: UnitTable, effort: Effort, unit: str = "row_group") -> int:
    """Run the history of a table, and check plans before and after each update and compaction of its index.

    Return how many rows were inserted, updated, deleted and overwritten.
    """
    random_, changed = unit_table.random, unit_table.insert(4 * effort.rows)
    unit_table.settle()
    table = unit_table.open()
    fresh_places = Path(table.opened.index.store.root).parent / "fresh-indexes"  # type: ignore[attr-defined]
    build(table, unit)
    physical = Physical(table)
    states = {unit_table.state(): dict(unit_table.rows)}
    operations: list[Callable[[int], int]] = [unit_table.overwrite, *[unit_table.insert] * 4]
    operations += [unit_table.update, unit_table.delete] * 2
    for step in range(1, effort.commits + 1):
        if step % 17 == 16:
            unit_table.cluster()
        else:
            changed += random_.choice(operations)(random_.randrange(1, 2 * effort.rows))
        states[unit_table.state()] = dict(unit_table.rows)
        if step % effort.check_every:
            continue
        unit_table.settle()
        table = unit_table.open() if random_.random() < 0.5 else table
        slices = physical.rows(unit_table.rows)
        check_random_plans(table, slices, random_, effort.plans)
        table.update_index(progress=False, compact=random_.choice([None, False]))
        check_random_plans(table, slices, random_, effort.plans)
        if step % (2 * effort.check_every) == 0:
            table.compact_index(purge=random_.random() < 0.3)
            check_random_plans(table, slices, random_, effort.plans)
            check_present_keys(table, slices, random_, effort.plans, unit)
            fresh = ps.Table(table.opened.lake, str(fresh_places / f"{step}"))
            build(fresh, unit)
            check_present_keys(fresh, slices, random_, effort.plans, unit)
        if unit_table.state() is not None:
            as_of = random_.choice(list(states)[-unit_table.readable_states :])
            check_random_plans(table, physical.rows(states[as_of], as_of), random_, effort.plans, as_of)
    assert table.verify_index() == []
    return changed


def build(table: ps.Table, unit: str) -> None:
    """Build a Sieve index with units of one kind."""
    table.build_index(INDEXED, kind="sieve", unit=unit, progress=False)
