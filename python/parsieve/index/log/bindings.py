"""The bindings of a column: the token of each location that its index covers, stored as a list and changes to it.

An index answers for a file only if the file still has the token that it is bound to. In format 2, each location also
has the id of the slice that was read. A changed slice gets a new id, and an id is never used again, so that answers of
older files of the index can never apply to newer versions of a data file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, ItemsView, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from parsieve._core import FormatError, index_bindings
from parsieve.index.log.commit import FORMAT
from parsieve.index.log.parts import MAX_IDS, Part
from parsieve.io import document
from parsieve.io.parallel import map_in_threads
from parsieve.io.remote_speed import REQUESTS_AT_ONCE
from parsieve.io.store.base import Store, unique
from parsieve.lake.base import Location
from parsieve.lake.slices import Slices
from parsieve.sharing import cached_property

ValueT = TypeVar("ValueT")
BINDINGS = "bindings"
# Reading a longer chain costs more than writing a new list.
MAX_CHAIN = 8


@dataclass(frozen=True, slots=True)
class Bindings:
    """The token of each location, and in format 2 its slice id. A slice that could not be read has the token ""."""

    tokens: Mapping[Location, str]
    # None in format 1.
    ids: Mapping[Location, int] | None = None
    # The first id that was never used.
    next_id: int = 0
    # The same bindings as columns, if they were read as such.
    columns: BindingColumns | None = field(default=None, compare=False, repr=False)

    @classmethod
    def fresh(cls, locations: Sequence[Location], tokens: Mapping[Location, str]) -> Bindings:
        """Return the bindings of a new index in format 2, whose ids are the positions of its sorted locations."""
        ids = {location: number for number, location in enumerate(locations)}
        return cls({location: tokens[location] for location in locations}, ids, len(ids))

    def after(self, tokens: Mapping[Location, str], read: Sequence[Location]) -> Bindings:
        """Return the bindings after an update that read some slices. These get new ids, in the order of `read`."""
        if self.ids is None:
            return Bindings(tokens)
        new_ids = {location: self.next_id + number for number, location in enumerate(read)}
        ids = {location: new_ids[location] if location in new_ids else self.ids[location] for location in tokens}
        return Bindings(tokens, ids, self.next_id + len(new_ids))

    def without(self, locations: Collection[Location]) -> Bindings:
        """Return the bindings without some locations."""
        tokens = {location: token for location, token in self.tokens.items() if location not in locations}
        ids = None if self.ids is None else {location: self.ids[location] for location in tokens}
        return Bindings(tokens, ids, self.next_id)

    def row(self, location: Location) -> tuple[str | None, int | None]:
        """Return the token and the id of a location."""
        return self.tokens.get(location), None if self.ids is None else self.ids.get(location)

    def live_ids(self) -> list[int]:
        """Return the ids of the slices that the index covers, in order."""
        ids = self.ids or {}
        return sorted(ids[location] for location, token in self.tokens.items() if token and location in ids)


NOTHING = Bindings({})


def write(store: Store, chain: Sequence[Part], before: Bindings, after: Bindings) -> tuple[Part, ...]:
    """Store the changes, and return the new chain of files."""
    rows = _rows(after)
    earlier = _rows(before)
    bound = {location: row for location, row in rows.items() if earlier.get(location) != row}
    gone = [location for location in before.tokens if location not in after.tokens]
    if chain and not bound and not gone and before.next_id == after.next_id:
        return tuple(chain)
    # If more than half has changed, a full list is smaller.
    full = not chain or len(chain) >= MAX_CHAIN or 2 * (len(bound) + len(gone)) > len(rows)
    if full:
        bound, gone, chain = rows, [], ()
    partitions: dict[str, list[list[Any]]] = {}
    for location, row in sorted(bound.items()):
        partitions.setdefault(location.partition, []).append([location.group, *row])
    content = {
        "full": full,
        "bound": [{"partition": partition, "groups": groups} for partition, groups in partitions.items()],
        "gone": [[location.partition, location.group] for location in sorted(gone)],
    }
    if after.ids is None:
        data = document.write(BINDINGS, content)
    else:
        if after.next_id > MAX_IDS:
            raise OverflowError("the index has used up all ids for slices; build it again")
        data = document.write(BINDINGS, {**content, "next_id": after.next_id}, version=FORMAT)
    return (*chain, Part.put(store, unique(BINDINGS, "bindings"), data))


def _rows(bindings: Bindings) -> dict[Location, tuple[Any, ...]]:
    """Return the stored values of each location."""
    ids = bindings.ids
    if ids is None:
        return {location: (token,) for location, token in bindings.tokens.items()}
    return {location: (token, ids[location]) for location, token in bindings.tokens.items()}


def read(store: Store, chain: Sequence[Part]) -> Bindings:
    """Return the bindings after all changes of a chain."""
    files = list(map_in_threads(lambda part: part.get(store), chain, REQUESTS_AT_ONCE, "parsieve-read"))
    documents = []
    for part, data in zip(chain, files, strict=True):
        name = f"{store}/{part.name}"
        documents.append((name, *document.unpack(BINDINGS, data, name, newest=FORMAT)))
    return _read_columns(documents) or _read_objects(documents)


def _read_columns(documents: Sequence[tuple[str, bytes, int]]) -> Bindings | None:
    """Return the bindings as columns, or None for unusual documents, and for documents with an error."""
    columns, next_id = None, 0
    for name, text, version in documents:
        read = index_bindings(text, version == FORMAT)
        if read is None or version != documents[0][2]:
            return None
        arrays, start, end = read
        rest = document.parse(text[:start] + b"[]" + text[end:], name, version)
        change = BindingColumns(*arrays[: 3 if version == 1 else 4])
        if rest.get("full", bool) != (columns is None) or not change.are_distinct():
            return None
        gone = [Location(*row) for row in rest.rows("gone", str, str)]
        columns = change if columns is None else columns.after(change, gone)
        if version == FORMAT:
            before, next_id = next_id, rest.get("next_id", int)
            if not before <= next_id <= MAX_IDS or not columns.has_ids_below(next_id):
                return None
    if columns is None:
        return None
    tokens = _LazyMapping(columns.tokens)
    return Bindings(tokens, None if columns.ids is None else _LazyMapping(columns.numbers), next_id, columns)


def _read_objects(documents: Sequence[tuple[str, bytes, int]]) -> Bindings:
    state = _Chain()
    name = ""
    for number, (name, text, version) in enumerate(documents):
        fields = document.parse(text, name, version)
        if fields.get("full", bool) != (number == 0):
            raise FormatError(f"{name} is at the wrong position in its chain")
        if number and version != state.version:
            raise FormatError(f"{name} has a different format version from the file that it changes")
        state.apply(fields, name)
    if state.version == 1:
        return Bindings(state.tokens)
    if len(set(state.ids.values())) != len(state.ids):
        raise FormatError(f"{name}: two locations have the same id")
    return Bindings(state.tokens, state.ids, state.next_id)


class _LazyMapping(Mapping[Location, ValueT]):
    """A dictionary that is made when it is first used."""

    def __init__(self, make: Callable[[], dict[Location, ValueT]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> dict[Location, ValueT]:
        return self._make()

    def __getitem__(self, location: Location) -> ValueT:
        return self._made[location]

    def __contains__(self, location: object) -> bool:
        return location in self._made

    def __iter__(self) -> Iterator[Location]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def get(self, location: Location, default: Any = None) -> Any:
        """Return the value of a location."""
        return self._made.get(location, default)

    def items(self) -> ItemsView[Location, ValueT]:
        """Return the locations with their values."""
        return self._made.items()


@dataclass(frozen=True, eq=False)
class BindingColumns:
    """Bindings as columns with an entry for each location. No location occurs twice."""

    partition: pa.StringArray
    group: pa.StringArray
    token: pa.StringArray
    # None in format 1.
    ids: pa.Int64Array | None = None

    @cached_property
    def _keys(self) -> pa.StringArray:
        return _keys_of(self.partition, self.group)

    def are_distinct(self) -> bool:
        """Return whether all locations differ, and whether their keys do, which a null character could prevent."""
        has_nulls = (pc.any(pc.match_substring(names, "\0")).as_py() for names in (self.partition, self.group))
        return not any(has_nulls) and _all_differ(self._keys)

    def has_ids_below(self, next_id: int) -> bool:
        """Return whether all ids differ and are in range."""
        least_and_most = pc.min_max(self.ids).as_py()
        is_in_range = not len(self.group) or 0 <= least_and_most["min"] <= least_and_most["max"] < next_id
        return is_in_range and _all_differ(self.ids)

    def after(self, change: BindingColumns, gone: Sequence[Location]) -> BindingColumns:
        """Return the bindings after a change that binds some locations, and unbinds others."""
        unbound = pa.array([f"{location.partition}\0{location.group}" for location in gone], pa.string())
        replaced = pa.concat_arrays([change._keys, unbound])
        is_kept = pc.invert(pc.is_in(self._keys, value_set=replaced))
        return BindingColumns(
            pa.concat_arrays([self.partition.filter(is_kept), change.partition]),
            pa.concat_arrays([self.group.filter(is_kept), change.group]),
            pa.concat_arrays([self.token.filter(is_kept), change.token]),
            None if self.ids is None else pa.concat_arrays([self.ids.filter(is_kept), change.ids]),
        )

    def positions(self, slices: Slices) -> pa.Int32Array:
        """Return the position of each slice, or null if its location is not bound with its token."""
        if self.partition.equals(slices.partition) and self.group.equals(slices.group):
            tokens, positions = self.token, pc.indices_nonzero(pa.repeat(pa.scalar(True), len(self.token)))
        else:
            positions = pc.index_in(_keys_of(slices.partition, slices.group), value_set=self._keys)
            tokens = self.token.take(positions)
        is_current = pc.and_(pc.equal(tokens, slices.token), pc.not_equal(slices.token, ""))
        return pc.if_else(pc.fill_null(is_current, False), positions.cast(pa.int32()), pa.scalar(None, pa.int32()))

    def tokens(self) -> dict[Location, str]:
        """Return the token of each location."""
        return dict(zip(self._locations(), self.token.to_pylist(), strict=True))

    def numbers(self) -> dict[Location, int]:
        """Return the id of each location."""
        ids = [] if self.ids is None else self.ids.to_pylist()
        return dict(zip(self._locations(), ids, strict=True))

    def _locations(self) -> Iterable[Location]:
        return map(Location, self.partition.to_pylist(), self.group.to_pylist())


def _all_differ(values: pa.Array) -> bool:
    """Return whether no value occurs twice. Sorted values, which are the usual case, need no hash table."""
    are_sorted = pc.all(pc.less(values[:-1], values[1:])).as_py() is not False
    return are_sorted or bool(pc.count_distinct(values).as_py() == len(values))


def _keys_of(partition: pa.StringArray, group: pa.StringArray) -> pa.StringArray:
    return pc.binary_join_element_wise(partition, group, "\0")


@dataclass
class _Chain:
    """The bindings after some files of a chain."""

    version: int = 1
    tokens: dict[Location, str] = field(default_factory=dict)
    ids: dict[Location, int] = field(default_factory=dict)
    next_id: int = 0

    def apply(self, fields: document.Fields, name: str) -> None:
        """Apply the changes of a file."""
        self.version = fields.version
        for partition, group in fields.rows("gone", str, str):
            self.tokens.pop(Location(partition, group), None)
            self.ids.pop(Location(partition, group), None)
        for entry in fields.objects("bound"):
            partition = entry.get("partition", str)
            if self.version == 1:
                rows = entry.rows("groups", str, str)
                self.tokens.update((Location(partition, group), token) for group, token in rows)
            else:
                self._bind(partition, entry.rows("groups", str, str, int))
        if self.version == 1:
            return
        next_id = fields.get("next_id", int)
        if not self.next_id <= next_id <= MAX_IDS or not all(0 <= number < next_id for number in self.ids.values()):
            raise FormatError(f"{name}: an id is out of range")
        self.next_id = next_id

    def _bind(self, partition: str, rows: Iterable[list[Any]]) -> None:
        for group, token, number in rows:
            self.tokens[Location(partition, group)] = token
            self.ids[Location(partition, group)] = number
