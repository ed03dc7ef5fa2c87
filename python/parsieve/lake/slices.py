"""The slices of a snapshot as columns. `Slice` objects are made only on demand."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, overload
from weakref import WeakValueDictionary

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from parsieve.sharing import cached_property

# How many slices an iteration makes at a time.
BATCH = 4096
# How many slices `InBlocks` makes at once.
BLOCK = 256
# The columns that are arrays, in the order of the fields of `Slice`.
_COLUMNS = ("partition", "group", "token", "path", "size", "num_rows", "clean")


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A place for rows that stays the same in all versions of a table: a partition, and a file group in it.

    An index refers to rows by their locations.
    """

    partition: str
    group: str


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Slice:
    """The version of a location in a snapshot."""

    # The partition as the format names it, "" if there is none.
    partition: str
    # In Hudi, the file ID. In other formats, the path of the data file below the table's folder, or its address if it
    # is outside the folder.
    group: str
    # Changes whenever the live rows can change. "" proves nothing: two slices without a token are never the same.
    token: str
    # The path of the base file for engines, or None if there are only log files.
    path: str | None
    size: int | None
    # The number of rows in the base file, including deleted rows.
    num_rows: int | None
    # Whether the base file has exactly the live rows: no logs, deletion vectors or delete files.
    clean: bool
    # The values of the columns that are constant in the slice.
    partition_values: Mapping[str, object]
    # The data that the adapter needs to read the slice.
    native: Any = field(repr=False)

    @property
    def location(self) -> Location:
        """Return the location of the slice."""
        return Location(self.partition, self.group)

    def same_rows(self, other: Slice) -> bool:
        """Return whether the tokens prove that both slices have the same live rows."""
        return bool(self.token) and self.token == other.token


@dataclass(frozen=True, slots=True, eq=False)
class PartitionColumn:
    """A column that is constant in each slice: its distinct values, and the number of the value in each slice."""

    values: Sequence[object]
    # Positions in `values`, as int32. Null if the table does not define the column's value in a slice.
    numbers: pa.Array

    @classmethod
    def of(cls, values: Iterable[object], known: Iterable[bool]) -> Self:
        """Build a column from one value for each slice. Ignore the value if its entry in `known` is false."""
        places: dict[tuple[type, object], int] = {}
        distinct: list[object] = []
        numbers: list[int | None] = []
        for value, is_known in zip(values, known, strict=True):
            if not is_known:
                numbers.append(None)
                continue
            # In Python, 1 equals True, and 0.0 equals -0.0, but they are different values here.
            key = (type(value), repr(value) if isinstance(value, float) else value)
            number = places.setdefault(key, len(distinct))
            if number == len(distinct):
                distinct.append(value)
            numbers.append(number)
        return cls(distinct, pa.array(numbers, pa.int32()))


class Slices(Sequence[Slice]):
    """The slices of a snapshot. Each property is an Arrow array with an entry for each slice.

    A `Slice` is created on demand, and stays the same object while any reference to it exists. You can share the slices
    between threads.
    """

    @staticmethod
    def of(slices: Sequence[Slice]) -> Slices:
        """Convert a sequence of `Slice` objects."""
        return slices if isinstance(slices, Slices) else SliceObjects(slices)

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def partition(self) -> pa.StringArray:
        """The partition of each slice, "" if there is none."""

    @property
    @abstractmethod
    def group(self) -> pa.StringArray:
        """The file group of each slice."""

    @property
    @abstractmethod
    def token(self) -> pa.StringArray:
        """The token of each slice, "" if it has none yet."""

    @property
    @abstractmethod
    def path(self) -> pa.StringArray:
        """The path of each base file, null if there are only log files."""

    @property
    @abstractmethod
    def size(self) -> pa.Int64Array:
        """The bytes of each base file, null if unknown."""

    @property
    @abstractmethod
    def num_rows(self) -> pa.Int64Array:
        """The rows of each base file, null if unknown."""

    @property
    @abstractmethod
    def clean(self) -> pa.BooleanArray:
        """Whether each slice has exactly the rows of its base file."""

    @property
    @abstractmethod
    def partition_values(self) -> Mapping[str, PartitionColumn]:
        """The columns that are constant in each slice, by name."""

    @abstractmethod
    def native(self, number: int) -> Any:
        """Return the adapter's data for reading a slice."""

    @abstractmethod
    def select(self, numbers: pa.Array) -> Slices:
        """Return the slices at some positions, without reading the other slices."""

    @cached_property
    def _objects(self) -> WeakValueDictionary[int, Slice]:
        return WeakValueDictionary()

    @overload
    def __getitem__(self, number: int) -> Slice: ...

    @overload
    def __getitem__(self, number: slice) -> tuple[Slice, ...]: ...

    def __getitem__(self, number: int | slice) -> Slice | tuple[Slice, ...]:
        """Return one slice, or a tuple of the slices in a range."""
        if isinstance(number, slice):
            return tuple(self.at(range(*number.indices(len(self)))))
        position = number + len(self) if number < 0 else number
        if not 0 <= position < len(self):
            raise IndexError(f"slice {number} does not exist: there are {len(self)} slices")
        existing = self._objects.get(position)
        return self.at([position])[0] if existing is None else existing

    def __iter__(self) -> Iterator[Slice]:
        """Iterate over the slices as objects."""
        for start in range(0, len(self), BATCH):
            yield from self.at(range(start, min(start + BATCH, len(self))))

    def at(self, positions: Sequence[int]) -> list[Slice]:
        """Return the slices at some positions as objects."""
        chosen = self.select(pa.array(positions, pa.int64()))
        rows = zip(*(getattr(chosen, name).to_pylist() for name in _COLUMNS), strict=True)
        constants = [
            (name, column.values, column.numbers.to_pylist()) for name, column in chosen.partition_values.items()
        ]
        # Slices with the same values share one mapping.
        shared: dict[tuple[int | None, ...], dict[str, object]] = {}
        slices = []
        for at, (position, row) in enumerate(zip(positions, rows, strict=True)):
            numbers = tuple(places[at] for _, _, places in constants)
            if numbers not in shared:
                shared[numbers] = {
                    name: distinct[number]
                    for (name, distinct, _), number in zip(constants, numbers, strict=True)
                    if number is not None
                }
            partition, group, token, path, size, num_rows, clean = row
            values, native = shared[numbers], chosen.native(at)
            file_slice = Slice(partition, group, token, path, size, num_rows, clean, values, native)
            slices.append(self._objects.setdefault(position, file_slice))
        return slices

    def same_rows(self, other: Slices) -> bool:
        """Return whether the tokens prove that both have the same locations and live rows, in the same order."""
        if self is other:
            return True
        if len(self) != len(other) or not self.group.equals(other.group):
            return False
        if not self.partition.equals(other.partition) or not self.token.equals(other.token):
            return False
        return not pc.any(pc.equal(self.token, "")).as_py()

    def thinned(self, kept: Iterable[int]) -> Slices:
        """Return the same slices for a pickle, with the data to read only the slices at the positions `kept`."""
        return StoredSlices.copy(self, kept)

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredSlices.copy(self, range(len(self))).__reduce__()


class InBlocks:
    """Slices as objects, for readers that need them roughly in order. They are made a block at a time."""

    def __init__(self, slices: Sequence[Slice]) -> None:
        self._slices = slices
        # The last two blocks by their first position. Threads may be on both sides of a border.
        self._blocks: dict[int, Sequence[Slice]] = {}

    def __getitem__(self, number: int) -> Slice:
        """Return one slice."""
        start = number // BLOCK * BLOCK
        blocks = self._blocks
        if start not in blocks:
            blocks = {**dict(list(blocks.items())[-1:]), start: self._slices[start : start + BLOCK]}
            self._blocks = blocks
        return blocks[start][number - start]


class SliceObjects(Slices):
    """Slices that exist as objects."""

    def __init__(self, slices: Iterable[Slice]) -> None:
        self._slices = tuple(slices)

    def __len__(self) -> int:
        return len(self._slices)

    def __iter__(self) -> Iterator[Slice]:
        """Iterate over the slices."""
        return iter(self._slices)

    def at(self, positions: Sequence[int]) -> list[Slice]:
        """Return the slices at some positions."""
        return [self._slices[position] for position in positions]

    @cached_property
    def partition(self) -> pa.StringArray:
        """The partition of each slice."""
        return pa.array([file_slice.partition for file_slice in self._slices], pa.string())

    @cached_property
    def group(self) -> pa.StringArray:
        """The file group of each slice."""
        return pa.array([file_slice.group for file_slice in self._slices], pa.string())

    @cached_property
    def token(self) -> pa.StringArray:
        """The token of each slice."""
        return pa.array([file_slice.token for file_slice in self._slices], pa.string())

    @cached_property
    def path(self) -> pa.StringArray:
        """The path of each base file."""
        return pa.array([file_slice.path for file_slice in self._slices], pa.string())

    @cached_property
    def size(self) -> pa.Int64Array:
        """The bytes of each base file."""
        return pa.array([file_slice.size for file_slice in self._slices], pa.int64())

    @cached_property
    def num_rows(self) -> pa.Int64Array:
        """The rows of each base file."""
        return pa.array([file_slice.num_rows for file_slice in self._slices], pa.int64())

    @cached_property
    def clean(self) -> pa.BooleanArray:
        """Whether each slice is exactly its base file."""
        return pa.array([file_slice.clean for file_slice in self._slices], pa.bool_())

    @cached_property
    def partition_values(self) -> Mapping[str, PartitionColumn]:
        """The columns that are constant in each slice."""
        rows = [file_slice.partition_values for file_slice in self._slices]
        names = dict.fromkeys(name for row in rows for name in row)
        return {
            name: PartitionColumn.of((row.get(name) for row in rows), (name in row for row in rows)) for name in names
        }

    def native(self, number: int) -> Any:
        """Return the adapter's data for reading a slice."""
        return self._slices[number].native

    def select(self, numbers: pa.Array) -> Slices:
        """Return the slices at some positions."""
        return SliceObjects(self._slices[number] for number in numbers.to_pylist())


class StoredSlices(Slices):
    """Slices with all columns in memory. Unpickled slices have this type."""

    def __init__(
        self, columns: Mapping[str, pa.Array], values: Mapping[str, PartitionColumn], natives: Mapping[int, Any]
    ) -> None:
        self._columns = columns
        self._values = values
        self._natives = natives

    @classmethod
    def copy(cls, slices: Slices, kept: Iterable[int]) -> StoredSlices:
        """Return a copy of some slices, with the data to read only the slices at the positions `kept`."""
        columns = {name: getattr(slices, name) for name in _COLUMNS}
        return cls(columns, slices.partition_values, {number: slices.native(number) for number in kept})

    def __len__(self) -> int:
        return len(self._columns["group"])

    @property
    def partition(self) -> pa.StringArray:
        """The partition of each slice."""
        return self._columns["partition"]

    @property
    def group(self) -> pa.StringArray:
        """The file group of each slice."""
        return self._columns["group"]

    @property
    def token(self) -> pa.StringArray:
        """The token of each slice."""
        return self._columns["token"]

    @property
    def path(self) -> pa.StringArray:
        """The path of each base file."""
        return self._columns["path"]

    @property
    def size(self) -> pa.Int64Array:
        """The bytes of each base file."""
        return self._columns["size"]

    @property
    def num_rows(self) -> pa.Int64Array:
        """The rows of each base file."""
        return self._columns["num_rows"]

    @property
    def clean(self) -> pa.BooleanArray:
        """Whether each slice is exactly its base file."""
        return self._columns["clean"]

    @property
    def partition_values(self) -> Mapping[str, PartitionColumn]:
        """The columns that are constant in each slice."""
        return self._values

    def native(self, number: int) -> Any:
        """Return the adapter's data for reading a slice, or None if it was removed by `thinned`."""
        return self._natives.get(number)

    def select(self, numbers: pa.Array) -> Slices:
        """Return the slices at some positions."""
        natives = {at: self._natives.get(number) for at, number in enumerate(numbers.to_pylist())}
        columns = {name: column.take(numbers) for name, column in self._columns.items()}
        return StoredSlices(columns, selected(self._values, numbers), natives)

    def thinned(self, kept: Iterable[int]) -> Slices:
        """Return the same slices, with the data to read only the slices at the positions `kept`."""
        return StoredSlices(self._columns, self._values, {number: self.native(number) for number in kept})

    def __reduce__(self) -> tuple[Any, ...]:
        # Arrow's IPC format stores only the used part of a buffer. A pickle of an array would contain all of it.
        numbers = {f"{at}": column.numbers for at, column in enumerate(self._values.values())}
        batch = pa.RecordBatch.from_pydict({**self._columns, **numbers})
        values = [(name, list(column.values)) for name, column in self._values.items()]
        return _restore, (
            batch.schema.serialize().to_pybytes(),
            batch.serialize().to_pybytes(),
            values,
            dict(self._natives),
        )


def _restore(
    schema: bytes, data: bytes, values: Sequence[tuple[str, list[object]]], natives: Mapping[int, Any]
) -> Slices:
    batch = pa.ipc.read_record_batch(data, pa.ipc.read_schema(pa.py_buffer(schema)))
    constants = {name: PartitionColumn(distinct, batch.column(f"{at}")) for at, (name, distinct) in enumerate(values)}
    return StoredSlices({name: batch.column(name) for name in _COLUMNS}, constants, natives)


def selected(values: Mapping[str, PartitionColumn], numbers: pa.Array) -> dict[str, PartitionColumn]:
    """Return the partition columns of the slices at some positions."""
    return {name: PartitionColumn(column.values, column.numbers.take(numbers)) for name, column in values.items()}


def repeated(text: str, count: int) -> pa.StringArray:
    """Return the same string for each slice."""
    return pa.repeat(pa.scalar(text, pa.string()), count)


def locations_of(slices: Sequence[Slice]) -> list[Location]:
    """Return the location of each slice."""
    if not isinstance(slices, Slices):
        return [file_slice.location for file_slice in slices]
    return list(map(Location, slices.partition.to_pylist(), slices.group.to_pylist()))


def locations_and_tokens(slices: Slices) -> tuple[list[Location], list[str]]:
    """Return the location of each slice, and its token."""
    return locations_of(slices), slices.token.to_pylist()


def names_of(slices: Slices) -> list[str]:
    """Return a name for each slice in messages: the path of its base file, or its location if it has only log files."""
    names: list[str | None] = slices.path.to_pylist()
    if slices.path.null_count:
        missing = pc.indices_nonzero(slices.path.is_null())
        unnamed = slices.select(missing)
        places = zip(missing.to_pylist(), unnamed.partition.to_pylist(), unnamed.group.to_pylist(), strict=True)
        for number, partition, group in places:
            names[number] = f"{partition}/{group}".lstrip("/")
    return [name or "" for name in names]
