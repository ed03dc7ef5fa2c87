"""`spark.read.format("parsieve")`: read a table with parsieve's own reader, for sessions of Spark Connect.

Only the option `where` skips files. Conditions from Spark are not used: up to Spark 4.1.4, the partitions that a source
returns for the conditions of one query are reused by all other queries of the DataFrame (docs/design/spark-read.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from parsieve.errors import no_column
from parsieve.lake.rows.file_rows import foreign
from parsieve.plan.results.engines import Rows
from parsieve.spark.source.request import Request, shares
from parsieve.spark.source.types import cast, spark_schema


class ParsieveSource(datasource.DataSource):  # type: ignore[misc]
    """A table at a path, with the rows for which `where` is true.

    >>> import parsieve.spark as pss
    >>> spark = pss.session()  # doctest: +SKIP
    >>> pss.register(spark)  # doctest: +SKIP
    >>> spark.read.format("parsieve").option("where", "id = 7").load("lake/orders").count()  # doctest: +SKIP
    1
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        """Open the table, so that `load` reports errors."""
        super().__init__(options)
        self._request, self._columns, self._int96 = Request.of(options).pinned()

    @classmethod
    def name(cls) -> str:
        """Return the name that users pass to `format`."""
        return "parsieve"

    def schema(self) -> Any:
        """Return all columns of the table."""
        return _struct(spark_schema(self._columns, self._int96))

    def reader(self, schema: Any) -> ParsieveReader:
        """Return the reader of the columns in a schema, or raise `TypeError` if it has other types than the table."""
        for field in schema:
            if field.name not in self._columns.names:
                raise no_column(field.name, self._columns.names)
            [column] = _struct(spark_schema(pa.schema([self._columns.field(field.name)]), self._int96))
            if column.dataType.simpleString() != field.dataType.simpleString():
                raise TypeError(
                    f"column {field.name} is {column.dataType.simpleString()}, not {field.dataType.simpleString()}; "
                    f"load it as {column.dataType.simpleString()}, and cast it afterwards"
                )
        return ParsieveReader(self._request, schema)


class ParsieveReader(datasource.DataSourceReader):  # type: ignore[misc]
    """Reads the rows of one load. Spark uses the same partitions for all queries of a DataFrame."""

    def __init__(self, request: Request, schema: Any) -> None:
        """Store the request. Nothing is read yet."""
        self._request, self._schema = request, schema

    def partitions(self) -> Sequence[datasource.InputPartition]:
        """Plan the request, and return a partition with some of the kept files for each task."""
        return [datasource.InputPartition(rows) for rows in shares(self._request.plan())]

    def read(self, partition: datasource.InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition. Runs on executors. If no file was kept, Spark passes None."""
        if partition is None:
            return
        rows: Rows = partition.value
        schema = to_arrow_schema(self._schema)
        with foreign(self._request.path):
            for batch in rows.reader(schema.names):
                if batch.num_rows:
                    yield cast(batch, schema)


def _struct(schema: pa.Schema) -> Any:
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)
