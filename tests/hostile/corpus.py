"""Generate damaged Parquet files. `python tests/hostile/corpus.py FOLDER` writes all of them.

Each is a valid file of pyarrow with one wrong value in its footer, a page header, a filter header, a length or an
offset.
"""

from __future__ import annotations

import io
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

import pyarrow as pa
import pyarrow.parquet as pq
import thrift

KEYS = list(range(1000, 1300))
TABLE = pa.table(
    {
        "id": pa.array(KEYS, pa.int64()),
        "text": [f"text {key % 90}" for key in KEYS],
        "list": [[key % 5, None, key] for key in KEYS],
    }
)


class Damaged(NamedTuple):
    """A damaged file."""

    name: str
    data: bytes
    # Whether only a filter or its location is damaged. The data is intact, so no matching row group may be excluded.
    keeps: bool = False


def sound() -> dict[str, bytes]:
    """Return the valid files: every codec, both page versions, dictionaries and the other encodings."""
    kinds: dict[str, dict[str, Any]] = {
        codec: {"compression": codec} for codec in ("none", "snappy", "gzip", "brotli", "zstd", "lz4")
    }
    kinds["pages2"] = {
        "compression": "snappy",
        "data_page_version": "2.0",
        "data_page_size": 500,
        "use_dictionary": False,
    }
    kinds["delta"] = {
        "compression": "none",
        "use_dictionary": False,
        "column_encoding": {
            "id": "DELTA_BINARY_PACKED",
            "text": "DELTA_BYTE_ARRAY",
            "list.list.element": "DELTA_BINARY_PACKED",
        },
    }
    kinds["lengths"] = {
        "compression": "none",
        "use_dictionary": False,
        "column_encoding": {"id": "BYTE_STREAM_SPLIT", "text": "DELTA_LENGTH_BYTE_ARRAY", "list.list.element": "PLAIN"},
    }
    files = {}
    for name, options in kinds.items():
        file = io.BytesIO()
        filters = {"id": {"ndv": 300, "fpp": 0.001}, "text": {"ndv": 90, "fpp": 0.01}}
        pq.write_table(TABLE, file, row_group_size=150, bloom_filter_options=filters, **options)
        files[name] = file.getvalue()
    return files


class File:
    """A valid file and the positions of its parts."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        (length,) = struct.unpack("<I", data[-8:-4])
        self.footer = len(data) - 8 - length
        self.metadata = data[self.footer : -8]
        self.spots = thrift.Walk(self.metadata, 0).spots

    def with_footer(self, metadata: bytes) -> bytes:
        """Return the file with other metadata and the correct length of this metadata."""
        return self.data[: self.footer] + metadata + struct.pack("<I", len(metadata)) + b"PAR1"

    def with_number(self, spot: thrift.Spot, replacement: bytes) -> bytes:
        """Return the file with one number of its metadata replaced."""
        return self.with_footer(self.metadata[: spot.start] + replacement + self.metadata[spot.end :])

    def numbers(self, field: str) -> list[thrift.Spot]:
        """Return the numbers of one field of every ColumnMetaData."""
        return [spot for spot in self.spots if spot.path.startswith("4.") and spot.path.endswith(f".3.{field}")]


def tails(file: File) -> Iterator[Damaged]:
    """Yield truncated files, and files with wrong lengths or magic bytes."""
    size, length = len(file.data), len(file.metadata)
    for end in [*range(13), *range(13, size, size // 20), file.footer, file.footer + 1, size - 9, size - 8, size - 1]:
        yield Damaged(f"cut at {end}", file.data[:end])
    for claimed_length in (0, 1, 4, length - 1, length + 1, size - 12, size - 8, size, 2**31 - 1, 2**31, 2**32 - 1):
        yield Damaged(f"footer of {claimed_length} bytes", file.data[:-8] + struct.pack("<I", claimed_length) + b"PAR1")
    for magic in (b"PARE", b"PAR2", b"\0\0\0\0", b"1RAP"):
        yield Damaged(f"magic {magic!r}", file.data[:-4] + magic)
    for end in range(0, length, max(1, length // 25)):
        yield Damaged(f"metadata cut at {end}", file.with_footer(file.metadata[:end]))
    for byte in (b"\x1c", b"\x19\x1c", b"\x19\x19", b"\xff", b"\0", b"\x15", b"\x1b"):
        yield Damaged(f"metadata of {byte!r}", file.with_footer(byte * 3000))
        yield Damaged(f"metadata that begin with {byte!r}", file.with_footer(byte * 200 + file.metadata))


def footers(file: File) -> Iterator[Damaged]:
    """Yield files with a wrong value for each number of the metadata."""
    seen: dict[str, int] = {}
    for spot in file.spots:
        # Skip repeated structures: the second row group and further list elements of the same shape add no case.
        shape = ".".join(
            "n" if place and part.isdigit() and int(part) > 20 else part
            for place, part in enumerate(spot.path.split("."))
        )
        if spot.path.startswith(("4.1", "5.1")) or seen.setdefault(shape, 0) > 0:
            continue
        seen[shape] += 1
        for description, replacement in thrift.wrong_values(file.metadata, spot):
            yield Damaged(
                f"field {spot.path} ({spot.kind} {spot.value}) says {description}", file.with_number(spot, replacement)
            )


def filters(file: File) -> Iterator[Damaged]:
    """Yield files with wrong offsets, lengths and headers of the filters of column `id`."""
    offset, length = file.numbers("14")[0], file.numbers("15")[0]
    header = thrift.Walk(file.data, offset.value)
    size = header.end - offset.value
    wrong_offsets = (
        -1,
        0,
        1,
        4,
        offset.value - 1,
        offset.value + 1,
        header.end,
        file.footer - 1,
        file.footer,
        len(file.data),
        2**31 - 1,
        2**62,
    )
    for value in wrong_offsets:
        yield Damaged(f"filter at {value}", file.with_number(offset, thrift.zigzag(value)), keeps=True)
    for value in (
        -(2**31),
        -1,
        0,
        1,
        size,
        size + 32,
        length.value - 32,
        length.value - 1,
        length.value + 1,
        length.value + 32,
        2**31 - 1,
    ):
        yield Damaged(f"filter of {value} bytes", file.with_number(length, thrift.zigzag(value)), keeps=True)
    for spot in header.spots:
        for description, replacement in thrift.wrong_values(file.data, spot):
            data = (
                file.data[: spot.start]
                + replacement[: spot.end - spot.start].ljust(spot.end - spot.start, b"\0")
                + file.data[spot.end :]
            )
            yield Damaged(f"filter header field {spot.path} says {description}", data, keeps=True)
    for position in range(offset.value, header.end):
        for byte in (0, 0x0C, 0x15, 0x19, 0x1C, 0x2C, 0x40, 0x7F, 0x80, 0xFF):
            if byte != file.data[position]:
                data = file.data[:position] + bytes([byte]) + file.data[position + 1 :]
                yield Damaged(f"filter header byte {position - offset.value} is {byte:#x}", data, keeps=True)


def pages(file: File) -> Iterator[Damaged]:
    """Yield files with wrong page headers, and with wrong sizes in the first bytes of page bodies."""
    starts = sorted(
        {spot.value for field in ("9", "11") for spot in file.numbers(field) if spot.path.startswith("4.0.")}
    )
    for place, start in enumerate(starts):
        walk = thrift.Walk(file.data, start)
        for spot in walk.spots:
            for description, replacement in thrift.wrong_values(file.data, spot):
                # Later pages move if the lengths differ, so their offsets are wrong too.
                data = file.data[: spot.start] + replacement + file.data[spot.end :]
                yield Damaged(f"page {place} field {spot.path} says {description}", data)
        for position in range(walk.end, walk.end + 12):
            for byte in (0x00, 0x7F, 0xFF):
                data = file.data[:position] + bytes([byte]) + file.data[position + 1 :]
                yield Damaged(f"page {place} body byte {position - walk.end} is {byte:#x}", data)
        for size in (b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\xff\xff\xff\x7f" * 3):
            data = file.data[: walk.end] + size + file.data[walk.end + len(size) :]
            yield Damaged(f"page {place} body begins with {size.hex()}", data)


def corpus() -> Iterator[Damaged]:
    """Yield all damaged files. Their names describe the damage."""
    for name, data in sound().items():
        file = File(data)
        kinds = [pages] if name not in ("snappy", "pages2") else [tails, footers, filters, pages]
        for kind in kinds:
            for damaged in kind(file):
                yield damaged._replace(name=f"{name}: {damaged.name}")


def main(folder: str) -> None:
    """Write all files of the corpus, numbered, and a list of their names."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    names = []
    for number, damaged in enumerate(corpus()):
        (Path(folder) / f"{number:05}.parquet").write_bytes(damaged.data)
        names.append(f"{number:05} {damaged.name}\n")
    (Path(folder) / "names.txt").write_text("".join(names))
    print(f"{len(names)} files")


if __name__ == "__main__":
    main(sys.argv[1])
