"""Spans for OpenTelemetry, if the application uses it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

# Values that a span's attribute can have.
Value = str | bool | int | float


def start(name: str, **attributes: Value) -> Any:
    """Start a span and return it, or return None if the application has not imported OpenTelemetry.

    An application that exports spans has imported `opentelemetry.trace`, so parsieve never imports it.
    """
    trace = sys.modules.get("opentelemetry.trace")
    # Another thread may be importing it.
    tracer = getattr(trace, "get_tracer", None)
    return None if tracer is None else tracer("parsieve").start_span(name, attributes=attributes)


def end(span: Any, attributes: Mapping[str, Value]) -> None:
    """End a span, with attributes that are known now."""
    span.set_attributes(attributes)
    span.end()


@contextmanager
def span(name: str, **attributes: Value) -> Iterator[dict[str, Value] | None]:
    """Wrap a span around a block, which may add attributes to the yielded dict. Errors are recorded.

    Yields None if the application has not imported OpenTelemetry.
    """
    started = start(name, **attributes)
    if started is None:
        yield None
        return
    later: dict[str, Value] = {}
    trace = sys.modules["opentelemetry.trace"]
    try:
        # This makes the span the parent of spans inside of the block, and records errors.
        with trace.use_span(started, end_on_exit=False, record_exception=True, set_status_on_exception=True):
            yield later
    finally:
        end(started, later)
