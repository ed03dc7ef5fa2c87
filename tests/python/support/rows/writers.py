"""Write tables with each writer, with random settings: codecs, encodings, pages, row groups and indexes.

A writer that cannot store a column drops it.
"""

from __future__ import annotations

import functools
import io
import random
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

# Takes a table, the path of the file, random settings of the file, and settings that all files of a folder share.
Write = Callable[[pa.Table, str, random.Random, random.Random], None]

ENCODINGS = {
    "BOOLEAN": ("PLAIN", "RLE"),
    "INT32": ("PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"),
    "INT64": ("PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"),
    "FLOAT": ("PLAIN", "BYTE_STREAM_SPLIT"),
    "DOUBLE": ("PLAIN", "BYTE_STREAM_SPLIT"),
    "BYTE_ARRAY": ("PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"),
    "FIXED_LEN_BYTE_ARRAY": ("PLAIN", "BYTE_STREAM_SPLIT", "DELTA_BYTE_ARRAY"),
    "INT96": ("PLAIN",),
}


def _leaves(table: pa.Table, options: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the path and the physical type of each leaf in a file of the table."""
    file = io.BytesIO()
    pq.write_table(table.slice(0, 0), file, **options)
    schema = pq.ParquetFile(file).schema
    return [(schema.column(number).path, schema.column(number).physical_type) for number in range(len(schema))]


def pyarrow_options(table: pa.Table, random_: random.Random, shared: random.Random) -> dict[str, Any]:
    """Return random options of pyarrow's writer."""
    types: dict[str, Any] = {
        "version": shared.choice(("1.0", "2.4", "2.6", "2.6")),
        "store_decimal_as_integer": shared.random() < 0.3,
        "use_deprecated_int96_timestamps": shared.random() < 0.1,
        "use_compliant_nested_type": shared.random() < 0.9,
    }
    if types["version"] == "1.0" or types["use_deprecated_int96_timestamps"]:
        types["allow_truncated_timestamps"] = True
    leaves = _leaves(table, types)
    codecs = ("none", "snappy", "gzip", "brotli", "zstd", "lz4")
    options = types | {
        "compression": random_.choice(codecs),
        "data_page_version": random_.choice(("1.0", "2.0")),
        "data_page_size": random_.choice((1, 64, 500, 5000, 1 << 20)),
        "write_batch_size": random_.choice((1, 3, 16, 100, 1024)),
        "dictionary_pagesize_limit": random_.choice((1, 100, 1 << 20)),
        "write_page_index": random_.random() < 0.6,
        "write_page_checksum": random_.random() < 0.2,
        "store_schema": shared.random() < 0.75,
        "write_statistics": random_.random() < 0.8,
        "row_group_size": random_.choice((1, 7, 40, 100, 1 << 20)),
        # pyarrow crashes if it has to cut views, or values of a type that it converts.
        "use_content_defined_chunking": random_.random() < 0.1
        and types["version"] == "2.6"
        and "view" not in str(table.schema),
    }
    if table.num_rows > 3000:
        options |= {"row_group_size": random_.choice((20_000, 1 << 20)), "data_page_size": 2000}
        options["write_batch_size"] = 100
    if random_.random() < 0.3:
        options["max_rows_per_page"] = random_.choice((1, 2, 10, 100))
    if random_.random() < 0.15:
        options["compression"] = {path: random_.choice(codecs) for path, _ in leaves}
    form = random_.choice(("dictionary", "plain", "mixed", "mixed"))
    dictionary = {"dictionary": leaves, "plain": []}.get(form, [leaf for leaf in leaves if random_.random() < 0.5])
    options["use_dictionary"] = [path for path, _ in dictionary] or False
    encodings = {leaf[0]: random_.choice(ENCODINGS[leaf[1]]) for leaf in leaves if leaf not in dictionary}
    if encodings and form != "dictionary":
        options["column_encoding"] = encodings
    if random_.random() < 0.3:
        names = [path for path, physical in leaves if physical not in ("BOOLEAN", "INT96")]
        options["bloom_filter_options"] = {name: {"ndv": 300, "fpp": 0.01} for name in names if "." not in name}
    return options


def by_pyarrow(table: pa.Table, path: str, random_: random.Random, shared: random.Random) -> None:
    """Write a file with random options, and sometimes with row groups without rows."""
    options = pyarrow_options(table, random_, shared)
    rows = options.pop("row_group_size")
    with pq.ParquetWriter(path, table.schema, **options) as writer:
        if random_.random() < 0.1:
            writer.write_table(table.slice(0, 0))
        cut = random_.randrange(table.num_rows + 1) if random_.random() < 0.2 else table.num_rows
        writer.write_table(table.slice(0, cut), row_group_size=rows)
        if cut < table.num_rows or random_.random() < 0.1:
            writer.write_table(table.slice(cut), row_group_size=rows)


@functools.cache
def _duckdb() -> Any:
    import duckdb

    return duckdb.connect(config={"threads": 1})


def by_duckdb(table: pa.Table, path: str, random_: random.Random, shared: random.Random) -> None:
    connection = _duckdb()
    codec = random_.choice(("snappy", "zstd", "gzip", "brotli", "lz4_raw", "uncompressed"))
    options = [f"COMPRESSION {codec}", f"PARQUET_VERSION {random_.choice(('v1', 'v2'))}"]
    options.append(f"ROW_GROUP_SIZE {random_.choice((2048, 4096, 122_880))}")
    if random_.random() < 0.5:
        options.append(f"DICTIONARY_SIZE_LIMIT {random_.choice((0, 3, 100))}")
    connection.register("written", table)
    try:
        connection.execute(f"COPY (FROM written) TO '{path}' (FORMAT parquet, {', '.join(options)})")
    finally:
        connection.unregister("written")


def by_polars(table: pa.Table, path: str, random_: random.Random, shared: random.Random) -> None:
    import polars as pl

    pl.DataFrame(pl.from_arrow(table)).write_parquet(
        path,
        compression=random_.choice(("uncompressed", "snappy", "gzip", "brotli", "zstd", "lz4")),
        row_group_size=random_.choice((7, 40, 1000)),
        data_page_size=random_.choice((None, 100, 2000)),
        statistics=random_.choice((True, False, "full")),
    )


@functools.cache
def _datafusion() -> Any:
    from datafusion import SessionConfig, SessionContext

    return SessionContext(SessionConfig().with_target_partitions(1))


def by_arrow_rs(table: pa.Table, path: str, random_: random.Random, shared: random.Random) -> None:
    """Write a file with DataFusion, which uses the `parquet` crate."""
    from datafusion import ParquetColumnOptions, ParquetWriterOptions

    physical = {path: kind for path, kind in _leaves(table, {}) if "." not in path}
    columns = {}
    for name, kind in physical.items():
        if name and random_.random() < 0.5:
            encodings = [encoding.lower() for encoding in ENCODINGS[kind]]
            columns[name] = ParquetColumnOptions(encoding=random_.choice(encodings), dictionary_enabled=False)
    options = ParquetWriterOptions(
        data_pagesize_limit=random_.choice((1, 100, 5000, 1 << 20)),
        write_batch_size=random_.choice((1, 10, 1024)),
        data_page_row_count_limit=random_.choice((1, 10, 100, 20_000)),
        writer_version=random_.choice(("1.0", "2.0")),
        skip_arrow_metadata=shared.random() < 0.3,
        compression=random_.choice(("uncompressed", "snappy", "gzip(4)", "brotli(3)", "zstd(3)", "lz4", "lz4_raw")),
        dictionary_enabled=random_.random() < 0.6,
        dictionary_page_size_limit=random_.choice((1, 100, 1 << 20)),
        statistics_enabled=random_.choice(("none", "chunk", "page", "page")),
        max_row_group_size=random_.choice((7, 40, 1000, 1 << 20)),
        bloom_filter_on_write=random_.random() < 0.2,
        allow_single_file_parallelism=False,
        column_specific_options=columns,
    )
    frame = _datafusion().create_dataframe([table.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]])
    frame.write_parquet_with_options(path, options)
    if not Path(path).is_file():
        # It writes no file for a table without rows.
        raise UnwritableError("no rows")


def by_fastparquet(table: pa.Table, path: str, random_: random.Random, shared: random.Random) -> None:
    if table.num_rows == 0:
        raise UnwritableError("no rows")
    import_module("fastparquet").write(
        path,
        table.to_pandas(),
        row_group_offsets=random_.choice((20, 1000)),
        compression=random_.choice((None, "SNAPPY", "GZIP", "ZSTD", "LZ4")),
        times=random_.choice(("int64", "int96")),
        write_index=False,
    )


def by_clickhouse(table: pa.Table, path: str, random_: random.Random, shared: random.Random) -> None:
    source = f"{path}.source"
    try:
        pq.write_table(table, source)
        version = random_.choice(("1.0", "2.6", "2.latest"))
        codec = random_.choice(("none", "snappy", "gzip", "brotli", "zstd", "lz4"))
        import_module("chdb").query(
            f"SELECT * FROM file('{source}', Parquet) INTO OUTFILE '{path}' FORMAT Parquet "
            f"SETTINGS output_format_parquet_row_group_size = {random_.choice((30, 1000))}, "
            f"output_format_parquet_data_page_size = {random_.choice((100, 5000))}, "
            f"output_format_parquet_version = '{version}', output_format_parquet_compression_method = '{codec}', "
            f"output_format_parquet_write_page_index = {random_.randrange(2)}, max_threads = 1"
        )
    finally:
        Path(source).unlink(missing_ok=True)


class UnwritableError(Exception):
    """A writer cannot store a table."""


WRITERS: dict[str, tuple[str, Write]] = {
    "pyarrow": ("pyarrow", by_pyarrow),
    "duckdb": ("duckdb", by_duckdb),
    "polars": ("polars", by_polars),
    "arrow-rs": ("datafusion", by_arrow_rs),
    "fastparquet": ("fastparquet", by_fastparquet),
    "clickhouse": ("chdb", by_clickhouse),
}


def installed() -> dict[str, Write]:
    """Return the writers whose library is installed."""
    return {name: write for name, (module, write) in WRITERS.items() if find_spec(module) is not None}


def write_file(writer: str, table: pa.Table, path: str, random_: random.Random, shared: int = 0) -> pa.Table | None:
    """Write a table without the columns that the writer cannot store or pyarrow cannot read.

    `shared` is the seed of the settings that all files of a folder share. Returns the table without these columns, or
    None if no column is left.
    """
    write, seed = WRITERS[writer][1], random_.getrandbits(64)

    def is_written(part: pa.Table) -> bool:
        try:
            Path(path).unlink(missing_ok=True)
            write(part, path, random.Random(seed), random.Random(shared))
            file = pq.ParquetFile(path)
            # pyarrow ends before the first page without values, which it writes to a row group without rows.
            return bool(file.read().num_rows == file.metadata.num_rows)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            # Polars and DataFusion report panics of Rust code as a `BaseException`.
            return False

    if is_written(table):
        return table
    kept = [name for name in table.column_names if is_written(table.select([name]))]
    while kept:
        if is_written(table.select(kept)):
            return table.select(kept)
        # Some columns can be written only without others.
        kept.pop()
    Path(path).unlink(missing_ok=True)
    return None
