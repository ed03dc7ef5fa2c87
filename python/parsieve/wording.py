"""Format numbers with nouns and units for messages."""

from __future__ import annotations


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun in the right form.

    >>> count(1, "file"), count(2, "file"), count(1_000, "entry", "entries")
    ('1 file', '2 files', '1,000 entries')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def size(num_bytes: float, of: float | None = None) -> str:
    """Return a number of bytes in decimal units. With `of`, return a part and its whole in the same unit.

    >>> size(999), size(16_100_000), size(78_000_000, of=305_000_000)
    ('999 bytes', '16.1 MB', '78 of 305 MB')
    """
    largest = num_bytes if of is None else of
    power = 0
    while round(largest / 1000**power) >= 1000 and power + 1 < len(_UNITS):
        power += 1
    numbers = [num_bytes] if of is None else [num_bytes, of]
    return f"{' of '.join(_rounded(number / 1000**power) for number in numbers)} {_UNITS[power]}"


_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


def _rounded(number: float) -> str:
    """Format a number with at most one decimal, and with none from 100 on."""
    return f"{number:,.0f}" if number >= 100 or number == int(number) else f"{number:.1f}"
