"""`main`: run one command, and turn errors into one line and an exit code."""

from __future__ import annotations

import argparse
import errno
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from parsieve._core import ParsieveError
from parsieve.cli.output import Console, discard, flush, print_any_text
from parsieve.cli.parser import UsageError, read_early
from parsieve.errors import describe
from parsieve.io import interrupts

_EXPECTED = (ParsieveError, OSError, ValueError, TypeError, ImportError, OverflowError)
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    >>> from parsieve.cli import main
    >>> main(["size", "1000", "--fpp", "0.01"])
    bytes  bits per value  false positives
    2,048           16.38            0.12%
    0
    """
    is_program = arguments is None
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    console = Console(**read_early(arguments))
    if is_program:
        print_any_text()
    try:
        with interrupts.handled(until_exit=is_program):
            return _run(arguments, console)
    except KeyboardInterrupt:
        return _interrupted(console, is_program)
    except Exception as error:
        # Some libraries raise their own error when Ctrl-C stops them.
        if interrupts.requested():
            return _interrupted(console, is_program)
        if isinstance(error, UsageError):
            console.error(str(error), "UsageError")
            raise SystemExit(2) from None
        raise


def _run(arguments: list[str], console: Console) -> int:
    from parsieve.cli.commands import build_parser

    options = argparse.Namespace()
    try:
        with warnings.catch_warnings(), console.logging():
            warnings.showwarning = _shown_by(console)
            options = build_parser().parse_args(arguments, argparse.Namespace(console=console))
            code: int = options.run(options)
        flush()
    except BaseException as error:
        try:
            flush()
        except OSError:
            discard(sys.stdout)
        is_expected = isinstance(error, _EXPECTED) or _is_of_arrow(error)
        if not is_expected or interrupts.requested():
            raise
        console.error(_message(error, options), type(error).__name__)
        code = 2
    return code


def _is_of_arrow(error: BaseException) -> bool:
    """Return whether pyarrow raised an error. Some of its errors have no other base class."""
    return any(kind.__name__ == "ArrowException" for kind in type(error).__mro__)


def _message(error: BaseException, options: argparse.Namespace) -> str:
    """Return the error as one line that names the file or table."""
    text = describe(error, getattr(options, "file", None))
    # Another location of the index does not help with a data file. pyarrow's errors name it only in their text.
    is_forbidden = isinstance(error, OSError) and error.errno in _READ_ONLY and ".parquet" not in text
    could_be_elsewhere = options.parser.prog.startswith("parsieve index ") and options.index_location is None
    # Errors of the index itself give the hint in terms of Python.
    if is_forbidden and could_be_elsewhere and "index_location=" not in text:
        text += " (to keep the index elsewhere, use --index-location)"
    return text


def _interrupted(console: Console, is_program: bool) -> int:
    if sys.stderr is not None and sys.stderr.isatty():
        # The line contains a progress bar, or the ^C that the terminal prints.
        print(file=sys.stderr)
    console.error("interrupted", "KeyboardInterrupt")
    if is_program:
        # Nothing is left to clean up, and nothing should wait for threads that have not noticed yet.
        if sys.stderr is not None:
            sys.stderr.flush()
        os._exit(interrupts.EXIT_CODE)
    return interrupts.EXIT_CODE


def _shown_by(console: Console) -> Any:
    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        console.warn(str(message), category.__name__)

    return show
