"""The limits of a server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of a server. Requests beyond them get an error."""

    # Bytes of a request's body.
    body: int = 4 << 20
    # Requests that are answered at the same time, and that may wait for their turn.
    max_plans: int = 8
    waiting: int = 256
    # Seconds until a request is given up.
    seconds: float = 60.0
    # Files in one answer. Plans with more files are handed out in parts.
    page_size: int = 2000
