"""An upstream REST catalog. Every request to it has the headers of the caller, and so the caller's own rights."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from parsieve.server.protocol.errors import too_busy, unsupported

# Headers that belong to one connection.
_PER_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host", "content-length"}
_PER_HOP |= {"proxy-authenticate", "proxy-authorization"}
# Headers that describe the body of the plan request, or allow an answer without the table.
_OF_THE_REQUEST = {"content-type", "content-encoding", "accept-encoding", "if-none-match", "idempotency-key"}

# Settings of Iceberg clients that are credentials for object stores.
_CREDENTIAL = re.compile(
    r"(s3|client|gcs|adls|oss)\..*(access-key|secret|token|account-key|connection-string|credential)"
)


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

    def __init__(self, uri: str, seconds: float, *, own_storage: bool = False) -> None:
        """Open a catalog. With `own_storage`, the server reads manifests even if the catalog returns no credentials."""
        self._uri = uri.rstrip("/")
        self._seconds = seconds
        self._own_storage = own_storage

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
        rights = self.storage_rights(document)
        if rights is None:
            raise unsupported(
                "the catalog returned no storage credentials for this table, so the server may not read its manifests; "
                "let the client plan, or start the server with --own-storage"
            )
        loaded = TableResponse.model_validate(document)
        location = str(loaded.metadata_location)
        io = load_file_io(rights, location)
        return _digest(headers, rights), Table((target,), loaded.metadata, location, io, None)  # type: ignore[arg-type]

    def storage_rights(self, document: Mapping[str, Any]) -> dict[str, str] | None:
        """Return the caller's settings for the storage of a loaded table, or None if the server must not read it."""
        location = document.get("metadata", {}).get("location", "")
        # Not the table's properties: their writers must not choose the server's endpoints and classes.
        rights = {name: value for name, value in document.get("config", {}).items() if name != "py-io-impl"}
        for credential in sorted(document.get("storage-credentials") or (), key=lambda one: len(one["prefix"])):
            if location.startswith(credential["prefix"]):
                rights |= credential["config"]
        is_local = "://" not in location or location.startswith("file://")
        return rights if is_local or self._own_storage or any(map(_CREDENTIAL.match, rights)) else None

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
