"""The exceptions that Python code raises. Their base class, `ParsieveError`, is in the compiled module."""

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from parsieve._core import ParsieveError

# How many files the message of a `FolderError` names.
SHOWN = 3


class ColumnNotFoundError(ParsieveError, KeyError):
    """The column does not exist, or its name matches several columns."""

    __module__ = "parsieve"
    # A KeyError would show its message in quotes.
    __str__ = Exception.__str__


class IndexNotFoundError(ParsieveError, FileNotFoundError):
    """The call needs an index, but the table has none."""

    __module__ = "parsieve"


class StaleIndexError(ParsieveError):
    """The plan was called with `stale="error"`, and the index is missing, unreadable or out of date."""

    __module__ = "parsieve"


class ParsieveWarning(UserWarning):
    """Warns that a part of a predicate skips no file, or that a call is slower than necessary. Results are right.

    >>> import warnings, parsieve as ps
    >>> warnings.simplefilter("ignore", ps.ParsieveWarning)
    """

    __module__ = "parsieve"


class ConflictError(ParsieveError):
    """Another process changed or removed a file during the call, so the call did not finish; try again."""

    __module__ = "parsieve"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return `; did you mean ...?` with the closest name, or an empty text if no name is close.

    >>> from parsieve.errors import did_you_mean
    >>> did_you_mean("custmer_id", ["order_id", "customer_id"])
    "; did you mean 'customer_id'?"
    >>> did_you_mean("x", ["order_id"])
    ''
    """
    folded: dict[str, str] = {}
    for candidate in names:
        folded.setdefault(candidate.casefold(), candidate)
    close = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    return f"; did you mean {folded[close[0]]!r}?" if close and folded[close[0]] != name else ""


# How many columns an error lists; the others are only counted.
COLUMNS_SHOWN = 20


def no_column(name: str, names: Sequence[str]) -> ColumnNotFoundError:
    """Return the error for a column that does not exist, with the closest name and the names that do exist.

    >>> from parsieve.errors import no_column
    >>> print(no_column("custmer_id", ["id", "customer_id"]))
    there is no column 'custmer_id'; did you mean 'customer_id'? The columns are: id, customer_id
    """
    hint = did_you_mean(name, names)
    listed = ", ".join(names[:COLUMNS_SHOWN]) + (
        f" and {len(names) - COLUMNS_SHOWN:,} more" if names[COLUMNS_SHOWN:] else ""
    )
    return ColumnNotFoundError(f"there is no column {name!r}{hint + ' The' if hint else '; the'} columns are: {listed}")


def not_indexed(name: str, names: Iterable[str]) -> ColumnNotFoundError:
    """Return the error for a column that is not indexed, with the closest one that is, and all that are.

    >>> from parsieve.errors import not_indexed
    >>> print(not_indexed("custmer_id", ["customer_id", "id"]))
    custmer_id is not indexed; did you mean 'customer_id'? Indexed columns: customer_id, id
    """
    names = sorted(names)
    hint = did_you_mean(name, names)
    return ColumnNotFoundError(
        f"{name} is not indexed{hint + ' Indexed' if hint else '; indexed'} columns: {', '.join(names) or 'none'}"
    )


def describe(error: BaseException, place: Any = None) -> str:
    """Return an error as one line. System errors name their path, or `place` if they have none.

    >>> from parsieve.errors import describe
    >>> describe(FileNotFoundError(2, "No such file or directory", "orders/a.parquet"))
    'orders/a.parquet: No such file or directory'
    >>> describe(OSError(28, "No space left on device"), "orders")
    'orders: No space left on device'
    """
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        path = place if error.filename is None else error.filename
        text = f"{os.fsdecode(path)}: {error.strerror}" if isinstance(path, str | bytes | os.PathLike) else text
    return " ".join(text.split()) or type(error).__name__


class FolderError(ParsieveError):
    """Some files of a folder failed; the others are done.

    `errors` maps the path of each file that failed to its exception. `report` is the report of the other files.
    """

    __module__ = "parsieve"

    def __init__(self, folder: str, errors: Mapping[str, Exception], report: Any, count: int) -> None:
        """Describe the failures of `count` files."""
        shown = [
            str(error) if path in str(error) else f"{path}: {error}" for path, error in list(errors.items())[:SHOWN]
        ]
        if len(errors) > SHOWN:
            shown.append(f"and {len(errors) - SHOWN} more (see .errors)")
        super().__init__(f"{len(errors)} of {count} files in {folder} failed: {'; '.join(shown)}")
        self.errors = dict(errors)
        self.report = report
        self._arguments = (folder, self.errors, report, count)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what makes the same error in another process."""
        return FolderError, self._arguments
