"""An upstream REST catalog. Every request to it has the headers of the caller, and so the caller's own rights."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from parsieve._core import UnsupportedError
from parsieve.server.protocol.errors import RequestError, bad_gateway, too_busy, unknown_outcome, unsupported

_LOGGER = logging.getLogger("parsieve.server")

# Headers that belong to one connection.
_PER_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host", "content-length"}
_PER_HOP |= {"proxy-authenticate", "proxy-authorization"}
# Headers that describe the body of the plan request, or allow an answer without the table.
_OF_THE_REQUEST = {"content-type", "content-encoding", "accept-encoding", "if-none-match", "idempotency-key"}

# Settings of Iceberg clients that are credentials for object stores.
_CREDENTIAL = re.compile(
    r"(s3|client|gcs|adls|oss)\..*(access-key|secret|token|account-key|connection-string|credential)"
)


# The schemes of the addresses that credentials are for, by the first part of their names.
_S3 = {"s3", "s3a", "s3n"}
_SCHEMES = {"s3": _S3, "client": _S3, "gcs": {"gs", "gcs"}, "adls": {"abfs", "abfss", "wasb", "wasbs"}, "oss": {"oss"}}


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


class ForeignStorageError(UnsupportedError):
    """A table's metadata name a file that only the server itself has a right to read."""


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

    def json(self, target: str, headers: Mapping[str, str]) -> dict[str, Any]:
        """Return the JSON document at an address, or raise the refusal of the catalog."""
        chosen = {name: value for name, value in _forwarded(headers).items() if name not in _OF_THE_REQUEST}
        import requests

        response = self._send("GET", target, chosen, b"")
        try:
            content = response.content
        except requests.RequestException as error:
            raise _no_answer("GET", error) from None
        if response.status_code != 200:
            raise UpstreamError(response.status_code, content)
        try:
            document = json.loads(content)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise bad_gateway("the answer of the upstream catalog is not a JSON object")
        return document

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
                "let the client plan (scan-planning-mode=client), or start the server with --own-storage"
            )
        try:
            loaded = TableResponse.model_validate(
                {name: value for name, value in document.items() if value is not None}
            )
        except ValueError as error:
            raise unsupported(
                f"pyiceberg cannot read the metadata of this table, so let the client plan: {error}"
            ) from None
        # A catalog need not return it.
        location = loaded.metadata_location or ""
        io = load_file_io(rights, location or loaded.metadata.location)
        if not self._own_storage:
            # Any writer of the table can choose the paths in its metadata.
            io = _confined(io, _schemes_of(rights, str(loaded.metadata.location)))
        return _digest(headers, rights), Table((target,), loaded.metadata, location, io, None)  # type: ignore[arg-type]

    def storage_rights(self, document: Mapping[str, Any]) -> dict[str, str] | None:
        """Return the caller's settings for the storage of a loaded table, or None if the server must not read it."""
        location = (document.get("metadata") or {}).get("location", "")
        # Not the table's properties: their writers must not choose the server's endpoints and classes.
        rights = {name: value for name, value in (document.get("config") or {}).items() if name != "py-io-impl"}
        for credential in sorted(document.get("storage-credentials") or (), key=lambda one: len(one["prefix"])):
            if location.startswith(credential["prefix"]):
                rights |= credential["config"]
        return rights if _is_local(location) or self._own_storage or any(map(_CREDENTIAL.match, rights)) else None

    def _send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Any:
        import requests

        # A session would keep cookies, which belong to one caller.
        with requests.Session() as session:
            session.trust_env = False
            # Without the environment, requests also ignores its settings for authorities, which are no secrets.
            session.verify = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True
            request = requests.Request(method, self._uri + target, headers=dict(headers), data=body or None).prepare()
            try:
                return session.send(request, stream=True, allow_redirects=False, timeout=self._seconds)
            except requests.RequestException as error:
                raise _no_answer(method, error) from None


def is_read(method: str) -> bool:
    """Return whether requests with a method change nothing."""
    return method in ("GET", "HEAD")


def _no_answer(method: str, error: Exception) -> RequestError:
    """Log why the upstream catalog did not answer, and return the error for the caller."""
    from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

    reason = getattr(error.args[0] if error.args else None, "reason", None) or error
    # The texts of other errors contain the address of the request.
    shown = reason if reason is not error else type(error).__name__
    _LOGGER.warning("the upstream catalog did not answer: %s", shown)
    message = "the upstream catalog did not answer"
    was_not_sent = isinstance(reason, ConnectTimeoutError | NewConnectionError)
    return too_busy(message) if is_read(method) or was_not_sent else unknown_outcome(message)


def _is_local(location: str) -> bool:
    return "://" not in location or location.startswith("file://")


def _schemes_of(rights: Mapping[str, str], location: str) -> set[str]:
    """Return the schemes of the addresses that a caller's rights to a table are for."""
    granted = {scheme for name in rights if (match := _CREDENTIAL.match(name)) for scheme in _SCHEMES[match[1]]}
    return granted | ({"file"} if _is_local(location) else set())


def _confined(io: Any, schemes: set[str]) -> Any:
    """Return an object that opens files with these schemes only. For others, it would use the server's credentials."""

    def new_input(self: Any, location: str) -> Any:
        # A path without a scheme is local, also with a colon in a name.
        scheme = urlsplit(location).scheme or "file"
        if scheme not in schemes:
            raise ForeignStorageError(
                f"the table's metadata name files with {scheme}: addresses, for which the catalog returned no storage "
                "credentials, so the server may not read them; let the client plan"
            )
        return type(io).new_input(self, location)

    return type("ConfinedFileIO", (type(io),), {"new_input": new_input})(io.properties)


def caller(headers: Mapping[str, str]) -> str:
    """Return a text that differs between callers, without their secrets."""
    return _digest(headers, {})


def _digest(headers: Mapping[str, str], rights: Mapping[str, str]) -> str:
    secrets = [headers.get("authorization", ""), headers.get("cookie", ""), sorted(rights.items())]
    return hashlib.sha256(json.dumps(secrets).encode()).hexdigest()


def _forwarded(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items() if name.lower() not in _PER_HOP}
