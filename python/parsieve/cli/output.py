"""Print tables, JSON, notes and errors, in color on terminals."""

from __future__ import annotations

import codecs
import json
import logging
import os
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from parsieve.cli.texts.hints import in_shell

STYLES = {"bold": "1", "dim": "2", "red": "1;31", "yellow": "1;33"}


def write(text: str) -> None:
    """Print text to standard output. Errors name it, so that they differ from errors of files and connections.

    If its reader has closed it, discard the text. The command goes on, because its exit code may report a failure.
    """
    try:
        print(text)
    except BrokenPipeError:
        discard(sys.stdout)
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from None


def flush() -> None:
    """Write all that was printed. Python would print errors of this at exit."""
    try:
        # It is None if the shell closed it (>&-).
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        discard(sys.stdout)
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from None


def discard(stream: TextIO | None) -> None:
    """Discard the rest of an output stream. Otherwise Python would write its buffer at exit, and fail again."""
    if stream is not None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _shown(text: str) -> str:
    """Return a message for a terminal: hints in terms of the shell, and names of files without control characters."""
    return "\n".join(map(cell, in_shell(text).split("\n")))


def _write_aside(text: str) -> None:
    """Print text to standard error. If that fails, only the exit code reports the result."""
    # `print` takes None for standard output.
    if sys.stderr is None:
        return
    try:
        print(text, file=sys.stderr)
    except OSError:
        # In a notebook, the stream has no file.
        with suppress(OSError):
            discard(sys.stderr)


class Console:
    """Prints data to standard output, and notes, warnings and errors to standard error."""

    def __init__(self, *, as_json: bool = False, quiet: bool = False, verbose: int = 0, color: str = "auto") -> None:
        self.as_json = as_json
        self.quiet = quiet
        self.verbose = verbose
        self._color = color

    def styled(self, text: str, style: str, stream: TextIO | None) -> str:
        """Return the text with a style if the stream shows colors."""
        return f"\033[{STYLES[style]}m{text}\033[0m" if text and in_color(self._color, stream) else text

    def line(self, text: str) -> None:
        """Print a line of data."""
        write(text)

    def json(self, data: Any) -> None:
        """Print data as JSON."""
        write(json.dumps(data, indent=2, allow_nan=False, default=str))

    def table(self, names: Sequence[str], rows: Sequence[dict[str, Any]], right: Sequence[str] = ()) -> None:
        """Print rows under the names of their columns; numbers, and the columns in `right`, are aligned right."""
        cells = [list(names)] + [[cell(row.get(name)) for name in names] for row in rows]
        widths = [max(_width(line[at]) for line in cells) for at in range(len(names))]
        to_right = [name in right or all(not isinstance(row.get(name), str) for row in rows) for name in names]
        for number, line in enumerate(cells):
            padded = [
                " " * (width - _width(text)) + text if is_right else text + " " * (width - _width(text))
                for text, width, is_right in zip(line, widths, to_right, strict=True)
            ]
            text = "  ".join(padded).rstrip()
            write(text if number else self.styled(text, "bold", sys.stdout))

    def note(self, text: str) -> None:
        """Print a summary or a hint, unless `--quiet` or `--json` is set."""
        if not self.quiet and not self.as_json:
            _write_aside(self.styled(_shown(text), "dim", sys.stderr))

    def warn(self, text: str, kind: str = "warning") -> None:
        """Print a warning: as one line of text, or as one line of JSON with `--json`."""
        if self.as_json:
            _write_aside(json.dumps({"warning": {"type": kind, "message": in_shell(text)}}))
        else:
            _write_aside(f"parsieve: {self.styled('warning:', 'yellow', sys.stderr)} {_shown(text)}")

    def error(self, text: str, kind: str) -> None:
        """Print an error: as one line of text, or as one line of JSON with `--json`."""
        if self.as_json:
            _write_aside(json.dumps({"error": {"type": kind, "message": in_shell(text)}}))
        else:
            _write_aside(f"{self.styled('parsieve:', 'red', sys.stderr)} {_shown(text)}")

    @contextmanager
    def logging(self) -> Iterator[None]:
        """Show the log of `parsieve.*`: warnings, or from INFO on with `-v`, DEBUG with `-vv`, ERROR with `-q`."""
        logger = logging.getLogger("parsieve")
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_Formatter("%(name)s: %(message)s"))
        # The commands print the reports.
        handler.addFilter(lambda record: not getattr(record, "is_in_report", False))
        before = logger.level
        level = logging.ERROR if self.quiet else [logging.WARNING, logging.INFO, logging.DEBUG][min(self.verbose, 2)]
        logger.setLevel(level)
        logger.addHandler(handler)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(before)


class _Formatter(logging.Formatter):
    """Formats lines of the log, with their hints in terms of the command line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        return _shown(super().format(record))


def in_color(choice: str, stream: TextIO | None) -> bool:
    """Return whether to color a stream's output: `always`, `never`, or `auto` for terminals that show colors.

    >>> import io
    >>> from parsieve.cli.output import in_color
    >>> in_color("auto", io.StringIO()), in_color("always", io.StringIO())
    (False, True)
    """
    if choice != "auto":
        return choice == "always"
    # A closed stream is None.
    if stream is None:
        return False
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def cell(value: Any) -> str:
    r"""Return the text of a value in a table, with escapes for what would break its line or control the terminal.

    >>> from parsieve.cli.output import cell
    >>> print(cell("two\nlines"), cell(("address", "zip")), cell(None))
    two\nlines address.zip -
    """
    if value is None:
        return "-"
    text = ".".join(value) if isinstance(value, tuple) else str(value)
    if text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode("ascii") if unicodedata.category(character) in _ESCAPED else character
        for character in text
    )


# Control characters, halves of surrogate pairs, and separators of lines.
_ESCAPED = ("Cc", "Cs", "Zl", "Zp")


def _width(text: str) -> int:
    """Return how many cells of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in text
    )


def print_any_text() -> None:
    """Let standard output print every text in any encoding. A report must not fail after the work is done."""

    def escaped(error: UnicodeError) -> tuple[bytes, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        # Keep the bytes of names that are not UTF-8, so that other programs find the files.
        parts = (
            bytes([ord(character) - 0xDC00])
            if "\udc80" <= character <= "\udcff"
            else character.encode("ascii", "backslashreplace")
            for character in error.object[error.start : error.end]
        )
        return b"".join(parts), error.end

    codecs.register_error("parsieve", escaped)
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="parsieve")


def seconds(number: float) -> str:
    """Return a duration as text.

    >>> from parsieve.cli.output import seconds
    >>> seconds(0.0031), seconds(0.42), seconds(95.2)
    ('3 ms', '420 ms', '95 s')
    """
    if number < 1:
        return f"{max(1, round(number * 1000))} ms"
    return f"{number:.1f} s" if number < 10 else f"{number:,.0f} s"
