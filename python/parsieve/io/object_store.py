"""A store of obstore by its URI, with options by the names that deltalake and Polars take too."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from parsieve._core import UnsupportedError

_PROVIDERS = ("aws_", "azure_", "google_")
# What is about connections and not about one provider: obstore wants it apart, and panics where it is not.
_OF_CONNECTIONS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "default_content_type",
        "http1_only",
        "http2_keep_alive_interval",
        "http2_keep_alive_timeout",
        "http2_keep_alive_while_idle",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "randomize_addresses",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    }
)


def store_at(uri: str, options: Mapping[str, str] | None = None) -> Any:
    """The store whose root is at a URI.

    `UnsupportedError` where obstore is missing or makes no such store, `ValueError` where it refuses the options.
    """
    try:
        import obstore.store as stores
        from obstore.exceptions import BaseError
    except ImportError:
        raise UnsupportedError(f"{uri} needs the package obstore: pip install obstore") from None
    of_store: dict[str, str] = {}
    of_connections: dict[str, str] = {}
    for name, value in (options or {}).items():
        bare = name.lower()
        for provider in _PROVIDERS:
            bare = bare.removeprefix(provider)
        if bare in _OF_CONNECTIONS:
            of_connections[bare] = value
        else:
            of_store[name] = value
    from_url: Any = stores.from_url
    try:
        return from_url(uri, config=of_store, client_options=of_connections or None)
    except BaseError as error:
        said = str(error).partition("\n")[0]
        if options:
            raise ValueError(
                f"obstore makes no store at {uri} with these storage_options: {said} Options have obstore's names, "
                "such as aws_region, aws_access_key_id, aws_endpoint and aws_allow_http"
            ) from error
        raise UnsupportedError(f"obstore makes no store at {uri}: {said}") from error


@contextmanager
def os_errors(where: object) -> Iterator[None]:
    """Failures of a store as `OSError`, as those of other filesystems are: whoever reads evidence is ready for these.

    obstore's own have many lines of what its parts look like.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) or type(error).__module__ != "obstore.exceptions":
            raise
        said = str(error).partition("\n")[0]
        # The number tells it from what is wrong with a file's bytes.
        raise OSError(errno.EIO, f"{where}: {said}") from error
