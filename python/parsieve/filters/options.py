"""The options of `add_filters`, and the columns that they choose."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from parsieve._typing import LeafPath
from parsieve.filters.open import Decryption, ParquetFile

Columns = LeafPath | Sequence[LeafPath] | Mapping[Any, Any]

# The default limit of other writers, too.
MAX_BYTES = 128 << 20
# The sizes that the format allows: one block, and the most blocks that fit into the 32 bits of a filter's header.
SMALLEST_FILTER, LARGEST_FILTER = 32, (1 << 31) - 32


class FilterSize(NamedTuple):
    """How large the filters of a column may be."""

    fpp: float
    max_bytes: int


@dataclass(frozen=True, slots=True)
class AddOptions:
    """The options of `add_filters`, which describes them."""

    columns: Columns = "auto"
    fpp: float = 0.01
    max_bytes: int = MAX_BYTES
    encryption: Decryption | None = None
    existing: str = "replace"
    hard_links: str = "refuse"
    in_place: bool = False
    upload: bool = False
    threads: int | None = None
    dry_run: bool = False

    @property
    def is_automatic(self) -> bool:
        """Whether the values decide which columns get filters."""
        return isinstance(self.columns, str) and self.columns == "auto"

    @property
    def size(self) -> FilterSize:
        """The size of filters of columns without separate options."""
        return FilterSize(self.fpp, self.max_bytes)


def checked_fpp(fpp: Any, name: str = "fpp") -> float:
    """Return a false positive rate as a number between 0 and 1; an error shows a valid value."""
    if isinstance(fpp, bool) or not isinstance(fpp, (numbers.Real, Decimal)):
        raise TypeError(f"{name} must be a number between 0 and 1, such as 0.01 for 1%, not {fpp!r}")
    if not 0 < float(fpp) < 1:
        raise ValueError(f"{name} must be between 0 and 1 (exclusive), such as 0.01 for 1%, not {fpp!r}")
    return float(fpp)


def checked_max_bytes(max_bytes: Any, name: str = "max_bytes") -> int:
    """Return the limit of a filter's size; an error shows the smallest valid one."""
    if isinstance(max_bytes, bool) or not isinstance(max_bytes, numbers.Integral):
        raise TypeError(f"{name} must be a number of bytes, not {max_bytes!r}")
    if max_bytes < SMALLEST_FILTER:
        raise ValueError(f"{name} must be at least {SMALLEST_FILTER}, not {max_bytes}")
    return min(int(max_bytes), LARGEST_FILTER)


def column_list(columns: Any) -> list[LeafPath]:
    """Return a list of columns from one column, by its name or tuple of names, or from several."""
    if isinstance(columns, (str, tuple)):
        return [columns]
    if isinstance(columns, Iterable):
        return list(columns)
    raise TypeError(f"columns must be names, or a dict of options by name, not {type(columns).__qualname__}")


def chosen_columns(file: ParquetFile, options: AddOptions) -> dict[int, FilterSize]:
    """Return the numbers of the columns that the caller named, with the size of their filters."""
    columns = options.columns
    if not isinstance(columns, Mapping):
        return {file.number_of(column): options.size for column in column_list(columns)}
    chosen = {}
    for column, of_column in columns.items():
        number = file.number_of(column)
        if of_column is True:
            chosen[number] = options.size
        elif isinstance(of_column, Mapping):
            # `ndv` and `fold` are allowed but ignored: they are for writers that do not count the values.
            if unknown := of_column.keys() - {"ndv", "fpp", "fold", "max_bytes"}:
                raise ValueError(f"unknown options of column {column!r}: {', '.join(sorted(map(str, unknown)))}")
            fpp = of_column.get("fpp")
            fpp = options.fpp if fpp is None else checked_fpp(fpp, f"fpp of column {column!r}")
            max_bytes = checked_max_bytes(
                of_column.get("max_bytes", options.max_bytes), f"max_bytes of column {column!r}"
            )
            chosen[number] = FilterSize(fpp, max_bytes)
        elif of_column not in (False, None):
            raise TypeError(f"the options of column {column!r} must be a dict or True, not {of_column!r}")
    return chosen
