"""Start the server."""

from __future__ import annotations

import errno
import ipaddress
import re
import shlex
import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from parsieve._core import UnsupportedError
from parsieve.server.app import local_app
from parsieve.server.open_sql import open_sql_catalog
from parsieve.server.rest_app import rest_app
from parsieve.server.rest_catalog import RestCatalog
from parsieve.server.settings import Limits
from parsieve.server.sql_catalog import LocalCatalog


@dataclass(frozen=True)
class Listening:
    """Where a server listens, and how."""

    host: str = "127.0.0.1"
    port: int = 8181
    tls_cert: str | None = None
    tls_key: str | None = None
    limits: Limits = field(default_factory=Limits)
    # Seconds to finish requests after a signal to stop.
    grace: int = 30


def serve(
    catalog_uri: str,
    listening: Listening,
    *,
    token: str | None,
    name: str = "default",
    options: dict[str, str],
    own_storage: bool = False,
) -> None:
    """Serve a catalog until a signal stops the process.

    Args:
        catalog_uri: The address of a SQL catalog or a REST catalog.
        listening: Where to listen, and the limits.
        token: The token that requests need. None lets everyone in, which only servers on this machine may do.
        name: The catalog's name in its database.
        options: Further properties of the catalog for pyiceberg.
        own_storage: Whether to read manifests with the server's own credentials if a REST catalog returns none.
    """
    uvicorn = _uvicorn()
    is_rest = catalog_uri.startswith(("http://", "https://"))
    if is_rest:
        _check_rest(catalog_uri, token, name, options)
    elif own_storage:
        raise ValueError("--own-storage is for REST catalogs; the server reads SQL catalogs with its own rights anyway")
    if token is None and not is_rest and not is_this_machine(listening.host):
        raise ValueError(
            f"{listening.host} can be reached from other machines, so requests need a token: pass --token-file"
        )
    if (listening.tls_cert is None) != (listening.tls_key is None):
        raise ValueError("TLS needs both --tls-cert and --tls-key")
    for file in filter(None, (listening.tls_cert, listening.tls_key)):
        # The errors of the library for TLS name no file.
        path = Path(file)
        if not path.exists():
            raise FileNotFoundError(f"no such file: {file}")
        # A pipe can be read only once.
        if not path.is_fifo():
            path.open("rb").close()
    check_address(listening.host, listening.port)
    app = (
        rest_app(RestCatalog(catalog_uri, listening.limits.seconds, own_storage=own_storage), listening.limits)
        if is_rest
        else local_app(LocalCatalog(open_sql_catalog(catalog_uri, name, options)), listening.limits, token)
    )
    try:
        uvicorn.run(
            app,
            host=listening.host,
            port=listening.port,
            ssl_certfile=listening.tls_cert,
            ssl_keyfile=listening.tls_key,
            timeout_graceful_shutdown=listening.grace,
            access_log=False,
            log_level="info",
            lifespan="off",
            # Otherwise uvicorn takes it from WEB_CONCURRENCY. Plans are in the memory of one process.
            workers=1,
        )
    except ssl.SSLError as error:
        raise ValueError(
            f"--tls-cert {listening.tls_cert} and --tls-key {listening.tls_key} are not the PEM files of a certificate "
            f"and its key: {error}"
        ) from None
    except OSError as error:
        # Python raises it if a key has a passphrase, and no terminal can prompt for it.
        if error.errno != errno.EINVAL or listening.tls_key is None:
            raise
        raise ValueError(
            f"--tls-key {listening.tls_key} needs a passphrase, and there is no terminal to ask for it; to write a key "
            f"without one, run: openssl pkey -in {shlex.quote(listening.tls_key)} -out NEW.pem"
        ) from None


def _check_rest(uri: str, token: str | None, name: str, options: dict[str, str]) -> None:
    """Raise an error for settings that do not apply to a server in front of a REST catalog."""
    if token is not None:
        raise ValueError("a REST catalog checks the tokens of callers itself; leave out --token-file")
    if options or name != "default":
        raise ValueError("--name and --property are for SQL catalogs; leave them out for a REST catalog")
    parts = urlsplit(uri)
    if "@" in parts.netloc:
        # requests would send them instead of the caller's token.
        raise ValueError("the address of a REST catalog must not contain a user or a password: callers send their own")
    if not parts.hostname or parts.query or parts.fragment:
        raise ValueError("the address of a REST catalog must have the form https://host/path")


def read_token(path: str) -> str:
    """Return the token in a file."""
    # Editors on Windows may put a mark before it.
    token = Path(path).read_text(encoding="utf-8-sig").strip()
    if len(token) < 16:
        raise ValueError(f"{path} has no token of at least 16 characters")
    if not re.fullmatch(r"[\x21-\x7e]+", token):
        raise ValueError(
            f"{path} must have one token of ASCII characters without spaces, because no client sends others"
        )
    return token


def is_this_machine(host: str) -> bool:
    """Return whether only this machine can reach an address.

    >>> from parsieve.server.run import is_this_machine
    >>> is_this_machine("127.0.0.1"), is_this_machine("0.0.0.0")
    (True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_address(host: str, port: int) -> None:
    """Raise an error if a server cannot listen at an address. uvicorn would only log it."""
    if not 0 <= port <= 65535:
        raise ValueError(f"--port must be a number from 0 to 65535, not {port}")
    try:
        family, kind, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(family, kind) as tried:
            # As uvicorn does, so that a server can be started again at once.
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(address)
    except OSError as error:
        hint = "; choose another --port" if error.errno in (errno.EADDRINUSE, errno.EACCES) else ""
        raise OSError(error.errno, f"cannot listen here: {error.strerror}{hint}", f"{host}:{port}") from None


def _uvicorn() -> Any:
    try:
        import starlette  # noqa: F401 - needed later
        import uvicorn
    except ImportError:
        raise UnsupportedError("the server needs more packages: pip install 'parsieve[serve]'") from None
    return uvicorn
