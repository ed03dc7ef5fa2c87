"""Map the errors of pyiceberg to those of parsieve."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from parsieve._core import FormatError, ParsieveError, UnsupportedError
from parsieve.lake.rows.file_rows import foreign

# What pyiceberg says about types of columns, or of their defaults, that it does not know.
_UNKNOWN_TYPE = re.compile(r"Unsupported field type: '([^']*)'|type (\S+) not supported")


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
        if unknown := _UNKNOWN_TYPE.search(text):
            unsupported = f"columns of type {unknown[1]}" if unknown[1] else f"defaults of type {unknown[2]}"
            raise UnsupportedError(
                f"{what}: pyiceberg does not support {unsupported}; read the table with Spark"
            ) from error
        if isinstance(error, NotImplementedError) or "Unknown logical/physical type" in text:
            raise UnsupportedError(f"{what}: {text}") from error
        raise FormatError(f"{what}: {text}") from error
