"""Read random rows of files with the core's row reader, and compare them with the rows that pyarrow reads."""

from __future__ import annotations

import random
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from parsieve import _core
from parsieve._core import Fetched, ParsieveError
from support.rows.cases import Folder, write_folder
from support.rows.damage import Rows, damaged, keys_of, sound_file
from support.rows.reading import take, value_difference
from support.rows.values import family

# Without the row reader, the tests are skipped.
RowFile: Any = getattr(_core, "RowFile", None)
RowSet: Any = getattr(_core, "RowSet", None)


@dataclass
class CoreOutcome:
    """The comparison of one read of one file."""

    writer: str
    mismatch: str = ""
    # The types of the columns: read, refused with the reason, or of another type than in pyarrow.
    read: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    other_type: list[str] = field(default_factory=list)
    num_rows: int = 0
    fetched: int = 0


def open_rows(data: bytes) -> Any:
    """Open a file by its footer."""
    fetched = Fetched()
    while True:
        needed, file = RowFile.open(len(data), fetched)
        if file is not None:
            return file
        assert needed, "neither a file nor ranges to fetch"
        for start, end in needed:
            fetched.insert(start, data[start:end])


def read_rows(
    data: bytes, file: Any, columns: Sequence[int], rows: Any, batch_rows: int, budget: int | None = None
) -> tuple[pa.Table, int]:
    """Return rows, and the number of bytes that the scan needed."""
    scan = file.scan(columns, rows, batch_rows, **({} if budget is None else {"budget": budget}))
    batches: list[pa.RecordBatch] = []
    fetched = 0
    while True:
        needed, batch = scan.step()
        if needed:
            assert batch is None, "a step returns ranges or a batch"
            for start, end in needed:
                assert 0 <= start < end <= len(data), (start, end, len(data))
                scan.insert(start, data[start:end])
                fetched += end - start
        elif batch is None:
            return pa.Table.from_batches(batches, scan.schema), fetched
        else:
            assert batch.schema.equals(scan.schema, check_metadata=True)
            assert 0 < batch.num_rows <= batch_rows
            batches.append(batch)


def random_ranges(random_: random.Random, num_rows: int) -> list[tuple[int, int]]:
    """Return some ranges of rows: single rows, short and long ranges, all rows or none."""
    form = random_.choice(("rows", "rows", "ranges", "ranges", "one", "all", "none", "ends"))
    if num_rows == 0 or form == "none":
        return []
    if form == "all":
        return [(0, num_rows)]
    if form == "one":
        return [(random_.randrange(num_rows), 1)]
    if form == "ends":
        return [(0, 1), (num_rows - 1, 1)] if num_rows > 1 else [(0, 1)]
    ranges, row = [], random_.randrange(num_rows)
    longest = 1 if form == "rows" else random_.choice((2, 10, 100))
    gap = random_.choice((1, 3, 30, 300))
    while row < num_rows:
        count = min(num_rows - row, random_.randrange(1, longest + 1))
        ranges.append((row, count))
        row += count + random_.randrange(1, gap + 1)
    return ranges


def numbers_of(ranges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the row numbers in some ranges."""
    return [row for first, count in ranges for row in range(first, first + count)]


def check_row_sets(random_: random.Random, num_rows: int) -> None:
    """Compare operations on row sets with Python's sets."""
    left, right = random_ranges(random_, num_rows), random_ranges(random_, num_rows)
    one, two = RowSet.of(left), RowSet.of(right)
    wanted, others = numbers_of(left), set(numbers_of(right))
    assert numbers_of(one.ranges) == wanted
    assert one.num_rows == len(wanted)
    assert numbers_of(one.intersect(two).ranges) == [row for row in wanted if row in others]
    deleted = pa.array(sorted(others), random_.choice((pa.int64(), pa.uint64(), pa.int32(), pa.uint32())))
    assert numbers_of(one.without(deleted).ranges) == [row for row in wanted if row not in others]
    mask = [random_.choice((True, False, None)) for _ in wanted]
    kept = [row for row, is_kept in zip(wanted, mask, strict=True) if is_kept]
    cut = random_.randrange(len(mask) + 1)
    for array in (
        pa.array(mask, pa.bool_()),
        pa.chunked_array([pa.array(mask[:cut], pa.bool_()), pa.array([True, *mask[cut:]], pa.bool_()).slice(1)]),
    ):
        assert numbers_of(one.filter(array).ranges) == kept
    assert numbers_of(RowSet.all(num_rows).ranges) == list(range(num_rows))


def check_file(path: str, random_: random.Random, writer: str, count: int) -> list[CoreOutcome]:
    """Compare some reads of one file."""
    data = Path(path).read_bytes()
    outcomes = []
    outcome = CoreOutcome(writer)
    try:
        theirs = pq.ParquetFile(path).read()
        file = open_rows(data)
        sizes = [pq.read_metadata(path).row_group(n).num_rows for n in range(pq.read_metadata(path).num_row_groups)]
        assert file.row_groups == sizes, (file.row_groups, sizes)
        assert file.num_rows == theirs.num_rows
        assert file.schema.names == theirs.schema.names, (file.schema.names, theirs.schema.names)
        readable = []
        for number, column in enumerate(theirs.schema):
            reason = file.unreadable(number)
            if reason is not None:
                outcome.refused.append(f"{family(column.type)}: {reason}")
            elif not file.schema.field(number).type.equals(column.type):
                outcome.other_type.append(f"{column.type} is {file.schema.field(number).type}")
            else:
                readable.append(number)
        outcome.read = [family(theirs.schema.field(number).type) for number in readable]
        check_row_sets(random_, theirs.num_rows)
    except BaseException:
        outcome.mismatch = traceback.format_exc()
        return [outcome]
    for _ in range(count):
        outcome = CoreOutcome(writer, read=outcome.read, refused=outcome.refused, other_type=outcome.other_type)
        outcomes.append(outcome)
        ranges = random_ranges(random_, theirs.num_rows)
        chosen = random_.sample(readable, random_.randrange(len(readable) + 1))
        batch_rows = random_.choice((1, 7, 100, 65_536) if theirs.num_rows < 5000 else (1000, 65_536))
        budget = random_.choice((None, None, 1, 1000))
        about = f"columns {chosen} of {theirs.schema.names}, {batch_rows=}, {budget=}, ranges {str(ranges)[:200]}"
        try:
            rows = RowSet.of(ranges)
            actual, outcome.fetched = read_rows(data, file, chosen, rows, batch_rows, budget)
            expected = take(theirs, numbers_of(ranges)).replace_schema_metadata(None).select(chosen)
            outcome.num_rows = actual.num_rows
            found = _schema_difference(actual.schema, expected.schema) or value_difference(actual, expected)
            if found is None and chosen and file.compressed_size(chosen, RowSet.all(file.num_rows)) < 0:
                found = "a negative size"
            outcome.mismatch = f"{about}\n{found}" if found else ""
        except BaseException:
            # A panic of Rust code is a `BaseException`.
            outcome.mismatch = f"{about}\n{traceback.format_exc()}"
    return outcomes


def _schema_difference(actual: pa.Schema, expected: pa.Schema) -> str:
    """Return how two schemas differ, or "". The inner names of maps may differ, as they do for pyarrow itself."""
    for found, wanted in zip(actual, expected, strict=True):
        same = (found.name, found.nullable, found.metadata) == (wanted.name, wanted.nullable, wanted.metadata)
        if not same or not found.type.equals(wanted.type):
            return f"{found} {found.metadata} instead of {wanted} {wanted.metadata}"
    return ""


def check_core(seed: str, root: Path, writer: str, count: int = 4) -> list[CoreOutcome]:
    """Write the folder of a seed, and compare some reads of each file."""
    random_ = random.Random(seed)
    folder = write_folder(root / "table", random_, writer)
    if folder is None:
        return []
    return [outcome for path in folder.files for outcome in check_file(path, random_, writer, count)]


def check_damage(seed: str, root: Path, writer: str, damages: int = 8) -> list[CoreOutcome]:
    """Read a file with some damages: each read raises a typed error, or returns values as written or as in pyarrow."""
    random_ = random.Random(seed)
    sound = sound_file(random_, root, writer)
    if sound is None:
        return []
    [path], intact, outcomes = sound.files, Path(sound.files[0]).read_bytes(), []
    for _ in range(damages):
        name, data = damaged(intact, random_)
        Path(path).write_bytes(data)
        for _ in range(2):
            outcome = CoreOutcome(writer)
            outcomes.append(outcome)
            ranges = random_ranges(random_, sound.tables[0].num_rows)
            about = f"{name}, ranges {str(ranges)[:200]}"
            try:
                problem = _damaged_read(path, data, sound, ranges, outcome)
            except ParsieveError:
                outcome.refused.append("damaged")
            except BaseException:
                outcome.mismatch = f"{about}\n{traceback.format_exc()}"
            else:
                outcome.mismatch = f"{about}\n{problem}" if problem else ""
    return outcomes


def _damaged_read(
    path: str, data: bytes, sound: Folder, ranges: Sequence[tuple[int, int]], outcome: CoreOutcome
) -> str:
    """Return how the values of a read are wrong, or ""."""
    file, schema = open_rows(data), sound.tables[0].schema
    columns = [
        number
        for number, field in enumerate(schema)
        if file.unreadable(number) is None and file.schema.field(number).type.equals(field.type)
    ]
    actual, outcome.fetched = read_rows(data, file, columns, RowSet.of(ranges), 100)
    outcome.num_rows = actual.num_rows
    numbers = numbers_of(ranges)
    if actual.num_rows != len(numbers):
        return f"{actual.num_rows} rows instead of {len(numbers)}"
    rows = Rows(path, sound.tables[0], schema)
    for place, number in enumerate(columns):
        found = keys_of(actual.column(place))
        written, now = keys_of(rows.written.column(number)), keys_of(rows.now.column(number))
        for value, row in zip(found, numbers, strict=True):
            if value not in (written[row], now[row]):
                return (
                    f"column {schema.field(number)}, row {row}: {value!r} instead of {written[row]!r} as written or "
                    f"{now[row]!r} as in pyarrow, which cannot read {sorted(rows.broken)[:5]}"
                )
    return ""
