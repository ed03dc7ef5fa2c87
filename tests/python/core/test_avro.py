"""The reader of Avro rows: values, layouts, and damaged rows, which raise an error and never crash."""

from __future__ import annotations

import random

import pytest

from parsieve._core import AvroColumns, FormatError

# A record of a number, a map from int to optional bytes, an encoded optional text, and a number that is skipped.
LAYOUT = [4, 4, 16, 0, 21, 3, 6, 0, 2, 19, 3, 2, 0]
ROW = b"\x0a" + b"\x02\x04\x02\x06abc\x04\x00\x00" + b"\x02\x08text" + b"\x01"


def test_chosen_fields_become_columns() -> None:
    reader = AvroColumns(LAYOUT)
    reader.push(ROW * 2, 2)
    reader.push(ROW, 1)
    numbers, maps, encoded = reader.finish()
    assert numbers.to_pylist() == [5] * 3
    assert maps.to_pylist() == [[(1, b"abc"), (2, b"")]] * 3
    assert encoded.to_pylist() == [b"\x02\x08text"] * 3
    with pytest.raises(ValueError, match="finished"):
        reader.finish()


@pytest.mark.parametrize(
    "layout", [[], [7], [4, 2, 0], [0, 0], [16, 2], [3, 16, 0], [20, 6, 2, 0], [17, 3, 3, 2], [3] * 100]
)
def test_invalid_layouts_are_rejected(layout: list[int]) -> None:
    with pytest.raises(ValueError, match="layout of Avro rows"):
        AvroColumns(layout)


def test_damaged_rows_raise_an_error() -> None:
    random_ = random.Random(1)
    damages = [b"\xff\xff\xff\xff\x0f", b"\x01", b"\xff" * 9 + b"\x01", b"\0"]
    rejected = 0
    for _ in range(3000):
        data = bytearray(ROW * 3)
        for _ in range(random_.randrange(1, 4)):
            at = random_.randrange(len(data))
            data[at : at + random_.randrange(4)] = random_.choice([*damages, random_.randbytes(2)])
        reader = AvroColumns(LAYOUT)
        try:
            reader.push(bytes(data), random_.choice([3, 3, 2, 2**40]))
        except FormatError:
            rejected += 1
            continue
        for column in reader.finish():
            column.validate(full=True)
    assert rejected > 2000
