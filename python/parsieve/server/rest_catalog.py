"""An upstream REST catalog. Every request to it has the headers of the caller, and so the caller's own rights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from parsieve.server.protocol.errors import too_busy

# Headers that belong to one connection.
_PER_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host", "content-length"}
_PER_HOP |= {"proxy-authenticate", "proxy-authorization"}
# Headers that describe the body of the plan request, or allow an answer without the table.
_OF_THE_REQUEST = {"content-type", "content-encoding", "accept-encoding", "if-none-match", "idempotency-key"}


@dataclass(frozen=True)
class Answer:
    """An answer of the upstream catalog, with its body as the network delivers it."""

    status: int
    headers: dict[str, str]
    body: Iterator[bytes]


class UpstreamError(Exception):
    """The upstream catalog refused to load a table."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"the catalog answered {status}")
        self.status = status
        self.body = body


class RestCatalog:
    """Forwards requests to a REST catalog. Threads may share it."""

    def __init__(self, uri: str, seconds: float) -> None:
        self._uri = uri.rstrip("/")
        self._seconds = seconds

    def forward(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send a request on as it is, and return the answer as it is."""
        response = self._send(method, target, _forwarded(headers), body)
        kept = {name: value for name, value in response.headers.items() if name.lower() not in _PER_HOP}
        return Answer(response.status_code, kept, response.raw.stream(1 << 16, decode_content=False))

    def json(self, target: str, headers: Mapping[str, str]) -> Any:
        """Return the JSON document at an address, or raise the refusal of the catalog."""
        chosen = {name: value for name, value in _forwarded(headers).items() if name not in _OF_THE_REQUEST}
        response = self._send("GET", target, chosen, b"")
        if response.status_code != 200:
            raise UpstreamError(response.status_code, response.content)
        return response.json()

    def table(self, target: str, headers: Mapping[str, str]) -> tuple[str, Any]:
        """Load a table with the caller's rights. Return the table, and a text that identifies the rights."""
        from pyiceberg.catalog.rest import TableResponse
        from pyiceberg.io import load_file_io
        from pyiceberg.table import Table

        document = self.json(target, headers)
        loaded = TableResponse.model_validate(document)
        # Not the table's properties: their writers must not choose the server's endpoints and classes.
        rights = {name: value for name, value in loaded.config.items() if name != "py-io-impl"}
        for credential in sorted(loaded.storage_credentials, key=lambda one: len(one.prefix)):
            if loaded.metadata.location.startswith(credential.prefix):
                rights |= credential.config
        location = str(loaded.metadata_location)
        io = load_file_io(rights, location)
        return _digest(headers, rights), Table((target,), loaded.metadata, location, io, None)  # type: ignore[arg-type]

    def _send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Any:
        import requests

        # A session would keep cookies, which belong to one caller.
        with requests.Session() as session:
            session.trust_env = False
            request = requests.Request(method, self._uri + target, headers=dict(headers), data=body or None).prepare()
            try:
                return session.send(request, stream=True, allow_redirects=False, timeout=self._seconds)
            except requests.RequestException:
                raise too_busy("the upstream catalog did not answer") from None


def caller(headers: Mapping[str, str]) -> str:
    """Return a text that differs between callers, without their secrets."""
    return _digest(headers, {})


def _digest(headers: Mapping[str, str], rights: Mapping[str, str]) -> str:
    secrets = [headers.get("authorization", ""), headers.get("cookie", ""), sorted(rights.items())]
    return hashlib.sha256(json.dumps(secrets).encode()).hexdigest()


def _forwarded(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items() if name.lower() not in _PER_HOP}
