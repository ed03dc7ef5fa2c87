"""The exceptions that no Rust code raises; their family is `parsieve._core`'s."""

from parsieve._core import ParsieveError


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
    """Another process changed or removed a file meanwhile, so the call did not finish; try again."""

    __module__ = "parsieve"
