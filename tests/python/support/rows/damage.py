"""Read damaged files: a plan raises a typed error, or it returns rows that pyarrow reads, or the rows as written.

A flipped value in a page without a checksum is a valid other value, so pyarrow's reading of the damaged file counts as
right, too. Everything else must be an error. In a chunk that pyarrow cannot read, only the written rows are right.
"""

from __future__ import annotations

import functools
import itertools
import random
import shutil
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pyarrow.types as pt

import parsieve as ps
from support import footer_edit
from support.aging import wait_until_old
from support.rows import writers
from support.rows.cases import (
    EITHER,
    EQUAL,
    MISMATCH,
    Folder,
    Outcome,
    build_index,
    logged_reads,
    projection_of,
    readers_used,
)
from support.rows.conditions import paths_of, plain_values, random_condition, truths
from support.rows.languages import LANGUAGES, UnsayableError
from support.rows.reading import as_rows, difference, flat_parts, take
from support.rows.tables import random_rows, random_schema

UID = "uid"
# Field numbers in parquet.thrift: of ColumnMetaData, and of the offset index in ColumnChunk.
DATA_OFFSET, DICTIONARY_OFFSET, COMPRESSED_SIZE = 9, 11, 7
INDEX_OFFSET, INDEX_LENGTH = 4, 5


def chunks_of(data: bytes) -> list[tuple[int, int, tuple[int, int] | None]]:
    """Return where the pages of each chunk begin and end, and its offset index."""
    chunks = []
    for group in footer_edit.footer(data)[footer_edit.ROW_GROUPS][1][1]:
        for chunk in group[footer_edit.COLUMNS][1][1]:
            meta = chunk[footer_edit.META_DATA][1]
            start = meta[DATA_OFFSET][1]
            if 0 < meta.get(DICTIONARY_OFFSET, (0, 0))[1] < start:
                start = meta[DICTIONARY_OFFSET][1]
            index = (chunk[INDEX_OFFSET][1], chunk[INDEX_LENGTH][1]) if INDEX_OFFSET in chunk else None
            chunks.append((start, start + meta[COMPRESSED_SIZE][1], index))
    return chunks


def damaged(data: bytes, random_: random.Random) -> tuple[str, bytes]:
    """Return a description of a damage of one chunk, and the damaged file."""
    chunks = [chunk for chunk in chunks_of(data) if chunk[0] < chunk[1]]
    if not chunks:
        return "nothing", data
    start, end, index = random_.choice(chunks)
    form = random_.choice(("byte", "byte", "byte", "header", "header", "zeros", "offset index"))
    changed = bytearray(data)
    if form == "offset index" and index is not None:
        start, end = index[0], index[0] + index[1]
    length = 1
    if form == "header":
        end = min(end, start + 25)
    elif form == "zeros":
        length = random_.choice((2, 20, 200))
    place = random_.randrange(start, end)
    for position in range(place, min(place + length, end)):
        changed[position] = 0 if form == "zeros" else changed[position] ^ (1 << random_.randrange(8))
    return f"{form} at {place} of {start} to {end}", bytes(changed)


class Rows:
    """The rows of a damaged file: as written, and as pyarrow reads them now."""

    def __init__(self, path: str, written: pa.Table, schema: pa.Schema) -> None:
        self.written = as_rows(written, schema)
        self.schema = schema
        metadata = pq.read_metadata(path)
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        self.borders = list(itertools.accumulate(sizes, initial=0))
        # Chunks that pyarrow cannot read, by row group and column.
        self.broken: set[tuple[int, int]] = set()
        columns = [self._column(path, number, field) for number, field in enumerate(schema)]
        self.now = pa.table(columns, schema=schema)

    def _column(self, path: str, number: int, field: pa.Field) -> pa.ChunkedArray:
        """Read a column, with the written values of the row groups in which pyarrow cannot read it."""
        whole = _read(path, None, field, self.borders[-1])
        if whole is not None:
            return whole
        chunks: list[pa.Array] = []
        for group, (first, end) in enumerate(itertools.pairwise(self.borders)):
            rows = _read(path, group, field, end - first)
            if rows is None:
                self.broken.add((group, number))
                rows = self.written.column(number).slice(first, end - first)
            chunks.extend(rows.chunks)
        return pa.chunked_array(chunks, field.type)


def _read(path: str, group: int | None, field: pa.Field, count: int) -> pa.ChunkedArray | None:
    """Return a column of a row group or of the whole file; None if pyarrow cannot read it, or not all of its rows."""
    try:
        file = pq.ParquetFile(path)
        groups = list(range(file.num_row_groups)) if group is None else [group]
        rows = as_rows(file.read_row_groups(groups, columns=[field.name]), pa.schema([field]))
        return rows.column(0) if rows.num_rows == count else None
    except (pa.ArrowException, OSError, ValueError, OverflowError):
        return None


def keys_of(column: pa.ChunkedArray) -> list[Any]:
    """Return a Python value for each value, which are equal only if the values are equal bit for bit."""
    kind = column.type
    if pt.is_nested(kind):
        rows = (chunk.slice(row, 1) for chunk in column.chunks for row in range(len(chunk)))
        return [tuple(part.to_string(window=10_000) for part in flat_parts(row)) for row in rows]
    if pt.is_floating(kind):
        bits = {16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}[kind.bit_width]
        return [value for chunk in column.chunks for value in chunk.view(bits).to_pylist()]
    return plain_values(column)


def unexplained(actual: pa.Table, rows: Rows, numbers: Sequence[int], was: Sequence[bool], now: Sequence[bool]) -> str:
    """Return how the rows of a plan differ from the written rows and from pyarrow's reading, or ""."""
    found = list(zip(*(keys_of(column) for column in actual.columns), strict=True))
    written = [keys_of(rows.written.column(number)) for number in numbers]
    read = [keys_of(rows.now.column(number)) for number in numbers]
    at = 0
    for row, (matched, matches) in enumerate(zip(was, now, strict=True)):
        if not matched and not matches:
            continue
        fits = at < len(found) and all(
            value in (old[row], new[row]) for value, old, new in zip(found[at], written, read, strict=True)
        )
        if fits:
            at += 1
        elif matched and matches:
            return f"row {row} is missing, or not the next row: {found[at : at + 1]}"
    return "" if at == len(found) else f"{len(found) - at} rows too many, first {found[at]}"


def is_read_by_pyarrow(path: str, schema: pa.Schema, actual: pa.Table, test: Callable[[pa.Table], list[Any]]) -> bool:
    """Return whether pyarrow reads exactly these rows, although it reads more or fewer than the footer says."""
    try:
        full = as_rows(pads.dataset(path).to_table(), schema)
    except (pa.ArrowException, OSError):
        return False
    rows = [row for row, truth in enumerate(test(full)) if truth is True]
    return difference(actual, take(full, rows).select(actual.schema.names)) is None


def sound_file(random_: random.Random, root: Path, writer: str | None) -> Folder | None:
    """Write a file with a column of unique numbers; None if pyarrow or parsieve cannot read all of its rows."""
    available = [name for name in ("pyarrow", "arrow-rs", "duckdb", "polars") if name in writers.installed()]
    chosen = random_.choice(available)
    writer = writer or chosen
    folder = root / "table"
    folder.mkdir(parents=True)
    schema = random_schema(random_, 3)
    fields = [pa.field(UID, pa.int64()), *(field for field in schema if field.name)]
    size = random_.choice((5, 40, 200, 200))
    table = random_rows(pa.schema(fields), random_, size)
    table = table.set_column(0, UID, pa.array(range(1000, 1000 + size)))
    written = writers.write_file(writer, table, str(folder / "0.parquet"), random_)
    if written is None or UID not in written.schema.names:
        return None
    sound = Folder.of(folder, writer)
    return None if sound.excuse or not sound.is_filtered_by_pyarrow() else sound


def run_damage(seed: str, root: Path, count: int, damages: int = 4, writer: str | None = None) -> list[Outcome]:
    """Write a file, and compare some plans for each of some damages."""
    random_ = random.Random(seed)
    sound = sound_file(random_, root, writer)
    if sound is None:
        return []
    [path] = sound.files
    intact = Path(path).read_bytes()
    outcomes = []
    for _ in range(damages):
        shutil.rmtree(root / ".parsieve", ignore_errors=True)
        Path(path).write_bytes(intact)
        sound.index = "no index"
        if random_.random() < 0.3:
            build_index(ps.open_table(str(sound.path)), sound, random_)
        name, data = damaged(intact, random_)
        Path(path).write_bytes(data)
        wait_until_old(sound.path)
        rows = functools.cache(functools.partial(Rows, path, sound.tables[0], sound.schema))
        outcomes += [_check(sound, path, rows, random_, f"{name}, {sound.index}") for _ in range(count)]
    return outcomes


def _check(folder: Folder, path: str, read: Callable[[], Rows], random_: random.Random, about: str) -> Outcome:
    language = random_.choice([language for language in LANGUAGES if language.name in ("sql", "arrow", "keys")])
    leaves = [leaf for leaf in paths_of(folder.schema) if language.accepts(leaf[1])]
    condition = random_condition(random_, folder.sample(), leaves, language.ops, language.shape)
    assert condition is not None, "every file has a column with numbers"
    form, names = projection_of(random_, folder.schema, condition)
    names = [UID, *(name for name in names or folder.schema.names if name != UID)]
    outcome = Outcome(EQUAL, folder.writer, language.name, projection=form, index=about.partition(" ")[0])
    options: dict[str, Any] = {"row_groups": random_.choice((None, True, False)), "on_unknown": "error"}
    try:
        request = language.render(condition, folder.schema, random_)
    except UnsayableError:
        outcome.result = EITHER
        return outcome
    about = f"{about}: {condition}, {names}, {options}"
    actual = None
    try:
        plan = ps.open_table(str(folder.path)).plan(**request, **options)
        with logged_reads():
            actual = plan.to_arrow(names)
        outcome.readers = tuple(readers_used(plan) or ())
    except ps.ParsieveError as error:
        outcome.result, outcome.detail = EITHER, f"{type(error).__name__}: {error}"
        return outcome
    except Exception:
        outcome.result, outcome.detail = MISMATCH, f"{about}\n{traceback.format_exc()}"
        return outcome
    outcome.num_rows = actual.num_rows
    rows = read()
    schema = pa.schema([folder.schema.field(name) for name in names])
    if not actual.schema.equals(schema, check_metadata=True):
        problem = f"schema {actual.schema}"
    else:
        was = [truth is True for truth in truths(condition, rows.written, language.rules)]
        now = [truth is True for truth in truths(condition, rows.now, language.rules)]
        numbers = [folder.schema.get_field_index(name) for name in names]
        problem = unexplained(actual, rows, numbers, was, now)
    if problem and is_read_by_pyarrow(
        path, folder.schema, actual, lambda full: truths(condition, full, language.rules)
    ):
        outcome.detail, problem = "pyarrow reads another number of rows than the footer says", ""
    if problem:
        outcome.result = MISMATCH
        outcome.detail = f"{about}\n{problem}\nunreadable for pyarrow: {sorted(rows.broken)}, borders {rows.borders}"
    return outcome
