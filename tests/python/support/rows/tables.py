"""Random tables, and files of one table whose columns differ in order, presence and width."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.types as pt

from support.rows.values import array_of, random_type

ODD_NAMES = ("a.b", "", "with space", 'quo"te', "ünïcode", "select", "ROW", "x%", "*", "key")
# Rows of a file. Most files are small, so that a run covers many of them.
SIZES = (0, 1, 3, 20, 50, 100, 200, 300, 300, 1000)
# For types of the table, types that other files of the table may have.
NARROWER = {
    pa.int64(): (pa.int32(), pa.int16(), pa.uint8()),
    pa.int32(): (pa.int8(), pa.int16(), pa.uint16()),
    pa.uint64(): (pa.uint32(), pa.uint8()),
    pa.float64(): (pa.float32(),),
    pa.decimal128(38, 10): (pa.decimal128(18, 4), pa.decimal128(9, 2)),
    pa.decimal128(18, 4): (pa.decimal128(9, 2),),
    pa.timestamp("us"): (pa.timestamp("ms"), pa.date32()),
    pa.timestamp("ns"): (pa.timestamp("us"),),
    pa.string(): (pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.string_view()),
    pa.large_string(): (pa.string(),),
    pa.binary(): (pa.large_binary(), pa.binary(5), pa.binary_view()),
}


def random_schema(random_: random.Random, most_columns: int = 7) -> pa.Schema:
    """Return a schema with random names, types, nullability and metadata."""
    fields: list[pa.Field] = []
    names: set[str] = set()
    for number in range(random_.randrange(1, most_columns + 1)):
        name = random_.choice(ODD_NAMES) if random_.random() < 0.12 else f"c{number}"
        if name in names:
            continue
        names.add(name)
        kind = random_type(random_)
        metadata = {b"unit": b"EUR"} if random_.random() < 0.1 else None
        nullable = random_.random() < 0.8 or pt.is_null(kind)
        fields.append(pa.field(name, kind, nullable, metadata))
    if random_.random() < 0.03:
        # A name that differs only in case.
        twin = random_.choice(fields).name.swapcase()
        if twin not in names:
            fields.append(pa.field(twin, pa.int32()))
    return pa.schema(fields, {b"made by": b"a test"} if random_.random() < 0.2 else None)


def random_rows(schema: pa.Schema, random_: random.Random, rows: int) -> pa.Table:
    """Return random rows with the columns of a schema."""
    arrays = [array_of(field.type, random_, rows, field.nullable) for field in schema]
    return pa.table(arrays, schema=schema)


def random_size(random_: random.Random) -> int:
    """Return a number of rows. Some files have more rows than a batch of any reader."""
    return random_.randrange(60_000, 75_000) if random_.random() < 0.002 else random_.choice(SIZES)


def random_files(random_: random.Random) -> list[pa.Table]:
    """Return the files of a random table."""
    schema = random_schema(random_)
    count = random_.choice((1, 1, 1, 2, 3))
    files = [random_rows(schema, random_, random_size(random_))]
    for _ in range(count - 1):
        files.append(random_rows(_variant(schema, random_), random_, random_.choice(SIZES[:7])))
    return files


def _variant(schema: pa.Schema, random_: random.Random) -> pa.Schema:
    """Return the schema of another file of the table: other order, missing and added columns, narrower types."""
    form = random_.choice(("same", "order", "missing", "added", "narrow", "all"))
    fields = list(schema)
    if form in ("narrow", "all"):
        fields = [_narrow(field, random_) for field in fields]
    if form in ("missing", "all") and len(fields) > 1:
        fields.pop(random_.randrange(len(fields)))
    if form in ("order", "all"):
        random_.shuffle(fields)
    if form in ("added", "all") and "added" not in schema.names:
        fields.insert(random_.randrange(len(fields) + 1), pa.field("added", random_type(random_)))
    return pa.schema(fields)


def _narrow(field: pa.Field, random_: random.Random) -> pa.Field:
    choices = NARROWER.get(field.type, ())
    return field.with_type(random_.choice(choices)) if choices and random_.random() < 0.6 else field
