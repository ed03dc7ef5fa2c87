"""Map the errors of pyiceberg to those of parsieve."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from parsieve._core import FormatError, ParsieveError, UnsupportedError
from parsieve.lake.rows.file_rows import foreign


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Map all errors about the content of metadata to parsieve errors. I/O errors pass unchanged.

    pyiceberg and its decoder raise exceptions of many types for damaged files.
    """
    try:
        with foreign(what):
            yield
    except (ParsieveError, OSError, ImportError, MemoryError):
        raise
    except Exception as error:
        text = str(error) or type(error).__name__
        if isinstance(error, NotImplementedError) or "Unknown logical/physical type" in text:
            raise UnsupportedError(f"{what}: {text}") from error
        raise FormatError(f"{what}: {text}") from error
