"""Open obstore stores by URI, with the option names that deltalake and Polars also use."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from parsieve._core import UnsupportedError

_PROVIDERS = ("aws_", "azure_", "google_")
# Options of the HTTP client. obstore takes them as a separate argument, and panics if they are among the others.
_CLIENT_OPTIONS = frozenset(
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
    """Return the store whose root is a URI.

    Raises:
        UnsupportedError: obstore is not installed or does not support the URI.
        ValueError: obstore does not accept the options.
    """
    try:
        import obstore.store as stores
        from obstore.exceptions import BaseError
    except ImportError:
        raise UnsupportedError(f"{uri} needs the package obstore: pip install obstore") from None
    store_options: dict[str, str] = {}
    client_options: dict[str, str] = {}
    for name, value in (options or {}).items():
        bare = name.lower()
        for provider in _PROVIDERS:
            bare = bare.removeprefix(provider)
        if bare in _CLIENT_OPTIONS:
            client_options[bare] = value
        else:
            store_options[name] = value
    from_url: Any = stores.from_url
    try:
        return from_url(uri, config=store_options, client_options=client_options or None)
    except BaseError as error:
        reason = str(error).partition("\n")[0]
        if options:
            raise ValueError(
                f"obstore cannot open {uri} with these storage_options: {reason} Use the option names of obstore, "
                "such as aws_region, aws_access_key_id, aws_endpoint and aws_allow_http"
            ) from error
        raise UnsupportedError(f"obstore cannot open {uri}: {reason}") from error


@contextmanager
def os_errors(where: object) -> Iterator[None]:
    """Raise errors of obstore as `OSError`, like other filesystems, with only the first line of the message."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) or type(error).__module__ != "obstore.exceptions":
            raise
        reason = str(error).partition("\n")[0]
        # An OSError with a number means that the storage failed; one without means that the file's bytes are wrong.
        raise OSError(errno.EIO, f"{where}: {reason}") from error
