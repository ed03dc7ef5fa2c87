"""Ctrl-C for work in threads: the command line requests a stop, and long loops check for it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# The exit code of a program that SIGINT ended.
EXIT_CODE = 130

_requested = threading.Event()


def check() -> None:
    """Raise `KeyboardInterrupt` in a worker thread if the user pressed Ctrl-C.

    >>> from parsieve.io import interrupts
    >>> interrupts.check()
    """
    if _requested.is_set():
        raise KeyboardInterrupt


def requested() -> bool:
    """Return whether the user pressed Ctrl-C."""
    return _requested.is_set()


@contextmanager
def handled(*, until_exit: bool = False) -> Iterator[None]:
    """Stop worker threads on the first Ctrl-C, and exit immediately on the second.

    Afterwards the previous handler is restored; with `until_exit`, Ctrl-C then ends the process without a traceback.
    """
    _requested.clear()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, _on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if until_exit or before is None else before)


def _on_interrupt(_: int, __: FrameType | None) -> None:
    if _requested.is_set():
        os._exit(EXIT_CODE)
    _requested.set()
    raise KeyboardInterrupt
