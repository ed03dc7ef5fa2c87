"""A plan: the files and row groups that can contain a match, why the others cannot, and the matching rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from parsieve._core import UnsupportedError
from parsieve.lake.base import Lake, Slice, Snapshot
from parsieve.lake.rows.file_rows import foreign
from parsieve.lake.slices import names_of
from parsieve.plan.engines import Rows
from parsieve.plan.evidence.candidates import Sieving
from parsieve.plan.evidence.footers import Cost
from parsieve.plan.pickling import plan_state, restore_plan
from parsieve.plan.verdict import Keep, Skip
from parsieve.predicate.expr import Expr, unknowns
from parsieve.wording import count

if TYPE_CHECKING:
    import duckdb
    import polars as pl
    import pyarrow.dataset as pads
    from pyspark.sql import DataFrame, SparkSession


# Attributes that a pickle leaves out.
_EVIDENCE = frozenset({"_files", "_groups"})


class Plan:
    """The result of `Table.plan`: the files and row groups of one state of the table that can contain a match.

    A plan is an Arrow stream of the matching rows, so you can pass it to any library that reads Arrow:
    `pa.table(plan)`, `pl.DataFrame(plan)`, or `duckdb.sql("FROM plan")`. You can also pickle a plan, to read its rows
    in other processes.

    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
    >>> folder = tempfile.mkdtemp()
    >>> pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), folder + "/part-0.parquet")
    >>> plan = ps.open_table(folder).plan("id > 1")
    >>> pa.table(plan)["name"].to_pylist()
    ['b']
    """

    # The explanation of an unpickled plan; None if the plan has its evidence.
    _explained: str | None = None
    _as_json: str | None = None

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

    def __getstate__(self) -> dict[str, Any]:
        return plan_state(self, left_out=_EVIDENCE)

    def __setstate__(self, state: dict[str, Any]) -> None:
        restore_plan(self, state)

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
        """The paths or URIs of the files that can contain a match.

        A Hudi file group that has only log files has no path; `to_arrow` reads it too.
        """
        paths = self._snapshot.slices.select(pa.array(self._kept, pa.int64())).path
        return [path for path in paths.to_pylist() if path is not None]

    @cached_property
    def row_groups(self) -> dict[str, list[int] | None]:
        """The row groups to read in each kept file, or None for all of them."""
        found: dict[str, list[int] | None] = {}
        paths = self._snapshot.slices.select(pa.array(self._kept, pa.int64())).path.to_pylist()
        for number, path in zip(self._kept, paths, strict=True):
            units, groups = self._opened.get(number, ([], []))
            if path is not None:
                found[path] = groups if len(groups) < len(units) else None
        return found

    @cached_property
    def kept(self) -> list[Keep]:
        """Return an entry for each kept file, with the reasons why it could not be judged, if any."""
        names = names_of(self._snapshot.slices.select(pa.array(self._kept, pa.int64())))
        pairs = zip(names, self._kept, strict=True)
        return [Keep(name, tuple(self._doubts.get(number, ()))) for name, number in pairs]

    @cached_property
    def skipped(self) -> list[Skip]:
        """Return an entry for each skipped file, with its evidence and proof."""
        kept = set(self._kept)
        names = names_of(self._snapshot.slices)
        return [self._skip(number, name) for number, name in enumerate(names) if number not in kept]

    def _skip(self, number: int, path: str) -> Skip:
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
        """The bytes that planning read from the index and from files, without the table's log and listing."""
        return self._cost.bytes_fetched

    @property
    def requests(self) -> int:
        """The number of requests that planning made to the index and to files."""
        return self._cost.requests

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self._snapshot.schema

    def explain(self) -> str:
        """Explain the plan: what each kind of evidence kept and skipped, what was in doubt, and what planning read.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> for part in range(3):
        ...     pq.write_table(pa.table({"id": [part]}), f"{folder}/part-{part}.parquet")
        >>> print(ps.open_table(folder).plan("id = 1").explain().splitlines()[0])
        id = 1
        """
        from parsieve.plan.explain import explain

        return self._explained or explain(self)

    def to_json(self) -> str:
        """Return the plan as JSON, for programs.

        `expected_waste` estimates how many kept files hold no matching row if the predicate's values exist, and
        `expected_waste_if_absent` if they do not. Both are null if no index or filter was used.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), folder + "/part-0.parquet")
        >>> plan = ps.open_table(folder).plan("id > 1")
        >>> import json
        >>> json.loads(plan.to_json())["predicate"]
        'id > 1'
        """
        from parsieve.plan.explain import to_dict

        return self._as_json or json.dumps(to_dict(self), indent=2)

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
        """Iterate over the matching rows as record batches, with the given columns (None: all).

        If a file was replaced since the plan, the new file is read. If a file was removed, or a large file is
        overwritten after some of its rows were yielded, this raises `ConflictError`.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), folder + "/part-0.parquet")
        >>> plan = ps.open_table(folder).plan("id > 1")
        >>> sum(batch.num_rows for batch in plan.to_batches())
        1
        """
        with foreign(self._lake.uri):
            yield from self._rows().reader(columns)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The matching rows as an Arrow C stream, cast to `requested_schema` if the consumer asks for one."""
        with foreign(self._lake.uri):
            reader = self._rows().reader(None)
        # Outside of `foreign`: an error of the consumer's schema is not an error of the table.
        return reader.__arrow_c_stream__(requested_schema)

    def to_arrow(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read the matching rows, with the given columns (None: all). For pandas, call `.to_pandas()` on the result.

        If a file was replaced since the plan, the new file is read. If a file was removed or keeps changing, this
        raises `ConflictError`.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), folder + "/part-0.parquet")
        >>> ps.open_table(folder).plan("id > 1").to_arrow(columns=["name"])["name"].to_pylist()
        ['b']
        """
        with foreign(self._lake.uri):
            return self._rows().reader(columns, hold=True).read_all()

    def to_dataset(self) -> pads.Dataset:
        """Return a pyarrow dataset of the kept files and row groups that yields the matching rows.

        Like `to_arrow`, the dataset checks the files each time it is read, however much later that is.

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
                "cannot make a dataset: some files do not hold exactly the table's rows (deletes, logs, other types); "
                "use to_arrow or to_batches"
            )
        return found

    def to_polars(self) -> pl.LazyFrame:
        """Return the matching rows as a LazyFrame.

        Polars reads the kept files itself if they hold exactly the table's rows. Like `to_arrow`, each `collect` checks
        the files.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), folder + "/part-0.parquet")
        >>> plan = ps.open_table(folder).plan("id > 1")
        >>> plan.to_polars().select("name").collect().rows()
        [('b',)]
        """
        return self._rows().polars()

    def to_duckdb(self, con: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Return the matching rows as a relation of a DuckDB connection (None: the default one).

        DuckDB reads the files of Delta, Iceberg and Hudi tables itself if they hold exactly the table's rows.

        The files of a plain folder may be replaced at any time, and DuckDB does not notice if one is replaced while it
        reads. So parsieve holds these files open, and DuckDB reads the matching rows at once, up to 256 MiB. Larger
        results, and all of them where the system is not Linux, are read when you use the relation, as the dataset of
        `to_dataset`; a `ConflictError` is then a `duckdb.Error` with the same message.

        DuckDB's `fetchall()` needs the package `pytz` for timestamps with time zones; `to_arrow_table()` does not.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), folder + "/part-0.parquet")
        >>> plan = ps.open_table(folder).plan("id > 1")
        >>> plan.to_duckdb().fetchall()
        [(2, 'b')]
        """
        relation: duckdb.DuckDBPyRelation = self._rows().duckdb(con)
        return relation

    def to_spark(self, spark: SparkSession, name: str | None = None) -> DataFrame:
        """Return the matching rows as a Spark DataFrame that opens only the kept files, at the plan's snapshot.

        Raises `ConflictError` if the table has changed so that these files can no longer be read as planned. If a file
        of a plain folder is replaced after this call, the query that reads it fails with the same message inside
        Spark's error. In both cases, plan again. If Spark cannot find an Iceberg table by its folder, pass its `name`
        in Spark's catalog.
        """
        from parsieve.spark.scan.from_plan import frame_of

        frame: DataFrame = frame_of(self, spark, name)
        return frame

    def __repr__(self) -> str:
        # Without this hint, a predicate that excludes nothing looks like a defect.
        doubt = ", part of the predicate is ignored, see explain()" if unknowns(self._expr) else ""
        files = f"{len(self._kept)} of {count(len(self._snapshot.slices), 'file')}"
        return f"<parsieve.Plan of {self._expr}: {files}{doubt}>"


def _proof(found: Sequence[Sequence[tuple[str, str]]]) -> str:
    """The proofs of one file, or of all its row groups."""
    if not found:
        return "it has no row groups"
    against: dict[str, list[str]] = {}
    for unit in found:
        for question, held in unit:
            against.setdefault(question, []).append(held)
    texts = []
    for question, said in against.items():
        distinct = list(dict.fromkeys(said))
        more = f" / {count(len(distinct) - 2, 'more row group')}" if len(distinct) > 2 else ""
        texts.append(f"{question}: {' / '.join(distinct[:2])}{more}")
    return "; ".join(texts)
