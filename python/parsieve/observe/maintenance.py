"""Count, log and trace the index methods of a table."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from parsieve.observe import counters, spans
from parsieve.observe.logs import INDEX, place, summary


class Indexed(Protocol):
    """A table with an index."""

    @property
    def uri(self) -> str:
        """The table's folder."""


Arguments = ParamSpec("Arguments")
Report = TypeVar("Report")
Kind = TypeVar("Kind", bound=Indexed)
Method = Callable[Concatenate[Kind, Arguments], Report]
# The counters of operations that have one.
_COUNTED = {"build": "index_builds", "convert": "index_builds", "update": "index_updates"}


def maintains(operation: str) -> Callable[[Method[Kind, Arguments, Report]], Method[Kind, Arguments, Report]]:
    """Decorate an index method of a table, which returns a report: it gets a counter, a line in the log and a span."""

    def decorate(method: Method[Kind, Arguments, Report]) -> Method[Kind, Arguments, Report]:
        @wraps(method)
        def observed(table: Kind, /, *args: Arguments.args, **options: Arguments.kwargs) -> Report:
            where = place(table.uri)
            with spans.span(f"parsieve.{operation}_index", **{"parsieve.table": where}) as attributes:
                report = method(table, *args, **options)
                if attributes is not None:
                    attributes["parsieve.report"] = summary(report)
            if operation in _COUNTED:
                counters.add(**{_COUNTED[operation]: 1})
            INDEX.info("%s index of %s: %s", operation, where, summary(report))
            return report

        return observed

    return decorate
