"""The exceptions that Rust code does not raise; their base class is `parsieve._core.ParsieveError`."""

from collections.abc import Mapping
from typing import Any

from parsieve._core import ParsieveError

# Files that the message of a `FolderError` names.
SHOWN = 3


class ColumnNotFoundError(ParsieveError, KeyError):
    """A column that is not there, or a name that fits several."""

    __module__ = "parsieve"
    # A KeyError would show its message in quotes.
    __str__ = Exception.__str__


class IndexNotFoundError(ParsieveError, FileNotFoundError):
    """No column of the table is indexed where what was asked for needs an index."""

    __module__ = "parsieve"


class StaleIndexError(ParsieveError):
    """The index does not hold the table as it is, or there is none, and the caller wants no plan without it."""

    __module__ = "parsieve"


class ConflictError(ParsieveError):
    """Another process changed a file in the meantime; nothing was replaced."""

    __module__ = "parsieve"


class FolderError(ParsieveError):
    """Some files of a folder failed; the others are done.

    `errors` maps the path of each file that failed to its exception. `report` is what the function would have
    returned for the other files.
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
