"""Plan requests: the body's fields, checked."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, NoReturn

from parsieve.predicate.messages import shortened
from parsieve.server.protocol.errors import bad_request, unsupported


@dataclass(frozen=True)
class PlanRequest:
    """The scan that a client wants to plan."""

    snapshot_id: int | None
    filter: Any
    select: tuple[str, ...]
    stats_fields: tuple[str, ...]
    case_sensitive: bool
    use_snapshot_schema: bool


def read_json(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a request's body."""
    try:
        document = json.loads(body, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError):
        raise bad_request("the body of the request is not JSON") from None
    if not isinstance(document, dict):
        raise bad_request("the body of the request is not a JSON object")
    return document


def _finite(text: str) -> float:
    """Return a number. One that is too large for a double could not be sent back, because JSON has no infinity."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(text)
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def read_plan_request(body: bytes) -> PlanRequest:
    """Return a plan request. `min-rows-requested` is a hint, and never leaves out files."""
    document = read_json(body)
    if document.get("start-snapshot-id") is not None or document.get("end-snapshot-id") is not None:
        raise unsupported("incremental scans are not planned by this server; plan them in the client")
    if "filter" in document and document["filter"] is None:
        raise bad_request("filter is null; leave it out to select all rows")
    _typed(document, "min-rows-requested", int, None)
    return PlanRequest(
        snapshot_id=_typed(document, "snapshot-id", int, None),
        filter=document.get("filter", True),
        select=_names(document, "select"),
        stats_fields=_names(document, "stats-fields"),
        case_sensitive=_typed(document, "case-sensitive", bool, True),
        use_snapshot_schema=_typed(document, "use-snapshot-schema", bool, False),
    )


def _typed(document: dict[str, Any], name: str, kind: type, default: Any) -> Any:
    value = document.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise bad_request(f"{name} must be of type {kind.__name__}, not {shortened(repr(value))}")
    return value


def _names(document: dict[str, Any], name: str) -> tuple[str, ...]:
    values = _typed(document, name, list, [])
    if not all(isinstance(value, str) for value in values):
        raise bad_request(f"{name} is not a list of names")
    return tuple(values)
