"""Look up keys: the rows of each key in the order of the keys, and the keys without a row."""

from __future__ import annotations

import functools
import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.observe.notebook import html_of
from parsieve.predicate.bind import BoundPredicate
from parsieve.predicate.builder import column_in, distinct
from parsieve.predicate.column_names import ColumnNames, column_names
from parsieve.predicate.expr import Column, Computed, Expr, any_of
from parsieve.predicate.expressions.expression import Expression
from parsieve.predicate.read.keys import find_compared, findable, of_other_types, one_of_parts, typed_keys, typed_parts
from parsieve.predicate.times.temporal import check_zone
from parsieve.wording import count

if TYPE_CHECKING:
    from parsieve.lake.base import AsOf
    from parsieve.plan.open_table import OpenTable
    from parsieve.plan.plan import Plan

# Tables of more bytes are put into the order of the keys in parts.
MOST_BYTES = 1 << 30


@dataclass(frozen=True, eq=False)
class LookupResult:
    """The result of `Table.lookup`. It is an Arrow stream of its rows: `pl.DataFrame(result)`, `pa.table(result)`.

    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
    >>> folder = tempfile.mkdtemp()
    >>> pq.write_table(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}), folder + "/part-0.parquet")
    >>> result = ps.open_table(folder).lookup("id", [3, 9, 1])
    >>> result.table["name"].to_pylist(), result.missing.to_pylist(), result.positions.to_pylist()
    (['c', 'a'], [9], [0, 2])
    """

    # The rows, in the order of the keys. Rows with the same key are in the order of the table.
    table: pa.Table
    # The keys that no row has, in the given order and without duplicates. Nulls are not keys.
    missing: pa.Array
    # For each row, the position of its key among the given keys.
    positions: pa.Array
    # The plan that found the rows.
    plan: Plan

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as an Arrow C stream, cast to `requested_schema` if it is given."""
        stream: object = self.table.__arrow_c_stream__(requested_schema)
        return stream

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def _repr_html_(self) -> str | None:
        return html_of(self)

    def __repr__(self) -> str:
        return f"<parsieve.LookupResult: {count(len(self), 'row')}, {count(len(self.missing), 'key')} missing>"


def look_up(
    table: OpenTable,
    name: str | Sequence[str],
    keys: Any,
    columns: Sequence[str] | str | None,
    *,
    as_of: AsOf = None,
    timezone: str | None = None,
    threads: int | None = None,
) -> LookupResult:
    """Find the rows of each key of a column or an expression."""
    check_zone(timezone)
    snapshot = table.snapshot(as_of)
    wanted = _Wanted.of(find_compared(ColumnNames(snapshot.schema), name), keys, timezone)
    output = column_names(snapshot.schema, columns)
    plan = table.plan(BoundPredicate(wanted.condition), snapshot)
    # Without a column, a table has no rows, so the keys stay until the rows are in order.
    needed = list(dict.fromkeys([*output, *(column.path[0] for column in wanted.columns)]))
    rows = plan.to_arrow(needed, threads=threads)
    order, positions, has_rows = _join(wanted.of_rows(rows), wanted.members, wanted.codes)
    is_missing = pc.and_not(wanted.is_key, has_rows)
    missing = _distinct(wanted.given.filter(is_missing))
    kind = getattr(keys, "type", None)
    if isinstance(kind, pa.BaseExtensionType) and kind.storage_type == missing.type:
        missing = pa.ExtensionArray.from_storage(kind, missing)
    found = _take(rows.select(sorted(set(map(needed.index, output))) if output else needed), order)
    return LookupResult(found.select([found.schema.names.index(name) for name in output]), missing, positions, plan)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The keys of a lookup."""

    compared: Column | Expression
    given: pa.Array
    # Which of the given keys are not null.
    is_key: pa.BooleanArray
    # The distinct keys as values of the compared type, and the number of each given key among them.
    members: pa.Array
    codes: pa.Int32Array
    condition: Expr

    @classmethod
    def of(cls, compared: Column | Expression, keys: Any, timezone: str | None) -> _Wanted:
        """Convert keys to the values of a column or an expression."""
        if isinstance(compared, Expression) and compared.name == "key":
            given, parts = typed_parts(compared, keys, timezone)
            codes, members = _numbered(compared.compute(parts)[0])
            is_key = functools.reduce(pc.and_, (part.is_valid() for part in given.flatten()))
            pairs = zip(compared.columns, given.flatten(), parts, strict=True)
            beyond = [leaf for column, part, typed in pairs for leaf in of_other_types(column, part, typed)]
            return cls(compared, given, is_key, members, codes, any_of(one_of_parts(compared, parts), *beyond))
        column = compared if isinstance(compared, Column) else compared.value
        given, typed = typed_keys(column, keys, timezone)
        codes, members = _numbered(typed)
        # A file may store a wider type, which can represent more keys.
        others = of_other_types(column, given, typed)
        condition = any_of(column_in(column, members, are_distinct=True), *others)
        if isinstance(compared, Expression):
            condition = Computed(condition, compared)
        return cls(compared, given, given.is_valid(), members, codes, condition)

    @property
    def columns(self) -> Sequence[Column]:
        """The columns that rows must have."""
        return (self.compared,) if isinstance(self.compared, Column) else self.compared.columns

    def of_rows(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return the key of each row."""
        values = [_values(rows, column) for column in self.columns]
        if isinstance(self.compared, Column):
            return values[0]
        return pa.chunked_array([self.compared.compute([_flat(column) for column in values])[0]])


def _flat(values: pa.ChunkedArray) -> pa.Array:
    combined = values.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def _distinct(keys: pa.Array) -> pa.Array:
    """Return the distinct keys, in their order."""
    if pa.types.is_floating(keys.type):
        comparable = _comparable(keys)
        return keys.take(pc.index_in(comparable.unique(), value_set=comparable))
    if not pa.types.is_struct(keys.type):
        return distinct(keys)
    parts = pa.Table.from_struct_array(keys)
    return parts.group_by(parts.schema.names, use_threads=False).aggregate([]).to_struct_array().combine_chunks()


def _values(rows: pa.Table, column: Column) -> pa.ChunkedArray:
    """Return the values of a column."""
    array = rows.column(rows.schema.get_field_index(column.path[0]))
    for part in column.path[1:]:
        array = pc.struct_field(array, [array.type.get_field_index(part)])
    return array if column.type == column.value_type else array.cast(column.value_type)


def _numbered(keys: pa.Array) -> tuple[pa.Int32Array, pa.Array]:
    """Return the number of each key among the distinct keys, null for nulls, and the distinct keys."""
    comparable = _comparable(keys)
    encoded = comparable.dictionary_encode()
    members = encoded.dictionary
    if members.type != keys.type:
        members = keys.take(pc.index_in(members, value_set=comparable))
    return encoded.indices, members


def _join(
    row_keys: pa.ChunkedArray, members: pa.Array, codes: pa.Int32Array
) -> tuple[pa.Array, pa.Array, pa.BooleanArray]:
    """Join rows with keys, given the distinct keys, and the number of each key among them.

    Return the rows in the order of the keys, the position of the key of each of them, and which keys have rows.
    """
    rows = pc.index_in(_comparable(row_keys), value_set=_comparable(members)).combine_chunks()
    # The number of rows of each distinct key, and where they begin if rows are sorted by key.
    counted = pc.value_counts(rows.drop_null())
    every = pc.indices_nonzero(pa.repeat(pa.scalar(True), len(members))).cast(rows.type)
    counts = pc.fill_null(counted.field(1).take(pc.index_in(every, value_set=counted.field(0))), 0)
    ends = pc.cumulative_sum(counts)
    offsets = pa.concat_arrays([pa.array([0], ends.type), ends]).cast(pa.int64())
    by_key = pa.LargeListArray.from_arrays(offsets, pc.array_sort_indices(rows))
    positions = pc.indices_nonzero(codes.is_valid())
    found = by_key.take(codes.drop_null())
    has_rows = pc.fill_null(pc.greater(counts, 0).take(codes), False)
    return found.flatten(), positions.take(pc.list_parent_indices(found)).cast(pa.int64()), has_rows


def _take(rows: pa.Table, order: pa.Array) -> pa.Table:
    """Return rows in another order.

    pyarrow takes rows only from columns whose chunks together have less than 2 GiB of text.
    """
    if rows.nbytes <= MOST_BYTES:
        return rows.take(order)
    batches = rows.to_batches()
    ends = list(accumulate(batch.num_rows for batch in batches))
    step = max(1, len(order) * MOST_BYTES // rows.nbytes)
    parts = []
    for start in range(0, len(order), step):
        part = order.slice(start, step)
        ranks = pc.array_sort_indices(part)
        ascending = part.take(ranks)
        gathered = []
        first = at = 0
        for batch, end in zip(batches, ends, strict=True):
            after = bisect_left(ascending, end, lo=at, key=lambda number: number.as_py())
            if at < after:
                gathered.append(batch.take(pc.subtract(ascending.slice(at, after - at), first)))
            first, at = end, after
        parts.append(pa.Table.from_batches(gathered, rows.schema).take(pc.array_sort_indices(ranks)))
    return pa.concat_tables(parts)


def _comparable(values: Any) -> Any:
    """Return the values in a type that pyarrow can look up, with one zero and one NaN for all zeros and NaNs."""
    values = findable(values)
    if not pa.types.is_floating(values.type):
        return values
    # pyarrow distinguishes NaNs by their bits.
    values = pc.if_else(pc.is_nan(values), pa.scalar(math.nan, values.type), values)
    return pc.add(values, pa.scalar(0.0, values.type))
