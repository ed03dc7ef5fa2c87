"""Composite keys as bytes whose order is the order of their parts."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

_TEXTS = (pt.is_string, pt.is_large_string, pt.is_binary, pt.is_large_binary)
_NUMBERS = (pt.is_integer, pt.is_boolean, pt.is_date, pt.is_timestamp)


def is_key_type(kind: pa.DataType) -> bool:
    """Return whether values of a type can be a part of a composite key."""
    return any(test(kind) for test in (*_TEXTS, *_NUMBERS))


def key_form(kind: pa.DataType) -> str:
    """Return the name of the encoding of a type in a key. Types of one form have equal bytes for equal values.

    >>> import pyarrow as pa
    >>> key_form(pa.int8()) == key_form(pa.int64()), key_form(pa.timestamp("us")) == key_form(pa.timestamp("ns"))
    (True, False)
    """
    if any(test(kind) for test in _TEXTS):
        return "text"
    if pt.is_integer(kind):
        return "unsigned" if pt.is_unsigned_integer(kind) else "signed"
    return str(kind)


def encode_key(parts: Sequence[pa.Array], num_parts: int | None = None) -> pa.Array:
    r"""Return the keys of rows, or the beginnings of keys that have more parts. The arrays have no nulls.

    >>> import pyarrow as pa
    >>> encode_key([pa.array(["a"]), pa.array([-1])]).to_pylist()
    [b'a\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff']
    """
    last = (len(parts) if num_parts is None else num_parts) - 1
    encoded = [_encode(part, is_last=number == last) for number, part in enumerate(parts)]
    return pc.binary_join_element_wise(*encoded, pa.scalar(b"", pa.binary()))


def _encode(part: pa.Array, *, is_last: bool) -> pa.Array:
    kind = part.type
    if any(test(kind) for test in _TEXTS):
        texts = part.cast(pa.large_binary()).cast(pa.binary())
        if is_last:
            return texts
        # The end of a part sorts before all bytes that can follow in a longer text, including an escaped zero.
        escaped = pc.replace_substring(texts, pattern=b"\x00", replacement=b"\x00\xff")
        return pc.binary_join_element_wise(escaped, pa.scalar(b"\x00\x00"), pa.scalar(b""))
    if pt.is_boolean(kind):
        part = part.cast(pa.int64())
    elif pt.is_temporal(kind):
        part = part.view(pa.int32() if kind.bit_width == 32 else pa.int64()).cast(pa.int64())
    elif not pt.is_unsigned_integer(kind):
        part = part.cast(pa.int64())
    if pt.is_unsigned_integer(part.type):
        bits = part.cast(pa.uint64())
    else:
        # With the sign bit flipped, the order of the bytes is the order of the numbers.
        bits = pc.bit_wise_xor(part.view(pa.uint64()), pa.scalar(1 << 63, pa.uint64()))
    numbers = array("Q", bits.buffers()[1][bits.offset * 8 : (bits.offset + len(bits)) * 8].to_pybytes())
    if sys.byteorder == "little":
        numbers.byteswap()
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(8), len(part), [None, pa.py_buffer(numbers.tobytes())])
    return fixed.cast(pa.binary())
