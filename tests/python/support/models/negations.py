"""Test random predicates and their negations on files with different types of a column, against the stored values."""

from __future__ import annotations

import math
import operator
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import parsieve as ps

DAY = 86_400 * 10**9
Truth = bool | None


@dataclass(frozen=True)
class Pair:
    """The column type of the first file and of the others, values for files and literals, and more literals."""

    first: pa.DataType
    other: pa.DataType
    values: Sequence[Any]
    more: Sequence[Any]
    # An SQL type for casts of the column, and a function that casts a value.
    cast: tuple[str, Callable[[Any], Any]] | None = None

    @property
    def kind(self) -> str:
        if pa.types.is_temporal(self.first):
            return "moment"
        return "text" if isinstance(self.values[0], str) else "bytes" if isinstance(self.values[0], bytes) else "number"


def _cents(digits: int) -> Callable[[Any], Any]:
    return lambda value: Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)


D = Decimal
SOME = [D("1.25"), D("1.26"), D("-1.25"), D("0"), D("1.2550"), D("1.2549"), D("-1.2551"), D("7")]
TIMES = [0, 10**6, 1_500_000, 1_001_000, -1, -(10**6), 2 * DAY, 2 * DAY + 1, 2 * DAY - 1000, 86_399_999_999_999]
TEXTS = ["", "a", "ab", "abc", "b", "ä", "a" * 20, "\U0010ffff"]
BYTES = [b"a", b"ab", b"abc", b"ab\0", b"ab\0\0", b"aa\xff", b"aa\xff\xff", b"\xff\xff", b"\0", b"ac", b"a\xff"]
INTS = [0, 1, -1, 5, 127, 128, -128, 2**31 - 1, 2**31, -(2**31) - 1, 2**40, 2**53 + 1, 2**63 - 1]
REALS = [0.0, -0.0, 0.1, 0.5, 1.5, math.nan, math.inf, -math.inf, 0.10000000149011612, 1e300, 5e-324, -0.1]
PAIRS = {
    "int32, int64": Pair(pa.int32(), pa.int64(), INTS, [D("1.5"), 2**70, -(2**70)], ("BIGINT", int)),
    "int32, int64 as doubles": Pair(pa.int32(), pa.int64(), INTS, [2**53, D("0.5")], ("DOUBLE", float)),
    "int8, int32": Pair(pa.int8(), pa.int32(), INTS, [D("1.5"), 2**40], ("INT", int)),
    "uint32, int32": Pair(pa.uint32(), pa.int32(), INTS, [D("-0.5")]),
    "int64, uint64": Pair(pa.int64(), pa.uint64(), [*INTS, 2**63, 2**64 - 1], [2**64]),
    "int32, double": Pair(pa.int32(), pa.float64(), [0, 1, 5, 1.5, 2.0**40, 0.25], [D("1.5"), D("0.3")]),
    "double, int64": Pair(pa.float64(), pa.int64(), INTS, [D("1.5"), 2**53]),
    "decimal, scale": Pair(pa.decimal128(18, 2), pa.decimal128(18, 4), SOME, [D("1.255001")]),
    "decimal, cast": Pair(
        pa.decimal128(18, 2), pa.decimal128(24, 6), [*SOME, D("1.250001")], [], ("DECIMAL(20, 4)", _cents(4))
    ),
    "decimal, digits": Pair(pa.decimal128(5, 2), pa.decimal128(12, 2), [*SOME[:4], D("99999.25"), D("1000")], SOME),
    "decimal, narrower": Pair(pa.decimal128(18, 4), pa.decimal128(9, 2), SOME, []),
    "float, double": Pair(pa.float32(), pa.float64(), REALS, [D("0.1"), 1], ("DOUBLE", float)),
    "double, float": Pair(pa.float64(), pa.float32(), REALS, [D("0.1"), 1]),
    "ms, us": Pair(
        pa.timestamp("ms"), pa.timestamp("us"), TIMES, [1_500_500], ("DATE", lambda nanos: nanos // DAY * DAY)
    ),
    "us, ns": Pair(pa.timestamp("us"), pa.timestamp("ns"), TIMES, [1500], ("DATE", lambda nanos: nanos // DAY * DAY)),
    "ms, ns, cast": Pair(
        pa.timestamp("ms"), pa.timestamp("ns"), TIMES, [1500], ("TIMESTAMP", lambda nanos: nanos // 1000 * 1000)
    ),
    "instants": Pair(pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC"), TIMES, [1_500_500]),
    "date, timestamp": Pair(pa.date32(), pa.timestamp("us"), TIMES, [DAY // 2], ("TIMESTAMP", lambda nanos: nanos)),
    "timestamp, date": Pair(pa.timestamp("us"), pa.date32(), [0, DAY, 2 * DAY, -DAY], TIMES),
    "text, large text": Pair(pa.string(), pa.large_string(), TEXTS, ["c", "aa"]),
    "text, dictionary": Pair(pa.string(), pa.dictionary(pa.int32(), pa.string()), TEXTS, ["c"]),
    "bytes, fixed": Pair(pa.binary(), pa.binary(2), BYTES, [b""]),
    "fixed, wider": Pair(pa.binary(2), pa.binary(3), BYTES, [b""]),
    "fixed, bytes": Pair(pa.binary(3), pa.binary(), BYTES, [b"aa\xff\xfe"]),
}


def _key(value: Any, pair: Pair) -> Any:
    """Return a sort key. Both zeros are equal. NaN equals itself and is greater than all other values."""
    if pair.kind in ("text", "bytes"):
        return value.encode() if isinstance(value, str) else value
    if isinstance(value, float):
        if not math.isfinite(value):
            return (2 if math.isnan(value) else 1 if value > 0 else -1, Fraction(0))
        return (0, Fraction(value))
    return (0, Fraction(value))


def _literal_key(literal: Any, pair: Pair) -> Any:
    # A decimal literal becomes the nearest double if the column has floating point numbers.
    floating = pa.types.is_floating(pair.first) and isinstance(literal, Decimal)
    return _key(float(literal) if floating else literal, pair)


def sql(literal: Any, pair: Pair) -> str:
    if literal is None:
        return "NULL"
    if pair.kind == "text":
        return f"'{literal}'"
    if pair.kind == "bytes":
        return f"X'{literal.hex()}'"
    if pair.kind == "moment":
        day, nanos = divmod(literal, DAY)
        date = pa.scalar(day, pa.int32()).cast(pa.date32()).as_py()
        seconds, rest = divmod(nanos, 10**9)
        zone = "+00:00" if getattr(pair.first, "tz", None) else ""
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:09}"
        return f"'{date} {clock}{zone}'"
    if isinstance(literal, float):
        return f"CAST('{literal}' AS DOUBLE)"
    return str(literal)


def arrow(literal: Any, pair: Pair) -> pa.Scalar:
    if pair.kind == "moment":
        return pa.scalar(literal, pa.int64()).cast(pa.timestamp("ns", getattr(pair.first, "tz", None)))
    if isinstance(literal, Decimal) and pa.types.is_floating(pair.first):
        return pa.scalar(float(literal))
    return pa.scalar(Decimal(literal) if isinstance(literal, int) and abs(literal) >= 2**63 else literal)


@dataclass
class SqlPredicate:
    """A predicate in SQL, its truth for a row, and the pyarrow expression if pyarrow can express it."""

    text: str
    truth: Callable[[dict[str, Any]], Truth]
    expression: pc.Expression | None = None


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compared(pair: Pair, name: str, op: str, literal: Any, cast: bool = False) -> SqlPredicate:
    change = pair.cast[1] if cast and pair.cast else lambda value: value
    column = f"CAST({name} AS {pair.cast[0]})" if cast and pair.cast else name

    def truth(row: dict[str, Any]) -> Truth:
        value = row[name]
        if value is None or literal is None:
            return None
        return bool(_OPERATORS[op](_key(change(value), pair), _literal_key(literal, pair)))

    field = pc.field(name)
    made = None
    if not cast and literal is not None:
        made = _OPERATORS[{"<>": "!="}.get(op, op).replace("!=", "<>")](field, arrow(literal, pair))
    return SqlPredicate(f"{column} {op} {sql(literal, pair)}", truth, made)


def both(*parts: SqlPredicate) -> SqlPredicate:
    def truth(row: dict[str, Any]) -> Truth:
        truths = [part.truth(row) for part in parts]
        return False if False in truths else None if None in truths else True

    return SqlPredicate(" AND ".join(f"({part.text})" for part in parts), truth, _joined(parts, lambda a, b: a & b))


def either(*parts: SqlPredicate) -> SqlPredicate:
    return negated(both(*map(negated, parts)), " OR ".join(f"({part.text})" for part in parts), parts)


def _joined(parts: Sequence[SqlPredicate], join: Any) -> pc.Expression | None:
    made = parts[0].expression
    for part in parts[1:]:
        made = None if made is None or part.expression is None else join(made, part.expression)
    return made


def negated(part: SqlPredicate, text: str | None = None, alternatives: Sequence[SqlPredicate] = ()) -> SqlPredicate:
    def truth(row: dict[str, Any]) -> Truth:
        inner = part.truth(row)
        return None if inner is None else not inner

    if alternatives:
        return SqlPredicate(text or "", truth, _joined(alternatives, lambda a, b: a | b))
    return SqlPredicate(f"NOT ({part.text})", truth, None if part.expression is None else ~part.expression)


def isin(pair: Pair, literals: Sequence[Any]) -> SqlPredicate:
    """Return an IN predicate, in SQL only. The list may contain nulls."""
    alternatives = either(*(compared(pair, "x", "=", literal) for literal in literals))
    return SqlPredicate(f"x IN ({', '.join(sql(literal, pair) for literal in literals)})", alternatives.truth)


def leaf(draw: random.Random, pair: Pair, stored_values: Sequence[Any]) -> SqlPredicate:
    def literal() -> Any:
        # Choose mostly values that the files contain: a missing value cannot reveal a lost row.
        if stored_values and draw.random() < 0.7:
            return draw.choice(stored_values)
        return draw.choice([*pair.values, *pair.more, None])

    forms = ["in", "in", "between", "distinct", "null", "cast", "like", "y"]
    form = draw.choice(["compare"] * 4 + ["equal"] * 4 + forms)
    op = draw.choice(list(_OPERATORS))
    null = SqlPredicate("x IS NULL", lambda row: row["x"] is None, pc.field("x").is_null())
    if form == "equal":
        return compared(pair, "x", draw.choice(["=", "<>"]), literal())
    if form == "in":
        return isin(pair, [literal() for _ in range(draw.randint(1, 4))])
    if form == "between":
        low, high = literal(), literal()
        between = both(compared(pair, "x", ">=", low), compared(pair, "x", "<=", high))
        return SqlPredicate(f"x BETWEEN {sql(low, pair)} AND {sql(high, pair)}", between.truth)
    if form == "distinct":
        value = literal()
        if value is None:
            return negated(null)
        same = both(negated(null), compared(pair, "x", "=", value))
        return SqlPredicate(f"x IS DISTINCT FROM {sql(value, pair)}", negated(same).truth)
    if form == "null":
        return null
    if form == "cast" and pair.cast:
        value = literal()
        if pair.cast[0] == "DATE" and value is not None:
            value = value // DAY * DAY
        return compared(pair, "x", op, value, cast=True)
    if form == "like" and pair.kind == "text":
        prefix = draw.choice(TEXTS)
        return SqlPredicate(
            f"x LIKE '{prefix}%'", lambda row: None if row["x"] is None else row["x"].startswith(prefix)
        )
    if form == "y":
        return SqlPredicate("y = 7", lambda row: row["y"] == 7, pc.field("y") == 7)
    return compared(pair, "x", op, literal())


def predicate(draw: random.Random, pair: Pair, stored_values: Sequence[Any], depth: int = 2) -> SqlPredicate:
    if depth == 0 or draw.random() < 0.6:
        return leaf(draw, pair, stored_values)
    parts = [predicate(draw, pair, stored_values, depth - 1) for _ in range(draw.randint(1, 3))]
    form = draw.choice(["not", "and", "or"])
    return negated(parts[0]) if form == "not" else both(*parts) if form == "and" else either(*parts)


def forms(draw: random.Random, pair: Pair, stored_values: Sequence[Any]) -> list[SqlPredicate]:
    """Return a random predicate, negated once and twice, and negations of an OR and an AND, also by De Morgan."""
    first, second = predicate(draw, pair, stored_values), predicate(draw, pair, stored_values, 1)
    return [
        first,
        negated(first),
        negated(negated(first)),
        negated(either(first, second)),
        both(negated(first), negated(second)),
        negated(both(first, second)),
        either(negated(first), negated(second)),
    ]


def random_values(draw: random.Random, kind: pa.DataType, pair: Pair) -> pa.Array:
    """Return random values that a type can store exactly, and nulls."""
    values = [value for value in pair.values if fits(value, kind)]
    pool = draw.sample(values, min(len(values), draw.choice([1, 1, 2, 3])))
    return raw_array([draw.choice([*pool, *([None] if draw.random() < 0.2 else [])]) for _ in range(4)], kind)


def raw_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if not pa.types.is_temporal(kind):
        return pa.array(values, kind)
    width, per = {"date32[day]": (pa.int32(), DAY)}.get(str(kind), (pa.int64(), 1))
    per = per if pa.types.is_date(kind) else {"ms": 10**6, "us": 10**3, "ns": 1}[kind.unit]
    return pa.array([None if value is None else value // per for value in values], width).cast(kind)


def fits(value: Any, kind: pa.DataType) -> bool:
    if pa.types.is_temporal(kind):
        per = DAY if pa.types.is_date(kind) else {"ms": 10**6, "us": 10**3, "ns": 1}[kind.unit]
        return bool(value % per == 0)
    try:
        stored = pa.array([value], kind)[0].as_py()
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return False
    same = stored == value or (isinstance(value, float) and math.isnan(value))
    return bool(same and (pa.types.is_floating(kind) or not isinstance(value, float) or value == stored))


def raw(array: pa.Array) -> list[Any]:
    """Return the values of a column, and times in nanoseconds."""
    if not pa.types.is_temporal(array.type):
        return list(array.to_pylist())
    per = DAY if pa.types.is_date(array.type) else {"ms": 10**6, "us": 10**3, "ns": 1}[array.type.unit]
    ticks = array.cast(pa.int32()).cast(pa.int64()) if pa.types.is_date(array.type) else array.cast(pa.int64())
    return [None if tick is None else tick * per for tick in ticks.to_pylist()]


@dataclass
class Written:
    """A file and its stored rows."""

    path: str
    kind: pa.DataType
    rows: list[dict[str, Any]]


def write(draw: random.Random, folder: Path, pair: Pair) -> list[Written]:
    """Write files of both types. The first file has the type of the table."""
    kinds = [pair.first, *(draw.choice([pair.first, pair.other, pair.other]) for _ in range(draw.randint(1, 3)))]
    files = []
    for number, kind in enumerate(kinds):
        x = random_values(draw, kind, pair)
        y = pa.array([draw.choice([1, 7]) for _ in x], pa.int64())
        row = pa.array(range(number * 10, number * 10 + len(x)), pa.int64())
        path = str(folder / f"{number}.parquet")
        pq.write_table(
            pa.table({"x": x, "y": y, "row": row}),
            path,
            row_group_size=draw.choice([2, 4]),
            write_statistics=draw.random() < 0.8,
            bloom_filter_options={"x": True} if draw.random() < 0.7 else None,
        )
        # New files have no token and are not indexed, so set an old timestamp.
        os.utime(path, (1, 1))
        columns = zip(raw(x), y.to_pylist(), row.to_pylist(), strict=True)
        files.append(Written(path, kind, [dict(zip(("x", "y", "row"), values, strict=True)) for values in columns]))
    return files


def check(
    table: ps.Table,
    files: Sequence[Written],
    query: Any,
    truth: Callable[[dict[str, Any]], Truth],
    row_groups: Sequence[bool | None] = (None, True, False),
) -> None:
    """Check that a plan keeps each file with a matching row, and returns these rows.

    The rows may be unsupported if a kept file has another type than the table.
    """
    matching = {file.path: [row["row"] for row in file.rows if truth(row) is True] for file in files}
    for row_groups_option in row_groups:
        plan = table.plan(query, row_groups=row_groups_option)
        lost = [path for path, rows in matching.items() if rows and path not in plan.files]
        assert not lost, (query, lost, [(file.kind, file.rows) for file in files], plan.explain())
    try:
        numbers = table.plan(query).to_arrow(["row"])["row"].to_pylist()
    except ps.UnsupportedError:
        kept = table.plan(query).files
        assert any(file.path in kept and file.kind != files[0].kind for file in files), (query, files)
        return
    assert sorted(numbers) == sorted(row for rows in matching.values() for row in rows), (query, files)


def run(seed: int, name: str, folder: Path) -> None:
    """Write files of a pair of types, and check all forms of a random predicate."""
    draw, pair = random.Random(seed), PAIRS[name]
    files = write(draw, folder, pair)
    table = ps.open_table(str(folder))
    if draw.random() < 0.3:
        table.build_index("x", kind=draw.choice(["sieve", "bloom", "both"]), progress=False)
    stored_values = [row["x"] for file in files for row in file.rows if row["x"] is not None]
    has_nan = any(isinstance(value, float) and math.isnan(value) for value in stored_values)
    for query in forms(draw, pair, stored_values):
        check(table, files, query.text, query.truth)
        if query.expression is not None and not has_nan and "nan" not in query.text:
            check(table, files, query.expression, query.truth)
