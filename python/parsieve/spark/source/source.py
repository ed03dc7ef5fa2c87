"""`spark.read.format("parsieve")`: a table by our own reader, for sessions that show no lists of files (Spark Connect).

The files are chosen by the option `where`, and by nothing that Spark hands over: until Spark 4.1.4 what a source has
answered to one query's conditions is kept for every other query of the same DataFrame (docs/design/spark-read.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from parsieve.errors import no_column
from parsieve.lake.rows.file_rows import foreign
from parsieve.plan.engines import Rows
from parsieve.spark.source.request import Request, shares
from parsieve.spark.source.types import cast, seen


class ParsieveSource(datasource.DataSource):  # type: ignore[misc]
    """One load: a table by its path, the rows for which `where` is true.

    >>> import parsieve.spark as pss
    >>> spark = pss.session()  # doctest: +SKIP
    >>> pss.register(spark)  # doctest: +SKIP
    >>> spark.read.format("parsieve").option("where", "id = 7").load("lake/orders").count()  # doctest: +SKIP
    1
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        """Look at the table, so that whatever is wrong is said by `load`."""
        super().__init__(options)
        self._request, self._columns, self._instants = Request.of(options).pinned()

    @classmethod
    def name(cls) -> str:
        """What `format` is given."""
        return "parsieve"

    def schema(self) -> Any:
        """All columns of the table."""
        return _struct(seen(self._columns, self._instants))

    def reader(self, schema: Any) -> ParsieveReader:
        """What plans and reads the columns that the user named, or all."""
        for field in schema:
            if field.name not in self._columns.names:
                raise no_column(field.name, self._columns.names)
            [held] = _struct(seen(pa.schema([self._columns.field(field.name)]), self._instants))
            if held.dataType.simpleString() != field.dataType.simpleString():
                raise TypeError(
                    f"column {field.name} is {held.dataType.simpleString()}, not {field.dataType.simpleString()}; "
                    "load it as it is, and cast it then"
                )
        return ParsieveReader(self._request, schema)


class ParsieveReader(datasource.DataSourceReader):  # type: ignore[misc]
    """The rows of one load. It answers nothing that depends on a query, since Spark asks it once for all of them."""

    def __init__(self, request: Request, schema: Any) -> None:
        """Nothing is looked at yet."""
        self._request, self._schema = request, schema

    def partitions(self) -> Sequence[datasource.InputPartition]:
        """Some of the files that can hold a row of the answer for each task."""
        return [datasource.InputPartition(rows) for rows in shares(self._request.plan())]

    def read(self, partition: datasource.InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of some files, on an executor; None where no file is left."""
        if partition is None:
            return
        rows: Rows = partition.value
        wanted = to_arrow_schema(self._schema)
        with foreign(self._request.path):
            for batch in rows.reader(wanted.names):
                if batch.num_rows:
                    yield cast(batch, wanted)


def _struct(schema: pa.Schema) -> Any:
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)
