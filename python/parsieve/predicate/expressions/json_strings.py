"""Text members of JSON objects, where all engines agree about them.

RE2 matches the texts, so no value becomes a Python object. The pattern matches objects up to a depth, without escapes
in strings. Every other text is outside the domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

_SPACE = r"[ \t\n\r]*"
_STRING = r'"[^"\\\x00-\x1f]*"'
_SCALAR = rf"(?:{_STRING}|-?(?:0|[1-9][0-9]{{0,14}})(?:\.[0-9]{{1,15}})?|true|false|null)"
# How deep the values of other members may be nested.
_DEPTH = 2


def extract_string(texts: pa.Array, members: Sequence[str]) -> pa.Array:
    """Return the text of a member of JSON objects; null if the object is outside the domain or has no such member."""
    pattern = _pattern(tuple(members))
    is_inside = pc.match_substring_regex(texts, pattern)
    for member in members:
        # Without escapes, a quoted name before a colon is always a member.
        occurrences = pc.count_substring_regex(texts, f'"{member}"{_SPACE}:')
        is_inside = pc.and_(is_inside, pc.equal(occurrences, 1))
    inside = pc.if_else(is_inside, texts, pa.scalar(None, texts.type))
    # The last member occurs once, so a short pattern finds it. RE2 captures groups of the long one slowly.
    value = rf'"{members[-1]}"{_SPACE}:{_SPACE}"(?P<value>[^"]*)"'
    return pc.struct_field(pc.extract_regex(inside, value), "value").cast(texts.type)


@lru_cache
def _pattern(members: tuple[str, ...]) -> str:
    other = _value(_DEPTH)
    found = _STRING
    for member in reversed(members):
        pair = rf"{_SPACE}{_STRING}{_SPACE}:{_SPACE}{other}{_SPACE}"
        wanted = rf'{_SPACE}"{member}"{_SPACE}:{_SPACE}{found}{_SPACE}'
        found = rf"\{{(?:{pair},)*{wanted}(?:,{pair})*\}}"
    return rf"\A{_SPACE}{found}{_SPACE}\z"


def _value(depth: int) -> str:
    if not depth:
        return _SCALAR
    inner = _value(depth - 1)
    pair = rf"{_SPACE}{_STRING}{_SPACE}:{_SPACE}{inner}{_SPACE}"
    objects = rf"\{{(?:{_SPACE}|{pair}(?:,{pair})*)\}}"
    arrays = rf"\[(?:{_SPACE}|{_SPACE}{inner}{_SPACE}(?:,{_SPACE}{inner}{_SPACE})*)\]"
    return rf"(?:{_SCALAR}|{objects}|{arrays})"
