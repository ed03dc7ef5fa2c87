"""Map the errors of the package `hudi` to those of parsieve."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from parsieve._core import UnsupportedError


@contextmanager
def hudi_errors(problem: str) -> Iterator[None]:
    """Map the exceptions of the package, which does not export them, to `UnsupportedError`.

    It panics for some schemas. A panic is not an `Exception`.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__name__ not in ("HudiCoreError", "PanicException"):
            raise
        raise UnsupportedError(f"{problem}: {error}") from error
