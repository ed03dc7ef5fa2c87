"""Format numbers with nouns and units for messages."""

from __future__ import annotations


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun in the right form.

    >>> count(1, "file"), count(2, "file"), count(1_000, "entry", "entries")
    ('1 file', '2 files', '1,000 entries')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def size(num_bytes: float) -> str:
    """Return a number of bytes in the largest fitting unit.

    >>> size(512), size(3 << 20)
    ('512 B', '3.0 MiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if num_bytes < 1024:
            return f"{num_bytes:.0f} {unit}" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1024
    return f"{num_bytes:.1f} TiB"
