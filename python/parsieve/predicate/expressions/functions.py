"""The functions of columns that can be indexed.

Engines disagree about each of them for some values. So each function has a domain: the values about which all engines
agree. It returns null for values outside the domain. In every engine, it returns null for null.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from parsieve._core import UnsupportedError
from parsieve.predicate.expressions.json_strings import extract_string
from parsieve.predicate.expressions.keys import encode_key, is_key_type

_INTEGER = r"\A(0|-?[1-9][0-9]{0,18})\z"
_MEMBER = re.compile(r"\$(\.[A-Za-z_][A-Za-z0-9_]*){1,3}\Z")


@dataclass(frozen=True, slots=True)
class Function:
    """A function of one column, or of several columns, and literals."""

    # Returns the type of the values for the types of the columns. Raises `UnsupportedError` for others.
    type_of: Callable[[Sequence[pa.DataType], Sequence[str]], pa.DataType]
    # Returns the values of arrays that have no nulls; null outside the domain.
    compute: Callable[[Sequence[pa.Array], Sequence[str]], pa.Array]


def _text_type(name: str) -> Callable[[Sequence[pa.DataType], Sequence[str]], pa.DataType]:
    def type_of(types: Sequence[pa.DataType], literals: Sequence[str]) -> pa.DataType:
        if len(types) != 1 or literals or not _is_text(types[0]):
            given = ", ".join([*map(str, types), *map(repr, literals)])
            raise UnsupportedError(f"{name} takes one text column, not ({given})")
        return types[0]

    return type_of


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind))


def _only_ascii(convert: Callable[[pa.Array], pa.Array]) -> Callable[[Sequence[pa.Array], Sequence[str]], pa.Array]:
    def compute(arrays: Sequence[pa.Array], literals: Sequence[str]) -> pa.Array:
        (texts,) = arrays
        return convert(_where(pc.string_is_ascii(texts), texts))

    return compute


def _where(mask: pa.BooleanArray, values: pa.Array) -> pa.Array:
    """Return the values for which a mask is true, and null for the others."""
    return pc.if_else(mask, values, pa.scalar(None, values.type))


def _integer_type(types: Sequence[pa.DataType], literals: Sequence[str]) -> pa.DataType:
    _text_type("CAST to BIGINT")(types, literals)
    return pa.int64()


def _to_integer(arrays: Sequence[pa.Array], literals: Sequence[str]) -> pa.Array:
    (texts,) = arrays
    # For texts with the same sign and 19 digits, the order of the texts is the order of the numbers without the sign.
    limit = pc.if_else(pc.starts_with(texts, "-"), pa.scalar("-9223372036854775808"), pa.scalar("9223372036854775807"))
    limit = limit.cast(texts.type)
    shorter = pc.less(pc.binary_length(texts), pc.binary_length(limit))
    fits = pc.or_(shorter, pc.less_equal(texts, limit))
    canonical = pc.and_(pc.match_substring_regex(texts, _INTEGER), fits)
    return _where(canonical, texts).cast(pa.int64())


def _member_type(types: Sequence[pa.DataType], literals: Sequence[str]) -> pa.DataType:
    if len(types) != 1 or not _is_text(types[0]) or len(literals) != 1 or not _MEMBER.match(literals[0]):
        raise UnsupportedError(
            "json_extract_string takes a text column and a path of one to three members, such as '$.user.id'"
        )
    return types[0]


def _extract(arrays: Sequence[pa.Array], literals: Sequence[str]) -> pa.Array:
    return extract_string(arrays[0], literals[0].split(".")[1:])


def _key_type(types: Sequence[pa.DataType], literals: Sequence[str]) -> pa.DataType:
    if len(types) < 2 or literals:
        raise UnsupportedError("a composite key takes at least two columns")
    for kind in types:
        if not is_key_type(kind):
            raise UnsupportedError(
                f"a composite key cannot have a part of type {kind}; use integers, texts, bytes, booleans, dates and "
                "timestamps"
            )
    return pa.binary()


FUNCTIONS = {
    "lower": Function(_text_type("lower"), _only_ascii(pc.ascii_lower)),
    "upper": Function(_text_type("upper"), _only_ascii(pc.ascii_upper)),
    "cast": Function(_integer_type, _to_integer),
    "json_extract_string": Function(_member_type, _extract),
    "key": Function(_key_type, lambda arrays, _: encode_key(arrays)),
}
