"""A plan: the files and row groups that can hold a matching row, why the others cannot, and the rows themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from parsieve._core import UnsupportedError
from parsieve.lake.base import Lake, Slice, Snapshot
from parsieve.lake.rows import foreign
from parsieve.predicate.expr import Expr, unknowns
from parsieve.prune.footer_stats import Cost
from parsieve.prune.planner import Sieving
from parsieve.prune.verdict import Keep, Skip
from parsieve.reading import Rows

if TYPE_CHECKING:
    import polars as pl
    import pyarrow.dataset as pads
    from pyspark.sql import DataFrame, SparkSession


class Plan:
    """What `Table.plan` found. It is about one state of the table, and does not change with it."""

    def __init__(
        self,
        lake: Lake,
        snapshot: Snapshot,
        expr: Expr,
        files: Sieving,
        groups: tuple[Sieving, list[tuple[int, int]]] | None,
        doubts: dict[int, list[str]],
        notes: list[str],
        cost: Cost,
    ) -> None:
        self._lake = lake
        self._snapshot = snapshot
        self._expr = expr
        self._files = files
        self._groups = groups
        self._doubts = doubts
        self._notes = notes
        self._cost = cost

    def _count(self, requests: int, bytes_fetched: int) -> None:
        """Add what was read of the index."""
        self._cost.requests += requests
        self._cost.bytes_fetched += bytes_fetched

    @cached_property
    def _opened(self) -> dict[int, tuple[list[int], list[int]]]:
        """For each slice whose footer was read: its row groups' units, and the numbers of those that are kept."""
        if self._groups is None:
            return {}
        sieving, units = self._groups
        found: dict[int, tuple[list[int], list[int]]] = {}
        for unit, ((number, group), kept) in enumerate(zip(units, sieving.kept.to_pylist(), strict=True)):
            all_units, groups = found.setdefault(number, ([], []))
            all_units.append(unit)
            if kept:
                groups.append(group)
        return found

    @cached_property
    def _kept(self) -> list[int]:
        numbers = pc.indices_nonzero(self._files.kept).to_pylist()
        return [number for number in numbers if number not in self._opened or self._opened[number][1]]

    @cached_property
    def files(self) -> list[str]:
        """The files that can hold a matching row, as an engine opens them.

        A slice that is log files alone has none; `to_arrow` reads it all the same.
        """
        return [path for number in self._kept if (path := self._snapshot.slices[number].path) is not None]

    @cached_property
    def row_groups(self) -> dict[str, list[int] | None]:
        """For each file that is kept the numbers of its row groups that are, or None where all are."""
        found: dict[str, list[int] | None] = {}
        for number in self._kept:
            path = self._snapshot.slices[number].path
            units, groups = self._opened.get(number, ([], []))
            if path is not None:
                found[path] = groups if len(groups) < len(units) else None
        return found

    @cached_property
    def kept(self) -> list[Keep]:
        """An entry for each file that is kept, with what was in doubt about it."""
        return [Keep(_name(self._slice(number)), tuple(self._doubts.get(number, ()))) for number in self._kept]

    @cached_property
    def skipped(self) -> list[Skip]:
        """An entry for each file that is skipped, with its evidence and proof."""
        kept = set(self._kept)
        return [self._skip(number) for number in range(len(self._snapshot.slices)) if number not in kept]

    def _skip(self, number: int) -> Skip:
        path = _name(self._slice(number))
        if self._groups is None or number not in self._opened:
            return Skip(path, self._files.evidence(number), _proof([self._files.proof(number)]))
        sieving, _ = self._groups
        units = self._opened[number][0]
        evidence = dict.fromkeys(sieving.evidence(unit) for unit in units)
        return Skip(path, ", ".join(evidence) or "footer", _proof([sieving.proof(unit) for unit in units]))

    def _slice(self, number: int) -> Slice:
        return self._snapshot.slices[number]

    @property
    def bytes_fetched(self) -> int:
        """Bytes of the index and of files that were read for the plan; the table's own log and listing do not count."""
        return self._cost.bytes_fetched

    @property
    def requests(self) -> int:
        """Reads of the index and of files that were made for the plan."""
        return self._cost.requests

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self._snapshot.schema

    def explain(self) -> str:
        """The plan for people: what was kept and skipped by which evidence, what was in doubt, and what it cost.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> for part in range(3):
        ...     pq.write_table(pa.table({"id": [part]}), f"{folder}/part-{part}.parquet")
        >>> print(ps.open_table(folder).plan("id = 1").explain().splitlines()[0])
        id = 1
        """
        from parsieve.explaining import explain

        return explain(self)

    def to_json(self) -> str:
        """The plan for programs, as JSON.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), folder + "/part-0.parquet")
        >>> plan = ps.open_table(folder).plan("id > 1")
        >>> import json
        >>> json.loads(plan.to_json())["predicate"]
        'id > 1'
        """
        from parsieve.explaining import to_dict

        return json.dumps(to_dict(self), indent=2)

    def _rows(self, numbers: Sequence[int] | None = None) -> Rows:
        """The rows of all files that are kept, or of some of them."""
        numbers = self._kept if numbers is None else numbers
        slices = [self._slice(number) for number in numbers]
        groups = [
            chosen if len(chosen) < len(units) else None
            for units, chosen in (self._opened.get(number, ([], [])) for number in numbers)
        ]
        return Rows(self._lake, self._snapshot, self._expr, slices, groups)

    def to_batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The matching rows as a stream of record batches, with the columns asked for (None: all).

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), folder + "/part-0.parquet")
        >>> plan = ps.open_table(folder).plan("id > 1")
        >>> sum(batch.num_rows for batch in plan.to_batches())
        1
        """
        with foreign(self._lake.uri):
            yield from self._rows().reader(columns)

    def to_arrow(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The matching rows, with the columns asked for (None: all). pandas has them by `.to_pandas()`.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), folder + "/part-0.parquet")
        >>> ps.open_table(folder).plan("id > 1").to_arrow(columns=["name"])["name"].to_pylist()
        ['b']
        """
        with foreign(self._lake.uri):
            return self._rows().reader(columns).read_all()

    def to_dataset(self) -> pads.Dataset:
        """The kept files and row groups as a pyarrow dataset that yields the matching rows.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), folder + "/part-0.parquet")
        >>> plan = ps.open_table(folder).plan("id > 1")
        >>> plan.to_dataset().count_rows()
        1
        """
        found = self._rows().dataset()
        if found is None:
            raise UnsupportedError(
                "some files are not exactly the table's rows (deletes, logs, other types) and so are no dataset; "
                "to_arrow and to_batches give the rows"
            )
        return found

    def to_polars(self) -> pl.LazyFrame:
        """The matching rows as a LazyFrame.

        Polars reads the kept files itself where they are exactly the table's rows.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), folder + "/part-0.parquet")
        >>> plan = ps.open_table(folder).plan("id > 1")
        >>> plan.to_polars().select("name").collect().rows()
        [('b',)]
        """
        return self._rows().polars()

    def to_duckdb(self, con: Any = None) -> Any:
        """The matching rows as a relation of a DuckDB connection (None: the default one).

        DuckDB reads the kept files itself where they are exactly the table's rows.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), folder + "/part-0.parquet")
        >>> plan = ps.open_table(folder).plan("id > 1")
        >>> plan.to_duckdb().fetchall()
        [(2, 'b')]
        """
        return self._rows().duckdb(con)

    def to_spark(self, spark: SparkSession, name: str | None = None) -> DataFrame:
        """Return the matching rows as a DataFrame of Spark's own, which opens only the kept files.

        The rows are those of the plan's snapshot. `ConflictError` is raised if the table has changed so that they
        cannot be read as planned. If a file of a plain folder is replaced later, the query that reads it fails with
        the same message inside Spark's error: plan again.

        `name` is the name of an Iceberg table in Spark's catalog, where its folder alone does not lead Spark to it.
        """
        from parsieve.spark.planned import frame_of

        return frame_of(self, spark, name)

    def __repr__(self) -> str:
        # Whoever sees no more than this would look for the reason elsewhere.
        doubt = ", not understood in part: see explain()" if unknowns(self._expr) else ""
        return f"<parsieve.Plan of {self._expr}: {len(self._kept)} of {len(self._snapshot.slices)} files{doubt}>"


def _proof(found: Sequence[Sequence[tuple[str, str]]]) -> str:
    """The proofs of one file, or of all its row groups."""
    if not found:
        return "the file has no row groups"
    against: dict[str, list[str]] = {}
    for unit in found:
        for question, held in unit:
            against.setdefault(question, []).append(held)
    texts = []
    for question, said in against.items():
        distinct = list(dict.fromkeys(said))
        more = f", and {len(distinct) - 2} more such" if len(distinct) > 2 else ""
        texts.append(f"{question}: {' / '.join(distinct[:2])}{more}")
    return "; ".join(texts)


def _name(piece: Slice) -> str:
    return piece.path or f"{piece.partition}/{piece.group}".lstrip("/")
