"""Read the matching rows of one file.

The conditions of a predicate are evaluated one after the other. Each of them reads its columns for the rows that are
still candidates, so that the other columns are only read for rows that match.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from parsieve._core import ParsieveError, RowFile, RowSet
from parsieve.errors import ConflictError
from parsieve.io.ranges import RangeReader, run_step
from parsieve.io.sources import open_version
from parsieve.lake.base import Lake, Slice
from parsieve.lake.rows.adapter import Adapter
from parsieve.lake.rows.columns import conform
from parsieve.lake.rows.file_rows import FileRows
from parsieve.predicate.evaluate import Condition
from parsieve.reader.footers import FileVersion, FooterCache, KnownFile
from parsieve.reader.request import Candidates, ReadRequest

# A file is read in parts if its candidate rows have more compressed bytes than the first limit, or if their values take
# more memory than the second one, according to the sizes in the file.
PART_BYTES = 32 << 20
PART_MEMORY = 64 << 20
# The most parts of one row group. A file may state any size.
MOST_PARTS = 256
# The rows of a batch without a column of the file, as in batches from the file.
BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the rows of a file must be read in another way."""

    reason: str
    # Whether the reason probably applies to the other files of the read, too.
    is_general: bool = False
    # Whether the file changed since the plan.
    is_change: bool = False


@dataclass(frozen=True, slots=True)
class Parts:
    """The candidate rows of a large file, divided into parts to read one after the other or at the same time."""

    parts: list[Candidates]


class _RefusedError(Exception):
    """Stops the read of a file that must be read in another way."""

    def __init__(self, reason: str, is_general: bool = False) -> None:
        super().__init__(reason)
        self.refusal = Refusal(reason, is_general)


class Traffic:
    """The requests and bytes of a read. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.requests = 0
        self.bytes_fetched = 0
        # The most round trips of one file. The files are read at the same time.
        self.round_trips = 0

    def add(self, reader: RangeReader) -> None:
        """Add the requests and bytes of one file."""
        with self._lock:
            self.requests += reader.requests
            self.bytes_fetched += reader.bytes_fetched
            self.round_trips = max(self.round_trips, reader.round_trips)


def read_file(
    lake: Lake, candidates: Candidates, request: ReadRequest, cache: FooterCache, traffic: Traffic
) -> list[pa.RecordBatch] | Refusal | Parts:
    """Return the matching rows of a file in the file's order, or why they must be read in another way.

    The candidate rows of a large file are returned in parts, to be read one by one, unless they are a part already.
    All rows come from the version of the file that was planned.
    """
    try:
        return _read_planned(lake, candidates, request, cache, traffic)
    except _RefusedError as error:
        return error.refusal
    except (ConflictError, FileNotFoundError):
        return Refusal("the file was replaced since the plan", is_change=True)
    except (ParsieveError, OSError, pa.ArrowException) as error:
        # If the file is damaged, the other way to read it raises the error.
        return Refusal(str(error))


def _read_planned(
    lake: Lake, candidates: Candidates, request: ReadRequest, cache: FooterCache, traffic: Traffic
) -> list[pa.RecordBatch] | Parts:
    file_slice = candidates.file_slice
    rows = _file_rows(lake, file_slice)
    version = version_of(lake, file_slice)
    if isinstance(version, Refusal):
        raise _RefusedError(version.reason)
    reader = RangeReader(open_version(lake.open_base(file_slice), version.size, version.token))
    try:
        # Formats that never replace a file have no token to compare. But a program may create the table again in its
        # folder, and a local file tells its version without a request.
        key = version._replace(token=file_slice.token + (reader.version if lake.is_local else ""))
        known = cache.get(key)
        if known is None:
            known = KnownFile.of(_open(reader))
        read = _FileRead(rows, known, reader, request, is_local=lake.is_local)
        parts = read.divide(candidates)
        batches = read.read(candidates) if parts is None else parts
        reader.check_unchanged()
        # The file now also knows the pages that were read.
        cache.put(key, known)
        return batches
    finally:
        reader.close()
        traffic.add(reader)


def _file_rows(lake: Lake, file_slice: Slice) -> FileRows:
    """Return how the rows of the table follow from the rows of the file."""
    rows = lake.rows(file_slice) if isinstance(lake, Adapter) else None
    if not isinstance(rows, FileRows):
        raise _RefusedError("the slice is not the live rows of one Parquet file")
    if rows.decryption is not None:
        raise _RefusedError("the file is encrypted", is_general=True)
    return rows


def version_of(lake: Lake, file_slice: Slice) -> FileVersion | Refusal:
    """Return the version of a file that was planned, or why it is not certain."""
    if file_slice.path is None or file_slice.size is None:
        return Refusal("the size of the file is unknown")
    if not lake.files_may_be_replaced:
        return FileVersion(file_slice.path, file_slice.size, "")
    if not file_slice.token:
        return Refusal("the file was written so recently that its version is not certain")
    return FileVersion(file_slice.path, file_slice.size, file_slice.token)


def _open(reader: RangeReader) -> RowFile:
    file = run_step(reader, lambda fetched: RowFile.open(reader.size, fetched))
    assert file is not None
    return file


class _FileRead:
    """One read of one file."""

    def __init__(
        self, rows: FileRows, known: KnownFile, reader: RangeReader, request: ReadRequest, *, is_local: bool
    ) -> None:
        self._rows = rows
        self._is_local = is_local
        self._file = known.rows
        self._fields = known.fields
        self._reader = reader
        self._request = request
        self._numbers = self._find_columns()

    def _find_columns(self) -> dict[str, int]:
        """Return the number of the file's column for each needed column that the file has."""
        find = self._rows.matching.index(self._fields)
        numbers = {}
        for column in self._request.needed:
            number = None if column.name in self._rows.constants else find(column)
            if number is None:
                continue
            reason = self._file.unreadable(number)
            if reason is not None:
                raise _RefusedError(f"column {column.name}: {reason}", is_general=True)
            if not _is_convertible(self._fields[number].type, column.type):
                raise _RefusedError(f"column {column.name} is stored as {self._fields[number].type}")
            numbers[column.name] = number
        return numbers

    def divide(self, candidates: Candidates) -> Parts | None:
        """Divide the candidate rows if they have too many bytes for one read."""
        if candidates.is_part:
            return None
        rows = self._candidate_rows(candidates)
        # The pages of a small file need not be looked up.
        is_small = candidates.file_slice.size is not None and candidates.file_slice.size <= PART_BYTES
        memory = self._file.decoded_size(list(self._numbers.values()), rows)
        if memory <= PART_MEMORY and (is_small or self._num_parts(rows) <= 1):
            return None
        parts: list[list[tuple[int, int]]] = []
        size = 0.0
        for some in self._pieces(rows):
            more = self._num_parts(some)
            if size + more > 1 or not parts:
                parts.append([])
                size = 0.0
            size += more
            parts[-1] += some.ranges
        if len(parts) < 2:
            return None
        return Parts([Candidates(candidates.file_slice, part, None, is_part=True) for part in parts])

    def _num_parts(self, rows: RowSet) -> float:
        """Return how many parts some rows fill."""
        numbers = list(self._numbers.values())
        compressed, memory = self._file.compressed_size(numbers, rows), self._file.decoded_size(numbers, rows)
        return max(compressed / PART_BYTES, memory / PART_MEMORY)

    def _pieces(self, rows: RowSet) -> Iterator[RowSet]:
        """Yield the rows of each row group, in pieces if they fill several parts and pages can be read on their own."""
        row_groups = self._file.row_groups
        for start, count in _ranges_of(range(len(row_groups)), row_groups):
            some = rows.intersect(RowSet.of([(start, count)]))
            if not some.num_rows:
                continue
            number = min(math.ceil(self._num_parts(some)), MOST_PARTS, some.num_rows)
            if number > 2 and self._is_divisible(some):
                yield from _divided(some, number)
            else:
                yield some

    def _is_divisible(self, rows: RowSet) -> bool:
        """Return whether reading rows of a row group in pieces costs little more than reading them together."""
        numbers = self._numbers.values()
        if all(self._file.has_page_index(number) for number in numbers):
            return True
        # Without a page index, each piece fetches all pages, and decompresses only its own ones if they are not nested.
        is_flat = not any(pt.is_nested(self._fields[number].type) for number in numbers)
        return self._is_local and is_flat and self._file.compressed_size(list(numbers), rows) <= PART_BYTES

    def read(self, candidates: Candidates) -> list[pa.RecordBatch]:
        """Return the matching rows."""
        rows = self._rows_of(candidates)
        values: dict[str, pa.Array] = {}
        at_once = self._request.names if self._is_one_round_trip(rows) else ()
        conditions = self._in_order(rows)
        last_uses = {name: number for number, condition in enumerate(conditions) for name in condition.names}
        last_uses.update(dict.fromkeys(self._request.names, len(conditions)))
        for number, condition in enumerate(conditions):
            if not rows.num_rows:
                return []
            rows, values = self._narrow(condition, rows, values, at_once)
            # A condition copies the matching values of all columns read so far, so drop columns after their last use.
            values = {name: array for name, array in values.items() if last_uses[name] > number}
        if not rows.num_rows:
            return []
        return list(self._results(rows, values))

    def _candidate_rows(self, candidates: Candidates) -> RowSet:
        """Return the rows that may match, including deleted ones."""
        if candidates.ranges is not None:
            return RowSet.of(candidates.ranges)
        if candidates.row_groups is not None:
            if max(candidates.row_groups, default=0) >= len(self._file.row_groups):
                raise ConflictError(f"{candidates.file_slice.path} has fewer row groups than planned")
            return RowSet.of(_ranges_of(candidates.row_groups, self._file.row_groups))
        return RowSet.all(self._file.num_rows)

    def _rows_of(self, candidates: Candidates) -> RowSet:
        """Return the live rows that may match."""
        rows = self._candidate_rows(candidates)
        deleted = self._rows.deleted(self._file.num_rows)
        return rows.without(pa.array(deleted, pa.int64())) if len(deleted) else rows

    def _is_one_round_trip(self, rows: RowSet) -> bool:
        """Return whether to read all columns together, because that costs less than another round trip."""
        most = self._reader.round_trip_bytes
        return most > 0 and self._file.compressed_size(list(self._numbers.values()), rows) <= most

    def _in_order(self, rows: RowSet) -> Sequence[Condition]:
        """Return the conditions in the order to evaluate.

        Conditions on constants come first, then tests for equality, each by the size of their columns.
        """
        conditions = self._request.conditions
        if len(conditions) < 2:
            return conditions

        def cost(condition: Condition) -> tuple[bool, bool, int]:
            numbers = [self._numbers[name] for name in condition.names if name in self._numbers]
            return bool(numbers), not condition.tests_equality, self._file.compressed_size(numbers, rows)

        return sorted(conditions, key=cost)

    def _narrow(
        self, condition: Condition, rows: RowSet, values: dict[str, pa.Array], more: Sequence[str]
    ) -> tuple[RowSet, dict[str, pa.Array]]:
        """Return the rows for which a condition is true, and their values of the columns read so far.

        This reads the columns of the condition, and `more` columns.
        """
        if condition.names and self._numbers.keys().isdisjoint(condition.names):
            # All rows have the same values.
            (batch,) = self._batches(condition.names, RowSet.of([(0, 1)]), {})
            return (rows if condition.evaluate(batch)[0].as_py() else RowSet.of([])), values
        names = list(dict.fromkeys([*values, *condition.names, *more]))
        masks: list[pa.BooleanArray] = []
        matches: dict[str, list[pa.Array]] = {name: [] for name in names}
        for batch in self._batches(names, rows, values):
            mask = condition.evaluate(batch)
            masks.append(mask)
            matching = batch.filter(mask)
            for name, array in zip(names, matching.columns, strict=True):
                matches[name].append(array)
        return rows.filter(pa.chunked_array(masks, pa.bool_())), {
            name: arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays) for name, arrays in matches.items()
        }

    def _results(self, rows: RowSet, values: dict[str, pa.Array]) -> Iterator[pa.RecordBatch]:
        names = list(dict.fromkeys(self._request.names))
        for batch in self._batches(names, rows, {name: values[name] for name in names if name in values}):
            arrays = [batch.column(names.index(name)) for name in self._request.names]
            yield pa.RecordBatch.from_arrays(arrays, schema=self._request.output)

    def _batches(self, names: Sequence[str], rows: RowSet, values: dict[str, pa.Array]) -> Iterator[pa.RecordBatch]:
        """Yield the columns of some rows as columns of the table. `values` are columns that were read already."""
        schema = pa.schema([self._request.schema.field(name) for name in names])
        missing = [name for name in names if name not in values and name in self._numbers]
        start = 0
        for num_rows, columns in self._scan(missing, rows):
            arrays = []
            for target in schema:
                if target.name in values:
                    arrays.append(values[target.name].slice(start, num_rows))
                elif target.name in columns:
                    arrays.append(conform(columns[target.name], target.type, self._rows.matching))
                else:
                    arrays.append(self._rows.absent(target, num_rows))
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
            start += num_rows

    def _scan(self, names: Sequence[str], rows: RowSet) -> Iterator[tuple[int, dict[str, pa.Array]]]:
        """Yield the file's columns for some rows, in batches."""
        if not names:
            for start in range(0, rows.num_rows, BATCH_ROWS):
                yield min(BATCH_ROWS, rows.num_rows - start), {}
            return
        scan = self._file.scan([self._numbers[name] for name in names], rows)
        while True:
            needed, batch = scan.step()
            if needed:
                self._reader.fetch(needed, scan)
            elif batch is None:
                return
            else:
                yield batch.num_rows, dict(zip(names, batch.columns, strict=True))


def _ranges_of(row_groups: Iterable[int], num_rows: Sequence[int]) -> list[tuple[int, int]]:
    """Return the rows of some row groups, given the rows of each row group."""
    starts = [0]
    for count in num_rows:
        starts.append(starts[-1] + count)
    return [(starts[group], num_rows[group]) for group in row_groups]


def _divided(rows: RowSet, number: int) -> Iterator[RowSet]:
    """Yield rows in pieces of about the same number of rows."""
    most = -(-rows.num_rows // number)
    piece: list[tuple[int, int]] = []
    room = most
    for first, count in rows.ranges:
        while count:
            taken = min(count, room)
            piece.append((first, taken))
            first, count, room = first + taken, count - taken, room - taken
            if not room:
                yield RowSet.of(piece)
                piece, room = [], most
    if piece:
        yield RowSet.of(piece)


def _is_convertible(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether every value of a file's type can be converted as pyarrow's own scan would do it."""
    if source == target:
        return True
    families = (pt.is_integer, pt.is_floating, _is_text, _is_bytes)
    return any(is_member(source) and is_member(target) for is_member in families)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pt.is_binary(kind) or pt.is_large_binary(kind))
