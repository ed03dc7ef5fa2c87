"""Recognize files that another program has completed: Parquet files with a readable footer."""

from __future__ import annotations

from parsieve._core import Fetched, FileReader, FormatError, ParsieveError
from parsieve.io import fd as descriptors

# A Parquet file begins with one of these, and ends with the length of its footer and one of these.
MAGICS = (b"PAR1", b"PARE")
TAIL = 8


def read_footer(fd: int) -> bytes:
    """Return the footer of a Parquet file with its length and the magic number, or the last bytes of another file."""
    size = descriptors.size(fd)
    tail = descriptors.read_range(fd, max(size - TAIL, 0), size)
    return descriptors.read_range(fd, max(size - TAIL - int.from_bytes(tail[:4], "little"), 0), size)


def is_complete(fd: int) -> bool:
    """Return whether a file begins and ends like a Parquet file, with a footer that can be read."""
    size = descriptors.size(fd)
    first, last = descriptors.read_range(fd, 0, 4), descriptors.read_range(fd, max(size - TAIL, 0), size)
    length = int.from_bytes(last[:4], "little")
    if first not in MAGICS or last[4:] not in MAGICS or not 0 < length <= size - TAIL - len(first):
        return False
    fetched = Fetched()
    try:
        while True:
            needed, opened = FileReader.open(size, fetched)
            if opened is not None:
                return True
            for start, end in needed:
                data = descriptors.read_range(fd, start, end)
                if len(data) < end - start:
                    # Another program is writing to the file.
                    return False
                fetched.insert(start, data)
    except FormatError:
        return False
    except ParsieveError:
        # The footer is encrypted, or has a feature that parsieve does not support.
        return True
