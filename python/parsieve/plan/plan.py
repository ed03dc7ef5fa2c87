"""A plan: the files and row groups that can contain a match, why the others cannot, and the matching rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from parsieve.lake.rows.fields import refuse_nul
from parsieve.lake.rows.file_rows import foreign
from parsieve.observe.notebook import html_of
from parsieve.plan.pickling import record_state, restore_record
from parsieve.plan.record import PlanRecord
from parsieve.plan.results.matches import Matches
from parsieve.plan.verdict import Keep, Skip
from parsieve.sharing import cached_property
from parsieve.wording import count

if TYPE_CHECKING:
    import duckdb
    import polars as pl
    import pyarrow.dataset as pads
    from pyspark.sql import DataFrame, SparkSession

    from parsieve.plan.results.engines import Rows


# Spark's side of `Plan.to_spark`, by name, because parsieve.spark builds on plans. The package imports upward only here
# and in `observe/notebook.py`.
_SPARK = "parsieve.spark.scan.read"


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

    # The decisions of the plan and their reasons.
    record: PlanRecord

    def __init__(self, record: PlanRecord) -> None:
        self.record = record

    def __getstate__(self) -> dict[str, Any]:
        return record_state(self.record, repr(self))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.record = restore_record(state)

    @cached_property
    def files(self) -> list[str]:
        """The paths or URIs of the files that can contain a match.

        A Hudi file group that has only log files has no path; `to_arrow` reads it too.
        """
        return list(self.record.paths().values())

    @cached_property
    def row_groups(self) -> dict[str, list[int] | None]:
        """The row groups to read in each kept file, or None for all of them."""
        return {path: self.record.groups_to_read(number) for number, path in self.record.paths().items()}

    @cached_property
    def row_ranges(self) -> dict[str, list[tuple[int, int]] | None]:
        """The ranges of rows to read in each kept file, or None for all of its rows.

        Each range is a pair of a first row and a number of rows. Rows are counted in the file as stored, before any
        deletes. Ranges come from an index with units smaller than files, and from footers. They are valid only for the
        planned version of a file. If a file was replaced since then, read the whole file.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": range(9)}), folder + "/part-0.parquet", row_group_size=3)
        >>> plan = ps.open_table(folder).plan("id IN (1, 8)")
        >>> list(plan.row_ranges.values())
        [[(0, 3), (6, 3)]]
        """
        return {path: self.record.row_ranges.get(number) for number, path in self.record.paths().items()}

    @cached_property
    def kept(self) -> list[Keep]:
        """Return an entry for each kept file, with the reasons why it could not be judged, if any."""
        return self.record.keeps

    @cached_property
    def skipped(self) -> list[Skip]:
        """Return an entry for each skipped file, with its evidence and proof."""
        return self.record.skips

    @property
    def bytes_fetched(self) -> int:
        """The bytes that planning read from the index and from files, without the table's log and listing."""
        return self.record.cost.bytes_fetched

    @property
    def requests(self) -> int:
        """The number of requests that planning made to the index and to files."""
        return self.record.cost.requests

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self.record.snapshot.schema

    def explain(self) -> str:
        """Explain the plan: the files that each kind of evidence kept and skipped, doubts, and the cost of planning.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> for part in range(3):
        ...     pq.write_table(pa.table({"id": [part]}), f"{folder}/part-{part}.parquet")
        >>> print(ps.open_table(folder).plan("id = 1").explain().splitlines()[0])
        id = 1
        """
        from parsieve.plan.explain import explain

        return explain(self.record)

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

        return json.dumps(to_dict(self.record), indent=2)

    def _rows(self) -> Rows:
        """Return the matching rows for engines. They need modules that take longer to import than a plan takes."""
        from parsieve.plan.results.engines import Rows

        return Rows.of(self.record)

    def to_batches(
        self, columns: Sequence[str] | None = None, *, threads: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over the matching rows as record batches, with the given columns (None: all).

        See `to_arrow` for how the rows are read, and for `threads`.

        If a file was replaced since the plan, the new file is read. If a file was removed, or a large file is
        overwritten after some of its rows were yielded, this raises `ConflictError`.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), folder + "/part-0.parquet")
        >>> plan = ps.open_table(folder).plan("id > 1")
        >>> sum(batch.num_rows for batch in plan.to_batches())
        1
        """
        with foreign(self.record.lake.uri):
            yield from MatchingRows.of(self.record).reader(columns, threads=threads)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the matching rows as an Arrow C stream, cast to `requested_schema` if it is given."""
        refuse_nul(self.schema)
        with foreign(self.record.lake.uri):
            reader = MatchingRows.of(self.record).reader(None)
        # Outside of `foreign`: an error of the consumer's schema is not an error of the table.
        return reader.__arrow_c_stream__(requested_schema)

    def to_arrow(self, columns: Sequence[str] | None = None, *, threads: int | None = None) -> pa.Table:
        """Read the matching rows, with the given columns (None: all). For pandas, call `.to_pandas()` on the result.

        This first reads the columns of the predicate, only in the row groups and row ranges of the plan. Then it reads
        the other columns, only in the pages with matching rows. It reads up to `threads` files at the same time (None:
        one for each processor). Without a predicate, or if parsieve's own reader does not support a file, pyarrow
        decodes complete row groups instead.

        If a file was replaced since the plan, the new file is read. If a file was removed or keeps changing, this
        raises `ConflictError`.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), folder + "/part-0.parquet")
        >>> ps.open_table(folder).plan("id > 1").to_arrow(columns=["name"])["name"].to_pylist()
        ['b']
        """
        with foreign(self.record.lake.uri):
            return MatchingRows.of(self.record).reader(columns, hold=True, threads=threads).read_all()

    def count_rows(self, *, threads: int | None = None) -> int:
        """Return the number of matching rows. This reads only the columns of the predicate.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> pq.write_table(pa.table({"id": [1, 2, 3]}), folder + "/part-0.parquet")
        >>> ps.open_table(folder).plan("id > 1").count_rows()
        2
        """
        return int(self.to_arrow([], threads=threads).num_rows)

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
        return self._rows().certain_dataset()

    def to_polars(self) -> pl.LazyFrame:
        """Return the matching rows as a LazyFrame.

        If few rows of the table can match, parsieve reads the rows when you collect the frame. Otherwise, Polars reads
        the kept files itself if they hold exactly the table's rows. Like `to_arrow`, each `collect` checks the files.

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

        If few rows of the table can match, parsieve reads the rows immediately, up to 256 MiB. Otherwise, DuckDB reads
        the files of Delta, Iceberg and Hudi tables itself if they hold exactly the table's rows.

        The files of a plain folder may be replaced at any time, and DuckDB does not notice if one is replaced while it
        reads. So parsieve holds these files open, and DuckDB reads the matching rows immediately, up to 256 MiB. If
        the result is larger, or if the system is not Linux, DuckDB reads the dataset of `to_dataset` when you use the
        relation. A `ConflictError` is then a `duckdb.Error` with the same message.

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
        frame: DataFrame = import_module(_SPARK).read_plan(self, spark, name)
        return frame

    def _repr_html_(self) -> str | None:
        return html_of(self)

    def __repr__(self) -> str:
        # Without this hint, a predicate that excludes nothing looks like a defect.
        doubt = ", part of the predicate is ignored, see explain()" if self.record.unknown else ""
        files = f"{len(self.record.kept)} of {count(len(self.record.snapshot.slices), 'file')}"
        return f"<parsieve.Plan of {self.record.expr}: {files}{doubt}>"


class MatchingRows(Matches):
    """The matching rows of a plan. They need the modules of engines only if a file cannot be read page by page."""

    def scan(self, output: list[str], hold: bool) -> pa.RecordBatchReader:
        """Return the rows as a stream, decoded by pyarrow."""
        from parsieve.plan.results.engines import Rows

        return self.of_kind(Rows).scan(output, hold)
