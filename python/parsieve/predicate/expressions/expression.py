"""An expression of columns: its text, its values, and the column that an index has for it.

An index holds an expression as the elements of lists. A row has an empty list if one of its columns is null, a list of
one value, or a list of one null if the value is outside the domain in which engines agree.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from parsieve._core import UnsupportedError
from parsieve.errors import ColumnNotFoundError
from parsieve.predicate.column_names import ColumnNames
from parsieve.predicate.elements import FIELD_ID, running_sums
from parsieve.predicate.expr import ELEMENT, Column
from parsieve.predicate.expressions.functions import FUNCTIONS, Function
from parsieve.predicate.expressions.keys import key_form

# Larger than the field ids of all formats and of the elements of lists.
_IDS = 1 << 61
_CALL = re.compile(r"\s*(\w+)\s*\((.*)\)\s*\Z", re.DOTALL)
_CAST = re.compile(r"\s*(.*?)\s+AS\s+(?:BIGINT|LONG|INT64)\s*\Z", re.IGNORECASE | re.DOTALL)
_ARGUMENT = re.compile(r"""\s*(?:'((?:[^']|'')*)'|((?:"(?:[^"]|"")*"|\w+)(?:\.(?:"(?:[^"]|"")*"|\w+))*))\s*(,|\Z)""")
_NAME = re.compile(r'"((?:[^"]|"")*)"|(\w+)')
# Other names that engines have for a function of the same meaning.
_SYNONYMS = {
    "get_json_object": "json_extract_string",
    "json_extract_scalar": "json_extract_string",
    "lcase": "lower",
    "ucase": "upper",
}
# The expressions that can be indexed, for error messages.
FORMS = "lower(text), upper(text), CAST(text AS BIGINT), json_extract_string(text, '$.a.b'), and composite keys (a, b)"


@dataclass(frozen=True, slots=True)
class Expression:
    """A function of columns and literals."""

    name: str
    columns: tuple[Column, ...]
    literals: tuple[str, ...] = ()

    @property
    def function(self) -> Function:
        """The function's definition."""
        return FUNCTIONS[self.name]

    @property
    def type(self) -> pa.DataType:
        """The type of the values. Raises `UnsupportedError` for columns of other types than the function takes."""
        return self.function.type_of([column.value_type for column in self.columns], self.literals)

    @property
    def value(self) -> Column:
        """The column that an index has for the expression."""
        return Column((str(self), ELEMENT), self.type, self._id, is_repeated=True, is_computed=True)

    @property
    def fields(self) -> list[pa.Field]:
        """The fields along the path of `value`."""
        field = pa.field(ELEMENT, self.type, metadata={FIELD_ID: str(self._id).encode()})
        return [pa.field(str(self), pa.list_(field)), field]

    @property
    def _id(self) -> int:
        """A number that no other column has. It depends on the field ids of the columns, or on their names.

        Equal values of different types may have different bytes in a key, so the number of a key depends on types too.
        """
        sources = [column.path if column.field_id is None else column.field_id for column in self.columns]
        forms = [key_form(column.value_type) for column in self.columns] if self.name == "key" else []
        digest = hashlib.blake2b(repr((self.name, sources, self.literals, forms)).encode(), digest_size=7).digest()
        return _IDS + int.from_bytes(digest)

    def __str__(self) -> str:
        names = ", ".join(map(str, self.columns))
        quoted = ["'" + literal.replace("'", "''") + "'" for literal in self.literals]
        if self.name == "cast":
            return f"CAST({names} AS BIGINT)"
        return f"{self.name}({', '.join([names, *quoted])})"

    def compute(self, arrays: Sequence[pa.Array]) -> tuple[pa.Array, pa.BooleanArray]:
        """Return the value for each row, and whether the row has no null in the columns of the expression.

        A value outside the domain is null.
        """
        plain = [_plain(array, column) for array, column in zip(arrays, self.columns, strict=True)]
        present = pc.is_valid(plain[0])
        for array in plain[1:]:
            present = pc.and_(present, pc.is_valid(array))
        values = self.function.compute([array.filter(present) for array in plain], self.literals)
        places = pc.subtract(pc.cumulative_sum(present.cast(pa.int64())), 1)
        return values.take(pc.if_else(present, places, pa.scalar(None, pa.int64()))), present

    def lists(self, arrays: Sequence[pa.Array]) -> pa.Array:
        """Return the values as lists, as an index holds them."""
        values, present = self.compute(arrays)
        return pa.LargeListArray.from_arrays(running_sums(present), values.filter(present))


@dataclass(frozen=True, slots=True)
class Call:
    """The text of an expression, whose columns may have other names by now."""

    name: str
    columns: tuple[str, ...]
    literals: tuple[str, ...]

    @property
    def paths(self) -> list[tuple[str, ...]]:
        """The paths of the columns in the text, which `str` of an expression has written."""
        return [tuple(_name_parts(name)[0]) for name in self.columns]

    def of(self, columns: Sequence[Column]) -> Expression:
        """Return the expression of these columns."""
        return Expression(self.name, tuple(columns), self.literals)


def _plain(array: pa.Array, column: Column) -> pa.Array:
    """Return values without a dictionary, run-end encoding or extension."""
    return array if array.type == column.value_type else array.cast(column.value_type)


def parse_expression(text: str, schema: pa.Schema) -> Expression | None:
    """Return the expression with this text, or None if it has no known function.

    Raises `ColumnNotFoundError` if a column does not exist, and `UnsupportedError` if the function does not take it.

    >>> import pyarrow as pa
    >>> from parsieve.predicate.expressions.expression import parse_expression
    >>> print(parse_expression("LOWER( Email )", pa.schema({"email": pa.string()})))
    lower(email)
    """
    call = parse_call(text)
    if call is None:
        return None
    names = ColumnNames(schema)
    expression = call.of([names.find(*_name_parts(name)) for name in call.columns])
    # Raise the error for types that the function does not take.
    expression.type  # noqa: B018
    return expression


def parse_call(text: str) -> Call | None:
    """Return the function in a text, with its arguments, or None if it has no known function."""
    call = _CALL.match(text)
    name = call[1].lower() if call else "key"
    name = _SYNONYMS.get(name, name)
    inner = call[2] if call else text
    if name not in FUNCTIONS or (not call and "," not in text):
        return None
    if name == "cast":
        cast = _CAST.match(inner)
        if cast is None:
            return None
        inner = cast[1]
    arguments = _arguments(inner)
    if arguments is None:
        return None
    literals = tuple(_literal(text) for text, name in arguments if not name)
    return Call(name, tuple(name for _, name in arguments if name), literals)


def computed(path: Sequence[str], schema: pa.Schema) -> Expression | None:
    """Return the expression at the path of an index, or None if the path is of a column."""
    if len(path) != 2 or path[1] != ELEMENT or path[0] in schema.names:
        return None
    try:
        return parse_expression(path[0], schema)
    except (ColumnNotFoundError, UnsupportedError):
        return None


def index_name(path: Sequence[str]) -> str:
    """Return the name of the index at a path: the dotted path of a column, or the text of an expression.

    >>> from parsieve.predicate.expressions.expression import index_name
    >>> index_name(("box", "id")), index_name(("lower(email)", "element"))
    ('box.id', 'lower(email)')
    """
    return path[0] if is_expression(path) else ".".join(path)


def is_expression(path: Sequence[str]) -> bool:
    """Return whether the path of an index has the form of an expression's path."""
    call = _CALL.match(path[0])
    return call is not None and call[1].lower() in FUNCTIONS and tuple(path[1:]) == (ELEMENT,)


def _arguments(text: str) -> list[tuple[str, str]] | None:
    """Return the arguments of a function: pairs of a literal and a name, one of which is empty."""
    arguments, at = [], 0
    while True:
        match = _ARGUMENT.match(text, at)
        if match is None:
            return None
        arguments.append((match[1] or "", match[2] or ""))
        at = match.end()
        if not match[3]:
            return arguments


def _literal(text: str) -> str:
    return text.replace("''", "'")


def _name_parts(name: str) -> tuple[list[str], list[bool]]:
    """Return the parts of a name, and which of them are quoted."""
    parts = list(_NAME.finditer(name))
    return [part[2] or part[1].replace('""', '"') for part in parts], [part[2] is None for part in parts]


def expr(text: str) -> str:
    """Return the text of an expression to index. Raises `ValueError` if its function cannot be indexed.

    >>> import parsieve as ps
    >>> ps.expr("lower(email)")
    'lower(email)'
    """
    call = _CALL.match(text)
    name = call[1].lower() if call else "key"
    if _SYNONYMS.get(name, name) not in FUNCTIONS or (not call and "," not in text):
        raise ValueError(f"{text!r} is not an expression that can be indexed; use one of {', '.join(FUNCTIONS)}")
    return text


def key(*columns: str) -> str:
    """Return the text of a composite key of some columns. A name may have dots, as in `box.id`.

    >>> import parsieve as ps
    >>> ps.key("tenant", "id")
    'key(tenant, id)'
    """
    if len(columns) < 2:
        raise ValueError("a composite key has at least two columns")
    given: tuple[object, ...] = columns
    for column in given:
        if not isinstance(column, str):
            raise TypeError(f"a column of a key is a name, such as 'id' or 'box.id', not {column!r}")
    names = [str(Column(tuple(name.split(".")), pa.null())) for name in columns]
    return f"key({', '.join(names)})"
